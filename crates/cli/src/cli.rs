//! The command line.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{BoolishValueParser, RangedU64ValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tombolo::{MAX_HOSTS, Options, PodSpec, Thresholds};
use tombolo_pod::{DEFAULT_HOSTS, RecordWidth, TornWrites};

use crate::check::args::{self as check, CheckArgs};
use crate::coherence::CoherenceCommand;
use crate::figures::FiguresCommand;
use crate::output::Format;

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

const SOAK: &str = "\
Have hosts contend for a few objects, and check that each one saw what it must.

Hosts are processes. Their threads do random operations on few objects, in a pod that has too few \
coherence records and little memory, so that records change hands and objects move all the time. \
Now and then a host leaves, and is started anew under load. What each operation was told is checked \
for linearizability: whether it is what one copy of the object, used by one client at a time, could \
have answered.

With --kill-every or --kills hosts are killed at random moments, and started anew; with --stop-every they are \
stopped for some time, and the others may go on without them. What a client was at by then may have been done \
or not, or, unless --torn-writes undo is given, may have cost the object its value; whatever a client was told \
is done has to stay. (What is in a host's own memory, by --partition, may be lost with it, unless --partition-backup is given.) How long the clients of other hosts had to wait for an operation is told, of each death and each client the \
longest time.

The exit code is 3 if anything failed: then the part of a history that no order explains is shown, \
or the host that died or hangs. What cannot be decided with reasonable effort is never counted as \
passed: then the exit code is 4. The seed fixes the operations of each thread, but not how those of \
several fall together.";

const MOUNT: &str = "\
Mount a directory through a pod, so that all hosts that do so share one cache of its pages.

Each host runs this command with the same pod and the same backing directory, and sees the same \
tree: what a write or rename on one host has done, the others see at once. Pages are written back \
after about a second, when a file is closed, and when room is needed; fsync makes them durable, \
whichever host wrote them. If power is cut, what was synchronised is in the backing directory.

The pod has to be made for it (pod create --page-cache). It is a cache and nothing else: it may be \
much smaller than the files, and is empty when the first host mounts. While it is mounted nobody \
may change the backing directory by other ways. Files can be mapped privately, not shared; locks \
hold among all hosts.

A host may die at any time; the others go on, and write back what it had written. Data that were \
not synchronised may be lost with it if it dies while it changes them (and never with --torn-writes \
undo): then they cannot be read, and the next fsync of the file fails, once. If all hosts die, the \
next one to mount brings what they had written to its files first, and says how much that was: until \
then nobody may change them.

It takes /dev/fuse, and root or fusermount3. Ctrl-C, SIGTERM and umount end it, after what is dirty \
has been written back.";

const MOUNT_EXAMPLES: &str = "\
Examples:
  tombolo pod create /dev/shm/pages --size 1GiB --page-cache
  tombolo mount --pod /dev/shm/pages /srv/data /mnt/one
  tombolo mount --pod /dev/shm/pages /srv/data /mnt/two";

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

const FENCE: &str = "\
Take a host out of a pod that is dead, or has to be taken for dead: the others go on without it.

Hosts notice on their own if a process of their machine has ended, and fence whoever gives no sign of life \
while they wait for it. This is for operators and cluster managers, who know more: that another machine is down, \
or cut off.

The host may be alive. It finds out before it changes anything that others use, and says so to its clients; what \
it may still be writing into nobody else uses until it is gone. That it is, others learn from its process, or \
from itself, or from --gone: say so only if it really is.";

const POD_CHECK_EXAMPLES: &str = "\
Examples:
  tombolo pod check /dev/shm/pod
  tombolo pod check /dev/shm/pod --repair

Exit code 3 if there are problems.";

const FENCE_EXAMPLES: &str = "\
Examples:
  tombolo pod info /dev/shm/pod
  tombolo pod fence /dev/shm/pod 2
  tombolo pod fence /dev/shm/pod 2 --gone";

const SAVE: &str = "\
Save what a pod holds to a file, while hosts are at work.

This joins the pod as one more host, goes through all keys and reads each object: it is saved as it was at \
some moment meanwhile. What is there all the while is all in the file; what comes or goes may be. Values \
keep their deadlines. Objects whose value went with a host that died are counted, not saved.

The file is written beside its place and put there when it is whole and on disk; what was there before stays \
until then. It is private to its owner.";

const SAVE_EXAMPLES: &str = "\
Examples:
  tombolo pod save /dev/shm/pod monday.pod
  tombolo pod save /dev/dax0.0 latest.pod --force --format json";

const LOAD: &str = "\
Load objects from a file into a pod, which may be in use.

All of the file is checked first: one that is damaged, cut off or of another format is refused, and nothing is \
changed. Then this joins the pod as one more host, and creates the objects one after the other. If that \
comes to no end (an object is there already, the pod is full, Ctrl-C), what was loaded stays, and it is said \
how much is missing; with --existing keep, loading the file once more does the rest. A key whose value was lost \
with a host gets the file's.";

const LOAD_EXAMPLES: &str = "\
Examples:
  tombolo pod create /dev/shm/other --size 4GiB && tombolo pod load /dev/shm/other monday.pod
  tombolo pod load /dev/shm/pod monday.pod --existing keep";

const LIMIT: &str = "\
What operations take, beside the least that this machine takes for them.

A read of a shared object cannot cost less than looking it up in a map and copying it; a write, not less \
than copying the bytes and cleaning their lines. Both are measured here, in turn, in one process: a \
hash map with the same keys and values of the same size, lines that are written and cleaned, dependent loads, \
compare-and-swap; and a host's reads of objects that are read-shared, then read-write-shared, its \
writes, creates, deletes, and large objects. \"Of limit\" is how much of the limit's speed an \
operation has: 1.00 is as fast. Keys are made before the time begins. \
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

const SOAK_EXAMPLES: &str = "\
Examples:
  tombolo soak
  tombolo soak --seconds 600 --hosts 4 --keys 2 --records 1
  tombolo soak --hosts 4 --load a --kills 200
  tombolo soak --hosts 4 --kill-every 1s --stop-every 10s --torn-writes undo
  tombolo soak --hosts 4 --partition 1MiB --move-after 4 --partition-backup --kills 60
  tombolo soak --pod /dev/dax0.0 --seconds 60 --format json";

const CALIBRATE: &str = "\
Measure this machine, and write a profile by which simulated pods are like it.

What caches, memory, atomics and flushes take is measured one by one, on as many processors at once as \
there are hosts; then what the code's own steps take: reads, writes, creates and messages, less what a \
simulated machine with these caches takes for them. Reads and writes are those of a benchmark, with what \
it does to choose and note them. The profile says of every number where it comes from. It is of a machine \
whose processes are the hosts; to get one of a pod, replace the figures of link, device and coherence.

It takes about half a minute, a quiet machine, 512 MiB for each host, and 256 MiB of shared memory.";

const CALIBRATE_EXAMPLES: &str = "\
Examples:
  tombolo calibrate --out here.toml
  tombolo bench ycsb -P b --profile here.toml --threads 1";

/// Share objects and a key-value store among hosts through partly coherent memory.
///
/// A pod is memory that several hosts map: a file in /dev/shm or hugetlbfs, a DAX device, a PCI BAR.
/// `tombolo up` shows all of it at once; `tombolo pod create` and `tombolo serve` are its parts.
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
    Serve(ServeArgs),
    /// Mount a directory whose pages all hosts share.
    #[command(long_about = MOUNT, after_help = MOUNT_EXAMPLES)]
    Mount(MountArgs),
    /// Create pods and look at them.
    #[command(subcommand)]
    Pod(PodCommand),
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
    /// Run the protocols in a simulator whose caches really are incoherent, and check what hosts see.
    #[command(long_about = check::ABOUT, after_help = check::EXAMPLES)]
    Check(CheckArgs),
    /// Have hosts contend for a few objects, and check that each one saw what it must.
    #[command(long_about = SOAK, after_help = SOAK_EXAMPLES)]
    Soak(SoakArgs),
    /// One host of a benchmark.
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// One host of a benchmark of pages.
    #[command(hide = true)]
    PageWorker(PageWorkerArgs),
    /// One host of a soak.
    #[command(hide = true)]
    SoakWorker(SoakWorkerArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum PodCommand {
    /// Create an empty pod.
    Create(CreateArgs),
    /// Tell what a pod is like, and who is in it.
    Info(InfoArgs),
    /// Verify a pod: its superblock and, if nobody uses it, every object.
    #[command(after_help = POD_CHECK_EXAMPLES)]
    Check(PodCheckArgs),
    /// Take a host out of a pod that is dead, or has to be taken for dead.
    #[command(long_about = FENCE, after_help = FENCE_EXAMPLES)]
    Fence(FenceArgs),
    /// Save what a pod holds to a file, while hosts are at work.
    #[command(long_about = SAVE, after_help = SAVE_EXAMPLES)]
    Save(SaveArgs),
    /// Load objects from a file into a pod, which may be in use.
    #[command(long_about = LOAD, after_help = LOAD_EXAMPLES)]
    Load(LoadFileArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// YCSB over hosts that are processes, or simulated.
    Ycsb(YcsbArgs),
    /// Pages of one file, read and written by hosts that are processes.
    #[command(long_about = PAGES, after_help = PAGES_EXAMPLES)]
    Pagecache(PagesArgs),
    /// What operations take, beside the least that this machine takes for them.
    #[command(long_about = LIMIT, after_help = LIMIT_EXAMPLES)]
    Limit(LimitArgs),
    /// Requests by Redis' protocol over loopback, to a host's server and to Redis.
    #[command(long_about = RESP, after_help = RESP_EXAMPLES)]
    Resp(RespArgs),
}

/// A way to share objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scheme {
    /// Coherence records for objects that are written, a replica of the index per host.
    Megalon,
    /// Index and coherence records in SCR; who finds no entry asks the object's owner for one.
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
    /// What it is called.
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

/// How many hosts a pod may have.
fn hosts() -> RangedU64ValueParser<u8> {
    RangedU64ValueParser::new().range(1..=MAX_HOSTS.into())
}

/// A size such as `200MiB`.
fn size(text: &str) -> Result<u64, String> {
    tombolo::parse_size(text)
}

/// A time such as `200ms`, more than none.
fn time(text: &str) -> Result<Duration, String> {
    let expected = || format!("{text:?} is not a time such as 200ms, 5s or 2min");
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[number.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        _ => return Err(expected()),
    };
    let number: f64 = number.parse().map_err(|_| expected())?;
    let time = Duration::try_from_secs_f64(number * seconds).ok();
    time.filter(|time| !time.is_zero()).ok_or_else(expected)
}

/// The letter of a YCSB workload of which hosts that are started again can do operations: it inserts nothing.
fn ycsb_without_inserts(text: &str) -> Result<char, String> {
    match text {
        "a" | "b" | "f" => Ok(text.chars().next().expect("it has one letter")),
        _ => Err(format!("{text:?} is none of a, b and f")),
    }
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Sizes {
    /// Memory for objects (LNR), such as 200MiB or 1.5GiB. Unless given: 1GiB for `up`, what the
    /// workload needs for `bench`, little for `soak`, all that the memory has for `pod create`.
    #[arg(long, value_parser = size, value_name = "SIZE", env = "TOMBOLO_SIZE")]
    pub(crate) size: Option<u64>,
    /// Coherent memory (SCR) for the log's order and coherence records. Unless given: 64MiB (64KiB
    /// for `soak`), or a quarter of a small memory.
    #[arg(long, value_parser = size, value_name = "SIZE", env = "TOMBOLO_SCR")]
    pub(crate) scr: Option<u64>,
    /// Coherence records, at most. Unless given, SCR limits them; `soak` has one for two keys.
    #[arg(long, value_name = "N")]
    pub(crate) records: Option<u64>,
    /// Bits of a coherence record: 8, 16, 24, 32, or auto. Narrow records are more, so that fewer have
    /// to be taken from other objects, but their counters come round sooner, which takes an entry in the
    /// log each time. With auto, records are wide while there is room, then narrow, and wide again for
    /// objects that are written often. Unless given: 32.
    #[arg(long, value_name = "N|auto", env = "TOMBOLO_RECORD_BITS")]
    pub(crate) record_bits: Option<RecordWidth>,
    /// Shards of the log: 1, 2, 4, 8 or 16, among which objects are divided by their keys' hashes.
    /// Unless given: 1. More help only hosts whose many threads create and delete objects.
    #[arg(long, value_name = "N")]
    pub(crate) log_shards: Option<u64>,
    /// What becomes of an object whose writer dies in the middle of changing it: `lost`, which is
    /// reported until it is written anew or deleted, and a miss in the key-value store; or `undo`, its old
    /// value, for which each write copies what it overwrites first.
    #[arg(long, value_name = "lost|undo", default_value_t, env = "TOMBOLO_TORN_WRITES")]
    pub(crate) torn_writes: TornWrites,
    /// Keep what is in hosts' own memory (--partition) in the pod, too, as it was last written: if such a host dies, its
    /// objects are there, where else they would be lost. Each write then goes to both, and costs about what it would without a
    /// partition; reads stay as fast. What becomes of an object that is just being written --torn-writes says.
    #[arg(long, value_parser = BoolishValueParser::new(), env = "TOMBOLO_PARTITION_BACKUP")]
    pub(crate) partition_backup: bool,
}

/// How much of its own memory a host gives to objects, and to which.
#[derive(Clone, Debug, Args)]
pub(crate) struct LocalArgs {
    /// Each host's own memory for copies of objects that it reads, such as 1GiB; unless given: none.
    #[arg(long, value_parser = size, value_name = "SIZE", env = "TOMBOLO_COPIES")]
    pub(crate) copies: Option<u64>,
    /// An object is copied once a host has accessed it so often, without noticing another.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) copy_after: u32,
    /// Each host's own memory for objects that it uses alone: they move there, and come back when another
    /// host asks. Unless given: none. What is there is lost if the host dies, unless the pod is created with
    /// --partition-backup.
    #[arg(long, value_parser = size, value_name = "SIZE", env = "TOMBOLO_PARTITION")]
    pub(crate) partition: Option<u64>,
    /// An object moves there once a host has accessed it so often without noticing another; twice as
    /// often each time it had to be brought back.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) move_after: u32,
    /// Who waits for a host that has given no sign of life for so long goes on without it. (A process of the
    /// same machine that has ended is noticed at once.)
    #[arg(long, value_name = "MS", default_value_t = 150, value_parser = clap::value_parser!(u64).range(10..), env = "TOMBOLO_HOST_TIMEOUT_MS")]
    pub(crate) host_timeout_ms: u64,
}

impl LocalArgs {
    /// How a host takes part.
    pub(crate) fn options(&self) -> Options {
        Options {
            copies_bytes: self.copies.unwrap_or(0),
            home_bytes: self.partition.unwrap_or(0),
            placement: Arc::new(Thresholds {
                copy_after: self.copy_after,
                move_after: self.move_after,
            }),
            host_timeout: Duration::from_millis(self.host_timeout_ms),
            ..Options::default()
        }
    }

    /// The same, for a host that this process starts.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec![
            format!("--copy-after={}", self.copy_after),
            format!("--move-after={}", self.move_after),
            format!("--host-timeout-ms={}", self.host_timeout_ms),
        ];
        words.extend(self.copies.map(|bytes| format!("--copies={bytes}")));
        words.extend(self.partition.map(|bytes| format!("--partition={bytes}")));
        words
    }
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Hosts, each a process.
    #[arg(long, default_value_t = 3, value_parser = hosts(), env = "TOMBOLO_HOSTS")]
    pub(crate) hosts: u8,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    #[command(flatten)]
    pub(crate) local: LocalArgs,
    /// The first host's port; the next host has the next port.
    #[arg(long, default_value_t = 7000, env = "TOMBOLO_PORT")]
    pub(crate) port: u16,
    /// Run YCSB inside every host, next to its server; without inserts once the pod is full.
    #[arg(long, value_name = "WORKLOAD", value_parser = ["a", "b", "c", "d", "f"])]
    pub(crate) load: Option<String>,
    /// Stop after this many seconds, instead of at Ctrl-C.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: Option<u64>,
    /// Clients have to give this password.
    #[arg(long, value_name = "PASSWORD", env = "TOMBOLO_REQUIREPASS", hide_env_values = true)]
    pub(crate) requirepass: Option<String>,
    /// Where to create the pod, instead of a new file in /dev/shm (on disk, if that is too small).
    #[arg(long, value_name = "SPEC", env = "TOMBOLO_POD")]
    pub(crate) pod: Option<PodSpec>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) local: LocalArgs,
    /// The pod to join: /dev/shm/pod, /dev/dax0.0, or SCR+LNR.
    #[arg(long, value_name = "SPEC", env = "TOMBOLO_POD")]
    pub(crate) pod: PodSpec,
    /// Address and port to listen on. Any other than loopback takes --requirepass.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7000", env = "TOMBOLO_LISTEN")]
    pub(crate) listen: String,
    /// Address and port at which /metrics is served, as Prometheus reads it.
    #[arg(long, value_name = "ADDR", env = "TOMBOLO_METRICS")]
    pub(crate) metrics: Option<String>,
    /// Clients have to give this password (AUTH).
    #[arg(long, value_name = "PASSWORD", env = "TOMBOLO_REQUIREPASS", hide_env_values = true)]
    pub(crate) requirepass: Option<String>,
    /// Threads that serve connections; as many as there are processors, unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) workers: Option<u16>,
    /// Connections at a time.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) max_clients: usize,
    /// Stop when the process that started this one ends.
    #[arg(long, hide = true)]
    pub(crate) with_parent: bool,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MountArgs {
    /// The pod to join, created with --page-cache: /dev/shm/pages, /dev/dax0.0, or SCR+LNR.
    #[arg(long, value_name = "SPEC", env = "TOMBOLO_POD")]
    pub(crate) pod: PodSpec,
    /// The directory whose files are shared; all hosts have to reach the same one.
    pub(crate) backing: PathBuf,
    /// An empty directory.
    pub(crate) mountpoint: PathBuf,
    /// Threads that answer the kernel.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// Write back what has been dirty for so long, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub(crate) write_back_ms: u64,
    /// Stop when the process that started this one ends.
    #[arg(long, hide = true)]
    pub(crate) with_parent: bool,
}

/// The load that `up` puts on a host.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    #[arg(long, hide = true)]
    pub(crate) load: Option<char>,
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) load_records: u64,
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) load_host: u32,
    #[arg(long, hide = true, default_value_t = 1)]
    pub(crate) load_hosts: u32,
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Where: /dev/shm/pod, /dev/dax0.0, or SCR+LNR; each may have ,size= ,offset= ,huge ,numa=.
    pub(crate) spec: PodSpec,
    /// Hosts that may be in the pod at once, up to 64. Each takes 256 bytes of coherent memory (64
    /// more for each further log shard), and some of the other, whether it is there or not.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_HOSTS, value_parser = hosts())]
    pub(crate) hosts: u8,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// Make it for a page cache (`tombolo mount`), with a mark per coherence record: 1/32 more SCR.
    /// Such a pod is empty again once all hosts have left it.
    #[arg(long)]
    pub(crate) page_cache: bool,
    /// Overwrite what is there. A pod that hosts of this machine use is never overwritten.
    #[arg(long)]
    pub(crate) force: bool,
    /// Say what would be created, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// The pod: /dev/shm/pod, /dev/dax0.0, or SCR+LNR.
    pub(crate) spec: PodSpec,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct PodCheckArgs {
    /// The pod: /dev/shm/pod, /dev/dax0.0, or SCR+LNR.
    pub(crate) spec: PodSpec,
    /// First put in order what hosts have left behind that were killed, all of them; whoever opens the pod
    /// next does that, too.
    #[arg(long)]
    pub(crate) repair: bool,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct FenceArgs {
    /// The pod: /dev/shm/pod, /dev/dax0.0, or SCR+LNR.
    pub(crate) spec: PodSpec,
    /// The host's number, as `pod info` tells it.
    pub(crate) host: u8,
    /// The host runs nowhere any more, and its machine has nothing left to write.
    #[arg(long)]
    pub(crate) gone: bool,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct SaveArgs {
    /// The pod: /dev/shm/pod, /dev/dax0.0, or SCR+LNR.
    pub(crate) spec: PodSpec,
    /// Where to save it.
    pub(crate) file: PathBuf,
    /// Replace the file if there is one.
    #[arg(long)]
    pub(crate) force: bool,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// What becomes of an object that is in a pod already when a file is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Existing {
    /// The load stops there.
    Fail,
    /// It stays as it is.
    Keep,
    /// It gets the file's value.
    Replace,
}

#[derive(Debug, Args)]
pub(crate) struct LoadFileArgs {
    /// The pod: /dev/shm/pod, /dev/dax0.0, or SCR+LNR.
    pub(crate) spec: PodSpec,
    /// A file that `tombolo pod save` has made.
    pub(crate) file: PathBuf,
    /// What becomes of an object that is there already.
    #[arg(long, value_enum, default_value_t = Existing::Fail)]
    pub(crate) existing: Existing,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// Which workload to run.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkloadArgs {
    /// A YCSB property file, or a letter for a stock workload: a, b, c, d, f. May be given several
    /// times; later properties override earlier ones.
    #[arg(short = 'P', value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// A YCSB property, such as recordcount=1000000; overrides the files.
    #[arg(short = 'p', value_name = "KEY=VALUE")]
    pub(crate) properties: Vec<String>,
    /// Determines keys, values and the order of operations.
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Check every value that is read, byte by byte; updates then write whole values.
    #[arg(long)]
    pub(crate) verify: bool,
}

#[derive(Debug, Args)]
pub(crate) struct YcsbArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// Hosts, each a process; 2, or as many as the profile has, unless given.
    #[arg(long, value_name = "N", value_parser = hosts(), env = "TOMBOLO_HOSTS")]
    pub(crate) hosts: Option<u8>,
    /// Threads of each host; threadcount of the workload, or as many as the profile has cores, unless
    /// given.
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: Option<u32>,
    /// Measure in virtual time, in a simulated pod: profiles/*.toml describe some. Everything runs in this
    /// process, and comes out the same whenever it is repeated with the same seed.
    #[arg(long, value_name = "FILE", conflicts_with = "pod", env = "TOMBOLO_PROFILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Operations before those that are measured, in virtual time; as many as are measured, unless given.
    #[arg(long, value_name = "N", requires = "profile")]
    pub(crate) warm_up: Option<u64>,
    /// Do not measure afterwards what this machine does of the workload at most: the same operations on a hash
    /// map, with as many threads as there are processors for them; what is written is cleaned, too.
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
    /// Have another host copy all objects into its own memory, and measure reads of these copies, too.
    #[arg(long)]
    pub(crate) copies: bool,
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
    /// Threads of the host's server; as many as there are processors, unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) workers: Option<u16>,
    /// The Redis to compare with.
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    pub(crate) redis: String,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// Under which scheme to measure, or which ones to compare.
#[derive(Debug, Args)]
pub(crate) struct SchemeArgs {
    /// How objects are shared. Only megalon survives hosts that die; the others are there to be compared with.
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

/// How fast the owners of objects answer, under hcmeta.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OwnerArgs {
    /// Under hcmeta, an owner's answer takes so many microseconds at least, however many requests it
    /// has.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) owner_delay_us: u64,
    /// Under hcmeta, an owner serves one request after the other, and takes so many microseconds for
    /// each, besides what it has to do: so those who ask wait for each other. 0: all its threads serve,
    /// and as fast as they can. The published prototype is like --owner-service-us 6 --owner-sleep-us 60.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) owner_service_us: u64,
    /// Under hcmeta, an owner that has served all requests there were looks for others after so many
    /// microseconds.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) owner_sleep_us: u64,
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Where to write the profile, instead of to the standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// What the profile is called.
    #[arg(long, value_name = "NAME", default_value = "this machine")]
    pub(crate) name: String,
    /// Hosts among which the processors are divided.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) hosts: u32,
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

/// What hosts do with the pages of a file.
#[derive(Debug, Args)]
pub(crate) struct PageLoad {
    /// Threads of each host.
    #[arg(long, default_value_t = 1, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// How long, in seconds.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// Do the same for so many seconds before, which are not counted: the pages come into the cache.
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
    /// Measure in virtual time, in a simulated pod: profiles/*.toml describe some. All pages are in the
    /// cache before, and the file below takes no time.
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

#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    /// How long, in seconds; Ctrl-C ends it earlier.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// Hosts, each a process; one of them is away now and then.
    #[arg(long, default_value_t = 3, value_name = "H", value_parser = hosts(), env = "TOMBOLO_HOSTS")]
    pub(crate) hosts: u8,
    /// Threads of each host.
    #[arg(long, default_value_t = 2, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: u32,
    /// Objects they contend for.
    #[arg(long, default_value_t = 8, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) keys: u32,
    /// YCSB's mix of operations, a (half reads, half writes), b (few writes) or f (reads, and updates), and its Zipf
    /// distribution of objects; instead of all kinds of operations, on all objects alike.
    #[arg(long, value_name = "WORKLOAD", value_parser = ycsb_without_inserts)]
    pub(crate) load: Option<char>,
    /// Kill a host (SIGKILL) after so much time again and again, on average, such as 200ms, at random moments. It is
    /// started anew at once; another one always goes on.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) kill_every: Option<Duration>,
    /// End after so many hosts were killed, instead of after --seconds; unless --kill-every is given, one every
    /// 200ms.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "seconds")]
    pub(crate) kills: Option<u64>,
    /// Stop a host (SIGSTOP) after so much time again and again, on average, at random moments.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) stop_every: Option<Duration>,
    /// How long such a host stands still.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    pub(crate) stop_for: Duration,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    #[command(flatten)]
    pub(crate) local: LocalArgs,
    /// Determines the operations of each thread.
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Where to create the pod, instead of a new file in /dev/shm (on disk, if that is too small).
    #[arg(long, value_name = "SPEC", env = "TOMBOLO_POD")]
    pub(crate) pod: Option<PodSpec>,
    /// Have one read report a value that was overwritten before it began.
    #[arg(long, hide = true)]
    pub(crate) plant_stale_read: bool,
    /// Have one read report that a value is lost which is there.
    #[arg(long, hide = true)]
    pub(crate) plant_loss: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SoakWorkerArgs {
    #[command(flatten)]
    pub(crate) local: LocalArgs,
    #[arg(long)]
    pub(crate) pod: PodSpec,
    #[arg(long)]
    pub(crate) journal: PathBuf,
    #[arg(long)]
    pub(crate) load: Option<char>,
    #[arg(long)]
    pub(crate) host: u32,
    #[arg(long)]
    pub(crate) life: u32,
    #[arg(long)]
    pub(crate) threads: u32,
    #[arg(long)]
    pub(crate) keys: u32,
    #[arg(long)]
    pub(crate) seed: u64,
    #[arg(long)]
    pub(crate) plant_stale_read: bool,
    #[arg(long)]
    pub(crate) plant_loss: bool,
}
