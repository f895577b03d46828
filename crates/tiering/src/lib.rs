//! Beside the floors: pages of one process in two tiers of memory. It needs no pod.
//!
//! A [`TieredHeap`] hands out [`Block`]s whose pages move between a near and a far NUMA node at
//! unchanged addresses, while threads use them. It is NOMAD's mechanism in user space, over
//! userfaultfd: a promotion is a transaction that gives up if the page is written, the far frame
//! stays as a shadow, and a clean page goes down by remapping it. Where both tiers are of one node,
//! all of that works, and nothing becomes faster.
//!
//! ```text
//! server.rs  serves faults and changes of mappings       worker.rs  jobs, and the policy
//!        \                                                  /
//!         moves.rs  one page, with what is counted about it
//!                              |
//!         transaction.rs  the steps (explored by model.rs)   page.rs  the state word
//!                              |
//!         area.rs  the steps on real pages, over memory::paging
//! ```
//!
//! Invariants:
//! * No write of the program is lost: a copy is mapped only after it was compared with a page that
//!   no program can reach.
//! * A page that is out of the program's mapping is out under the gate, or parked. A parked page is
//!   brought back by its next touch, before a `fork()`, and when a thread of the heap fails.
//! * The thread that serves faults touches no page of a heap.
//!
//! Left out: memory that the kernel does not move (DAX devices, files, shared memory): a pod's
//! objects, copies and partitions serve there. Processes made by a raw `clone` without `CLONE_VM`
//! find zeros in parked pages. A debugger's write to a page that moves at that moment may be lost.

mod adopt;
mod area;
mod available;
mod error;
mod finder;
mod fork;
mod heap;
mod machine;
#[cfg(test)]
mod model;
mod moves;
mod options;
mod page;
mod policy;
mod process;
mod queues;
mod report;
mod server;
mod shared;
mod stats;
mod sync;
mod transaction;
mod worker;

pub use error::TieringError;
pub use heap::{Block, Hint, TieredHeap, probe};
pub use machine::{Finding, Severity, check};
pub use options::{Options, Policy};
pub use process::{ProcessTiers, stats_of};
pub use report::Report;
pub use stats::{Count, Stats};
pub use tombolo_placement::{Costs, Place};
