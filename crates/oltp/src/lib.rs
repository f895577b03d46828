//! Workloads of transactions, for any engine of [`tombolo_database`].
//!
//! Invariants:
//! * A seed fixes all choices of a worker, to the bit. Nothing here reads a clock.

pub mod conformance;
mod random;
mod reference;

pub use random::Random;
pub use reference::{Reference, ReferenceTransaction};
