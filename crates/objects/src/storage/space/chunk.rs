//! A host's knowledge of one chunk.

use tombolo_sharing::{CHAIN, UNDIVIDED};

/// A chunk as this replica sees it: slots with objects from the log, reservations of this host.
pub(crate) struct ChunkSlots {
    pub(crate) class: u8,
    /// Whether this host may reserve its slots.
    pub(crate) held: bool,
    slots: u64,
    /// Slots that this host may reserve, as the chunk's word says, if it holds the chunk.
    prepared: u64,
    occupied: u64,
    reserved: u64,
    to_scrub: u64,
    /// A bit per slot: it holds an object.
    live: Vec<u64>,
    /// A bit per slot: it is reserved for an object that is not in the log yet.
    pending: Vec<u64>,
    /// A bit per slot of a chunk that this host holds: its object is gone, but perhaps not yet its
    /// header.
    pending_scrub: Vec<u64>,
    /// No slot before this one is free.
    first_free: u64,
    /// Whether slots were reserved since the last look.
    busy: bool,
}

impl Default for ChunkSlots {
    fn default() -> Self {
        Self {
            class: UNDIVIDED,
            held: false,
            slots: 0,
            prepared: 0,
            occupied: 0,
            reserved: 0,
            to_scrub: 0,
            live: Vec::new(),
            pending: Vec::new(),
            pending_scrub: Vec::new(),
            first_free: 0,
            busy: false,
        }
    }
}

impl ChunkSlots {
    /// The first chunk of a chain. Of the others only the chunk table knows.
    pub(crate) fn chain_head() -> Self {
        Self { class: CHAIN, slots: 1, occupied: 1, live: vec![1], ..Self::default() }
    }

    /// Carves an empty chunk into `slots` slots of `class`.
    pub(crate) fn carve(&mut self, class: u8, slots: u64) {
        debug_assert!(self.is_empty(), "a chunk with objects is not carved anew");
        let words = slots.div_ceil(64) as usize;
        let held = self.held;
        *self = Self {
            class,
            held,
            slots,
            live: vec![0; words],
            pending: vec![0; words],
            pending_scrub: vec![0; words],
            ..Self::default()
        };
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0 && self.reserved == 0 && self.to_scrub == 0
    }

    pub(crate) fn is_resolved(&self) -> bool {
        self.reserved == 0
    }

    pub(crate) fn has_room(&self) -> bool {
        self.occupied + self.reserved + self.to_scrub < self.slots
    }

    /// Class and used slots of a chunk that is carved and has objects in it.
    pub(crate) fn carved(&self) -> Option<(u8, u64)> {
        (self.occupied > 0 && self.class != CHAIN).then_some((self.class, self.occupied))
    }

    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    /// How many slots are prepared.
    pub(crate) fn prepared(&self) -> u64 {
        self.prepared
    }

    /// So many slots are prepared.
    pub(crate) fn prepare(&mut self, slots: u64) {
        self.prepared = slots.min(self.slots);
    }

    /// Whether there are slots that could be prepared.
    pub(crate) fn may_grow(&self) -> bool {
        self.prepared < self.slots
    }

    /// The chunk stays this host's while more slots are being prepared, until
    /// [`end_growth`](Self::end_growth).
    pub(crate) fn begin_growth(&mut self) {
        self.reserved += 1;
    }

    /// So many slots are prepared now.
    pub(crate) fn end_growth(&mut self, slots: u64) {
        self.reserved -= 1;
        self.prepare(slots);
    }

    /// Which slots hold objects.
    pub(crate) fn occupied_slots(&self) -> impl Iterator<Item = u64> {
        (0..self.slots).filter(|&index| self.is_occupied(index))
    }

    pub(crate) fn is_occupied(&self, index: u64) -> bool {
        is_set(&self.live, index)
    }

    pub(crate) fn occupy(&mut self, index: u64) {
        let (word, bit) = place(index);
        if self.live[word] & bit == 0 {
            self.live[word] |= bit;
            self.occupied += 1;
        }
    }

    pub(crate) fn vacate(&mut self, index: u64) {
        let (word, bit) = place(index);
        if self.live[word] & bit != 0 {
            self.live[word] &= !bit;
            self.occupied -= 1;
            self.first_free = self.first_free.min(index);
            if self.held && self.class != CHAIN {
                self.pending_scrub[word] |= bit;
                self.to_scrub += 1;
            }
        }
    }

    /// Whether slots may still have the headers of objects that are gone.
    pub(crate) fn has_pending_scrub(&self) -> bool {
        self.to_scrub > 0
    }

