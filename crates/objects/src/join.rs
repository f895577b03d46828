//! Coming and going: where a host's replica comes from, and in what state the last host leaves.
//!
//! The first host to join a closed pod rebuilds the index from the objects' headers in LNR; all
//! records are free then. A host that joins others gets a copy of one of their replicas, as of a
//! position that the log still reaches back to.
//!
//! ```text
//! snapshot   position (8 bytes), then per object: hash (4), generation (4), line (8),
//!            record + 1 (4), chunks (4), class (1)
//! ```

use std::time::Duration;

use tombolo_log::Replica;
use tombolo_memory::{LINE_BYTES, Lines, Memory};
use tombolo_pod::{Leave, Pod, Seat, Taker};
use tombolo_sharing::hash_key;

use crate::at_rest::object_at_rest;
use crate::chunk_table::ChunkState;
use crate::event::{KeyHash, Slot, generation_at};
use crate::index::{Entry, Writer};
use crate::marks::Marks;
use crate::objects::{Objects, Options};
use crate::records::Records;
use crate::replicated::Replicated;
use crate::space::Space;
use crate::{Error, sites};

/// How often a joining host asks for a replica.
const ATTEMPTS: usize = 3;

/// How long the last host waits for those who are joining.
const PATIENCE: Duration = Duration::from_secs(10);

/// A replica in the making.
struct Built<M: Memory> {
    state: Replicated<M>,
    writer: Writer,
    position: u64,
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
        let announced = Replica::<M, Replicated<M>>::announce(&pod, &seat);
        let joined = Self::build(&pod, &seat, options, first, announced).and_then(|built| {
            let Built { state, writer, position } = built;
            let replica = Replica::new(pod.clone(), &seat, position, state, writer);
            let objects = Self::with_replica(replica, seat.clone(), options);
            objects.sync()?;
            Ok(objects)
        });
        match &joined {
            Ok(_) => seat.ready(pod.memory()),
            Err(_) => seat.give_up(pod.memory()),
        }
        joined
    }

    fn build(
        pod: &Pod<M>,
        seat: &Seat,
        options: Options,
        first: bool,
        announced: u64,
    ) -> Result<Built<M>, Error> {
        let new = || {
            let space = Space::new(pod, seat.host());
            let records = Records::new(pod, seat.host());
            Replicated::new(pod.memory().clone(), options.index, space, records, Marks::new(pod))
        };
        if first {
            return rebuild(new(), pod, announced);
        }
        for _ in 0..ATTEMPTS {
            let snapshot = Taker::new(pod.memory(), pod.geometry(), seat).take();
            if let Some(built) = snapshot.and_then(|bytes| adopt(new(), &bytes))
                && built.position >= announced
            {
                return Ok(built);
            }
        }
        Err(Error::NobodyAnswers { hosts: pod.membership().count() })
    }

    /// This replica, for a joining host.
    pub(crate) fn snapshot(&self) -> Result<Vec<u8>, Error> {
        // At least as new as the request: what the joining host announced is not past it.
        self.sync()?;
        Ok(self.replica.paused(|position, state, _| {
            let mut bytes = position.to_le_bytes().to_vec();
            for entry in state.index.entries() {
                let Some((slot, _)) = state.space.slot_at(entry.slot) else { continue };
                bytes.extend(entry.hash.to_le_bytes());
                bytes.extend(entry.generation.to_le_bytes());
                bytes.extend(slot.line.to_le_bytes());
                bytes.extend(entry.record.map_or(0, |record| record + 1).to_le_bytes());
                bytes.extend(slot.chunks.to_le_bytes());
                bytes.push(slot.class);
            }
            bytes
        }))
    }

    /// Leaves the pod. The last host leaves it closed, with all objects in place. Nothing else may
    /// be done with this handle afterwards, and no thread may be at it now.
    ///
    /// # Errors
    /// [`Error::Log`], [`Error::Damaged`]: the seat is still taken.
    pub fn leave(&self) -> Result<(), Error> {
        let memory = self.memory();
        self.state().space.release_all();
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
        self.sync()?;
        let space = &self.state().space;
        for number in space.chunk_numbers() {
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
fn rebuild<M: Memory>(
    state: Replicated<M>,
    pod: &Pod<M>,
    position: u64,
) -> Result<Built<M>, Error> {
    let mut writer = Writer::default();
    state.records.free_all();
    state.marks.reset();
    let empty = state.marks.exist() && state.memory.keeps(sites::OPEN_EMPTY);
    let mut restored = 0;
    for number in state.space.chunk_numbers() {
        let word = state.space.word(number)?;
        if word.state == ChunkState::Held {
            let host = word.host;
            return Err(Error::Damaged(format!(
                "host {host} left without giving up chunk {number}"
            )));
        }
        if empty {
            state.space.free(number);
            continue;
        }
        for slot in state.space.slots_of(number)? {
            let Some((_, key)) = object_at_rest(pod, &state.space, slot)? else { continue };
            restored += 1;
            let entry = Entry {
                hash: hash_key(pod, &key)? as KeyHash,
                // Below all positions to come, and different for each object.
                generation: generation_at(position.wrapping_sub(restored)),
                slot: slot.line,
                record: None,
            };
            state.restore(&mut writer, entry, slot);
        }
    }
    Ok(Built { state, writer, position })
}

/// The index as another host's replica tells it; `None` if the bytes are not a snapshot.
fn adopt<M: Memory>(state: Replicated<M>, bytes: &[u8]) -> Option<Built<M>> {
    const ENTRY_BYTES: usize = 25;
    let mut writer = Writer::default();
    let (position, entries) = bytes.split_first_chunk()?;
    for bytes in entries.chunks(ENTRY_BYTES) {
        let (hash, rest) = bytes.split_first_chunk()?;
        let (generation, rest) = rest.split_first_chunk()?;
        let (line, rest) = rest.split_first_chunk()?;
        let (record, rest) = rest.split_first_chunk()?;
        let (chunks, rest) = rest.split_first_chunk()?;
        let slot = Slot {
            line: u64::from_le_bytes(*line),
            class: *rest.first()?,
            chunks: u32::from_le_bytes(*chunks),
        };
        let record = u32::from_le_bytes(*record).checked_sub(1);
        state.space.lines(slot)?;
        if record.is_some_and(|record| !state.records.exists(record)) {
            return None;
        }
        let entry = Entry {
            hash: u32::from_le_bytes(*hash),
            generation: u32::from_le_bytes(*generation),
            slot: slot.line,
            record,
        };
        state.restore(&mut writer, entry, slot);
    }
    Some(Built { state, writer, position: u64::from_le_bytes(*position) })
}
