//! Where an object lies in LNR.
//!
//! Memory takes what it is told to do here for the caller's doing: hence `#[track_caller]`.

use std::borrow::Cow;
use std::iter::once;
use std::ops::Range;
use std::slice;

use tombolo_memory::{Lines, LnrAddr, Memory, Moment};

/// The lines of an object's slot: in one piece, or those of a chain in pieces of whole chunks.
/// Offsets count from the first byte of the first piece on, through all of them.
#[derive(Clone)]
pub(crate) enum Extent {
    Whole(Lines),
    Pieces(Vec<Lines>),
}

impl Extent {
    #[inline]
    pub(crate) fn of(lines: Lines) -> Self {
        Self::Whole(lines)
    }

    /// Goes on in `lines`.
    pub(crate) fn and(mut self, lines: Lines) -> Self {
        let last = match &mut self {
            Self::Whole(last) => last,
            Self::Pieces(pieces) => pieces.last_mut().expect("there are several"),
        };
        if last.first() + last.count() == lines.first() {
            *last = Lines::new(last.first(), last.count() + lines.count());
            return self;
        }
        match self {
            Self::Whole(first) => Self::Pieces(vec![first, lines]),
            Self::Pieces(mut pieces) => {
                pieces.push(lines);
                Self::Pieces(pieces)
            }
        }
    }

