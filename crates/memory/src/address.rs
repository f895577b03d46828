//! Typed offsets into the two regions of a pod's memory. Never pointers: the same address means
//! the same byte to every host, whatever its mapping.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use crate::word::Word;

/// Bytes of a cache line: the unit in which caches fetch, write back and go stale.
pub const LINE_BYTES: u64 = 64;

/// A naturally aligned word of type `W` in the small coherent region (SCR).
pub struct ScrAddr<W> {
    offset: u64,
    word: PhantomData<fn() -> W>,
}

impl<W: Word> ScrAddr<W> {
    /// The word at byte `offset`.
    ///
    /// # Panics
    /// If `offset` is not a multiple of the word's size: such a word could straddle two lines.
    pub const fn new(offset: u64) -> Self {
        assert!(
            offset.is_multiple_of(size_of::<W>() as u64),
            "SCR word is not aligned to its size"
        );
        Self { offset, word: PhantomData }
    }

    /// Byte offset from the start of SCR.
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// The first of the words that lie in this one, or this one.
    pub const fn first<N: Word>(self) -> ScrAddr<N> {
        const { assert!(size_of::<N>() <= size_of::<W>()) };
        ScrAddr { offset: self.offset, word: PhantomData }
    }

    /// The word `index` places further on: arrays of words start at their first element.
    pub const fn element(self, index: u64) -> Self {
        Self { offset: self.offset + index * size_of::<W>() as u64, word: PhantomData }
    }

    /// The same column one or more lines further on: for tables with a line per host.
    pub const fn line(self, lines: u64) -> Self {
        Self { offset: self.offset + lines * LINE_BYTES, word: PhantomData }
    }
}

impl<W> Clone for ScrAddr<W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for ScrAddr<W> {}

impl<W> PartialEq for ScrAddr<W> {
    fn eq(&self, other: &Self) -> bool {
        self.offset == other.offset
    }
}

impl<W> Eq for ScrAddr<W> {}

impl<W> Hash for ScrAddr<W> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.offset.hash(state);
    }
}

impl<W> fmt::Debug for ScrAddr<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scr+{:#x}", self.offset)
    }
}

/// A byte in the large non-coherent region (LNR), as an offset from its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LnrAddr(u64);

impl LnrAddr {
    /// The byte at `offset`.
    pub const fn new(offset: u64) -> Self {
        Self(offset)
    }

    /// The first byte of line number `line`.
    pub const fn of_line(line: u64) -> Self {
        Self(line * LINE_BYTES)
    }

    /// Byte offset from the start of LNR.
    pub const fn offset(self) -> u64 {
        self.0
    }

    /// Number of the line this byte lies in.
    pub const fn line(self) -> u64 {
        self.0 / LINE_BYTES
    }

    /// The byte `bytes` further on.
    pub const fn plus(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl fmt::Debug for LnrAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lnr+{:#x}", self.0)
    }
}

/// Whole consecutive lines of LNR: the only thing that can be cleaned or invalidated.
///
/// Built from bytes by [`Lines::covering`], which rounds base *and* end outwards; so a first or
/// last line cannot be left out of a flush.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lines {
    first: u64,
    count: u64,
}

impl Lines {
    /// `count` lines from line number `first`.
    pub const fn new(first: u64, count: u64) -> Self {
        Self { first, count }
    }

    /// Every line that holds at least one of the `bytes` bytes from `start`.
    pub const fn covering(start: LnrAddr, bytes: u64) -> Self {
        let first = start.line();
        if bytes == 0 {
            return Self { first, count: 0 };
        }
        Self { first, count: start.plus(bytes - 1).line() - first + 1 }
    }

    /// Number of the first line.
    pub const fn first(self) -> u64 {
        self.first
    }

    /// How many lines.
    pub const fn count(self) -> u64 {
        self.count
    }

    /// Whether all of `others` are among them.
    pub const fn contain(self, others: Self) -> bool {
        self.first <= others.first && others.first + others.count <= self.first + self.count
    }

    /// The first byte.
    pub const fn start(self) -> LnrAddr {
        LnrAddr::of_line(self.first)
    }

    /// How many bytes.
    pub const fn bytes(self) -> u64 {
        self.count * LINE_BYTES
    }

    /// The line numbers, in order.
    pub fn numbers(self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}+{} lines", self.start(), self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covering_rounds_base_and_end_outwards() {
        let lines = |start, bytes| {
            let l = Lines::covering(LnrAddr::new(start), bytes);
            (l.first(), l.count())
        };
        assert_eq!(lines(0, 0), (0, 0));
        assert_eq!(lines(0, 64), (0, 1));
        assert_eq!(lines(63, 2), (0, 2));
        assert_eq!(lines(65, 63), (1, 1));
        assert_eq!(lines(65, 64), (1, 2));
        assert_eq!(lines(130, 200), (2, 4));
    }

    #[test]
    fn lines_contain_their_parts() {
        let all = Lines::new(3, 4);
        let within = [(3, 4), (3, 1), (6, 1), (4, 0)];
        assert!(within.iter().all(|&(first, count)| all.contain(Lines::new(first, count))));
        let beyond = [(2, 2), (6, 2), (7, 1), (0, 9)];
        assert!(!beyond.iter().any(|&(first, count)| all.contain(Lines::new(first, count))));
    }

    #[test]
    #[should_panic(expected = "not aligned")]
    fn a_straddling_word_cannot_be_named() {
        ScrAddr::<u64>::new(60);
    }
}
