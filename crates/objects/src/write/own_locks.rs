//! The locks that one thread holds at once.

use std::collections::BTreeSet;

use tombolo_memory::Memory;

use crate::ids::KeyHash;
use crate::sites;
use crate::storage::index::Entry;
use crate::storage::records::RecordId;
use crate::write::lock::Locked;

/// The objects that a transaction has locked, by hash and record.
///
/// A lookup settles equal hashes by comparing keys. The key of an object that is locked cannot be
/// read, so a lookup waits until it is not. A lookup of the thread that has it locked would wait
/// for good.
#[derive(Default)]
pub(crate) struct OwnLocks(BTreeSet<(KeyHash, RecordId)>);

impl OwnLocks {
    pub(crate) fn add<M: Memory>(&mut self, locked: &Locked<'_, M>) {
        let keeps = locked.objects().memory().keeps(sites::TRANSACTION_OWN);
        let record = locked.record().filter(|_| keeps);
        self.0.extend(record.map(|record| (locked.entry.hash, record)));
    }

    /// Whether this is an object that the transaction has locked. It has another key than any that
    /// is looked for.
    pub(crate) fn has(&self, entry: &Entry) -> bool {
        entry.record().is_some_and(|record| self.0.contains(&(entry.hash, record)))
    }
}
