//! Workloads of transactions, for any engine of [`tombolo_database`].
//!
//! Invariants:
//! * A seed fixes all choices of a worker, to the bit. Nothing here reads a clock.

pub mod conformance;
mod driver;
mod random;
mod reference;
mod row;
pub mod smallbank;
mod stats;
pub mod tpcc;
mod walk;
mod workload;
pub mod ycsb;

pub use driver::{BackOff, Driver, DriverOptions, Step, Until, Worker};
pub use random::Random;
pub use reference::{Reference, ReferenceTransaction};
pub use stats::{Aborts, KindStats, Stats};
pub use workload::{Outcome, Seat, Workload, load};
