//! How coherence records lie in SCR.
//!
//! ```text
//! 8, 16, 32 bits   a word each: allocated (1 bit) | counter (the rest)
//! 24 bits          a byte each: allocated (1) | low bits of the counter (7), and in a second array
//!                  16 bits each: the counter's high bits
//! auto             words of 32 bits, each of them four narrow records, or one wide record
//!   narrow         a byte: allocated (1) | counter (7)
//!   wide           first byte: allocated (1) | low bits of the counter (7);
//!                  three more: 0 (1) | high bits of the counter (6) | 1 (1)
//! ```
//!
//! The counter's lowest bit is the lock. While that is set, the six bits above it are the number of
//! the host that has it, and the counter's own low bits are nowhere but with that host. A narrow
//! record has 0 in its highest or in its lowest bit unless it is allocated, so no byte of a wide
//! record but the first looks like one that is allocated, or free: a host that comes with an
//! outdated notion of a word finds nothing there to lock or to claim. A free word is four free
//! narrow records, and the host that claims it decides what it becomes.

use tombolo_memory::{Located, Memory, ScrAddr, Site, Word as ScrWord};
use tombolo_sharing::{ObjectArea, RecordWidth};

use super::RecordWord;
use crate::sites;
use crate::storage::index::validated::COUNTER_BITS;

/// Number of a record: its place. Where widths are mixed, wide records have numbers of their own,
/// above those of the narrow ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordId(pub(crate) u32);

impl From<RecordId> for u64 {
    #[inline(always)]
    fn from(record: RecordId) -> Self {
        record.0.into()
    }
}

/// Bits of the counter that are not next to the lock.
const SPLIT_BITS: u32 = 16;
const WIDE_BITS: u32 = 3 * WIDE_BYTE_BITS;
const WIDE_BYTE_BITS: u32 = 6;

/// Bytes of SCR that a wide record takes.
pub(crate) const WIDE_BYTES: u64 = 4;

/// How the further bytes of a wide record are known: which bits, and what they are.
const WIDE_MASK: u32 = 0x8181_8100;
const WIDE_MARKS: u32 = 0x0101_0100;
/// These bits are 0 in a word of which no part is a record.
const FREE_MASK: u32 = 0x8181_8181;

/// Neither allocated nor free.
const ELSEWHERE: RecordWord = RecordWord { allocated: false, counter: 0, holder: Some(0) };

/// The lock, and the bits of its holder.
const LOCK: u32 = 1;
const LOCK_BITS: u32 = 7;

/// The records of a pod, as places for what they hold.
pub(crate) struct Layout<M> {
    memory: M,
    width: RecordWidth,
    base: ScrAddr<u64>,
    records: u64,
    /// Bits of the counter that are next to the lock.
    low_bits: u32,
    /// Which bits count in the counter of a narrow record, or of a record of the only width.
    counter_mask: u32,
    /// Which bits count in the counter of a wide record.
    wide_counter_mask: u32,
}

