//! The means that crates under test use instead of `std::sync`.
//!
//! An ordering that is not relaxed, and a fence, is known by the line of the source it stands on,
//! and can be taken out: the operation is then relaxed, the fence not there.

use std::ops::Range;
use std::panic::Location;

use loom::sync::atomic;
pub use loom::sync::atomic::Ordering;
use tombolo_memory::{LINE_BYTES, MemoryError};

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
            pub fn swap(&self, value: $int, ordering: Ordering) -> $int {
                switches::here();
                self.0.swap(value, kept(ordering, Location::caller()))
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
atomic!(AtomicU32, u32);
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

/// As [`tombolo_memory::Arena`], in words: bytes of one word are copied together.
#[derive(Debug)]
pub struct Arena {
    words: Vec<atomic::AtomicU64>,
}

#[allow(missing_docs, clippy::missing_errors_doc)]
impl Arena {
    pub fn new(lines: u64) -> Result<Self, MemoryError> {
        let words = lines * LINE_BYTES / 8;
        Ok(Self { words: (0..words).map(|_| atomic::AtomicU64::new(0)).collect() })
    }

    pub fn lines(&self) -> u64 {
        self.words.len() as u64 * 8 / LINE_BYTES
    }

    #[track_caller]
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let mut word = None;
        for (at, byte) in (offset..).zip(into) {
            let number = at as usize / 8;
            let bytes = match word {
                Some((last, bytes)) if last == number => bytes,
                _ => self.words[number].load(Ordering::Relaxed).to_le_bytes(),
            };
            word = Some((number, bytes));
            *byte = bytes[at as usize % 8];
        }
        fence(Ordering::Acquire);
    }

    #[track_caller]
    pub fn append(&self, offset: u64, bytes: u64, to: &mut Vec<u8>) {
        let before = to.len();
        to.resize(before + bytes as usize, 0);
        self.read(offset, &mut to[before..]);
    }

    pub fn holds(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut found = vec![0; bytes.len()];
        self.read(offset, &mut found);
        found == bytes
    }

    #[track_caller]
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        fence(Ordering::AcqRel);
        let mut done = 0;
        while done < bytes.len() {
            let (number, start) = ((offset as usize + done) / 8, (offset as usize + done) % 8);
            let length = (8 - start).min(bytes.len() - done);
            let mut word = match length {
                8 => [0; 8],
                _ => self.words[number].load(Ordering::Relaxed).to_le_bytes(),
            };
            word[start..start + length].copy_from_slice(&bytes[done..done + length]);
            self.words[number].store(u64::from_le_bytes(word), Ordering::Relaxed);
            done += length;
        }
    }

    pub fn prefetch(&self, _: Range<u64>) {}
}
