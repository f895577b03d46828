//! Buckets and where they are stored.
//!
//! A bucket is a header, and cells for some entries; in two cache lines for the first bucket of a
//! chain, in one for the others. A cell has three bytes of its hash: which bucket heads its chain
//! says the fourth.
//!
//! ```text
//!          header   hashes   slots    states   the header has
//! first    8 bytes  3 x 8    8 x 4    8 x 8    version of the chain, odd in a change (32 bits)
//!                                              next bucket of the chain, plus one (32 bits)
//! others   4 bytes  3 x 4    4 x 4    4 x 8    next bucket of the chain, plus one (32 bits)
//! ```
//!
//! Hashes lie byte by byte: one word has a byte of each cell's, so that all are compared at once.

use std::array::from_fn;

use tombolo_memory::{Memory, Table};

use super::Of;
use super::cell::{Cell, NoteTable, State};
use super::entry::Entry;
use crate::ids::{KeyHash, SlotLine};
use crate::storage::index::validated::ValidatedAt;
use crate::storage::records::Sets;
use crate::sync::{AtomicU32, AtomicU64, OnceLock, Ordering, fence};

/// Few under the model checker: what it has to look at grows with the square of what a reader
/// loads.
pub(super) const CELLS: usize = if cfg!(loom) { 2 } else { 8 };
pub(super) const OVERFLOW_CELLS: usize = if cfg!(loom) { 1 } else { 4 };

/// Bits of a hash that its bucket's number says, in a table that has at least so many buckets.
pub(super) const NUMBER_BITS: u32 = if cfg!(loom) { 0 } else { 8 };

/// Bytes of a hash that a cell has.
const HASH_BYTES: usize = if cfg!(loom) { 1 } else { 3 };

/// A word with as many bytes as its bucket has cells.
pub(super) trait BucketWord: Default {
    /// As large as a bucket.
    type Alignment;

    fn get(&self) -> u64;
    fn put(&self, word: u64);
}

#[repr(align(128))]
pub(super) struct TwoLines;

#[repr(align(64))]
pub(super) struct OneLine;

impl BucketWord for AtomicU64 {
    type Alignment = TwoLines;

    #[inline(always)]
    fn get(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    fn put(&self, word: u64) {
        self.store(word, Ordering::Relaxed);
    }
}

impl BucketWord for AtomicU32 {
    type Alignment = OneLine;

    #[inline(always)]
    fn get(&self) -> u64 {
        self.load(Ordering::Relaxed).into()
    }

    fn put(&self, word: u64) {
        self.store(word as u32, Ordering::Relaxed);
    }
}

#[repr(C)]
pub(super) struct Bucket<W: BucketWord, const N: usize> {
    header: W,
    hashes: [W; HASH_BYTES],
    slots: [AtomicU32; N],
    states: [AtomicU64; N],
    alignment: [W::Alignment; 0],
}

/// The first bucket of a chain.
pub(super) type Head = Bucket<AtomicU64, CELLS>;

pub(super) type Overflow = Bucket<AtomicU32, OVERFLOW_CELLS>;

impl<W: BucketWord, const N: usize> Default for Bucket<W, N> {
    fn default() -> Self {
        Self {
            header: W::default(),
            hashes: Default::default(),
            slots: from_fn(|_| AtomicU32::default()),
            states: from_fn(|_| AtomicU64::default()),
            alignment: [],
        }
    }
}

impl<W: BucketWord, const N: usize> Bucket<W, N> {
    /// A bit for each cell that has `hash`, or had it last and is empty now: the highest of the
    /// byte with its number.
    #[inline(always)]
    fn cells_with(&self, hash: KeyHash) -> u64 {
        const EACH: u64 = 0x0101_0101_0101_0101;
        const HIGHEST: u64 = 0x80 * EACH;
        let bytes = (hash >> NUMBER_BITS).to_le_bytes();
        let differ = |(word, byte): (&W, u8)| word.get() ^ (u64::from(byte) * EACH);
        let differing = self.hashes.iter().zip(bytes).map(differ).fold(0, |all, word| all | word);
        let others = ((differing & !HIGHEST) + !HIGHEST) | differing;
        !others & HIGHEST & u64::MAX >> (64 - 8 * N)
    }

    fn hash(&self, cell: usize) -> KeyHash {
        let byte = |word: &W| (word.get() >> (8 * cell)) as u8;
        let bytes = self.hashes.iter().map(byte).rev();
        bytes.fold(0, |hash, byte| hash << 8 | KeyHash::from(byte)) << NUMBER_BITS
    }

    fn set_hash(&self, cell: usize, hash: KeyHash) {
        for (word, byte) in self.hashes.iter().zip((hash >> NUMBER_BITS).to_le_bytes()) {
            let others = word.get() & !(0xff << (8 * cell));
            word.put(others | u64::from(byte) << (8 * cell));
        }
    }
}

impl Head {
    /// The header, if the chain is not changing.
    #[inline(always)]
    pub(super) fn stable_header(&self) -> Option<u64> {
        let header = self.header.load(Ordering::Acquire);
        header.is_multiple_of(2).then_some(header)
    }

