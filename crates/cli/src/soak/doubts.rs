//! Operations of which nobody knows whether they were done: their hosts were killed, stopped, or
//! fenced meanwhile.

use tombolo_verify::history::{self, Outcome};

use super::model::{Held, Operation, What};
use super::record::{Began, Checkable, Record, key_name};
use super::value::Value;

/// An operation on an object that may happen, or not, from some time on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    /// Which process it is of, of all there were.
    pub(super) life: u32,
    client: u32,
    key: u32,
    invoked_at: u64,
    /// The operation that the client was at; none, if it was not, but its host has the object in
    /// its own memory.
    began: Option<Began>,
    /// Whether the value may be lost instead.
    may_lose: bool,
    /// From when on nothing can come of it any more.
    ended_at: Option<u64>,
    /// It was done, as others have seen.
    seen: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct Doubts(Vec<Doubt>);

impl Doubt {
    /// A client was at it.
    pub(super) fn of(life: u32, began: Began, loses: bool) -> Self {
        let Began { client, key, invoked_at, attempt } = began;
        let may_lose = loses && attempt.may_tear();
        let (ended_at, seen) = (None, false);
        Self { life, client, key, invoked_at, began: Some(began), may_lose, ended_at, seen }
    }

    /// A host may have had the object in its own memory.
    pub(super) fn at_home(life: u32, client: u32, key: u32, invoked_at: u64) -> Self {
        let (ended_at, seen) = (None, false);
        Self { life, client, key, invoked_at, began: None, may_lose: true, ended_at, seen }
    }

    pub(super) fn key(&self) -> u32 {
        self.key
    }

    /// For the checker, at times since `start`: what may have been done, and what may have been
    /// lost instead.
    pub(super) fn checkable(&self, start: u64, number: u32) -> impl Iterator<Item = Checkable> {
        let done = self.began.map(|began| began.attempt.effect());
        let lost = self.may_lose.then_some(What::Lose);
        let once = Some(number).filter(|_| done.is_some() && lost.is_some());
        let (client, key) = (self.client, key_name(self.key));
        let invoked_at = self.invoked_at.saturating_sub(start);
        [done, lost].into_iter().flatten().map(move |what| history::Record {
            client,
            key: key.clone(),
            operation: Operation { what, once },
            invoked_at,
            outcome: Outcome::Pending,
        })
    }

    fn is_seen_in(&self, records: &[Record]) -> bool {
        let Some(Value::Whole(tag, _)) = self.began.and_then(|began| began.attempt.writes()) else {
            return false;
        };
        let names_it = |held| match held {
            Held::Value(Value::Whole(front, back)) => front == tag || back == tag,
            _ => false,
        };
        let of_key = records.iter().filter(|record| record.key == self.key);
        of_key.filter_map(|record| record.did.found()).any(names_it)
    }
}

impl Doubts {
    /// Adds what is not among them.
    pub(super) fn add(&mut self, doubt: Doubt) {
        let same = |other: &Doubt| {
            (other.life, other.client, other.key, other.invoked_at)
                == (doubt.life, doubt.client, doubt.key, doubt.invoked_at)
        };
        if !self.0.iter().any(same) {
            self.0.push(doubt);
        }
    }

    /// Nothing comes of what a process was at any more.
    pub(super) fn end_all_of(&mut self, life: u32, at: u64) {
        for doubt in self.0.iter_mut().filter(|doubt| doubt.life == life) {
            doubt.ended_at.get_or_insert(at);
        }
    }

    /// Those that belong to a round's history. An operation that has ended before all was read at
    /// its end is over.
    pub(super) fn of_round(&mut self, records: &[Record], read_at: u64) -> Vec<Doubt> {
        let here: Vec<Doubt> = self.0.iter().copied().filter(|doubt| !doubt.seen).collect();
        for doubt in &mut self.0 {
            doubt.seen |= doubt.is_seen_in(records);
        }
        self.0.retain(|doubt| doubt.ended_at.is_none_or(|at| at >= read_at));
        here
    }
}
