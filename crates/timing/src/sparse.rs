//! Bytes of which most are zero: lines of zeros take no memory.
//!
//! The lines that a page keeps lie in one block, whose size follows from their number.
//! Blocks are cut from large segments, since millions of them are looked up at random.

use std::ops::Range;

use tombolo_memory::LINE_BYTES;

const LINE: usize = LINE_BYTES as usize;
const PAGE_LINES: u64 = 64;

type LineBytes = [u8; LINE];

/// 64 lines; those that are not zero.
#[derive(Clone, Copy, Default)]
struct Page {
    /// A bit per line that is kept.
    kept: u64,
    /// Where its block starts, if it keeps any.
    block: u32,
}

impl Page {
    /// Whether a line is kept, and how many before it are.
    fn place(self, line: u64) -> (bool, u32) {
        let bit = 1 << line;
        (self.kept & bit != 0, (self.kept & (bit - 1)).count_ones())
    }

    fn lines(self) -> u32 {
        self.kept.count_ones()
    }

    /// Whether any line is kept of these bytes, which all are in this page.
    fn keeps_any(self, start: u64, bytes: usize) -> bool {
        let first = start / LINE_BYTES % PAGE_LINES;
        let lines = (start % LINE_BYTES + bytes as u64).div_ceil(LINE_BYTES);
        self.kept & ((u64::MAX >> (PAGE_LINES - lines)) << first) != 0
    }
}

/// Lines of a segment: 64 MiB.
const SEGMENT: u32 = 1 << 20;

/// Blocks of 1, 2, 4 and up to 64 lines.
#[derive(Default)]
struct Blocks {
    segments: Vec<Vec<LineBytes>>,
    /// Lines that are in blocks, or were.
    cut: u32,
    /// Those that nobody has, by the logarithm of their size.
    free: [Vec<u32>; PAGE_LINES.ilog2() as usize + 1],
}

/// The logarithm of the size of a block for so many lines.
fn class(lines: u32) -> usize {
    lines.next_power_of_two().ilog2() as usize
}

impl Blocks {
    fn take(&mut self, lines: u32) -> u32 {
        let class = class(lines);
        if self.free[class].is_empty() {
            if self.cut.is_multiple_of(SEGMENT) {
                self.segments.push(vec![[0; LINE]; SEGMENT as usize]);
            }
            let all = self.cut..self.cut + PAGE_LINES as u32;
            self.free[class].extend(all.clone().step_by(1 << class).rev());
            self.cut = all.end;
        }
        self.free[class].pop().expect("there is one by now")
    }

    fn give(&mut self, block: u32, lines: u32) {
        self.free[class(lines)].push(block);
    }

    fn line(&self, at: u32) -> &LineBytes {
        &self.segments[(at / SEGMENT) as usize][(at % SEGMENT) as usize]
    }

    fn line_mut(&mut self, at: u32) -> &mut LineBytes {
        &mut self.segments[(at / SEGMENT) as usize][(at % SEGMENT) as usize]
    }

    /// Copies lines of one block to `to` in the same or another one.
    fn copy(&mut self, from: Range<u32>, to: u32) {
        let numbers = 0..from.len() as u32;
        let copy = |number| *self.line_mut(to + number) = *self.line(from.start + number);
        // Lines that move up are copied before others come where they are.
        if to > from.start { numbers.rev().for_each(copy) } else { numbers.for_each(copy) }
    }
}

/// LNR, all zeros at first.
pub(crate) struct Sparse {
    pages: Vec<Page>,
    blocks: Blocks,
}

impl Sparse {
    pub(crate) fn new(bytes: u64) -> Self {
        let pages = bytes.div_ceil(PAGE_LINES * LINE_BYTES) as usize;
        Self { pages: vec![Page::default(); pages], blocks: Blocks::default() }
    }

    /// Where the bytes of a line are, if it is kept.
    fn find(&self, line: u64) -> Option<u32> {
        let page = self.pages[(line / PAGE_LINES) as usize];
        let (kept, before) = page.place(line % PAGE_LINES);
        kept.then(|| page.block + before)
    }

    /// Keeps a line that was not kept; where its bytes are.
    fn keep(&mut self, line: u64) -> u32 {
        let Self { pages, blocks } = self;
        let page = &mut pages[(line / PAGE_LINES) as usize];
        let (lines, before) = (page.lines(), page.place(line % PAGE_LINES).1);
        let (old, at) = (page.block, page.block + before);
        if lines == 0 || class(lines) != class(lines + 1) {
            page.block = blocks.take(lines + 1);
            blocks.copy(old..at, page.block);
            blocks.copy(at..old + lines, page.block + before + 1);
            if lines > 0 {
                blocks.give(old, lines);
            }
        } else {
            blocks.copy(at..old + lines, at + 1);
        }
        page.kept |= 1 << (line % PAGE_LINES);
        let at = page.block + before;
        *blocks.line_mut(at) = [0; LINE];
        at
    }

