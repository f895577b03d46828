//! Buckets and where they are stored.
//!
//! A bucket is two cache lines: a header and six cells of 20 bytes. Its header holds the version
//! of the *chain* it heads and the number of the next overflow bucket.

use tombolo_memory::Memory;

use crate::event::{Generation, KeyHash, SlotLine};
use crate::seen::{Seen, UNSEEN};
use crate::sites;
use crate::sync::{AtomicU32, AtomicU64, OnceLock, Ordering, fence};

/// Two under the model checker: what it has to look at grows with the square of what a reader loads.
pub(crate) const CELLS: usize = if cfg!(loom) { 2 } else { 6 };

const RECORD_SHIFT: u32 = 36;
const SLOT_MASK: u64 = (1 << RECORD_SHIFT) - 1;

/// What the index knows about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) hash: KeyHash,
    pub(crate) generation: Generation,
    pub(crate) slot: SlotLine,
    /// `None`: read-shared, or at home with a host.
    pub(crate) record: Option<u32>,
    /// The host in whose memory the object is, if it is not in its slot.
    pub(crate) home: Option<u8>,
    /// The host that died, or was fenced, while it had the object's only whole copy: its value is lost.
    pub(crate) lost: Option<u8>,
}

/// The highest values of the 28 bits for a record stand for hosts; 0 for neither.
const LAST: u32 = (1 << (64 - RECORD_SHIFT)) - 1;
const HOMES: u32 = LAST - u8::MAX as u32;
const LAST_LOST: u32 = HOMES - 2;
const LOST: u32 = LAST_LOST - u8::MAX as u32;

impl Entry {
    /// An object that is in its slot, and has no record.
    pub(crate) fn read_shared(hash: KeyHash, generation: Generation, slot: SlotLine) -> Self {
        Self { hash, generation, slot, record: None, home: None, lost: None }
    }

    /// Whether its value is there, for all to read.
    pub(crate) fn is_in_its_slot(&self) -> bool {
        self.home.is_none() && self.lost.is_none()
    }

    /// Record, home or loss, as they are encoded in 28 bits.
    pub(crate) fn sharing(&self) -> u32 {
        let home = self.home.map(|host| LAST - u32::from(host));
        let lost = self.lost.map(|host| LAST_LOST - u32::from(host));
        home.or(lost).or(self.record.map(|record| record + 1)).unwrap_or(0)
    }

    /// This entry, shared as [`sharing`](Self::sharing) encodes it.
    #[inline(always)]
    pub(crate) fn shared_as(self, sharing: u32) -> Self {
        if sharing < LOST {
            Self { record: sharing.checked_sub(1), ..self }
        } else {
            self.elsewhere_as(sharing)
        }
    }

    #[cold]
    fn elsewhere_as(self, sharing: u32) -> Self {
        if sharing >= HOMES {
            Self { home: Some((LAST - sharing) as u8), ..self }
        } else if sharing <= LAST_LOST {
            Self { lost: Some((LAST_LOST - sharing) as u8), ..self }
        } else {
            Self { record: Some(sharing - 1), ..self }
        }
    }

    /// Slot, and how it is shared, as a cell has them.
    #[inline]
    fn place(&self) -> u64 {
        u64::from(self.sharing()) << RECORD_SHIFT | self.slot
    }
}

/// Most of an entry in memory; its hash lies with those of the bucket's other cells.
///
/// ```text
/// note    generation (32 bits) | what this host has seen of it (32), see `seen.rs`
/// place   record + 1, or home, or loss (28 bits) | line of the slot (36); 0 if the cell is empty
/// ```
#[derive(Default)]
pub(crate) struct Cell {
    note: AtomicU64,
    place: AtomicU64,
}

/// An object as of a generation, and what this host has seen of that. They are one word, so what is
/// seen of one generation is never noted of another.
fn note(generation: Generation, seen: Seen) -> u64 {
    u64::from(generation) << 32 | u64::from(seen)
}

/// The generation that a note is of.
#[inline(always)]
fn generation(note: u64) -> Generation {
    (note >> 32) as u32
}

