//! Errors of the log.

/// Why a change could not be committed, or the log not be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The log stayed full: some host does not apply it. Nothing was changed.
    #[error(
        "the log is full and host {slowest} has not applied it for {waited_ms} ms; see whether that host is alive"
    )]
    Stalled {
        /// The host that lags furthest behind.
        slowest: u8,
        /// How long the wait was, in milliseconds.
        waited_ms: u64,
    },
    /// This host was fenced: the others go on without it. Its change may be done or not.
    #[error(
        "host {host} was fenced: it gave no sign of life, or an operator said so, and the others go on without it; whether this change was made is not known; join again"
    )]
    Fenced {
        /// This host.
        host: u8,
    },
    /// This process is a child of the one that the host runs in. Nothing was changed.
    #[error(
        "this process was forked from the one that host {host} runs in, and has no place in the pod: use the pod from there, or join it anew from here"
    )]
    Forked {
        /// The host.
        host: u8,
    },
    /// An entry is not what a host could have written.
    #[error("the log entry at position {position} is damaged; leave the pod and create it anew")]
    Damaged {
        /// Its position.
        position: u64,
    },
}
