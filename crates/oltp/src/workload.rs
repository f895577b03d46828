//! The trait of workloads.

use tombolo_database::{Engine, Partitioning, TableId, TableSpec, Transaction, TxError};

/// The place of one worker among all workers of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The host.
    pub host: u8,
    /// The worker's number on its host.
    pub worker: u32,
    /// Workers of the host.
    pub workers: u32,
    /// Partitions that are at home at the host.
    pub partitions: Vec<u32>,
}

impl Seat {
    /// The place of worker `worker` of `workers` on the host of `engine`.
    ///
    /// # Panics
    /// If there is no such worker, or no partition is at home at the host.
    pub fn of<E: Engine>(engine: &E, worker: u32, workers: u32) -> Self {
        assert!(worker < workers, "worker {worker} of {workers}");
        let host = engine.home().0;
        let partitions: Vec<u32> = (0..engine.partitions())
            .filter(|partition| engine.home_of(*partition) == host)
            .collect();
        assert!(!partitions.is_empty(), "host {} is home to no partition", host.0);
        Self { host: host.0, worker, workers, partitions }
    }

    /// The partitions that this worker's transactions begin in: those of its host are dealt out in
    /// turn, and shared if there are fewer of them than workers.
    pub fn own_partitions(&self) -> Vec<u32> {
        let (all, step) = (self.partitions.len(), self.workers as usize);
        let first = self.worker as usize % all;
        self.partitions[first..].iter().step_by(step).copied().collect()
    }

    /// Random choices of this worker differ from those of all others.
    pub(crate) fn random(&self, seed: u64) -> crate::Random {
        crate::Random::new(seed, &[0x5ea7, u64::from(self.host), u64::from(self.worker)])
    }
}

/// How a transaction is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// By a commit. The driver adds the effects of all committed transactions up.
    Commit {
        /// The workload's own count, to compare it with the tables later.
        effect: i64,
    },
    /// By an abort, which the workload's rules ask for. It is not run again.
    RollBack,
}

impl Outcome {
    /// A commit without an effect to count.
    pub const COMMIT: Self = Self::Commit { effect: 0 };
}

/// Transactions of several kinds, and the rows that they are about.
pub trait Workload: Sync {
    /// The state of one worker.
    type Worker: Send;
    /// All choices for one transaction. It is run with the same input until it ends.
    type Input: Send;

    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// The names of the kinds of transactions.
    fn kinds(&self) -> &'static [&'static str];

    /// The tables that the engine has to have.
    fn tables(&self) -> Vec<TableSpec>;

    /// Partitions that the engine has to have.
    fn partitions(&self) -> u32;

    /// Loads this host's copies of the replicated tables.
    ///
    /// # Errors
    /// Those of [`Engine::load`].
    fn load_replicated<E: Engine>(&self, engine: &E) -> Result<(), TxError>;

    /// Loads all rows of a partition that is at home here, in the order of keys for each table.
    ///
    /// # Errors
    /// Those of [`Engine::load`].
    fn load_partition<E: Engine>(&self, engine: &E, partition: u32) -> Result<(), TxError>;

    /// A worker that has run nothing yet.
    fn worker(&self, seat: &Seat) -> Self::Worker;

    /// Chooses what the worker's next transaction is about.
    fn next(&self, worker: &mut Self::Worker) -> Self::Input;

    /// Which of [`kinds`](Self::kinds) a transaction is.
    fn kind(&self, input: &Self::Input) -> usize;

    /// Does all operations of a transaction, but does not end it.
    ///
    /// # Errors
    /// Those of the transaction; after conflicts it is run again with the same input.
    fn run<T: Transaction>(
        &self,
        worker: &mut Self::Worker,
        input: &Self::Input,
        transaction: &mut T,
    ) -> Result<Outcome, TxError>;
}

/// Loads one of `shares` equal shares of what is at home at the host of `engine`. All shares can be
/// loaded at once, each by a thread.
///
/// # Errors
/// Those of [`Engine::load`].
///
/// # Panics
/// If there is no such share.
pub fn load<W: Workload, E: Engine>(
    workload: &W,
    engine: &E,
    share: u32,
    shares: u32,
) -> Result<(), TxError> {
    assert!(share < shares, "share {share} of {shares}");
    if share == 0 {
        workload.load_replicated(engine)?;
    }
    let (host, partitions) = (engine.home().0, engine.partitions());
    let at_home = (0..partitions).filter(|partition| engine.home_of(*partition) == host);
    for partition in at_home.skip(share as usize).step_by(shares as usize) {
        workload.load_partition(engine, partition)?;
    }
    Ok(())
}

/// A table of one kind of key and row.
pub(crate) fn table(key_bytes: usize, row_bytes: usize, per_partition: u32) -> TableSpec {
    TableSpec {
        key_bytes: key_bytes as u16,
        row_bytes: row_bytes as u32,
        partitioning: Partitioning::Leading { per_partition },
    }
}

/// An error that says that a row which the workload has loaded is missing.
#[cold]
pub(crate) fn missing(table: TableId, key: &[u8]) -> TxError {
    TxError::Failed(format!("table {table} has lost the row with key {key:02x?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_a_host_are_dealt_out_to_its_workers() {
        let seat =
            |worker, workers| Seat { host: 0, worker, workers, partitions: vec![1, 4, 7, 10, 13] };
        assert_eq!(seat(0, 3).own_partitions(), [1, 10]);
        assert_eq!(seat(1, 3).own_partitions(), [4, 13]);
        assert_eq!(seat(2, 3).own_partitions(), [7]);
        assert_eq!(seat(0, 1).own_partitions(), [1, 4, 7, 10, 13]);
        assert_eq!(seat(6, 8).own_partitions(), [4], "there are more workers than partitions");
    }
}
