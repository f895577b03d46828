//! A host's replica of the index: a hash table by linear hashing, read without locks.
//!
//! One thread at a time changes it, holding the [`Writer`]; any number read. Readers take a
//! snapshot of a bucket's chain under its version (a seqlock over plain atomics) and check that the
//! table did not split that bucket meanwhile. The table grows by one bucket at a time, so nobody
//! ever waits for a rehash.
//!
//! Left out: shrinking.

mod bucket;
#[cfg(all(test, loom))]
mod models;
mod scan;

use std::iter::Chain;
use std::{option, vec};

use smallvec::SmallVec;
use tombolo_memory::{LINE_BYTES, Local, Memory};

use bucket::{Arena, Bucket, CELLS, Spot, next_in};
pub(crate) use bucket::{Cell, Entry};

use crate::event::{KeyHash, SlotLine};
use crate::seen::{Seen, UNSEEN};
use crate::sync::{AtomicU64, Ordering};

/// Entries per bucket, on average, above which the table grows; in tenths.
const LOAD_TENTHS: u64 = 40;

/// Lines of a bucket.
const LINES: u64 = size_of::<Bucket>() as u64 / LINE_BYTES;

/// Sizes of the table; tests use tiny ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexLimits {
    /// Buckets that are allocated at once, a power of two.
    pub segment_buckets: u64,
    /// How often, at most.
    pub segments: u64,
}

impl IndexLimits {
    /// The limits of one of `parts` tables that share these.
    pub(crate) fn of_one_of(self, parts: u64) -> Self {
        Self { segment_buckets: (self.segment_buckets / parts).max(1), ..self }
    }
}

impl Default for IndexLimits {
    /// Segments of 2 MiB, up to 10^9 buckets: some 4 * 10^9 objects.
    fn default() -> Self {
        Self { segment_buckets: 1 << 14, segments: 1 << 16 }
    }
}

/// An entry as it was found, and where.
#[derive(Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) entry: Entry,
    /// What this host has seen of it.
    pub(crate) seen: Seen,
    pub(crate) cell: &'a Cell,
}

impl<'a> Found<'a> {
    /// The entry there, if there is one.
    #[inline(always)]
    fn at(spot: Spot<'a>) -> Option<Self> {
        let (entry, seen) = spot.entry_and_seen()?;
        Some(Self { entry, seen, cell: spot.cell })
    }
}

/// The entries with one hash; hardly ever more than one.
#[derive(Default)]
pub(crate) struct Matches<'a> {
    first: Option<Found<'a>>,
    others: Vec<Found<'a>>,
}

impl<'a> Matches<'a> {
    #[inline]
    fn extend(&mut self, found: Option<Found<'a>>) {
        if self.first.is_none() {
            self.first = found;
        } else {
            self.others.extend(found);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Found<'a>> {
        self.first.iter().chain(&self.others)
    }
}

impl<'a> IntoIterator for Matches<'a> {
    type Item = Found<'a>;
    type IntoIter = Chain<option::IntoIter<Found<'a>>, vec::IntoIter<Found<'a>>>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.others)
    }
}

pub(crate) struct Index {
    main: Arena,
    overflow: Arena,
    /// How many buckets of `main` are in use.
    buckets: AtomicU64,
    entries: AtomicU64,
}

/// What changing the index takes: at most one thread has it.
#[derive(Default)]
pub(crate) struct Writer {
    /// Overflow buckets that are not in a chain.
    spare: Vec<u64>,
    overflow_used: u64,
}

impl Index {
    pub(crate) fn new(limits: IndexLimits) -> Self {
        let main = Arena::new(limits.segment_buckets, limits.segments);
        main.grow(0).expect("an index has at least one segment");
        Self {
            overflow: Arena::new(limits.segment_buckets, limits.segments),
            main,
            buckets: AtomicU64::new(limits.segment_buckets),
            entries: AtomicU64::new(0),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// How many entries it takes before chains grow without bound.
    pub(crate) fn capacity(&self) -> u64 {
        self.main.capacity() * LOAD_TENTHS / 10
    }

    /// Bytes of local memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.main.bytes() + self.overflow.bytes()
    }

    /// All entries with `hash`, as they stood at one instant.
    pub(crate) fn find<M: Memory>(&self, memory: &M, hash: KeyHash) -> Matches<'_> {
        memory.step();
        self.touched(memory, hash, false);
        match self.try_head(hash) {
            Some((found, true)) => Matches { first: Some(found), others: Vec::new() },
            _ => self.find_in_chain(memory, hash),
        }
    }

