//! Epochs: how the pod's transactions become durable in groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tombolo_memory::{HostMutex, LnrAddr, Memory, ScrAddr, lock_api};

use super::layout::{LogLayout, LogPlaces};
use super::worker::{LogPosition, Worker};
use crate::{Durability, MAX_EPOCH, TxError, sites};

/// The word of a worker that has no transaction, and of a host that has no logger.
pub(crate) const IDLE: u64 = u64::MAX;

/// The word of a host while its logger begins: nothing more becomes durable meanwhile.
pub(crate) const JOINING: u64 = 0;

/// How a host takes part in the log.
#[derive(Clone, Copy, Debug)]
pub struct GroupSettings {
    /// How long an epoch lasts at least.
    pub epoch: Duration,
    /// How long a transaction waits for room in its buffer, or to become durable.
    pub patience: Duration,
    /// Bytes after which a logger begins another file.
    pub file_bytes: u64,
}

impl Default for GroupSettings {
    /// Epochs of 10 ms, waits of 10 s, and files of 64 MiB.
    fn default() -> Self {
        Self {
            epoch: Duration::from_millis(10),
            patience: Duration::from_secs(10),
            file_bytes: 64 << 20,
        }
    }
}

/// A host's side of the pod's epochs and log buffers. Shared by the host's threads.
pub struct GroupCommit<M: Memory> {
    pub(crate) memory: M,
    pub(crate) places: LogPlaces,
    pub(crate) host: u8,
    pub(crate) settings: GroupSettings,
    /// The epoch has to become greater than this: a transaction has committed in it.
    requested: AtomicU64,
    /// The greatest epoch that this host's logger has made durable, as the host itself knows it.
    own: AtomicU64,
    /// The greatest durable epoch that this host has seen. While a host joins, words say less.
    durable: AtomicU64,
    /// The epoch, and when this host has first seen it.
    seen: HostMutex<M, (u64, Duration)>,
}

impl<M: Memory> GroupCommit<M> {
    /// Prepares SCR for a database that begins with epoch `first`: 1, or what recovery says. No
    /// host uses it meanwhile.
    ///
    /// # Panics
    /// If the parts do not fit their regions or begin within a line, or `first` is 0 or has more
    /// than 40 bits.
    pub fn format(memory: &M, layout: LogLayout, scr: ScrAddr<u64>, lnr: LnrAddr, first: u64) {
        assert!((1..=MAX_EPOCH).contains(&first), "epoch {first} is not 1 to {MAX_EPOCH}");
        let places = LogPlaces::new(layout, scr, lnr);
        for host in 0..layout.hosts {
            memory.store(places.durable(host), IDLE);
            for worker in 0..layout.workers {
                memory.store(places.began(host, worker), IDLE);
                memory.store(places.commits(host, worker), IDLE);
                memory.store(places.filled(host, worker), 0);
                memory.store(places.flushed(host, worker), 0);
            }
        }
        memory.store(places.session(), first);
        memory.store(places.epoch(), first);
    }

    /// The log as `host` uses it. Its transactions become durable once it has a
    /// [`Logger`](super::Logger).
    ///
    /// # Panics
    /// If there is no such host, or a part begins within a line.
    pub fn new(
        memory: M,
        layout: LogLayout,
        (scr, lnr): (ScrAddr<u64>, LnrAddr),
        host: u8,
        settings: GroupSettings,
    ) -> Arc<Self> {
        let places = LogPlaces::new(layout, scr, lnr);
        assert!(host < layout.hosts, "there is no host {host} of {}", layout.hosts);
        let seen = (memory.load(places.epoch()), memory.uptime());
        Arc::new(Self {
            memory,
            places,
            host,
            settings,
            requested: AtomicU64::new(0),
            own: AtomicU64::new(JOINING),
            durable: AtomicU64::new(0),
            seen: lock_api::Mutex::new(seen),
        })
    }

    /// This host's number.
    pub fn host(&self) -> u8 {
        self.host
    }

    /// How large it is.
    pub fn layout(&self) -> LogLayout {
        self.places.layout
    }

