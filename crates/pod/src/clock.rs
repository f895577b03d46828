//! A clock by which a deadline passes for all hosts at once, however far their own clocks differ.
//!
//! A deadline has passed when the pod's clock has reached it. A host whose own clock has reached
//! it first advances the pod's; so once one host has reported it as passed, every host does.

use tombolo_memory::{FetchOp, Memory, ScrAddr};

use crate::sites;

/// The pod's clock, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub struct PodClock {
    latest: ScrAddr<u64>,
}

impl PodClock {
    pub(crate) fn new(latest: ScrAddr<u64>) -> Self {
        Self { latest }
    }

    /// The time: this host's, or a later one that the pod has reached already.
    pub fn now_ms<M: Memory>(&self, memory: &M) -> u64 {
        memory.wall_clock_ms().max(memory.load(self.latest))
    }

    /// Whether `deadline_ms` has passed; if so, it has for everybody from now on.
    pub fn has_passed<M: Memory>(&self, memory: &M, deadline_ms: u64) -> bool {
        if memory.load(self.latest) >= deadline_ms {
            return true;
        }
        if memory.wall_clock_ms() < deadline_ms {
            return false;
        }
        if memory.keeps(sites::CLOCK_ADVANCE) {
            memory.fetch(sites::CLOCK_MAX, self.latest, FetchOp::Max, deadline_ms);
        }
        true
    }
}
