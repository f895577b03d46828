//! The specification of one object: it keeps a value, or nothing, or loses the value with a host
//! that was changing it.

use std::fmt;

use tombolo_verify::linearizability::Model;
use tombolo_verify::models::{self, Accumulate, KeyValue};

use super::value::Value;

/// The value of an object.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) enum Held {
    /// There is none.
    #[default]
    Nothing,
    Value(Value),
    /// Its value is lost, and everybody is told so until it is put anew or deleted.
    Lost,
}

/// The value of an object, and the operations in doubt that have had their effect.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    held: Held,
    spent: Vec<u32>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Operation {
    pub(super) what: What,
    /// Of the operations in doubt that have a number in common only one takes effect: a write is
    /// done, or has torn the object.
    pub(super) once: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum What {
    Known(models::Operation<Value>),
    /// Writes the back half, if there is a value.
    Amend(Value),
    /// Loses the value.
    Lose,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Known(models::Result<Value>),
    /// That the value is lost.
    Lost,
}

/// One object, and what it holds at first.
pub(super) struct Object {
    pub(super) initial: Held,
}

impl Held {
    pub(super) fn of(value: Option<Value>) -> Self {
        value.map_or(Self::Nothing, Self::Value)
    }
}

impl Operation {
    pub(super) fn known(operation: models::Operation<Value>) -> Self {
        Self { what: What::Known(operation), once: None }
    }
}

impl Model for Object {
    type State = State;
    type Operation = Operation;
    type Result = Answer;

    fn initial(&self) -> State {
        State { held: self.initial, spent: Vec::new() }
    }

    fn step(&self, state: &State, operation: &Operation, result: Option<&Answer>) -> Option<State> {
        if operation.once.is_some_and(|once| state.spent.contains(&once)) {
            return None;
        }
        let held = after(state.held, &operation.what, result)?;
        let spent = operation.once.filter(|_| held != state.held);
        Some(State { held, spent: state.spent.iter().copied().chain(spent).collect() })
    }

    fn reads_only(&self, operation: &Operation, result: &Answer) -> bool {
        match (&operation.what, result) {
            (What::Known(operation), Answer::Known(result)) => {
                KeyValue { initial: None }.reads_only(operation, result)
            }
            (What::Known(models::Operation::Get), Answer::Lost) => true,
            _ => false,
        }
    }
}

/// The value of an object after an operation, if that can have had this result.
fn after(held: Held, what: &What, result: Option<&Answer>) -> Option<Held> {
    match (what, held) {
        (What::Lose, Held::Value(_)) => Some(Held::Lost),
        (What::Lose, _) => None,
        (What::Amend(more), Held::Value(value)) => Some(Held::Value(value.accumulate(more))),
        (What::Amend(_), held) => Some(held),
        (What::Known(operation), Held::Lost) => after_loss(operation, result),
        (What::Known(operation), held) => {
            let value = match held {
                Held::Value(value) => Some(value),
                _ => None,
            };
            let result = match result {
                Some(Answer::Lost) => return None,
                Some(Answer::Known(result)) => Some(result),
                None => None,
            };
            KeyValue { initial: None }.step(&value, operation, result).map(Held::of)
        }
    }
}

/// The same, of an object whose value is lost.
fn after_loss(operation: &models::Operation<Value>, result: Option<&Answer>) -> Option<Held> {
    let (held, expected) = match operation {
        models::Operation::Put(value) => (Held::Value(*value), Answer::Known(models::Result::Done)),
        models::Operation::Delete => (Held::Nothing, Answer::Known(models::Result::Flag(true))),
        _ => (Held::Lost, Answer::Lost),
    };
    result.is_none_or(|result| *result == expected).then_some(held)
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.held {
            Held::Nothing => write!(f, "None"),
            Held::Value(value) => write!(f, "Some({value:?})"),
            Held::Lost => write!(f, "Lost"),
        }
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Known(operation) => operation.fmt(f),
            What::Amend(value) => write!(f, "Amend({value:?})"),
            What::Lose => write!(f, "Lose"),
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(result) => result.fmt(f),
            Self::Lost => write!(f, "Lost"),
        }
    }
}
