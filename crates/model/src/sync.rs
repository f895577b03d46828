//! What the crates under test use instead of `std::sync`.
//!
//! An ordering that is not relaxed, and a fence, is known by the line of the source it stands on,
//! and can be taken out: the operation is then relaxed, the fence not there.

use std::panic::Location;

use loom::sync::atomic;
pub use loom::sync::atomic::Ordering;

use crate::steps::{self, Place};
use crate::switches;

fn kept(ordering: Ordering, place: Place) -> Ordering {
    if ordering == Ordering::Relaxed || steps::keeps_ordering(place) {
        ordering
    } else {
        Ordering::Relaxed
    }
}

/// As [`std::sync::atomic::fence`].
#[track_caller]
pub fn fence(ordering: Ordering) {
    if steps::keeps_ordering(Location::caller()) {
        atomic::fence(ordering);
    }
}

macro_rules! atomic {
    ($name:ident, $int:ty) => {
        /// The atomic of this name, as far as it is used.
        #[derive(Debug, Default)]
        pub struct $name(atomic::$name);

        #[allow(missing_docs, clippy::missing_errors_doc)]
        impl $name {
            pub fn new(value: $int) -> Self {
                Self(atomic::$name::new(value))
            }

            #[track_caller]
            pub fn load(&self, ordering: Ordering) -> $int {
                switches::here();
                self.0.load(kept(ordering, Location::caller()))
            }

            #[track_caller]
            pub fn store(&self, value: $int, ordering: Ordering) {
                switches::here();
                self.0.store(value, kept(ordering, Location::caller()));
            }

            #[track_caller]
            pub fn fetch_add(&self, value: $int, ordering: Ordering) -> $int {
                switches::here();
                self.0.fetch_add(value, kept(ordering, Location::caller()))
            }

            #[track_caller]
            pub fn fetch_sub(&self, value: $int, ordering: Ordering) -> $int {
                switches::here();
                self.0.fetch_sub(value, kept(ordering, Location::caller()))
            }

            #[track_caller]
            pub fn fetch_max(&self, value: $int, ordering: Ordering) -> $int {
                switches::here();
                self.0.fetch_max(value, kept(ordering, Location::caller()))
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                switches::here();
                let place = Location::caller();
                let (success, failure) = (kept(success, place), kept(failure, place));
                self.0.compare_exchange(current, new, success, failure)
            }
        }
    };
}

atomic!(AtomicU8, u8);
atomic!(AtomicU64, u64);

/// As [`std::sync::OnceLock`]: the standard one holds the value, an atomic passes on what came
/// before it, which loom would not see otherwise. Nothing switches threads while a value is made.
#[derive(Debug)]
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: atomic::AtomicBool,
}

impl<T> OnceLock<T> {
    /// An empty one.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { value: std::sync::OnceLock::new(), is_set: atomic::AtomicBool::new(false) }
    }

    /// The value, as far as this thread can know of it.
    pub fn get(&self) -> Option<&T> {
        switches::here();
        if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    /// The value, made by `new` if there is none. For one thread at a time.
    pub fn get_or_init(&self, new: impl FnOnce() -> T) -> &T {
        let value = self.value.get_or_init(new);
        switches::here();
        self.is_set.store(true, Ordering::Release);
        value
    }
}
