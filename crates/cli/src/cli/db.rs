//! `tombolo bench tpcc`, `ycsb-txn` and `smallbank`, `tombolo db`, and the hosts of databases.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use tombolo::PodSpec;
use tombolo_tigon::{MAX_HOMES, MAX_WORKERS};

use super::shared::size;
use crate::output::Format;

pub(super) const TPCC: &str = "\
TPC-C, in full or as published with Tigon, over hosts that are processes.

Hosts load their warehouses, warm up, and are measured. With most engines all rows are at home on some \
host, in that host's own memory; with `objects` they are in the pod. Then the consistency conditions of clause 3.3.2 are checked: 1 to 10 and 12 of TPC-C, and \
of TPC-C as published those that it keeps. The exit code is 3 if one is violated.

The two variants have two names in reports, and are not to be compared: `TPC-C as published` does less.";

pub(super) const TPCC_EXAMPLES: &str = "\
Examples:
  tombolo bench tpcc --hosts 2 --warehouses 4
  tombolo bench tpcc --as-published --remote 60/90 --moved-in --seconds 30
  tombolo bench tpcc --durability epoch --log /var/tmp/tpcc --format json
  tombolo bench tpcc --small --remote 60/90 --compare objects,sundial";

pub(super) const YCSB_TXN: &str = "\
YCSB with transactions of ten operations, over hosts that are processes.

Of 100 transactions, --cross do half of their operations in another host's partition. With \
--as-published keys are chosen as in Tigon's published source; the report has another name for that.";

pub(super) const YCSB_TXN_EXAMPLES: &str = "\
Examples:
  tombolo bench ycsb-txn --reads 95 --cross 100 --moved-in
  tombolo bench ycsb-txn --as-published --reads 50 --theta 0.99 --rows 100000";

pub(super) const SMALLBANK: &str = "\
SmallBank over hosts that are processes: short transactions on one or two customers' accounts.

Of 100 transactions about two customers, --cross have the second one in another host's partition.";

const DB: &str = "\
Databases: create, look at, check, recover, dump and load them.

The rows of a database lie in the pod with the engine `objects`, while one host runs at least; hosts may \
die and come back. With the other engines they lie in the own memory of hosts: these run together, and a \
death ends the database until it is recovered. The directory of its log lasts: \
a checkpoint, and a log of each host. So these commands work on that directory, while no host runs; \
they say so if one does. The pod is where hosts meet: `db recover` makes it anew.

`tombolo bench` with the same --log and --pod runs transactions on such a database.";

const DB_EXAMPLES: &str = "\
Examples:
  tombolo db create /dev/shm/bank --tables-from smallbank --log /var/tmp/bank
  tombolo bench smallbank --pod /dev/shm/bank --log /var/tmp/bank
  tombolo db create /dev/shm/shop --schema shop.toml --partitions 8 --log /var/tmp/shop
  tombolo db create /dev/shm/sql --sql --hosts 1 --log /var/tmp/sql
  tombolo db create /dev/shm/sql2 --sql --engine tigon --hosts 1 --log /var/tmp/sql2
  tombolo db info --log /var/tmp/bank
  tombolo db check --log /var/tmp/bank
  tombolo db recover /dev/shm/bank --log /var/tmp/bank";

const SOAK: &str = "\
Kill hosts of a database again and again, and recover it from its logs alone.

Hosts that are processes run TPC-C. Each transaction also writes its number into two partitions, and a \
host tells the number when the transaction is durable. Again and again one host is killed, or all are. \
With the engine `objects` the others have to go on, and a new host may come in the place of a dead one. \
Then the pod's file is deleted, and the database is recovered from its directory. Each transaction \
that was told to be durable has to be there, and each other one whole or not at all. Each transaction \
also reads two registers and writes one, and its row says what it found: the history of all \
transactions has to be serializable. TPC-C's conditions 1 to 10 and 12 have to hold. The exit code is 3 if one of these does not.";

/// An engine of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EngineKind {
    /// Rows at home on hosts, shared while others use them; one host makes all of a transaction's
    /// changes.
    Tigon,
    /// Rows are objects of the pod, and any host runs any transaction on any row; reads are
    /// optimistic.
    Objects,
    /// Sundial+: rows stay at home; logical leases, and two-phase commit by messages. As published
    /// it does not keep others from inserting rows into a range that a transaction has read.
    Sundial,
    /// DS2PL+: rows stay at home; two-phase locking without waiting, and two-phase commit by
    /// messages.
    Ds2pl,
}

