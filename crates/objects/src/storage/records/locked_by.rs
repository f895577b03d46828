//! By what an object is locked.

use super::RecordId;

/// The means that keep other hosts off an object while one host changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockedBy {
    /// The lock of its coherence record.
    Record(RecordId),
    /// An event in the log: the object has no record.
    Log,
    /// The object is in the host's partition, and has no lock.
    Partition,
}

/// Codes of locks that are no record's. No record has such a number.
const LOG: u32 = (1 << 28) - 258;
const PARTITION: u32 = u32::MAX - 1;

impl LockedBy {
    /// A number that stands for it: a record's own.
    #[inline(always)]
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Record(record) => record.0,
            Self::Log => LOG,
            Self::Partition => PARTITION,
        }
    }

    /// The inverse of [`code`](Self::code).
    #[inline(always)]
    pub(crate) fn of_code(code: u32) -> Self {
        match code {
            LOG => Self::Log,
            PARTITION => Self::Partition,
            record => Self::Record(RecordId(record)),
        }
    }

    /// The record, if it is one's lock.
    pub(crate) fn record(self) -> Option<RecordId> {
        match self {
            Self::Record(record) => Some(record),
            Self::Log | Self::Partition => None,
        }
    }
}
