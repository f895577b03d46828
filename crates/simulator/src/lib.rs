//! A pod in one process, in which incoherence really happens: the second back end of
//! [`Memory`](tombolo_memory::Memory).
//!
//! **Fault model.** Every host has a cache of its own over LNR that holds stale lines and keeps
//! dirty ones. At every memory operation the [`Adversary`] may switch threads, evict any line of
//! any host (a dirty one is written back *whole*, over whatever newer bytes memory holds), prefetch
//! any line into any cache, hold a host's stores to SCR back, let what was issued complete before
//! its fence, tear a copy, let a thread sleep for long, and kill a host, whose dirty lines and held
//! stores are lost, written back, or any subset of them: at a random moment, or when it has come to
//! a step of a protocol that an [`Aim`] names. A dead host may be started again. Wall clocks of
//! hosts are skewed; time leaps when all wait. One seed decides everything: the same seed gives the
//! same run on any machine.
//!
//! Hosts' threads are coroutines on one OS thread. A run that exceeds its step budget is reported
//! as [`Failure::Stuck`]. A step of a protocol, or its fence, can be left out ([`Mutant`]), which
//! must make some run fail.
//!
//! All that is on a [`Platform`] that does what a pod needs; others can be had, for tools that find
//! out what a platform does.
//!
//! **The line sanitizer** (`sanitizer.rs`) knows which host owns each line, and reports each broken
//! rule with the operations that led to it.
//!
//! Left out: the threads of one host see each other's stores at once, in program order (what is
//! local to a process is a matter for a model checker of its memory model); stores to SCR are
//! reordered with later loads only; timing.

mod adversary;
mod aim;
mod config;
mod coverage;
mod explore;
mod lnr;
mod memory;
mod mutex;
mod places;
mod running;
mod sanitizer;
mod schedule;
mod scr;
mod simulation;
mod sites;
mod state;
mod timeline;
mod trial;
mod world;

pub use adversary::{Adversary, Caches};
pub use aim::{Aim, Crossings, Death};
pub use config::{Config, Deaths, Kills, Platform};
pub use coverage::{Coverage, CrashPoint, Crossed, DeathAt};
pub use explore::{Exhausted, catch, enumerate, explore, find_failure, minimise};
pub use memory::SimMemory;
pub use mutex::SimRawMutex;
pub use places::Places;
pub use schedule::{Action, Fate, Opening, Outcome, Schedule, Turn};
pub use simulation::{Failure, Simulation};
pub use sites::ALL as SITES;
pub use timeline::{Origin, Timeline};
pub use trial::{Mutant, Observed, Trial};
