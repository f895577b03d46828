//! Where data is to be: one question, asked at an access, and policies that answer it.
//!
//! The caller moves things (objects, pages, ranges of them) between far memory, which several hosts
//! or all processors share, and near memory. It counts accesses in a [`Profile`], states what an
//! access and a move cost in [`Costs`], and asks a [`Placement`] where the thing is to be. The
//! policies hold no state, take no lock and know nothing of the memory. [`Thrash`] counts moves,
//! and says when they only undo each other.
//!
//! | place | objects in a pod | pages of two tiers | replicated pages |
//! | --- | --- | --- | --- |
//! | [`Place::Shared`] | in LNR alone | in the slow tier, used there | used directly |
//! | [`Place::Copied`] | in LNR, with a copy in DRAM | promoted, shadow kept | a replica to read |
//! | [`Place::Partition`] | in the partition; LNR is stale | promoted, no shadow | owned by it |

mod policy;
mod thrash;

use std::fmt::Debug;

pub use policy::{BreakEven, Recency, Thresholds};
pub use thrash::{Thrash, Turn};

/// The accesses to a thing that the caller has seen since its window began.
///
/// The window is the caller's choice. A caller that begins a new one at each hand-over leaves
/// `others` at 0. Counts may be saturated: no policy needs one beyond a break-even point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Reads by the caller.
    pub reads: u32,
    /// Writes by the caller.
    pub writes: u32,
    /// Hand-overs to other hosts: each makes a copy or a move of the caller's worthless.
    pub others: u32,
    /// How often a move was in vain, less how often one paid: kept when a new window begins.
    pub in_vain: u32,
}

impl Profile {
    /// Reads and writes by the caller.
    #[inline]
    pub fn accesses(&self) -> u64 {
        u64::from(self.reads) + u64::from(self.writes)
    }
}

/// The costs of accesses and moves, all in one unit of the caller's, such as nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// An access to the thing in far memory.
    pub far: u64,
    /// An access to the thing in near memory.
    pub near: u64,
    /// Moving or copying it into near memory.
    pub bring: u64,
    /// Moving it back out, if it was written meanwhile.
    pub give_back: u64,
}

/// Where a thing is, or is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In far memory alone.
    Shared,
    /// In far memory, with a copy in the caller's near memory.
    Copied,
    /// In the caller's near memory alone: its partition.
    Partition,
}

/// Decides, at an access, where a thing is to be.
pub trait Placement: Debug + Send + Sync {
    /// Where the thing that was accessed is to be; the caller moves it there if there is room.
    ///
    /// `seen` includes the access, `at` is where the thing is now. Called often: it may not block.
    fn place(&self, seen: &Profile, at: Place, costs: &Costs) -> Place;
}