impl Cell {
    /// What was seen of this entry, if the cell has it.
    #[inline]
    pub(crate) fn seen_of(&self, entry: &Entry) -> Option<Seen> {
        // Pairs with the release in `see`: what is noted has been done.
        let note = self.note.load(Ordering::Acquire);
        let has = generation(note) == entry.generation
            && self.place.load(Ordering::Relaxed) == entry.place();
        has.then_some(note as Seen)
    }

    /// Notes what was seen of a generation, if the cell has it, and `before` is what is noted of it.
    #[inline]
    pub(crate) fn see(
        &self,
        generation: Generation,
        before: Seen,
        seen: Seen,
        order: Ordering,
    ) -> bool {
        let (before, new) = (note(generation, before), note(generation, seen));
        self.note.compare_exchange(before, new, order, Ordering::Relaxed).is_ok()
    }

    /// Replaces the entry by another of the same object. Nothing is seen yet of a new generation.
    pub(crate) fn renew<M: Memory>(&self, memory: &M, entry: Entry) {
        let unseen = note(entry.generation, UNSEEN);
        // A store would do, but the model checker lets it come before a note of the old generation.
        let before = self.note.swap(unseen, Ordering::Relaxed);
        let same = generation(before) == entry.generation;
        if same || !memory.keeps(sites::READ_SEEN_GENERATION) {
            let kept = note(entry.generation, before as Seen);
            self.note.store(kept, Ordering::Relaxed);
        }
        self.place.store(entry.place(), Ordering::Relaxed);
    }
}

/// Where an entry is, or may be.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'a> {
    hash: &'a AtomicU32,
    pub(crate) cell: &'a Cell,
}

impl Spot<'_> {
    #[inline(always)]
    pub(crate) fn entry(&self) -> Option<Entry> {
        self.entry_and_seen().map(|(entry, _)| entry)
    }

    #[inline(always)]
    pub(crate) fn entry_and_seen(&self) -> Option<(Entry, Seen)> {
        let place = self.cell.place.load(Ordering::Relaxed);
        if place == 0 {
            return None;
        }
        let hash = self.hash.load(Ordering::Relaxed);
        let note = self.cell.note.load(Ordering::Relaxed);
        let entry = Entry::read_shared(hash, generation(note), place & SLOT_MASK);
        Some((entry.shared_as((place >> RECORD_SHIFT) as u32), note as Seen))
    }

    #[inline]
    pub(crate) fn has_hash(&self, hash: KeyHash) -> bool {
        self.hash.load(Ordering::Relaxed) == hash
    }

    pub(crate) fn set(&self, entry: Entry, seen: Seen) {
        self.hash.store(entry.hash, Ordering::Relaxed);
        self.cell.note.store(note(entry.generation, seen), Ordering::Relaxed);
        self.cell.place.store(entry.place(), Ordering::Relaxed);
    }

    /// Takes the entry out, and what was seen of it. That changes meanwhile, and must not be in two cells,
    /// nor be lost and come back; what it names passes on to whoever finds it in another cell.
    pub(crate) fn take(&self) -> Option<(Entry, Seen)> {
        let entry = self.entry()?;
        self.cell.place.store(0, Ordering::Relaxed);
        Some((entry, self.cell.note.swap(0, Ordering::Acquire) as Seen))
    }
}

#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Bucket {
    /// Next overflow bucket plus one (32 bits) | version (32), odd while the chain changes.
    header: AtomicU64,
    /// Together, so that looking for one takes few instructions.
    hashes: [AtomicU32; CELLS],
    cells: [Cell; CELLS],
}

impl Bucket {
    /// Has the processor fetch its lines.
    #[inline]
    pub(crate) fn prefetch(&self) {
        tombolo_memory::prefetch(&self.header);
        tombolo_memory::prefetch(&self.cells[CELLS - 1]);
    }