/// When a benchmark counts transactions as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogMode {
    /// Never: nothing is logged.
    Memory,
    /// When their epoch is in the files of all hosts.
    Epoch,
}

/// Shares of transactions that have to do with another warehouse, such as 10/15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote(pub(crate) u32, pub(crate) u32);

fn remote(text: &str) -> Result<Remote, String> {
    let percent = |text: &str| text.parse().ok().filter(|&percent: &u32| percent <= 100);
    let parts = text.split_once('/').map(|(orders, payments)| (percent(orders), percent(payments)));
    match parts {
        Some((Some(orders), Some(payments))) => Ok(Remote(orders, payments)),
        _ => Err(format!("{text:?} is not two percentages such as 10/15")),
    }
}

fn homes() -> RangedU64ValueParser<u8> {
    RangedU64ValueParser::new().range(1..=MAX_HOMES.into())
}

fn percent() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(0..=100)
}

fn workers() -> RangedU64ValueParser<u16> {
    RangedU64ValueParser::new().range(1..=MAX_WORKERS)
}

/// The skew of a Zipf distribution.
fn theta(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|theta| (0.0..1.0).contains(theta));
    number.ok_or_else(|| format!("{text:?} is not within 0 to 0.99"))
}

/// How a benchmark of transactions runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct TransactionArgs {
    /// The engine that is measured.
    #[arg(long, value_enum, default_value = "tigon", value_name = "ENGINE")]
    pub(crate) engine: EngineKind,
    /// Measure these engines, too, each in a pod of its own: in every round one after the other.
    /// All of them, if none is named.
    #[arg(long, value_enum, value_delimiter = ',', num_args = 0.., value_name = "ENGINE,...", conflicts_with = "log")]
    pub(crate) compare: Option<Vec<EngineKind>>,
    /// Rounds of a comparison: the median of each engine is shown.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = RangedU64ValueParser::<u32>::new().range(1..=1000))]
    pub(crate) rounds: u32,
    /// Hosts, each a process.
    #[arg(long, value_name = "H", default_value_t = 2, value_parser = homes(), env = "TOMBOLO_HOSTS")]
    pub(crate) hosts: u8,
    /// Threads of each host that run transactions. A logger and a thread for requests come on top.
    #[arg(long, value_name = "W", default_value_t = 1, value_parser = workers())]
    pub(crate) workers: u16,
    /// Measure for so many seconds.
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// Measure so many transactions of each worker instead.
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    pub(crate) transactions: Option<u64>,
    /// Run transactions for so many seconds before, which are not counted.
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub(crate) warm_up: f64,
    /// Share the rows that other hosts may use before the run: customers and stocks of TPC-C, and
    /// all rows of the others. Tigon's figures 4, 5, 6 and 8 begin like that.
    #[arg(long)]
    pub(crate) moved_in: bool,
    /// When transactions are durable: `epoch` if --log is given, else `memory`. Without --log the
    /// files are temporary, beside the pod's memory.
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(crate) durability: Option<LogMode>,
    /// Write logs into this directory: an empty one, or that of a database which `tombolo db
    /// create` has made with the same workload. The run then goes on with its rows.
    #[arg(long, value_name = "DIR")]
    pub(crate) log: Option<PathBuf>,
    /// Write a checkpoint every so many seconds while transactions run, and remove older logs.
    #[arg(long, value_name = "S", requires = "log")]
    pub(crate) checkpoint_every: Option<f64>,
    /// Coherent memory (SCR): shared rows take some 50 bytes of it each.
    #[arg(long, value_name = "SIZE", default_value = "200MiB", value_parser = size)]
    pub(crate) scr: u64,
    /// Memory for rows in the pod and for log buffers (LNR); what the workload needs, unless given.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) size: Option<u64>,
    /// Decides on rows and transactions.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Where to create the pod, instead of a new file in /dev/shm (on disk, if that is too small).
    #[arg(long, value_name = "SPEC", env = "TOMBOLO_POD")]
    pub(crate) pod: Option<PodSpec>,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// How large TPC-C is.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct TpccScale {
    /// Warehouses, each a partition of some 120 MB; one for each worker, unless given.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::new().range(1..=10_000))]
    pub(crate) warehouses: Option<u32>,
    /// A hundredth of the rows in each warehouse, for trials: conflicts are more frequent.
    #[arg(long)]
    pub(crate) small: bool,
    /// TPC-C as published with Tigon, which does less than TPC-C, and has another name in the
    /// report.
    #[arg(long)]
    pub(crate) as_published: bool,
    /// Of 100 New-Orders and of 100 Payments, those that have to do with another warehouse. Unless
    /// given: what the specification asks for, and 10/15 as published.
    #[arg(long, value_name = "A/B", value_parser = remote)]
    pub(crate) remote: Option<Remote>,
}

