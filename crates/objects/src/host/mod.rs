//! One host's handle on the objects of a pod.

pub(crate) mod blocked;
pub(crate) mod cleanups;
pub(crate) mod dirty;
pub(crate) mod joining;
pub(crate) mod liveness;
pub(crate) mod lookup;
pub(crate) mod owners;
pub(crate) mod poison;
pub(crate) mod policy;
pub(crate) mod reserve;
pub(crate) mod slots;
pub(crate) mod upkeep;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tombolo_host::{HOST_TIMEOUT, Host, Joining};
use tombolo_log::LogError;
use tombolo_memory::{Memory, Work};
use tombolo_placement::{Costs, Placement, Thresholds};
use tombolo_pod::{Enrolment, Pod, PodError, Seat};
use tombolo_sharing::{Counter, Counters, KeyHasher, ObjectArea, retry_with_backoff};

use crate::error::of_log;
use crate::host::blocked::{Unblock, Why};
use crate::host::dirty::DirtyObjects;
use crate::host::policy::{COSTS, Profiles};
use crate::host::upkeep::{Maintenance, Upkeep};
use crate::ids::{KeyHash, shard_of};
use crate::replica::Shard;
use crate::replica::apply::Replicated;
use crate::replica::event::Event;
use crate::storage::copies::Copies;
use crate::storage::dirty::DirtyBits;
use crate::storage::index::IndexLimits;
use crate::storage::intents::HostIntents;
use crate::storage::partition::Partition;
use crate::storage::records::Records;
use crate::storage::space::map::Chunk;
use crate::storage::space::pins::Pins;
use crate::{Error, Stats, Usage, Version, sites};

/// How a host takes part.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sizes of the index.
    pub index: IndexLimits,
    /// In a pod of up to so many coherence records this host keeps whose each is, in 8 bytes of its
    /// memory, which makes it quicker to take one from another object, and to choose which. In
    /// others it looks through its index.
    pub known_owners: u64,
    /// How the background work is done.
    pub maintenance: Maintenance,
    /// Objects of up to this many lines are made fresh in this host's caches whole even if only a
    /// part is read; of larger ones only the part.
    pub small_lines: u64,
    /// Views that this host may have at once: each holds the room of a value.
    pub views: u32,
    /// Bytes of this host's memory for copies of objects; none, if 0.
    pub copies_bytes: u64,
    /// Bytes of this host's memory for objects that it uses alone; none, if 0, or if the pod is
    /// made for a page cache.
    pub partition_bytes: u64,
    /// Decides which objects are copied or moved there.
    pub placement: Arc<dyn Placement>,
    /// The costs of accesses and moves of an object, for a placement that weighs them.
    pub costs: Costs,
    /// How writers keep others off an object.
    pub locks: Locks,
    /// A host that waits for another one, which has given no sign of life for so long, goes on
    /// without it.
    pub host_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            index: IndexLimits::default(),
            known_owners: 1 << 16,
            maintenance: Maintenance::default(),
            small_lines: 64,
            views: 1024,
            copies_bytes: 0,
            partition_bytes: 0,
            placement: Arc::new(Thresholds::default()),
            costs: COSTS,
            locks: Locks::default(),
            host_timeout: HOST_TIMEOUT,
        }
    }
}

/// How a writer keeps others off an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locks {
    /// By a coherence record, which the object gets when it is first written.
    #[default]
    Records,
    /// By two events in the log for each write, unless the object has a record.
    Log,
}

/// The objects of a pod, as one host reads and writes them. Shared by the host's threads.
///
/// Keys have 1 to [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES) bytes, values any number that the pod has
/// room for. Operations on one object are linearizable across all hosts.
pub struct Objects<M: Memory> {
    pub(crate) area: ObjectArea<M>,
    pub(crate) host: Arc<Host<M>>,
    pub(crate) enrolment: Enrolment,
    /// One per shard of the log: each object's events are in the shard that its key's hash chooses.
    shards: Box<[Shard<M>]>,
    pub(crate) records: Arc<Records<M>>,
    pub(crate) intents: HostIntents<M>,
    pub(crate) counters: Counters,
    hasher: KeyHasher,
    pub(crate) upkeep: Upkeep<M>,
    pub(crate) small_lines: u64,
    pub(crate) host_timeout: Duration,
    pub(crate) copies: Option<Copies<M>>,
    pub(crate) partition: Partition<M>,
    pub(crate) profiles: Profiles,
    pub(crate) placement: Arc<dyn Placement>,
    pub(crate) costs: Costs,
    pub(crate) locks: Locks,
    pub(crate) dirty_bits: DirtyBits<M>,
    pub(crate) pins: Pins<M>,
    pub(crate) dirty_objects: OnceLock<Box<dyn DirtyObjects<M>>>,
    versions: AtomicU64,
    unblock: Unblock<M>,
}