impl<M: Memory> Layout<M> {
    pub(crate) fn new(area: &ObjectArea<M>) -> Self {
        let geometry = area.geometry();
        let wanted = (geometry.counter_bits as u32).min(COUNTER_BITS);
        let width = geometry.record_width;
        let low_bits = match width {
            RecordWidth::Bits24 => wanted.min(7),
            width => wanted.min(width.least_bits() as u32 - 1),
        };
        let more = |bits| mask((2 * wanted).min(low_bits + bits).min(COUNTER_BITS));
        Self {
            memory: area.memory().clone(),
            width,
            base: ScrAddr::new(area.areas().records.offset()),
            records: geometry.records,
            low_bits,
            counter_mask: match width {
                RecordWidth::Bits24 => more(SPLIT_BITS),
                _ => mask(low_bits),
            },
            wide_counter_mask: more(WIDE_BITS),
        }
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// One more than the highest number of a record.
    pub(crate) fn numbers(&self) -> u64 {
        self.width.numbers(self.records)
    }

    /// The first number of a wide record.
    pub(crate) fn first_wide(&self) -> u64 {
        self.records
    }

    #[inline(always)]
    pub(crate) fn is_wide(&self, record: RecordId) -> bool {
        u64::from(record) >= self.records
    }

    /// Whether some records are wide.
    pub(crate) fn has_wide(&self) -> bool {
        self.width == RecordWidth::Auto
    }

    /// The record itself, or the narrow ones that take the place of a wide one.
    pub(crate) fn narrow_in(&self, record: RecordId) -> impl Iterator<Item = RecordId> {
        let RecordId(number) = record;
        let wide = number.checked_sub(self.records as u32);
        wide.map_or(number..number + 1, |wide| 4 * wide..4 * wide + 4).map(RecordId)
    }

    /// The wide record of which this one, which is not wide, would be the first part.
    pub(crate) fn wide_over(&self, record: RecordId) -> Option<RecordId> {
        let narrow = self.has_wide() && !self.is_wide(record);
        (narrow && record.0.is_multiple_of(4)).then(|| RecordId(self.records as u32 + record.0 / 4))
    }

    /// Bytes of SCR that a record takes which is not wide.
    pub(crate) fn least_bytes(&self) -> u64 {
        self.width.least_bits() / 8
    }

    /// Bytes of SCR for records.
    pub(crate) fn bytes(&self) -> u64 {
        self.width.bytes_for(self.records)
    }

    /// Which bits of a counter count.
    #[inline(always)]
    pub(crate) fn counter_mask(&self, record: RecordId) -> u32 {
        if self.is_wide(record) { self.wide_counter_mask } else { self.counter_mask }
    }

    /// Has what a record holds fetched, or the part of it with the lock.
    #[inline]
    pub(crate) fn prefetch(&self, record: RecordId) {
        match self.width {
            RecordWidth::Bits32 => self.memory.prefetch_word(self.at::<u32>(record)),
            RecordWidth::Bits16 => self.memory.prefetch_word(self.at::<u16>(record)),
            RecordWidth::Bits8 | RecordWidth::Bits24 => {
                self.memory.prefetch_word(self.at::<u8>(record));
            }
            RecordWidth::Auto => self.memory.prefetch_word(self.part(record).0),
        }
    }

    /// The word of a record.
    #[inline(always)]
    pub(crate) fn load(&self, record: RecordId) -> RecordWord {
        match self.width {
            RecordWidth::Bits32 => widen(self.memory.load(self.at::<u32>(record))),
            RecordWidth::Bits16 => widen(self.memory.load(self.at::<u16>(record))),
            RecordWidth::Bits8 => widen(self.memory.load(self.at::<u8>(record))),
            RecordWidth::Bits24 => self.load_split(record),
            RecordWidth::Auto => self.load_part(record),
        }
    }

    /// Prepares to lock a record, and to release it after a write.
    #[inline(always)]
    pub(crate) fn lock_words(
        &self,
        record: RecordId,
        states: WordStates<RecordWord>,
    ) -> LockWords<'_, M> {
        if self.width == RecordWidth::Bits32 {
            let WordStates { open, locked, written } = states;
            let states =
                WordStates { open: narrow(open), locked: narrow(locked), written: narrow(written) };
            return LockWords::OfOneWord { at: self.memory.locate(self.at(record)), states };
        }
        LockWords::Of { layout: self, record, states }
    }

    /// Replaces a record's content by `to`, which is locked, if it still is `from`, which is not;
    /// whether it was.
    #[inline(always)]
    pub(crate) fn swap(
        &self,
        site: Site,
        record: RecordId,
        from: RecordWord,
        to: RecordWord,
    ) -> bool {
        match self.width {
            RecordWidth::Bits32 => self.swap_word::<u32>(site, record, from, to),
            RecordWidth::Bits16 => self.swap_word::<u16>(site, record, from, to),
            RecordWidth::Bits8 => self.swap_word::<u8>(site, record, from, to),
            RecordWidth::Bits24 => self.swap_split(site, record, from, to),
            RecordWidth::Auto => self.swap_part(site, record, from, to),
        }
    }

    /// Replaces the content of a record that this thread has locked, and whose content has been
    /// `from` since then; whether it still was: it is not if the lock was taken over from this
    /// host.
    #[inline(always)]
    pub(crate) fn release(&self, record: RecordId, from: RecordWord, to: RecordWord) -> bool {
        match self.width {
            RecordWidth::Bits32 => self.swap_word::<u32>(sites::RECORD_RELEASE, record, from, to),
            RecordWidth::Bits16 => self.swap_word::<u16>(sites::RECORD_RELEASE, record, from, to),
            RecordWidth::Bits8 => self.swap_word::<u8>(sites::RECORD_RELEASE, record, from, to),
            RecordWidth::Bits24 => self.release_split(record, from, to),
            RecordWidth::Auto => self.release_part(record, from, to),
        }
    }