    /// The slot has no header any more.
    pub(crate) fn scrubbed(&mut self, index: u64) {
        let (word, bit) = place(index);
        if self.pending_scrub.get(word).is_some_and(|bits| bits & bit != 0) {
            self.pending_scrub[word] &= !bit;
            self.to_scrub -= 1;
            self.first_free = self.first_free.min(index);
        }
    }

    /// Counts all slots as scrubbed but those that still have headers.
    pub(crate) fn scrubbed_all_but(&mut self, has_header: impl Fn(u64) -> bool) {
        for word in 0..self.pending_scrub.len() {
            let mut left = self.pending_scrub[word];
            while left != 0 {
                let index = word as u64 * 64 + u64::from(left.trailing_zeros());
                left &= left - 1;
                if !has_header(index) {
                    self.scrubbed(index);
                }
            }
        }
    }

    /// This host does not hold the chunk any more.
    pub(crate) fn release(&mut self) {
        self.held = false;
        self.scrubbed_all_but(|_| false);
    }

    /// A free slot, reserved from now on unless `keep` is off.
    pub(crate) fn reserve_slot(&mut self, keep: bool) -> Option<u64> {
        self.busy = true;
        let from = self.first_free as usize / 64;
        let taken = self.live.iter().zip(&self.pending).zip(&self.pending_scrub);
        let (word, free) = taken
            .enumerate()
            .skip(from)
            .map(|(word, ((live, pending), pending_scrub))| {
                (word, !(live | pending | pending_scrub))
            })
            .find(|&(_, free)| free != 0)?;
        let index = word as u64 * 64 + u64::from(free.trailing_zeros());
        if index >= self.prepared {
            return None;
        }
        self.first_free = index;
        if keep {
            self.pending[word] |= place(index).1;
            self.reserved += 1;
        }
        Some(index)
    }

    pub(crate) fn resolve(&mut self, index: u64) {
        let (word, bit) = place(index);
        if self.pending[word] & bit != 0 {
            self.pending[word] &= !bit;
            self.reserved -= 1;
            self.first_free = self.first_free.min(index);
        }
    }

    /// Whether no slot was reserved since the last call.
    pub(crate) fn take_idle(&mut self) -> bool {
        !std::mem::take(&mut self.busy) && self.reserved == 0
    }
}

fn is_set(bits: &[u64], index: u64) -> bool {
    let (word, bit) = place(index);
    bits.get(word).is_some_and(|bits| bits & bit != 0)
}

fn place(index: u64) -> (usize, u64) {
    ((index / 64) as usize, 1 << (index % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves_each_free_slot_once() {
        let mut chunk = ChunkSlots::default();
        chunk.carve(1, 70);
        chunk.prepare(70);
        let reserved: Vec<u64> = std::iter::from_fn(|| chunk.reserve_slot(true)).collect();
        assert_eq!(reserved, (0..70).collect::<Vec<_>>());
        assert!(!chunk.has_room());
        for index in 0..70 {
            chunk.occupy(index);
            chunk.resolve(index);
        }
        assert!(chunk.is_resolved() && !chunk.has_room());
        chunk.vacate(65);
        chunk.vacate(3);
        assert_eq!(chunk.reserve_slot(true), Some(3));
        assert_eq!(chunk.reserve_slot(true), Some(65));
        assert_eq!(chunk.reserve_slot(true), None);
    }

    #[test]
    fn slots_are_promised_once_they_are_prepared() {
        let mut chunk = ChunkSlots::default();
        chunk.carve(1, 3);
        assert!(chunk.has_room() && chunk.reserve_slot(true).is_none());
        chunk.begin_growth();
        assert!(!chunk.is_resolved());
        chunk.end_growth(2);
        assert_eq!(chunk.reserve_slot(true), Some(0));
        assert_eq!(chunk.reserve_slot(true), Some(1));
        assert!(chunk.has_room() && chunk.reserve_slot(true).is_none());
    }

    #[test]
    fn a_slot_is_promised_when_its_header_is_gone() {
        let mut chunk = ChunkSlots { held: true, ..ChunkSlots::default() };
        chunk.carve(1, 2);
        chunk.prepare(2);
        chunk.occupy(0);
        chunk.occupy(1);
        chunk.vacate(0);
        chunk.vacate(1);
        assert!(!chunk.is_empty() && !chunk.has_room() && chunk.has_pending_scrub());
        assert_eq!(chunk.reserve_slot(true), None);
        chunk.scrubbed_all_but(|index| index == 0);
        assert_eq!(chunk.reserve_slot(true), Some(1));
        chunk.occupy(1);
        chunk.resolve(1);
        chunk.release();
        assert!(chunk.has_room());
        assert_eq!(chunk.reserve_slot(true), Some(0));
    }
}
