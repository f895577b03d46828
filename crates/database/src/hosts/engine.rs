//! Engines whose hosts are processes, and whose database is all that its pod holds.

use std::sync::Arc;

use tombolo_memory::Mapped;
use tombolo_pod::{Kind, Pod, PodError, PodSpec, Sizes, Stay};

use super::{AfterDeath, Homes, SetupError};
use crate::log::{GroupCommit, GroupSettings};
use crate::{Engine, TableId, TableSpec, TxError, Version};

/// The sizes and tables that a database is made for, whatever its engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseShape {
    /// Hosts, each of which is home to some partitions.
    pub hosts: u8,
    /// Partitions of each table that is not replicated.
    pub partitions: u32,
    /// Threads of a host that run transactions.
    pub workers: u16,
    /// The tables, in the order of their numbers.
    pub tables: Vec<TableSpec>,
    /// Bytes of a log buffer, a multiple of a line: the most that a transaction can log.
    pub log_buffer_bytes: u64,
}

impl DatabaseShape {
    /// Bytes of a worker's log buffer in Tigon's paper.
    pub const LOG_BUFFER_BYTES: u64 = 4 << 20;
}

/// How a host takes part in a database, whatever its engine.
#[derive(Clone, Debug)]
pub struct Participation {
    /// The tables, the same on all hosts.
    pub tables: Vec<TableSpec>,
    /// How transactions commit.
    pub commit: GroupSettings,
    /// Whether transactions are logged. Then each host needs a [logger](crate::log::Logger).
    pub is_logged: bool,
    /// The epoch that the database begins with: 1, or what recovery says.
    pub first_epoch: u64,
}

/// Counts of a host's engine since the host joined, and the memory it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineMetrics {
    /// Requests to other hosts.
    pub requests: u64,
    /// Replies to other hosts.
    pub replies: u64,
    /// Rows of this host that it has shared.
    pub moved_in: u64,
    /// Rows of this host that it has taken back.
    pub moved_out: u64,
    /// Lines that it has invalidated, since another host may have written them.
    pub invalidated_lines: u64,
    /// Lines that it has cleaned, so that other hosts can read them.
    pub cleaned_lines: u64,
    /// Bytes of SCR that records of its shared rows take.
    pub scr_record_bytes: u64,
    /// Bytes of SCR that the index of its shared rows takes.
    pub scr_index_bytes: u64,
}

/// Takes a row's partition, its key, its version, and the row.
pub type EachVersion<'a> = dyn FnMut(u32, &[u8], Version, &[u8]) -> Result<(), TxError> + 'a;

/// An engine whose hosts are processes, and whose database is all that its pod holds.
pub trait PodEngine: Engine + Send + Sync + Sized + 'static {
    /// The kind of the pod's area.
    const KIND: Kind;

    /// The consequence of a host's death for the others.
    const AFTER_DEATH: AfterDeath;

    /// Puts in order what a host has left that was fenced, but for its log: from here on nothing
    /// that it does counts. `false` if it is too early for that. Of engines that go on when a host
    /// dies; the others have nothing to do.
    ///
    /// # Errors
    /// That this host was fenced, too.
    fn settle(&self, home: u8, stay: Stay) -> Result<bool, TxError> {
        let _ = (home, stay);
        Ok(true)
    }

    /// Bytes of LNR that such a database takes, besides shared rows.
    fn lnr_bytes(shape: &DatabaseShape) -> u64;

    /// Creates a pod that holds a database of this shape alone.
    ///
    /// # Errors
    /// [`PodError`].
    fn create_pod(
        spec: &PodSpec,
        sizes: Sizes,
        shape: &DatabaseShape,
    ) -> Result<Pod<Mapped>, PodError>;

    /// Joins the pod, and takes part in its database, as this process's host. Blocks until all
    /// hosts of the database have come, for up to 30 seconds.
    ///
    /// # Errors
    /// [`SetupError`].
    fn take_part(spec: &PodSpec, how: Participation) -> Result<Self, SetupError>;

    /// Whether the database in a pod runs already, as far as can be told, so that a host which
    /// comes now is [late](Self::is_late). Of engines that go on when a host dies.
    ///
    /// # Errors
    /// That the pod cannot be opened.
    fn is_running(spec: &PodSpec) -> Result<bool, PodError> {
        let _ = spec;
        Ok(false)
    }

    /// Whether this host has come after all others had, in the home of one that has died or left.
    /// All rows are there, and no host waits for it.
    fn is_late(&self) -> bool {
        false
    }

    /// The hosts of the database.
    fn homes(&self) -> &Homes<Mapped>;

    /// Epochs and the log, for this host's [logger](crate::log::Logger).
    fn group(&self) -> &Arc<GroupCommit<Mapped>>;

    /// Waits until all hosts have called this for the `round`-th time; the first is
    /// [`take_part`](Self::take_part)'s. Answers other hosts meanwhile. Blocks for up to 30
    /// seconds.
    ///
    /// # Errors
    /// [`SetupError::Missing`]; that a host has died.
    fn meet_all(&self, round: u64) -> Result<(), SetupError>;

    /// As [`Engine::load`], of a row that has a version already: one that was recovered.
    ///
    /// # Errors
    /// As of [`Engine::load`].
    fn load_recovered(
        &self,
        table: TableId,
        key: &[u8],
        version: Version,
        row: &[u8],
    ) -> Result<(), TxError>;

    /// Calls `each` with all rows of a table that are at home here, or at a home that this host
    /// [stands for](Homes::stands_for), and of a replicated table with all rows, in the order of
    /// keys for each partition. Transactions may run: each row is as one of them has left it, and
    /// rows that come or go meanwhile are met or not.
    ///
    /// # Errors
    /// Those of `each`; that a host has died.
    fn each_version(&self, table: TableId, each: &mut EachVersion<'_>) -> Result<(), TxError>;

    /// Shares the rows of a table that are at home here, if this engine shares rows: how many.
    ///
    /// # Errors
    /// [`TxError::Full`] once there is no room for more.
    fn share(&self, table: TableId) -> Result<u64, TxError> {
        let _ = table;
        Ok(0)
    }

    /// Bytes of SCR that the shared rows of each table take which are at home here, in the order
    /// of tables. Takes time in proportion to them.
    fn scr_by_table(&self) -> Vec<u64> {
        vec![0; self.tables().len()]
    }

    /// Counts of this host since it joined, and the memory it uses.
    fn engine_metrics(&self) -> EngineMetrics;

    /// Leaves the database. Nothing more may be done with it on this host.
    fn leave_all(&self) {
        self.homes().leave();
    }
}
