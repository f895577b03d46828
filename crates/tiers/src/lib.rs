//! Beside the floors: a machine with two tiers of memory in virtual time, page by page.
//!
//! It is a crate of its own, since it uses `placement`, `timing` and `workloads` alone, and nothing
//! of a pod. `experiments`, which draws the figures, knows most other crates.
//!
//! **Mechanisms as in Linux 5.13**, by the NOMAD paper and its published patch:
//! * an inactive and an active list for each tier. A page is active after two references, and
//!   activations wait in a batch of 15 (`aging.rs`);
//! * a thread that demotes while less than 10 % of the fast tier is free. It takes the end of the
//!   inactive list, and spares pages that were used since it last looked;
//! * a scanner that makes slow pages inaccessible: 256 MiB of pages, or 2 GiB of addresses, in a
//!   second of the program (`hints.rs`);
//! * TPP promotes within the fault, and the fault repeats until the page is active;
//! * NOMAD's candidates, of which 20 are looked through at each fault; its ring of 512 pages; its
//!   transactions, ten at most for a page; shadows (`promoter.rs`);
//! * Memtis' samples, histogram, cooling and threshold (`sampler.rs`).
//!
//! [`Policy::BreakEven`] has NOMAD's moves, and decides by [`tombolo_placement::BreakEven`] and
//! [`tombolo_placement::Thrash`], as the heap of `tiering` does.
//!
//! **Timing model.** A use of a page takes as long as one thread needs for so many lines of that
//! tier, and waits while the tier's bandwidth is used up. Workers of the kernel have clocks of
//! their own. Their copies use bandwidth, and their shootdowns interrupt the program.
//!
//! **Scale.** Sizes, numbers of uses and the kernel's periods are smaller by one factor. Batches,
//! queues and costs are not, as they count pages that are under way.
//!
//! Left out: caches, huge pages, files, several processes, frequency, what a page walk reads, and
//! that a processor which knows a page's translation does not mark it as used.

mod aging;
mod counters;
mod hints;
mod lists;
pub mod load;
mod memory;
mod promoter;
mod sampler;
mod settings;
mod system;
#[cfg(test)]
mod tests;

pub use counters::Counters;
pub use memory::{PageId, Tier};
pub use settings::{Events, FAST_GIB, Machine, PAGE_BYTES, Policy, pages_of};
pub use system::{Access, Load, Round, System, Use};
