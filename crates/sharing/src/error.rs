//! Errors of operations on objects.

use tombolo_pod::PodError;

fn name_of(host: Option<u8>) -> String {
    host.map_or_else(|| "others".to_owned(), |host| format!("host {host}"))
}

/// Why an operation on an object was not done. Nothing was changed, unless it says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no object with this key.
    #[error("there is no object with this key")]
    NotFound,
    /// There is an object with this key already.
    #[error("there is an object with this key already")]
    Exists,
    /// The object is not at the expected version any more.
    #[error("the object has changed since that version; read it again")]
    Changed,
    /// The object changed while it was being read through a guard.
    #[error("the object changed while it was being read; read it again")]
    Torn,
    /// The key is empty or too long.
    #[error("a key of {bytes} bytes is not within 1 to {MAX}; shorten it or hash it", MAX = crate::MAX_KEY_BYTES)]
    KeyLength {
        /// Its length.
        bytes: usize,
    },
    /// The key begins like those of notes of transactions.
    #[error(
        "keys that begin with the bytes ff 00 6b 76 ff 00 74 78 are the pod's own; take another"
    )]
    ReservedKey,
    /// The value is too long for this pod.
    #[error(
        "an object of {bytes} bytes does not fit into this pod, whose largest is {most} bytes; split it, or create a larger pod"
    )]
    TooLarge {
        /// Bytes asked for, key and header included.
        bytes: u64,
        /// The most there can be.
        most: u64,
    },
    /// A range reaches beyond the object's end.
    #[error("bytes {offset}..{end} are not within the object's {length} bytes")]
    OutOfRange {
        /// Where the range starts.
        offset: u64,
        /// Where it ends.
        end: u64,
        /// The object's length.
        length: u64,
    },
    /// No room for the bytes.
    #[error(
        "the pod's memory is full: no room for {bytes} more bytes; delete objects, or create a larger pod"
    )]
    LnrFull {
        /// Bytes asked for, key and header included.
        bytes: u64,
    },
    /// No room in the index.
    #[error(
        "the index holds {objects} objects, which is its limit; delete objects, or raise the limit"
    )]
    IndexFull {
        /// How many there are.
        objects: u64,
    },
    /// Another writer holds the object, or readers and writers kept colliding.
    #[error(
        "the object stayed in use by {} for {waited_ms} ms; try again, and see whether a host hangs", name_of(*host)
    )]
    Busy {
        /// The host that had it in use when last seen, if that is known.
        host: Option<u8>,
        /// How long the wait was, in milliseconds.
        waited_ms: u64,
    },
    /// The object is in a host's own memory, and that host does not bring it back.
    #[error(
        "the object is in the memory of host {host}, which has not brought it back for {waited_ms} ms; see whether that host is alive"
    )]
    Unanswered {
        /// The host.
        host: u8,
        /// How long the wait was, in milliseconds.
        waited_ms: u64,
    },
    /// The value went with the host that was changing it, or had it in its own memory. Writing the
    /// whole value anew or deleting the object ends that.
    #[error(
        "the object's value is lost: host {host} died or was fenced while it changed it or had it in its own memory; write it anew, or delete it"
    )]
    Lost {
        /// The host.
        host: u8,
    },
    /// The memory in which the object lies, or where it was being written, cannot be read any more.
    /// Writing the whole value anew or deleting the object ends that.
    #[error(
        "the object's value is lost: the memory in which it lay has an error; write it anew, or delete it, and have the device checked"
    )]
    Poisoned,
    /// This host views as many objects as it may.
    #[error(
        "this host views {most} objects already, which is the most it may at once; end some, or raise the limit"
    )]
    TooManyViews {
        /// The limit.
        most: u32,
    },
    /// This host cannot leave: it still looks at objects.
    #[error("this host still views {views} objects; end the views before it leaves")]
    StillViewing {
        /// How many.
        views: u32,
    },
    /// This host has given out as much room as it may.
    #[error(
        "this host has {most} rooms reserved already, which is the most it may at once; publish or drop some"
    )]
    TooManyReservations {
        /// The limit.
        most: u32,
    },
    /// This host cannot leave: room that it has given out is neither published nor given back.
    #[error("this host still has {rooms} rooms reserved; publish or drop them before it leaves")]
    StillReserving {
        /// How many.
        rooms: u32,
    },
    /// Shared memory holds bytes that no host could have written.
    #[error("the pod is damaged: {0}; save what you can and create it anew")]
    Damaged(String),
    /// No host that is in the pod hands over its replica.
    #[error(
        "no host of the pod answered a joining one ({hosts} seated); if they ran on other machines and are gone, say so with `tombolo pod fence POD HOST --gone`"
    )]
    NobodyAnswers {
        /// How many seats are taken, this host's included.
        hosts: u32,
    },
    /// The only host that could have helped has left.
    #[error(
        "host {host}, which owns the object, has left the pod; under this scheme all hosts leave together"
    )]
    OwnerGone {
        /// Which.
        host: u8,
    },
    /// The pod does not suit the scheme.
    #[error("the pod cannot be used like this: {0}")]
    Setup(String),
    /// The log of changes stayed full: some host does not apply it. Nothing was changed.
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
    /// An entry of the log is not what a host could have written. A change may be done or not.
    #[error("the log entry at position {position} is damaged; leave the pod and create it anew")]
    LogDamaged {
        /// Its position.
        position: u64,
    },
    /// The pod could not be joined.
    #[error(transparent)]
    Pod(#[from] PodError),
}

impl Error {
    /// Whether this host was fenced: others go on without it.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }

    /// Whether the object's value is gone for all: [`Lost`](Self::Lost) or
    /// [`Poisoned`](Self::Poisoned). Putting a value there or
    /// [`Scheme::forget_lost`](crate::Scheme::forget_lost) ends that.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Poisoned)
    }
}
