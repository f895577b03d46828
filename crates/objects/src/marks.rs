//! Marks: a bit per coherence record, in SCR, of which the object that has the record disposes.
//!
//! A page cache marks the pages that it has not written to their file yet (section 5 of the paper).
//! Only a written object can be marked, and a written object has a record: so one bit per record
//! serves any number of objects.
//!
//! * A mark changes only under the lock of the record, or when the record is nobody's.
//! * A marked object keeps its record: whoever wants to take it back has the object *cleaned* first,
//!   by a [`Cleaner`], which takes the mark off. So a read-shared object is never marked.
//! * A record that changes hands is not marked.
//!
//! Left out: what a mark means.

use tombolo_memory::{FetchOp, Memory, ScrAddr};
use tombolo_pod::Pod;
use tombolo_sharing::Part;

use crate::event::KeyHash;
use crate::guards::WriteGuard;
use crate::index::Found;
use crate::lock::TryLock;
use crate::logged::Locks;
use crate::read::damaged_object;
use crate::records::Held;
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

/// The marks of a pod; none exist unless it was created with latches.
pub(crate) struct Marks<M> {
    memory: M,
    base: ScrAddr<u64>,
    words: u64,
    latches: (ScrAddr<u64>, u64),
}

impl<M: Memory> Marks<M> {
    pub(crate) fn new(pod: &Pod<M>) -> Self {
        let (areas, geometry) = (pod.areas(), pod.geometry());
        Self {
            memory: pod.memory().clone(),
            base: areas.marks,
            words: geometry.mark_words(),
            latches: (areas.latches, geometry.latches),
        }
    }

    pub(crate) fn exist(&self) -> bool {
        self.words > 0
    }

    pub(crate) fn is_set(&self, record: u32) -> bool {
        self.exist() && self.memory.load(self.word(record)) & bit(record) != 0
    }

    pub(crate) fn set(&self, record: u32) {
        assert!(self.exist(), "a pod without marks");
        if !self.is_set(record) {
            self.memory.fetch(sites::MARK_ALONE, self.word(record), FetchOp::Or, bit(record));
        }
    }

    pub(crate) fn clear(&self, record: u32) {
        if self.is_set(record) {
            self.memory.fetch(sites::MARK_ALONE, self.word(record), FetchOp::And, !bit(record));
        }
    }

    /// Nobody has the latches any more that `host` had, which is gone.
    pub(crate) fn free_latches_of(&self, host: u8) {
        let (latches, count) = self.latches;
        for latch in (0..count).map(|number| latches.element(number)) {
            if self.memory.load(latch) == u64::from(host) + 1
                && self.memory.keeps(sites::LATCH_FREE)
            {
                self.memory.store(latch, 0);
            }
        }
    }

    /// How many objects are marked.
    pub(crate) fn count(&self) -> u64 {
        self.marked().count() as u64
    }

    /// The pod is being opened, or closed: no mark means anything, and nobody holds a latch.
    pub(crate) fn reset(&self) {
        let (latches, count) = self.latches;
        (0..count).for_each(|latch| self.memory.store(latches.element(latch), 0));
        (0..self.words).for_each(|word| self.memory.store(self.base.element(word), 0));
    }

    /// The records that are marked.
    fn marked(&self) -> impl Iterator<Item = u32> {
        (0..self.words).flat_map(|word| {
            let mut bits = self.memory.load(self.base.element(word));
            std::iter::from_fn(move || {
                let lowest = bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
                (lowest < 64).then_some(64 * word as u32 + lowest)
            })
        })
    }

    fn word(&self, record: u32) -> ScrAddr<u64> {
        self.base.element(u64::from(record / 64))
    }
}

fn bit(record: u32) -> u64 {
    1 << (record % 64)
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

    /// How many objects are marked; a look at the marks alone.
    pub fn marked_count(&self) -> u64 {
        self.marks.count()
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

    /// Frees the record of an object that is no more, unmarked.
    pub(crate) fn free_unmarked(&self, held: Held) {
        let (records, marks) = (&self.records, &self.marks);
        let before = self.memory().keeps(sites::DELETE_MARK);
        if before {
            marks.clear(held.record);
        }
        records.free(held);
        if !before {
            marks.clear(held.record);
        }
    }
}
