//! The tables of a database, as words of SCR: all its hosts have the same.

use tombolo_memory::{Memory, ScrAddr};

use super::SetupError;
use crate::TableSpec;

/// Where the tables stand: a word with their number, and the words of each.
#[derive(Clone, Copy, Debug)]
pub struct SpecTable {
    /// The first word.
    pub at: ScrAddr<u64>,
}

impl SpecTable {
    /// Words for so many tables.
    pub const fn words(tables: u64) -> u64 {
        1 + tables * TableSpec::WORDS as u64
    }

    /// Writes the tables. No other host uses them meanwhile.
    pub fn format<M: Memory>(&self, memory: &M, tables: &[TableSpec]) {
        self.words_of(tables).for_each(|(at, word)| memory.store(at, word));
    }

    /// Sees that these are the tables.
    ///
    /// # Errors
    /// [`SetupError::Unusable`] if not.
    pub fn expect<M: Memory>(&self, memory: &M, tables: &[TableSpec]) -> Result<(), SetupError> {
        if self.words_of(tables).all(|(at, word)| memory.load(at) == word) {
            return Ok(());
        }
        Err(SetupError::Unusable("its other hosts have other tables".to_owned()))
    }

    fn words_of(self, tables: &[TableSpec]) -> impl Iterator<Item = (ScrAddr<u64>, u64)> {
        let words = tables.iter().flat_map(TableSpec::to_words);
        let all = [tables.len() as u64].into_iter().chain(words);
        (0..).zip(all).map(move |(number, word)| (self.at.element(number), word))
    }
}
