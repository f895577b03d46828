//! One host's handle on the objects of a pod.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use siphasher::sip::SipHasher13;
use tombolo_log::Replica;
use tombolo_memory::Memory;
use tombolo_pod::{Pod, Seat};

use crate::event::{Event, KeyHash};
use crate::index::IndexLimits;
use crate::maintain::{Maintenance, Upkeep};
use crate::replicated::Replicated;
use crate::stats::{Counter, Counters, Stats};
use crate::{Error, MAX_KEY_BYTES, Version, sites};

/// How long an operation goes on trying while others are in its way.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// How much there is, and is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Objects in the pod.
    pub objects: u64,
    /// Bytes of LNR in slots that hold objects.
    pub lnr_used_bytes: u64,
    /// Bytes of LNR there are for objects.
    pub lnr_bytes: u64,
    /// Coherence records in use.
    pub records_used: u64,
    /// Coherence records there are.
    pub records: u64,
    /// Bytes of this host's own memory for the index and what goes with it.
    pub local_bytes: u64,
    /// Log entries this host has not applied.
    pub log_lag: u64,
}

/// The objects of a pod, as one host reads and writes them. Shared by the host's threads.
///
/// Keys have 1 to [`MAX_KEY_BYTES`] bytes, values any number that the pod has room for. Operations on
/// one object are linearizable across all hosts.
pub struct Objects<M: Memory> {
    pub(crate) replica: Replica<M, Replicated<M>>,
    pub(crate) seat: Seat,
    pub(crate) counters: Counters,
    pub(crate) upkeep: Upkeep,
    pub(crate) small_lines: u64,
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
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(Error::KeyLength { bytes: key.len() });
        }
        Ok(hash_key(self.pod(), key))
    }

    /// Repeats `attempt` until it comes to something, for as long as patience lasts.
    pub(crate) fn persist<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let mut started = None;
        loop {
            if let Some(done) = attempt()? {
                return Ok(done);
            }
            let memory = self.memory();
            let now = memory.uptime();
            let waited = now.saturating_sub(*started.get_or_insert(now));
            if waited > PATIENCE {
                return Err(Error::Busy { waited_ms: waited.as_millis() as u64 });
            }
            memory.pause();
        }
    }
}

/// The hash of a key in this pod: keyed, so that nobody can make keys collide from outside.
pub(crate) fn hash_key<M: Memory>(pod: &Pod<M>, key: &[u8]) -> KeyHash {
    let (k0, k1) = pod.identity().hash_key;
    let mut hasher = SipHasher13::new_with_keys(k0, k1);
    hasher.write(key);
    hasher.finish() as KeyHash
}
