//! `tombolo bench`, and the hosts of benchmarks.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tombolo::PodSpec;
use tombolo_workloads::cache::TraceFormat;

use super::db::{
    SMALLBANK, SmallBankArgs, TPCC, TPCC_EXAMPLES, TpccArgs, YCSB_TXN, YCSB_TXN_EXAMPLES,
    YcsbTxnArgs,
};
use super::shared::{LocalArgs, Sizes, WorkloadArgs, hosts, size};
use crate::output::Format;

const PAGES: &str = "\
Pages of one file, read and written by hosts that are processes.

Each operation reads or writes a whole page, chosen by a Zipf distribution. A page that is not in the \
cache is read from the file; one that was written is written back in the background, and before it is \
evicted. Unless --size is given, the pod has room for the whole file.

Pages can be shared in other ways, for comparison: --scheme chooses one, --compare runs several in \
turn, in every round one after the other, and prints ratios. All get the same coherent memory (--scr), \
but hcmeta-unlimited, which gets as much as it needs. Under hcmeta, a page takes some 36 bytes of it to \
be shared; what has none is shared anew when another host wants it: that is churn. On megalon only \
written pages take any, some 4 bytes each.

With --profile all of it is in virtual time: the same page cache in a simulated pod.";

const PAGES_EXAMPLES: &str = "\
Examples:
  tombolo bench pagecache --file-size 256MiB --read-percent 95
  tombolo bench pagecache --file-size 256MiB --size 64MiB --scheme hcmeta
  tombolo bench pagecache --scr 512KiB --warm-up 3 --compare hcmeta,hcmeta-unlimited
  tombolo bench pagecache --scr 512KiB --warm-up 3 --compare hcmeta --owner-service-us 6 --owner-sleep-us 60
  tombolo bench pagecache --profile profiles/megalon.toml --scr 1MiB --threads 14 --hosts 3 --compare hcmeta";

const LIMIT: &str = "\
What operations take, beside the least that this machine takes for them.

A read of a shared object cannot cost less than looking it up in a map and copying it; a write, not less \
than copying the bytes and cleaning their lines. Both are measured here, in turn, in one process: a \
hash map with the same keys and values of the same size, lines that are written and cleaned (those that are known, \
and those that a lookup says), dependent loads, compare-and-swap, and GET and SET of a Redis over loopback, if it is installed; entries of \
the log, against a line cleaned and a compare-and-swap; and a host's reads of objects that are read-shared, then read-write-shared, its \
writes, creates, deletes, and large objects. \"Of limit\" is how much of the limit's speed an \
operation has: 1.00 is as fast. Limits write through the caches; 512 bytes and more are faster past them, which \
is how operations write them, so these may beat their limit. Keys are made before the time begins, \
and but for creates and deletes a fourth as many operations come first that do not count: a row is not charged \
with what others left in the caches. \
Absolute figures change with whatever else runs on the machine; ratios of one run are what counts.

It takes about 2.5 KiB of memory for each object of 1 KiB and 2 GiB besides; with --copies as much again.";

const LIMIT_EXAMPLES: &str = "\
Examples:
  tombolo bench limit
  tombolo bench limit --objects 4000000 --rounds 11
  tombolo bench limit --objects 10000 --value-bytes 100 --format json";

const RESP: &str = "\
Requests by Redis' protocol over loopback, to a host's server and to Redis.

A host joins a pod of its own and serves it; a Redis that keeps nothing on disk is started beside it, if it \
is installed. One thread with several connections then gets and sets values of random keys, from one server \
and the other in every round, with one request at a time on each connection or several (a pipeline). Each \
command's throughput is told, and what it took of processors' time in the server; and both as multiples of Redis'. \
\"Per core\" is operations per second of processors' time: a server that keeps two processors busy to be \
twice as fast has 1.00.";

const RESP_EXAMPLES: &str = "\
Examples:
  tombolo bench resp
  tombolo bench resp --pipeline 1,16,64 --clients 50 --value-bytes 100
  tombolo bench resp --redis /opt/redis/bin/redis-server --format json";