/// The rows and the mix of YCSB's transactions.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct YcsbTxnScale {
    /// Rows of 1000 bytes in each host's partition.
    #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = RangedU64ValueParser::<u32>::new().range(10..=100_000_000))]
    pub(crate) rows: u32,
    /// Of 100 operations, those that only read.
    #[arg(long, value_name = "P", default_value_t = 95, value_parser = percent())]
    pub(crate) reads: u32,
    /// Of 100 transactions, those that do half of their operations in another partition.
    #[arg(long, value_name = "P", default_value_t = 0, value_parser = percent())]
    pub(crate) cross: u32,
    /// The skew of the choice of rows.
    #[arg(long, value_name = "T", default_value_t = 0.7, value_parser = theta)]
    pub(crate) theta: f64,
    /// Choose keys as Tigon's published source does.
    #[arg(long)]
    pub(crate) as_published: bool,
}

/// The customers and the mix of SmallBank's transactions.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SmallBankScale {
    /// Customers in each host's partition.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = RangedU64ValueParser::<u32>::new().range(2..=100_000_000))]
    pub(crate) accounts: u32,
    /// Of 100 transactions about two customers, those whose second one is in another partition.
    #[arg(long, value_name = "P", default_value_t = 0, value_parser = percent())]
    pub(crate) cross: u32,
}

/// A benchmark of a workload's transactions.
#[derive(Debug, Args)]
pub(crate) struct Transactions<S: Args> {
    #[command(flatten)]
    pub(crate) scale: S,
    #[command(flatten)]
    pub(crate) run: TransactionArgs,
}

pub(crate) type TpccArgs = Transactions<TpccScale>;
pub(crate) type YcsbTxnArgs = Transactions<YcsbTxnScale>;
pub(crate) type SmallBankArgs = Transactions<SmallBankScale>;

#[derive(Debug, Subcommand)]
#[command(long_about = DB, after_help = DB_EXAMPLES)]
pub(crate) enum DbCommand {
    /// Create a database with a workload's tables and rows, in a directory for its log, and its
    /// pod.
    Create(DbCreateArgs),
    /// Say what a database holds, and up to which epoch it is durable.
    Info(DbInfoArgs),
    /// Read checkpoint and logs, and check the rows: all consistency conditions of TPC-C, and each
    /// table's form.
    Check(DbInfoArgs),
    /// Bring a database back from checkpoint and logs, and make its pod anew.
    Recover(DbRecoverArgs),
    /// Write a checkpoint of a database that is at rest, and remove the logs before it.
    Checkpoint(DbLogArgs),
    /// Write all rows as lines of JSON.
    Dump(DbDumpArgs),
    /// Create a database from the rows of a dump.
    Load(DbLoadArgs),
    /// Kill hosts of a database again and again, and recover it from its logs alone.
    #[command(long_about = SOAK)]
    Soak(DbSoakArgs),
}

/// A workload whose tables a database can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TablesFrom {
    /// TPC-C's.
    Tpcc,
    /// Those of YCSB with transactions.
    Ycsb,
    /// SmallBank's.
    Smallbank,
}