    /// Whether the locks of a host that may still be at something can be taken over: a record of 24
    /// bits is released in two steps.
    pub(crate) fn is_released_at_once(&self) -> bool {
        self.width != RecordWidth::Bits24
    }

    /// Makes all records free: nobody uses any.
    pub(crate) fn clear(&self) {
        let words = self.bytes().div_ceil(8);
        (0..words).for_each(|word| self.memory.store(self.base.element(word), 0));
    }

    #[inline(always)]
    fn swap_word<W: ScrWord>(
        &self,
        site: Site,
        record: RecordId,
        from: RecordWord,
        to: RecordWord,
    ) -> bool {
        let (current, new) = (narrow::<W>(from), narrow(to));
        let swapped = self.memory.compare_exchange(site, self.at(record), current, new);
        swapped.is_ok()
    }

    #[inline(always)]
    fn at<W: ScrWord>(&self, record: RecordId) -> ScrAddr<W> {
        self.base.first::<W>().element(u64::from(record))
    }

    /// The counter's high bits are written under the lock and before it is released. So if they are
    /// the same before and after the low ones were loaded, they belong together.
    fn load_split(&self, record: RecordId) -> RecordWord {
        let (head, rest) = self.split(record);
        let mut high = self.memory.load(rest);
        loop {
            let low = self.memory.load(head);
            let again = self.memory.load(rest);
            if self.memory.check(sites::RECORD_SPLIT, again == high) {
                return self.join(low, high);
            }
            high = again;
        }
    }

    fn swap_split(&self, site: Site, record: RecordId, from: RecordWord, to: RecordWord) -> bool {
        let (head, rest) = self.split(record);
        let (current, high) = self.divide(from);
        if self.memory.compare_exchange(site, head, current, self.divide(to).0).is_err() {
            return false;
        }
        // The low bits may have come round since they were loaded.
        let same = self.memory.check(sites::RECORD_SPLIT, self.memory.load(rest) == high);
        if !same {
            self.memory.store(head, current);
        }
        same
    }

    fn release_split(&self, record: RecordId, from: RecordWord, to: RecordWord) -> bool {
        let ((head, rest), (low, high)) = (self.split(record), self.divide(to));
        let (locked, before) = self.divide(from);
        if before != high {
            self.memory.store(rest, high);
        }
        self.memory.compare_exchange(sites::RECORD_RELEASE, head, locked, low).is_ok()
    }

    fn split(&self, record: RecordId) -> (ScrAddr<u8>, ScrAddr<u16>) {
        let rest = ScrAddr::new(self.base.offset() + self.records);
        (self.at(record), rest.element(u64::from(record)))
    }

    fn join(&self, low: u8, high: u16) -> RecordWord {
        with_high(widen(low), self.low_bits, u32::from(high))
    }

    fn divide(&self, word: RecordWord) -> (u8, u16) {
        (head(word, self.low_bits), (word.counter >> self.low_bits) as u16)
    }

    fn load_part(&self, record: RecordId) -> RecordWord {
        let (at, part) = self.part(record);
        part.of(self.memory.load(at))
    }

    fn swap_part(&self, site: Site, record: RecordId, from: RecordWord, to: RecordWord) -> bool {
        let (at, part) = self.part(record);
        loop {
            let word = self.memory.load(at);
            if part.of(word) != from {
                return false;
            }
            let new = part.set(word, to);
            if self.memory.compare_exchange(site, at, word, new).is_ok() {
                return true;
            }
            // A neighbour has changed.
            self.memory.pause();
        }
    }

    fn release_part(&self, record: RecordId, from: RecordWord, to: RecordWord) -> bool {
        let (at, part) = self.part(record);
        loop {
            let word = self.memory.load(at);
            if part.set(word, from) != word {
                return false;
            }
            let new = part.set(word, to);
            if self.memory.compare_exchange(sites::RECORD_RELEASE, at, word, new).is_ok() {
                return true;
            }
            // A neighbour has changed.
            self.memory.pause();
        }
    }

    fn part(&self, record: RecordId) -> (ScrAddr<u32>, Part) {
        let number = u64::from(record);
        let words = self.base.first::<u32>();
        match number.checked_sub(self.records) {
            Some(word) => (words.element(word), Part::Wide { low_bits: self.low_bits }),
            None => (words.element(number / 4), Part::Narrow { shift: record.0 % 4 * 8 }),
        }
    }
}

/// The states of a record before a write, while the write has its lock, and after it.
#[derive(Clone, Copy)]
pub(crate) struct WordStates<T> {
    pub(crate) open: T,
    pub(crate) locked: T,
    pub(crate) written: T,
}

