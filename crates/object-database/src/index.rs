//! The leaves of indexes, as one transaction has read and changed them.

use std::collections::BTreeMap;

use tombolo_database::{Conflict, OrderedKey, TableId, TxError, Version};
use tombolo_memory::Memory;
use tombolo_sharing::{Reads, Version as ObjectVersion, Writes};

use crate::database::{ObjectDatabase, Shared, Side};
use crate::leaf::{Leaf, LeafId};
use crate::{names, sites};

/// How often a leaf is looked for that others split or remove meanwhile.
const ATTEMPTS: usize = 64;

/// Leaves that a transaction has read.
pub(crate) struct Leaves<'a, M: Memory> {
    db: &'a ObjectDatabase<M>,
    read: BTreeMap<(TableId, LeafId), ReadLeaf>,
}

/// A leaf that a transaction has read.
struct ReadLeaf {
    /// The version of its object; `None` if there was none.
    object: Option<ObjectVersion>,
    /// With the transaction's changes; `None` if it is to be gone.
    leaf: Option<Leaf>,
    has_changed: bool,
}

impl<'a, M: Memory> Leaves<'a, M> {
    pub(crate) fn new(db: &'a ObjectDatabase<M>) -> Self {
        Self { db, read: BTreeMap::new() }
    }

    /// A leaf, with this transaction's changes; `None` if it is not there, or not any more.
    fn get(&mut self, table: TableId, id: LeafId) -> Result<Option<&Leaf>, TxError> {
        if !self.read.contains_key(&(table, id)) {
            let width = self.db.shared(table).width;
            let mut bytes = Vec::new();
            let object = self.db.objects.read(&names::of_leaf(table, id), &mut bytes);
            let object = object.map_err(|error| self.db.failed(&error))?;
            let leaf = match object {
                Some(_) => Leaf::decode(&bytes, width).ok_or_else(|| damaged(table))?,
                None if id == LeafId::FIRST => Leaf::first(),
                None => return Ok(None),
            };
            let read = ReadLeaf { object, leaf: Some(leaf), has_changed: false };
            self.read.insert((table, id), read);
        }
        Ok(self.read[&(table, id)].leaf.as_ref())
    }

    /// The leaf for a key, or the one for the keys just before it.
    pub(crate) fn find(
        &mut self,
        table: TableId,
        key: &OrderedKey,
        side: Side,
    ) -> Result<LeafId, TxError> {
        let shared = self.db.shared(table);
        for _ in 0..ATTEMPTS {
            if let Some(found) = self.walk(shared, table, key, side)? {
                return Ok(found);
            }
        }
        Err(Conflict::Validation.into())
    }

    /// The same; `None` if what this host knows of the leaves was out of date.
    fn walk(
        &mut self,
        shared: &Shared<M>,
        table: TableId,
        key: &OrderedKey,
        side: Side,
    ) -> Result<Option<LeafId>, TxError> {
        let (mut low, mut id) = shared.known(key, side);
        loop {
            let right = match self.get(table, id)? {
                Some(leaf) if leaf.low == low => leaf.right,
                _ => {
                    shared.forget(&low, id);
                    return Ok(None);
                }
            };
            let is_beyond = |high: &OrderedKey| match side {
                Side::At => high <= key,
                Side::Before => high < key,
            };
            match right.filter(|(high, _)| is_beyond(high)) {
                Some(next) if self.db.memory().keeps(sites::LEAF_RIGHT) => (low, id) = next,
                _ => return Ok(Some(id)),
            }
            shared.learn(low, id);
        }
    }

    /// A leaf that was [found](Self::find).
    ///
    /// # Panics
    /// If it was not.
    pub(crate) fn leaf(&self, table: TableId, id: LeafId) -> &Leaf {
        self.read[&(table, id)].leaf.as_ref().expect("a leaf that was found is there")
    }

    fn leaf_to_change(&mut self, table: TableId, id: LeafId) -> &mut Leaf {
        let read = self.read.get_mut(&(table, id)).expect("a leaf that was found was read");
        read.has_changed = true;
        read.leaf.as_mut().expect("a leaf that was found is there")
    }