/// The pod of a database: its engine, and how much memory it takes.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DbPodArgs {
    /// The engine that runs transactions in it.
    #[arg(long, value_enum, default_value = "objects", value_name = "ENGINE")]
    pub(crate) engine: EngineKind,
    /// Coherent memory (SCR).
    #[arg(long, value_name = "SIZE", default_value = "200MiB", value_parser = size)]
    pub(crate) scr: u64,
    /// Memory for rows in the pod and for log buffers (LNR); what the workload needs, unless given.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) size: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct DbCreateArgs {
    /// The pod: a path, or the memory of a device.
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PodSpec,
    /// The directory for checkpoint and logs. It is made if it is not there, and has to be empty.
    #[arg(long, value_name = "DIR")]
    pub(crate) log: PathBuf,
    /// The workload whose tables and first rows the database gets.
    #[arg(long, value_enum, value_name = "WORKLOAD")]
    pub(crate) tables_from: Option<TablesFrom>,
    /// A file in TOML that describes tables, for a database without rows.
    #[arg(long, value_name = "FILE", conflicts_with = "tables_from")]
    pub(crate) schema: Option<PathBuf>,
    /// A database without tables, for `tombolo sql`: statements make them.
    #[arg(long, conflicts_with_all = ["tables_from", "schema", "partitions"])]
    pub(crate) sql: bool,
    /// Partitions of the tables that a file describes; one for each host, unless given.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::new().range(1..=65_536))]
    pub(crate) partitions: Option<u32>,
    /// Hosts of the database.
    #[arg(long, value_name = "H", default_value_t = 2, value_parser = homes())]
    pub(crate) hosts: u8,
    /// Threads of each host that run transactions: 1, and with --sql 8, unless given.
    #[arg(long, value_name = "W", value_parser = workers())]
    pub(crate) workers: Option<u16>,
    /// Warehouses of TPC-C; one for each worker, unless given.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::new().range(1..=10_000))]
    pub(crate) warehouses: Option<u32>,
    /// A hundredth of TPC-C's rows.
    #[arg(long)]
    pub(crate) small: bool,
    /// The tables of TPC-C as published, or of YCSB as published.
    #[arg(long)]
    pub(crate) as_published: bool,
    /// Rows of YCSB, or customers of SmallBank, for each host.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::new().range(10..=100_000_000))]
    pub(crate) rows: Option<u32>,
    /// Decides on the rows.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) pod: DbPodArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DbLogArgs {
    /// The directory with checkpoint and logs.
    #[arg(long, value_name = "DIR")]
    pub(crate) log: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct DbInfoArgs {
    #[command(flatten)]
    pub(crate) log: DbLogArgs,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct DbRecoverArgs {
    /// The pod. A database left in it is overwritten. It need not be there.
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PodSpec,
    #[command(flatten)]
    pub(crate) log: DbLogArgs,
    #[command(flatten)]
    pub(crate) pod: DbPodArgs,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct DbDumpArgs {
    #[command(flatten)]
    pub(crate) log: DbLogArgs,
    /// Where to write, instead of to the standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DbLoadArgs {
    /// The pod.
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PodSpec,
    /// The directory for checkpoint and logs. It is made if it is not there, and has to be empty.
    #[arg(long, value_name = "DIR")]
    pub(crate) log: PathBuf,
    /// A file that `tombolo db dump` has written.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: PathBuf,
    #[command(flatten)]
    pub(crate) pod: DbPodArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DbSoakArgs {
    /// The engine.
    #[arg(long, value_enum, default_value = "tigon", value_name = "ENGINE")]
    pub(crate) engine: EngineKind,
    /// End after so many deaths.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = RangedU64ValueParser::<u32>::new().range(1..=100_000))]
    pub(crate) kills: u32,
    /// Hosts, each a process.
    #[arg(long, value_name = "H", default_value_t = 2, value_parser = homes(), env = "TOMBOLO_HOSTS")]
    pub(crate) hosts: u8,
    /// Threads of each host that run transactions.
    #[arg(long, value_name = "W", default_value_t = 2, value_parser = workers())]
    pub(crate) workers: u16,
    /// Warehouses, each with a hundredth of TPC-C's rows.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = RangedU64ValueParser::<u32>::new().range(2..=100))]
    pub(crate) warehouses: u32,
    /// Decides on transactions, and on who is killed when.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The directory for checkpoint and logs, which is kept then; a temporary one, unless given.
    #[arg(long, value_name = "DIR")]
    pub(crate) log: Option<PathBuf>,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Have one transaction count as acknowledged that was never run.
    #[arg(long, hide = true)]
    pub(crate) plant_loss: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DbWorkerArgs {
    /// The host's orders, as JSON.
    #[arg(long)]
    pub(crate) host: String,
}
