//! The search for a linearization of one key's operations: depth first over the order in which they
//! may have taken effect, remembering the configurations that lead nowhere.

use std::collections::HashMap;

use fixedbitset::FixedBitSet;

use super::events::Events;
use super::{Model, is_in_doubt};
use crate::history::Record;

pub(super) type RecordOf<K, M> = Record<K, <M as Model>::Operation, <M as Model>::Result>;

pub(super) enum Finding {
    Linearizable,
    /// No order gets further than `depth` completed operations.
    Stuck {
        depth: usize,
    },
    Exhausted,
}

/// An operation that may be placed next.
#[derive(Clone, Copy)]
enum Candidate {
    Completed(usize),
    InDoubt(usize),
}

/// An operation that has been placed, and the way back.
struct Placed<S> {
    candidate: Candidate,
    /// `None` for an operation that only reads: nothing to restore, and no alternative to try.
    state_before: Option<S>,
}

/// Which completed operations are placed, and what they and those in doubt have left behind.
///
/// `placed` has a bit for each slot that flips whenever an operation in that slot is placed. All
/// operations that returned before `first_to_return` are placed, so that this number fixes how
/// often each bit has flipped for them, and what is left says which of the operations in progress
/// are placed. Thus a configuration is as long as the history is wide.
#[derive(PartialEq, Eq, Hash)]
struct Configuration<S> {
    first_to_return: Option<usize>,
    placed: FixedBitSet,
    state: S,
}

pub(super) struct Search<'a, K, M: Model> {
    model: &'a M,
    /// Ordered by response.
    completed: Vec<&'a RecordOf<K, M>>,
    /// Ordered by invocation.
    in_doubt: Vec<&'a RecordOf<K, M>>,
    slots: Vec<usize>,

    events: Events,
    placed: FixedBitSet,
    in_doubt_placed: FixedBitSet,
    state: M::State,
    path: Vec<Placed<M::State>>,
    depth: usize,

    /// For each configuration the smallest sets of operations in doubt with which it was reached.
    seen: HashMap<Configuration<M::State>, Vec<FixedBitSet>>,
    explored: u64,
}