    fn forget(&mut self, line: u64) {
        let Some(at) = self.find(line) else { return };
        let Self { pages, blocks } = self;
        let page = &mut pages[(line / PAGE_LINES) as usize];
        let (lines, old) = (page.lines(), page.block);
        blocks.copy(at + 1..old + lines, at);
        page.kept &= !(1 << (line % PAGE_LINES));
        if lines == 1 {
            blocks.give(old, lines);
        } else if class(lines) != class(lines - 1) {
            page.block = blocks.take(lines - 1);
            blocks.copy(old..old + lines - 1, page.block);
            blocks.give(old, lines);
        }
    }

    /// Bytes from `start` on.
    pub(crate) fn read(&self, start: u64, into: &mut [u8]) {
        for (start, range) in pieces(start, into.len(), PAGE_LINES * LINE_BYTES) {
            let into = &mut into[range];
            let page = self.pages[(start / LINE_BYTES / PAGE_LINES) as usize];
            if page.keeps_any(start, into.len()) {
                self.read_lines(start, into);
            } else {
                into.fill(0);
            }
        }
    }

    /// The same, line by line.
    fn read_lines(&self, start: u64, into: &mut [u8]) {
        for (start, range) in pieces(start, into.len(), LINE_BYTES) {
            let into = &mut into[range];
            let from = (start % LINE_BYTES) as usize;
            match self.find(start / LINE_BYTES) {
                Some(at) => into.copy_from_slice(&self.blocks.line(at)[from..from + into.len()]),
                None => into.fill(0),
            }
        }
    }

    /// Changes bytes from `start` on.
    pub(crate) fn write(&mut self, start: u64, bytes: &[u8]) {
        for (start, range) in pieces(start, bytes.len(), LINE_BYTES) {
            self.write_line(start / LINE_BYTES, (start % LINE_BYTES) as usize, &bytes[range]);
        }
    }

    fn write_line(&mut self, line: u64, from: usize, bytes: &[u8]) {
        // As a whole: byte by byte, this would take longer than all the rest.
        let zero = *bytes == [0; LINE][..bytes.len()];
        let found = self.find(line);
        if zero && bytes.len() == LINE {
            self.forget(line);
        } else if !zero || found.is_some() {
            let at = found.unwrap_or_else(|| self.keep(line));
            self.blocks.line_mut(at)[from..from + bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// Cuts bytes from `start` on where multiples of `unit` bytes are: where each piece starts, and
/// which of the bytes it is.
fn pieces(start: u64, bytes: usize, unit: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = start + done as u64;
        let length = ((unit - at % unit) as usize).min(bytes - done);
        let range = done..done + length;
        done = range.end;
        (length > 0).then_some((at, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_zeros_take_nothing() {
        let mut sparse = Sparse::new(64 << 10);
        let mut read = [7; 8];
        sparse.read(70 * LINE_BYTES + 8, &mut read);
        assert_eq!(read, [0; 8]);
        sparse.write(70 * LINE_BYTES, &[0; 40]);
        assert_eq!(sparse.pages[1].lines(), 0);
        sparse.write(70 * LINE_BYTES + 8, &[1; 8]);
        sparse.write(65 * LINE_BYTES, &[2; LINE]);
        sparse.write(127 * LINE_BYTES + 60, &[3; 4]);
        sparse.read(70 * LINE_BYTES + 4, &mut read);
        assert_eq!(read, [0, 0, 0, 0, 1, 1, 1, 1]);
        sparse.read(127 * LINE_BYTES + 56, &mut read);
        assert_eq!(read, [0, 0, 0, 0, 3, 3, 3, 3]);
        sparse.write(65 * LINE_BYTES, &[0; LINE]);
        sparse.read(65 * LINE_BYTES, &mut read);
        assert_eq!((read, sparse.pages[1].lines()), ([0; 8], 2));
    }

    #[test]
    fn pages_keep_what_bytes_would() {
        let (bytes, page_lines) = (16 << 10, 16 << 10 >> LINE.ilog2());
        let (mut sparse, mut plain) = (Sparse::new(bytes as u64), vec![0u8; bytes]);
        let mut dice: u64 = 1;
        let mut roll = |sides: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (dice >> 33) % sides
        };
        for round in 0..20_000 {
            // Whole lines or not, in one page or in two.
            let (start, length) = match roll(2) {
                0 => (roll(page_lines) * LINE_BYTES, LINE_BYTES),
                _ => (roll(bytes as u64 - 300), roll(300)),
            };
            // Pages fill up, and then get empty again.
            let byte = if roll(4) < 1 + 2 * (round / 1000 % 2) { 0 } else { roll(256) as u8 };
            let written = vec![byte; length as usize];
            sparse.write(start, &written);
            plain[start as usize..][..written.len()].copy_from_slice(&written);
            let mut read = vec![7; 200];
            let start = roll(bytes as u64 - 200) as usize;
            sparse.read(start as u64, &mut read);
            assert_eq!(read, plain[start..][..200], "{start} in round {round}");
        }
        let kept: u32 = sparse.pages.iter().map(|page| 1 << class(page.lines().max(1))).sum();
        let free: usize = sparse.blocks.free.iter().enumerate().map(|(c, f)| f.len() << c).sum();
        assert!(sparse.pages.iter().all(|page| page.lines() > 0));
        assert_eq!(kept as usize + free, sparse.blocks.cut as usize);
    }
}
