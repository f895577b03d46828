//! Bytes of which most are zero: lines of zeros take no memory.

use tombolo_memory::LINE_BYTES;

const LINE: usize = LINE_BYTES as usize;
const PAGE_LINES: u64 = 64;

type LineBytes = [u8; LINE];

/// 64 lines; those that are not zero.
#[derive(Default)]
struct Page {
    /// A bit per line that is kept.
    kept: u64,
    lines: Vec<LineBytes>,
}

impl Page {
    /// Where a line is kept, or would be.
    fn place(&self, line: u64) -> (bool, usize) {
        let bit = 1 << line;
        (self.kept & bit != 0, (self.kept & (bit - 1)).count_ones() as usize)
    }

    fn get(&self, line: u64) -> Option<&LineBytes> {
        let (kept, place) = self.place(line);
        kept.then(|| &self.lines[place])
    }

    fn kept(&mut self, line: u64) -> &mut LineBytes {
        let (kept, place) = self.place(line);
        if !kept {
            self.kept |= 1 << line;
            self.lines.reserve_exact(1);
            self.lines.insert(place, [0; LINE]);
        }
        &mut self.lines[place]
    }

    fn forget(&mut self, line: u64) {
        let (kept, place) = self.place(line);
        if kept {
            self.kept &= !(1 << line);
            self.lines.remove(place);
        }
    }
}

/// LNR, all zeros at first.
pub(crate) struct Sparse {
    pages: Vec<Page>,
}

impl Sparse {
    pub(crate) fn new(bytes: u64) -> Self {
        let pages = bytes.div_ceil(PAGE_LINES * LINE_BYTES);
        Self { pages: (0..pages).map(|_| Page::default()).collect() }
    }

    pub(crate) fn read(&self, line: u64, from: usize, into: &mut [u8]) {
        match self.pages[(line / PAGE_LINES) as usize].get(line % PAGE_LINES) {
            Some(bytes) => into.copy_from_slice(&bytes[from..from + into.len()]),
            None => into.fill(0),
        }
    }

    pub(crate) fn write(&mut self, line: u64, from: usize, bytes: &[u8]) {
        let page = &mut self.pages[(line / PAGE_LINES) as usize];
        let line = line % PAGE_LINES;
        let zero = bytes.iter().all(|&byte| byte == 0);
        if zero && bytes.len() == LINE {
            page.forget(line);
        } else if !zero || page.get(line).is_some() {
            page.kept(line)[from..from + bytes.len()].copy_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_zeros_take_nothing() {
        let mut sparse = Sparse::new(64 << 10);
        let mut read = [7; 8];
        sparse.read(70, 8, &mut read);
        assert_eq!(read, [0; 8]);
        sparse.write(70, 0, &[0; 40]);
        assert_eq!(sparse.pages[1].lines.len(), 0);
        sparse.write(70, 8, &[1; 8]);
        sparse.write(65, 0, &[2; LINE]);
        sparse.write(127, 60, &[3; 4]);
        sparse.read(70, 4, &mut read);
        assert_eq!(read, [0, 0, 0, 0, 1, 1, 1, 1]);
        sparse.read(127, 56, &mut read);
        assert_eq!(read, [0, 0, 0, 0, 3, 3, 3, 3]);
        sparse.write(65, 0, &[0; LINE]);
        sparse.read(65, 0, &mut read);
        assert_eq!((read, sparse.pages[1].lines.len()), ([0; 8], 2));
    }
}