const TRACE: &str = "\
Replay a recorded trace of a cache on hosts that share a pod, and compare with an exact order by last use.

Each host takes the next request when it is through with its last one, asks for the values, and puts those that it \
does not find. The pod evicts by --evict (allkeys-lru, unless given). The hit rate of an exact order by last use \
with the same room stands beside it. Hosts are threads of this process, each with a mapping of its own.

Formats, packed by gzip or not: lines of JSON with hash_ids, the blocks of prompts (llm); records of 24 bytes with \
time, object, size and next access (oracleGeneral); lines of time, key, bytes of key and value, client, operation \
and time to live (csv).";

const TRACE_EXAMPLES: &str = "\
Examples:
  tombolo bench trace conversation.jsonl.gz --hosts 4 --hold 20000
  tombolo bench trace cluster.oracleGeneral --size 1GiB --evict allkeys-lfu --format json
  tombolo bench trace twitter.csv --accesses 1000000 --value-bytes 1024";

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// YCSB over hosts that are processes, or simulated.
    Ycsb(YcsbArgs),
    /// TPC-C, in full or as published with Tigon, over hosts that are processes.
    #[command(long_about = TPCC, after_help = TPCC_EXAMPLES)]
    Tpcc(TpccArgs),
    /// YCSB with transactions of ten operations, over hosts that are processes.
    #[command(long_about = YCSB_TXN, after_help = YCSB_TXN_EXAMPLES)]
    YcsbTxn(YcsbTxnArgs),
    /// SmallBank over hosts that are processes.
    #[command(long_about = SMALLBANK)]
    Smallbank(SmallBankArgs),
    /// Pages of one file, read and written by hosts that are processes.
    #[command(long_about = PAGES, after_help = PAGES_EXAMPLES)]
    Pagecache(PagesArgs),
    /// Operations, beside the least that this machine takes for them.
    #[command(long_about = LIMIT, after_help = LIMIT_EXAMPLES)]
    Limit(LimitArgs),
    /// Requests by Redis' protocol over loopback, to a host's server and to Redis.
    #[command(long_about = RESP, after_help = RESP_EXAMPLES)]
    Resp(RespArgs),
    /// A recorded trace of a cache, replayed by hosts that share a pod.
    #[command(long_about = TRACE, after_help = TRACE_EXAMPLES)]
    Trace(TraceArgs),
}

/// A way to share objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scheme {
    /// Coherence records for objects that are written, a replica of the index per host.
    Megalon,
    /// Index and coherence records in SCR; a host that finds no entry asks the object's owner for
    /// one.
    #[value(name = "hcmeta")]
    HcMeta,
    /// The same, with objects that have no entry in their owner's own memory.
    #[value(name = "hcmeta-local")]
    HcMetaLocal,
    /// hcmeta with as much SCR as it needs, whatever --scr says.
    #[value(name = "hcmeta-unlimited")]
    HcMetaUnlimited,
    /// megalon without coherence records: each write takes two entries of the log.
    #[value(name = "alllog")]
    AllLog,
}

impl Scheme {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Megalon => "megalon",
            Self::HcMeta => "hcmeta",
            Self::HcMetaLocal => "hcmeta-local",
            Self::HcMetaUnlimited => "hcmeta-unlimited",
            Self::AllLog => "alllog",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct YcsbArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// Hosts, each a process; 2, or as many as the profile has, unless given.
    #[arg(long, value_name = "N", value_parser = hosts(), env = "TOMBOLO_HOSTS")]
    pub(crate) hosts: Option<u8>,
    /// Threads of each host; threadcount of the workload, or as many as the profile has cores,
    /// unless given.
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: Option<u32>,
    /// Measure in virtual time, in a simulated pod: profiles/*.toml describe some. Everything runs
    /// in this process, and comes out the same whenever it is repeated with the same seed.
    #[arg(long, value_name = "FILE", conflicts_with = "pod", env = "TOMBOLO_PROFILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Operations before those that are measured, in virtual time; as many as are measured, unless
    /// given.
    #[arg(long, value_name = "N", requires = "profile")]
    pub(crate) warm_up: Option<u64>,
    /// Do not measure afterwards what this machine does of the workload at most: the same
    /// operations on a hash map, with as many threads as there are processors for them; what is
    /// written is cleaned, too.
    #[arg(long)]
    pub(crate) no_limit: bool,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    #[command(flatten)]
    pub(crate) local: LocalArgs,
    #[command(flatten)]
    pub(crate) schemes: SchemeArgs,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Where to create the pod, instead of a new file in /dev/shm (on disk, if that is too small).
    #[arg(long, value_name = "SPEC", env = "TOMBOLO_POD")]
    pub(crate) pod: Option<PodSpec>,
}

