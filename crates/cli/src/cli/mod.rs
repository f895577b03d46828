//! The command line.

mod bench;
mod db;
mod hosts;
mod pod;
mod qualify;
mod shared;
mod soak;
mod sql;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::check::args::{self as check, CheckArgs};
use crate::coherence::CoherenceCommand;
use crate::figures::FiguresCommand;
use crate::region::{RegionCommand, RegionWorkerArgs};
use crate::tier::TierCommand;

pub(crate) use bench::{
    BenchCommand, LimitArgs, OwnerArgs, OwnerVictims, PageLoad, PageWorkerArgs, PagesArgs,
    RespArgs, Scheme, TraceArgs, WorkerArgs, YcsbArgs,
};
pub(crate) use db::{
    DbCommand, DbCreateArgs, DbDumpArgs, DbInfoArgs, DbLoadArgs, DbLogArgs, DbPodArgs,
    DbRecoverArgs, DbSoakArgs, DbWorkerArgs, EngineKind, LogMode, Remote, SmallBankArgs,
    SmallBankScale, TablesFrom, TpccArgs, TpccScale, TransactionArgs, YcsbTxnArgs, YcsbTxnScale,
};
pub(crate) use hosts::{LoadArgs, MountArgs, ServeArgs, UpArgs};
pub(crate) use pod::{
    CreateArgs, Existing, FenceArgs, InfoArgs, ListArgs, LoadFileArgs, PodCheckArgs, PodCommand,
    RemoveArgs, SaveArgs,
};
pub(crate) use qualify::{DyingWriterArgs, QualifyArgs};
pub(crate) use shared::{LocalArgs, LogArgs, Sizes, WorkloadArgs, size};
pub(crate) use soak::{SoakArgs, SoakWorkerArgs};
pub(crate) use sql::SqlArgs;

use hosts::{MOUNT, MOUNT_EXAMPLES, SERVE};
use qualify::{QUALIFY, QUALIFY_EXAMPLES};
use soak::{SOAK, SOAK_EXAMPLES};
use sql::{SQL, SQL_EXAMPLES};

const EXAMPLES: &str = "\
Examples:
  tombolo up --load b --seconds 10
  tombolo pod create /dev/shm/my-pod --size 1GiB --scr 64MiB
  tombolo serve --pod /dev/shm/my-pod --listen 127.0.0.1:7000
  tombolo mount --pod /dev/shm/my-pages /srv/data /mnt/data
  tombolo bench ycsb -P a -p recordcount=100000 --hosts 2 --format json
  tombolo figures megalon --scale 0.1
  tombolo check --seeds 1000
  tombolo soak --seconds 60";

const CALIBRATE: &str = "\
Measure this machine, and write a profile by which simulated pods are like it.

What caches, memory, atomics and flushes take is measured one by one, on as many processors at once as \
there are hosts; then what the code's own steps take: reads, writes, creates and messages, less what a \
simulated machine with these caches takes for them. Reads and writes are those of a benchmark, with what \
it does to choose and note them. The profile says of every number where it comes from. It is of a machine \
whose processes are the hosts; to get one of a pod, replace the figures of link, device and coherence.

It takes about 40 s, a quiet machine, 512 MiB for each host, and 256 MiB of shared memory.";

const CALIBRATE_EXAMPLES: &str = "\
Examples:
  tombolo calibrate --out here.toml
  tombolo bench ycsb -P b --profile here.toml --threads 1";

/// Share objects and a key-value store among hosts through partly coherent memory.
///
/// A pod is memory that several hosts map: a file in /dev/shm or hugetlbfs, a DAX device, a PCI
/// BAR. `tombolo up` shows all of it at once; `tombolo pod create` and `tombolo serve` are its
/// parts.
#[derive(Debug, Parser)]
#[command(name = "tombolo", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// A TOML file with options, in a table per command: [up], [serve], [pod.create], [bench.ycsb],
    /// [bench.pagecache], [check], [soak].
    ///
    /// Environment variables override it (TOMBOLO_PORT, TOMBOLO_SIZE, ...), and flags override
    /// those.
    #[arg(long, global = true, env = "TOMBOLO_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a pod in shared memory and start a server per host, until Ctrl-C.
    Up(UpArgs),
    /// Join a pod and serve it to Redis clients.
    #[command(long_about = SERVE)]
    Serve(ServeArgs),
    /// Mount a directory whose pages all hosts share.
    #[command(long_about = MOUNT, after_help = MOUNT_EXAMPLES)]
    Mount(MountArgs),
    /// Create pods and look at them.
    #[command(subcommand)]
    Pod(PodCommand),
    /// Find out what hosts can do with a memory that they share.
    #[command(long_about = QUALIFY, after_help = QUALIFY_EXAMPLES)]
    Qualify(QualifyArgs),
    /// Serve SQL by PostgreSQL's protocol, as one host of a database.
    #[command(long_about = SQL, after_help = SQL_EXAMPLES)]
    Sql(SqlArgs),
    /// Create, check, recover, dump and load databases.
    #[command(subcommand)]
    Db(DbCommand),
    /// Measure.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Measure this machine, and write a profile by which simulated pods are like it.
    #[command(long_about = CALIBRATE, after_help = CALIBRATE_EXAMPLES)]
    Calibrate(CalibrateArgs),
    /// Rerun a paper's evaluation in virtual time.
    #[command(subcommand)]
    Figures(FiguresCommand),
    /// Memory nodes that hosts share: which coherence protocol is how fast, and that each is right.
    #[command(subcommand)]
    Coherence(CoherenceCommand),
    /// Run the protocols in a simulator whose caches really are incoherent, and check what hosts
    /// see.
    #[command(long_about = check::ABOUT, after_help = check::EXAMPLES)]
    Check(CheckArgs),
    /// Have hosts contend for a few objects, and check that each one saw what it must.
    #[command(long_about = SOAK, after_help = SOAK_EXAMPLES)]
    Soak(SoakArgs),
    /// Pages of one process in two tiers of memory.
    #[command(subcommand)]
    Tier(TierCommand),
    /// Memory that processes share by pages.
    #[command(subcommand)]
    Region(RegionCommand),
    /// One host of a benchmark.
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// One host of a benchmark of pages.
    #[command(hide = true)]
    PageWorker(PageWorkerArgs),
    /// One host of a database.
    #[command(hide = true)]
    DbWorker(DbWorkerArgs),
    /// A writer that dies, for `qualify`.
    #[command(hide = true)]
    DyingWriter(DyingWriterArgs),
    /// One host of a soak.
    #[command(hide = true)]
    SoakWorker(SoakWorkerArgs),
    /// One host of a program over a region.
    #[command(hide = true)]
    RegionWorker(RegionWorkerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Where to write the profile, instead of to the standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// The profile's name.
    #[arg(long, value_name = "NAME", default_value = "this machine")]
    pub(crate) name: String,
    /// Hosts among which the processors are divided.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) hosts: u32,
    /// How often all is measured, some seconds each time. Of each number the profile has the
    /// median: a machine that others use, too, is not the same from one round to the next.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
}
