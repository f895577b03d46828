//! A database on a pod: typed tables, and closures as transactions.
//!
//! All hosts of a database come together, run, and leave together. Rows lie in the memory of hosts,
//! and in the pod where several hosts use them. Only the directory of the log lasts; all hosts
//! share it.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (pod, log) = (folder.path().join("pod"), folder.path().join("log"));
//! # let spec = pod.to_str().unwrap();
//! use tombolo::database::{
//!     Catalog, Column, ColumnType, Database, DatabaseError, DatabasePlan, Options, TableSchema,
//!     row,
//! };
//!
//! row! {
//!     /// An account.
//!     #[derive(Debug, PartialEq)]
//!     pub struct Account {
//!         pub number: u32,
//!         pub owner: String,
//!         pub cents: i64,
//!     }
//! }
//!
//! let columns = vec![
//!     Column::new("number", ColumnType::U32),
//!     Column::new("owner", ColumnType::Text { most: 12 }),
//!     Column::new("cents", ColumnType::I64),
//! ];
//! let accounts = TableSchema::new("accounts", columns, &["number"])?
//!     .with_index("by_owner", &["owner"], false)?;
//! let plan = DatabasePlan::new(1, Catalog::new(vec![accounts])?);
//!
//! // Once:
//! tombolo::database::create(spec, &plan, Some(&log), Default::default())?;
//! // On each host:
//! let db = Database::open(spec, &plan, Options { log: Some(log), ..Options::default() })?;
//! let accounts = db.table::<Account>("accounts")?;
//! db.transaction(|tx| {
//!     accounts.insert(tx, &Account { number: 1, owner: "Ada".into(), cents: 500 })?;
//!     accounts.insert(tx, &Account { number: 2, owner: "Bob".into(), cents: 0 })?;
//!     Ok::<_, DatabaseError>(())
//! })?;
//! // It is on the disk now. An error of the closure ends the transaction, and comes back as it is.
//! let poor = db.read(|tx| accounts.by("by_owner")?.prefix(&("Bob",))?.first(tx))?;
//! assert_eq!(poor.map(|account| account.cents), Some(0));
//! db.leave()?;
//! # Ok(())
//! # }
//! ```

use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use tombolo_database::hosts::{CheckpointError, EngineMetrics, SetupError, Written};
pub use tombolo_database::log::{GroupSettings, LogError, LogMetrics};
pub use tombolo_database::schema::{
    Catalog, Column, ColumnType, DatabasePlan, Index, KeyPart, SchemaError, Table as TableSchema,
    Value,
};
pub use tombolo_database::{
    Conflict, DatabaseMetrics, DatabaseSettings, Decimal, Durability, Key, Partitioning, ReadTx,
    Row, RowRange, Table, Timestamp, Tx, TxError, row,
};

use tombolo_database::hosts::{Attendant, DatabaseShape, Participation, PodEngine, recreate_pod};
use tombolo_database::log::{CheckpointWriter, Claim, Directory, Recovered, Storage as _, recover};
use tombolo_database::{Engine as _, Home, MAX_KEY_BYTES, Partitioning as How, SystemClock};
use tombolo_memory::Mapped;
use tombolo_pod::PodSpec;

/// The engine.
type Engine = tombolo_tigon::Tigon<Mapped>;

/// The transaction that a closure of [`transaction`](tombolo_database::Database::transaction) gets.
pub type WriteTransaction<'a> = Tx<tombolo_tigon::Tx<'a, Mapped>>;

/// The transaction that a closure of [`read`](tombolo_database::Database::read) gets.
pub type ReadTransaction<'a> = ReadTx<tombolo_tigon::Tx<'a, Mapped>>;

/// Threads that read checkpoint and logs.
const READERS: usize = 2;

