//! A table of where pages are that holds so many: of a core (a TLB), or of a host.

use tombolo_memory::prefetch;

/// Pages by their places. One that was not used lately goes for a new one (a clock's hand finds
/// it).
pub(crate) struct Translations {
    /// Each one's place, and whether it was used since the hand came by.
    slots: Vec<(u32, bool)>,
    /// By place, the slot, counted from one.
    slot_of: Vec<u32>,
    hand: usize,
    entries: usize,
}

impl Translations {
    pub(crate) fn new(entries: usize) -> Self {
        Self { slots: Vec::new(), slot_of: Vec::new(), hand: 0, entries }
    }

    /// Whether a page is there; from now on it is.
    pub(crate) fn knows(&mut self, place: usize) -> bool {
        if self.slot_of.len() <= place {
            self.slot_of.resize(place + 1, 0);
        }
        let slot = self.slot_of[place] as usize;
        if slot != 0 {
            self.slots[slot - 1].1 = true;
            return true;
        }
        let entry = (place as u32, true);
        if self.slots.len() < self.entries {
            self.slots.push(entry);
            self.slot_of[place] = self.slots.len() as u32;
            return false;
        }
        while std::mem::take(&mut self.slots[self.hand].1) {
            self.turn();
        }
        let gone = std::mem::replace(&mut self.slots[self.hand], entry);
        self.slot_of[gone.0 as usize] = 0;
        self.slot_of[place] = self.hand as u32 + 1;
        self.turn();
        false
    }

    /// Has this machine fetch what is known of a page.
    #[inline]
    pub(crate) fn foresee(&self, place: usize) {
        self.slot_of.get(place).into_iter().for_each(prefetch);
    }

    fn turn(&mut self) {
        self.hand = (self.hand + 1) % self.entries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_lately_goes() {
        let mut table = Translations::new(3);
        assert_eq!([7, 8, 9].map(|place| table.knows(place)), [false; 3]);
        // All were used: the hand goes round once, and takes the first.
        assert!(!table.knows(10));
        assert!(table.knows(8));
        // Nine is the one that was not used since.
        assert!(!table.knows(11));
        assert_eq!([8, 10, 11].map(|place| table.knows(place)), [true; 3]);
        assert!(!table.knows(9));
    }

    #[test]
    fn what_fits_stays() {
        let mut table = Translations::new(100);
        for round in 0..3 {
            assert!((0..100).all(|place| table.knows(place) == (round > 0)));
        }
    }
}
