//! A host's table of the objects that it owns: all of them, and where each one is.

use hashbrown::HashTable;
use smallvec::SmallVec;
use tombolo_memory::{HostMutex, Memory};
use tombolo_sharing::Version;

use super::body::Body;
use super::table::EntryNumber;
use super::value::Value;

/// A key; one of usual length costs no look elsewhere.
pub(crate) type Key = SmallVec<[u8; 32]>;

/// An object.
pub(crate) struct Owned {
    pub(crate) hash: u64,
    pub(crate) key: Key,
    pub(crate) place: Place,
}

/// Where an object is, and who may use it.
pub(crate) enum Place {
    /// In LNR, but only its owner knows.
    Private(Private),
    /// In its owner's own memory.
    Local { value: Value, version: Version },
    /// In LNR, for all: this is its entry.
    Shared(EntryNumber),
    /// It has no entry, and one of its owner's threads holds it.
    Lent,
}

/// An object in LNR that only its owner knows of.
#[derive(Clone, Copy)]
pub(crate) struct Private {
    pub(crate) line: u64,
    /// The owner's caches hold no stale line of it.
    pub(crate) fresh: bool,
    /// The owner's caches hold what memory does not; so many bytes of it count.
    pub(crate) dirty: Option<u64>,
}

impl Private {
    /// The same, after its owner was at it.
    pub(crate) fn after<M: Memory>(self, body: &Body<'_, M>) -> Self {
        let written = (!body.dirty.is_empty()).then(|| body.header.total_bytes());
        Self { line: body.lines.first(), fresh: body.fresh, dirty: written.or(self.dirty) }
    }
}

/// Some of the objects.
#[derive(Default)]
pub(crate) struct Shard {
    objects: HashTable<Owned>,
}

impl Shard {
    pub(crate) fn find(&mut self, hash: u64, key: &[u8]) -> Option<&mut Owned> {
        self.objects.find_mut(hash, |owned| *owned.key == *key)
    }

    /// The object that has an entry.
    pub(crate) fn with_entry(&mut self, hash: u64, entry: EntryNumber) -> Option<&mut Owned> {
        self.objects.find_mut(hash, |owned| matches!(owned.place, Place::Shared(e) if e == entry))
    }

    pub(crate) fn insert(&mut self, owned: Owned) {
        self.objects.insert_unique(owned.hash, owned, |owned| owned.hash);
    }

    pub(crate) fn remove(&mut self, hash: u64, key: &[u8]) {
        if let Ok(found) = self.objects.find_entry(hash, |owned| *owned.key == *key) {
            found.remove();
        }
    }

    pub(crate) fn objects(&mut self) -> impl Iterator<Item = &mut Owned> {
        self.objects.iter_mut()
    }
}

/// Which objects have the entries of this host.
pub(crate) struct Sharing {
    /// The hash of each entry's object.
    pub(crate) hashes: Vec<Option<u64>>,
    /// The record of each entry when its object got it.
    pub(crate) first_records: Vec<u32>,
    /// Where in each set the clock stands.
    pub(crate) hands: Vec<u8>,
}

/// A thread locks one shard, then perhaps `sharing`, and then, if it is free, another shard.
pub(crate) struct Partition<M: Memory> {
    shards: Box<[HostMutex<M, Shard>]>,
    pub(crate) sharing: HostMutex<M, Sharing>,
}

impl<M: Memory> Partition<M> {
    pub(crate) fn new(shards: usize, entries: u64, ways: u64) -> Self {
        let sharing = Sharing {
            hashes: vec![None; entries as usize],
            first_records: vec![0; entries as usize],
            hands: vec![0; (entries / ways) as usize],
        };
        Self {
            shards: (0..shards).map(|_| HostMutex::<M, _>::new(Shard::default())).collect(),
            sharing: HostMutex::<M, _>::new(sharing),
        }
    }

    pub(crate) fn shards(&self) -> &[HostMutex<M, Shard>] {
        &self.shards
    }

    /// Which shard an object with this hash is in.
    pub(crate) fn shard_of(&self, hash: u64) -> usize {
        (hash >> 40) as usize % self.shards.len()
    }

    pub(crate) fn shard(&self, hash: u64) -> &HostMutex<M, Shard> {
        &self.shards[self.shard_of(hash)]
    }
}
