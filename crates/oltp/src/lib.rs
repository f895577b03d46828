//! Workloads of transactions, for any engine of [`tombolo_database`], and checks of such engines.
//!
//! * [`tpcc`]: TPC-C in full and as published with Tigon, and its consistency conditions.
//! * [`ycsb`]: YCSB with transactions of ten operations, clean and as published.
//! * [`smallbank`]: SmallBank, whose money can be counted.
//! * [`bank`]: transfers between accounts that come and go, whose readers check what they see.
//! * [`Driver`] runs a [`Workload`] and counts what becomes of its transactions.
//! * [`conformance`] holds engines to the trait's contract. [`Reference`] is the engine to compare
//!   them with.
//!
//! # Invariants
//!
//! * A seed, a host and a worker's number fix all choices of the worker, to the bit. Nothing here
//!   reads a clock: callers give the driver one.
//! * A transaction that met a conflict is run again with the same input.
//! * Money is counted in whole cents.
//! * A variant has its own name in reports, and says what it leaves out.
//! * Each check has been seen to fail: a test plants what it is to find.
//!
//! # Left out
//!
//! Threads, and when a commit is acknowledged: the caller starts the workers, and the engine is set
//! up before. Serializability of concurrent transactions: histories show it, not these checks.
//! TPC-C's terminals with their keying and think times. SQL.
//!
//! ```
//! use tombolo_oltp::tpcc::conditions::{self, When};
//! use tombolo_oltp::tpcc::{RemoteRates, Scale, Tpcc};
//! use tombolo_oltp::{Driver, DriverOptions, Reference, Seat, Until, Workload, load};
//!
//! let workload = Tpcc::new(Scale::small(2), RemoteRates::SPECIFICATION, 1);
//! let engine = Reference::new(&workload.tables(), workload.partitions());
//! load(&workload, &engine, 0, 1)?;
//! let clock = || 0;
//! let options = DriverOptions::new(Until::Transactions(100));
//! let driver = Driver::new(&workload, &engine, clock, options);
//! let mut worker = driver.worker(&Seat::of(&engine, 0, 1));
//! driver.run(&mut worker, |_wait_ns| std::thread::yield_now())?;
//! let total = worker.stats().total();
//! assert_eq!(total.commits + total.rollbacks, 100);
//! assert_eq!(conditions::check(&engine, workload.scale(), When::Always)?, []);
//! # Ok::<(), tombolo_database::TxError>(())
//! ```

pub mod bank;
pub mod conformance;
mod driver;
pub mod in_process;
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
