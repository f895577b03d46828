//! Beside the floors: workloads put on hosts, in either world.
//!
//! A [`Driver`] is a host's part of a workload, whose [`Target`] is whatever reads and writes
//! values. A [`Lab`] is a pod in virtual time with all its hosts: it is loaded once, and then runs
//! one workload after the other.
//!
//! Nothing here prints, and nothing depends on the time of day: a lab that is set up and used the
//! same comes to the same results.

pub mod adaptive;
mod drive;
pub mod figures;
mod lab;
pub mod nomad;
mod phase;
mod requests;
pub mod sdm;
mod subject;
mod target;
pub mod tigon;

pub use drive::{Driver, Load, Phase, Share, Target, histogram};
pub use lab::{Demand, Lab, Ran, Setup, Sharing};
pub use phase::{Hosts, PhaseResult};
pub use target::Objects;