/// A record through a write: where it is and what it will hold is worked out before its lock is
/// taken.
#[derive(Clone, Copy)]
pub(crate) enum LockWords<'a, M: Memory> {
    /// The usual one, which is a word of 32 bits.
    OfOneWord {
        at: M::Located<'a, u32>,
        states: WordStates<u32>,
    },
    Of {
        layout: &'a Layout<M>,
        record: RecordId,
        states: WordStates<RecordWord>,
    },
}

impl<M: Memory> LockWords<'_, M> {
    /// Takes the lock of a record that may be open as was thought; whether it was. It is looked at
    /// first: a compare-and-swap takes a line from the host that uses it, even if it fails.
    #[inline(always)]
    pub(crate) fn lock(&self) -> bool {
        match *self {
            Self::OfOneWord { at, states: WordStates { open, locked, .. } } => {
                at.load() == open && at.compare_exchange(sites::WRITE_LOCK, open, locked).is_ok()
            }
            Self::Of { layout, record, states: WordStates { open, locked, .. } } => {
                layout.load(record) == open && layout.swap(sites::WRITE_LOCK, record, open, locked)
            }
        }
    }

    /// As [`Layout::release`].
    #[inline(always)]
    pub(crate) fn release(&self) -> bool {
        match *self {
            Self::OfOneWord { at, states: WordStates { locked, written, .. } } => {
                at.compare_exchange(sites::RECORD_RELEASE, locked, written).is_ok()
            }
            Self::Of { layout, record, states: WordStates { locked, written, .. } } => {
                layout.release(record, locked, written)
            }
        }
    }
}

/// The part of a word of 32 bits that is the record, where widths are mixed.
#[derive(Clone, Copy, Debug)]
enum Part {
    Narrow { shift: u32 },
    Wide { low_bits: u32 },
}

impl Part {
    /// The state of the record, if the word is the part that this takes it for.
    fn of(self, word: u32) -> RecordWord {
        match self {
            Self::Narrow { shift } => widen((word >> shift) as u8),
            Self::Wide { .. } if word & FREE_MASK == 0 => widen(word as u8),
            Self::Wide { .. } if word & WIDE_MASK != WIDE_MARKS => ELSEWHERE,
            Self::Wide { low_bits } => {
                let further = |byte: u32| word >> (8 * byte + 1) & mask(WIDE_BYTE_BITS);
                let high = (1..4).map(|byte| further(byte) << (WIDE_BYTE_BITS * (byte - 1)));
                with_high(widen(word as u8), low_bits, high.sum())
            }
        }
    }

    /// The word with another content of this record.
    fn set(self, word: u32, to: RecordWord) -> u32 {
        match self {
            Self::Narrow { shift } => {
                word & !(0xff << shift) | u32::from(narrow::<u8>(to)) << shift
            }
            Self::Wide { low_bits } => {
                let low = u32::from(head(to, low_bits));
                if !to.allocated {
                    return low;
                }
                let high = to.counter >> low_bits;
                let further = |byte: u32| {
                    (high >> (WIDE_BYTE_BITS * (byte - 1)) & mask(WIDE_BYTE_BITS)) << (8 * byte + 1)
                };
                low | WIDE_MARKS | (1..4).map(further).sum::<u32>()
            }
        }
    }
}

/// The byte with the lock of a record that has more bytes.
fn head(word: RecordWord, low_bits: u32) -> u8 {
    narrow(RecordWord { counter: word.counter & mask(low_bits), ..word })
}

/// The state of a record whose byte with the lock is `head`, and whose counter has these high bits.
fn with_high(head: RecordWord, low_bits: u32, high: u32) -> RecordWord {
    RecordWord { counter: head.counter & mask(low_bits) | high << low_bits, ..head }
}

/// The state of a record of one word, whatever the word's size.
#[inline(always)]
fn widen<W: ScrWord>(word: W) -> RecordWord {
    let (bits, top) = (word.to_bits() as u32, 8 * size_of::<W>() as u32 - 1);
    let (allocated, counter) = (bits >> top != 0, bits & mask(top));
    if bits & LOCK == 0 {
        return RecordWord { allocated, counter, holder: None };
    }
    let holder = Some((bits & mask(LOCK_BITS)) as u8 >> 1);
    RecordWord { allocated, counter: counter & !mask(LOCK_BITS), holder }
}

