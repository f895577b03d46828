//! Dirty bits: one per coherence record, in SCR, of which the object that has the record disposes.
//!
//! A page cache sets those of the pages that it has not written to their file yet (section 5 of the
//! paper). Only a written object can be dirty, and a written object has a record: so one bit per
//! record serves any number of objects.
//!
//! * A dirty bit changes only under the lock of the record, or when the record is nobody's.
//! * A dirty object keeps its record: a host that wants to take it back has the object *written
//!   back* first, by a [`WriteBack`](crate::WriteBack), which clears the bit. So a read-shared
//!   object is never dirty.
//! * A record that changes hands is not dirty.
//!
//! Beside each bit is a *tag*, a byte that the user of this crate chooses by the object's key. A
//! look for dirty objects of some kind passes over bits whose tags are others. A dirty object's tag
//! is right: it is stored under the record's lock, before the bit is set.
//!
//! Left out: what a dirty bit means.

use tombolo_memory::{FetchOp, Memory, ScrAddr};
use tombolo_sharing::ObjectArea;

use crate::sites;
use crate::storage::records::RecordId;

/// The dirty bits of a pod; none exist unless it was created with latches.
pub(crate) struct DirtyBits<M> {
    memory: M,
    base: ScrAddr<u64>,
    words: u64,
    tags: ScrAddr<u8>,
    latches: (ScrAddr<u64>, u64),
}

impl<M: Memory> DirtyBits<M> {
    pub(crate) fn new(area: &ObjectArea<M>) -> Self {
        let (areas, geometry) = (area.areas(), area.geometry());
        Self {
            memory: area.memory().clone(),
            base: areas.marks,
            words: geometry.mark_words(),
            tags: areas.tags,
            latches: (areas.latches, geometry.latches),
        }
    }

    pub(crate) fn exist(&self) -> bool {
        self.words > 0
    }

    pub(crate) fn is_set(&self, record: RecordId) -> bool {
        self.exist() && self.memory.load(self.word(record)) & bit(record) != 0
    }

    pub(crate) fn set(&self, record: RecordId, tag: u8) {
        assert!(self.exist(), "a pod without dirty bits");
        if !self.is_set(record) {
            if self.memory.keeps(sites::MARK_TAG) {
                self.memory.store(self.tag(record), tag);
            }
            self.memory.fetch(sites::MARK_ALONE, self.word(record), FetchOp::Or, bit(record));
        }
    }

    /// Sets the bit of a record that the same object is to have from now on, if the other is set.
    pub(crate) fn hand_on(&self, from: RecordId, to: RecordId) {
        if self.is_set(from) {
            self.set(to, self.memory.load(self.tag(from)));
        }
    }

    pub(crate) fn clear(&self, record: RecordId) {
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

    /// How many objects are dirty.
    pub(crate) fn count(&self) -> u64 {
        self.records().count() as u64
    }

    /// The pod is being opened, or closed: no dirty bit means anything, and nobody holds a latch.
    pub(crate) fn reset(&self) {
        let (latches, count) = self.latches;
        (0..count).for_each(|latch| self.memory.store(latches.element(latch), 0));
        (0..self.words).for_each(|word| self.memory.store(self.base.element(word), 0));
    }

    /// The records that are dirty.
    pub(crate) fn records(&self) -> impl Iterator<Item = RecordId> {
        (0..self.words).flat_map(|word| {
            let mut bits = self.memory.load(self.base.element(word));
            std::iter::from_fn(move || {
                let lowest = bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
                (lowest < 64).then_some(RecordId(64 * word as u32 + lowest))
            })
        })
    }

    /// The records that are dirty and have this tag.
    pub(crate) fn tagged(&self, tag: u8) -> impl Iterator<Item = RecordId> {
        self.records().filter(move |&record| self.memory.load(self.tag(record)) == tag)
    }

    fn tag(&self, record: RecordId) -> ScrAddr<u8> {
        self.tags.element(record.0.into())
    }

    fn word(&self, record: RecordId) -> ScrAddr<u64> {
        self.base.element(u64::from(record.0 / 64))
    }
}

fn bit(record: RecordId) -> u64 {
    1 << (record.0 % 64)
}
