//! Coming and going: where a host's replica comes from.
//!
//! The first host to join a pod in which nobody is rebuilds the index from the objects' headers in LNR
//! ([`reopen`](crate::reopen)); all records are free then. A host that joins others gets a copy of one of their replicas, as of a
//! position that the log still reaches back to. Shards of the log go one after the other in one
//! snapshot, each as of a position of its own.
//!
//! ```text
//! snapshot   per shard: position (8 bytes); fenced stays: how many (8), each its number (4) and host (1);
//!            hosts that were fenced and are not known to be gone (8: a bit each); slots in quarantine:
//!            how many (8), each a slot and the host (1); objects: how many (8), each
//!            hash (4), generation (4), slot, record + 1, or what else (4)
//! slot       line (8 bytes), chunks (4), class (1)
//! ```

use std::sync::Arc;
use std::time::Duration;

use tombolo_log::{Fences, Replica};
use tombolo_memory::{LINE_BYTES, Memory};
use tombolo_pod::{Geometry, Leave, Pod, Seat, Stay, Taker, fence_ended};
use tombolo_sharing::hash_key;

use crate::at_rest::{AtRest, object_at_rest};
use crate::chunk_table::{ChunkState, ChunkWord};
use crate::event::{KeyHash, Slot, generation_at};
use crate::heir::{Heir, Left};
use crate::index::{Entry, Sharing};
use crate::logged::BY_LOG;
use crate::marks::Marks;
use crate::objects::{Objects, Options, Shard, shard_of};
use crate::pins::PinTable;
use crate::poison::survive;
use crate::records::{Abandoned, Records};
use crate::reopen::Reopened;
use crate::replicated::{Quarantine, Replicated, Writer};
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
    fences: Fences,
}

impl<M: Memory> Built<M> {
    fn restore(&mut self, entry: Entry, slot: Slot) {
        self.state.restore(&mut self.writer, entry, slot);
    }

    fn make_room(&mut self, objects: u64) {
        self.state.make_room(&mut self.writer, objects);
    }
}

/// What a host needs to know of a pod in order to take part in it.
struct Replicas<M: Memory> {
    shards: Vec<Built<M>>,
    records: Arc<Records<M>>,
}

