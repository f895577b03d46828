//! The calls and returns of one key's operations, in time order, in a doubly linked list out of
//! which the search lifts what it has placed.
//!
//! Operations are numbered by their return. The operations that may be placed next are those whose
//! call comes before the list's first return.

use std::collections::BTreeSet;

/// A position in the list. Both ends of the list are position 0.
type Position = usize;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Call(usize),
    Return(usize),
}

pub(super) struct Events {
    events: Vec<Event>,
    next: Vec<Position>,
    previous: Vec<Position>,
    call_of: Vec<Position>,
    return_of: Vec<Position>,
}

impl Events {
    /// The events of operations that last from `.0` to `.1`, given in order of `.1`.
    ///
    /// At equal times calls come first: operations that only touch count as concurrent.
    pub(super) fn new(intervals: &[(u64, u64)]) -> Self {
        let calls = intervals.iter().enumerate().map(|(op, times)| (times.0, Event::Call(op)));
        let returns = intervals.iter().enumerate().map(|(op, times)| (times.1, Event::Return(op)));
        let mut timed: Vec<_> = calls.chain(returns).collect();
        timed.sort_unstable();

        let length = timed.len() + 1;
        let mut list = Self {
            events: timed.into_iter().map(|(_, event)| event).collect(),
            next: (1..=length).map(|position| position % length).collect(),
            previous: (0..length).map(|position| (position + length - 1) % length).collect(),
            call_of: vec![0; intervals.len()],
            return_of: vec![0; intervals.len()],
        };
        for (index, event) in list.events.iter().enumerate() {
            match *event {
                Event::Call(op) => list.call_of[op] = index + 1,
                Event::Return(op) => list.return_of[op] = index + 1,
            }
        }
        list
    }

    /// The operation that may be placed next and was called first, or first after `previous`.
    pub(super) fn candidate_after(&self, previous: Option<usize>) -> Option<usize> {
        let position = self.next[previous.map_or(0, |op| self.call_of[op])];
        match self.event(position)? {
            Event::Call(op) => Some(op),
            Event::Return(_) => None,
        }
    }

    /// The operations that may be placed next, in order of their calls.
    pub(super) fn candidates(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(self.candidate_after(None), |&op| self.candidate_after(Some(op)))
    }

    /// The operation that returned first of those in the list: all before it are placed.
    pub(super) fn first_to_return(&self) -> Option<usize> {
        let mut position = self.next[0];
        loop {
            match self.event(position)? {
                Event::Call(_) => position = self.next[position],
                Event::Return(op) => return Some(op),
            }
        }
    }

    /// Takes `op` out of the list. [`Self::candidate_after`] still takes it for `previous` until
    /// the next change: the call goes last, so that it links past its own return.
    pub(super) fn lift(&mut self, op: usize) {
        for position in [self.return_of[op], self.call_of[op]] {
            let (previous, next) = (self.previous[position], self.next[position]);
            self.next[previous] = next;
            self.previous[next] = previous;
        }
    }

    /// Puts `op`, the last one lifted and not put back, where it was.
    pub(super) fn put_back(&mut self, op: usize) {
        for position in [self.call_of[op], self.return_of[op]] {
            let (previous, next) = (self.previous[position], self.next[position]);
            self.next[previous] = position;
            self.previous[next] = position;
        }
    }

    /// A number for each operation that no other in progress at the same time has, as small as can
    /// be.
    pub(super) fn slots(&self) -> Vec<usize> {
        let mut slots = vec![0; self.call_of.len()];
        let mut free = BTreeSet::new();
        let mut used = 0;
        for event in &self.events {
            match *event {
                Event::Call(op) => {
                    slots[op] = free.pop_first().unwrap_or(used);
                    used = used.max(slots[op] + 1);
                }
                Event::Return(op) => {
                    free.insert(slots[op]);
                }
            }
        }
        slots
    }

    fn event(&self, position: Position) -> Option<Event> {
        self.events.get(position.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // 0: |---|
    // 1:   |---|
    // 2: |-------|     touches 3
    // 3:         |---|
    const INTERVALS: [(u64, u64); 4] = [(1, 3), (2, 4), (1, 5), (5, 7)];

    fn candidates(events: &Events) -> Vec<usize> {
        events.candidates().collect()
    }

    #[test]
    fn offers_what_was_called_before_the_first_return() {
        let mut events = Events::new(&INTERVALS);
        assert_eq!((candidates(&events), events.first_to_return()), (vec![0, 2, 1], Some(0)));
        events.lift(1);
        assert_eq!((candidates(&events), events.first_to_return()), (vec![0, 2], Some(0)));
        events.lift(0);
        assert_eq!((candidates(&events), events.first_to_return()), (vec![2, 3], Some(2)));
        events.lift(3);
        events.lift(2);
        assert_eq!((candidates(&events), events.first_to_return()), (vec![], None));
        for op in [2, 3, 0, 1] {
            events.put_back(op);
        }
        assert_eq!((candidates(&events), events.first_to_return()), (vec![0, 2, 1], Some(0)));
    }

    #[test]
    fn walks_on_from_what_was_just_lifted() {
        let mut events = Events::new(&[(1, 2), (3, 4)]);
        assert_eq!(events.candidate_after(Some(0)), None);
        events.lift(0);
        assert_eq!(events.candidate_after(Some(0)), Some(1));
    }

    #[test]
    fn gives_no_slot_to_two_operations_at_once() {
        assert_eq!(Events::new(&INTERVALS).slots(), [0, 2, 1, 0]);
    }
}
