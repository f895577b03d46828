//! Variants of the engine, to measure what each of its parts is worth. (Tigon paper, sections 4.2,
//! 4.4 and 4.6.)
//!
//! All hosts of a database run the same variant. Each is serializable, but for one that says
//! otherwise.

use crate::usage::RECORD_WORDS;

/// The choices that make a variant of the engine: see [`Variant::USUAL`] for the usual ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant {
    /// How shared rows are kept coherent.
    pub coherence: Coherence,
    /// Which rows move out first.
    pub victims: Victims,
    /// Whether a home knows where the records of its shared rows are. Otherwise it looks into the
    /// shared index, as other hosts do.
    pub shortcuts: bool,
    /// Whether a home reads its own copy of a shared row that nobody has written since. Otherwise
    /// it reads the shared one.
    pub dirty_bit: bool,
    /// Whether gaps between rows are locked. **Otherwise transactions are not serializable**: a row
    /// may come into a range that another one has read at its home. Walks backwards and on other
    /// hosts lock gaps nevertheless.
    pub next_key_locks: bool,
}

impl Variant {
    /// The engine as it is.
    pub const USUAL: Self = Self {
        coherence: Coherence::Software,
        victims: Victims::Clock,
        shortcuts: true,
        dirty_bit: true,
        next_key_locks: true,
    };

    /// Bytes of SCR that the record of a row takes.
    pub(crate) fn record_bytes(self) -> u64 {
        let words = if self.victims == Victims::LeastRecentlyUsed { RECORD_WORDS } else { 1 };
        8 * words
    }
}

impl Default for Variant {
    fn default() -> Self {
        Self::USUAL
    }
}

/// How shared rows are kept coherent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coherence {
    /// By software: a host's caches may hold a row as long as no other host writes it.
    Software,
    /// The same, but one host's caches at a time (*NoSharedReader*).
    OneReader,
    /// No caches hold a row: it is dropped from them before each read, and written back after each
    /// write (*NonTemporal*). Loads past the caches would not do: memory that may be cached may
    /// answer them from a cache.
    Uncached,
    /// By hardware: rows lie in SCR, and count as what shared rows take of it (*NoSWcc*).
    Hardware,
}

/// Which rows move out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Victims {
    /// A clock's hand goes round, and spares rows that other hosts have used since it last came by.
    Clock,
    /// The row that other hosts have not used for the longest time. The list of that is in SCR, 16
    /// bytes a row, and each use by another host changes it.
    LeastRecentlyUsed,
    /// The row that was shared first.
    First,
}
