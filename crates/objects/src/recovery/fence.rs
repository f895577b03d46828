//! Going on without hosts that have died, or are taken for dead.
//!
//! A host that notices that another one's process has ended, or waits for one that gives no sign of
//! life, *fences* it: its seat is taken, and a fence in each shard of the log makes void what it
//! orders from there on. It may be alive all the same.
//!
//! * **Its locks.** Records say whose they are while they are locked. A lock is taken over by
//!   compare-and-swap, so a host that wakes up fails to release it, and reports that its write may
//!   not have been done. If the host had not begun to change the object
//!   ([`intents`](crate::storage::intents)), the object is whole. If it had, the object has its old
//!   value, or is lost, as the pod was created.
//! * **Slots it may still write into.** As long as the host is not known to be gone, an object that
//!   it had locked goes on in another slot, and the old one is in quarantine: nobody's.
//! * **Its own memory.** Objects in there are lost, unless the pod was created to have them in
//!   their slots, too ([`partition`](super::partition)).
//! * **When it is gone**, one of the others [clears up](crate::recovery::clear): what else it had
//!   locked or claimed, chunks of LNR, slots in quarantine. Then its seat is free.
//!
//! All of this is done by one host at a time for each that is fenced
//! ([`Area::begin_cleanup`](tombolo_pod::Area::begin_cleanup)), and each step of it can be done
//! again by another, if that one dies, too.
//!
//! In a pod with dirty bits, a lock is taken over only from a host that is gone: a host that has a
//! dirty object locked may be writing it to a file, and clears its dirty bit, which nothing can
//! stop. An object that is torn there and not dirty can be read again, if the
//! [`WriteBack`](crate::WriteBack) says so. Then it is gone, not lost.
//!
//! Left out: locks by the log. There a dead host stays in the way.

use tombolo_memory::Memory;
use tombolo_pod::Stay;

use crate::error::of_log;
use crate::host::Locks;
use crate::host::cleanups::Cleanup;
use crate::recovery::absent::{Dead, Fenced};
use crate::replica::Shard;
use crate::storage::index::Entry;
use crate::storage::records::RecordId;
use crate::{Error, Objects};

/// The record or object that somebody needs, and that a fenced host had locked, or in its own
/// memory. That host may still be at something.
#[derive(Clone, Copy)]
enum Need {
    Nothing,
    Record(RecordId),
    AnyRecord,
    Entry(Entry),
}

impl<M: Memory> Objects<M> {
    /// A host that was fenced has the object with this entry locked, or in its own memory: goes on
    /// without it.
    pub(crate) fn recover_object(&self, stay: Stay, entry: Entry) -> Result<(), Error> {
        self.recover(stay, entry.record().map_or(Need::Entry(entry), Need::Record))
    }

    /// No record is free: takes those over that fenced hosts have locked.
    pub(crate) fn take_records_over(&self) -> Result<(), Error> {
        for host in self.area().membership().fenced() {
            self.recover(self.area().stay_of(host), Need::AnyRecord)?;
        }
        Ok(())
    }

    /// Goes on without hosts that have died.
    pub(crate) fn recover_all(&self) -> Result<(), Error> {
        self.area().fence_ended();
        for host in self.area().membership().fenced() {
            self.recover(self.area().stay_of(host), Need::Nothing)?;
        }
        Ok(())
    }

    /// The stay that was fenced last, as far as the log is applied here, or those who came from it
    /// say.
    pub fn last_fenced(&self) -> Option<Stay> {
        self.shards()[0].paused(|_, fences, _, _| fences.stays().last())
    }

    /// Whether a stay was fenced, as far as the log is applied here. Of a host's stays the one that
    /// was fenced last is known.
    pub fn was_fenced(&self, stay: Stay) -> bool {
        self.shards()[0].paused(|_, fences, _, _| fences.stays().any(|fenced| fenced == stay))
    }

    /// The clean-ups after other hosts that this host has completed since the last call.
    pub fn take_cleanups(&self) -> Vec<Cleanup> {
        self.upkeep.cleanups.take()
    }

    /// Takes a host out of the pod that is dead or taken for dead; the others go on without it.
    /// Its process may still run. Whether it was in the pod.
    ///
    /// # Errors
    /// [`Error::Stalled`], [`Error::Fenced`].
    pub fn fence(&self, host: u8) -> Result<bool, Error> {
        let stay = self.area().stay_of(host);
        let fenced = self.area().fence(stay);
        self.recover(stay, Need::Nothing)?;
        Ok(fenced)
    }

    /// Whether nothing that a stay does to objects counts any more, and all that counts can be
    /// read: it has left, or was cleaned up after, or fences are in the whole log.
    pub fn is_out(&self, stay: Stay) -> bool {
        if self.area().is_member(stay) {
            return false;
        }
        let fenced = |shard: &Shard<M>| {
            shard.paused(|_, fences, _, _| fences.stays().any(|fenced| fenced == stay))
        };
        !self.area().is_fenced(stay) || self.shards().iter().all(fenced)
    }

    /// Does what can be done about a fenced host, unless another thread or host is at it:
    /// everything if it is gone, and else what there is `need` for.
    fn recover(&self, stay: Stay, need: Need) -> Result<(), Error> {
        if self.locks == Locks::Log || !self.area().is_fenced(stay) {
            return Ok(());
        }
        let Some(_alone) = self.upkeep.recovering.try_lock() else { return Ok(()) };
        for shard in self.shards() {
            shard.fence(stay, &|| self.meanwhile_committing(shard)).map_err(of_log)?;
        }
        if !self.enrolment.holds(self.memory()) {
            return Ok(());
        }
        if !self.area().begin_cleanup(stay, self.enrolment.host()) {
            // The host that is at it may have died at it.
            self.area().fence_ended();
            return Ok(());
        }
        let done = self.recover_alone(stay, need);
        self.area().yield_cleanup(stay, self.enrolment.host());
        done
    }

    fn recover_alone(&self, stay: Stay, need: Need) -> Result<(), Error> {
        self.sync_all()?;
        if !self.partition.is_backed() {
            self.lose_partition(stay)?;
        }
        if self.area().is_gone(stay) {
            self.area().note_gone(stay);
            return self.clear_up(Dead(stay));
        }
        match need {
            Need::Entry(entry) if self.partition.is_backed() => {
                self.rescue_from_partition(Fenced(stay), entry)
            }
            _ if !self.records.may_take_over_early() || self.dirty_bits.exist() => Ok(()),
            Need::Nothing | Need::Entry(_) => Ok(()),
            Need::Record(record) => self.rescue(Fenced(stay), record),
            Need::AnyRecord => self.rescue_all(Fenced(stay)),
        }
    }
}
