//! Floor 4: regions of shared memory, whose parts choose how they are kept coherent.
//!
//! A region has pages, and 64 of them in a row are a block. A block is in one of three modes:
//!
//! | mode | where a page is | what keeps it coherent |
//! | --- | --- | --- |
//! | [`Mode::Direct`] | in the pod | the hardware, by lines |
//! | [`Mode::Owned`] | in the pod | one writer or many readers, by page protection |
//! | [`Mode::Replicated`] | in each host's own memory | the same, and copies |
//!
//! Owned and replicated pages follow SHA-CF (`tombolo_coherence::SHARING`), with a page in place of
//! a line. A host that may not do what its processor wants has a [`Fault`]. The fault takes the
//! page's lock in SCR, asks hosts that have the page, fetches it, maps it, and releases the lock.
//! Hosts that are asked have an [`Answering`]. A [`Change`] gives a block another mode.
//!
//! These three are machines: each call of `step` does one thing that other hosts can see, by a
//! back end that implements [`Pod`] and [`Pages`]. So one protocol is run three ways: [`explore`]
//! takes its steps in every order, a simulated machine charges time for them, and a host of a real
//! pod does them one after the other.
//!
//! # Invariants
//!
//! * A page that is not direct has one writer or many readers.
//! * A host gives up a page in this order: it takes the mapping away, writes back, answers.
//! * A host maps a page only while it holds the page's lock, or may already do more with it.
//! * A host holds the lock of a block before that of a page, and waits for no block while it holds
//!   a page.
//! * The mode of a block changes when no host has a page of it that changes its mode.
//!
//! # Left out
//!
//! Hosts that fail, real memory (userfaultfd), and a page's bytes: a back end moves them.

mod answer;
mod change;
mod collect;
mod explore;
mod fault;
mod local;
mod mapped;
mod policy;
mod shared;
pub mod sites;
mod words;

pub use answer::Answering;
pub use change::Change;
pub use explore::{Explored, Limits, Planted, Violation, explore};
pub use fault::Fault;
pub use local::Local;
pub use mapped::{Regions, SharedRegion, create_pod, plan_pod};
pub use policy::{Costs, Purse, WEIGHT, Watch};
pub use shared::{
    BlockStats, Extent, KIND, Keeper, MAX_NAME_BYTES, MAX_REGIONS, PROGRAM_WORDS, Places,
    RegionEntry, RegionError, RegionHost, Shape, Touched, VERSION, View,
};
pub use sites::ALL as SITES;
pub use words::{BlockMode, Mode, Pages, Pod, Progress, Question, Subject};