#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    /// Objects that are read and written.
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1000..))]
    pub(crate) objects: u64,
    /// Bytes of a value.
    #[arg(long, value_name = "N", default_value_t = 1024,
        value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    pub(crate) value_bytes: u64,
    /// Operations of a round.
    #[arg(long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub(crate) operations: u64,
    /// Rounds; the median counts.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Have another host copy all objects into its own memory, and measure reads of these copies,
    /// too.
    #[arg(long)]
    pub(crate) copies: bool,
    /// The Redis that is asked over loopback.
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    pub(crate) redis: String,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct RespArgs {
    /// Connections.
    #[arg(long, value_name = "N", default_value_t = 16,
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub(crate) clients: usize,
    /// Requests that each of them sends before it reads replies.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,16",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub(crate) pipeline: Vec<usize>,
    /// Keys.
    #[arg(long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) keys: u64,
    /// Bytes of a value.
    #[arg(long, value_name = "N", default_value_t = 1024,
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=65536))]
    pub(crate) value_bytes: usize,
    /// Operations of a round.
    #[arg(long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) operations: u64,
    /// Rounds; the median counts.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Threads of the host's server; one fewer than there are processors, unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) workers: Option<u16>,
    /// The Redis to compare with.
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    pub(crate) redis: String,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The trace.
    pub(crate) file: PathBuf,
    /// How it is written: llm, oracleGeneral or csv. Unless given, its first bytes tell.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) trace_format: Option<TraceFormat>,
    /// Hosts.
    #[arg(long, default_value_t = 1, value_parser = hosts(), env = "TOMBOLO_HOSTS")]
    pub(crate) hosts: u8,
    /// Room for so many values of mean size, as a limit in a larger pod. Unless this or --size is
    /// given: for a tenth of the values of the trace.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) hold: Option<u64>,
    /// Bytes of each value, instead of what the trace says; 4096 where it says nothing.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub(crate) value_bytes: Option<u32>,
    /// Accesses of the trace that are replayed, at most.
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) accesses: Option<usize>,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Where to create the pod, instead of a new file in /dev/shm (on disk, if that is too small).
    #[arg(long, value_name = "SPEC", env = "TOMBOLO_POD")]
    pub(crate) pod: Option<PodSpec>,
}

/// Under which scheme to measure, or which ones to compare.
#[derive(Debug, Args)]
pub(crate) struct SchemeArgs {
    /// How objects are shared. Only megalon survives hosts that die; the others are there to be
    /// compared with.
    #[arg(long, value_enum, default_value_t = Scheme::Megalon)]
    pub(crate) scheme: Scheme,
    /// Run these schemes in turn, each in a pod of its own, and compare them with megalon; all of
    /// them unless named.
    #[arg(long, value_enum, value_name = "SCHEME", value_delimiter = ',', num_args = 0..=1,
        default_missing_value = "megalon,hcmeta,hcmeta-local,hcmeta-unlimited,alllog", conflicts_with = "scheme")]
    pub(crate) compare: Option<Vec<Scheme>>,
    /// How often each of them runs, one after the other in every round; the median counts.
    /// In virtual time once is enough.
    #[arg(long, value_name = "N", default_value_t = 3, requires = "compare",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) owners: OwnerArgs,
}

