//! Errors of a pod as a whole.

use crate::layout::Kind;
use crate::qualification::Verdict;

/// Why a pod cannot be formatted, opened or joined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PodError {
    /// The sizes asked for cannot hold a pod.
    #[error("a pod does not fit: {0}")]
    TooSmall(String),
    /// The memory holds something else, or nothing.
    #[error("this memory holds no pod (no magic number at its start); create one first")]
    NotAPod,
    /// The pod was made by another version.
    #[error(
        "the pod has format version {found}, this program reads {expected}; use the program that made it, or save the pod with that (`tombolo pod save`), create it anew, and load the file (`tombolo pod load`)"
    )]
    Version {
        /// The version found.
        found: u64,
        /// The version this program reads.
        expected: u64,
    },
    /// The superblock does not agree with itself or with the memory it lies in.
    #[error("the pod's superblock is damaged or truncated: {0}; create the pod anew")]
    Damaged(String),
    /// SCR and LNR belong to different pods.
    #[error(
        "SCR and LNR belong to different pods; name the two memories that were created together"
    )]
    Mismatched,
    /// A pod spec is malformed.
    #[error("pod spec {spec:?}: {reason}")]
    Spec {
        /// The spec.
        spec: String,
        /// The fault.
        reason: String,
    },
    /// There is a pod where one is to be created.
    #[error("{spec} holds a pod already ({uuid}); open that, or overwrite it with --force")]
    Exists {
        /// Where.
        spec: String,
        /// The pod's UUID.
        uuid: uuid::Uuid,
    },
    /// There is something else where a pod is to be created.
    #[error(
        "{path} is not empty and holds no pod; choose another path, or overwrite what is there with --force"
    )]
    Occupied {
        /// The file or device.
        path: String,
    },
    /// Nobody is in the pod, but a host that was fenced may still be at something.
    #[error(
        "host {host} (process {pid}) was fenced, and it is not known that it has ended; end that process, and say so with `tombolo pod fence {place} {host} --gone`"
    )]
    NotGone {
        /// Where the pod is.
        place: String,
        /// The host.
        host: u8,
        /// Its process.
        pid: u64,
    },
    /// The memory is known not to do what the pod needs.
    #[error(
        "{spec} cannot hold a pod for several hosts: qualified as \"{verdict}\", and a pod needs memory that is \"{}\"; `tombolo qualify {spec}` tries it again, and --trust-me goes on all the same",
        Verdict::CoherentWithAtomics
    )]
    NotAllowed {
        /// Where.
        spec: String,
        /// The verdict on it.
        verdict: Verdict,
    },
    /// The memory holds something that leaves no room to try it.
    #[error("{spec} cannot be tried: {reason}")]
    CannotTry {
        /// Where.
        spec: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// Processes of this machine use the memory.
    #[error("{spec} is in use: hosts of this machine have it open; stop them first")]
    InUse {
        /// Where.
        spec: String,
    },
    /// Somebody is creating the pod, and this takes too long.
    #[error("{spec} is being created by another process, for {waited_ms} ms now; try again later")]
    BeingCreated {
        /// Where.
        spec: String,
        /// How long the wait was, in milliseconds.
        waited_ms: u64,
    },
    /// The memory cannot be had.
    #[error(transparent)]
    Memory(#[from] tombolo_memory::MemoryError),
    /// All seats are taken.
    #[error(
        "the pod takes no more hosts at once than it was made for ({hosts}); let one leave first, or create a pod for more (--hosts){}",
        about_fenced(place, fenced)
    )]
    Full {
        /// How many it takes.
        hosts: u8,
        /// Where the pod is.
        place: String,
        /// The hosts that have no seat any more, and are not known to have ended.
        fenced: Vec<u8>,
    },
    /// The pod has no area for what is to be used in it.
    #[error("the pod has no area for {kind} ({}); create a pod with one", list(there))]
    NoArea {
        /// The kind of tenant that is to be used.
        kind: Kind,
        /// The kinds of the pod's areas.
        there: Vec<String>,
    },
    /// The tenant of an area was made by another version.
    #[error(
        "the pod's area for {kind} has format version {found}, this program reads {expected}; use the program that made it, or create the pod anew"
    )]
    AreaVersion {
        /// The kind of the area's tenant.
        kind: Kind,
        /// The version found.
        found: u64,
        /// The version this program reads.
        expected: u64,
    },
    /// Others have taken over every seat that a host has claimed.
    #[error(
        "this host has claimed a seat {claims} times, and was each time too slow to take it before another host took the claim over; see what slows it down, and join again"
    )]
    Slow {
        /// Seats it has claimed in vain.
        claims: u32,
    },
    /// An area was closed under a host that was joining it, or opened anew, or the host was fenced.
    #[error(
        "while host {host} was joining the pod, the last host left and closed it, or all died and another one opened it anew, or this host was taken for dead; join again"
    )]
    Expelled {
        /// The seat it had.
        host: u8,
    },
    /// An area is being opened or closed, and this takes too long.
    #[error(
        "host {host} (pid {pid}) has been {doing} the pod's {kind} for {waited_ms} ms; if that process is gone, create the pod anew"
    )]
    Busy {
        /// The host that is at it.
        host: u8,
        /// Its process.
        pid: u64,
        /// The other host's action.
        doing: &'static str,
        /// The kind of the area's tenant.
        kind: Kind,
        /// How long the wait was, in milliseconds.
        waited_ms: u64,
    },
}

/// The remedy for hosts that were fenced, if there are such.
fn about_fenced(place: &str, fenced: &[u8]) -> String {
    let Some(first) = fenced.first() else { return String::new() };
    let names: Vec<String> = fenced.iter().map(u8::to_string).collect();
    let (hosts, were) = if fenced.len() == 1 { ("host", "was") } else { ("hosts", "were") };
    format!(
        "; {hosts} {} {were} fenced and not known to have ended: when the process has, free its seat with `tombolo pod fence {place} {first} --gone`",
        names.join(", ")
    )
}

fn list(there: &[String]) -> String {
    if there.is_empty() { "it has none".to_owned() } else { format!("it has {}", there.join(", ")) }
}
