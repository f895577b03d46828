//! Names of objects, of their slots, and of their states.

/// The low 32 bits of a key's hash: enough to find its bucket and to tell most keys apart. Keys
/// themselves lie with the objects.
pub(crate) type KeyHash = u32;

/// The number of the first line of an object's slot in LNR. Line 0 is no slot.
pub(crate) type SlotLine = u64;

/// Which event was the last about an object: the low bits of its position in the log.
///
/// Positions are unique, so a generation is never used twice, for any object, within 2^32 events.
pub(crate) type Generation = u32;

pub(crate) fn generation_at(position: u64) -> Generation {
    (position as u32).max(1)
}

/// Keys that begin so are those of transactions' redo notes. No value of a key-value store has one.
pub(crate) const NOTE_PREFIX: &[u8] = b"\xff\0kv\xff\0tx";

/// Where an object's bytes are to lie, and in how large a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) line: SlotLine,
    /// Size class, or [`CHAIN`](tombolo_sharing::CHAIN).
    pub(crate) class: u8,
    /// Whole chunks that a chain takes, else 0.
    pub(crate) chunks: u32,
}

/// In which of `shards` shards the events of objects with this hash are: its highest bits tell.
/// (The lowest ones choose a bucket of the index.)
pub(crate) fn shard_of(hash: KeyHash, shards: usize) -> usize {
    ((u64::from(hash) * shards as u64) >> KeyHash::BITS) as usize
}

/// With what an object's value is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LostTo {
    /// A host that changed it, or had it in its own memory.
    Host(u8),
    MemoryError,
}

impl LostTo {
    /// A byte that stands for it. No host has the number that stands for a memory error.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Host(host) => host,
            Self::MemoryError => u8::MAX,
        }
    }

    /// The inverse of [`code`](Self::code).
    #[inline]
    pub(crate) fn of_code(code: u8) -> Self {
        if code == u8::MAX { Self::MemoryError } else { Self::Host(code) }
    }

    pub(crate) fn host(self) -> Option<u8> {
        match self {
            Self::Host(host) => Some(host),
            Self::MemoryError => None,
        }
    }
}
