//! Whether this host still has its seat, and whether others are alive.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tombolo_log::LogError;
use tombolo_memory::Memory;
use tombolo_pod::Stay;

use crate::host::blocked::Why;
use crate::storage::index::Entry;
use crate::{Error, Objects};

/// How long a thread waits at least between two looks at who is in its way.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

impl<M: Memory> Objects<M> {
    /// This host was fenced.
    #[cold]
    pub(crate) fn is_fenced(&self) -> Error {
        Error::Log(LogError::Fenced { host: self.seat.host() })
    }

    /// Before this host stores into a slot once more: it may not, if a commit has told it that it was fenced,
    /// since the object may have left the slot, or come to it.
    pub(crate) fn may_store(&self) -> Result<(), Error> {
        if self.records.is_abandoned() { Err(self.is_fenced()) } else { Ok(()) }
    }

    /// This host's stay.
    pub(crate) fn stay(&self) -> Stay {
        Stay { host: self.seat.host(), number: self.seat.incarnation() }
    }

    /// Host `by` is in the way, because it has the object with this entry locked, or in its own memory: goes on without it
    /// if it is dead.
    #[cold]
    pub(crate) fn obstructed(&self, by: u8, entry: Entry) {
        self.upkeep.obstructed_by(by);
        if let Some(stay) = self.fence_if_dead(by) {
            // What cannot be done now is tried again, by whoever is in need of it.
            let _ = self.blocked(Why::Fenced { stay, entry });
        }
    }

    /// Something is in the way: goes on without hosts that have died, if there are such.
    #[cold]
    pub(crate) fn look_around(&self) -> Result<(), Error> {
        if self.is_time_to_look() { self.blocked(Why::Waiting) } else { Ok(()) }
    }

    /// Host `by` is in the way: takes its seat if it is dead. Which stay, if it has none now.
    pub(crate) fn fence_if_dead(&self, by: u8) -> Option<Stay> {
        if by == self.seat.host() || !self.is_time_to_look() {
            return None;
        }
        let stay = self.pod().stay_of(by);
        let dead = || self.pod().has_ended(stay) || self.watch.is_silent(self.pod(), stay);
        if self.pod().is_seated(stay) && dead() {
            self.pod().fence(stay);
        }
        self.pod().is_fenced(stay).then_some(stay)
    }

    /// Whether it is some time since this host last looked whether others are alive.
    fn is_time_to_look(&self) -> bool {
        let now = self.memory().uptime();
        let last = Duration::from_nanos(self.upkeep.looked.load(Ordering::Relaxed));
        let is_time = now.saturating_sub(last) >= BETWEEN_LOOKS;
        if is_time {
            self.upkeep.looked.store(now.as_nanos() as u64, Ordering::Relaxed);
            self.seat.beat(self.memory());
        }
        is_time
    }
}
