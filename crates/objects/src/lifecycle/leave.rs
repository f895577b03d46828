//! Leaving a pod.

use std::time::Duration;

use tombolo_memory::Memory;

use crate::replica::Shard;
use crate::{Error, Objects, sites};

/// How long the last host goes on clearing up.
const PATIENCE: Duration = Duration::from_secs(10);

impl<M: Memory> Objects<M> {
    /// Leaves the area, and the pod, unless other tenants of this host are still there. The last
    /// host leaves the area closed, with all objects in place. Nothing else may be done with this
    /// handle afterwards, and no thread may be at it now.
    ///
    /// # Errors
    /// [`Error::StillViewing`], [`Error::StillReserving`], [`Error::Stalled`], [`Error::Fenced`],
    /// [`Error::Damaged`]: the seat is still taken.
    pub fn leave(&self) -> Result<(), Error> {
        let memory = self.memory();
        // A host that has left, or is known to be gone, keeps no other one off what it views.
        match self.pins.open() {
            0 => {}
            views => return Err(Error::StillViewing { views }),
        }
        match self.intents.given_out() {
            0 => {}
            rooms => return Err(Error::StillReserving { rooms }),
        }
        if !self.seat().holds(memory) {
            // A host that is taken for dead is so in each area.
            self.area().fence(self.stay());
        }
        if !self.enrolment.holds(memory) {
            // Others clear up, but what is in this host's caches they cannot.
            self.shards().iter().for_each(Shard::withdraw);
            memory.gives_all();
            self.area().note_gone(self.stay());
            self.host.detached(&self.area);
            return Err(self.is_fenced());
        }
        if memory.keeps(sites::PARTITION_LEAVE) {
            self.move_out_all()?;
        }
        self.shards().iter().for_each(|shard| shard.state().space.release_all());
        let started = memory.uptime();
        // After the last to leave nobody is left to clear up.
        while self.is_last_of_dead() && memory.uptime().saturating_sub(started) < PATIENCE {
            self.recover_all()?;
            memory.pause();
        }
        let (help, close) = (|| self.help_joining(), || self.empty_if_clean());
        self.host.leave_area_in_order(&self.area, &self.enrolment, help, close)
    }

    /// A pod for a page cache opens empty. What is found in one has not been left in order.
    fn empty_if_clean(&self) {
        let clean = self.dirty_bits.exist() && self.dirty_bits.count() == 0;
        if clean && self.memory().keeps(sites::CLOSE_EMPTY) {
            self.shards()[0].state().space.free_everything();
        }
    }

    /// Whether nobody else is here but hosts that were fenced and are not cleared up after.
    fn is_last_of_dead(&self) -> bool {
        let members = self.area().membership();
        members.count() == 1 && members.fenced().next().is_some()
    }
}
