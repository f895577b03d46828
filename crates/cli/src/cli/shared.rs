//! Arguments of several commands.

use std::sync::Arc;
use std::time::Duration;

use clap::builder::{BoolishValueParser, RangedU64ValueParser};
use clap::{Args, ValueEnum};
use tombolo::{MAX_HOSTS, Options, Thresholds};
use tombolo_sharing::{EvictionPolicy, RecordWidth, TornWrites};
use tracing::level_filters::LevelFilter;

use crate::operation::LogFormat;

/// How many hosts a pod may have.
pub(super) fn hosts() -> RangedU64ValueParser<u8> {
    RangedU64ValueParser::new().range(1..=MAX_HOSTS.into())
}

/// A size such as `200MiB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    tombolo::parse_size(text)
}

/// A time such as `200ms`, more than none.
pub(super) fn time(text: &str) -> Result<Duration, String> {
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
    /// Bits of a coherence record: 8, 16, 24, 32, or auto. Narrow records are more, so that fewer
    /// have to be taken from other objects, but their counters come round sooner, which takes an
    /// entry in the log each time. With auto, records are wide while there is room, then narrow,
    /// and wide again for objects that are written often. Unless given: 32.
    #[arg(long, value_name = "N|auto", env = "TOMBOLO_RECORD_BITS")]
    pub(crate) record_bits: Option<RecordWidth>,
    /// Shards of the log: 1, 2, 4, 8 or 16, among which objects are divided by their keys' hashes.
    /// Unless given: 1. More help only hosts whose many threads create and delete objects.
    #[arg(long, value_name = "N")]
    pub(crate) log_shards: Option<u64>,
    /// The fate of an object whose writer dies in the middle of changing it: `lost`, which is
    /// reported until it is written anew or deleted, and a miss in the key-value store; or `undo`,
    /// its old value, for which each write copies what it overwrites first.
    #[arg(long, value_name = "lost|undo", default_value_t, env = "TOMBOLO_TORN_WRITES")]
    pub(crate) torn_writes: TornWrites,
    /// Keep what is in hosts' own memory (--partition) in the pod, too, as it was last written: if
    /// such a host dies, its objects are there, where else they would be lost. Each write then goes
    /// to both, and costs about what it would without a partition; reads stay as fast.
    /// --torn-writes says what becomes of an object that is just being written.
    #[arg(long, value_parser = BoolishValueParser::new(), env = "TOMBOLO_PARTITION_BACKUP")]
    pub(crate) partition_backup: bool,
    /// Which values of the key-value store go when there is no room: noeviction (a write fails),
    /// allkeys-lru, allkeys-lfu, allkeys-random, or, only of those with a deadline, volatile-lru,
    /// volatile-lfu, volatile-ttl, volatile-random. `CONFIG SET maxmemory-policy` changes it.
    /// Unless given: noeviction, and allkeys-lru for `bench trace`.
    #[arg(long, value_name = "POLICY", env = "TOMBOLO_EVICT")]
    pub(crate) evict: Option<EvictionPolicy>,
}

/// How much of its own memory a host gives to objects, and to which.
#[derive(Clone, Debug, Args)]
pub(crate) struct LocalArgs {
    /// Each host's own memory for copies of objects that it reads, such as 1GiB; unless given:
    /// none.
    #[arg(long, value_parser = size, value_name = "SIZE", env = "TOMBOLO_COPIES")]
    pub(crate) copies: Option<u64>,
    /// An object is copied once a host has accessed it so often, without noticing another.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) copy_after: u32,
    /// Each host's own memory for objects that it uses alone: they move there, and come back when
    /// another host asks. Unless given: none. Objects there are lost if the host dies, unless the
    /// pod is created with --partition-backup.
    #[arg(long, value_parser = size, value_name = "SIZE", env = "TOMBOLO_PARTITION")]
    pub(crate) partition: Option<u64>,
    /// An object moves there once a host has accessed it so often without noticing another; twice
    /// as often each time it had to be brought back.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) move_after: u32,
    /// A host that waits for another one, which has given no sign of life for so long, goes on
    /// without it. (A process of the same machine that has ended is noticed at once.)
    #[arg(long, value_name = "MS", default_value_t = 150, value_parser = clap::value_parser!(u64).range(10..), env = "TOMBOLO_HOST_TIMEOUT_MS")]
    pub(crate) host_timeout_ms: u64,
}

impl LocalArgs {
    /// How a host takes part.
    pub(crate) fn options(&self) -> Options {
        Options {
            copies_bytes: self.copies.unwrap_or(0),
            partition_bytes: self.partition.unwrap_or(0),
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

/// The level and the format of a host's log on the standard error.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LogArgs {
    /// Log events of this level and above: off, error, warn, info, debug or trace. Unless given:
    /// info for `serve`, warn for `mount` and the hosts of `up`.
    #[arg(long, value_name = "LEVEL", env = "TOMBOLO_LOG")]
    pub(crate) log_level: Option<LevelFilter>,
    /// How an event is written: a line of text, or a JSON object a line.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, env = "TOMBOLO_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,
}

impl LogArgs {
    /// The same, for a host that this process starts.
    pub(crate) fn words(&self) -> [String; 2] {
        let level = self.log_level.unwrap_or(LevelFilter::WARN);
        let format = self.log_format.to_possible_value().expect("no format is hidden");
        [format!("--log-level={level}"), format!("--log-format={}", format.get_name())]
    }
}

/// Which workload to run.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkloadArgs {
    /// A YCSB property file, or a letter for a stock workload: a, b, c, d, f. May be given several
    /// times; later properties override earlier ones. In an options file: files = ["a",
    /// "my.properties"].
    #[arg(short = 'P', value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// A YCSB property, such as recordcount=1000000; overrides the files. In an options file:
    /// properties = ["recordcount=1000000"].
    #[arg(short = 'p', value_name = "KEY=VALUE")]
    pub(crate) properties: Vec<String>,
    /// Determines keys, values and the order of operations.
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Check every value that is read, byte by byte; updates then write whole values.
    #[arg(long)]
    pub(crate) verify: bool,
}
