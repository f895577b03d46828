//! One host's handle on the objects of a pod.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_log::Replica;
use tombolo_memory::Memory;
use tombolo_pod::{Pod, Seat};
use tombolo_sharing::{Counter, Counters, hash_key, persist};

use crate::event::{Event, KeyHash};
use crate::index::IndexLimits;
use crate::maintain::{Maintenance, Upkeep};
use crate::marks::Cleaner;
use crate::replicated::Replicated;
use crate::{Error, Stats, Usage, Version, sites};

/// How a host takes part.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Sizes of the index.
    pub index: IndexLimits,
    /// How the background work is done.
    pub maintenance: Maintenance,
    /// Objects of up to this many lines are made fresh in this host's caches whole even if only a
    /// part is read; of larger ones only the part.
    pub small_lines: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { index: IndexLimits::default(), maintenance: Maintenance::default(), small_lines: 64 }
    }
}

/// The objects of a pod, as one host reads and writes them. Shared by the host's threads.
///
/// Keys have 1 to [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES) bytes, values any number that the pod has room for. Operations on
/// one object are linearizable across all hosts.
pub struct Objects<M: Memory> {
    pub(crate) replica: Replica<M, Replicated<M>>,
    pub(crate) seat: Seat,
    pub(crate) counters: Counters,
    pub(crate) upkeep: Upkeep,
    pub(crate) small_lines: u64,
    pub(crate) cleaner: OnceLock<Box<dyn Cleaner<M>>>,
    versions: AtomicU64,
}

impl<M: Memory> Objects<M> {
    pub(crate) fn with_replica(
        replica: Replica<M, Replicated<M>>,
        seat: Seat,
        options: Options,
    ) -> Self {
        Self {
            replica,
            // No other stay of any host has this incarnation, so no other write gets this version.
            versions: AtomicU64::new(u64::from(seat.incarnation()) << 40),
            seat,
            counters: Counters::new(),
            upkeep: Upkeep::new(options.maintenance),
            small_lines: options.small_lines,
            cleaner: OnceLock::new(),
        }
    }

    /// The memory this host sees.
    pub fn memory(&self) -> &M {
        self.replica.pod().memory()
    }

    /// The pod.
    pub fn pod(&self) -> &Pod<M> {
        self.replica.pod()
    }

    /// This host's place in the pod.
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// What this host has done.
    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    /// How many objects there are.
    ///
    /// # Errors
    /// [`Error::Log`], [`Error::Damaged`].
    pub fn object_count(&self) -> Result<u64, Error> {
        self.sync()?;
        Ok(self.state().index.len())
    }

    /// How much is in use, as far as this host has applied the log.
    pub fn usage(&self) -> Usage {
        let state = self.state();
        let (lnr_used_bytes, lnr_bytes) = state.space.usage();
        Usage {
            objects: state.index.len(),
            lnr_used_bytes,
            lnr_bytes,
            records_used: state.records.used(),
            records: state.records.count(),
            local_bytes: state.index.bytes() + state.records.bytes(),
            log_lag: self.replica.lag(),
        }
    }

    pub(crate) fn state(&self) -> &Replicated<M> {
        self.replica.state()
    }

    pub(crate) fn next_version(&self) -> Version {
        Version(self.versions.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn count(&self, counter: Counter) {
        self.counters.add(counter, 1);
    }

    pub(crate) fn commit(&self, event: Event) -> Result<bool, Error> {
        if !self.memory().keeps(event.site()) {
            return Ok(true);
        }
        // Others may wait for a host that is joining, and that for a replica from this one, all of whose
        // threads may be here.
        let meanwhile = || {
            let members = self.pod().membership();
            let all_ready = members.hosts().all(|host| members.is_ready(host));
            if !self.memory().check(sites::JOIN_HELP, all_ready) {
                // What is wrong with the log, the commit finds out, too.
                let _ = self.help_joining();
            }
        };
        Ok(self.replica.commit(&event, &meanwhile)?)
    }

    pub(crate) fn sync(&self) -> Result<u64, Error> {
        Ok(self.replica.sync()?)
    }

    /// The hash of `key`, if its length is allowed.
    pub(crate) fn hash(&self, key: &[u8]) -> Result<KeyHash, Error> {
        Ok(hash_key(self.pod(), key)? as KeyHash)
    }

    /// Repeats `attempt` until it comes to something, for as long as patience lasts.
    pub(crate) fn persist<T>(
        &self,
        attempt: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        persist(self.memory(), attempt)
    }
}
