//! Errors of workloads.

use crate::properties::Origin;

/// Why a text holds no workload, or a workload cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The text is no property file, or the assignment no assignment.
    #[error("{origin}: {problem}")]
    Syntax {
        /// Where it stands.
        origin: Origin,
        /// The fault there, and the remedy.
        problem: String,
    },
    /// There is no property of this name.
    #[error("{origin}: unknown property {name:?}; the nearest known one is {nearest:?}")]
    Unknown {
        /// Where it stands.
        origin: Origin,
        /// The name that is not known.
        name: String,
        /// The known name that takes the fewest edits to reach.
        nearest: &'static str,
    },
    /// A property has a value that cannot be read, or that asks for what is not done here.
    #[error("{origin}: {name}={value} cannot be used; it must be {expected}")]
    Value {
        /// Where it stands.
        origin: Origin,
        /// The property.
        name: &'static str,
        /// Its value.
        value: String,
        /// The values that it may have.
        expected: &'static str,
    },
    /// Every property is readable, but together they describe nothing that could be run.
    #[error("the workload cannot be run: {0}")]
    Impossible(String),
    /// There is no stock workload of this letter.
    #[error("there is no stock workload {0:?}; they are 'a' to 'f'")]
    NoSuchStock(char),
}
