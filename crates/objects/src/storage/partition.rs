//! Objects in a host's own memory (MEGALON, section 3.5.2): its local partition.
//!
//! An object that one host alone uses moves into that host's memory; the index says so on all
//! hosts, by an event. It keeps its slot, in which its key stays and to which it can always return.
//! Another host that wants it asks its host by mail, and waits for the event that brings it back.
//!
//! Invariants:
//! * The entry says `partition` exactly between the two events. Its host has an entry of the
//!   partition for it before the first, and until after the second.
//! * A thread that reads or changes an entry of the partition holds its lock, and finds it here as
//!   of the entry's generation. A thread that sends it back holds the lock until the event is in
//!   the log.
//! * What returns is in its slot, and in memory, before the event says so.
//!
//! In a pod that is created so (`partition_backup`) an entry of the partition is in its slot, too,
//! as it was last written: so if its host dies, the host that clears up lets it go on from there
//! ([`recovery`](crate::recovery)). Each write goes to both, by the rules for an object in its
//! slot: what is about to change is recorded ([`intents`](crate::storage::intents)), cleaned, and
//! then acknowledged. There is no lock whose release fails when others have taken it over; instead
//! the write counts if the host's seat stands when the slot is in memory and the intent says that
//! it is through, before the intent is cleared.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use tombolo_host::Host;
use tombolo_memory::lock_api::ArcMutexGuard;
use tombolo_memory::{HostMutex, Memory};
use tombolo_pod::Mailbox;
use tombolo_sharing::{Header, ObjectArea};

use crate::ids::SlotLine;
use crate::storage::index::Entry;

/// Entries by slot, in shards that have locks of their own.
const SHARDS: usize = 32;

type Shared<M> = Arc<HostMutex<M, PartitionEntry>>;

type EntriesBySlot<M> = HashMap<SlotLine, Shared<M>, foldhash::fast::FixedState>;

/// An object's bytes; shared by the host's threads under a lock.
#[derive(Default)]
pub(crate) struct PartitionEntry {
    /// The entry by which it is here; `None` before that, and once it is gone.
    pub(crate) here: Option<Entry>,
    pub(crate) header: Option<Header>,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// The bytes that it counts for in the memory of its host.
    pub(crate) bytes: u64,
    /// Accesses since it came.
    pub(crate) accesses: u64,
    /// Whether it was accessed since the last look.
    pub(crate) busy: bool,
}

/// The lock by which a thread has an entry of the partition.
pub(crate) type Hold<M> = ArcMutexGuard<<M as Memory>::RawMutex, PartitionEntry>;

/// The objects in one host's memory.
pub(crate) struct Partition<M: Memory> {
    pub(crate) host: u8,
    pub(crate) mailbox: Mailbox<M>,
    pub(crate) budget: u64,
    /// Whether what is there is in its slot, too.
    backed: bool,
    bytes: AtomicU64,
    shards: [RwLock<EntriesBySlot<M>>; SHARDS],
}

impl<M: Memory> Partition<M> {
    pub(crate) fn new(area: &ObjectArea<M>, host: &Host<M>, budget: u64) -> Self {
        Self {
            host: host.seat().host(),
            mailbox: Mailbox::new(area, host.seat(), host.mail()),
            backed: area.geometry().partition_backup,
            // With marks, the record says whether an object is dirty.
            budget: if area.geometry().has_marks() { 0 } else { budget },
            bytes: AtomicU64::new(0),
            shards: std::array::from_fn(|_| RwLock::default()),
        }
    }

    /// Whether objects may move here.
    pub(crate) fn is_open(&self) -> bool {
        self.budget > 0
    }

    /// Whether objects that move to any host are in their slots, too, as they were last written.
    pub(crate) fn is_backed(&self) -> bool {
        self.backed
    }

    /// Bytes of local memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.bytes() + bytes <= self.budget
    }

    fn shard(&self, slot: SlotLine) -> &RwLock<EntriesBySlot<M>> {
        &self.shards[slot as usize % SHARDS]
    }

    pub(crate) fn entry(&self, slot: SlotLine) -> Option<Shared<M>> {
        self.shard(slot).read().get(&slot).cloned()
    }

    /// An entry of the partition for the object in `slot`, which is expected, with its lock held;
    /// `None` if there is one already.
    pub(crate) fn expect(&self, slot: SlotLine) -> Option<Hold<M>> {
        let entry = Shared::<M>::default();
        let hold = entry.try_lock_arc()?;
        let mut shard = self.shard(slot).write();
        let new = !shard.contains_key(&slot);
        new.then(|| {
            shard.insert(slot, entry);
            hold
        })
    }

    pub(crate) fn forget(&self, slot: SlotLine) {
        self.shard(slot).write().remove(&slot);
    }

    pub(crate) fn slots(&self) -> Vec<SlotLine> {
        self.shards
            .iter()
            .flat_map(|shard| shard.read().keys().copied().collect::<Vec<_>>())
            .collect()
    }
}

impl<M: Memory> Partition<M> {
    pub(crate) fn arrive(
        &self,
        hold: &mut Hold<M>,
        entry: Entry,
        header: Header,
        key: &[u8],
        value: Vec<u8>,
    ) {
        hold.here = Some(entry);
        hold.key = key.to_vec();
        hold.value = value;
        self.keep(hold, header);
    }

    /// The entry has this header now.
    pub(crate) fn keep(&self, hold: &mut Hold<M>, header: Header) {
        hold.header = Some(header);
        let before = std::mem::replace(&mut hold.bytes, header.total_bytes());
        self.bytes.fetch_add(hold.bytes, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    /// The entry is gone: a thread that still comes for it looks at the index again.
    pub(crate) fn leave(&self, slot: SlotLine, hold: &mut Hold<M>) {
        hold.here = None;
        hold.header = None;
        self.bytes.fetch_sub(std::mem::take(&mut hold.bytes), Ordering::Relaxed);
        self.forget(slot);
    }
}
