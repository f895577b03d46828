//! Pages of this process that move between places while its threads use them.
//!
//! A [`PageSpace`] is a range of anonymous memory. [`Faults`] is the kernel's userfaultfd: it moves
//! a page from one space to another, notes writes to pages, and tells of touches of pages that are
//! not there. All addresses come as a [`PageSpan`] of a space, so a call reaches no other memory of
//! the process.
//!
//! Invariants:
//! * No reference to bytes of a space leaves this module. A page may move or change at any time.
//! * A thread that serves faults calls nothing here that may wait for a fault.
//!
//! [`SharedPages`] are pages that several processes share, each as far as it may at the time.
//!
//! Left out: hugetlbfs. The kernel moves anonymous pages only.

mod apart;
mod faults;
mod offer;
mod pagemap;
mod ring;
mod shared;
mod space;

pub use apart::spawn_apart;
pub use faults::{Faults, Message, Moved, Refusal};
pub use offer::{Access, FaultsError, Offer};
pub use pagemap::{PageKind, PageMap};
#[doc(hidden)]
pub use ring::Ring;
pub use shared::{Behind, SharedPages, Touch};
pub use space::{PageSpace, PageSpan};

/// The size of a page, in bytes.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}