impl<M: Memory> Replicas<M> {
    /// Of an empty pod whose log ends at these positions.
    fn empty(pod: &Pod<M>, seat: &Seat, options: &Options, positions: &[u64]) -> Self {
        let abandoned = Abandoned::default();
        let records =
            Arc::new(Records::new(pod, seat.host(), options.known_owners, abandoned.clone()));
        let &Geometry { log_shards, chunks, chunk_bytes, .. } = pod.geometry();
        let limits = options.index.of_one_of(log_shards, chunks * chunk_bytes / LINE_BYTES);
        let shard = |(shard, &position): (u8, &u64)| {
            let space = Space::new(pod, seat.host(), shard, abandoned.clone());
            let memory = pod.memory().clone();
            let state = Replicated::new(memory, limits, space, Arc::clone(&records));
            Built { state, writer: Writer::default(), position, fences: Fences::default() }
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
        Self::join_with(pod, options, None)
    }

    /// Joins a pod for a page cache. If all who were in it have died, `heir` takes care of what they had marked.
    ///
    /// # Errors
    /// As of [`join`](Self::join), and those of `heir`.
    pub fn join_as(pod: Pod<M>, options: Options, heir: &dyn Heir<M>) -> Result<Self, Error> {
        Self::join_with(pod, options, Some(heir))
    }

    fn join_with(pod: Pod<M>, options: Options, heir: Option<&dyn Heir<M>>) -> Result<Self, Error> {
        survive(&pod);
        let (mut seat, first) = pod.join()?;
        // From here on the log keeps what this host has not applied.
        let shards = pod.geometry().shards();
        let announced: Vec<u64> =
            shards.clone().map(|shard| Shard::<M>::announce(&pod, &seat, shard)).collect();
        let built = Self::build(&pod, &mut seat, &options, first, &announced, heir);
        let joined = built.and_then(|built| {
            let replica = |(shard, built): (u8, Built<M>)| {
                let Built { state, writer, position, fences } = built;
                Replica::new(pod.clone(), &seat, shard, (position, fences), state, writer)
            };
            let replicas = shards.zip(built.shards).map(replica).collect();
            let (pod, seat) = (pod.clone(), seat.clone());
            let objects = Self::with_shards(pod, replicas, built.records, seat, options)?;
            objects.underway.clear_all();
            objects.sync_all()?;
            Ok(objects)
        });
        let joined = joined.and_then(|objects| {
            seat.ready(pod.memory())?;
            Ok(objects)
        });
        if joined.is_err() {
            seat.give_up(pod.memory());
            pod.memory().gives_all();
            pod.note_gone(Stay { host: seat.host(), number: seat.incarnation() });
        }
        joined
    }

    fn build(
        pod: &Pod<M>,
        seat: &mut Seat,
        options: &Options,
        first: bool,
        announced: &[u64],
        heir: Option<&dyn Heir<M>>,
    ) -> Result<Replicas<M>, Error> {
        if pod.is_under_other_scheme() && pod.memory().keeps(sites::OPEN_OTHER) {
            return Err(Error::Setup(
                "its hosts share objects under HCMeta, or did so when they died, and then what they knew is gone with them: create it anew"
                    .to_owned(),
            ));
        }
        let of = seat.clone();
        let empty = || Replicas::empty(pod, &of, options, announced);
        if first {
            return rebuild(empty(), pod, seat, heir);
        }
        for _ in 0..ATTEMPTS {
            // Those who could have helped may have died.
            fence_ended(pod, pod.membership());
            if seat.opens_anew(pod.memory()) {
                return rebuild(empty(), pod, seat, heir);
            }
            let snapshot =
                Taker::new(pod, seat).take().filter(|_| !seat.is_overtaken(pod.memory()));
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
            shard.paused(|position, fences, state, writer| {
                bytes.extend(position.to_le_bytes());
                add_fences(&mut bytes, fences, &writer.quarantine, &state.space);
                add_objects(&mut bytes, state);
            });
        }
        Ok(bytes)
    }

    /// Leaves the pod. The last host leaves it closed, with all objects in place. Nothing else may
    /// be done with this handle afterwards, and no thread may be at it now.
    ///
    /// # Errors
    /// [`Error::StillViewing`], [`Error::Log`], [`Error::Damaged`]: the seat is still taken.
    pub fn leave(&self) -> Result<(), Error> {
        let memory = self.memory();
        // Who has left, or is known to be gone, keeps nobody off what it looks at.
        match self.pins.open() {
            0 => {}
            views => return Err(Error::StillViewing { views }),
        }
        if !self.seat.holds(memory) {
            // Others clear up, but what is in this host's caches they cannot.
            self.shards().iter().for_each(Shard::withdraw);
            memory.gives_all();
            self.pod().note_gone(self.stay());
            return Err(self.is_fenced());
        }
        if memory.keeps(sites::HOME_LEAVE) {
            self.return_all()?;
        }
        self.shards().iter().for_each(|shard| shard.state().space.release_all());
        let started = memory.uptime();
        // After the last to leave nobody is left to clear up.
        while self.is_last_of_dead() && memory.uptime().saturating_sub(started) < PATIENCE {
            self.recover_all()?;
            memory.pause();
        }
        loop {
            let patient = memory.uptime().saturating_sub(started) < PATIENCE;
            match self.seat.leave(memory, patient) {
                Leave::Left => return Ok(()),
                Leave::Wait => {
                    self.help_joining()?;
                    memory.pause();
                }
                Leave::Close => {
                    self.empty_if_clean();
                    self.seat.closed(memory);
                    return Ok(());
                }
            }
        }
    }

    /// A pod for a page cache opens empty. What is found in one has not been left in order.
    fn empty_if_clean(&self) {
        let clean = self.marks.exist() && self.marks.count() == 0;
        if clean && self.memory().keeps(sites::CLOSE_EMPTY) {
            self.shards()[0].state().space.free_everything();
        }
    }

    /// Whether nobody else is here but hosts that were fenced and are not cleared up after.
    fn is_last_of_dead(&self) -> bool {
        let members = self.pod().membership();
        members.count() == 1 && members.fenced().next().is_some()
    }
}

/// The index as the objects' headers tell it, in a pod that nobody else uses.
fn rebuild<M: Memory>(
    mut empty: Replicas<M>,
    pod: &Pod<M>,
    seat: &Seat,
    heir: Option<&dyn Heir<M>>,
) -> Result<Replicas<M>, Error> {
    let marks = Marks::new(pod);
    let space = Space::new(pod, 0, 0, Abandoned::default());
    let records = Arc::clone(&empty.records);
    let mut reopened = Reopened::new(pod, &space, &records)?;
    // Now nobody orders anything any more. What was ordered since this host joined the headers and notes tell, too.
    if pod.memory().keeps(sites::OPEN_LOG_END) {
        for (shard, built) in (0..).zip(&mut empty.shards) {
            built.position = Shard::<M>::announce(pod, seat, shard);
        }
    }
    if marks.exist() && pod.memory().keeps(sites::OPEN_EMPTY) {
        let mut slots = Vec::new();
        reopened.put_in_order()?;
        find_objects(pod, &space, &mut reopened, &mut |_, slot, _| {
            slots.push(slot);
            Ok(())
        })?;
        if !pod.memory().check(sites::OPEN_LEFT, slots.is_empty()) {
            heir.ok_or_else(|| no_heir(slots.len()))?.inherit(&Left::new(pod, &space, slots))?;
        }
        space.free_everything();
    } else {
        let mut restored = Restored { shards: &mut empty.shards, pod, objects: 0 };
        reopened.put_in_order()?;
        find_objects(pod, &space, &mut reopened, &mut |shard, slot, object| {
            restored.add(shard, slot, object)
        })?;
    }
    reopened.clear_notes();
    records.free_all();
    marks.reset();
    PinTable::new(pod).reset();
    pod.release_fenced();
    Ok(empty)
}

/// Shows the objects of a pod that is in order, each with its shard, and frees chunks in which there are none.
fn find_objects<M: Memory>(
    pod: &Pod<M>,
    space: &Space<M>,
    reopened: &mut Reopened<'_, M>,
    found: &mut dyn FnMut(u8, Slot, &AtRest) -> Result<(), Error>,
) -> Result<(), Error> {
    for number in space.chunk_numbers() {
        let (mut empty, word) = (true, space.word(number)?);
        if !pod.memory().check(sites::OPEN_UNTRUE, !word.untrue) {
            let slots = space.slots_of(number)?.into_iter().map(|slot| slot.line);
            space.void(sites::SLOT_VOID, slots);
        }
        for slot in space.slots_of(number)? {
            let Some(object) = object_at_rest(pod, space, slot)? else { continue };
            if reopened.is_the_one(&object.key, slot.line)? {
                found(word.shard, slot, &object)?;
                empty = false;
            }
        }
        if empty && !reopened.has_new_in(number) && word.state == ChunkState::Shared {
            space.set(number, ChunkWord::FREE);
        }
    }
    for (slot, object) in reopened.new_ones()? {
        found(space.shard_at(slot.line)?, slot, &object)?;
    }
    Ok(())
}

/// What its hosts had marked when they died is not to be forgotten without a word.
fn no_heir(left: usize) -> Error {
    Error::Setup(format!(
        "its hosts have died, and left {left} pages and heads of files that may not be in those: mount it, which brings them there, or create the pod anew"
    ))
}

/// Replicas that get the objects that are found.
struct Restored<'a, M: Memory> {
    shards: &'a mut [Built<M>],
    pod: &'a Pod<M>,
    objects: u64,
}

