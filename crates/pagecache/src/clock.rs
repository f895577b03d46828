//! Which pages this host uses: small counts that go up with each use and down when the clock's hand
//! passes.
//!
//! Counts are a host's own, and shared by pages whose keys fall together: they need not be
//! accurate. (The paper keeps them in LNR. A host that stores there makes lines dirty that are
//! others' to read; and a page that another host uses and this one evicts costs a read of the file,
//! nothing more.)

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::key::Key;

/// How often the hand passes a page that is used much.
pub(crate) const MOST: u8 = 3;

pub(crate) struct Clock {
    counts: Box<[AtomicU8]>,
    /// Where the hands stand: cursors of the walks through the objects within this host's reach,
    /// and through all.
    pub(crate) hands: [AtomicU64; 2],
}

impl Clock {
    /// Counts for a pod of so many pages.
    pub(crate) fn new(pages: u64) -> Self {
        let counts = pages.clamp(64, 1 << 28).next_power_of_two();
        Self { counts: (0..counts).map(|_| AtomicU8::new(0)).collect(), hands: Default::default() }
    }

    fn count(&self, key: Key) -> &AtomicU8 {
        &self.counts[key.mixed() as usize & (self.counts.len() - 1)]
    }

    /// A page is used.
    pub(crate) fn touch(&self, key: Key) {
        let count = self.count(key);
        let uses = count.load(Ordering::Relaxed);
        if uses < MOST {
            count.store(uses + 1, Ordering::Relaxed);
        }
    }

    /// The hand passes a page; whether it may stay.
    pub(crate) fn passes(&self, key: Key) -> bool {
        let count = self.count(key);
        let uses = count.load(Ordering::Relaxed);
        count.store(uses.saturating_sub(1), Ordering::Relaxed);
        uses > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;

    #[test]
    fn a_page_stays_as_often_as_it_was_used() {
        let (clock, key) = (Clock::new(100), Key::page(FileId { inode: 1, born: 2 }, 3));
        assert!(!clock.passes(key));
        (0..10).for_each(|_| clock.touch(key));
        assert!((0..MOST).all(|_| clock.passes(key)));
        assert!(!clock.passes(key));
    }
}
