//! Interactions of hosts in the simulator: scenarios, each with its oracle, and campaigns that run
//! them under many schedules and with steps of the protocols left out.
//!
//! A scenario takes place in a pod in which rare things are common (`world.rs`): a log of 8
//! entries, counters of 3 bits, two records, a handful of chunks. It panics if what hosts saw was
//! wrong. Everything it does depends on its [`Trial`](tombolo_simulator::Trial) alone.
//!
//! Where hosts die, no operation of the others fails, and nothing that those had is left in the
//! end.

mod aims;
pub mod append;
mod backup;
mod baselines;
mod branches;
pub mod campaign;
mod compaction;
mod crash;
mod database_deaths;
mod deaths;
mod disk;
mod epochs;
mod eviction;
mod expiry;
mod failure;
mod fenced;
mod give_back;
mod heaps;
mod hunt;
mod linearizable;
mod log;
mod mail;
mod messages;
mod objects;
mod operations;
mod pages;
mod poisoned;
mod qualification;
mod queues;
mod regions;
mod registry;
mod reservations;
mod saved;
mod seats;
mod several;
mod shards;
mod short;
mod tenants;
mod together;
mod transactions;
mod transfer;
mod views;
mod world;

pub use aims::aim;
pub use failure::{Failure, explain, unshortened};
pub use hunt::{Hunted, Kill, hunt};
pub use registry::{Kind, PENDING, SCENARIOS, Scenario, mutants, sites};
