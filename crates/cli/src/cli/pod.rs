//! `tombolo pod`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tombolo::PodSpec;
use tombolo_pod::DEFAULT_HOSTS;

use super::shared::{Sizes, hosts, size};
use crate::output::Format;

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
  tombolo pod save /dev/dax0.0 latest.pod --force --format json
  tombolo pod save /dev/shm/pod - | zstd > monday.pod.zst";

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

#[derive(Debug, Subcommand)]
pub(crate) enum PodCommand {
    /// Create an empty pod.
    Create(CreateArgs),
    /// Tell what a pod is like, and who is in it.
    Info(InfoArgs),
    /// List pods that are files, and tell which of them nobody uses.
    List(ListArgs),
    /// Remove the files of a pod that nobody uses.
    Remove(RemoveArgs),
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

/// Permissions such as `660`.
fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|&mode| mode <= 0o777);
    mode.ok_or_else(|| format!("{text:?} is no file mode such as 660"))
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Where: /dev/shm/pod, /dev/dax0.0, or SCR+LNR; each may have ,size= ,offset= ,huge ,numa=.
    pub(crate) spec: PodSpec,
    /// Hosts that may be in the pod at once, up to 64. Each takes 896 to 3,136 bytes of coherent
    /// memory (64 more for each further log shard), and some of the other, whether it is there or
    /// not.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_HOSTS, value_parser = hosts())]
    pub(crate) hosts: u8,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// Make it for a page cache (`tombolo mount`), with a mark per coherence record: 1/32 more SCR.
    /// Pages are in no pod any more once all hosts have left it. With a size, the pod has so much
    /// of its LNR for pages, and the rest for objects (`tombolo serve`), side by side.
    #[arg(long, value_parser = size, value_name = "SIZE", num_args = 0..=1, require_equals = true)]
    pub(crate) page_cache: Option<Option<u64>>,
    /// Bytes of LNR for messages that clients of different hosts publish, for all hosts together: a
    /// message is at most a quarter of a host's share. Unless given, 1/64 of LNR, and up to 1 MiB
    /// per host; 0 for none, so that PUBLISH and SUBSCRIBE are refused.
    #[arg(long, value_parser = size_or_none, value_name = "SIZE")]
    pub(crate) messages: Option<u64>,
    /// The permissions of the pod's files, as `chmod` takes them: 660 lets a group's processes
    /// join. Unless given, a new file is its owner's alone. Devices stay as they are.
    #[arg(long, value_parser = mode, value_name = "MODE")]
    pub(crate) mode: Option<u32>,
    /// The group of the pod's files. Its processes may join if --mode lets them.
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
    /// Do nothing if there is a pod already: for a service that starts again.
    #[arg(long, conflicts_with = "force")]
    pub(crate) if_absent: bool,
    /// Overwrite what is there. A pod that hosts of this machine use is never overwritten.
    #[arg(long)]
    pub(crate) force: bool,
    /// The size of the pieces in which LNR is given to objects: a power of two from 1KiB to 1GiB. A
    /// value that is no larger, with its key and header, lies in one piece, and is viewed without a
    /// copy. Slots waste at most an eighth for objects up to an eighth of it. Unless given: about
    /// 1/1024 of LNR, from 64KiB to 2MiB.
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub(crate) chunk: Option<u64>,
    /// Create it even if the file system has less room than the pod's size. A pod takes memory as
    /// it fills; once the file system has no more, writes are refused as in a full pod.
    #[arg(long)]
    pub(crate) sparse: bool,
    /// Go on even if `tombolo qualify` has found that the memory does not do what a pod needs.
    #[arg(long)]
    pub(crate) trust_me: bool,
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
pub(crate) struct ListArgs {
    /// Where to look.
    #[arg(value_name = "FOLDER", default_value = "/dev/shm")]
    pub(crate) folders: Vec<PathBuf>,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The pod: /dev/shm/pod, or SCR+LNR.
    pub(crate) spec: PodSpec,
}

#[derive(Debug, Args)]
pub(crate) struct PodCheckArgs {
    /// The pod: /dev/shm/pod, /dev/dax0.0, or SCR+LNR.
    pub(crate) spec: PodSpec,
    /// First put in order what hosts have left behind that were killed, all of them; the host that
    /// opens the pod next does that, too.
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
    /// Where to save it; - is the standard output.
    pub(crate) file: PathBuf,
    /// Replace the file if there is one.
    #[arg(long)]
    pub(crate) force: bool,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// The fate of an object that is in a pod already when a file is loaded.
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
    /// A file that `tombolo pod save` has made; - is the standard input.
    pub(crate) file: PathBuf,
    /// The fate of an object that is there already.
    #[arg(long, value_enum, default_value_t = Existing::Fail)]
    pub(crate) existing: Existing,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// A size; 0 for nothing at all.
fn size_or_none(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { size(text) }
}
