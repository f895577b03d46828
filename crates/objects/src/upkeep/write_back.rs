//! Objects with dirty bits ([`dirty`](crate::storage::dirty)): how they are written back, and what
//! may be done with them.

use tombolo_memory::Memory;
use tombolo_sharing::Part;

use crate::host::Locks;
use crate::host::dirty::DirtyObjects;
use crate::host::lookup::{Attempt, Lookup};
use crate::ids::KeyHash;
use crate::read::damaged_object;
use crate::storage::index::Found;
use crate::storage::records::RecordId;
use crate::write::guard::WriteGuard;
use crate::{Error, Objects, sites};

/// Does what has to be done before a dirty object may lose its dirty bit, such as to write it to a
/// file.
pub trait WriteBack<M: Memory>: Send + Sync {
    /// Writes the object with `key` back, whose lock `guard` holds, and clears its dirty bit; or
    /// leaves both as they are. Nothing that waits for another object's lock may be done here: the
    /// caller may hold one.
    fn write_back(&self, key: &[u8], guard: WriteGuard<'_, M>);

    /// Whether nothing is lost with an object that is not dirty, as far as its key tells.
    fn can_be_reread(&self, key: &[u8]) -> bool;
}

impl<M: Memory> DirtyObjects<M> for Box<dyn WriteBack<M>> {
    fn write_back(&self, objects: &Objects<M>, key: &[u8], record: RecordId) -> Result<(), Error> {
        let dirty_bits = &objects.dirty_bits;
        let wanted = |found: Option<RecordId>| found == Some(record) && dirty_bits.is_set(record);
        if let Lookup::Found(guard) = objects.try_write_if(key, wanted)? {
            WriteBack::write_back(&**self, key, guard);
        }
        Ok(())
    }

    fn can_be_reread(&self, key: &[u8]) -> bool {
        WriteBack::can_be_reread(&**self, key)
    }
}

impl<M: Memory> Objects<M> {
    /// Sets what writes dirty objects back; the first call counts. Until then a dirty object
    /// keeps its record.
    pub fn set_write_back(&self, write_back: Box<dyn WriteBack<M>>) {
        let _ = self.dirty_objects.set(Box::new(write_back));
    }

    /// Whether the pod has dirty bits.
    pub fn has_dirty_bits(&self) -> bool {
        self.dirty_bits.exist()
    }

    /// Whether there are objects whose values are lost.
    ///
    /// # Errors
    /// [`Error::Stalled`], [`Error::Fenced`].
    pub fn has_lost(&self) -> Result<bool, Error> {
        self.sync_all()?;
        Ok(self.shards().iter().any(|shard| shard.state().lost() > 0))
    }

    /// Begins to write a dirty object; `None` if there is none with this key. It gets no record: it
    /// has one.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::Busy`], [`Error::Stalled`], [`Error::Fenced`].
    pub fn write_dirty(&self, key: &[u8]) -> Result<Option<WriteGuard<'_, M>>, Error> {
        self.repeat(|| self.try_lock_dirty(key))
    }

