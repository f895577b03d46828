//! The keys of the objects that a database consists of.

use tombolo_database::TableId;

use crate::leaf::LeafId;

/// The first byte of the key of a row's object.
const ROW: u8 = b'r';

/// The first byte of the key of a leaf's object.
const LEAF: u8 = b'l';

/// The first byte of the key of a worker's marker.
const MARKER: u8 = b'm';

fn name(kind: u8, table: TableId, rest: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(3 + rest.len());
    name.push(kind);
    name.extend(table.0.to_be_bytes());
    name.extend(rest);
    name
}

/// The key of a row's object.
pub(crate) fn of_row(table: TableId, key: &[u8]) -> Vec<u8> {
    name(ROW, table, key)
}

/// The key of a leaf's object.
pub(crate) fn of_leaf(table: TableId, leaf: LeafId) -> Vec<u8> {
    name(LEAF, table, &leaf.0.to_be_bytes())
}

/// The key of the marker of a worker of a home.
pub(crate) fn of_marker(home: u8, worker: u16) -> Vec<u8> {
    let [high, low] = worker.to_be_bytes();
    vec![MARKER, home, high, low]
}
