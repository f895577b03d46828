//! A file as a sequence of units, each of which one write made.

use tombolo_verify::linearizability::Model;

use crate::disk::{PAGE, UNIT};

/// Units of a page.
pub(super) const UNITS: u64 = PAGE / UNIT;

/// A file as a sequence of units, each of which one write made.
#[derive(Clone, Debug, Default)]
pub(super) struct Units;

/// An operation on a file. Positions and lengths are in units.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    /// Within one page.
    Read {
        at: u64,
        count: u64,
    },
    /// Within one page.
    Write {
        at: u64,
        count: u64,
        tag: u64,
    },
    Append {
        count: u64,
        tag: u64,
    },
    Truncate(u64),
    /// The file stays as long as it is.
    Zero {
        at: u64,
        count: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Units(Vec<u64>),
    At(u64),
    Done,
}

impl Model for Units {
    type State = Vec<u64>;
    type Operation = Operation;
    type Result = Answer;

    fn initial(&self) -> Vec<u64> {
        Vec::new()
    }

    fn step(
        &self,
        state: &Vec<u64>,
        operation: &Operation,
        result: Option<&Answer>,
    ) -> Option<Vec<u64>> {
        let mut after = state.clone();
        let length = state.len();
        let answer = match *operation {
            Operation::Read { at, count } => {
                let range = length.min(at as usize)..length.min((at + count) as usize);
                Answer::Units(state[range].to_vec())
            }
            Operation::Write { at, count, tag } => {
                after.resize(length.max((at + count) as usize), 0);
                after[at as usize..(at + count) as usize].fill(tag);
                Answer::Done
            }
            Operation::Append { count, tag } => {
                after.extend((0..count).map(|_| tag));
                Answer::At(length as u64)
            }
            Operation::Truncate(to) => {
                after.resize(to as usize, 0);
                Answer::Done
            }
            Operation::Zero { at, count } => {
                after[length.min(at as usize)..length.min((at + count) as usize)].fill(0);
                Answer::Done
            }
        };
        result.is_none_or(|result| *result == answer).then_some(after)
    }

    fn reads_only(&self, operation: &Operation, _: &Answer) -> bool {
        matches!(operation, Operation::Read { .. })
    }
}

/// The bytes of units that one write makes.
pub(super) fn units(tag: u64, count: u64) -> Vec<u8> {
    tag.to_le_bytes().repeat((count * UNIT / 8) as usize)
}

pub(super) fn tags(bytes: &[u8]) -> Vec<u64> {
    assert!((bytes.len() as u64).is_multiple_of(UNIT), "a file of {} bytes", bytes.len());
    bytes
        .chunks(UNIT as usize)
        .map(|unit| {
            let tag = u64::from_le_bytes(*unit.first_chunk().unwrap());
            assert!(unit == units(tag, 1), "torn: {unit:?}");
            tag
        })
        .collect()
}
