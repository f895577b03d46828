//! `tombolo up`, `serve` and `mount`: hosts that others use.

use std::path::PathBuf;

use clap::Args;
use tombolo::PodSpec;
use tombolo_mount::MountOptions;

use super::shared::{LocalArgs, LogArgs, Sizes, hosts};

pub(super) const SERVE: &str = "\
Join a pod and serve it to Redis clients.

The others fence a host that gives no sign of life, or that an operator tells them to. A host that \
finds itself fenced says so, ends its clients' connections, and ends with exit code 5; with --rejoin \
it joins again instead. At the metrics address, /healthz says 200 while the host is in the pod, and \
503 when it is not.";

pub(super) const MOUNT: &str = "\
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

pub(super) const MOUNT_EXAMPLES: &str = "\
Examples:
  tombolo pod create /dev/shm/pages --size 1GiB --page-cache
  tombolo mount --pod /dev/shm/pages /srv/data /mnt/one
  tombolo mount --pod /dev/shm/pages /srv/data /mnt/two";

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
    /// A host that lives and gives no answer for so many seconds is killed and started again.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(2..))]
    pub(crate) answer_within: u64,
    /// Clients have to give this password.
    #[arg(long, value_name = "PASSWORD", env = "TOMBOLO_REQUIREPASS", hide_env_values = true)]
    pub(crate) requirepass: Option<String>,
    /// Where to create the pod, instead of a new file in /dev/shm (on disk, if that is too small).
    #[arg(long, value_name = "SPEC", env = "TOMBOLO_POD")]
    pub(crate) pod: Option<PodSpec>,
    /// Port of the first host's page and metrics, as of `serve --metrics`; the next host has the
    /// next port. Unless given: none.
    #[arg(long, value_name = "PORT", env = "TOMBOLO_METRICS_PORT")]
    pub(crate) metrics_port: Option<u16>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
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
    /// Address and port of a page that shows this host and its pod, of /metrics, as Prometheus
    /// reads it, and of /healthz.
    #[arg(long, value_name = "ADDR", env = "TOMBOLO_METRICS")]
    pub(crate) metrics: Option<String>,
    /// Clients have to give this password (AUTH).
    #[arg(long, value_name = "PASSWORD", env = "TOMBOLO_REQUIREPASS", hide_env_values = true)]
    pub(crate) requirepass: Option<String>,
    /// Threads that serve connections; one fewer than there are processors, unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) workers: Option<u16>,
    /// Connections at a time.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) max_clients: usize,
    /// Join again, as a new host at the same address, after the others have fenced this one.
    #[arg(long)]
    pub(crate) rejoin: bool,
    /// Go on even if `tombolo qualify` has found that the memory does not do what a pod needs.
    #[arg(long)]
    pub(crate) trust_me: bool,
    /// Stop when the process that started this one ends.
    #[arg(long, hide = true)]
    pub(crate) with_parent: bool,
    #[command(flatten)]
    pub(crate) log: LogArgs,
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
    /// As of `mount -o`: ro, nosuid, nodev, noexec, allow_other. Only what is mounted `ro` can be
    /// mapped shared, for reading.
    #[arg(short = 'o', long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub(crate) options: MountOptions,
    /// Threads that answer the kernel.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// Write back what has been dirty for so long, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub(crate) write_back_ms: u64,
    /// Address and port of a page that shows this host and its pod, of /metrics, as Prometheus
    /// reads it, and of /healthz.
    #[arg(long, value_name = "ADDR", env = "TOMBOLO_METRICS")]
    pub(crate) metrics: Option<String>,
    /// Go on even if `tombolo qualify` has found that the memory does not do what a pod needs.
    #[arg(long)]
    pub(crate) trust_me: bool,
    /// Stop when the process that started this one ends.
    #[arg(long, hide = true)]
    pub(crate) with_parent: bool,
    #[command(flatten)]
    pub(crate) log: LogArgs,
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
