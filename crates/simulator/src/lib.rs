//! A pod in one process, in which incoherence really happens: the second back end of
//! [`Memory`](tombolo_memory::Memory).
//!
//! **Fault model.** Every host has a cache of its own over LNR that holds stale lines and keeps
//! dirty ones. At every memory operation the adversary, drawn from one seed, may switch threads,
//! evict any line of any host (a dirty one is written back *whole*, over whatever newer bytes
//! memory holds), and prefetch any line into any cache. Copies are torn between lines, and now and
//! then inside one. SCR is sequentially consistent. Wall clocks of hosts are skewed. The same seed
//! gives the same run on any machine.
//!
//! Hosts' threads are coroutines on one OS thread. A run that exceeds its step budget is reported
//! as [`Failure::Stuck`]. A site ([`Site`](tombolo_memory::Site)) can be taken out with
//! [`Config::without`], which must make some test fail.
//!
//! **Invariant checked at every write:** no line is dirty in two hosts' caches at once.
//!
//! Fences are taken out like any other step ([`SITES`]): cleans and invalidates are then issued, and
//! happen at some later time.
//!
//! Left out: crashes of hosts, other reordering of what no fence orders, and timing models.

mod cache;
mod explore;
mod memory;
mod mutex;
mod scheduler;
mod sites;
mod world;

pub use explore::{explore, find_failure};
pub use memory::SimMemory;
pub use mutex::SimRawMutex;
pub use scheduler::{Failure, Simulation};
pub use sites::ALL as SITES;
pub use world::Config;
