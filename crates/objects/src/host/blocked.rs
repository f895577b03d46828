//! Calls of a protocol into one that is built on it. This is the only way from a floor to one above
//! it. The handle has a function for it, which it is given when it joins.

use tombolo_memory::Memory;
use tombolo_pod::{Request, Stay};
use tombolo_sharing::Header;

use crate::host::reserve::Room;
use crate::ids::KeyHash;
use crate::storage::index::{Entry, Found};
use crate::storage::records::RecordId;
use crate::{Error, Objects};

/// Why a thread cannot go on, or should not yet.
pub(crate) enum Why<'a> {
    /// A host that was fenced has the object with this entry locked, or in its partition.
    Fenced { stay: Stay, entry: Entry },
    /// Something is in the way, and a host that has died may be the reason.
    Waiting,
    /// The object with this entry is in the partition of `host`.
    InPartition { host: u8, entry: Entry },
    /// Another host asks for an object that is in the partition of this one.
    Requested { request: Request },
    /// No slot is free. Says what came of making room.
    NoSlot { room: &'a mut Room },
    /// No record is free that the object with this hash may have. Says which one was freed.
    NoRecord { hash: KeyHash, freed: &'a mut Option<RecordId> },
    /// The object that was read belongs in this host's partition. The log ended at `tail` before it
    /// was found.
    Misplaced { found: &'a Found<'a>, tail: u64, header: Header, key: &'a [u8], value: &'a [u8] },
}

/// Does what there is to be done about it, and may wait for other hosts.
pub(crate) type Unblock<M> = fn(&Objects<M>, Why<'_>) -> Result<(), Error>;

impl<M: Memory> Objects<M> {
    /// Has something done that stands in this thread's way: the caller looks again then.
    ///
    /// # Errors
    /// Those of a commit; [`Error::Unanswered`] if a host does not bring an object back.
    #[cold]
    pub(crate) fn blocked(&self, why: Why<'_>) -> Result<(), Error> {
        (self.unblock)(self, why)
    }
}
