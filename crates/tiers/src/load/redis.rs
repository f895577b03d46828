use tombolo_timing::Ps;

use super::{Dice, Scrambled};
use crate::{Access, Load, PageId, Use};

/// The time of a command but for its memory: a socket's system calls, parsing, and the answer.
const COMMAND: Ps = 6_000_000;
/// Of all pages, one in so many is of the hash table.
const TABLE_SHARE: u32 = 40;
/// Lines that a read of ten fields waits for, and an update of one.
const READ_LINES: u32 = 20;
const UPDATE_LINES: u32 = 6;

/// Redis with YCSB's workload A: half of the operations are reads, half are updates.
///
/// One thread serves all clients. An operation looks a key up in the hash table, and uses the page
/// with the record. Records lie in the order of their loading. Keys are chosen by
/// YCSB's scrambled Zipf distribution, its default.
#[derive(Debug)]
pub struct Redis {
    dice: Dice,
    keys: Scrambled,
    records: u32,
    table: u32,
    pages: u32,
    operations: u64,
    left: u64,
    /// The record of an operation whose key was looked up.
    found: Option<u32>,
}

impl Redis {
    /// Records that stand for `whole` ones, on so many pages, from page 0 on.
    ///
    /// # Panics
    /// If there are no records.
    pub fn new(records: u32, whole: u64, pages: u32, operations: u64, seed: u64) -> Self {
        let (dice, keys) = (Dice::new(seed), Scrambled::new(records, whole, seed));
        let table = (pages / TABLE_SHARE).max(1);
        Self { dice, keys, records, table, pages, operations, left: operations, found: None }
    }

    fn record_page(&self, record: u32) -> PageId {
        let of_records = u64::from(self.pages - self.table);
        self.table + (u64::from(record) * of_records / u64::from(self.records)) as u32
    }
}

impl Load for Redis {
    fn next(&mut self, _: usize) -> Option<Access> {
        let how = Use::Chase;
        if let Some(record) = self.found.take() {
            let is_write = self.dice.below(2) == 0;
            let lines = if is_write { UPDATE_LINES } else { READ_LINES };
            return Some(Access { page: self.record_page(record), is_write, how, lines, think: 0 });
        }
        if self.left == 0 {
            self.left = self.operations;
            return None;
        }
        self.left -= 1;
        let record = self.keys.next();
        self.found = Some(record);
        // A key's slot in the table has nothing to do with its record's place.
        let slot = u64::from(record).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let page = ((slot * u64::from(self.table)) >> 32) as u32;
        Some(Access { page, is_write: false, how, lines: 2, think: COMMAND })
    }
}