    /// The log of worker `number` of this host. One thread at a time has it.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn worker(self: &Arc<Self>, number: u16) -> Worker<M> {
        Worker::new(Arc::clone(self), number)
    }

    /// The epoch of transactions that commit now.
    pub fn epoch(&self) -> u64 {
        self.memory.load(self.places.epoch())
    }

    /// The epoch that the database began with.
    pub fn session(&self) -> u64 {
        self.memory.load(self.places.session())
    }

    /// Asks that the epoch become greater than `epoch`. Without requests it stands still, so that
    /// an idle pod writes no files. A commit makes a request; a structure that waits to free
    /// something has to make one, too.
    pub fn request(&self, epoch: u64) {
        self.memory.step();
        // A store for each epoch, and a load for each commit.
        if self.requested.load(Ordering::Relaxed) < epoch {
            self.requested.fetch_max(epoch, Ordering::Relaxed);
        }
    }

    /// Ends the epoch if it is over and that was [requested](Self::request); whether it did. To be
    /// called every millisecond. Does not block.
    pub fn tick(&self) -> bool {
        let epoch = self.epoch();
        let now = self.memory.uptime();
        let Some(mut seen) = self.seen.try_lock() else { return false };
        if seen.0 != epoch {
            *seen = (epoch, now);
        }
        let is_over = now.saturating_sub(seen.1) >= self.settings.epoch;
        drop(seen);
        let is_wanted = self.requested.load(Ordering::Relaxed) >= epoch;
        is_over && is_wanted && self.advance_from(epoch)
    }

    /// Ends `epoch` at once if it is the current one.
    pub fn advance_past(&self, epoch: u64) {
        if self.epoch() == epoch {
            self.advance_from(epoch);
        }
    }

    /// Whether this host has ended `epoch`, and no other.
    fn advance_from(&self, epoch: u64) -> bool {
        let word = self.places.epoch();
        self.memory.compare_exchange(sites::EPOCH_ADVANCE, word, epoch, epoch + 1).is_ok()
    }

    /// The least epoch in which a transaction began that still runs on any host, or the current
    /// epoch. No transaction can reach memory any more that was taken out of shared structures in
    /// an earlier epoch. Takes as many loads as there are workers.
    pub fn oldest_active(&self) -> u64 {
        // Transactions that begin after this find nothing that was taken out before.
        let epoch = self.epoch();
        let all = (0..self.places.layout.hosts).map(|host| self.least(host, LogPlaces::began));
        all.min().unwrap_or(epoch).min(epoch)
    }

    /// The greatest epoch that no worker of any host can commit in any more. All that it has
    /// changed is in place.
    pub fn settled_epoch(&self) -> u64 {
        let epoch = self.epoch();
        let all = (0..self.places.layout.hosts).map(|host| self.least(host, LogPlaces::commits));
        all.min().unwrap_or(epoch).min(epoch) - 1
    }

    /// The least value of a word of a host's workers.
    pub(crate) fn least(
        &self,
        host: u8,
        word: impl Fn(&LogPlaces, u8, u16) -> ScrAddr<u64>,
    ) -> u64 {
        let workers = 0..self.places.layout.workers;
        let values = workers.map(|worker| self.memory.load(word(&self.places, host, worker)));
        values.min().unwrap_or(IDLE)
    }

    /// The greatest epoch all of whose transactions are durable, and all before it. It does not
    /// grow before this host has a [`Logger`](super::Logger), nor after the host was taken for
    /// dead.
    pub fn durable_epoch(&self) -> u64 {
        self.slowest().0
    }

    /// The durable epoch, and a host that keeps it from being greater.
    fn slowest(&self) -> (u64, u8) {
        // Before the loggers: each of them is behind the epoch.
        let epoch = self.epoch();
        let hosts = (0..self.places.layout.hosts).map(|host| (self.durable_at(host), host));
        let behind = (epoch - 1, self.host);
        let (durable, host) = hosts.chain([behind]).min().unwrap_or(behind);
        let before = self.durable.fetch_max(durable, Ordering::Relaxed);
        (durable.max(before), host)
    }

    fn durable_at(&self, host: u8) -> u64 {
        if host == self.host && self.memory.keeps(sites::DURABLE_OWN) {
            // Another host may have retired this one's logger, without its last records.
            self.memory.step();
            return self.own.load(Ordering::Acquire);
        }
        self.memory.load(self.places.durable(host))
    }

    /// This host's logger has made `epoch` durable; [`IDLE`] for a logger that has left.
    pub(crate) fn set_own(&self, epoch: u64) {
        self.memory.step();
        self.own.store(epoch, Ordering::Release);
    }

    /// The records that worker `number` of a dead host has staged up to `position` count. One host
    /// at a time does this, before another one takes the dead host's home.
    pub fn settle(&self, host: u8, number: u16, position: LogPosition) {
        let word = self.places.filled(host, number);
        if self.memory.load(word) < position.0 {
            self.memory.store(word, position.0);
        }
    }

    /// No epoch waits for a host that has died any more: its log is written out, if it had one.
    pub(crate) fn retire(&self, host: u8) {
        for worker in 0..self.places.layout.workers {
            self.memory.store(self.places.commits(host, worker), IDLE);
            self.memory.store(self.places.began(host, worker), IDLE);
        }
        self.memory.store(self.places.durable(host), IDLE);
    }

    /// Retires a dead host that has logged nothing: no epoch waits for it any more. `false` if it
    /// has a log, which has to be [written out](super::Logger::drain) first.
    pub fn retire_unlogged(&self, host: u8) -> bool {
        let unwritten = |worker| {
            let filled = self.memory.load(self.places.filled(host, worker));
            filled != self.memory.load(self.places.flushed(host, worker))
        };
        let has_logger = self.memory.load(self.places.durable(host)) != IDLE;
        if has_logger || (0..self.places.layout.workers).any(unwritten) {
            return false;
        }
        self.retire(host);
        true
    }

    /// Hosts whose log has a file, a bit for each.
    pub(crate) fn loggers(&self) -> u64 {
        let word = |host| self.memory.load(self.places.durable(host));
        let has = |&host: &u8| ![IDLE, JOINING].contains(&word(host));
        (0..self.places.layout.hosts).filter(has).fold(0, |hosts, host| hosts | 1 << host)
    }

    /// Waits until `epoch` is as durable as `durability` asks for. Meanwhile it calls `meanwhile`,
    /// which may have to advance epochs and flush buffers, if no other thread does.
    ///
    /// # Errors
    /// [`TxError::NoAnswer`], with the host whose logger is behind, if that takes longer than
    /// [`patience`](GroupSettings::patience); an error of `meanwhile`.
    pub fn wait_durable(
        &self,
        epoch: u64,
        durability: Durability,
        mut meanwhile: impl FnMut() -> Result<(), TxError>,
    ) -> Result<(), TxError> {
        match durability {
            Durability::Memory => return Ok(()),
            Durability::Epoch => self.request(epoch),
            Durability::Immediate => self.advance_past(epoch),
        }
        let since = self.memory.uptime();
        loop {
            let (durable, host) = self.slowest();
            if durable >= epoch {
                return Ok(());
            }
            let waited = self.memory.uptime().saturating_sub(since);
            if waited >= self.settings.patience {
                return Err(TxError::NoAnswer { host, waited_ms: waited.as_millis() as u64 });
            }
            meanwhile()?;
            self.memory.pause();
        }
    }
}
