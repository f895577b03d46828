//! Objects in memory that cannot be read any more.
//!
//! A host that meets a memory error in an object loses it *for all*, by the event by which values are lost with hosts: what it has
//! written there since may be nobody's but its own, so who else reads the same bytes could find them torn. From then on it is as with other
//! losses: reads say so, writing the whole value anew or deleting the object ends it. The chunk is marked, and gets no new objects
//! ([`space`](crate::space)).
//!
//! * Who reads asks for errors *after* the copy, and looks at the object again then, as always: what was read while the object changed says nothing of it.
//! * Who writes asks when its lines are cleaned, before it releases the lock.
//! * Who puts an object into a free slot asks when it has written it, and takes another slot then.
//! * A key that cannot be read may be any: the object is taken for the one that is looked for. It is lost, whosever it was.
//!
//! Left out: the log, tables, and mail. A host that meets an error there ends.

use tombolo_memory::{LINE_BYTES, Lines, Memory};
use tombolo_pod::Pod;
use tombolo_sharing::{Counter, PREFIX_BYTES};

use crate::event::{Event, KeyHash, SlotLine};
use crate::extent::Extent;
use crate::lock::target;
use crate::logged::BY_LOG;
use crate::read::Started;
use crate::{Error, Objects, sites};

/// Stands, where else the host does with which a value is lost, for a memory error.
pub(crate) const BY_POISON: u8 = u8::MAX;

/// What reading a value comes to that is lost with `host`.
pub(crate) fn loss(host: u8) -> Error {
    if host == BY_POISON { Error::Poisoned } else { Error::Lost { host } }
}

/// From here on this host goes on after errors in memory that objects lie in, or what has a checksum: the windows by which replicas are
/// handed over, and what writes have noted to be undone.
pub(crate) fn survive<M: Memory>(pod: &Pod<M>) {
    let (windows, geometry) = (pod.areas().windows, pod.geometry());
    let end = pod.areas().chunks.offset() + geometry.chunks * geometry.chunk_bytes;
    pod.memory().survives_poison(Lines::new(windows.line(), end / LINE_BYTES - windows.line()));
}

impl<M: Memory> Objects<M> {
    /// Whether this host has met an error where an object lies.
    #[inline]
    pub(crate) fn is_poisoned(&self, extent: &Extent) -> bool {
        extent.is_poisoned(self.memory(), u64::MAX)
    }

    /// Whether what was read of an object was what memory holds.
    #[inline(always)]
    pub(crate) fn has_read_all(&self, started: &Started) -> bool {
        self.memory().check(sites::POISON_READ, !self.is_poisoned(&started.extent))
    }

    /// Whether an object's key cannot be told.
    pub(crate) fn is_key_poisoned(&self, extent: &Extent) -> bool {
        extent.is_poisoned(self.memory(), PREFIX_BYTES as u64)
    }

    /// This host has met an error in the slot of an object: its value is lost for all, and whether that is so now. If not, somebody
    /// changes the object, or it has changed.
    #[cold]
    pub(crate) fn lose_poisoned(&self, hash: KeyHash, slot: SlotLine) -> Result<bool, Error> {
        let state = self.state(hash);
        let Some(found) = state.index.find_slot(self.memory(), hash, slot) else {
            return Ok(false);
        };
        let entry = found.entry;
        if !entry.is_in_its_slot() || entry.record() == Some(BY_LOG) {
            return Ok(false);
        }
        state.space.extent_at(slot).iter().for_each(|extent| state.space.set_poisoned(extent));
        let held = match entry.record() {
            None => None,
            Some(record) => {
                let counter = self.records.load(record).readable();
                let held = counter.and_then(|counter| self.records.lock(record, counter));
                if held.is_none() {
                    return Ok(false);
                }
                held
            }
        };
        let lost = self.sync(hash).and_then(|_| match self.entry_stands(entry) {
            true => self.commit(Event::Lose { target: target(entry), host: BY_POISON }),
            false => Ok(false),
        });
        if matches!(lost, Ok(true)) {
            self.count(Counter::Poisoned);
            held.into_iter().for_each(|held| self.free_unmarked(held));
        } else if let Some(held) = held {
            let _ = self.records.unlock(held, false);
        }
        lost
    }
}
