//! Sequential behaviours to check histories against.

use std::fmt::Debug;
use std::hash::Hash;

use crate::linearizability::Model;

/// One key of a key-value store: a value that may be absent.
///
/// Versions are not modelled. Where the store compares versions, give every write a value of its
/// own; comparing values then comes to the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValue<V> {
    /// The first value of every key.
    pub initial: Option<V>,
}

/// An operation on one key, and the [`Result`] it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation<V> {
    /// Reads. [`Result::Value`].
    Get,
    /// Stores, whatever was there. [`Result::Done`].
    Put(V),
    /// Stores if the key is absent. [`Result::Flag`]: whether it stored.
    Create(V),
    /// Stores if the key is present. [`Result::Flag`]: whether it stored.
    Replace(V),
    /// Removes. [`Result::Flag`]: whether there was something to remove.
    Delete,
    /// Stores if the key holds a given value. [`Result::Flag`]: whether it stored.
    CompareAndSwap {
        /// The value that the key must have.
        expected: V,
        /// The value of the key afterwards.
        new: V,
    },
    /// Stores, whatever was there. [`Result::Value`]: the value before.
    Update(V),
    /// Adds to the value as [`Accumulate`] says, or stores if the key is absent. [`Result::Value`]:
    /// the value now.
    Append(V),
}

/// The result of an [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Result<V> {
    /// Nothing to tell.
    Done,
    /// The value, or that there is none.
    Value(Option<V>),
    /// Whether the operation applied.
    Flag(bool),
}

/// Values that [`Operation::Append`] can grow.
pub trait Accumulate {
    /// This value and then `more`.
    #[must_use]
    fn accumulate(&self, more: &Self) -> Self;
}

/// A counter that wraps around.
impl Accumulate for u64 {
    fn accumulate(&self, more: &Self) -> Self {
        self.wrapping_add(*more)
    }
}

/// A counter that wraps around.
impl Accumulate for i64 {
    fn accumulate(&self, more: &Self) -> Self {
        self.wrapping_add(*more)
    }
}

/// A sequence.
impl<T: Clone> Accumulate for Vec<T> {
    fn accumulate(&self, more: &Self) -> Self {
        [self.as_slice(), more.as_slice()].concat()
    }
}

impl<V: Clone + Debug + Eq + Hash + Accumulate> Model for KeyValue<V> {
    type State = Option<V>;
    type Operation = Operation<V>;
    type Result = Result<V>;

    fn initial(&self) -> Self::State {
        self.initial.clone()
    }

    fn step(
        &self,
        state: &Self::State,
        operation: &Self::Operation,
        result: Option<&Self::Result>,
    ) -> Option<Self::State> {
        let (after, expected) = apply(state, operation);
        result.is_none_or(|result| *result == expected).then_some(after)
    }

    fn reads_only(&self, operation: &Self::Operation, result: &Self::Result) -> bool {
        matches!(operation, Operation::Get) || matches!(result, Result::Flag(false))
    }
}

fn apply<V: Clone + Eq + Accumulate>(
    state: &Option<V>,
    operation: &Operation<V>,
) -> (Option<V>, Result<V>) {
    let store_if = |applies: bool, value: Option<&V>| {
        let after = if applies { value } else { state.as_ref() };
        (after.cloned(), Result::Flag(applies))
    };
    match operation {
        Operation::Get => (state.clone(), Result::Value(state.clone())),
        Operation::Put(value) => (Some(value.clone()), Result::Done),
        Operation::Create(value) => store_if(state.is_none(), Some(value)),
        Operation::Replace(value) => store_if(state.is_some(), Some(value)),
        Operation::Delete => store_if(state.is_some(), None),
        Operation::CompareAndSwap { expected, new } => {
            store_if(state.as_ref() == Some(expected), Some(new))
        }
        Operation::Update(value) => (Some(value.clone()), Result::Value(state.clone())),
        Operation::Append(more) => {
            let after = state.as_ref().map_or_else(|| more.clone(), |now| now.accumulate(more));
            (Some(after.clone()), Result::Value(Some(after)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_a_key_through_its_life() {
        let mut state = None;
        let life = [
            (Operation::Get, Result::Value(None)),
            (Operation::Delete, Result::Flag(false)),
            (Operation::Replace(1), Result::Flag(false)),
            (Operation::CompareAndSwap { expected: 1, new: 2 }, Result::Flag(false)),
            (Operation::Create(3), Result::Flag(true)),
            (Operation::Create(4), Result::Flag(false)),
            (Operation::Update(5), Result::Value(Some(3))),
            (Operation::CompareAndSwap { expected: 3, new: 6 }, Result::Flag(false)),
            (Operation::CompareAndSwap { expected: 5, new: 6 }, Result::Flag(true)),
            (Operation::Append(10), Result::Value(Some(16_u64))),
            (Operation::Replace(7), Result::Flag(true)),
            (Operation::Put(8), Result::Done),
            (Operation::Get, Result::Value(Some(8))),
            (Operation::Delete, Result::Flag(true)),
            (Operation::Append(9), Result::Value(Some(9))),
        ];
        for (operation, result) in life {
            let model = KeyValue::default();
            let after = model.step(&state, &operation, Some(&result));
            assert!(after.is_some(), "{operation:?} on {state:?} gives {result:?}");
            assert_eq!(after, model.step(&state, &operation, None));
            if model.reads_only(&operation, &result) {
                assert_eq!(after.as_ref(), Some(&state));
            }
            state = after.unwrap();
        }
    }

    #[test]
    fn refuses_a_result_of_the_wrong_kind() {
        assert_eq!(KeyValue::<u64>::default().step(&None, &Operation::Put(1), None), Some(Some(1)));
        let wrong = Result::Flag(true);
        assert_eq!(KeyValue::<u64>::default().step(&None, &Operation::Put(1), Some(&wrong)), None);
    }
}
