//! Operations of a client and their results, as hosts report them.

use serde::{Deserialize, Serialize};
use tombolo_verify::history::{self, Outcome};
use tombolo_verify::models;

use super::clock::Times;
use super::model::{Answer, Held, Operation, What};
use super::value::Value;

/// The operation that a client is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Attempt {
    #[serde(rename = "g")]
    Read,
    #[serde(rename = "p")]
    Put(Value),
    #[serde(rename = "c")]
    Create(Value),
    /// Write over something.
    #[serde(rename = "w")]
    Write(Value),
    #[serde(rename = "d")]
    Delete,
    /// Exchange the first for the second.
    #[serde(rename = "s")]
    Swap(Value, Value),
    /// Put this, and learn what was there.
    #[serde(rename = "u")]
    Update(Value),
    /// Write this back half.
    #[serde(rename = "a")]
    Amend(Value),
}

/// An operation that was begun.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Began {
    #[serde(rename = "c")]
    pub(super) client: u32,
    #[serde(rename = "k")]
    pub(super) key: u32,
    #[serde(rename = "i")]
    pub(super) invoked_at: u64,
    #[serde(rename = "a")]
    pub(super) attempt: Attempt,
}

/// An operation and what came of it. The name of each is what it did, which is not always what was
/// called: an update that finds nothing has read.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Did {
    /// Read this.
    #[serde(rename = "g")]
    Read(Option<Value>),
    /// Put this.
    #[serde(rename = "p")]
    Put(Value),
    /// Created, or found something there.
    #[serde(rename = "c")]
    Create(Value, bool),
    /// Wrote over something, or found nothing.
    #[serde(rename = "w")]
    Write(Value, bool),
    /// Deleted, or found nothing.
    #[serde(rename = "d")]
    Delete(bool),
    /// Exchanged the first for the second, or found another.
    #[serde(rename = "s")]
    Swap(Value, Value, bool),
    /// Put the first where the second was, or nothing.
    #[serde(rename = "u")]
    Update(Value, Option<Value>),
    /// Did not write this: there was no room.
    #[serde(rename = "n")]
    NoRoom(Value),
    /// Did nothing, whatever it was to be: the value was lost.
    #[serde(rename = "l")]
    FoundLost,
}

/// One operation of one client. Times are of the clock that all share.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(rename = "c")]
    pub(super) client: u32,
    #[serde(rename = "k")]
    pub(super) key: u32,
    #[serde(rename = "i")]
    pub(super) invoked_at: u64,
    #[serde(rename = "r")]
    pub(super) responded_at: u64,
    #[serde(rename = "d")]
    pub(super) did: Did,
}

/// The form that the checker takes.
pub(super) type Checkable = history::Record<String, Operation, Answer>;

/// How a key is called in the pod.
pub(super) fn key_name(key: u32) -> String {
    format!("soak:{key}")
}

impl Attempt {
    /// The effect that it has, if it has one.
    pub(super) fn effect(self) -> What {
        use models::Operation as Known;
        What::Known(match self {
            Self::Read => Known::Get,
            Self::Put(value) => Known::Put(value),
            Self::Create(value) => Known::Create(value),
            Self::Write(value) => Known::Replace(value),
            Self::Delete => Known::Delete,
            Self::Swap(expected, new) => Known::CompareAndSwap { expected, new },
            Self::Update(value) => Known::Update(value),
            Self::Amend(value) => return What::Amend(value),
        })
    }

    /// The value that is there, or half of it, once it is done.
    pub(super) fn writes(self) -> Option<Value> {
        match self {
            Self::Read | Self::Delete => None,
            Self::Put(value)
            | Self::Create(value)
            | Self::Write(value)
            | Self::Swap(_, value)
            | Self::Update(value)
            | Self::Amend(value) => Some(value),
        }
    }

    /// Whether it may be stopped halfway, with part of the bytes written over the object's own.
    pub(super) fn may_tear(self) -> bool {
        !matches!(self, Self::Read | Self::Create(_) | Self::Delete)
    }
}

impl Record {
    pub(super) fn new(client: u32, key: u32, times: Times, did: Did) -> Self {
        let Times { invoked_at, responded_at } = times;
        Self { client, key, invoked_at, responded_at, did }
    }

    /// For the checker, at times since `start`.
    pub(super) fn checkable(&self, start: u64) -> Checkable {
        let (operation, result) = self.did.modelled();
        let at = self.responded_at.saturating_sub(start);
        history::Record {
            client: self.client,
            key: key_name(self.key),
            operation: Operation::known(operation),
            invoked_at: self.invoked_at.saturating_sub(start),
            outcome: match result {
                Some(result) => Outcome::Returned { at, result },
                None => Outcome::Failed { at },
            },
        }
    }
}

impl Did {
    /// In the terms of the model; without a result if it had no effect and says nothing.
    fn modelled(self) -> (models::Operation<Value>, Option<Answer>) {
        use models::{Operation, Result};
        let (operation, result) = match self {
            Self::Read(found) => (Operation::Get, Result::Value(found)),
            Self::Put(value) => (Operation::Put(value), Result::Done),
            Self::Create(value, done) => (Operation::Create(value), Result::Flag(done)),
            Self::Write(value, done) => (Operation::Replace(value), Result::Flag(done)),
            Self::Delete(done) => (Operation::Delete, Result::Flag(done)),
            Self::Swap(expected, new, done) => {
                (Operation::CompareAndSwap { expected, new }, Result::Flag(done))
            }
            Self::Update(value, before) => (Operation::Update(value), Result::Value(before)),
            Self::NoRoom(value) => return (Operation::Put(value), None),
            Self::FoundLost => return (Operation::Get, Some(Answer::Lost)),
        };
        (operation, Some(Answer::Known(result)))
    }

    /// The value that the object had, if this tells.
    pub(super) fn found(self) -> Option<Held> {
        match self {
            Self::Read(value) | Self::Update(_, value) => Some(Held::of(value)),
            Self::Swap(value, _, true) => Some(Held::Value(value)),
            Self::FoundLost => Some(Held::Lost),
            _ => None,
        }
    }
}
