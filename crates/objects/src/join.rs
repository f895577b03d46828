//! Coming and going: where a host's replica comes from, and in what state the last host leaves.
//!
//! The first host to join a closed pod rebuilds the index from the objects' headers in LNR; all
//! records are free then. A host that joins others gets a copy of one of their replicas, as of a
//! position that the log still reaches back to. Shards of the log go one after the other in one
//! snapshot, each as of a position of its own.
//!
//! ```text
//! snapshot   per shard: position (8 bytes), number of objects (8), then per object: hash (4),
//!            generation (4), line (8), record + 1 (4), chunks (4), class (1)
//! ```

use std::sync::Arc;
use std::time::Duration;

use tombolo_log::Replica;
use tombolo_memory::{LINE_BYTES, Lines, Memory};
use tombolo_pod::{Leave, Pod, Seat, Taker};
use tombolo_sharing::hash_key;

use crate::at_rest::object_at_rest;
use crate::event::{KeyHash, Slot, generation_at};
use crate::index::{Entry, IndexLimits, Writer};
use crate::logged::BY_LOG;
use crate::marks::Marks;
use crate::objects::{Objects, Options, Shard, shard_of};
use crate::records::Records;
use crate::replicated::Replicated;
use crate::space::Space;
use crate::{Error, sites};

/// How often a joining host asks for a replica.
const ATTEMPTS: usize = 3;

/// How long the last host waits for those who are joining.
const PATIENCE: Duration = Duration::from_secs(10);

/// A shard's replica in the making.
struct Built<M: Memory> {
    state: Replicated<M>,
    writer: Writer,
    position: u64,
}

impl<M: Memory> Built<M> {
    fn restore(&mut self, entry: Entry, slot: Slot) {
        self.state.restore(&mut self.writer, entry, slot);
    }
}

/// What a host needs to know of a pod in order to take part in it.
struct Replicas<M: Memory> {
    shards: Vec<Built<M>>,
    records: Arc<Records<M>>,
}

impl<M: Memory> Replicas<M> {
    /// Of an empty pod whose log ends at these positions.
    fn empty(pod: &Pod<M>, seat: &Seat, limits: IndexLimits, positions: &[u64]) -> Self {
        let records = Arc::new(Records::new(pod, seat.host()));
        let limits = limits.of_one_of(pod.geometry().log_shards);
        let shard = |(shard, &position): (u8, &u64)| {
            let space = Space::new(pod, seat.host(), shard);
            let memory = pod.memory().clone();
            let state = Replicated::new(memory, limits, space, Arc::clone(&records));
            Built { state, writer: Writer::default(), position }
        };
        Self { shards: (0..).zip(positions).map(shard).collect(), records }
    }
}

impl<M: Memory> Objects<M> {
    /// Joins a pod.
    ///
    /// # Errors
    /// [`Error::Pod`] if there is no seat; [`Error::NobodyAnswers`] if no host hands over its
    /// replica; [`Error::Damaged`].
    pub fn join(pod: Pod<M>, options: Options) -> Result<Self, Error> {
        let (seat, first) = pod.join()?;
        // From here on the log keeps what this host has not applied.
        let shards = pod.geometry().shards();
        let announced: Vec<u64> =
            shards.clone().map(|shard| Shard::<M>::announce(&pod, &seat, shard)).collect();
        let joined = Self::build(&pod, &seat, options.index, first, &announced).and_then(|built| {
            let replica = |(shard, built): (u8, Built<M>)| {
                let Built { state, writer, position } = built;
                Replica::new(pod.clone(), &seat, shard, position, state, writer)
            };
            let replicas = shards.zip(built.shards).map(replica).collect();
            let (pod, seat) = (pod.clone(), seat.clone());
            let objects = Self::with_shards(pod, replicas, built.records, seat, options)?;
            objects.sync_all()?;
            Ok(objects)
        });
        let joined = joined.and_then(|objects| {
            seat.ready(pod.memory())?;
            Ok(objects)
        });
        if joined.is_err() {
            seat.give_up(pod.memory());
        }
        joined
    }

    fn build(
        pod: &Pod<M>,
        seat: &Seat,
        limits: IndexLimits,
        first: bool,
        announced: &[u64],
    ) -> Result<Replicas<M>, Error> {
        let empty = || Replicas::empty(pod, seat, limits, announced);
        if first {
            return rebuild(empty(), pod);
        }
        for _ in 0..ATTEMPTS {
            let snapshot = Taker::new(pod.memory(), pod.geometry(), seat).take();
            if let Some(built) = snapshot.and_then(|bytes| adopt(empty(), &bytes)) {
                return Ok(built);
            }
        }
        Err(Error::NobodyAnswers { hosts: pod.membership().count() })
    }

    /// This replica, for a joining host.
    pub(crate) fn snapshot(&self) -> Result<Vec<u8>, Error> {
        // At least as new as the request: what the joining host announced is not past it.
        self.sync_all()?;
        let mut bytes = Vec::new();
        for shard in self.shards() {
            shard.paused(|position, state, _| add_to_snapshot(&mut bytes, position, state));
        }
        Ok(bytes)
    }

    /// Leaves the pod. The last host leaves it closed, with all objects in place. Nothing else may
    /// be done with this handle afterwards, and no thread may be at it now.
    ///
    /// # Errors
    /// [`Error::Log`], [`Error::Damaged`]: the seat is still taken.
    pub fn leave(&self) -> Result<(), Error> {
        let memory = self.memory();
        if memory.keeps(sites::HOME_LEAVE) {
            self.return_all()?;
        }
        self.shards().iter().for_each(|shard| shard.state().space.release_all());
        let started = memory.uptime();
        loop {
            let patient = memory.uptime().saturating_sub(started) < PATIENCE;
            match self.seat.leave(memory, patient) {
                Leave::Left => return Ok(()),
                Leave::Wait => {
                    self.help_joining()?;
                    memory.pause();
                }
                Leave::Close => {
                    self.close()?;
                    self.seat.closed(memory);
                    return Ok(());
                }
            }
        }
    }