impl<'a, K, M: Model> Search<'a, K, M> {
    /// A search over `records`, all of one key and ordered by invocation.
    pub(super) fn new(model: &'a M, records: &[&'a RecordOf<K, M>]) -> Self {
        let mut timed: Vec<_> = records
            .iter()
            .filter(|record| record.result().is_some())
            .filter_map(|record| Some(((record.invoked_at, record.responded_at()?), *record)))
            .collect();
        timed.sort_by_key(|(times, _)| times.1);
        let (intervals, completed): (Vec<_>, Vec<_>) = timed.into_iter().unzip();
        let in_doubt: Vec<_> =
            records.iter().copied().filter(|record| is_in_doubt(record)).collect();
        let events = Events::new(&intervals);
        let slots = events.slots();
        let width = slots.iter().max().map_or(0, |slot| slot + 1);
        Self {
            model,
            in_doubt_placed: FixedBitSet::with_capacity(in_doubt.len()),
            completed,
            in_doubt,
            slots,
            events,
            placed: FixedBitSet::with_capacity(width),
            state: model.initial(),
            path: Vec::new(),
            depth: 0,
            seen: HashMap::new(),
            explored: 0,
        }
    }

    /// Searches until all completed operations are placed, all ways are exhausted, or about
    /// `budget` configurations have been visited.
    pub(super) fn run(&mut self, budget: u64) -> Finding {
        self.run_to(self.completed.len(), budget)
    }

    /// Repeats a search that got stuck, up to the first time that it is `depth` deep.
    pub(super) fn replay(&mut self, depth: usize) {
        self.run_to(depth, u64::MAX);
    }

    pub(super) fn explored(&self) -> u64 {
        self.explored
    }

    fn run_to(&mut self, goal: usize, budget: u64) -> Finding {
        self.place_reads();
        let mut deepest = self.depth;
        let mut last_tried = None;
        while self.depth < goal {
            if self.explored >= budget {
                return Finding::Exhausted;
            }
            if let Some(candidate) = self.candidate_after(last_tried) {
                last_tried = if self.place(candidate) { None } else { Some(candidate) };
                deepest = deepest.max(self.depth);
            } else {
                last_tried = self.take_back();
                if last_tried.is_none() {
                    return Finding::Stuck { depth: deepest };
                }
            }
        }
        Finding::Linearizable
    }

    /// The next alternative after `previous`: completed operations first, then those in doubt.
    fn candidate_after(&self, previous: Option<Candidate>) -> Option<Candidate> {
        let (next_completed, next_in_doubt) = match previous {
            None => (self.events.candidate_after(None), 0),
            Some(Candidate::Completed(op)) => (self.events.candidate_after(Some(op)), 0),
            Some(Candidate::InDoubt(op)) => (None, op + 1),
        };
        next_completed
            .map(Candidate::Completed)
            .or_else(|| self.in_doubt_from(next_in_doubt).map(Candidate::InDoubt))
    }

    fn in_doubt_from(&self, start: usize) -> Option<usize> {
        if start >= self.in_doubt.len() {
            return None;
        }
        let deadline = self.deadline()?;
        (start..self.in_doubt.len())
            .take_while(|&op| self.in_doubt[op].invoked_at <= deadline)
            .find(|&op| !self.in_doubt_placed[op])
    }

    /// When the first operation that is not placed returned: operations invoked later must wait.
    fn deadline(&self) -> Option<u64> {
        self.completed[self.events.first_to_return()?].responded_at()
    }

    /// Places `candidate` and the reads that are legal then, if that leads to anything new.
    fn place(&mut self, candidate: Candidate) -> bool {
        let record = self.record(candidate);
        let Some(after) = self.model.step(&self.state, &record.operation, record.result()) else {
            return false;
        };
        let is_needless = matches!(candidate, Candidate::InDoubt(_)) && after == self.state;
        if is_needless || self.makes_last_needless(record, &after) {
            return false;
        }
        let before = std::mem::replace(&mut self.state, after);
        self.push(candidate, Some(before));
        self.place_reads();
        let is_new = self.remember();
        if !is_new {
            self.take_back();
        }
        is_new
    }

    /// Whether the last operation placed is one in doubt without which `record` would lead to the
    /// same state. Then that way is better: it leaves the other for later.
    fn makes_last_needless(&self, record: &RecordOf<K, M>, after: &M::State) -> bool {
        match self.path.last() {
            Some(Placed { candidate: Candidate::InDoubt(_), state_before: Some(before) }) => {
                let without = self.model.step(before, &record.operation, record.result());
                without.as_ref() == Some(after)
            }
            _ => false,
        }
    }

    /// Places every read that is legal now: if there is a linearization from here, moving a read to
    /// its front gives another.
    fn place_reads(&mut self) {
        let mut next = self.events.candidate_after(None);
        while let Some(op) = next {
            let Record { operation, .. } = self.completed[op];
            let result = self.completed[op].result();
            if result.is_some_and(|result| self.model.reads_only(operation, result))
                && self.model.step(&self.state, operation, result).is_some()
            {
                self.push(Candidate::Completed(op), None);
            }
            next = self.events.candidate_after(Some(op));
        }
    }

    /// Notes the configuration; `false` if it has been reached before with no more of the
    /// operations in doubt, so that whatever is possible now was possible then.
    fn remember(&mut self) -> bool {
        let configuration = Configuration {
            first_to_return: self.events.first_to_return(),
            placed: self.placed.clone(),
            state: self.state.clone(),
        };
        let used = &self.in_doubt_placed;
        let known = self.seen.entry(configuration).or_default();
        if known.iter().any(|known| known.is_subset(used)) {
            return false;
        }
        known.retain(|known| !used.is_subset(known));
        known.push(used.clone());
        true
    }

    fn push(&mut self, candidate: Candidate, state_before: Option<M::State>) {
        match candidate {
            Candidate::Completed(op) => {
                self.events.lift(op);
                self.placed.toggle(self.slots[op]);
                self.depth += 1;
            }
            Candidate::InDoubt(op) => self.in_doubt_placed.insert(op),
        }
        self.path.push(Placed { candidate, state_before });
        self.explored += 1;
    }

    /// Takes back the last operation that was placed by choice, with the reads after it.
    fn take_back(&mut self) -> Option<Candidate> {
        while let Some(Placed { candidate, state_before }) = self.path.pop() {
            match candidate {
                Candidate::Completed(op) => {
                    self.events.put_back(op);
                    self.placed.toggle(self.slots[op]);
                    self.depth -= 1;
                }
                Candidate::InDoubt(op) => self.in_doubt_placed.remove(op),
            }
            if let Some(before) = state_before {
                self.state = before;
                return Some(candidate);
            }
        }
        None
    }

    fn record(&self, candidate: Candidate) -> &'a RecordOf<K, M> {
        match candidate {
            Candidate::Completed(op) => self.completed[op],
            Candidate::InDoubt(op) => self.in_doubt[op],
        }
    }
}

/// Where the search stands.
impl<'a, K, M: Model> Search<'a, K, M> {
    pub(super) fn state(&self) -> &M::State {
        &self.state
    }

    /// The placed operations, in that order.
    pub(super) fn path(&self) -> impl Iterator<Item = &'a RecordOf<K, M>> {
        self.path.iter().map(|placed| self.record(placed.candidate))
    }

    /// The completed operations of which one has to be next, ordered by response.
    pub(super) fn blocked(&self) -> Vec<&'a RecordOf<K, M>> {
        let mut ops: Vec<_> = self.events.candidates().collect();
        ops.sort_unstable();
        ops.into_iter().map(|op| self.completed[op]).collect()
    }

    /// The operations in doubt that are not placed but might have been by now.
    pub(super) fn unused(&self) -> impl Iterator<Item = &'a RecordOf<K, M>> {
        let deadline = self.deadline();
        self.in_doubt
            .iter()
            .enumerate()
            .filter(move |(op, record)| {
                !self.in_doubt_placed[*op] && Some(record.invoked_at) <= deadline
            })
            .map(|(_, record)| *record)
    }
}
