//! The replay buffer of a host: accesses that were made before their permission has come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tombolo_timing::Ps;

pub(crate) struct Replay {
    /// When each of them is permitted.
    waiting: BinaryHeap<Reverse<Ps>>,
    entries: usize,
}

impl Replay {
    pub(crate) fn new(entries: usize) -> Self {
        Self { waiting: BinaryHeap::with_capacity(entries), entries }
    }

    /// When there is room for one more.
    pub(crate) fn room(&mut self, now: Ps) -> Ps {
        while self.waiting.peek().is_some_and(|&Reverse(permitted)| permitted <= now) {
            self.waiting.pop();
        }
        if self.waiting.len() < self.entries {
            return now;
        }
        self.waiting.pop().map_or(now, |Reverse(permitted)| permitted)
    }

    /// An access waits until `permitted`.
    pub(crate) fn add(&mut self, permitted: Ps) {
        self.waiting.push(Reverse(permitted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_it_full_waits_for_the_first_that_leaves() {
        let mut replay = Replay::new(2);
        for (now, room, permitted) in [(0, 0, 30), (5, 5, 20), (6, 20, 40), (35, 35, 50)] {
            assert_eq!(replay.room(now), room);
            replay.add(permitted);
        }
    }
}
