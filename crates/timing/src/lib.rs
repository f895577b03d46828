//! Floor 1: a pod in virtual time, the third back end of [`Memory`](tombolo_memory::Memory).
//!
//! Every thread has a clock, and the one with the smallest runs. An operation's time follows from a
//! [`Profile`]: caches that hold tags, links and devices with so much bandwidth, a directory that
//! keeps SCR coherent, and the time of the code's own steps on a processor. One seed gives one run,
//! to the picosecond.
//!
//! **Timing model.**
//! * A core has private caches, a host a shared one that includes them (`cache.rs`, `shared.rs`,
//!   `caches.rs`). Lines are kept least recently used. Hosts' caches over LNR know nothing of each
//!   other, unless the profile says that they do.
//! * SCR is kept coherent by the device, which knows who has a line and sends back-invalidations
//!   (`directory.rs`). Changes of one line go one after the other.
//! * A core overlaps as many misses as it has buffers for, and begins so many in a time; stores
//!   retire before they complete, atomics and fences wait for them (`overlap.rs`).
//! * Local memory, each host's link and the device have a bandwidth, shared by all who use them,
//!   and slow down as it is used up (`pipe.rs`).
//! * A step of the code costs what the profile says ([`Work`](tombolo_memory::Work)); this host's
//!   own memory is touched by name, not by address, so that runs can be done again.
//!
//! **Bytes** are there once: nothing is stale, which is what the simulator is for. Lines of zeros
//! take no memory (`sparse.rs`), so objects without content can be many.
//!
//! Left out: prefetchers (but that a core which reads one line after the other has the next ones
//! under way), levels of TLBs and what a page walk reads, page faults but those of a page's first
//! touch, simultaneous multithreading, frequency, more threads than cores, DRAM banks, the
//! directory's own capacity.

mod cache;
mod caches;
mod clocks;
mod counts;
mod directory;
mod machine;
mod memory;
mod mutex;
mod overlap;
mod pipe;
mod profile;
mod shared;
mod simulation;
mod sparse;
mod tiers;
mod world;

pub use cache::{Key, Line, Place, Region};
pub use caches::{Access, Found, HostCaches};
pub use clocks::Clocks;
pub use counts::Counts;
pub use memory::TimedMemory;
pub use mutex::TimedRawMutex;
pub use pipe::Pipe;
pub use profile::{
    Bandwidth, Cache, Database, Flush, Paging, Profile, ProfileError, Storage, Tier,
};
pub use shared::Note;
pub use simulation::{Simulation, Spec};
pub use tiers::{TierSpeed, Tiers};

/// Virtual time in picoseconds.
pub type Ps = u64;

/// Nanoseconds as virtual time.
pub fn ps(ns: f64) -> Ps {
    (ns * 1000.0).round() as Ps
}
