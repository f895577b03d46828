//! The costs of using rows in a host's own memory, where memory keeps time.

use tombolo_memory::{LINE_BYTES, Local, Memory, Work};

use crate::{MAX_KEY_WORDS, OrderedKey, OrderedMap};

/// Lines of a leaf that a search reads: those of its steps, and the row's address.
const LEAF_LINES: u64 = 4;

/// The rows of a partition, or of a replicated table, in a host's own memory.
#[derive(Clone, Copy, Debug)]
pub struct LocalRows {
    name: u64,
}

impl LocalRows {
    /// Rows with a name that no others of the host have.
    pub fn new(name: u64) -> Self {
        Self { name }
    }

    /// A thread searches the rows for a key.
    pub fn searches<M: Memory, V>(&self, memory: &M, rows: &OrderedMap<V>, key: &OrderedKey) {
        (0..rows.height()).for_each(|_| memory.works(Work::Node));
        memory.touches(Local::Index, false, || {
            let leaf = self.line_of(&[rows.leaf_number(key).into()]);
            leaf..leaf + LEAF_LINES
        });
    }

    /// A thread reads or writes a row of so many bytes.
    pub fn uses<M: Memory>(&self, memory: &M, key: &OrderedKey, write: bool, bytes: usize) {
        memory.touches(Local::Rows, write, || {
            let head = self.line_of(key.words(MAX_KEY_WORDS));
            head..head + 1 + (bytes as u64).div_ceil(LINE_BYTES)
        });
    }

    /// Where something of these rows lies, as far as it matters: apart from all else, and in each
    /// run at the same place.
    fn line_of(&self, what: &[u64]) -> u64 {
        let step = |hash: u64, word: &u64| {
            (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        what.iter().fold(self.name, step) >> 25
    }
}
