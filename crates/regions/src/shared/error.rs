//! Errors of regions.

use tombolo_pod::PodError;

use super::layout::{MAX_NAME_BYTES, MAX_REGIONS};
use crate::Mode;

/// Why a region cannot be had, or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The pod, or its area.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// The area for regions is damaged.
    #[error("the pod's regions cannot be used: {0}; create the pod anew")]
    Damaged(String),
    /// Pages of shared memory cannot be served in this process.
    #[error(transparent)]
    Faults(#[from] tombolo_memory::paging::FaultsError),
    /// A name is too long, or empty.
    #[error("{0:?} is no name for a region; take 1 to {MAX_NAME_BYTES} bytes")]
    Name(String),
    /// There is a region of that name.
    #[error("there is a region {0:?} already; open that, or choose another name")]
    Exists(String),
    /// There is no region of that name.
    #[error("there is no region {0:?}; create it, or look at the list of regions")]
    Missing(String),
    /// A region has no bytes.
    #[error("a region has at least one byte")]
    Empty,
    /// No more regions fit.
    #[error("the pod has {MAX_REGIONS} regions, and takes no more; remove one first")]
    TooMany,
    /// There is no room.
    #[error(
        "there is no room for {pages} pages in a row; {free} pages are free in all; remove a \
         region, or create a larger pod"
    )]
    NoRoom {
        /// Pages that were asked for.
        pages: u64,
        /// Pages that no region has.
        free: u64,
    },
    /// Hosts use the region.
    #[error("region {name:?} is in use by host {host}; let its program end first")]
    InUse {
        /// The region.
        name: String,
        /// One of the hosts.
        host: u8,
    },
    /// The hardware does not keep the pod's memory coherent.
    #[error(
        "a direct page is kept coherent by the hardware, and this pod's memory is not known to be; \
         choose owned or replicated, or create the pod with --coherent if its memory is"
    )]
    NotCoherent,
    /// Pages of the pod cannot be mapped one by one.
    #[error(
        "pages of this pod can only be replicated, and not be {}: its memory is no file in shared \
         memory (tmpfs), of which the kernel tells touches", .0.name()
    )]
    OnlyReplicated(Mode),
    /// Others have fenced this host.
    #[error("other hosts took this one for dead; start it again")]
    Fenced,
    /// A host that is needed has died.
    #[error("a host that used the region has died")]
    HostDied,
    /// Something took too long.
    #[error("{doing} took over {seconds} s; host {host} is in the way: look at its process")]
    Stalled {
        /// The action that took too long, as a gerund with its object.
        doing: &'static str,
        /// How long.
        seconds: u64,
        /// A host that was waited for.
        host: u8,
    },
    /// The system refused something.
    #[error("cannot {doing}: {reason}")]
    Os {
        /// The action that was refused, as a verb with its object.
        doing: &'static str,
        /// Why not.
        reason: std::io::Error,
    },
}