/// Errors of a database as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// The pod, or its hosts.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Checkpoint and logs.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Tables, columns or values.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A transaction.
    #[error(transparent)]
    Tx(#[from] TxError),
    /// The directory of the log cannot be used.
    #[error("cannot use {path} for a log: {source}")]
    Directory {
        /// The directory.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// Others use the directory of the log.
    #[error("hosts, or another program, use the log in {path}; stop them first")]
    InUse {
        /// The directory.
        path: String,
    },
    /// The directory of the log is not empty.
    #[error("{path} is not empty; give another directory, or empty it")]
    NotEmpty {
        /// The directory.
        path: String,
    },
    /// The directory has no checkpoint.
    #[error("{path} has no database; create one with its pod")]
    NoDatabase {
        /// The directory.
        path: String,
    },
    /// The log is that of a database with other tables, hosts, workers or partitions.
    #[error("the log in {path} is of another database: {why}; open it as it was created")]
    OtherPlan {
        /// The directory.
        path: String,
        /// How they differ.
        why: String,
    },
}

impl From<tombolo_pod::PodError> for DatabaseError {
    fn from(error: tombolo_pod::PodError) -> Self {
        Self::Setup(error.into())
    }
}

/// Sizes of a database's pod.
#[derive(Clone, Copy, Debug)]
pub struct PodBytes {
    /// Bytes of SCR: a shared row takes some 22 of it with keys of up to 7 bytes.
    pub scr: u64,
    /// Bytes of LNR for rows that are shared. Log buffers come on top.
    pub shared_rows: u64,
}

impl Default for PodBytes {
    /// 32 MiB and 256 MiB.
    fn default() -> Self {
        Self { scr: 32 << 20, shared_rows: 256 << 20 }
    }
}

/// How a host takes part in a database.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The directory for checkpoint and logs, on storage that all hosts share. Without one nothing
    /// is logged, and all rows are gone when the hosts have left.
    pub log: Option<PathBuf>,
    /// How transactions run. The workers are those of the plan. Without a log, no commit is
    /// waited for.
    pub settings: DatabaseSettings,
    /// How commits become durable.
    pub commit: GroupSettings,
}

/// Creates a database without rows: its pod, and with a directory its first checkpoint. The pod of
/// a database that no host uses is overwritten.
///
/// # Errors
/// [`SchemaError::TooLong`] if keys may have more than 47 bytes: columns of text take twice their
/// length, and a few bytes. [`DatabaseError::NotEmpty`]; those of the pod and of the directory.
pub fn create(
    spec: &str,
    plan: &DatabasePlan,
    log: Option<&Path>,
    bytes: PodBytes,
) -> Result<(), DatabaseError> {
    plan.catalog.check_keys(MAX_KEY_BYTES)?;
    let directory = log.map(|path| claim(path, Claim::AtRest)).transpose()?;
    if let Some(directory) = &directory
        && !list(directory)?.is_empty()
    {
        return Err(DatabaseError::NotEmpty { path: name(directory.path()) });
    }
    create_pod(spec, &plan.shape(), bytes)?;
    if let Some(directory) = directory {
        let writer = CheckpointWriter::begin(directory, 0)?;
        writer.finish(&plan.encode()?, 0, 0)?;
    }
    Ok(())
}

fn create_pod(spec: &str, shape: &DatabaseShape, bytes: PodBytes) -> Result<(), DatabaseError> {
    let spec: PodSpec = spec.parse()?;
    let sizes = (bytes.scr, None, bytes.shared_rows);
    recreate_pod::<Engine>(&spec, sizes, shape, &[Engine::KIND])?;
    Ok(())
}

/// The outcome of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Rows of all tables, index entries included.
    pub rows: u64,
    /// The epoch up to which all was durable.
    pub durable_epoch: u64,
    /// Files that the new checkpoint has made superfluous.
    pub removed_files: usize,
}

/// Brings a database back after a host has died: reads checkpoint and logs, writes a checkpoint,
/// and makes the pod anew. No host runs. Hosts can [open](Database::open) the database then.
///
/// # Errors
/// That a file is damaged, with the position; those of the pod and of the directory.
pub fn recover_pod(spec: &str, log: &Path, bytes: PodBytes) -> Result<Recovery, DatabaseError> {
    let directory = claim(log, Claim::AtRest)?;
    let (plan, recovered) = read(&directory)?;
    create_pod(spec, &plan.shape(), bytes)?;
    recovered.close(&directory)?;
    let removed_files = recovered.checkpoint(&directory, READERS)?;
    let (rows, durable_epoch) = (recovered.rows.len() as u64, recovered.durable);
    Ok(Recovery { rows, durable_epoch, removed_files })
}