    /// Spot `number`, if there are so many.
    #[inline(always)]
    pub(crate) fn spot(&self, number: usize) -> Option<Spot<'_>> {
        Some(Spot { hash: self.hashes.get(number)?, cell: &self.cells[number] })
    }

    #[inline(always)]
    pub(crate) fn spots(&self) -> impl Iterator<Item = Spot<'_>> {
        self.hashes.iter().zip(&self.cells).map(|(hash, cell)| Spot { hash, cell })
    }

    /// A bit per cell that has `hash`, or had it last and is empty now. (Those come after the ones that have it, since the first empty
    /// cell is filled first.) Without a branch for each, which a processor could only guess: it would look ahead in vain.
    #[inline(always)]
    pub(crate) fn cells_with(&self, hash: KeyHash) -> u32 {
        let has = |word: &AtomicU32| word.load(Ordering::Relaxed) == hash;
        let bits = self.hashes.iter().zip(0..).map(|(word, n)| u32::from(has(word)) << n);
        bits.fold(0, |found, bit| found | bit)
    }

    /// The header, if the chain is not changing.
    #[inline(always)]
    pub(crate) fn stable_header(&self) -> Option<u64> {
        let header = self.header.load(Ordering::Acquire);
        header.is_multiple_of(2).then_some(header)
    }

    /// Whether nothing has changed since the header was `header`; pairs with `begin_change` and `end_change`.
    #[inline(always)]
    pub(crate) fn is_still(&self, header: u64) -> bool {
        fence(Ordering::Acquire);
        self.header.load(Ordering::Relaxed) == header
    }

    #[inline]
    pub(crate) fn next(&self) -> Option<u64> {
        next_in(self.header.load(Ordering::Relaxed))
    }

    pub(crate) fn set_next(&self, next: Option<u64>) {
        let version = self.header.load(Ordering::Relaxed) & 0xffff_ffff;
        self.header.store(next.map_or(0, |next| next + 1) << 32 | version, Ordering::Relaxed);
    }

    pub(crate) fn begin_change(&self) {
        self.bump_version(Ordering::Relaxed);
        // The odd version is visible before any change is; pairs with the fence in `is_still`.
        fence(Ordering::Release);
    }

    pub(crate) fn end_change(&self) {
        self.bump_version(Ordering::Release);
    }

    fn bump_version(&self, ordering: Ordering) {
        let header = self.header.load(Ordering::Relaxed);
        let version = u64::from((header as u32).wrapping_add(1));
        self.header.store(header >> 32 << 32 | version, ordering);
    }
}

/// The next bucket of a chain, as the header of one says.
#[inline(always)]
pub(crate) fn next_in(header: u64) -> Option<u64> {
    (header >> 32).checked_sub(1)
}

/// Buckets by number, in segments that are allocated when first needed and never move.
pub(crate) struct Arena {
    segments: Box<[OnceLock<Box<[Bucket]>>]>,
    /// Of how many bits the number of a segment's bucket is.
    bucket_bits: u32,
}

impl Arena {
    pub(crate) fn new(segment_buckets: u64, segments: u64) -> Self {
        assert!(segment_buckets.is_power_of_two(), "a segment of {segment_buckets} buckets");
        let bucket_bits = segment_buckets.ilog2();
        Self { segments: (0..segments).map(|_| OnceLock::new()).collect(), bucket_bits }
    }

    pub(crate) fn capacity(&self) -> u64 {
        (self.segments.len() as u64) << self.bucket_bits
    }

    /// Bucket `number`, unless it was never [`grown`](Self::grow) to.
    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<&Bucket> {
        let (segment, bucket) = self.split(number);
        Some(&self.segments.get(segment)?.get()?[bucket])
    }

    /// Segment, and number in it.
    #[inline]
    fn split(&self, number: u64) -> (usize, usize) {
        let bucket = number & ((1 << self.bucket_bits) - 1);
        ((number >> self.bucket_bits) as usize, bucket as usize)
    }

    /// Bucket `number`, allocated if need be; `None` beyond the capacity.
    pub(crate) fn grow(&self, number: u64) -> Option<&Bucket> {
        let (segment, bucket) = self.split(number);
        let new = || (0..1 << self.bucket_bits).map(|_| Bucket::default()).collect();
        Some(&self.segments.get(segment)?.get_or_init(new)[bucket])
    }

    pub(crate) fn bytes(&self) -> u64 {
        let segment_bytes = (size_of::<Bucket>() as u64) << self.bucket_bits;
        self.segments.iter().filter(|segment| segment.get().is_some()).count() as u64
            * segment_bytes
    }
}
