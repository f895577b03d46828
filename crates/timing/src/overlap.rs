//! Misses of one core that are under way at once.

use crate::Ps;

/// A run of accesses, each of which begins when there is a buffer for it.
pub(crate) struct Overlap<'a> {
    /// By buffer: when its last access is through.
    done: &'a mut [Ps],
    /// The next access' buffer.
    buffer: usize,
    /// When the next access may begin.
    pub(crate) next: Ps,
    /// When the last of them is through.
    pub(crate) end: Ps,
}

impl<'a> Overlap<'a> {
    /// With as many buffers as there is room for.
    pub(crate) fn new(done: &'a mut [Ps], now: Ps) -> Self {
        done.fill(0);
        Self { done, buffer: 0, next: now, end: now }
    }

    /// Begins an access, which `latency` says how long it takes from then on; the next one begins
    /// `gap` later at the earliest.
    #[inline]
    pub(crate) fn begin(&mut self, gap: Ps, latency: impl FnOnce(Ps) -> Ps) {
        let begins = self.next.max(self.done[self.buffer]);
        let done = begins + latency(begins);
        self.done[self.buffer] = done;
        self.buffer = if self.buffer + 1 < self.done.len() { self.buffer + 1 } else { 0 };
        self.next = begins + gap;
        self.end = self.end.max(done);
    }

    /// When the access is through that was begun `back` accesses before the next one.
    #[inline]
    pub(crate) fn done_before(&self, back: usize) -> Ps {
        let buffers = self.done.len();
        if back > buffers {
            return 0;
        }
        // Where no access was begun, it is 0, too.
        let before = if back > self.buffer { buffers } else { 0 };
        self.done[self.buffer + before - back]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_under_way_as_there_are_buffers() {
        let mut buffers = [7; 4];
        let mut overlap = Overlap::new(&mut buffers, 1000);
        (0..8).for_each(|_| overlap.begin(1, |_| 100));
        // Four at once, and then four more.
        assert_eq!(overlap.end, 1000 + 100 + 100 + 3);
        let mut alone = Overlap::new(&mut buffers[..1], 0);
        (0..3).for_each(|_| alone.begin(1, |_| 100));
        assert_eq!((alone.end, alone.done_before(1)), (300, 300));
    }
}
