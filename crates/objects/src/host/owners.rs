//! Whose a record is, where a host does not know by heart: it looks through its index, where those
//! who may have a record are close together.

use tombolo_memory::Memory;

use crate::Objects;
use crate::ids::KeyHash;
use crate::ids::shard_of;
use crate::storage::index::Entry;
use crate::storage::records::RecordId;

impl<M: Memory> Objects<M> {
    /// The hash of the object that has `record`, if this replica knows of one.
    pub(crate) fn owner(&self, record: RecordId) -> Option<KeyHash> {
        self.records.owner(record).unwrap_or_else(|| {
            let (low_bits, bits) = self.records.sets().hashes(record);
            let is_it = |entry: Entry| entry.record() == Some(record);
            self.like(low_bits, bits, |entry| is_it(entry).then_some(entry.hash)).next()
        })
    }

    /// Used records that the object with this hash may have, and whose they are; the best to take
    /// back first. Where this host knows by heart, some of them, and others the next time; else all
    /// that are in use of one of its sets, at least.
    pub(crate) fn victims(&self, hash: KeyHash) -> impl Iterator<Item = (RecordId, KeyHash)> {
        let sets = self.records.sets();
        let known = self.records.victims(hash);
        let victim = move |entry: Entry| {
            let record = entry.record().filter(|&record| sets.may_have(hash, record))?;
            Some((record, entry.hash))
        };
        let others = known.is_none().then(|| self.like(hash, sets.bits(), victim));
        known.into_iter().flatten().chain(others.into_iter().flatten())
    }

    /// The results of `tell` for objects whose hashes end with the same `bits` as this one,
    /// beginning with those in the same shard.
    fn like<T: Copy>(
        &self,
        hash: KeyHash,
        bits: u32,
        tell: impl Fn(Entry) -> Option<T> + Copy,
    ) -> impl Iterator<Item = T> {
        let shards = self.shards();
        let (others, first) = shards.split_at(shard_of(hash, shards.len()));
        let shards = first.iter().chain(others);
        shards.flat_map(move |shard| shard.state().index.like(self.memory(), hash, bits, tell))
    }
}
