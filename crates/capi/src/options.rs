//! Options, hints, places and reports, as C has them.
#![allow(unsafe_code)]

use tombolo_tiering::{Hint, Options, Place, Policy, Report};

use crate::border::{Failed, TomboloError, call, store};

/// Where a block's pages are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TomboloHint {
    /// Near while there is room; then as the policy says.
    Auto = 0,
    /// Near, and not demoted.
    Near = 1,
    /// Far, and not promoted.
    Far = 2,
}

/// Where pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TomboloPlace {
    /// Far.
    Far = 0,
    /// Near, with a shadow: while the page is not written, it goes down without a copy.
    NearWithShadow = 1,
    /// Near, without a shadow.
    Near = 2,
}

/// Which pages move without being asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TomboloPolicy {
    /// None: the program says where pages are to be.
    None = 0,
    /// As TPP: at the second hint fault, while the program waits.
    Tpp = 1,
    /// As NOMAD: at the second hint fault, in the background, with a shadow.
    Nomad = 2,
    /// As NOMAD, for pages whose touches pay for the move.
    BreakEven = 3,
}

/// How a heap is set up. tombolo_heap_options_init fills it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TomboloHeapOptions {
    /// The size of this structure, in bytes.
    pub size: usize,
    /// The NUMA node of near memory.
    pub near_node: u32,
    /// The NUMA node of far memory; the near one, where the machine has only one.
    pub far_node: u32,
    /// Bytes of near memory that filled pages may take.
    pub near_bytes: usize,
    /// Shadows at most, in bytes.
    pub shadow_bytes: usize,
    /// A value of TomboloPolicy.
    pub policy: u32,
    /// Far pages that a policy looks at in a second; each costs its next touch a hint fault.
    pub parked_per_second: u32,
}

/// How the pages of a range ended up.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct TomboloReport {
    /// Pages that moved.
    pub moved: usize,
    /// Pages that were there.
    pub already: usize,
    /// Pages that were never filled: they will be there once they are.
    pub untouched: usize,
    /// Pages left because the program writes them all the time.
    pub left_written: usize,
    /// Pages left because they are shared with a child of fork(), or pinned for a device.
    pub left_shared: usize,
    /// Pages left because they are locked, or not writable.
    pub left_unmovable: usize,
    /// Pages left because the tier has no room.
    pub left_no_room: usize,
    /// Pages left because the program gave them up or changed its mappings meanwhile.
    pub left_busy: usize,
    /// For how long touches of a page had to wait, in nanoseconds, over all pages.
    pub gap_nanoseconds: u64,
}

impl From<Report> for TomboloReport {
    fn from(report: Report) -> Self {
        Self {
            moved: report.moved,
            already: report.already,
            untouched: report.untouched,
            left_written: report.left_written,
            left_shared: report.left_shared,
            left_unmovable: report.left_unmovable,
            left_no_room: report.left_no_room,
            left_busy: report.left_busy,
            gap_nanoseconds: report.gap_nanoseconds,
        }
    }
}

/// Fills options with what is usual: one node, no limits, no policy. Returns
/// TOMBOLO_ERROR_ARGUMENT for a null pointer.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_heap_options_init(options: *mut TomboloHeapOptions) -> TomboloError {
    call(|| {
        let usual = Options::default();
        let value = TomboloHeapOptions {
            size: size_of::<TomboloHeapOptions>(),
            near_node: usual.near_node,
            far_node: usual.far_node,
            near_bytes: usual.near_bytes,
            shadow_bytes: usual.shadow_bytes,
            policy: TomboloPolicy::None as u32,
            parked_per_second: usual.parked_per_second,
        };
        store(options, "options", value)
    })
}

impl TomboloHeapOptions {
    pub(crate) fn options(&self) -> Result<Options, Failed> {
        if self.size != size_of::<Self>() {
            let message = format!(
                "options have {} bytes, and this library knows {}; fill them by \
                 tombolo_heap_options_init",
                self.size,
                size_of::<Self>()
            );
            return Err(Failed::argument(message));
        }
        let policy = [Policy::None, Policy::Tpp, Policy::Nomad, Policy::BreakEven]
            .get(self.policy as usize)
            .ok_or_else(|| Failed::argument(format!("{} is no TomboloPolicy", self.policy)))?;
        Ok(Options {
            near_node: self.near_node,
            far_node: self.far_node,
            near_bytes: self.near_bytes,
            shadow_bytes: self.shadow_bytes,
            policy: *policy,
            parked_per_second: self.parked_per_second,
            ..Options::default()
        })
    }
}

pub(crate) fn hint(number: u32) -> Result<Hint, Failed> {
    [Hint::Auto, Hint::Near, Hint::Far]
        .get(number as usize)
        .copied()
        .ok_or_else(|| Failed::argument(format!("{number} is no TomboloHint")))
}

pub(crate) fn place(number: u32) -> Result<Place, Failed> {
    [Place::Shared, Place::Copied, Place::Partition]
        .get(number as usize)
        .copied()
        .ok_or_else(|| Failed::argument(format!("{number} is no TomboloPlace")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_the_header_names_them() {
        assert_eq!(hint(TomboloHint::Auto as u32).ok(), Some(Hint::Auto));
        assert_eq!(hint(TomboloHint::Near as u32).ok(), Some(Hint::Near));
        assert_eq!(hint(TomboloHint::Far as u32).ok(), Some(Hint::Far));
        assert!(hint(3).is_err());
        assert_eq!(place(TomboloPlace::Far as u32).ok(), Some(Place::Shared));
        assert_eq!(place(TomboloPlace::NearWithShadow as u32).ok(), Some(Place::Copied));
        assert_eq!(place(TomboloPlace::Near as u32).ok(), Some(Place::Partition));
        assert!(place(3).is_err());
    }

    #[test]
    fn options_of_another_size_and_unknown_policies_are_refused() {
        let mut options = TomboloHeapOptions {
            size: 0,
            near_node: 0,
            far_node: 1,
            near_bytes: 5,
            shadow_bytes: 6,
            policy: TomboloPolicy::BreakEven as u32,
            parked_per_second: 7,
        };
        assert!(options.options().is_err());
        options.size = size_of::<TomboloHeapOptions>();
        let read = options.options().ok().unwrap();
        assert_eq!((read.policy, read.far_node, read.near_bytes), (Policy::BreakEven, 1, 5));
        options.policy = 4;
        assert!(options.options().is_err());
    }
}
