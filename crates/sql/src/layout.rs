//! How tables of SQL lie in tables of an engine.
//!
//! An engine has a fixed number of tables, which all SQL tables share by the lengths of their keys
//! and rows. Keys begin with the number of a table or an index (4 bytes), so tables come and go in
//! transactions as rows do. The upper 12 bits of a number are a partition: its rows are at home
//! together.
//!
//! ```text
//! catalog, partition 0   0 | t | table           a table, as JSON
//!                        0 | n                   the last number that was given (4 bytes)
//!                        0 | d | number          a table or an index whose rows are to be deleted
//! catalog, each          partition | v           the version of the catalog (8 bytes)
//! rows                   number | primary key    the row
//! entries of an index    number | columns | primary key unless it is unique   the primary key
//! ```

use tombolo_database::{MAX_KEY_BYTES, Partitioning, TableId, TableSpec};

/// Bits of a number behind its partition.
const NUMBER_BITS: u32 = 20;

/// Partitions at most.
pub const MAX_PARTITIONS: u32 = 1 << (32 - NUMBER_BITS);

/// Bytes of a key that are a number.
pub(crate) const PREFIX: usize = 4;

/// Bytes of keys, short and long.
const KEY_BYTES: [u16; 2] = [23, MAX_KEY_BYTES as u16];

/// Bytes of rows.
const ROW_BYTES: [u32; 5] = [128, 512, 2048, 8192, 32_768];

/// The longest row with columns whose length is not limited.
const UNLIMITED: usize = 8192;

/// The engine's table of the catalog.
pub(crate) const CATALOG: TableId = TableId(0);

/// Bytes of a description of a table.
const CATALOG_ROW_BYTES: u32 = 32_768;

/// The engine's tables of a database that SQL is to run on.
pub fn tables() -> Vec<TableSpec> {
    let spec = |key_bytes, row_bytes| TableSpec {
        key_bytes,
        row_bytes,
        partitioning: Partitioning::Leading { per_partition: 1 << NUMBER_BITS },
    };
    let catalog = spec(KEY_BYTES[0], CATALOG_ROW_BYTES);
    let rows = KEY_BYTES.iter().flat_map(|&key| ROW_BYTES.map(|row| spec(key, row)));
    let entries = KEY_BYTES.iter().map(|&key| spec(key, MAX_KEY_BYTES as u32));
    [catalog].into_iter().chain(rows).chain(entries).collect()
}

/// Names of the engine's tables, for reports.
pub fn table_names() -> Vec<String> {
    let rows = KEY_BYTES
        .iter()
        .flat_map(|key| ROW_BYTES.map(|row| format!("rows of {row} bytes, keys of {key}")));
    let entries = KEY_BYTES.iter().map(|key| format!("entries of indexes, keys of {key}"));
    ["catalog".to_owned()].into_iter().chain(rows).chain(entries).collect()
}

/// The engine's table for rows with keys and rows of so many bytes; `None` for `row` if that is
/// not limited. `None` if rows may be too long.
pub(crate) fn row_table(key: usize, row: Option<usize>) -> Option<TableId> {
    let class = ROW_BYTES.iter().position(|&most| row.unwrap_or(UNLIMITED) <= most as usize)?;
    Some(TableId((1 + is_long(key) * ROW_BYTES.len() + class) as u16))
}

/// The engine's table for entries of an index with keys of so many bytes.
pub(crate) fn index_table(key: usize) -> TableId {
    TableId((1 + KEY_BYTES.len() * ROW_BYTES.len() + is_long(key)) as u16)
}

fn is_long(key: usize) -> usize {
    usize::from(key > usize::from(KEY_BYTES[0]))
}

/// The number of the `count`-th table or index, which is at home with `partition`.
pub(crate) fn number(partition: u32, count: u32) -> u32 {
    partition << NUMBER_BITS | count
}

/// How many tables and indexes there can ever have been.
pub(crate) const MAX_NUMBERS: u32 = (1 << NUMBER_BITS) - 1;

/// The key of a row of the catalog.
pub(crate) fn catalog_key(tag: u8, number: Option<u32>) -> Vec<u8> {
    let mut key = vec![0, 0, 0, 0, tag];
    key.extend(number.into_iter().flat_map(u32::to_be_bytes));
    key
}

/// The key of the catalog's version in a partition.
pub(crate) fn version_key(partition: u32) -> Vec<u8> {
    let mut key = number(partition, 0).to_be_bytes().to_vec();
    key.push(b'v');
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hold_the_keys_and_rows_that_they_are_chosen_for() {
        let specs = tables();
        assert_eq!(specs.len(), table_names().len());
        for (key, row) in [(8, Some(1)), (23, Some(129)), (24, Some(8000)), (47, None)] {
            let spec = specs[usize::from(row_table(key, row).unwrap().0)];
            assert!(usize::from(spec.key_bytes) >= key, "{key}");
            assert!(spec.row_bytes as usize >= row.unwrap_or(UNLIMITED), "{row:?}");
            assert!(usize::from(specs[usize::from(index_table(key).0)].key_bytes) >= key, "{key}");
        }
        assert_eq!(row_table(8, Some(40_000)), None);
        let partition = |number: u32| specs[1].partition_of(&number.to_be_bytes(), 16);
        assert_eq!((partition(number(3, 77)), partition(number(15, MAX_NUMBERS))), (3, 15));
    }
}
