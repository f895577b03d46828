//! This kernel's support for moving pages, and a sentence for each thing that it lacks.

use std::io;

use linux_raw_sys::general::{
    UFFD_FEATURE_EVENT_REMAP, UFFD_FEATURE_EVENT_REMOVE, UFFD_FEATURE_EVENT_UNMAP,
    UFFD_FEATURE_MOVE, UFFD_FEATURE_PAGEFAULT_FLAG_WP, UFFD_FEATURE_WP_ASYNC,
};

use super::faults;
use super::{PageMap, PageSpace};

/// That the kernel tells of pages that are given up, unmapped, or have another address.
pub(super) const EVENTS: u64 =
    (UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP) as u64;

/// The features of userfaultfd that moving pages needs.
pub(super) const NEEDED: u64 =
    (UFFD_FEATURE_MOVE | UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_PAGEFAULT_FLAG_WP) as u64 | EVENTS;

/// By which way this process gets at userfaultfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By `/dev/userfaultfd`.
    Device,
    /// By the system call.
    SystemCall,
}

/// Why pages of this process cannot move.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FaultsError {
    /// The kernel has no userfaultfd.
    #[error("this kernel has no userfaultfd; use one with CONFIG_USERFAULTFD, 6.8 or later")]
    NoFaults,
    /// The process may not handle faults of the kernel's own accesses.
    #[error(
        "this process may not handle its page faults; give it read and write access to \
         /dev/userfaultfd (in a container, also --device /dev/userfaultfd), or CAP_SYS_PTRACE"
    )]
    NotPermitted,
    /// The kernel cannot move pages.
    #[error("this kernel cannot move pages (UFFDIO_MOVE); use Linux 6.8 or later")]
    NoMove,
    /// The kernel cannot note writes by itself.
    #[error("this kernel cannot note writes to pages (WP_ASYNC); use Linux 6.7 or later")]
    NoAsyncProtection,
    /// The kernel cannot say which pages were written.
    #[error(
        "this kernel cannot say which pages were written (PAGEMAP_SCAN: {0}); use Linux 6.7 or \
         later, with /proc mounted"
    )]
    NoScan(io::Error),
    /// The kernel does not tell of unmapped pages.
    #[error("this kernel does not tell of pages that are unmapped; use Linux 6.8 or later")]
    NoEvents,
    /// The kernel cannot serve faults in shared memory.
    #[error(
        "this kernel cannot tell of touches of shared pages (userfaultfd with MINOR_SHMEM, WP of \
         shared memory and POISON); use Linux 6.6 or later"
    )]
    NoShared,
    /// The system refused something else.
    #[error("cannot {doing}: {reason}; try again, or report this with the kernel's version")]
    Os {
        /// The step that was tried, as a verb with its object.
        doing: &'static str,
        /// Why not.
        reason: io::Error,
    },
}

/// The kernel's support for moving pages, as far as this process may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// How userfaultfd is reached.
    pub access: Access,
    /// The features of userfaultfd, as the kernel numbers them.
    pub features: u64,
}

impl Offer {
    /// Asks the kernel. It does not block.
    ///
    /// # Errors
    /// A sentence for the first thing that is missing, and what to do about it.
    pub fn probe() -> Result<Self, FaultsError> {
        let (access, features) = faults::features()?;
        missing(features).map_or(Ok(()), Err)?;
        let page = PageSpace::reserve(1)
            .map_err(|reason| FaultsError::Os { doing: "reserve a page", reason })?;
        let map = PageMap::open().map_err(FaultsError::NoScan)?;
        map.kind(page.page(0)).map_err(FaultsError::NoScan)?;
        Ok(Self { access, features })
    }
}

/// The error for the first needed feature that is not among `features`, if one is missing.
fn missing(features: u64) -> Option<FaultsError> {
    let lacks = |feature: u32| features & u64::from(feature) == 0;
    if lacks(UFFD_FEATURE_MOVE) {
        Some(FaultsError::NoMove)
    } else if lacks(UFFD_FEATURE_WP_ASYNC) || lacks(UFFD_FEATURE_PAGEFAULT_FLAG_WP) {
        Some(FaultsError::NoAsyncProtection)
    } else if features & NEEDED != NEEDED {
        Some(FaultsError::NoEvents)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_that_is_missing_has_its_sentence() {
        let without = |feature: u32| {
            missing(NEEDED & !u64::from(feature)).map_or_else(String::new, |e| e.to_string())
        };
        assert_eq!(without(0), "");
        assert!(without(UFFD_FEATURE_MOVE).contains("6.8"));
        assert!(without(UFFD_FEATURE_WP_ASYNC).contains("WP_ASYNC"));
        assert!(without(UFFD_FEATURE_EVENT_REMAP).contains("unmapped"));
        assert!(FaultsError::NotPermitted.to_string().contains("--device /dev/userfaultfd"));
    }
}
