//! A host's replica of the index: a hash table by linear hashing with partial expansions, read
//! without locks.
//!
//! One thread at a time changes it, holding the [`IndexWriter`]; any number read. Readers take a
//! snapshot of a bucket's chain under its version (a seqlock over plain atomics) and check that the
//! table did not grow there meanwhile. It grows by one bucket at a time, so nobody ever waits for a
//! rehash.
//!
//! Left out: shrinking.

mod bucket;
mod cell;
mod entry;
mod growth;
#[cfg(all(test, loom))]
mod models;
mod scan;
mod split;
pub(crate) mod validated;

use std::iter::Chain;
use std::{option, vec};

use tombolo_memory::{LINE_BYTES, Local, Memory};

pub(crate) use bucket::Found;
use bucket::{Arena, CELLS, Head, NUMBER_BITS, OVERFLOW_CELLS, PlacedBucket, Spot, next_in};
pub(crate) use cell::{Cell, ToNote};
pub(crate) use entry::{Entry, Sharing};
use growth::{LEAST, Size, bucket_number};

use crate::ids::{KeyHash, SlotLine};
use crate::storage::index::validated::{NEVER_VALIDATED, ValidatedAt};
use crate::storage::records::Sets;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Lines of the first bucket of a chain.
const LINES: u64 = size_of::<Head>() as u64 / LINE_BYTES;

type PlacedHead<'a> = PlacedBucket<'a, AtomicU64, CELLS>;
type PlacedOverflow<'a> = PlacedBucket<'a, AtomicU32, OVERFLOW_CELLS>;

/// Buckets that there are from the start: the number of their group is part of each hash.
const MIN_BUCKETS: u64 = LEAST << NUMBER_BITS;

/// Sizes of the table; tests use small ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexLimits {
    /// Buckets that are allocated at once, a power of two; 1024 at least.
    pub segment_buckets: u64,
    /// How often, at most. There is no more than a pod has room for.
    pub segments: u64,
    /// Entries per bucket, on average, above which the table grows; in thousandths.
    pub load_permille: u64,
}

impl IndexLimits {
    /// The limits of one of `parts` tables that share these, in a pod of so many objects at most:
    /// any of them may have all.
    pub(crate) fn of_one_of(self, parts: u64, objects: u64) -> Self {
        let segment_buckets = (self.segment_buckets / parts).max(MIN_BUCKETS);
        // There are as many again for what overflows, which hardly ever takes a third of them.
        let buckets = (objects * 1000 / self.load_permille.max(1)).max(objects / 2);
        let segments = self.segments.min(1 + buckets / segment_buckets);
        Self { segment_buckets, segments, ..self }
    }
}

impl Default for IndexLimits {
    /// Segments of 4 MiB, and half of that for notes of what is seen: huge pages, both. Up to 5 *
    /// 10^8 buckets: some 3 * 10^9 objects.
    fn default() -> Self {
        Self { segment_buckets: 1 << 15, segments: 1 << 14, load_permille: 6250 }
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
    fn push(&mut self, found: Found<'a>) {
        if self.first.is_none() {
            self.first = Some(found);
        } else {
            self.others.push(found);
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
    main: Arena<AtomicU64, CELLS>,
    overflow: Arena<AtomicU32, OVERFLOW_CELLS>,
    /// Entries per bucket, on average, above which the table grows; in thousandths.
    load_permille: u64,
    /// How many buckets of `main` are in use: a [`Size`].
    size: AtomicU64,
    entries: AtomicU64,
}

/// Which entries of a chain.
#[derive(Clone, Copy)]
enum Of {
    /// Those with a certain hash.
    Hash,
    /// All; the hash is like theirs.
    Chain,
}

/// A lookup that has begun: the bucket that heads the chain has been asked for. Work that does not
/// depend on it is best done before the lookup goes on.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'a> {
    hash: KeyHash,
    head: PlacedHead<'a>,
    /// How many buckets there were.
    size: Size,
}

impl Probe<'_> {
    /// Whether it would begin with the same bucket if there were so many.
    #[inline(always)]
    fn is_the_same_in(self, size: Size) -> bool {
        #[cold]
        fn same_number(hash: KeyHash, one: Size, other: Size) -> bool {
            bucket_number(hash, one) == bucket_number(hash, other)
        }
        size == self.size || same_number(self.hash, size, self.size)
    }
}

/// The right to change the index: at most one thread has it.
#[derive(Default)]
pub(crate) struct IndexWriter {
    /// Overflow buckets that are not in a chain.
    spare: Vec<u64>,
    overflow_used: u64,
}

impl Index {
    /// An empty index of a pod whose records form these sets.
    pub(crate) fn new(limits: IndexLimits, sets: &Sets) -> Self {
        let IndexLimits { segment_buckets, segments, load_permille } = limits;
        assert!(segment_buckets >= MIN_BUCKETS, "a segment of {segment_buckets} buckets");
        let main = Arena::new(segment_buckets, segments, sets.clone());
        main.grow(0).expect("an index has at least one segment");
        Self {
            overflow: Arena::new(segment_buckets, segments, sets.clone()),
            main,
            load_permille,
            size: AtomicU64::new(Size::of(segment_buckets).0),
            entries: AtomicU64::new(0),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// How many entries it takes before chains grow without bound.
    pub(crate) fn capacity(&self) -> u64 {
        self.main.capacity() * self.load_permille / 1000
    }

    /// Bytes of local memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.main.bytes() + self.overflow.bytes()
    }

    /// All entries with `hash`, as they stood at one instant.
    pub(crate) fn find<M: Memory>(&self, memory: &M, hash: KeyHash) -> Matches<'_> {
        memory.step();
        self.touched(memory, hash, false);
        match self.begin_lookup(hash).and_then(|lookup| self.try_head(lookup, drop)) {
            Some((found, true)) => Matches { first: Some(found), others: Vec::new() },
            _ => self.find_in_chain(memory, hash),
        }
    }

