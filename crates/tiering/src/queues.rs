//! Pages on their way to a promotion: candidates, which were touched once, and pending ones.

use std::collections::VecDeque;

/// How far back a candidate is looked for, as in NOMAD.
const CANDIDATES: usize = 20;
/// Pages that wait for their promotion at most, as in NOMAD.
const PENDING: usize = 512;

/// A page: the number of its area, and its own.
pub(crate) type PageId = (usize, usize);

/// The decision about a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has moved, or is gone.
    Drop,
    /// It is to be promoted.
    Promote,
    /// It was not touched again.
    Stay,
}

/// Both queues.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    candidates: VecDeque<PageId>,
    pending: VecDeque<PageId>,
}

/// Pages that a queue had no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) candidates: u64,
    pub(crate) pending: u64,
}

impl Queues {
    /// A page was touched: looks earlier candidates through, and puts this one in front of them.
    pub(crate) fn touched(&mut self, page: PageId, judge: impl Fn(PageId) -> Verdict) -> Dropped {
        let mut dropped = Dropped::default();
        let mut kept = VecDeque::new();
        for candidate in self.candidates.drain(..).filter(|&candidate| candidate != page) {
            match judge(candidate) {
                Verdict::Drop => {}
                Verdict::Promote => dropped.pending += push(&mut self.pending, candidate),
                Verdict::Stay => kept.push_back(candidate),
            }
        }
        match judge(page) {
            Verdict::Drop => {}
            Verdict::Promote => dropped.pending += push(&mut self.pending, page),
            Verdict::Stay => kept.push_front(page),
        }
        dropped.candidates = kept.len().saturating_sub(CANDIDATES) as u64;
        kept.truncate(CANDIDATES);
        self.candidates = kept;
        dropped
    }

    /// Candidates, the latest first: they are parked again before others.
    pub(crate) fn candidates(&self) -> Vec<PageId> {
        self.candidates.iter().copied().collect()
    }

    /// All that are to be promoted.
    pub(crate) fn take_pending(&mut self) -> Vec<PageId> {
        self.pending.drain(..).collect()
    }
}

/// Appends a page, unless it is there or the queue is full; returns how many were dropped.
fn push(pending: &mut VecDeque<PageId>, page: PageId) -> u64 {
    if pending.contains(&page) {
        0
    } else if pending.len() < PENDING {
        pending.push_back(page);
        0
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_is_looked_for_twenty_faults_back() {
        let mut queues = Queues::default();
        let mut dropped = 0;
        for page in 0..25 {
            dropped += queues.touched((0, page), |_| Verdict::Stay).candidates;
        }
        assert_eq!((dropped, queues.candidates().len()), (5, 20));
        assert_eq!(queues.candidates()[0], (0, 24));
        let hot = |page| if page == (0, 7) { Verdict::Promote } else { Verdict::Drop };
        queues.touched((0, 30), hot);
        assert_eq!(queues.take_pending(), [(0, 7)]);
        assert!(queues.candidates().is_empty());
    }

    #[test]
    fn the_pending_queue_drops_what_it_has_no_room_for() {
        let mut queues = Queues::default();
        let dropped: u64 =
            (0..600).map(|page| queues.touched((0, page), |_| Verdict::Promote).pending).sum();
        assert_eq!(dropped, 600 - PENDING as u64);
        queues.touched((0, 3), |_| Verdict::Promote);
        assert_eq!(queues.take_pending().len(), PENDING);
    }
}