/// How the owners of objects go about it, under hcmeta.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OwnerArgs {
    /// Under hcmeta, an owner's answer takes so many microseconds at least, however many requests
    /// it has.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) owner_delay_us: u64,
    /// Under hcmeta, an owner serves one request after the other, and takes so many microseconds
    /// for each, besides what it has to do: so those who ask wait for each other. 0: all its
    /// threads serve, and as fast as they can. The published prototype is like --owner-service-us 6
    /// --owner-sleep-us 60 --owner-victims least-written.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) owner_service_us: u64,
    /// Under hcmeta, an owner that has served all requests there were looks for others after so
    /// many microseconds.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) owner_sleep_us: u64,
    /// Under hcmeta, which object an owner takes an entry from when there is none left.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = OwnerVictims::NotUsed)]
    pub(crate) owner_victims: OwnerVictims,
}

/// Which object gives its entry up, under hcmeta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OwnerVictims {
    /// One that was not used lately.
    NotUsed,
    /// The one that was written least, however often it is read.
    LeastWritten,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) local: LocalArgs,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[arg(long)]
    pub(crate) pod: PodSpec,
    #[arg(long)]
    pub(crate) host: u32,
    #[arg(long)]
    pub(crate) hosts: u32,
    #[arg(long)]
    pub(crate) threads: u32,
    #[arg(long, value_enum)]
    pub(crate) scheme: Scheme,
    #[command(flatten)]
    pub(crate) owners: OwnerArgs,
}

/// The operations of hosts on the pages of a file.
#[derive(Debug, Args)]
pub(crate) struct PageLoad {
    /// Threads of each host.
    #[arg(long, default_value_t = 1, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// How long, in seconds.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// Do the same for so many seconds before, which are not counted: the pages come into the
    /// cache.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) warm_up: u64,
    /// Operations that read; the others write a whole page.
    #[arg(long, default_value_t = 95, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) read_percent: u8,
    /// Skew of the popularity of pages, 0 (none) to 0.99 (YCSB's).
    #[arg(long, default_value_t = 0.99, value_name = "THETA", value_parser = skew)]
    pub(crate) zipf: f64,
    /// Size of the file.
    #[arg(long, default_value = "256MiB", value_parser = size, value_name = "SIZE")]
    pub(crate) file_size: u64,
    /// Determines which pages are read and written.
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
}

/// A skew that a Zipf distribution may have here.
fn skew(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|theta| (0.0..=0.99).contains(theta));
    found.ok_or_else(|| format!("{text} is not a number from 0 to 0.99"))
}

#[derive(Debug, Args)]
pub(crate) struct PagesArgs {
    #[command(flatten)]
    pub(crate) load: PageLoad,
    /// Measure in virtual time, in a simulated pod: profiles/*.toml describe some. All pages are in
    /// the cache before, and the file below takes no time.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pod", "folder", "seconds", "warm_up"],
        env = "TOMBOLO_PROFILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Operations that are measured in virtual time, of all threads, after as many that are not.
    #[arg(long, value_name = "N", requires = "profile", default_value_t = 100_000)]
    pub(crate) operations: u64,
    /// Hosts, each a process.
    #[arg(long, default_value_t = 2, value_parser = hosts(), env = "TOMBOLO_HOSTS")]
    pub(crate) hosts: u8,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    #[command(flatten)]
    pub(crate) schemes: SchemeArgs,
    /// Where to put the file, instead of the folder for temporary files.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Where to create the pod, instead of a new file in /dev/shm (on disk, if that is too small).
    #[arg(long, value_name = "SPEC", env = "TOMBOLO_POD")]
    pub(crate) pod: Option<PodSpec>,
}

#[derive(Debug, Args)]
pub(crate) struct PageWorkerArgs {
    #[command(flatten)]
    pub(crate) load: PageLoad,
    #[arg(long)]
    pub(crate) pod: PodSpec,
    #[arg(long)]
    pub(crate) host: u32,
    #[arg(long)]
    pub(crate) hosts: u8,
    #[arg(long, value_enum)]
    pub(crate) scheme: Scheme,
    #[command(flatten)]
    pub(crate) owners: OwnerArgs,
    #[arg(long)]
    pub(crate) file: PathBuf,
}
