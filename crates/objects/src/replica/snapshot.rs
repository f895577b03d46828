//! A replica on its way to a host that joins. Shards of the log go one after the other in one
//! snapshot, each as of a position of its own.
//!
//! ```text
//! snapshot   per shard: position (8 bytes)
//!            fenced stays: how many (8), each its number (4) and host (1)
//!            hosts that were fenced and are not known to be gone (8: a bit each)
//!            slots in quarantine: how many (8), each a slot and the host (1)
//!            objects: how many (8), each hash (4), generation (4), slot, how it is shared (4)
//! slot       line (8 bytes), chunks (4), class (1)
//! ```

use std::sync::Arc;

use tombolo_log::Fences;
use tombolo_memory::{LINE_BYTES, Memory};
use tombolo_pod::Stay;
use tombolo_sharing::{Geometry, ObjectArea};

use crate::ids::Slot;
use crate::replica::apply::{Quarantine, ReplicaWriter, Replicated};
use crate::storage::index::{Entry, IndexLimits, Sharing};
use crate::storage::records::{Abandoned, Records};
use crate::storage::space::Space;

/// A shard's replica in the making.
pub(crate) struct Built<M: Memory> {
    pub(crate) state: Replicated<M>,
    pub(crate) writer: ReplicaWriter,
    pub(crate) position: u64,
    pub(crate) fences: Fences,
}

impl<M: Memory> Built<M> {
    pub(crate) fn restore(&mut self, entry: Entry, slot: Slot) {
        self.state.restore(&mut self.writer, entry, slot);
    }

    fn make_room(&mut self, objects: u64) {
        self.state.make_room(&mut self.writer, objects);
    }
}

/// A pod's state that a host needs in order to take part in it.
pub struct Replicas<M: Memory> {
    pub(crate) shards: Vec<Built<M>>,
    pub(crate) records: Arc<Records<M>>,
}

impl<M: Memory> Replicas<M> {
    /// Of an empty pod whose log ends at these positions.
    pub(crate) fn empty(
        area: &ObjectArea<M>,
        host: u8,
        limits: IndexLimits,
        known_owners: u64,
        positions: &[u64],
    ) -> Self {
        let abandoned = Abandoned::default();
        let records = Arc::new(Records::new(area, host, known_owners, abandoned.clone()));
        let &Geometry { log_shards, chunks, chunk_bytes, .. } = area.geometry();
        let limits = limits.of_one_of(log_shards, chunks * chunk_bytes / LINE_BYTES);
        let shard = |(shard, &position): (u8, &u64)| {
            let space = Space::new(area, host, shard, abandoned.clone());
            let memory = area.memory().clone();
            let state = Replicated::new(memory, limits, space, Arc::clone(&records));
            Built { state, writer: ReplicaWriter::default(), position, fences: Fences::default() }
        };
        Self { shards: (0..).zip(positions).map(shard).collect(), records }
    }
}

pub(crate) fn add_objects<M: Memory>(bytes: &mut Vec<u8>, state: &Replicated<M>) {
    add_list(bytes, state.index.entries(), |bytes, entry| {
        let Some(slot) = state.space.slot_at(entry.slot) else { return false };
        bytes.extend(entry.hash.to_le_bytes());
        bytes.extend(entry.generation.to_le_bytes());
        add_slot(bytes, slot);
        bytes.extend(entry.sharing.code().to_le_bytes());
        true
    });
}

pub(crate) fn add_fences<M: Memory>(
    bytes: &mut Vec<u8>,
    fences: &Fences,
    quarantine: &Quarantine,
    space: &Space<M>,
) {
    add_list(bytes, fences.stays(), |bytes, stay| {
        bytes.extend(stay.number.to_le_bytes());
        bytes.push(stay.host);
        true
    });
    bytes.extend(quarantine.unclean.to_le_bytes());
    add_list(bytes, &quarantine.slots, |bytes, &(host, line)| {
        let Some(slot) = space.slot_at(line) else { return false };
        add_slot(bytes, slot);
        bytes.push(host);
        true
    });
}

/// Adds how many there are, and those that `add` adds.
fn add_list<T>(
    bytes: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    add: impl Fn(&mut Vec<u8>, T) -> bool,
) {
    let count_at = bytes.len();
    bytes.extend([0; 8]);
    let count = items.into_iter().fold(0u64, |count, item| count + u64::from(add(bytes, item)));
    bytes[count_at..][..8].copy_from_slice(&count.to_le_bytes());
}

fn add_slot(bytes: &mut Vec<u8>, slot: Slot) {
    bytes.extend(slot.line.to_le_bytes());
    bytes.extend(slot.chunks.to_le_bytes());
    bytes.push(slot.class);
}

/// The index as another host's replica tells it; `None` if the bytes are not a snapshot, or one
/// that is too old.
pub(crate) fn adopt<M: Memory>(mut empty: Replicas<M>, bytes: &[u8]) -> Option<Replicas<M>> {
    let mut snapshot = SnapshotReader(bytes);
    for built in &mut empty.shards {
        let announced = std::mem::replace(&mut built.position, snapshot.number()?);
        if built.position < announced {
            return None;
        }
        for _ in 0..snapshot.number()? {
            let number = snapshot.half()?;
            built.fences.add(Stay { host: snapshot.byte()?, number });
        }
        built.writer.quarantine.unclean = snapshot.number()?;
        for _ in 0..snapshot.number()? {
            let slot = adopt_slot(built, &mut snapshot)?;
            built.state.restore_quarantined(&mut built.writer, snapshot.byte()?, slot);
        }
        let entries = snapshot.number()?;
        built.make_room(entries.min((snapshot.0.len() / ENTRY_BYTES) as u64));
        for _ in 0..entries {
            adopt_entry(built, &mut snapshot)?;
        }
    }
    snapshot.0.is_empty().then_some(empty)
}

/// The rest of a snapshot.
struct SnapshotReader<'a>(&'a [u8]);

impl SnapshotReader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn half(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }
}

fn adopt_slot<M: Memory>(built: &Built<M>, snapshot: &mut SnapshotReader<'_>) -> Option<Slot> {
    let (line, chunks, class) = (snapshot.number()?, snapshot.half()?, snapshot.byte()?);
    let slot = Slot { line, class, chunks };
    built.state.space.slot_lines(slot)?;
    Some(slot)
}

/// The bytes of an entry in a snapshot.
const ENTRY_BYTES: usize = 25;

fn adopt_entry<M: Memory>(built: &mut Built<M>, snapshot: &mut SnapshotReader<'_>) -> Option<()> {
    let (hash, generation) = (snapshot.half()?, snapshot.half()?);
    let slot = adopt_slot(built, snapshot)?;
    let sharing = Sharing::decode(snapshot.half()?)?;
    let entry = Entry::read_shared(hash, generation, slot.line).shared(sharing);
    let may_be = |record| built.state.records.may_be_of(hash, record);
    if !entry.record().is_none_or(may_be) {
        return None;
    }
    built.restore(entry, slot);
    Some(())
}
