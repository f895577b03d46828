//! The records that are inserted while a workload runs.
//!
//! Each host inserts records of its own: every `hosts`-th number after those that were loaded. So
//! hosts need not talk to each other to keep their records apart.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::Workload;

/// Numbers the records that the threads of one run insert, and knows which of them are there.
///
/// All threads of a host share one. A thread gets the number with its
/// [`Op::Insert`](crate::Op::Insert), and calls [`acknowledge`](Self::acknowledge) when the store
/// has confirmed the insert; only then may the record be chosen by this host, and only after all
/// that it inserts with lower numbers. An insert that never is acknowledged therefore hides all
/// later ones from the `latest` distribution; if a thread gives up on one, it should acknowledge it
/// nevertheless and expect reads to find nothing.
#[derive(Debug)]
pub struct Inserts {
    loaded: u64,
    host: u64,
    hosts: u64,
    next: AtomicU64,
    /// This host has inserted as many without a gap. Grows under the lock of `early`.
    acknowledged: AtomicU64,
    /// Inserts after that, counted by this host, which are there too.
    early: Mutex<BTreeSet<u64>>,
}

impl Inserts {
    /// None yet, by a host that is alone.
    pub fn new(workload: &Workload) -> Self {
        Self::of_host(workload, 0, 1)
    }

    /// None yet, by `host` of `hosts`.
    ///
    /// # Panics
    ///
    /// If there is no such host.
    pub fn of_host(workload: &Workload, host: u64, hosts: u64) -> Self {
        assert!(host < hosts, "host {host} of {hosts}");
        Self {
            loaded: workload.record_count,
            host,
            hosts,
            next: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            early: Mutex::default(),
        }
    }

    /// How many records are there, as far as this host knows: those that were loaded, and those
    /// that it inserted itself, without a gap.
    pub fn known(&self) -> u64 {
        self.loaded + self.acknowledged.load(Ordering::Acquire)
    }

    /// The number of the record at `place` among those, in the order of insertion.
    pub(crate) fn number(&self, place: u64) -> u64 {
        match place.checked_sub(self.loaded) {
            None => place,
            Some(inserted) => self.loaded + self.host + inserted * self.hosts,
        }
    }

    /// Notes that record `number` is there. To do so twice changes nothing.
    ///
    /// # Panics
    ///
    /// If no [`Op::Insert`](crate::Op::Insert) of this host had this number.
    pub fn acknowledge(&self, number: u64) {
        let place = number.checked_sub(self.loaded + self.host).filter(|n| n % self.hosts == 0);
        let inserted = place.map(|n| n / self.hosts);
        let Some(inserted) = inserted.filter(|&n| n < self.next.load(Ordering::Relaxed)) else {
            panic!("record {number} was never to be inserted");
        };
        let mut early = self.early.lock();
        let mut acknowledged = self.acknowledged.load(Ordering::Relaxed);
        if inserted < acknowledged {
            return;
        }
        early.insert(inserted);
        while early.remove(&acknowledged) {
            acknowledged += 1;
        }
        self.acknowledged.store(acknowledged, Ordering::Release);
    }

    pub(crate) fn next(&self) -> u64 {
        self.loaded + self.host + self.next.fetch_add(1, Ordering::Relaxed) * self.hosts
    }
}
