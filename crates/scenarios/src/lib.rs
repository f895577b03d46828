//! What hosts do to each other in the simulator: scenarios, each with its oracle, and campaigns that
//! run them under many schedules and with steps of the protocols left out.
//!
//! A scenario takes place in a pod in which rare things are common (`world.rs`): a log of 8 entries,
//! counters of 3 bits, two records, a handful of chunks. It panics if what hosts saw was wrong.
//! Everything it does depends on its [`Trial`](tombolo_simulator::Trial) alone.
//!
//! Left out: recovery of hosts that die, which is to come. Where a host dies, the others must see no
//! wrong byte, and give up in time what it is in the way of.

pub mod append;
mod baselines;
pub mod campaign;
mod compaction;
mod crash;
mod disk;
mod expiry;
mod failure;
mod fenced;
mod hunt;
mod log;
mod mail;
mod objects;
mod operations;
mod pages;
mod registry;
mod saved;
mod seats;
mod shards;
mod short;
mod transfer;
mod world;

pub use failure::{Failure, explain};
pub use hunt::{Hunted, Kill, hunt};
pub use registry::{Kind, SCENARIOS, Scenario, mutants, sites};