    /// Whether nothing has changed since the header was `header`; pairs with `begin_change` and
    /// `end_change`.
    #[inline(always)]
    pub(super) fn is_still(&self, header: u64) -> bool {
        fence(Ordering::Acquire);
        self.header.load(Ordering::Relaxed) == header
    }

    #[inline]
    pub(super) fn next(&self) -> Option<u64> {
        next_in(self.header.load(Ordering::Relaxed))
    }

    pub(super) fn set_next(&self, next: Option<u64>) {
        let version = self.header.load(Ordering::Relaxed) as u32;
        self.header.store(plus_one(next) << 32 | u64::from(version), Ordering::Relaxed);
    }

    pub(super) fn begin_change(&self) {
        self.bump_version(Ordering::Relaxed);
        // The odd version is visible before any change is; pairs with the fence in `is_still`.
        fence(Ordering::Release);
    }

    pub(super) fn end_change(&self) {
        self.bump_version(Ordering::Release);
    }

    fn bump_version(&self, ordering: Ordering) {
        let header = self.header.load(Ordering::Relaxed);
        let version = u64::from((header as u32).wrapping_add(1));
        self.header.store(header >> 32 << 32 | version, ordering);
    }
}

/// The next bucket of a chain, as the header of the first one says.
#[inline(always)]
pub(super) fn next_in(header: u64) -> Option<u64> {
    (header >> 32).checked_sub(1)
}

fn plus_one(next: Option<u64>) -> u64 {
    next.map_or(0, |next| next + 1)
}

impl Overflow {
    #[inline]
    pub(super) fn next(&self) -> Option<u64> {
        self.header.get().checked_sub(1)
    }

    pub(super) fn set_next(&self, next: Option<u64>) {
        self.header.put(plus_one(next));
    }
}

/// An entry as it was found, and where.
#[derive(Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) entry: Entry,
    pub(crate) cell: Cell<'a>,
}

/// The same, for who changes it.
pub(super) struct Spot<'a> {
    pub(super) found: Found<'a>,
    slot: &'a AtomicU32,
}

impl Spot<'_> {
    /// Replaces the entry by another of the same object.
    pub(super) fn renew<M: Memory>(&self, memory: &M, entry: &Entry) {
        self.found.cell.renew(memory, entry);
        self.slot.store(entry.slot as u32, Ordering::Relaxed);
    }
}

/// A bucket in its place, with the notes of its cells.
pub(super) struct PlacedBucket<'a, W: BucketWord, const N: usize> {
    pub(super) bucket: &'a Bucket<W, N>,
    sets: &'a Sets,
    notes: &'a NoteTable,
    /// Of the notes, that of the first cell.
    first_note: usize,
}

impl<W: BucketWord, const N: usize> Clone for PlacedBucket<'_, W, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: BucketWord, const N: usize> Copy for PlacedBucket<'_, W, N> {}

impl<'a, W: BucketWord, const N: usize> PlacedBucket<'a, W, N> {
    /// Has the processor fetch its lines.
    #[inline(always)]
    pub(super) fn prefetch(self) {
        tombolo_memory::prefetch(&self.bucket.header);
        tombolo_memory::prefetch(&self.bucket.states[N - 1]);
        self.notes.prefetch(self.first_note);
    }

    pub(super) fn has_notes(self) -> bool {
        self.notes.bytes() > 0
    }