impl<M: Memory> Restored<'_, M> {
    fn add(&mut self, shard: u8, slot: Slot, object: &AtRest) -> Result<(), Error> {
        let hash = hash_key(self.pod, &object.key)? as KeyHash;
        if shard_of(hash, self.shards.len()) != usize::from(shard) {
            return Err(Error::Damaged(other_shard(slot)));
        }
        let built = &mut self.shards[usize::from(shard)];
        self.objects += 1;
        // Below all positions to come, and different for each object.
        let generation = generation_at(built.position.wrapping_sub(self.objects));
        let entry = Entry::read_shared(hash, generation, slot.line);
        built.restore(entry.shared(object.lost.map_or(Sharing::READ, Sharing::lost)), slot);
        Ok(())
    }
}

/// What is wrong with an object in a chunk whose word names a shard that is not its key's.
pub(crate) fn other_shard(slot: Slot) -> String {
    format!("the object at line {} is in a chunk of another log shard", slot.line)
}

fn add_objects<M: Memory>(bytes: &mut Vec<u8>, state: &Replicated<M>) {
    add_list(bytes, state.index.entries(), |bytes, entry| {
        let Some(slot) = state.space.slot_at(entry.slot) else { return false };
        bytes.extend(entry.hash.to_le_bytes());
        bytes.extend(entry.generation.to_le_bytes());
        add_slot(bytes, slot);
        bytes.extend(entry.sharing.code().to_le_bytes());
        true
    });
}

fn add_fences<M: Memory>(
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

/// The index as another host's replica tells it; `None` if the bytes are not a snapshot, or one that is
/// too old.
fn adopt<M: Memory>(mut empty: Replicas<M>, bytes: &[u8]) -> Option<Replicas<M>> {
    let mut snapshot = Reader(bytes);
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
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
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

fn adopt_slot<M: Memory>(built: &Built<M>, snapshot: &mut Reader<'_>) -> Option<Slot> {
    let (line, chunks, class) = (snapshot.number()?, snapshot.half()?, snapshot.byte()?);
    let slot = Slot { line, class, chunks };
    built.state.space.slot_lines(slot)?;
    Some(slot)
}

/// What an entry takes in a snapshot.
const ENTRY_BYTES: usize = 25;

fn adopt_entry<M: Memory>(built: &mut Built<M>, snapshot: &mut Reader<'_>) -> Option<()> {
    let (hash, generation) = (snapshot.half()?, snapshot.half()?);
    let slot = adopt_slot(built, snapshot)?;
    let sharing = Sharing::decode(snapshot.half()?)?;
    let entry = Entry::read_shared(hash, generation, slot.line).shared(sharing);
    let may_be = |record| record == BY_LOG || built.state.records.may_be_of(hash, record);
    if !entry.record().is_none_or(may_be) {
        return None;
    }
    built.restore(entry, slot);
    Some(())
}
