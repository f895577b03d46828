//! The index of a pod in which nobody is, as the objects' headers tell it.

use std::sync::Arc;

use tombolo_memory::Memory;
use tombolo_pod::Enrolment;
use tombolo_sharing::{ObjectArea, hash_key};

use crate::ids::{KeyHash, Slot, generation_at, shard_of};
use crate::lifecycle::offline::{AtRest, object_at_rest};
use crate::lifecycle::open::Reopened;
use crate::lifecycle::salvage::{CrashRecovery, Orphans};
use crate::replica::Shard;
use crate::replica::snapshot::{Built, Replicas};
use crate::storage::dirty::DirtyBits;
use crate::storage::index::{Entry, Sharing};
use crate::storage::records::Abandoned;
use crate::storage::space::Space;
use crate::storage::space::chunk_table::ChunkState;
use crate::storage::space::pins::PinTable;
use crate::{Error, sites};

/// The index as the objects' headers tell it, in a pod that nobody else uses.
pub(crate) fn rebuild<M: Memory>(
    mut empty: Replicas<M>,
    area: &ObjectArea<M>,
    enrolment: &Enrolment,
    recovery: Option<&dyn CrashRecovery<M>>,
) -> Result<Replicas<M>, Error> {
    let dirty_bits = DirtyBits::new(area);
    let space = Space::new(area, 0, 0, Abandoned::default());
    let records = Arc::clone(&empty.records);
    let mut reopened = Reopened::new(area, &space, &records)?;
    // Now nobody orders anything any more. The headers and intents tell, too, of the events that
    // were ordered since this host joined.
    if area.memory().keeps(sites::OPEN_LOG_END) {
        for (shard, built) in (0..).zip(&mut empty.shards) {
            built.position = Shard::<M>::announce(area, enrolment, shard);
        }
    }
    if dirty_bits.exist() && area.memory().keeps(sites::OPEN_EMPTY) {
        let mut slots = Vec::new();
        reopened.put_in_order()?;
        find_objects(area, &space, &mut reopened, &mut |_, slot, _| {
            slots.push(slot);
            Ok(())
        })?;
        if !area.memory().check(sites::OPEN_LEFT, slots.is_empty()) {
            recovery
                .ok_or_else(|| no_crash_recovery(slots.len()))?
                .recover(&Orphans::new(area, &space, slots))?;
        }
        space.free_everything();
    } else {
        let mut restored = Restored { shards: &mut empty.shards, area, objects: 0 };
        reopened.put_in_order()?;
        find_objects(area, &space, &mut reopened, &mut |shard, slot, object| {
            restored.add(shard, slot, object)
        })?;
    }
    reopened.clear_intents();
    records.free_all();
    dirty_bits.reset();
    PinTable::new(area).reset();
    area.release_fenced();
    Ok(empty)
}

/// Shows the objects of a pod that is in order, each with its shard, and frees chunks in which
/// there are none.
fn find_objects<M: Memory>(
    area: &ObjectArea<M>,
    space: &Space<M>,
    reopened: &mut Reopened<'_, M>,
    found: &mut dyn FnMut(u8, Slot, &AtRest) -> Result<(), Error>,
) -> Result<(), Error> {
    for number in space.chunk_numbers() {
        let (mut empty, word) = (true, space.word(number)?);
        if !area.memory().check(sites::OPEN_UNTRUE, !word.untrue) {
            let slots = space.slots_of(number)?.into_iter().map(|slot| slot.line);
            space.scrub(sites::SLOT_SCRUB, slots);
        }
        for slot in space.slots_of(number)? {
            let Some(object) = object_at_rest(area, space, slot)? else { continue };
            let cut_off = object.is_unwritten() && area.memory().keeps(sites::OPEN_UNWRITTEN);
            if cut_off || object.is_note() {
                space.scrub(sites::SLOT_SCRUB, [slot.line]);
                continue;
            }
            if reopened.is_the_one(&object.key, slot.line)? {
                found(word.shard, slot, &object)?;
                empty = false;
            }
        }
        if empty && !reopened.has_new_in(number) && word.state == ChunkState::Shared {
            space.set(number, word.freed());
        }
    }
    for (slot, object) in reopened.new_ones()? {
        // Those that were cut off were met above.
        found(space.shard_at(slot.line)?, slot, &object)?;
    }
    Ok(())
}

/// Objects that its hosts had left dirty when they died are not to be forgotten without a word.
fn no_crash_recovery(left: usize) -> Error {
    Error::Setup(format!(
        "its hosts have died, and left {left} pages and heads of files that may not be in those: mount it, which brings them there, or create the pod anew"
    ))
}

/// Replicas that get the objects that are found.
struct Restored<'a, M: Memory> {
    shards: &'a mut [Built<M>],
    area: &'a ObjectArea<M>,
    objects: u64,
}

impl<M: Memory> Restored<'_, M> {
    fn add(&mut self, shard: u8, slot: Slot, object: &AtRest) -> Result<(), Error> {
        let hash = hash_key(self.area.pod(), &object.key)? as KeyHash;
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

/// The fault of an object in a chunk whose word names a shard that is not its key's.
pub(crate) fn other_shard(slot: Slot) -> String {
    format!("the object at line {} is in a chunk of another log shard", slot.line)
}
