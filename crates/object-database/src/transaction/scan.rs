//! Scans: leaf by leaf, with the transaction's own rows among those of the leaves.

use tombolo_database::{
    Bounds, Conflict, Direction, EachRow, MAX_KEY_WORDS, OrderedKey, TableId, TxError,
};
use tombolo_memory::Memory;

use super::{Access, Change, Tx};
use crate::database::Side;
use crate::leaf::{Leaf, LeafId};

/// The rest of a scan.
struct Scanning<'s, 'e> {
    table: TableId,
    bounds: &'s Bounds,
    left: usize,
    each: &'s mut EachRow<'e>,
}

impl<M: Memory> Tx<'_, M> {
    /// Calls `each` for up to `limit` rows within `bounds`, until it breaks.
    pub(super) fn scan_leaves(
        &mut self,
        table: TableId,
        bounds: &Bounds,
        limit: usize,
        each: &mut EachRow<'_>,
    ) -> Result<(), TxError> {
        let mut scanning = Scanning { table, bounds, left: limit, each };
        let is_forward = bounds.direction == Direction::Forward;
        let mut next = match (is_forward, bounds.upper) {
            (true, _) => Some((bounds.lower.0, Side::At)),
            (false, (upper, true)) => Some((upper, Side::At)),
            (false, (upper, false)) => Some((upper, Side::Before)),
        };
        while let Some((key, side)) = next {
            let id = self.leaves.find(table, &key, side)?;
            let (low, right) = {
                let leaf = self.leaves.leaf(table, id);
                (leaf.low, leaf.right)
            };
            if !self.scan_leaf(&mut scanning, id)? {
                return Ok(());
            }
            next = if is_forward {
                right.filter(|(high, _)| reaches(bounds, high)).map(|(high, _)| (high, Side::At))
            } else {
                (low > bounds.lower.0).then_some((low, Side::Before))
            };
        }
        Ok(())
    }

    /// Calls back with the rows of one leaf; whether the scan goes on.
    fn scan_leaf(&mut self, scanning: &mut Scanning<'_, '_>, id: LeafId) -> Result<bool, TxError> {
        let table = scanning.table;
        let mut keys = self.keys_within(scanning, id);
        if scanning.bounds.direction == Direction::Backward {
            keys.reverse();
        }
        let (width, mut buffer) = (self.db.shared(table).width, [0; 8 * MAX_KEY_WORDS]);
        for key in keys {
            let bytes = key.bytes(width, &mut buffer);
            let access = self.reach(table, &key, bytes)?;
            let Some(row) = access.current() else {
                if is_missing(access) {
                    return Err(Conflict::Validation.into());
                }
                continue;
            };
            if (scanning.each)(bytes, row).is_break() {
                return Ok(false);
            }
            scanning.left -= 1;
            if scanning.left == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Keys within the scan that a leaf has, or this transaction has added to what the leaf is for.
    fn keys_within(&self, scanning: &Scanning<'_, '_>, id: LeafId) -> Vec<OrderedKey> {
        let Scanning { table, bounds, .. } = *scanning;
        let leaf = self.leaves.leaf(table, id);
        let mut keys: Vec<_> = leaf.keys.iter().filter(|key| bounds.has(key)).copied().collect();
        let from_leaf = keys.len();
        let own = self.rows.range((table, leaf.low)..=(table, OrderedKey::END));
        let own =
            own.map(|((_, key), access)| (key, access)).take_while(|(key, _)| is_for(leaf, key));
        let added = own.filter(|(key, access)| is_added(access) && bounds.has(key));
        keys.extend(added.map(|(key, _)| *key));
        if keys.len() > from_leaf {
            keys.sort_unstable();
            keys.dedup();
        }
        keys
    }
}

/// Whether a scan may meet keys from `high` on.
fn reaches(bounds: &Bounds, high: &OrderedKey) -> bool {
    let (upper, included) = bounds.upper;
    *high < upper || included && *high == upper
}

fn is_for(leaf: &Leaf, key: &OrderedKey) -> bool {
    leaf.right.is_none_or(|(high, _)| *key < high)
}

/// Whether it is a row that the transaction has added.
fn is_added(access: &Access) -> bool {
    access.seen.is_none() && matches!(access.change, Change::Put(_))
}

/// Whether a leaf says that there is a row, and there was none: it came or went in between.
fn is_missing(access: &Access) -> bool {
    access.seen.is_none() && matches!(access.change, Change::None)
}