impl<M: Memory> Objects<M> {
    pub(crate) fn with_shards(
        joining: &Joining<M>,
        shards: Box<[Shard<M>]>,
        records: Arc<Records<M>>,
        options: Options,
        unblock: Unblock<M>,
    ) -> Result<Self, Error> {
        let Joining { host, area, enrolment } = joining;
        let (host, area) = (Arc::clone(host), ObjectArea::new(area.clone())?);
        Ok(Self {
            copies: Copies::new(options.copies_bytes).map_err(PodError::from)?,
            dirty_bits: DirtyBits::new(&area),
            pins: Pins::new(&area, enrolment.host(), options.views),
            partition: Partition::new(&area, &host, options.partition_bytes),
            profiles: Profiles::new(),
            placement: options.placement,
            costs: options.costs,
            shards,
            records,
            // No other stay of any host has this incarnation, so no other write gets this version.
            versions: AtomicU64::new(u64::from(enrolment.stay().number) << 40),
            intents: HostIntents::new(&area, enrolment.host()),
            enrolment: enrolment.clone(),
            host,
            counters: Counters::new(),
            hasher: KeyHasher::of(area.pod()),
            area,
            upkeep: Upkeep::new(options.maintenance),
            small_lines: options.small_lines,
            host_timeout: options.host_timeout,
            locks: options.locks,
            dirty_objects: OnceLock::new(),
            unblock,
        })
    }

    /// The memory this host sees.
    pub fn memory(&self) -> &M {
        self.area.memory()
    }

    /// The area of the pod in which the objects lie.
    #[inline]
    pub fn area(&self) -> &ObjectArea<M> {
        &self.area
    }

    /// The pod.
    pub fn pod(&self) -> &Pod<M> {
        self.area.pod()
    }

    /// This host, which other tenants may share.
    pub fn host(&self) -> &Arc<Host<M>> {
        &self.host
    }

    /// This host's place in the pod.
    pub fn seat(&self) -> &Seat {
        self.host.seat()
    }

    /// This host's counters.
    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    /// How many objects there are. If the log has shards, of those that come and go meanwhile some
    /// may count that were never there at once.
    ///
    /// # Errors
    /// [`Error::Stalled`], [`Error::Fenced`], [`Error::Damaged`].
    pub fn object_count(&self) -> Result<u64, Error> {
        self.sync_all()?;
        Ok(self.sum(|shard| shard.state().index.len()))
    }

    /// How much is in use, as far as this host has applied the log.
    pub fn usage(&self) -> Usage {
        let index_bytes = self.sum(|shard| shard.state().index.bytes());
        Usage {
            objects: self.sum(|shard| shard.state().index.len()),
            lnr_used_bytes: self.sum(|shard| shard.state().space.used_bytes()),
            lnr_fragmented_bytes: self.sum(|shard| shard.state().space.fragmented_bytes()),
            lnr_poisoned_bytes: self.shards[0].state().space.poisoned_bytes(),
            lnr_bytes: self.shards[0].state().space.bytes(),
            records_used: self.records.used(),
            records: self.records.count(),
            records_wide: self.records.used_wide(),
            scr_used_bytes: self.records.scr_bytes().0,
            local_bytes: index_bytes + self.records.bytes(),
            copies_bytes: self.copies.as_ref().map_or(0, Copies::bytes),
            partition_bytes: self.partition.bytes(),
            log_lag: self.sum(Shard::lag),
        }
    }

    /// The chunks of LNR in their order, each with its use. `None` stands for a chunk that changes
    /// just now. It looks at each chunk once.
    pub fn chunks(&self) -> Vec<Option<Chunk>> {
        let mut map = vec![None; self.area.geometry().chunks as usize];
        self.shards.iter().for_each(|shard| shard.state().space.draw(&mut map));
        map
    }

    /// Coherence records that are in use and no object's: unless hosts are at something now, none.
    pub fn unowned_records(&self) -> u64 {
        let records = |shard: &Shard<M>| {
            let entries =
                shard.paused(|_, _, state, _| -> Vec<_> { state.index.entries().collect() });
            entries.into_iter().filter_map(|entry| entry.record())
        };
        self.records.unowned(&self.shards().iter().flat_map(records).collect())
    }

    /// How often entries of this host lost a place in the log to another's, and had to try the
    /// next.
    pub fn lost_places(&self) -> u64 {
        self.sum(Shard::lost_places)
    }

    fn sum(&self, figure: impl Fn(&Shard<M>) -> u64) -> u64 {
        self.shards.iter().map(figure).sum()
    }