    #[cold]
    fn find_in_chain<M: Memory>(&self, memory: &M, hash: KeyHash) -> Matches<'_> {
        loop {
            let mut found = Matches::default();
            if self.try_chain(hash, |found_here| found.push(found_here)) {
                return found;
            }
            memory.pause();
        }
    }

    /// An entry with `hash`, as it stood at one instant, and whether it is known to have been the
    /// only one: hardly ever is there another, so who wants one of a certain key need not look
    /// further at once.
    #[inline(always)]
    pub(crate) fn find_one<M: Memory>(
        &self,
        memory: &M,
        hash: KeyHash,
    ) -> (Option<Found<'_>>, bool) {
        memory.step();
        self.touched(memory, hash, false);
        match self.begin_lookup(hash).and_then(|lookup| self.try_head(lookup, drop)) {
            Some((found, alone)) => (Some(found), alone),
            None => self.find_one_in_chain(memory, hash),
        }
    }

    /// The same, if its chain does not change meanwhile; it may not be the only one. `on_slot`
    /// learns as early as possible of a slot where it may be.
    #[inline(always)]
    pub(crate) fn find_at_once<'a, M: Memory>(
        &'a self,
        memory: &M,
        lookup: Probe<'a>,
        on_slot: impl FnOnce(SlotLine),
    ) -> Option<Found<'a>> {
        memory.step();
        self.touched(memory, lookup.hash, false);
        self.try_head(lookup, on_slot).map(|(found, _)| found).or_else(|| self.try_overflow(lookup))
    }

    /// The same, if it takes no more than the bucket that every lookup begins with; if it may, that
    /// is fetched.
    #[inline(always)]
    pub(crate) fn find_or_fetch<'a, M: Memory>(
        &'a self,
        memory: &M,
        lookup: Probe<'a>,
    ) -> Option<Found<'a>> {
        memory.step();
        self.touched(memory, lookup.hash, false);
        let found = self.try_head(lookup, drop).map(|(found, _)| found);
        if found.is_none() {
            self.prefetch_overflow(lookup);
        }
        found
    }

    /// Has the processor fetch the bucket of a chain after its first.
    #[inline(never)]
    fn prefetch_overflow(&self, lookup: Probe<'_>) {
        let next = lookup.head.bucket.next();
        next.and_then(|next| self.overflow.get(next))
            .into_iter()
            .for_each(PlacedOverflow::prefetch);
    }

    #[cold]
    fn find_one_in_chain<M: Memory>(&self, memory: &M, hash: KeyHash) -> (Option<Found<'_>>, bool) {
        let mut all = self.find(memory, hash).into_iter();
        (all.next(), all.next().is_none())
    }

    /// Begins a lookup: has the processor fetch the bucket that heads the chain for `hash`. All of
    /// it, since from one line alone it is known too late whether another is needed. The result is
    /// checked against how many buckets there were, so whatever comes in between may change the
    /// table.
    #[inline(always)]
    pub(crate) fn begin_lookup(&self, hash: KeyHash) -> Option<Probe<'_>> {
        let size = self.size();
        let head = self.main.get(bucket_number(hash, size))?;
        head.prefetch();
        Some(Probe { hash, head, size })
    }

    /// Has the processor fetch what it takes to find `hash`.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        let _ = self.begin_lookup(hash);
    }

    /// How many buckets there are.
    #[inline(always)]
    fn size(&self) -> Size {
        // Pairs with the release store in `split`: a new bucket is filled before it counts.
        Size(self.size.load(Ordering::Acquire))
    }

    /// The same, for the holder of the writer, or who knows already.
    #[inline(always)]
    fn size_as_seen(&self) -> Size {
        Size(self.size.load(Ordering::Relaxed))
    }

    /// An entry with `hash` in the first bucket of its chain, and whether it is known to be the
    /// only one; `None` if there is none there, or the bucket changes meanwhile.
    #[inline(always)]
    fn try_head<'a>(
        &'a self,
        lookup: Probe<'a>,
        on_slot: impl FnOnce(SlotLine),
    ) -> Option<(Found<'a>, bool)> {
        let header = lookup.head.bucket.stable_header()?;
        let (found, alone) = lookup.head.first_with(lookup.hash, on_slot)?;
        let alone = alone && next_in(header).is_none();
        self.is_still(lookup, header).then_some((found, alone))
    }

    /// An entry with `hash` that was not in the first bucket of its chain. One in sixteen is there:
    /// it must not take much longer.
    #[inline(never)]
    fn try_overflow<'a>(&'a self, lookup: Probe<'a>) -> Option<Found<'a>> {
        let header = lookup.head.bucket.stable_header()?;
        let mut others = self.others_of_chain(lookup.head, header);
        let (found, _) = others.find_map(|more| more.first_with(lookup.hash, drop))?;
        self.is_still(lookup, header).then_some(found)
    }

    /// The buckets of a chain after its first, until its header is another.
    #[inline(always)]
    fn others_of_chain<'a>(
        &'a self,
        head: PlacedHead<'a>,
        header: u64,
    ) -> impl Iterator<Item = PlacedOverflow<'a>> {
        let get = |number| self.overflow.get(number);
        let next = move |more: &PlacedOverflow<'a>| {
            head.bucket.is_still(header).then(|| more.bucket.next()).flatten().and_then(get)
        };
        // A chain that changes meanwhile may look endless.
        let most = self.overflow.capacity() as usize;
        std::iter::successors(next_in(header).and_then(get), next).take(most)
    }

    /// Whether what a lookup found, when its chain's header was `header`, was there at one instant.
    #[inline(always)]
    fn is_still(&self, lookup: Probe<'_>, header: u64) -> bool {
        lookup.head.bucket.is_still(header) && lookup.is_the_same_in(self.size_as_seen())
    }

    /// Tells what of this host's memory it takes to find, or to change, entries with `hash`.
    #[inline]
    pub(crate) fn touched<M: Memory>(&self, memory: &M, hash: KeyHash, write: bool) {
        memory.touches(Local::Index, write, || {
            let number = bucket_number(hash, self.size_as_seen());
            // Notes are asked for with the bucket that they belong to.
            let with_notes = !write && self.main.get(number).is_some_and(|head| head.has_notes());
            let first = (LINES + 1) * number;
            first..first + LINES + u64::from(with_notes)
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
        let lookup = self.begin_lookup(hash);
        let at_once = lookup.and_then(|lookup| self.find_at_once(memory, lookup, drop));
        at_once.filter(is_it).or_else(|| self.find(memory, hash).into_iter().find(is_it))
    }

    /// Shows the entries with `hash` to `look`; whether they were all of one instant.
    #[inline(always)]
    fn try_chain<'a>(&'a self, hash: KeyHash, mut look: impl FnMut(Found<'a>)) -> bool {
        let Some(lookup) = self.begin_lookup(hash) else { return false };
        self.show_chain(lookup.head, hash, Of::Hash, &mut look)
            .is_some_and(|header| self.is_still(lookup, header))
    }

    /// Shows entries of a chain to `look`; its header by then, if it was not changing.
    #[inline(always)]
    fn show_chain<'a>(
        &'a self,
        head: PlacedHead<'a>,
        hash: KeyHash,
        of: Of,
        look: &mut impl FnMut(Found<'a>),
    ) -> Option<u64> {
        let header = head.bucket.stable_header()?;
        head.show(hash, of, look);
        self.others_of_chain(head, header).for_each(|more| more.show(hash, of, look));
        Some(header)
    }

    pub(crate) fn insert(&self, writer: &mut IndexWriter, entry: Entry) {
        let head = self.head_for(entry.hash);
        head.bucket.begin_change();
        self.add_to_chain(writer, head, &entry, NEVER_VALIDATED);
        head.bucket.end_change();
        let entries = self.entries.fetch_add(1, Ordering::Relaxed) + 1;
        if self.is_small_for(entries) {
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
        let head = self.head_for(hash);
        let spot = self.locate(head, hash, slot)?;
        let changed = change(spot.found.entry)?;
        head.bucket.begin_change();
        spot.renew(memory, &changed);
        head.bucket.end_change();
        Some(spot.found.entry)
    }

    /// Removes the entry of the object in `slot` if `wanted` agrees.
    pub(crate) fn remove(
        &self,
        hash: KeyHash,
        slot: SlotLine,
        wanted: impl FnOnce(Entry) -> bool,
    ) -> Option<Entry> {
        let head = self.head_for(hash);
        let Found { entry, cell, .. } = self.locate(head, hash, slot)?.found;
        if !wanted(entry) {
            return None;
        }
        head.bucket.begin_change();
        cell.take();
        head.bucket.end_change();
        self.entries.fetch_sub(1, Ordering::Relaxed);
        Some(entry)
    }

    /// All entries with `hash`, for the holder of the writer.
    pub(crate) fn with_hash(&self, hash: KeyHash) -> impl Iterator<Item = Entry> {
        self.spots_with(self.head_for(hash), hash).map(|spot| spot.found.entry)
    }

    /// All entries, for the holder of the writer.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        (0..self.size_as_seen().buckets())
            .flat_map(|number| self.spots(number))
            .map(|spot| spot.found.entry)
    }

    fn locate<'a>(
        &'a self,
        head: PlacedHead<'a>,
        hash: KeyHash,
        slot: SlotLine,
    ) -> Option<Spot<'a>> {
        self.spots_with(head, hash).find(|spot| spot.found.entry.slot == slot)
    }

    fn spots_with<'a>(
        &'a self,
        head: PlacedHead<'a>,
        hash: KeyHash,
    ) -> impl Iterator<Item = Spot<'a>> {
        let more = self.overflow_of(head).flat_map(move |bucket| bucket.spots_with(hash));
        head.spots_with(hash).chain(more)
    }

    /// All entries of a chain.
    fn spots(&self, number: u64) -> impl Iterator<Item = Spot<'_>> {
        let (head, like) = (self.head(number), number as KeyHash);
        head.spots(like).chain(self.overflow_of(head).flat_map(move |bucket| bucket.spots(like)))
    }

    /// The buckets of a chain after its first.
    fn overflow_of<'a>(&'a self, head: PlacedHead<'a>) -> impl Iterator<Item = PlacedOverflow<'a>> {
        let get = |number| self.overflow.get(number);
        std::iter::successors(head.bucket.next().and_then(get), move |more| {
            more.bucket.next().and_then(get)
        })
    }

    fn add_to_chain(
        &self,
        writer: &mut IndexWriter,
        head: PlacedHead<'_>,
        entry: &Entry,
        validated_at: ValidatedAt,
    ) {
        let mut more = self.overflow_of(head);
        if head.add(entry, validated_at) || more.any(|bucket| bucket.add(entry, validated_at)) {
            return;
        }
        let number = writer.spare.pop().unwrap_or_else(|| {
            writer.overflow_used += 1;
            writer.overflow_used - 1
        });
        let new = self.overflow.grow(number).expect("the index is over its capacity");
        new.bucket.set_next(None);
        assert!(new.add(entry, validated_at), "what is not in a chain is empty");
        match self.overflow_of(head).last() {
            Some(last) => last.bucket.set_next(Some(number)),
            None => head.bucket.set_next(Some(number)),
        }
    }

    fn head_for(&self, hash: KeyHash) -> PlacedHead<'_> {
        self.head(bucket_number(hash, self.size_as_seen()))
    }

    fn head(&self, number: u64) -> PlacedHead<'_> {
        self.main.get(number).expect("buckets in use are allocated")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use tombolo_simulator::{Config, Simulation, Trial};

    use super::*;
    use crate::storage::records::RecordId;

    #[test]
    fn each_table_may_have_all_objects_of_its_pod() {
        let limits = IndexLimits::default();
        let most = |limits: IndexLimits| {
            limits.segments * limits.segment_buckets * limits.load_permille / 1000
        };
        for objects in [0, 1_000, 1 << 20, 1 << 27] {
            let one_of_four = limits.of_one_of(4, objects);
            assert!(most(one_of_four) >= objects);
            assert!(one_of_four.segments <= 1 + objects / one_of_four.segment_buckets);
        }
        let sparse = IndexLimits { load_permille: 10, ..limits }.of_one_of(1, 1 << 20);
        assert!(most(sparse) >= 1 << 20 && sparse.segments < limits.segments);
        assert_eq!(limits.of_one_of(1, 1 << 50), limits);
    }

    #[test]
    fn what_overflows_is_found_at_once() {
        let limits = IndexLimits { segment_buckets: 1024, segments: 16, ..IndexLimits::default() };
        let (index, mut writer) = (Index::new(limits, &Sets::new(16)), IndexWriter::default());
        let mut dice = SmallRng::seed_from_u64(1);
        let hashes: BTreeSet<KeyHash> = (0..9_000).map(|_| dice.next_u32()).collect();
        for (&hash, slot) in hashes.iter().zip(1..) {
            index.insert(&mut writer, Entry::read_shared(hash, 1, slot));
        }
        let memory = Simulation::new(Config::default(), &Trial::new(1)).memory(0);
        let lookup = |hash| index.begin_lookup(hash).unwrap();
        let is_in_first = |&&hash: &&KeyHash| index.try_head(lookup(hash), drop).is_some();
        let in_first = hashes.iter().filter(is_in_first).count();
        let percent = in_first * 100 / hashes.len();
        assert!((92..95).contains(&percent), "of a hundred {percent} do not overflow");
        for (&hash, slot) in hashes.iter().zip(1..) {
            let found = index.find_at_once(&memory, lookup(hash), drop);
            assert_eq!(found.map(|found| found.entry.slot), Some(slot));
        }
        let other = lookup(!hashes.first().unwrap());
        assert!(index.find_at_once(&memory, other, drop).is_none());
    }

    #[test]
    fn what_there_is_room_for_makes_no_table_grow() {
        let limits = IndexLimits { segment_buckets: 1024, segments: 16, ..IndexLimits::default() };
        let (index, mut writer) = (Index::new(limits, &Sets::new(16)), IndexWriter::default());
        index.make_room(&mut writer, 10_000);
        let buckets = index.size_as_seen().buckets();
        assert_eq!(buckets, 10_000 * 1000 / limits.load_permille);
        let mut dice = SmallRng::seed_from_u64(1);
        for slot in 1..=10_000 {
            index.insert(&mut writer, Entry::read_shared(dice.next_u32(), 1, slot));
        }
        assert_eq!(index.size_as_seen().buckets(), buckets);
        index.make_room(&mut writer, u64::MAX >> 20);
        assert_eq!(index.size_as_seen().buckets(), 16 * 1024);
        assert_eq!(index.entries().count(), 10_000);
    }

    #[test]
    fn an_entry_takes_less_than_24_bytes_however_its_object_is_shared() {
        let limits = IndexLimits { segment_buckets: 1024, segments: 64, ..IndexLimits::default() };
        let (index, mut writer) = (Index::new(limits, &Sets::new(16)), IndexWriter::default());
        let memory = Simulation::new(Config::default(), &Trial::new(1)).memory(0);
        let mut dice = SmallRng::seed_from_u64(1);
        for number in 1..=320_000 {
            let hash = dice.next_u32();
            let entry = Entry::read_shared(hash, 1, number);
            index.insert(&mut writer, entry.shared(Sharing::record(RecordId(number as u32 % 16))));
            let written = index.find_slot(&memory, hash, number).unwrap();
            assert!(written.cell.mark_validated(1, NEVER_VALIDATED, 6, Ordering::Relaxed));
            if number > 150_000 && number % 1_000 == 0 {
                let each = index.bytes() as f64 / number as f64;
                assert!((20.0..24.0).contains(&each), "{each} bytes for each of {number} entries");
            }
        }
    }
}
