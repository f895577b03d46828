//! The face for programs in C: the store of a pod, and heaps whose pages move between two tiers of
//! memory.
//!
//! `include/tombolo.h` is generated of this crate. It is in the repository, so that a program in C
//! needs no generator, and a change of the interface is seen as one; a test compares both.
//!
//! Invariants:
//! * No pointer of a caller is followed outside `border`.
//! * No panic leaves a function.
//! * A structure that callers fill begins with its size, so that it can grow.
//!
//! Left out: objects without a store, deadlines, and regions.

mod border;
mod heap;
mod options;
mod pod;
mod room;
mod view;

pub use border::{TomboloError, tombolo_error_message};
pub use heap::*;
pub use options::*;
pub use pod::*;
pub use room::*;
pub use view::*;

/// Raised when a function, a value or a structure changes so that programs have to change.
pub const TOMBOLO_ABI_VERSION: u32 = 1;

/// Returns the version of the interface that the library has: programs compare it with
/// `TOMBOLO_ABI_VERSION`.
#[allow(unsafe_code)]
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_abi_version() -> u32 {
    TOMBOLO_ABI_VERSION
}
