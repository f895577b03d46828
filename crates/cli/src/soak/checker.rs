//! Checking rounds while later ones run.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use tombolo_verify::history::History;
use tombolo_verify::linearizability::{Verdict, check};

use super::doubts::Doubt;
use super::model::{Held, Object};
use super::record::{Checkable, Record, key_name};
use super::report::Failure;

/// Configurations that may be visited for one key of one round: some hundreds of bytes each.
const BUDGET: u64 = 500_000;

/// Rounds that may wait to be checked. If they are more, the hosts wait.
const WAITING: usize = 4;

/// The records between two quiescent points.
pub(super) struct Round {
    pub(super) number: u64,
    /// When the first was.
    pub(super) start: u64,
    /// The value of each key at the first.
    pub(super) initial: Vec<Held>,
    pub(super) records: Vec<Record>,
    /// The operations that may have been done besides.
    pub(super) doubts: Vec<Doubt>,
}

/// The outcome of the checks.
#[derive(Default)]
pub(super) struct Checked {
    /// Histories of one key in one round that are proven linearizable.
    pub(super) linearizable: u64,
    /// Those for which the budget ran out.
    pub(super) undecided: u64,
    pub(super) failures: Vec<Failure>,
}

/// A thread that checks rounds until one has failed.
pub(super) struct Checker {
    rounds: SyncSender<Round>,
    thread: JoinHandle<Checked>,
}

impl Checker {
    pub(super) fn start() -> Self {
        let (rounds, received) = sync_channel(WAITING);
        Self { rounds, thread: thread::spawn(move || check_all(received)) }
    }

    /// Hands over a round; whether all is well so far.
    pub(super) fn submit(&self, round: Round) -> bool {
        self.rounds.send(round).is_ok()
    }

    /// Waits until all is checked.
    pub(super) fn finish(self) -> Checked {
        drop(self.rounds);
        self.thread.join().expect("the checker does not panic")
    }
}

fn check_all(rounds: Receiver<Round>) -> Checked {
    let mut checked = Checked::default();
    for round in rounds {
        checked.add(round);
        if !checked.failures.is_empty() {
            break;
        }
    }
    checked
}

impl Checked {
    fn add(&mut self, round: Round) {
        let mut histories: Vec<Vec<Checkable>> = vec![Vec::new(); round.initial.len()];
        for record in &round.records {
            histories[record.key as usize].push(record.checkable(round.start));
        }
        for (number, doubt) in (0..).zip(&round.doubts) {
            histories[doubt.key() as usize].extend(doubt.checkable(round.start, number));
        }
        for (number, (initial, records)) in (0..).zip(round.initial.into_iter().zip(histories)) {
            let key = Some(key_name(number));
            match verdict(initial, records, BUDGET) {
                Ok(true) => self.linearizable += 1,
                Ok(false) => self.undecided += 1,
                Err(what) => self.failures.push(Failure { round: round.number, key, what }),
            }
        }
    }
}

