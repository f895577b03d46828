//! Misses of one core that are under way at once.

use crate::Ps;

/// The most that a profile may name.
const MOST: usize = 256;

/// A run of accesses, each of which begins when there is a buffer for it.
pub(crate) struct Overlap {
    done: [Ps; MOST],
    buffers: usize,
    count: usize,
    /// When the next access may begin.
    pub(crate) next: Ps,
    /// When the last of them is through.
    pub(crate) end: Ps,
}

impl Overlap {
    pub(crate) fn new(buffers: usize, now: Ps) -> Self {
        Self { done: [0; MOST], buffers, count: 0, next: now, end: now }
    }

    /// Begins an access, which `latency` says how long it takes from then on; the next one begins `gap`
    /// later at the earliest.
    pub(crate) fn begin(&mut self, gap: Ps, latency: impl FnOnce(Ps) -> Ps) {
        let buffer = self.count % self.buffers;
        let begins = self.next.max(self.done[buffer]);
        let done = begins + latency(begins);
        self.done[buffer] = done;
        self.count += 1;
        self.next = begins + gap;
        self.end = self.end.max(done);
    }

    /// When the access is through that was begun `back` accesses before the next one.
    pub(crate) fn done_before(&self, back: usize) -> Ps {
        if back > self.count || back > self.buffers {
            return 0;
        }
        self.done[(self.count - back) % self.buffers]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_under_way_as_there_are_buffers() {
        let mut overlap = Overlap::new(4, 1000);
        (0..8).for_each(|_| overlap.begin(1, |_| 100));
        // Four at once, and then four more.
        assert_eq!(overlap.end, 1000 + 100 + 100 + 3);
        let mut alone = Overlap::new(1, 0);
        (0..3).for_each(|_| alone.begin(1, |_| 100));
        assert_eq!((alone.end, alone.done_before(1)), (300, 300));
    }
}
