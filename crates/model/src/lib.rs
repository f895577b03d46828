//! Beside the house: the threads of one host under a model checker.
//!
//! The simulator runs threads in turns, so each sees every store at once; a load that may still
//! return an older value is beyond it. Here [`loom`] runs a small model through every schedule (up
//! to a bound on preemptions) and every value that C11's memory model lets a load return.
//!
//! The crate is empty unless compiled with `--cfg loom`. Then [`sync`] stands in for the atomics of
//! the crates under test, [`HostMemory`] is a [`Memory`](tombolo_memory::Memory) of one host, and
//! [`every_step_is_needed`] takes out the orderings of the code one by one.
//!
//! Invariants:
//! * Nothing of this crate is in a normal build.
//! * The code under test is the product's, with other atomics under it; only orderings differ.
//!
//! Left out: incoherence (LNR is coherent here, but a data race in it is an error), what loom
//! leaves out (a load never returns a store that comes later in the schedule), and models of more
//! than five threads or some hundreds of steps.
#![cfg_attr(not(loom), allow(rustdoc::broken_intra_doc_links))]

#[cfg(loom)]
mod check;
#[cfg(loom)]
mod memory;
#[cfg(loom)]
mod mutex;
#[cfg(loom)]
mod steps;
#[cfg(loom)]
mod switches;
#[cfg(loom)]
pub mod sync;

#[cfg(loom)]
pub use check::{Model, check, every_step_is_needed, fails};
#[cfg(loom)]
pub use loom;
#[cfg(loom)]
pub use memory::HostMemory;
