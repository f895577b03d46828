//! Objects with marks ([`dirty`](crate::storage::dirty)): who writes them back, and what may be done with them.

use tombolo_memory::Memory;
use tombolo_sharing::Part;

use crate::host::Locks;
use crate::ids::KeyHash;
use crate::read::damaged_object;
use crate::storage::index::Found;
use crate::write::guard::WriteGuard;
use crate::write::lock::TryLock;
use crate::{Error, Objects, sites};

/// Does what has to be done before a marked object may lose its mark, such as to write it to a file.
pub trait Cleaner<M: Memory>: Send + Sync {
    /// Cleans the object with `key`, whose lock `guard` holds, and takes its mark off; or leaves both as
    /// they are. Nothing that waits for another object's lock may be done here: the caller may hold
    /// one.
    fn clean(&self, key: &[u8], guard: WriteGuard<'_, M>);

    /// Whether nothing is lost with an object that is not marked, as far as its key tells.
    fn can_be_had_anew(&self, key: &[u8]) -> bool;
}

impl<M: Memory> Objects<M> {
    /// Says who cleans marked objects; the first one who says so counts. Until then a marked object
    /// keeps its record.
    pub fn set_cleaner(&self, cleaner: Box<dyn Cleaner<M>>) {
        let _ = self.cleaner.set(cleaner);
    }

    /// Whether the pod has marks.
    pub fn has_marks(&self) -> bool {
        self.marks.exist()
    }

    /// Whether there are objects whose values are lost.
    ///
    /// # Errors
    /// [`Error::Log`].
    pub fn has_lost(&self) -> Result<bool, Error> {
        self.sync_all()?;
        Ok(self.shards().iter().any(|shard| shard.state().lost() > 0))
    }

    /// Begins to write a marked object; `None` if there is none with this key. It gets no record: it has
    /// one.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::Busy`], [`Error::Log`].
    pub fn write_marked(&self, key: &[u8]) -> Result<Option<WriteGuard<'_, M>>, Error> {
        self.persist(|| self.try_write_marked(key))
    }

    /// The same, unless that takes waiting: then the outer `None`.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::Log`].
    pub fn try_write_marked(&self, key: &[u8]) -> Result<Option<Option<WriteGuard<'_, M>>>, Error> {
        self.try_write_if(key, |record| record.is_some_and(|record| self.marks.is_set(record)))
    }

    /// Begins to write an existing object, unless that takes waiting, or a record: then `None`.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::Log`].
    pub fn try_write_start(&self, key: &[u8]) -> Result<Option<WriteGuard<'_, M>>, Error> {
        let by_log = self.locks == Locks::Log;
        Ok(self.try_write_if(key, |record| record.is_some() || by_log)?.flatten())
    }

    /// Locks the object with `key` if its record is `wanted`, before and after; the outer `None` if
    /// somebody is in the way.
    fn try_write_if(
        &self,
        key: &[u8],
        wanted: impl Fn(Option<u32>) -> bool,
    ) -> Result<Option<Option<WriteGuard<'_, M>>>, Error> {
        let hash = self.begin(key)?;
        let tail = self.sync(hash)?;
        for found in self.state(hash).index.find(self.memory(), hash) {
            if !wanted(found.entry.record()) {
                continue;
            }
            match self.try_lock(&found, tail, key)? {
                TryLock::Locked(writer) => {
                    let wanted = wanted(writer.record());
                    return Ok(Some(wanted.then(|| WriteGuard::new(writer))));
                }
                TryLock::OtherKey => {}
                TryLock::Busy => return Ok(None),
            }
        }
        Ok(Some(None))
    }

    /// Shows the key of every marked object to `visit`: those that were marked before the call and still
    /// are, others perhaps.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Log`], [`Error::Damaged`].
    pub fn marked(&self, mut visit: impl FnMut(&[u8])) -> Result<(), Error> {
        for record in self.marks.marked() {
            let key = self.persist(|| {
                self.sync_all()?;
                match self.owner(record) {
                    Some(hash) => self.key_of(record, hash),
                    None => Ok(Some(None)),
                }
            })?;
            if let Some(key) = key {
                visit(&key);
            }
        }
        Ok(())
    }

    /// Deletes an object unless it is marked, or its value is lost; whether it did.
    ///
    /// # Errors
    /// Those of [`delete`](Self::delete).
    pub fn delete_unmarked(&self, key: &[u8]) -> Result<bool, Error> {
        self.delete_if(key, None, true)
    }

    /// The key of the object with `hash` that has `record`; the outer `None` if it is being changed.
    fn key_of(&self, record: u32, hash: KeyHash) -> Result<Option<Option<Vec<u8>>>, Error> {
        let tail = self.sync(hash)?;
        let found = self.state(hash).index.find(self.memory(), hash);
        let owner = |found: &&Found<'_>| found.entry.record() == Some(record);
        let Some(found) = found.iter().find(owner) else { return Ok(Some(None)) };
        let Some(started) = self.start(found, tail, Part::Nothing) else { return Ok(None) };
        let key = self.read_key(&started);
        if !started.still_holds(self)? {
            return Ok(None);
        }
        if self.is_key_poisoned(&started.extent) {
            return Ok(Some(None));
        }
        started.rely_on(self.memory());
        key.map(|key| Some(Some(key))).ok_or_else(|| damaged_object(&started))
    }

    /// Has the object with `hash` cleaned, which has `record`, if it is marked; whether it may be taken
    /// from it now. Waits for nobody.
    pub(crate) fn clean_before_reclaim(&self, record: u32, hash: KeyHash) -> Result<bool, Error> {
        let marks = &self.marks;
        if !marks.is_set(record) || !self.memory().keeps(sites::RECLAIM_CLEAN) {
            return Ok(true);
        }
        let Some(cleaner) = self.cleaner.get() else { return Ok(false) };
        let Some(Some(key)) = self.key_of(record, hash)? else { return Ok(false) };
        let wanted = |found: Option<u32>| found == Some(record) && marks.is_set(record);
        if let Some(Some(guard)) = self.try_write_if(&key, wanted)? {
            cleaner.clean(&key, guard);
        }
        Ok(!marks.is_set(record))
    }
}
