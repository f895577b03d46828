//! Rows at their home, in the host's own memory.
//!
//! A row that is deleted, or not inserted yet, is a *ghost*: its place is kept. A row's gap
//! is the keys between the row before it and itself. Behind the last row is the end of the
//! partition, a ghost that stays.

use std::collections::VecDeque;
use std::sync::Arc;

use tombolo_database::{LocalRows, Locks, OrderedKey, OrderedMap, Version};
use tombolo_memory::{HostMutex, Memory};

/// Rows that are looked at before others get at the partition again.
const AT_ONCE: usize = 64;

/// When a row was written, and until when what it is can be read: logical times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) wts: u64,
    pub(crate) rts: u64,
}

impl Lease {
    /// A row that is written at `at`.
    pub(crate) fn written(at: u64) -> Self {
        Self { wts: at, rts: at }
    }

    fn join(self, other: Self) -> Self {
        Self { wts: self.wts.max(other.wts), rts: self.rts.max(other.rts) }
    }
}

/// A row.
pub(crate) struct Row<M: Memory> {
    /// Locked for a moment, and only one row at a time.
    pub(crate) content: HostMutex<M, Content>,
}

/// The state of a row, and of the gap before it.
#[derive(Default)]
pub(crate) struct Content {
    pub(crate) locks: Locks,
    pub(crate) is_valid: bool,
    /// Whether it is no part of its partition any more.
    pub(crate) is_removed: bool,
    pub(crate) version: Version,
    pub(crate) lease: Lease,
    /// When a row was last deleted from the gap, and until when the gap is leased.
    pub(crate) gap: Lease,
    pub(crate) bytes: Box<[u8]>,
}

impl<M: Memory> Row<M> {
    pub(crate) fn new(content: Content) -> Arc<Self> {
        Arc::new(Self { content: HostMutex::<M, _>::new(content) })
    }

    /// The row as the last transaction that changed it has left it; `None` if there is none.
    pub(crate) fn committed(&self) -> Option<(Version, Box<[u8]>)> {
        let content = self.content.lock();
        let is_there = content.is_valid && !content.is_removed;
        is_there.then(|| (content.version, content.bytes.clone()))
    }
}

/// The rows of a table that are at home together.
pub(crate) struct Partition<M: Memory> {
    pub(crate) local: LocalRows,
    pub(crate) rows: HostMutex<M, Rows<M>>,
}

/// A row and its key.
pub(crate) type Entry<M> = (OrderedKey, Arc<Row<M>>);

pub(crate) struct Rows<M: Memory> {
    pub(crate) tree: OrderedMap<Arc<Row<M>>>,
    /// Rows that are to be removed, if they are still ghosts.
    ghosts: VecDeque<Entry<M>>,
}

impl<M: Memory> Rows<M> {
    /// The row behind `key`, or at it: it may be the end of the partition.
    pub(crate) fn next(&self, key: &OrderedKey, or_equal: bool) -> Entry<M> {
        let (key, row) = self.tree.after(key, or_equal).expect("a partition has an end");
        (key, Arc::clone(row))
    }

    /// Adds a ghost, which is looked at again later.
    pub(crate) fn add_ghost(&mut self, key: &OrderedKey, row: &Arc<Row<M>>) {
        self.tree.insert(key, Arc::clone(row));
        self.ghosts.push_back((*key, Arc::clone(row)));
    }
}

impl<M: Memory> Partition<M> {
    /// A partition whose keys take `width` words, with a name that no other of the host has.
    pub(crate) fn new(width: usize, name: u64) -> Self {
        let mut tree = OrderedMap::new(width);
        tree.insert(&OrderedKey::END, Row::new(Content::default()));
        let rows = Rows { tree, ghosts: VecDeque::new() };
        Self { local: LocalRows::new(name), rows: HostMutex::<M, _>::new(rows) }
    }

    /// The next rows, its end included.
    pub(crate) fn page(&self, after: Option<&OrderedKey>) -> Vec<Entry<M>> {
        self.rows.lock().tree.page(after, AT_ONCE)
    }

    /// A row that was deleted is looked at later.
    pub(crate) fn note_ghost(&self, key: &OrderedKey, row: &Arc<Row<M>>) {
        self.rows.lock().ghosts.push_back((*key, Arc::clone(row)));
    }

    /// Removes up to `most` ghosts that were deleted before `epoch`; whether there may be more.
    pub(crate) fn sweep(&self, epoch: u64, most: usize) -> bool {
        let Some(mut rows) = self.rows.try_lock() else { return true };
        for _ in 0..most.min(rows.ghosts.len()) {
            let Some((key, row)) = rows.ghosts.pop_front() else { break };
            if !remove_ghost(&mut rows, &key, &row, epoch) {
                rows.ghosts.push_back((key, row));
            }
        }
        !rows.ghosts.is_empty()
    }
}

/// Removes a row if it is a ghost that no transaction has locked; whether there is nothing more to
/// do.
fn remove_ghost<M: Memory>(rows: &mut Rows<M>, key: &OrderedKey, row: &Row<M>, epoch: u64) -> bool {
    let mut content = row.content.lock();
    if content.is_removed || content.is_valid {
        return true;
    }
    // The next row with this key must have a greater version.
    if !content.locks.is_free() || content.version.epoch() >= epoch {
        return false;
    }
    content.is_removed = true;
    let gap = content.gap.join(content.lease);
    drop(content);
    rows.tree.remove(key);
    // The gap before it and the one behind it are one now.
    let (_, next) = rows.next(key, false);
    let mut next = next.content.lock();
    next.gap = next.gap.join(gap);
    true
}

#[cfg(test)]
mod tests {
    use tombolo_memory::Mapped;

    use super::*;

    fn ghost(version: Version) -> (Partition<Mapped>, OrderedKey, Arc<Row<Mapped>>) {
        let (partition, key) = (Partition::<Mapped>::new(1, 1), OrderedKey::new(b"key", 1));
        let lease = Lease { wts: 3, rts: 5 };
        let row = Row::new(Content { version, lease, ..Content::default() });
        partition.rows.lock().add_ghost(&key, &row);
        (partition, key, row)
    }

    #[test]
    fn a_ghost_stays_as_long_as_its_epoch() {
        let (partition, key, _) = ghost(Version::first(7));
        assert!(partition.sweep(7, 8));
        assert!(partition.rows.lock().tree.get(&key).is_some());
        assert!(!partition.sweep(8, 8));
        assert!(partition.rows.lock().tree.get(&key).is_none());
    }

    #[test]
    fn the_gap_behind_a_removed_ghost_has_its_lease() {
        let (partition, key, row) = ghost(Version::first(7));
        row.content.lock().locks.writer = true;
        assert!(partition.sweep(8, 8), "it is locked");
        row.content.lock().locks.writer = false;
        assert!(!partition.sweep(8, 8));
        let (_, end) = partition.rows.lock().next(&key, true);
        assert_eq!(end.content.lock().gap, Lease { wts: 3, rts: 5 });
        assert!(row.content.lock().is_removed);
    }
}