    #[cold]
    fn find_in_chain<M: Memory>(&self, memory: &M, hash: KeyHash) -> Matches<'_> {
        loop {
            let mut found = Matches::default();
            if self.try_chain(hash, |spot| {
                let found_here = Found::at(spot);
                found.extend(found_here.filter(|found| found.entry.hash == hash));
            }) {
                return found;
            }
            memory.pause();
        }
    }

    /// An entry with `hash`, as it stood at one instant, and whether it is known to have been the only one: hardly ever is
    /// there another, so who wants one of a certain key need not look further at once.
    #[inline(always)]
    pub(crate) fn find_one<M: Memory>(
        &self,
        memory: &M,
        hash: KeyHash,
    ) -> (Option<Found<'_>>, bool) {
        memory.step();
        self.touched(memory, hash, false);
        match self.try_head(hash) {
            Some((found, alone)) => (Some(found), alone),
            None => self.find_one_in_chain(memory, hash),
        }
    }

    /// The same, if it is in the first bucket of its chain, and that does not change meanwhile; it may not be the only one.
    #[inline(always)]
    pub(crate) fn find_at_once<M: Memory>(&self, memory: &M, hash: KeyHash) -> Option<Found<'_>> {
        memory.step();
        self.touched(memory, hash, false);
        Some(self.try_head(hash)?.0)
    }

    #[cold]
    fn find_one_in_chain<M: Memory>(&self, memory: &M, hash: KeyHash) -> (Option<Found<'_>>, bool) {
        let mut all = self.find(memory, hash).into_iter();
        (all.next(), all.next().is_none())
    }

    /// Has the processor fetch what it takes to find `hash`.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        if let Some(head) = self.main.get(bucket_number(hash, self.bucket_count())) {
            head.prefetch();
        }
    }

    /// How many buckets there are.
    #[inline(always)]
    fn bucket_count(&self) -> u64 {
        // Pairs with the release store in `split`: a new bucket is filled before it counts.
        self.buckets.load(Ordering::Acquire)
    }

    /// An entry with `hash` in the first bucket of its chain, and whether it is known to be the only one; `None` if there is none
    /// there, or the bucket changes meanwhile.
    #[inline(always)]
    fn try_head(&self, hash: KeyHash) -> Option<(Found<'_>, bool)> {
        let buckets = self.bucket_count();
        let head = self.main.get(bucket_number(hash, buckets))?;
        // It is known only from one line whether another is needed; that is too late to ask for it.
        head.prefetch();
        let header = head.stable_header()?;
        let matches = head.cells_with(hash);
        let found = Found::at(head.spot(matches.trailing_zeros() as usize)?)?;
        let alone = matches.is_power_of_two() && next_in(header).is_none();
        self.is_still(head, header, hash, buckets).then_some((found, alone))
    }

    /// Whether what was found in a chain when there were so many buckets was there at one instant.
    #[inline(always)]
    fn is_still(&self, head: &Bucket, header: u64, hash: KeyHash, buckets: u64) -> bool {
        let same_number = |now| bucket_number(hash, now) == bucket_number(hash, buckets);
        let same = |now| now == buckets || same_number(now);
        head.is_still(header) && same(self.buckets.load(Ordering::Relaxed))
    }

    /// Tells what of this host's memory it takes to find, or to change, entries with `hash`.
    #[inline]
    pub(crate) fn touched<M: Memory>(&self, memory: &M, hash: KeyHash, write: bool) {
        memory.touches(Local::Index, write, || {
            let first = LINES * bucket_number(hash, self.buckets.load(Ordering::Relaxed));
            first..first + LINES
        });
    }

    /// The entry of the object in `slot`, as it stands.
    #[inline]
    pub(crate) fn find_slot<M: Memory>(
        &self,
        memory: &M,
        hash: KeyHash,
        slot: SlotLine,
    ) -> Option<Found<'_>> {
        let is_it = |found: &Found<'_>| found.entry.slot == slot;
        let at_once = self.find_at_once(memory, hash).filter(is_it);
        at_once.or_else(|| self.find(memory, hash).into_iter().find(is_it))
    }

    /// Shows every spot that may hold `hash` to `look`; whether they were all of one instant.
    #[inline(always)]
    fn try_chain<'a>(&'a self, hash: KeyHash, mut look: impl FnMut(Spot<'a>)) -> bool {
        let buckets = self.bucket_count();
        let Some(head) = self.main.get(bucket_number(hash, buckets)) else { return false };
        let Some(header) = head.stable_header() else { return false };
        head.spots().for_each(&mut look);
        let mut next = next_in(header);
        // A chain that changes meanwhile may look endless.
        for _ in 0..self.overflow.capacity() {
            let Some(bucket) = next.and_then(|number| self.overflow.get(number)) else { break };
            bucket.spots().for_each(&mut look);
            if !head.is_still(header) {
                return false;
            }
            next = bucket.next();
        }
        self.is_still(head, header, hash, buckets)
    }

    pub(crate) fn insert(&self, writer: &mut Writer, entry: Entry) {
        let number = bucket_number(entry.hash, self.buckets.load(Ordering::Relaxed));
        let head = self.head(number);
        head.begin_change();
        self.add_to_chain(writer, head, entry, UNSEEN);
        head.end_change();
        let entries = self.entries.fetch_add(1, Ordering::Relaxed) + 1;
        if entries * 10 > self.buckets.load(Ordering::Relaxed) * LOAD_TENTHS {
            self.split(writer);
        }
    }

    /// Replaces the entry of the object in `slot` by what `change` makes of it; `None` leaves it.
    pub(crate) fn update<M: Memory>(
        &self,
        memory: &M,
        hash: KeyHash,
        slot: SlotLine,
        change: impl FnOnce(Entry) -> Option<Entry>,
    ) -> Option<Entry> {
        let head = self.head(bucket_number(hash, self.buckets.load(Ordering::Relaxed)));
        let (spot, entry) = self.locate(head, hash, slot)?;
        let changed = change(entry)?;
        head.begin_change();
        spot.cell.renew(memory, changed);
        head.end_change();
        Some(entry)
    }

    /// Removes the entry of the object in `slot` if `wanted` agrees.
    pub(crate) fn remove(
        &self,
        hash: KeyHash,
        slot: SlotLine,
        wanted: impl FnOnce(Entry) -> bool,
    ) -> Option<Entry> {
        let head = self.head(bucket_number(hash, self.buckets.load(Ordering::Relaxed)));
        let (spot, entry) = self.locate(head, hash, slot)?;
        if !wanted(entry) {
            return None;
        }
        head.begin_change();
        spot.take();
        head.end_change();
        self.entries.fetch_sub(1, Ordering::Relaxed);
        Some(entry)
    }

    /// All entries with `hash`, for the holder of the writer.
    pub(crate) fn with_hash(&self, hash: KeyHash) -> impl Iterator<Item = Entry> {
        let head = self.head(bucket_number(hash, self.buckets.load(Ordering::Relaxed)));
        self.chain(head)
            .flat_map(Bucket::spots)
            .filter(move |spot| spot.has_hash(hash))
            .filter_map(|spot| spot.entry())
    }

    /// All entries, for the holder of the writer.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        (0..self.buckets.load(Ordering::Relaxed))
            .flat_map(|number| self.chain(self.head(number)))
            .flat_map(Bucket::spots)
            .filter_map(|spot| spot.entry())
    }

    fn locate<'a>(
        &'a self,
        head: &'a Bucket,
        hash: KeyHash,
        slot: SlotLine,
    ) -> Option<(Spot<'a>, Entry)> {
        let spots = self.chain(head).flat_map(Bucket::spots);
        spots
            .filter(|spot| spot.has_hash(hash))
            .find_map(|spot| Some((spot, spot.entry().filter(|entry| entry.slot == slot)?)))
    }

    /// The buckets of a chain, for the holder of the writer.
    fn chain<'a>(&'a self, head: &'a Bucket) -> impl Iterator<Item = &'a Bucket> {
        std::iter::successors(Some(head), |bucket| {
            bucket.next().and_then(|number| self.overflow.get(number))
        })
    }

    fn add_to_chain(&self, writer: &mut Writer, head: &Bucket, entry: Entry, seen: Seen) {
        let empty = |bucket: &&Bucket| bucket.spots().any(|spot| spot.entry().is_none());
        let bucket = self.chain(head).find(empty).unwrap_or_else(|| {
            let number = writer.spare.pop().unwrap_or_else(|| {
                writer.overflow_used += 1;
                writer.overflow_used - 1
            });
            let bucket = self.overflow.grow(number).expect("the index is over its capacity");
            bucket.set_next(None);
            let last = self.chain(head).last().unwrap_or(head);
            last.set_next(Some(number));
            bucket
        });
        let spot = bucket.spots().find(|spot| spot.entry().is_none());
        spot.expect("the bucket has an empty cell").set(entry, seen);
    }

    /// Grows the table by one bucket, which takes its share of another one's entries.
    pub(crate) fn split(&self, writer: &mut Writer) {
        let buckets = self.buckets.load(Ordering::Relaxed);
        let Some(new) = self.main.grow(buckets) else { return };
        let old = self.head(buckets - (1 << buckets.ilog2()));
        old.begin_change();
        let mut all: SmallVec<[(Entry, Seen); 2 * CELLS]> = SmallVec::new();
        for spot in self.chain(old).flat_map(Bucket::spots) {
            all.extend(spot.take());
        }
        self.release_overflow(writer, old);
        new.set_next(None);
        for (entry, seen) in all {
            let goes = bucket_number(entry.hash, buckets + 1) == buckets;
            self.add_to_chain(writer, if goes { new } else { old }, entry, seen);
        }
        self.buckets.store(buckets + 1, Ordering::Release);
        old.end_change();
    }

    fn release_overflow(&self, writer: &mut Writer, head: &Bucket) {
        let mut next = head.next();
        head.set_next(None);
        while let Some(number) = next {
            writer.spare.push(number);
            next = self.overflow.get(number).and_then(Bucket::next);
        }
    }

    fn head(&self, number: u64) -> &Bucket {
        self.main.get(number).expect("buckets in use are allocated")
    }
}

/// The bucket for `hash` in a table of `buckets`, a number that grows by one at a time.
#[inline(always)]
fn bucket_number(hash: KeyHash, buckets: u64) -> u64 {
    let mask = u64::MAX >> buckets.leading_zeros();
    let wide = u64::from(hash) & mask;
    if wide < buckets { wide } else { wide & (mask >> 1) }
}