    pub(crate) fn shards(&self) -> &[Shard<M>] {
        &self.shards
    }

    /// The shard that objects with this hash are in.
    #[inline]
    pub(crate) fn shard(&self, hash: KeyHash) -> &Shard<M> {
        &self.shards[shard_of(hash, self.shards.len())]
    }

    /// The replica that has objects with this hash.
    #[inline]
    pub(crate) fn state(&self, hash: KeyHash) -> &Replicated<M> {
        self.shard(hash).state()
    }

    pub(crate) fn next_version(&self) -> Version {
        self.next_versions(1)
    }

    /// The first of so many that follow each other.
    pub(crate) fn next_versions(&self, count: u64) -> Version {
        Version(self.versions.fetch_add(count, Ordering::Relaxed))
    }

    pub(crate) fn count(&self, counter: Counter) {
        self.counters.add(counter, 1);
    }

    pub(crate) fn commit(&self, event: Event) -> Result<bool, Error> {
        if !self.memory().keeps(event.site()) {
            return Ok(true);
        }
        let shard = self.shard(event.hash());
        let committed = shard.commit(&event, &|| self.meanwhile_committing(shard));
        committed.map_err(|error| self.not_committed(error))
    }

    #[cold]
    fn not_committed(&self, error: LogError) -> Error {
        if matches!(error, LogError::Fenced { .. }) {
            self.records.abandon();
        }
        of_log(error)
    }

    /// The work that is done while this shard's log is full.
    ///
    /// Others may wait for a host that is joining, and that for a replica from this one, all of
    /// whose threads may be here. And the host that is waited for may itself wait for this one to
    /// apply another shard, or be dead.
    pub(crate) fn meanwhile_committing(&self, shard: &Shard<M>) {
        let _ = self.sync_others();
        if !self.memory().check(sites::JOIN_HELP, !self.area().has_joining()) {
            // The commit meets an error of the log, too.
            let _ = self.help_joining();
        }
        // Without a seat it is not waited for. The rest takes commits, and this is one.
        if let Some(slowest) = shard.slowest() {
            self.fence_if_dead(slowest);
        }
    }

    /// Applies the shard of objects with this hash up to its tail, which is returned.
    #[inline(always)]
    pub(crate) fn sync(&self, hash: KeyHash) -> Result<u64, Error> {
        self.sync_shard(self.shard(hash))
    }

    /// Applies a shard up to its tail, which is returned.
    #[inline(always)]
    pub(crate) fn sync_shard(&self, shard: &Shard<M>) -> Result<u64, Error> {
        shard.sync().map_err(of_log)
    }

    pub(crate) fn sync_all(&self) -> Result<(), Error> {
        self.shards.iter().try_for_each(|shard| self.sync_shard(shard).map(drop))
    }

    /// Applies all shards, if there are more than the one that is applied anyway: to be called
    /// again and again by who waits for something in one of them.
    pub(crate) fn sync_others(&self) -> Result<(), Error> {
        if self.shards.len() > 1 && self.memory().keeps(sites::SHARD_OTHERS) {
            self.sync_all()?;
        }
        Ok(())
    }

    /// Begins an operation on `key`: its hash, if its length is allowed.
    #[inline(always)]
    pub(crate) fn begin(&self, key: &[u8]) -> Result<KeyHash, Error> {
        self.memory().works(Work::Operation);
        self.answer_at_once();
        self.hash(key)
    }

    /// Answers a request between two operations, if there is one, and that takes no waiting.
    #[inline]
    pub(crate) fn answer_at_once(&self) {
        if self.partition.is_open()
            && self.logs_have_room()
            && let Some(request) = self.partition.mailbox.next()
        {
            // The operation meets an error of the log, too.
            let _ = self.blocked(Why::Requested { request });
        }
    }

    /// Whether an event would not have to wait for other hosts now.
    pub(crate) fn logs_have_room(&self) -> bool {
        self.shards.iter().all(Shard::has_room)
    }

    /// The hash of `key`, if its length is allowed.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> Result<KeyHash, Error> {
        Ok(self.hasher.hash(key)? as KeyHash)
    }

    /// Repeats `attempt` until it comes to something, for as long as patience lasts.
    pub(crate) fn retry_with_backoff<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        retry_with_backoff(self.memory(), || {
            let done = attempt()?;
            if done.is_none() {
                // The host in the way may wait for this one to apply another shard, or be dead.
                self.sync_others()?;
                self.look_around()?;
            }
            Ok(done)
        })
        .map_err(|error| match error {
            Error::Busy { waited_ms, .. } => {
                Error::Busy { host: self.upkeep.obstacle(), waited_ms }
            }
            error => error,
        })
    }
}
