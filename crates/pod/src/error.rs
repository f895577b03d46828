//! What can go wrong with a pod as a whole.

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
        "the pod has format version {found}, this program reads {expected}; use the program that made it, or create the pod anew"
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
    /// All seats are taken.
    #[error("the pod has {MAX} hosts already, which is all it takes; let one leave first", MAX = crate::MAX_HOSTS)]
    Full,
    /// The pod is being opened or closed, and this takes too long.
    #[error(
        "host {host} (pid {pid}) has been {doing} the pod for {waited_ms} ms; if that process is gone, create the pod anew"
    )]
    Busy {
        /// The host that is at it.
        host: u8,
        /// Its process.
        pid: u64,
        /// What it does.
        doing: &'static str,
        /// How long the wait was, in milliseconds.
        waited_ms: u64,
    },
}