/// The plan of the database whose log is in a directory.
///
/// # Errors
/// [`DatabaseError::NoDatabase`]; that the directory cannot be read.
pub fn plan_of(log: &Path) -> Result<DatabasePlan, DatabaseError> {
    Ok(read(&claim(log, Claim::Running)?)?.0)
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn claim(path: &Path, claim: Claim) -> Result<Arc<Directory>, DatabaseError> {
    match Directory::claim(path, claim) {
        Ok(directory) => Ok(Arc::new(directory)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(DatabaseError::InUse { path: name(path) })
        }
        Err(source) => Err(DatabaseError::Directory { path: name(path), source }),
    }
}

fn list(directory: &Directory) -> Result<Vec<String>, DatabaseError> {
    let path = || name(directory.path());
    directory.list().map_err(|source| DatabaseError::Directory { path: path(), source })
}

fn read(directory: &Arc<Directory>) -> Result<(DatabasePlan, Recovered), DatabaseError> {
    let recovered = recover(directory, READERS)?;
    if recovered.catalog.is_empty() {
        return Err(DatabaseError::NoDatabase { path: name(directory.path()) });
    }
    Ok((DatabasePlan::decode(&recovered.catalog)?, recovered))
}

/// How two plans differ.
fn difference(found: &DatabasePlan, expected: &DatabasePlan) -> Option<String> {
    let numbers = |plan: &DatabasePlan| {
        let DatabasePlan { hosts, workers, partitions, .. } = plan;
        format!("{hosts} hosts, {workers} workers each, {partitions} partitions")
    };
    if numbers(found) != numbers(expected) {
        return Some(format!("it has {}, not {}", numbers(found), numbers(expected)));
    }
    let (there, wanted) = (found.catalog.tables(), expected.catalog.tables());
    let differs = there.iter().zip(wanted).find(|(there, wanted)| there != wanted);
    let extra = || there.iter().skip(wanted.len()).chain(wanted.iter().skip(there.len())).next();
    let table = differs.map(|(there, _)| there).or_else(extra)?;
    Some(format!("table `{}` differs", table.name))
}

/// A database, as this host runs transactions on it. Shared by the host's threads. Dropping it
/// leaves the database; so does [`leave`](Self::leave), which says what went wrong.
///
/// [Tables](tombolo_database::Database::table),
/// [transactions](tombolo_database::Database::transaction) and
/// [reads](tombolo_database::Database::read) are those of [`tombolo_database::Database`].
pub struct Database {
    database: tombolo_database::Database<Arc<Engine>>,
    attendant: Option<Attendant<Engine>>,
    /// The directory of the log, and the plan as its checkpoints have it.
    log: Option<(Arc<Directory>, Vec<u8>)>,
}

impl Deref for Database {
    type Target = tombolo_database::Database<Arc<Engine>>;

    fn deref(&self) -> &Self::Target {
        &self.database
    }
}

/// Counters of a host's database: its work, and what it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Transactions: commits, aborts by reason, retries.
    pub transactions: DatabaseMetrics,
    /// The engine: requests to other hosts, rows moved, SCR by use.
    pub engine: EngineMetrics,
    /// The log: bytes, syncs, and epochs that it is behind.
    pub log: LogMetrics,
    /// The epoch that commits now.
    pub epoch: u64,
    /// The epoch up to which all is durable on all hosts.
    pub durable_epoch: u64,
}