/// Whether the history of a key is proven linearizable.
///
/// # Errors
/// The proof that it is not.
fn verdict(initial: Held, records: Vec<Checkable>, budget: u64) -> Result<bool, String> {
    let history = History::new(records).map_err(|error| error.to_string())?;
    match check(&Object { initial }, &history, budget) {
        Verdict::Linearizable { .. } => Ok(true),
        Verdict::Undecided { .. } => Ok(false),
        Verdict::Violation(violation) => Err(violation.to_string().trim_end().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use tombolo_verify::models::Accumulate;

    use super::*;
    use crate::soak::clock::Times;
    use crate::soak::record::{Attempt, Began, Did};
    use crate::soak::value::{Tag, Value};

    fn value(count: usize) -> Value {
        let mut tags = std::iter::successors(Some(Tag::first(0, 0)), |tag| Some(tag.next()));
        Value::new(tags.nth(count).expect("there are more"))
    }

    /// Operations of one client, one after the other.
    fn records(all: &[Did]) -> Vec<Record> {
        let times = |at: u64| Times { invoked_at: 2 * at, responded_at: 2 * at + 1 };
        (0..).zip(all).map(|(at, &did)| Record::new(0, 0, times(at), did)).collect()
    }

    fn check(initial: Option<Value>, all: &[Did]) -> Checked {
        check_in_doubt(initial, all, Vec::new())
    }

    fn check_in_doubt(initial: Option<Value>, all: &[Did], doubts: Vec<Doubt>) -> Checked {
        let mut checked = Checked::default();
        let (initial, records) = (vec![Held::of(initial)], records(all));
        checked.add(Round { number: 5, start: 0, initial, records, doubts });
        checked
    }

    fn doubt(attempt: Attempt, loses: bool) -> Doubt {
        Doubt::of(1, Began { client: 1, key: 0, invoked_at: 1, attempt }, loses)
    }

    #[test]
    fn a_round_begins_with_what_the_last_one_left() {
        let (old, new) = (Some(value(1)), Some(value(2)));
        for (initial, read, linearizable) in [(old, old, 1), (old, None, 0), (None, new, 0)] {
            let checked = check(initial, &[Did::Read(read)]);
            assert_eq!(checked.linearizable, linearizable);
            assert_eq!(checked.failures.len() as u64, 1 - linearizable);
        }
    }

    #[test]
    fn every_operation_is_checked() {
        let [a, b, c] = [1, 2, 3].map(value);
        let (some, torn) = (Some, Value::of(&[1; 24]));
        let lawful = [
            Did::Put(a),
            Did::NoRoom(b),
            Did::Read(some(a)),
            Did::Create(b, false),
            Did::Write(b, true),
            Did::Swap(a, c, false),
            Did::Swap(b, c, true),
            Did::Update(a, some(c)),
            Did::Delete(true),
            Did::Delete(false),
            Did::Update(b, None),
        ];
        assert_eq!(check(None, &lawful).linearizable, 1);
        for wrong in [
            Did::Read(some(a)),
            Did::Read(some(torn)),
            Did::Read(None),
            Did::Create(c, true),
            Did::Write(c, false),
            Did::Swap(a, c, true),
            Did::Swap(b, c, false),
            Did::Update(c, some(a)),
            Did::Delete(false),
        ] {
            let checked = check(None, &[&lawful[..], &[wrong]].concat());
            assert_eq!(checked.linearizable, 0, "{wrong:?}");
            let failure = &checked.failures[0];
            assert_eq!((failure.round, failure.key.as_deref()), (5, Some("soak:0")));
            assert!(failure.what.contains("none can be next"), "{}", failure.what);
        }
    }

    #[test]
    fn what_is_not_searched_to_the_end_is_undecided() {
        let writes = [Did::Put(value(1)), Did::Put(value(2))];
        let history = records(&writes).iter().map(|record| record.checkable(0)).collect();
        assert_eq!(verdict(Held::Nothing, history, 1), Ok(false));
    }

    #[test]
    fn what_is_in_doubt_happens_once_or_not_at_all() {
        let [old, new, other] = [1, 2, 3].map(value);
        let read = |value| Did::Read(Some(value));
        let put = || vec![doubt(Attempt::Put(new), false)];
        for (reads, linearizable) in [
            (vec![read(old), read(old)], 1),
            (vec![read(old), read(new)], 1),
            (vec![read(new), Did::Put(other), read(other)], 1),
            (vec![read(new), read(old)], 0),
            (vec![read(old), read(other)], 0),
            (vec![read(old), Did::FoundLost], 0),
        ] {
            let checked = check_in_doubt(Some(old), &reads, put());
            assert_eq!(checked.linearizable, linearizable, "{reads:?}");
        }
        let amended = old.accumulate(&new);
        let amend = vec![doubt(Attempt::Amend(new), false)];
        let checked = check_in_doubt(Some(old), &[read(old), read(amended)], amend);
        assert_eq!(checked.linearizable, 1);
    }

    #[test]
    fn a_value_is_lost_only_by_a_write_that_may_have_torn_it() {
        let [old, new, other] = [1, 2, 3].map(value);
        let read = |value| Did::Read(Some(value));
        let write = Attempt::Write(new);
        for (attempt, found, linearizable) in [
            (write, vec![read(old), Did::FoundLost, Did::FoundLost], 1),
            (write, vec![Did::FoundLost, Did::Put(other), read(other)], 1),
            (write, vec![Did::FoundLost, Did::Delete(true), Did::Read(None)], 1),
            (write, vec![read(new), Did::Put(other), read(other)], 1),
            // Neither does a value come back, nor is it lost by a write that was done.
            (write, vec![Did::FoundLost, read(old)], 0),
            (write, vec![Did::FoundLost, read(new)], 0),
            (write, vec![read(new), Did::FoundLost], 0),
            (write, vec![Did::FoundLost, Did::Put(other), Did::FoundLost], 0),
            (write, vec![Did::FoundLost, Did::Delete(false)], 0),
            (Attempt::Delete, vec![Did::FoundLost], 0),
            (Attempt::Create(new), vec![Did::FoundLost], 0),
        ] {
            let checked = check_in_doubt(Some(old), &found, vec![doubt(attempt, true)]);
            assert_eq!(checked.linearizable, linearizable, "{attempt:?}, {found:?}");
        }
        let at_home = vec![Doubt::at_home(1, 1, 0, 1)];
        assert_eq!(check_in_doubt(Some(old), &[Did::FoundLost], at_home).linearizable, 1);
    }
}