    /// A row with this key comes: the greatest version that a row had which was deleted before.
    ///
    /// # Errors
    /// A conflict, if there is one by now.
    pub(crate) fn insert(&mut self, table: TableId, key: &OrderedKey) -> Result<Version, TxError> {
        let id = self.find(table, key, Side::At)?;
        let (most, width) = (self.db.leaf_bytes, self.db.shared(table).width);
        let leaf = self.leaf_to_change(table, id);
        let newest_gone = leaf.newest_gone;
        if !leaf.insert(*key) {
            return Err(Conflict::Validation.into());
        }
        if leaf.is_longer(most, width) {
            let new = self.db.new_leaf();
            let right = self.leaf_to_change(table, id).split(new, key);
            let right = ReadLeaf { object: None, leaf: Some(right), has_changed: true };
            self.read.insert((table, new), right);
        }
        Ok(newest_gone)
    }

    /// The row with this key goes.
    ///
    /// # Errors
    /// A conflict, if there is none any more.
    pub(crate) fn remove(&mut self, table: TableId, key: &OrderedKey) -> Result<(), TxError> {
        let id = self.find(table, key, Side::At)?;
        if self.leaf_to_change(table, id).remove(key) {
            return Ok(());
        }
        Err(Conflict::Validation.into())
    }

    /// Removes leaves that have become empty, but for the first one of a table: the one before
    /// takes over what they are for.
    pub(crate) fn remove_empty(&mut self) -> Result<(), TxError> {
        let is_empty = |read: &ReadLeaf| {
            let emptied = read.leaf.as_ref().filter(|_| read.has_changed);
            emptied.filter(|leaf| leaf.keys.is_empty()).map(|leaf| leaf.low)
        };
        let lows = self.read.iter().filter_map(|(&(table, id), read)| {
            let low = is_empty(read).filter(|_| id != LeafId::FIRST)?;
            Some((table, low, id))
        });
        let mut empty: Vec<(TableId, OrderedKey, LeafId)> = lows.collect();
        // From the right, so that the one before is there in any case.
        empty.sort_unstable();
        for (table, low, id) in empty.into_iter().rev() {
            let before = self.find(table, &low, Side::Before)?;
            if self.leaf(table, before).right != Some((low, id)) {
                return Err(Conflict::Validation.into());
            }
            let read = self.read.get_mut(&(table, id)).expect("it was read");
            let gone = read.leaf.take().expect("it is there");
            self.leaf_to_change(table, before).absorb(&gone);
        }
        Ok(())
    }

    /// A row that was deleted had, in the end, this version. All leaves of the table that change
    /// know it then.
    pub(crate) fn note_gone(&mut self, table: TableId, version: Version) {
        let leaves = self.read.range_mut((table, LeafId::FIRST)..=(table, LeafId(u64::MAX)));
        let changed = leaves.filter(|(_, read)| read.has_changed);
        changed.filter_map(|(_, read)| read.leaf.as_mut()).for_each(|leaf| {
            leaf.newest_gone = leaf.newest_gone.max(version);
        });
    }

    /// The greatest version of rows that were deleted from what was read.
    pub(crate) fn newest_gone(&self) -> Version {
        let leaves = self.read.values().filter_map(|read| read.leaf.as_ref());
        leaves.map(|leaf| leaf.newest_gone).max().unwrap_or_default()
    }

    /// Adds what has been read, and what is to change.
    pub(crate) fn add_to(&self, reads: &mut Reads, writes: &mut Writes) {
        let keeps = self.db.memory().keeps(sites::READ_LEAVES);
        for (&(table, id), read) in &self.read {
            let name = names::of_leaf(table, id);
            if read.has_changed {
                let width = self.db.shared(table).width;
                let leaf = read.leaf.as_ref().map(|leaf| leaf.encode(width));
                writes.insert(name.clone(), leaf);
            }
            if read.has_changed || keeps {
                reads.insert(name, read.object);
            }
        }
    }

    /// The changes are made: this host knows of leaves that have come or gone.
    pub(crate) fn committed(&self) {
        for (&(table, id), read) in &self.read {
            match &read.leaf {
                Some(leaf) if read.object.is_none() => self.db.shared(table).learn(leaf.low, id),
                _ => {}
            }
        }
    }
}

fn damaged(table: TableId) -> TxError {
    TxError::Failed(format!("the index of table {table} is damaged; recover it from its logs"))
}
