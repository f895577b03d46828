//! One host's cache over LNR.
//!
//! Models presence, staleness and dirtiness per line. A dirty line goes back whole, as hardware
//! writes it. Leaves out associativity and levels: the adversary evicts whatever it likes.

use indexmap::IndexMap;
use tombolo_memory::LINE_BYTES;

pub(crate) type LineBytes = [u8; LINE_BYTES as usize];

pub(crate) struct CachedLine {
    pub(crate) bytes: LineBytes,
    pub(crate) dirty: bool,
}

/// Lines by number. An `IndexMap`, so that a random victim depends on the seed alone.
#[derive(Default)]
pub(crate) struct Cache {
    lines: IndexMap<u64, CachedLine>,
}

impl Cache {
    /// The line, fetched from `memory` if it is absent.
    pub(crate) fn fetch(&mut self, line: u64, memory: &[LineBytes]) -> &mut CachedLine {
        self.lines
            .entry(line)
            .or_insert_with(|| CachedLine { bytes: memory[line as usize], dirty: false })
    }

    /// Writes the line back if it is dirty; it stays, clean.
    pub(crate) fn clean(&mut self, line: u64, memory: &mut [LineBytes]) {
        if let Some(cached) = self.lines.get_mut(&line)
            && cached.dirty
        {
            memory[line as usize] = cached.bytes;
            cached.dirty = false;
        }
    }

    /// Writes the line back if it is dirty, and drops it.
    pub(crate) fn evict(&mut self, line: u64, memory: &mut [LineBytes]) {
        self.clean(line, memory);
        self.lines.swap_remove(&line);
    }

    pub(crate) fn is_dirty(&self, line: u64) -> bool {
        self.lines.get(&line).is_some_and(|cached| cached.dirty)
    }

    /// The `index`-th line present, counted modulo their number.
    pub(crate) fn nth(&self, index: u64) -> Option<u64> {
        let count = self.lines.len() as u64;
        let index = index.checked_rem(count)?;
        self.lines.get_index(index as usize).map(|(&line, _)| line)
    }
}
