//! Epochs: in which transactions commit, and by which memory is reclaimed.
//!
//! A word in SCR has the current epoch, and one for each worker the epoch in which its transaction has
//! begun. What was taken away in an epoch is used again when all transactions that had begun by then
//! have ended. (Tigon paper, sections 3.5 and 3.6.)

use std::time::Duration;

use tombolo_memory::{FetchOp, HostMutex, Memory};

use crate::layout::{IDLE, Places};
use crate::sites;

/// The epochs of a database, as one host sees them.
pub(crate) struct Epochs<M: Memory> {
    memory: M,
    places: Places,
    home: u8,
    length: Duration,
    /// Which epoch this host last saw, and when it saw it first.
    seen: HostMutex<M, (u64, Duration)>,
}

impl<M: Memory> Epochs<M> {
    pub(crate) fn new(memory: &M, places: &Places, home: u8, length: Duration) -> Self {
        let seen = HostMutex::<M, _>::new((0, memory.uptime()));
        Self { memory: memory.clone(), places: *places, home, length, seen }
    }

    /// The current epoch.
    pub(crate) fn current(&self) -> u64 {
        self.memory.load(self.places.epoch)
    }

    /// A transaction of `worker` begins.
    pub(crate) fn begin(&self, worker: usize) {
        let (at, now) = (self.places.worker(self.home, worker), self.current());
        // By a read-modify-write: what the transaction looks up, it looks up afterwards.
        if self.memory.keeps(sites::WORKER_BEGIN) {
            self.memory.fetch(sites::WORKER_BEGIN, at, FetchOp::Swap, now);
        }
    }

    /// The transaction of `worker` has ended.
    pub(crate) fn end(&self, worker: usize) {
        self.memory.store(self.places.worker(self.home, worker), IDLE);
    }

    /// The epoch of the transaction that has begun first, of those that run; if none does, the greatest
    /// number.
    pub(crate) fn oldest(&self) -> u64 {
        let words = self.places.all_workers();
        words.map(|at| self.memory.load(at)).min().unwrap_or(IDLE)
    }

    /// Ends the epoch if it has lasted for its time, as far as this host has seen.
    pub(crate) fn tick(&self) {
        let Some(mut seen) = self.seen.try_lock() else { return };
        let (now, epoch) = (self.memory.uptime(), self.current());
        if seen.0 != epoch {
            *seen = (epoch, now);
        }
        if now.saturating_sub(seen.1) >= self.length {
            // The host that fails to has seen the next epoch begin.
            let _ = self.memory.compare_exchange(
                sites::EPOCH_NEXT,
                self.places.epoch,
                epoch,
                epoch + 1,
            );
        }
    }
}