    /// Whether it is in one piece.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Self::Whole(_))
    }

    #[inline]
    fn pieces(&self) -> &[Lines] {
        match self {
            Self::Whole(lines) => slice::from_ref(lines),
            Self::Pieces(pieces) => pieces,
        }
    }

    /// The first byte.
    #[inline]
    pub(crate) fn start(&self) -> LnrAddr {
        self.first().start()
    }

    /// The first piece.
    #[inline]
    pub(crate) fn first(&self) -> Lines {
        self.pieces()[0]
    }

    /// How many lines.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.lines().map(Lines::count).sum()
    }

    /// How many bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.lines().map(Lines::bytes).sum()
    }

    /// All lines.
    #[inline]
    pub(crate) fn lines(&self) -> impl Iterator<Item = Lines> + Clone {
        self.pieces().iter().copied()
    }

    /// Every line that holds at least one of the `bytes` bytes from `offset` on.
    #[inline]
    pub(crate) fn covering(&self, offset: u64, bytes: u64) -> impl Iterator<Item = Lines> {
        self.parts(offset, bytes).map(|(at, part)| Lines::covering(at, part.len() as u64))
    }

    /// Where the `bytes` bytes from `offset` on are, and which of them are there.
    #[inline]
    fn parts(
        &self,
        offset: u64,
        bytes: u64,
    ) -> impl Iterator<Item = (LnrAddr, Range<usize>)> + Clone {
        let (end, mut piece_at) = (offset + bytes, 0);
        self.lines().filter_map(move |piece| {
            let (from, to) = (offset.max(piece_at), end.min(piece_at + piece.bytes()));
            let within = from.saturating_sub(piece_at);
            piece_at += piece.bytes();
            let part = || (from - offset) as usize..(to - offset) as usize;
            (from < to).then(|| (piece.start().plus(within), part()))
        })
    }

    /// Where the `bytes` bytes from `offset` on are, and how many are there.
    pub(crate) fn pieces_of(
        &self,
        offset: u64,
        bytes: u64,
    ) -> impl Iterator<Item = (LnrAddr, u64)> {
        self.parts(offset, bytes).map(|(at, part)| (at, part.len() as u64))
    }

    /// As [`Memory::read`].
    #[inline]
    #[track_caller]
    pub(crate) fn read<M: Memory>(&self, memory: &M, offset: u64, into: &mut [u8]) {
        if let Self::Whole(lines) = self {
            return memory.read(lines.start().plus(offset), into);
        }
        for (from, part) in self.parts(offset, into.len() as u64) {
            memory.read(from, &mut into[part]);
        }
    }

    /// Appends `bytes` bytes to `to`; as [`Memory::append`].
    #[inline]
    #[track_caller]
    pub(crate) fn append<M: Memory>(&self, memory: &M, offset: u64, bytes: u64, to: &mut Vec<u8>) {
        if let Self::Whole(lines) = self {
            return memory.append(lines.start().plus(offset), bytes, to);
        }
        to.reserve(bytes as usize);
        for (from, part) in self.parts(offset, bytes) {
            memory.append(from, part.len() as u64, to);
        }
    }

    /// As [`Memory::view`], piece by piece. The bytes seen are relied on: they were not out of date
    /// at `since`.
    #[track_caller]
    pub(crate) fn view<'a, M: Memory>(
        &'a self,
        memory: &'a M,
        offset: u64,
        bytes: u64,
        since: Moment,
    ) -> impl Iterator<Item = Cow<'a, [u8]>> {
        self.parts(offset, bytes).map(move |(from, part)| {
            let piece = memory.view(from, part.len() as u64);
            memory.relies_on(from, part.len() as u64, since);
            piece
        })
    }

    /// Whether this host has met a memory error in the first `bytes` bytes; as
    /// [`Memory::poisoned`].
    #[inline]
    pub(crate) fn is_poisoned<M: Memory>(&self, memory: &M, bytes: u64) -> bool {
        if let Self::Whole(lines) = self
            && bytes >= lines.bytes()
        {
            return memory.poisoned(*lines);
        }
        self.covering(0, bytes.min(self.bytes())).any(|lines| memory.poisoned(lines))
    }

    /// As [`Memory::write`].
    #[inline]
    #[track_caller]
    pub(crate) fn write<M: Memory>(&self, memory: &M, offset: u64, bytes: &[u8]) {
        if let Self::Whole(lines) = self {
            return memory.write(lines.start().plus(offset), bytes);
        }
        for (to, part) in self.parts(offset, bytes.len() as u64) {
            memory.write(to, &bytes[part]);
        }
    }

    /// As [`Memory::write_all`], of what lies at the end.
    #[inline]
    #[track_caller]
    pub(crate) fn write_to_end<M: Memory>(&self, memory: &M, offset: u64, bytes: &[u8]) {
        if let Self::Whole(lines) = self {
            return memory.write_all(once((lines.start().plus(offset), bytes)));
        }
        let parts = self.parts(offset, bytes.len() as u64);
        memory.write_all(parts.map(|(to, part)| (to, &bytes[part])));
    }

    /// As [`Memory::takes`].
    #[inline]
    #[track_caller]
    pub(crate) fn take<M: Memory>(&self, memory: &M) {
        for lines in self.lines() {
            memory.takes(lines);
        }
    }

    /// As [`Memory::takes_blank`].
    #[inline]
    #[track_caller]
    pub(crate) fn take_blank<M: Memory>(&self, memory: &M) {
        for lines in self.lines() {
            memory.takes_blank(lines);
        }
    }

    /// As [`Memory::gives`].
    #[inline]
    #[track_caller]
    pub(crate) fn give<M: Memory>(&self, memory: &M, bytes: u64) {
        let mut left = bytes;
        for lines in self.lines() {
            let given = left.min(lines.bytes());
            memory.gives(lines, given);
            left -= given;
        }
    }

    /// As [`Memory::relies_on`].
    #[inline]
    #[track_caller]
    pub(crate) fn rely_on<M: Memory>(&self, memory: &M, offset: u64, bytes: u64, since: Moment) {
        for (from, part) in self.parts(offset, bytes) {
            memory.relies_on(from, part.len() as u64, since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_what_is_wanted_wherever_pieces_end() {
        let extent = Extent::of(Lines::new(10, 2)).and(Lines::new(12, 1)).and(Lines::new(4, 3));
        assert_eq!(extent.lines().collect::<Vec<_>>(), [Lines::new(10, 3), Lines::new(4, 3)]);
        assert_eq!((extent.count(), extent.bytes()), (6, 384));
        let place = |offset: u64| if offset < 192 { 640 + offset } else { 256 + offset - 192 };
        for offset in 0..extent.bytes() {
            for bytes in 0..=extent.bytes() - offset {
                let places: Vec<u64> = extent
                    .parts(offset, bytes)
                    .flat_map(|(at, part)| (0..part.len() as u64).map(move |n| at.plus(n).offset()))
                    .collect();
                let wanted: Vec<u64> = (offset..offset + bytes).map(place).collect();
                assert_eq!(places, wanted);
            }
        }
        let lines: Vec<Lines> = extent.covering(100, 93).collect();
        assert_eq!(lines, [Lines::new(11, 2), Lines::new(4, 1)]);
    }
}
