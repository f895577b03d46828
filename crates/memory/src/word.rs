//! The words of SCR: their types, and references to them.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::{Memory, ScrAddr, Site};

/// The function of [`Memory::fetch`](crate::Memory::fetch) of the word and the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchOp {
    /// Wrapping addition.
    Add,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// The greater of the two.
    Max,
    /// The operand alone.
    Swap,
}

mod sealed {
    pub trait Sealed {}
}

/// An unsigned integer that SCR holds and that hosts may change atomically.
///
/// A word narrower than the machine's is changed alone: a store to one 8-bit record leaves its
/// neighbours untouched.
pub trait Word: sealed::Sealed + Copy + Eq + Debug + Send + Sync + 'static {
    /// The value, widened.
    fn to_bits(self) -> u64;
    /// The low bits of `bits`.
    fn from_bits(bits: u64) -> Self;
    /// `op` applied to `current` and `operand`.
    fn apply(op: FetchOp, current: Self, operand: Self) -> Self;
    /// The atomic this word is in mapped memory.
    #[doc(hidden)]
    type Atomic: AtomicWord<Self> + 'static;
}

/// A word that was [located](Memory::locate). It has [`Memory`]'s operations on words, without
/// another look at where the address is.
pub trait Located<W: Word>: Copy {
    /// As [`Memory::load`].
    #[track_caller]
    fn load(self) -> W;

    /// As [`Memory::store`].
    #[track_caller]
    fn store(self, value: W);

    /// As [`Memory::compare_exchange`].
    #[track_caller]
    #[expect(clippy::missing_errors_doc, reason = "as there")]
    fn compare_exchange(self, site: Site, current: W, new: W) -> Result<W, W>;
}

/// A word of mapped memory.
pub struct MappedWord<'a, W: Word>(pub(crate) &'a W::Atomic);

impl<W: Word> Clone for MappedWord<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Word> Copy for MappedWord<'_, W> {}

impl<W: Word> Located<W> for MappedWord<'_, W> {
    #[inline(always)]
    fn load(self) -> W {
        self.0.load()
    }

    #[inline(always)]
    fn store(self, value: W) {
        self.0.store(value);
    }

    #[inline(always)]
    fn compare_exchange(self, _: Site, current: W, new: W) -> Result<W, W> {
        self.0.compare_exchange(current, new)
    }
}

/// A word that is looked for anew each time, where finding one costs nothing that counts.
pub struct ByAddress<'a, M, W> {
    memory: &'a M,
    at: ScrAddr<W>,
}

impl<'a, M: Memory, W: Word> ByAddress<'a, M, W> {
    /// The word at `at`.
    pub fn new(memory: &'a M, at: ScrAddr<W>) -> Self {
        Self { memory, at }
    }
}

impl<M, W> Clone for ByAddress<'_, M, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M, W> Copy for ByAddress<'_, M, W> {}

impl<M: Memory, W: Word> Located<W> for ByAddress<'_, M, W> {
    fn load(self) -> W {
        self.memory.load(self.at)
    }

    fn store(self, value: W) {
        self.memory.store(self.at, value);
    }

    fn compare_exchange(self, site: Site, current: W, new: W) -> Result<W, W> {
        self.memory.compare_exchange(site, self.at, current, new)
    }
}

/// The operations of a mapped word; loads acquire, stores release, read-modify-writes do both.
#[doc(hidden)]
pub trait AtomicWord<W> {
    fn load(&self) -> W;
    fn store(&self, value: W);
    fn compare_exchange(&self, current: W, new: W) -> Result<W, W>;
    fn fetch(&self, op: FetchOp, operand: W) -> W;
}

macro_rules! word {
    ($int:ty, $atomic:ty) => {
        impl sealed::Sealed for $int {}

        impl Word for $int {
            type Atomic = $atomic;

            fn to_bits(self) -> u64 {
                u64::from(self)
            }

            fn from_bits(bits: u64) -> Self {
                bits as $int
            }

            fn apply(op: FetchOp, current: Self, operand: Self) -> Self {
                match op {
                    FetchOp::Add => current.wrapping_add(operand),
                    FetchOp::And => current & operand,
                    FetchOp::Or => current | operand,
                    FetchOp::Max => current.max(operand),
                    FetchOp::Swap => operand,
                }
            }
        }

        impl AtomicWord<$int> for $atomic {
            #[inline]
            fn load(&self) -> $int {
                <$atomic>::load(self, Ordering::Acquire)
            }

            #[inline]
            fn store(&self, value: $int) {
                <$atomic>::store(self, value, Ordering::Release);
            }

            #[inline]
            fn compare_exchange(&self, current: $int, new: $int) -> Result<$int, $int> {
                <$atomic>::compare_exchange(self, current, new, Ordering::AcqRel, Ordering::Acquire)
            }

            #[inline]
            fn fetch(&self, op: FetchOp, operand: $int) -> $int {
                match op {
                    FetchOp::Add => self.fetch_add(operand, Ordering::AcqRel),
                    FetchOp::And => self.fetch_and(operand, Ordering::AcqRel),
                    FetchOp::Or => self.fetch_or(operand, Ordering::AcqRel),
                    FetchOp::Max => self.fetch_max(operand, Ordering::AcqRel),
                    FetchOp::Swap => self.swap(operand, Ordering::AcqRel),
                }
            }
        }
    };
}

word!(u8, AtomicU8);
word!(u16, AtomicU16);
word!(u32, AtomicU32);
word!(u64, AtomicU64);