    #[inline(always)]
    fn cell(self, number: usize) -> Option<Cell<'a>> {
        let state = self.bucket.states.get(number)?;
        Some(Cell::new(state, self.sets, self.notes, self.first_note + number))
    }

    /// The entry in a cell, which is known to have `hash` if anything.
    #[inline(always)]
    fn spot(
        self,
        number: usize,
        hash: KeyHash,
        on_slot: impl FnOnce(SlotLine),
    ) -> Option<Spot<'a>> {
        let mut cell = self.cell(number)?;
        let state = cell.state(Ordering::Relaxed);
        if state == State::EMPTY {
            return None;
        }
        let slot = &self.bucket.slots[number];
        let entry = state.entry(self.sets, hash, slot.load(Ordering::Relaxed));
        on_slot(entry.slot);
        cell.validated_at = cell.validated_in(state, Ordering::Relaxed);
        Some(Spot { found: Found { entry, cell }, slot })
    }

    /// The entry with `hash` in the first cell that has it, and whether no other has. `on_slot`
    /// learns of its slot before its note is looked at.
    #[inline(always)]
    pub(super) fn first_with(
        self,
        hash: KeyHash,
        on_slot: impl FnOnce(SlotLine),
    ) -> Option<(Found<'a>, bool)> {
        let cells = self.bucket.cells_with(hash);
        let spot = self.spot(cells.trailing_zeros() as usize / 8, hash, on_slot)?;
        Some((spot.found, cells.is_power_of_two()))
    }

    /// The entries with `hash`.
    #[inline(always)]
    pub(super) fn spots_with(self, hash: KeyHash) -> impl Iterator<Item = Spot<'a>> {
        let without_first = |cells: &u64| Some(cells & (cells - 1)).filter(|&cells| cells != 0);
        let first = Some(self.bucket.cells_with(hash)).filter(|&cells| cells != 0);
        std::iter::successors(first, without_first)
            .filter_map(move |cells| self.spot(cells.trailing_zeros() as usize / 8, hash, drop))
    }

    /// All entries; the lowest bits of their hashes are those of `like`.
    #[inline(always)]
    pub(super) fn spots(self, like: KeyHash) -> impl Iterator<Item = Spot<'a>> {
        let low_bits = like & ((1 << NUMBER_BITS) - 1);
        (0..N)
            .filter_map(move |number| self.spot(number, self.bucket.hash(number) | low_bits, drop))
    }

    /// Shows entries to `look`.
    #[inline(always)]
    pub(super) fn show(self, hash: KeyHash, of: Of, look: &mut impl FnMut(Found<'a>)) {
        match of {
            Of::Hash => self.spots_with(hash).for_each(|spot| look(spot.found)),
            Of::Chain => self.spots(hash).for_each(|spot| look(spot.found)),
        }
    }

    /// Fills an empty cell, if there is one.
    pub(super) fn add(self, entry: &Entry, validated_at: ValidatedAt) -> bool {
        let cells = (0..N).filter_map(|number| Some((number, self.cell(number)?)));
        let mut empty = cells.filter(|(_, cell)| cell.state(Ordering::Relaxed) == State::EMPTY);
        let Some((number, cell)) = empty.next() else { return false };
        self.bucket.set_hash(number, entry.hash);
        self.bucket.slots[number].store(entry.slot as u32, Ordering::Relaxed);
        cell.set(entry, validated_at);
        true
    }
}

struct Segment<W: BucketWord, const N: usize> {
    buckets: Table<Bucket<W, N>>,
    notes: NoteTable,
}

/// Buckets by number, in segments that are allocated when first needed and never move.
pub(super) struct Arena<W: BucketWord, const N: usize> {
    segments: Box<[OnceLock<Segment<W, N>>]>,
    sets: Sets,
    /// Of how many bits the number of a segment's bucket is.
    bucket_bits: u32,
}

impl<W: BucketWord, const N: usize> Arena<W, N> {
    pub(super) fn new(segment_buckets: u64, segments: u64, sets: Sets) -> Self {
        assert!(segment_buckets.is_power_of_two(), "a segment of {segment_buckets} buckets");
        let bucket_bits = segment_buckets.ilog2();
        Self { segments: (0..segments).map(|_| OnceLock::new()).collect(), sets, bucket_bits }
    }

    pub(super) fn capacity(&self) -> u64 {
        (self.segments.len() as u64) << self.bucket_bits
    }

    /// Bucket `number`, unless it was never [`grown`](Self::grow) to.
    #[inline(always)]
    pub(super) fn get(&self, number: u64) -> Option<PlacedBucket<'_, W, N>> {
        Some(self.segment(number)?.get()?.bucket(number, &self.sets))
    }

    #[inline(always)]
    fn segment(&self, number: u64) -> Option<&OnceLock<Segment<W, N>>> {
        self.segments.get((number >> self.bucket_bits) as usize)
    }

    /// Bucket `number`, allocated if need be; `None` beyond the capacity.
    pub(super) fn grow(&self, number: u64) -> Option<PlacedBucket<'_, W, N>> {
        let new = || Segment::new(1 << self.bucket_bits);
        Some(self.segment(number)?.get_or_init(new).bucket(number, &self.sets))
    }

    pub(super) fn bytes(&self) -> u64 {
        let used: u64 = self.segments.iter().filter_map(OnceLock::get).map(Segment::bytes).sum();
        size_of_val(&*self.segments) as u64 + used
    }
}

impl<W: BucketWord, const N: usize> Segment<W, N> {
    fn new(buckets: usize) -> Self {
        Self { buckets: Table::new(buckets), notes: NoteTable::new(buckets * N) }
    }

    /// The bucket whose number ends so.
    #[inline(always)]
    fn bucket<'a>(&'a self, number: u64, sets: &'a Sets) -> PlacedBucket<'a, W, N> {
        let (bucket, notes) = (self.buckets.at(number as usize), &self.notes);
        PlacedBucket { bucket, sets, notes, first_note: number as usize * N }
    }

    fn bytes(&self) -> u64 {
        size_of_val(&*self.buckets) as u64 + self.notes.bytes()
    }
}