impl Database {
    /// Takes part in a database as this process's host, with the rows that checkpoint and logs
    /// have. Blocks until all its hosts have come, for up to 30 seconds.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn open(spec: &str, plan: &DatabasePlan, options: Options) -> Result<Self, DatabaseError> {
        let directory = options.log.as_deref().map(|log| claim(log, Claim::Running)).transpose()?;
        let recovered = match &directory {
            Some(directory) => {
                let (found, recovered) = read(directory)?;
                if let Some(why) = difference(&found, plan) {
                    return Err(DatabaseError::OtherPlan { path: name(directory.path()), why });
                }
                recovered
            }
            None => Recovered { next: 1, ..Recovered::default() },
        };
        let engine = Engine::take_part(
            &spec.parse()?,
            Participation {
                tables: plan.catalog.specs(),
                commit: options.commit,
                is_logged: directory.is_some(),
                first_epoch: recovered.next,
            },
        )?;
        let engine = Arc::new(engine);
        let attendant = Attendant::start(Arc::clone(&engine));
        load(&engine, &recovered)?;
        if let Some(directory) = &directory
            && engine.home().0 == Home(0)
        {
            recovered.close(directory)?;
        }
        drop(recovered);
        // All rows are there before the first transaction, and all have read the log.
        engine.meet_all(2)?;
        let mut settings = DatabaseSettings { workers: plan.workers.into(), ..options.settings };
        match &directory {
            Some(directory) => attendant.begin_log(Arc::clone(directory))?,
            None => settings.durability = Durability::Memory,
        }
        let encoded = plan.encode()?;
        let log = directory.map(|directory| (directory, encoded));
        engine.meet_all(3)?;
        let (catalog, clock) = (plan.catalog.clone(), SystemClock::default());
        let database = tombolo_database::Database::new(engine, catalog, clock, settings)?;
        Ok(Self { database, attendant: Some(attendant), log })
    }

    fn attendant(&self) -> &Attendant<Engine> {
        self.attendant.as_ref().expect("it is there until the database is left")
    }

    /// Counters of this host's database: its work, and what it uses. Takes microseconds.
    pub fn metrics(&self) -> Metrics {
        Metrics {
            transactions: self.database.metrics(),
            engine: self.engine().engine_metrics(),
            log: self.attendant().log_metrics(),
            epoch: self.engine().group().epoch(),
            durable_epoch: self.engine().durable_epoch(),
        }
    }

    /// Bytes of SCR that shared rows of each table take which are at home here, with their indexes.
    /// Takes time in proportion to their number.
    pub fn scr_by_table(&self) -> Vec<(String, u64)> {
        let mut bytes = self.engine().scr_by_table().into_iter();
        let of = |table: &TableSchema| {
            let all = bytes.by_ref().take(1 + table.indexes.len()).sum();
            (table.name.clone(), all)
        };
        self.catalog().tables().iter().map(of).collect()
    }

    /// Writes a checkpoint while transactions run, on all hosts, and removes log files that it
    /// makes superfluous. Any host may call this; recovery takes less time afterwards. Blocks while
    /// all rows are written. Without a log it does nothing, and returns `None`.
    ///
    /// # Errors
    /// [`CheckpointError::Busy`] if another one is being written; that a host has died or left, or
    /// cannot write: the last checkpoint is still good then.
    pub fn checkpoint(&self) -> Result<Option<Written>, CheckpointError> {
        let Some((directory, plan)) = &self.log else { return Ok(None) };
        self.attendant().checkpoint(directory, plan).map(Some)
    }

    /// Why transactions fail from now on, if a host has died or this host's log cannot be written.
    /// [`recover_pod`] brings the database back once all hosts have ended.
    pub fn failure(&self) -> Option<String> {
        self.attendant().failure()
    }

    /// Leaves the database. Blocks while the log is written to its end.
    ///
    /// # Errors
    /// That the log cannot be written, or a host has died.
    pub fn leave(mut self) -> Result<(), DatabaseError> {
        match self.attendant.take() {
            Some(attendant) => Ok(attendant.end()?),
            None => Ok(()),
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(attendant) = self.attendant.take() {
            // `leave` says what goes wrong.
            let _ = attendant.end();
        }
    }
}

/// Loads rows that are at home here, and copies of replicated tables.
fn load(engine: &Arc<Engine>, recovered: &Recovered) -> Result<(), DatabaseError> {
    let own = engine.home().0;
    for row in &recovered.rows {
        let spec = engine.tables().get(usize::from(row.table.0));
        let spec = spec.ok_or(TxError::NoTable { table: row.table })?;
        let is_copy = spec.partitioning == How::Replicated;
        if is_copy || engine.home_of(row.partition) == own {
            engine.load_recovered(row.table, &row.key, row.version, &row.row)?;
        }
    }
    Ok(())
}