    /// Leaves LNR such that a slot holds a header if and only if it holds an object.
    fn close(&self) -> Result<(), Error> {
        self.sync_all()?;
        let table = &self.shards()[0].state().space;
        for number in table.chunk_numbers() {
            let space = &self.shards()[usize::from(table.word(number)?.shard)].state().space;
            for slot in space.slots_of(number)? {
                if !space.holds_object(slot) && self.memory().keeps(sites::CLOSE_VOID) {
                    self.void(slot);
                }
            }
        }
        Ok(())
    }

    fn void(&self, slot: Slot) {
        let start = Space::<M>::start(slot);
        let line = Lines::covering(start, LINE_BYTES);
        self.memory().takes_blank(line);
        self.memory().write(start, &[0; LINE_BYTES as usize]);
        self.memory().publish(sites::CLOSE_CLEAN, [line], |memory| memory.gives(line, LINE_BYTES));
    }
}

/// The index as the objects' headers tell it.
fn rebuild<M: Memory>(mut empty: Replicas<M>, pod: &Pod<M>) -> Result<Replicas<M>, Error> {
    empty.records.free_all();
    let marks = Marks::new(pod);
    marks.reset();
    let without_objects = marks.exist() && pod.memory().keeps(sites::OPEN_EMPTY);
    let shards = empty.shards.len();
    let mut restored = 0;
    for number in empty.shards[0].state.space.chunk_numbers() {
        let word = empty.shards[0].state.space.word(number)?;
        let built = &mut empty.shards[usize::from(word.shard)];
        if word.is_taken() {
            let host = word.host;
            return Err(Error::Damaged(format!(
                "host {host} left without giving up chunk {number}"
            )));
        }
        if without_objects {
            built.state.space.free(number);
            continue;
        }
        for slot in built.state.space.slots_of(number)? {
            let Some((_, key)) = object_at_rest(pod, &built.state.space, slot)? else { continue };
            let hash = hash_key(pod, &key)? as KeyHash;
            if shard_of(hash, shards) != usize::from(word.shard) {
                return Err(Error::Damaged(other_shard(slot)));
            }
            restored += 1;
            let entry = Entry {
                hash,
                // Below all positions to come, and different for each object.
                generation: generation_at(built.position.wrapping_sub(restored)),
                slot: slot.line,
                record: None,
                home: None,
            };
            built.restore(entry, slot);
        }
    }
    Ok(empty)
}

/// What is wrong with an object in a chunk whose word names a shard that is not its key's.
pub(crate) fn other_shard(slot: Slot) -> String {
    format!("the object at line {} is in a chunk of another log shard", slot.line)
}

fn add_to_snapshot<M: Memory>(bytes: &mut Vec<u8>, position: u64, state: &Replicated<M>) {
    bytes.extend(position.to_le_bytes());
    let count_at = bytes.len();
    bytes.extend([0; 8]);
    let mut count = 0u64;
    for entry in state.index.entries() {
        let Some(slot) = state.space.slot_at(entry.slot) else { continue };
        count += 1;
        bytes.extend(entry.hash.to_le_bytes());
        bytes.extend(entry.generation.to_le_bytes());
        bytes.extend(slot.line.to_le_bytes());
        bytes.extend(entry.sharing().to_le_bytes());
        bytes.extend(slot.chunks.to_le_bytes());
        bytes.push(slot.class);
    }
    bytes[count_at..][..8].copy_from_slice(&count.to_le_bytes());
}

/// The index as another host's replica tells it; `None` if the bytes are not a snapshot, or one that is
/// too old.
fn adopt<M: Memory>(mut empty: Replicas<M>, mut bytes: &[u8]) -> Option<Replicas<M>> {
    for built in &mut empty.shards {
        let (position, rest) = bytes.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let entries_bytes = u64::from_le_bytes(*count).checked_mul(ENTRY_BYTES as u64)?;
        let (entries, rest) = rest.split_at_checked(entries_bytes as usize)?;
        for bytes in entries.as_chunks().0 {
            adopt_entry(built, bytes)?;
        }
        let announced = std::mem::replace(&mut built.position, u64::from_le_bytes(*position));
        if built.position < announced {
            return None;
        }
        bytes = rest;
    }
    bytes.is_empty().then_some(empty)
}

const ENTRY_BYTES: usize = 25;

fn adopt_entry<M: Memory>(built: &mut Built<M>, bytes: &[u8; ENTRY_BYTES]) -> Option<()> {
    let (hash, rest) = bytes.split_first_chunk()?;
    let (generation, rest) = rest.split_first_chunk()?;
    let (line, rest) = rest.split_first_chunk()?;
    let (sharing, rest) = rest.split_first_chunk()?;
    let (chunks, rest) = rest.split_first_chunk()?;
    let slot = Slot {
        line: u64::from_le_bytes(*line),
        class: *rest.first()?,
        chunks: u32::from_le_bytes(*chunks),
    };
    let (record, home) = Entry::shared_as(u32::from_le_bytes(*sharing));
    built.state.space.slot_lines(slot)?;
    if record.is_some_and(|record| record != BY_LOG && !built.state.records.exists(record)) {
        return None;
    }
    let entry = Entry {
        hash: u32::from_le_bytes(*hash),
        generation: u32::from_le_bytes(*generation),
        slot: slot.line,
        record,
        home,
    };
    built.restore(entry, slot);
    Some(())
}