    /// The same, unless that takes waiting: then the outer `None`.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::Stalled`], [`Error::Fenced`].
    pub fn try_write_dirty(&self, key: &[u8]) -> Result<Option<Option<WriteGuard<'_, M>>>, Error> {
        Ok(match self.try_lock_dirty(key)? {
            Lookup::Found(guard) => Some(Some(guard)),
            Lookup::Absent => Some(None),
            Lookup::Retry => None,
        })
    }

    fn try_lock_dirty(&self, key: &[u8]) -> Result<Lookup<WriteGuard<'_, M>>, Error> {
        self.try_write_if(key, |record| record.is_some_and(|record| self.dirty_bits.is_set(record)))
    }

    /// Begins to write an existing object, unless that takes waiting, or a record: then `None`.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::Stalled`], [`Error::Fenced`].
    pub fn try_write_start(&self, key: &[u8]) -> Result<Option<WriteGuard<'_, M>>, Error> {
        let by_log = self.locks == Locks::Log;
        Ok(self.try_write_if(key, |record| record.is_some() || by_log)?.found())
    }

    /// Locks the object with `key` if its record is `wanted`, before and after.
    fn try_write_if(
        &self,
        key: &[u8],
        wanted: impl Fn(Option<RecordId>) -> bool,
    ) -> Result<Lookup<WriteGuard<'_, M>>, Error> {
        let locked = self.lookup(self.begin(key)?, |found, tail| {
            if wanted(found.entry.record()) {
                self.try_lock(found, tail, key)
            } else {
                Ok(Attempt::OtherKey)
            }
        })?;
        Ok(match locked {
            Lookup::Found(locked) if wanted(locked.record()) => {
                Lookup::Found(WriteGuard::new(locked))
            }
            Lookup::Found(_) | Lookup::Absent => Lookup::Absent,
            Lookup::Retry => Lookup::Retry,
        })
    }

    /// How many objects are dirty; a look at the dirty bits alone.
    pub fn dirty_count(&self) -> u64 {
        self.dirty_bits.count()
    }

    /// Shows the key of every dirty object to `visit`: those that were dirty before the call and
    /// still are, others perhaps.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Stalled`], [`Error::Fenced`], [`Error::Damaged`].
    pub fn visit_dirty(&self, visit: impl FnMut(&[u8])) -> Result<(), Error> {
        self.visit_records(self.dirty_bits.records(), visit)
    }

    /// The same for those with this tag; of others it costs a look at bit and tag.
    ///
    /// # Errors
    /// Those of [`visit_dirty`](Self::visit_dirty).
    pub fn visit_tagged(&self, tag: u8, visit: impl FnMut(&[u8])) -> Result<(), Error> {
        self.visit_records(self.dirty_bits.tagged(tag), visit)
    }

    fn visit_records(
        &self,
        records: impl Iterator<Item = RecordId>,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        for record in records {
            let key = self.repeat(|| {
                self.sync_all()?;
                self.owner(record).map_or(Ok(Lookup::Absent), |hash| self.key_of(record, hash))
            })?;
            if let Some(key) = key {
                visit(&key);
            }
        }
        Ok(())
    }

    /// Deletes an object unless it is dirty, or its value is lost; whether it did.
    ///
    /// # Errors
    /// Those of [`delete`](Self::delete).
    pub fn delete_unless_dirty(&self, key: &[u8]) -> Result<bool, Error> {
        self.delete_if(key, None, true)
    }

    /// The key of the object with `hash` that has `record`, if that can be told.
    fn key_of(&self, record: RecordId, hash: KeyHash) -> Result<Lookup<Vec<u8>>, Error> {
        let tail = self.sync(hash)?;
        let found = self.state(hash).index.find(self.memory(), hash);
        let owner = |found: &&Found<'_>| found.entry.record() == Some(record);
        let Some(found) = found.iter().find(owner) else { return Ok(Lookup::Absent) };
        let Some(snapshot) = self.start(found, tail, Part::Nothing) else {
            return Ok(Lookup::Retry);
        };
        let key = self.read_key(&snapshot);
        if !snapshot.still_holds(self)? {
            return Ok(Lookup::Retry);
        }
        if self.is_key_poisoned(&snapshot.extent) {
            return Ok(Lookup::Absent);
        }
        snapshot.rely_on(self.memory());
        key.map(Lookup::Found).ok_or_else(|| damaged_object(&snapshot))
    }

    /// Has the object with `hash` written back, which has `record`, if it is dirty; whether it may
    /// be taken from it now. Waits for nobody.
    pub(crate) fn write_back_before_reclaim(
        &self,
        record: RecordId,
        hash: KeyHash,
    ) -> Result<bool, Error> {
        let dirty_bits = &self.dirty_bits;
        if !dirty_bits.is_set(record) || !self.memory().keeps(sites::RECLAIM_CLEAN) {
            return Ok(true);
        }
        let Some(dirty) = self.dirty_objects.get() else { return Ok(false) };
        let Lookup::Found(key) = self.key_of(record, hash)? else { return Ok(false) };
        dirty.write_back(self, &key, record)?;
        Ok(!dirty_bits.is_set(record))
    }
}