#[inline(always)]
fn narrow<W: ScrWord>(word: RecordWord) -> W {
    let top = 8 * size_of::<W>() as u32 - 1;
    let counter = match word.holder {
        None => word.counter,
        Some(host) => word.counter & !mask(LOCK_BITS) | u32::from(host) << 1 | LOCK,
    };
    W::from_bits(u64::from(u32::from(word.allocated) << top | counter & mask(top)))
}

#[inline(always)]
fn mask(bits: u32) -> u32 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use tombolo_pod::Pod;
    use tombolo_sharing::{Options, plan_layout};
    use tombolo_simulator::{Config, SimMemory, Simulation, Trial};

    use super::*;
    use crate::sites::{RECORD_CLAIM, WRITE_LOCK};

    fn layout(width: RecordWidth) -> Layout<SimMemory> {
        let config = Config { scr_bytes: 16 << 10, lnr_bytes: 4 << 20, ..Config::default() };
        let options = Options {
            ring_entries: Some(8),
            records: Some(12),
            record_width: Some(width),
            ..Options::default()
        };
        let layout = plan_layout(config.scr_bytes, config.lnr_bytes, options).unwrap();
        let memory = Simulation::new(config, &Trial::new(1)).memory(0);
        let pod = Pod::format(memory, &layout).unwrap();
        Layout::new(&ObjectArea::first(&pod).unwrap())
    }

    fn overlap(layout: &Layout<SimMemory>, one: RecordId, other: RecordId) -> bool {
        let bytes = |record: RecordId| {
            let (width, number) = if layout.is_wide(record) {
                (WIDE_BYTES, u64::from(record) - layout.first_wide())
            } else {
                (layout.least_bytes(), record.into())
            };
            number * width..(number + 1) * width
        };
        let (one, other) = (bytes(one), bytes(other));
        one.start < other.end && other.start < one.end
    }

    proptest! {
        /// Records hold what was put there, whatever their neighbours do, and no two that share
        /// bytes are claimed at once.
        #[test]
        fn records_keep_to_themselves(
            width in prop::sample::select(RecordWidth::ALL.to_vec()),
            steps in prop::collection::vec((0..15u32, 0..4u8, any::<u32>()), 1..200),
        ) {
            let layout = layout(width);
            let mut used: BTreeMap<RecordId, RecordWord> = BTreeMap::new();
            for (record, step, number) in steps {
                let record = RecordId(record % layout.numbers() as u32);
                let found = layout.load(record);
                let host = (number % 64) as u8;
                match (step, used.get(&record).copied()) {
                    (0, None) => {
                        let shared = used.keys().any(|&other| overlap(&layout, record, other));
                        let locked = found.locked_by(host);
                        let claimed = found.is_free() && layout.swap(RECORD_CLAIM, record, found, locked);
                        prop_assert_eq!(claimed, !shared);
                        if claimed {
                            used.insert(record, locked);
                        }
                    }
                    (1, Some(now)) if now.holder.is_none() => {
                        let outdated = RecordWord { counter: now.counter ^ 2, ..now };
                        prop_assert!(!layout.swap(WRITE_LOCK, record, outdated, outdated.locked_by(host)));
                        prop_assert!(layout.swap(WRITE_LOCK, record, now, now.locked_by(host)));
                        used.insert(record, now.locked_by(host));
                    }
                    (2, Some(now)) if now.holder.is_some() => {
                        let next = RecordWord::allocated(number & layout.counter_mask(record) & !1);
                        layout.release(record, now, next);
                        used.insert(record, next);
                    }
                    (3, Some(now)) if now.holder.is_some() => {
                        layout.release(record, now, RecordWord::free(now.counter));
                        used.remove(&record);
                    }
                    _ => {}
                }
                for (&record, &word) in &used {
                    let found = layout.load(record);
                    prop_assert_eq!((found.holder(), found.readable()), (word.holder(), word.readable()));
                }
                let strangers = (0..layout.numbers() as u32).map(RecordId);
                let strangers = strangers.filter(|record| !used.contains_key(record));
                for stranger in strangers {
                    let owner = used.keys().find(|&&other| overlap(&layout, stranger, other));
                    let first = |other: &RecordId| {
                        layout.is_wide(*other) && u64::from(stranger) == (u64::from(*other) - layout.first_wide()) * 4
                    };
                    // A narrow view of a wide record's first byte sees its lock: taking that takes
                    // the record.
                    if !owner.is_some_and(first) {
                        prop_assert!(layout.load(stranger).readable().is_none());
                    }
                }
            }
        }
    }
}
