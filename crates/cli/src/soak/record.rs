//! What a client did and what came of it, as hosts report it.

use serde::{Deserialize, Serialize};
use tombolo_verify::history::{self, Outcome};
use tombolo_verify::models::{Operation, Result as Answer};

use super::clock::Times;
use super::value::Value;

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
}

/// One operation of one client. Times count from the beginning of the round.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(rename = "c")]
    client: u32,
    #[serde(rename = "k")]
    pub(super) key: u32,
    #[serde(rename = "i")]
    invoked_at: u64,
    #[serde(rename = "r")]
    responded_at: u64,
    #[serde(rename = "d")]
    pub(super) did: Did,
}

/// What the checker takes.
pub(super) type Checkable = history::Record<String, Operation<Value>, Answer<Value>>;

/// How a key is called in the pod.
pub(super) fn key_name(key: u32) -> String {
    format!("soak:{key}")
}

impl Record {
    pub(super) fn new(client: u32, key: u32, times: Times, start: u64, did: Did) -> Self {
        let since = |at: u64| at.saturating_sub(start);
        let (invoked_at, responded_at) = (since(times.invoked_at), since(times.responded_at));
        Self { client, key, invoked_at, responded_at, did }
    }

    pub(super) fn checkable(&self) -> Checkable {
        let (operation, result) = self.did.modelled();
        let at = self.responded_at;
        history::Record {
            client: self.client,
            key: key_name(self.key),
            operation,
            invoked_at: self.invoked_at,
            outcome: match result {
                Some(result) => Outcome::Returned { at, result },
                None => Outcome::Failed { at },
            },
        }
    }
}

impl Did {
    /// In the terms of the model; without a result if it had no effect and says nothing.
    fn modelled(self) -> (Operation<Value>, Option<Answer<Value>>) {
        let (operation, result) = match self {
            Self::Read(found) => (Operation::Get, Answer::Value(found)),
            Self::Put(value) => (Operation::Put(value), Answer::Done),
            Self::Create(value, done) => (Operation::Create(value), Answer::Flag(done)),
            Self::Write(value, done) => (Operation::Replace(value), Answer::Flag(done)),
            Self::Delete(done) => (Operation::Delete, Answer::Flag(done)),
            Self::Swap(expected, new, done) => {
                (Operation::CompareAndSwap { expected, new }, Answer::Flag(done))
            }
            Self::Update(value, before) => (Operation::Update(value), Answer::Value(before)),
            Self::NoRoom(value) => return (Operation::Put(value), None),
        };
        (operation, Some(result))
    }
}
