//! `tombolo soak`, and its hosts.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tombolo::PodSpec;

use super::shared::{LocalArgs, Sizes, hosts, time};
use crate::output::Format;

pub(super) const SOAK: &str = "\
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

pub(super) const SOAK_EXAMPLES: &str = "\
Examples:
  tombolo soak
  tombolo soak --seconds 600 --hosts 4 --keys 2 --records 1
  tombolo soak --hosts 4 --load a --kills 200
  tombolo soak --hosts 4 --kill-every 1s --stop-every 10s --torn-writes undo
  tombolo soak --hosts 4 --partition 1MiB --move-after 4 --partition-backup --kills 60
  tombolo soak --pod /dev/dax0.0 --seconds 60 --format json";

/// The letter of a YCSB workload of which hosts that are started again can do operations: it
/// inserts nothing.
fn ycsb_without_inserts(text: &str) -> Result<char, String> {
    match text {
        "a" | "b" | "f" => Ok(text.chars().next().expect("it has one letter")),
        _ => Err(format!("{text:?} is none of a, b and f")),
    }
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
    /// YCSB's mix of operations, a (half reads, half writes), b (few writes) or f (reads, and
    /// updates), and its Zipf distribution of objects; instead of all kinds of operations, on all
    /// objects alike.
    #[arg(long, value_name = "WORKLOAD", value_parser = ycsb_without_inserts)]
    pub(crate) load: Option<char>,
    /// Kill a host (SIGKILL) after so much time again and again, on average, such as 200ms, at
    /// random moments. It is started anew at once; another one always goes on.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) kill_every: Option<Duration>,
    /// End after so many hosts were killed, instead of after --seconds; unless --kill-every is
    /// given, one every 200ms.
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
    /// Go on even if `tombolo qualify` has found that the memory does not do what a pod needs: the
    /// checks then show what it does.
    #[arg(long)]
    pub(crate) trust_me: bool,
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
    #[arg(long)]
    pub(crate) trust_me: bool,
}
