//! Whether this host still has its seat, and whether others are alive.

use tombolo_memory::Memory;
use tombolo_pod::Stay;

use crate::host::blocked::Why;
use crate::storage::index::Entry;
use crate::{Error, Objects};

impl<M: Memory> Objects<M> {
    /// This host was fenced.
    #[cold]
    pub(crate) fn is_fenced(&self) -> Error {
        let host = self.enrolment.host();
        if self.memory().is_forked() { Error::Forked { host } } else { Error::Fenced { host } }
    }

    /// Before this host stores into a slot once more: it may not, if a commit has told it that it
    /// was fenced, since the object may have left the slot, or come to it.
    pub(crate) fn may_store(&self) -> Result<(), Error> {
        if self.records.is_abandoned() { Err(self.is_fenced()) } else { Ok(()) }
    }

    /// This host's stay.
    pub(crate) fn stay(&self) -> Stay {
        self.enrolment.stay()
    }

    /// Host `by` is in the way, because it has the object with this entry locked, or in its own
    /// memory: goes on without it if it is dead.
    #[cold]
    pub(crate) fn obstructed(&self, by: u8, entry: Entry) {
        self.upkeep.obstructed_by(by);
        if let Some(stay) = self.fence_if_dead(by) {
            // If it cannot be done now, the next thread that needs it tries again.
            let _ = self.blocked(Why::Fenced { stay, entry });
        }
    }

    /// Something is in the way: goes on without hosts that have died, if there are such.
    #[cold]
    pub(crate) fn look_around(&self) -> Result<(), Error> {
        if self.host.is_time_to_look() { self.blocked(Why::Waiting) } else { Ok(()) }
    }

    /// Host `by` is in the way: takes its seat if it is dead. Which stay, if it has none now.
    pub(crate) fn fence_if_dead(&self, by: u8) -> Option<Stay> {
        self.host.fence_if_dead(&self.area, by, self.host_timeout)
    }
}
