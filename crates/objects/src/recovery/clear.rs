//! Clearing up after a host that is gone: what it had locked is [rescued](crate::recovery) first,
//! or restored from its own memory; then what it had under way is ended, and what it had taken is
//! free again: chunks, slots in quarantine, latches, at last its seat.
//!
//! Each step can be done again by another host, if the one that does it dies, too; what that would
//! not know any more, intents or words in SCR say first.

use tombolo_memory::Memory;
use tombolo_sharing::Counter;

use crate::ids::{KeyHash, LostTo, Slot, SlotLine};
use crate::recovery::absent::{Absent, Dead};
use crate::replica::event::{Event, Target, target};
use crate::storage::index::Entry;
use crate::storage::intents::{Intent, IntentSlot};
use crate::{Error, Objects, sites};

impl<M: Memory> Objects<M> {
    /// Puts everything in order that a host has left which is gone, and frees its seat.
    pub(crate) fn clear_up(&self, dead: Dead) -> Result<(), Error> {
        let stay = dead.stay();
        if self.partition.is_backed() {
            self.restore_partition(dead)?;
        }
        self.rescue_all(dead)?;
        let left = self.records.locked_by(stay.host).next().is_some();
        // A host that has died at that itself left the lock with its intent, or nothing but the
        // intent.
        let still = |(record, by)| self.records.load(record).holder() == Some(by);
        if left || self.intents.table.taken_over(stay.host).any(still) {
            return Ok(());
        }
        self.sync_all()?;
        if self.memory().keeps(sites::QUARANTINE_EARLY) && !self.withdraw_quarantine(dead)? {
            return Ok(());
        }
        self.drop_notes(stay)?;
        self.end_what_was_under_way(dead)?;
        self.mark_lost(dead)?;
        for shard in self.shards() {
            let chunks = shard.state().space.take_back(stay.host)?;
            self.upkeep.cleanups.note(stay, |cleanup| cleanup.chunks += chunks);
        }
        self.free_chains_of(dead)?;
        self.dirty_bits.free_latches_of(stay.host);
        self.pins.table.clear_of(stay.host);
        let quarantined = self.quarantined(stay.host);
        let leaving: Vec<SlotLine> = self.intents.table.left_by_others(stay.host).collect();
        if quarantined.iter().flatten().any(|slot| leaving.contains(slot)) {
            return Ok(());
        }
        for (shard, slots) in self.shards().iter().zip(&quarantined) {
            shard.state().space.scrub(sites::SLOT_SCRUB, slots.iter().copied());
        }
        self.intents.table.end_quarantine(stay.host);
        for (number, slots) in quarantined.into_iter().enumerate() {
            self.forget(stay.host, number, slots)?;
        }
        if self.area().release(stay) {
            self.upkeep.cleanups.complete(stay);
            self.count(Counter::Recoveries);
        }
        Ok(())
    }

    /// Objects with which a host that is gone was about to go on elsewhere, after others that may
    /// still be alive, are in their slots as before: for who opens the pod if all die, and for whom
    /// the intents of that host told the same until now. `false` if others are clearing up there.
    fn withdraw_quarantine(&self, Dead(stay): Dead) -> Result<bool, Error> {
        let intents = &self.intents.table;
        for host in self.area().membership().fenced().filter(|&host| host != stay.host) {
            if self.early_in_quarantine(host).is_empty() {
                continue;
            }
            let of = self.area().stay_of(host);
            if !self.area().begin_cleanup(of, self.enrolment.host()) {
                return Ok(false);
            }
            // The host that was at it until now may have gone on with some of them.
            let synced = self.sync_all();
            if synced.is_ok() {
                let early = self.early_in_quarantine(host);
                early.into_iter().for_each(|slot| intents.not_in_quarantine(host, slot));
            }
            self.area().yield_cleanup(of, self.enrolment.host());
            synced?;
        }
        Ok(true)
    }

    /// Slots that are said to be in quarantine, and whose objects have not gone on elsewhere, as
    /// the log says.
    fn early_in_quarantine(&self, host: u8) -> Vec<SlotLine> {
        let quarantined = self.quarantined(host).concat();
        let noted = self.intents.table.quarantine(host).filter(|(_, lost)| !lost);
        noted.map(|(slot, _)| slot).filter(|slot| !quarantined.contains(slot)).collect()
    }

    /// Slots in quarantine, of each shard, as the log says.
    fn quarantined(&self, host: u8) -> Vec<Vec<SlotLine>> {
        let shards = self.shards().iter();
        shards
            .map(|shard| shard.paused(|_, _, _, writer| writer.quarantine.slots_of(host)))
            .collect()
    }

    /// Frees a shard's slots into which a host might have written that is gone.
    fn forget(&self, host: u8, shard: usize, slots: Vec<SlotLine>) -> Result<(), Error> {
        let space = &self.shards()[shard].state().space;
        let slots: Vec<Slot> = slots.into_iter().filter_map(|line| space.slot_at(line)).collect();
        // A host that does this again, after the event, finds them among what the dead host had
        // taken.
        slots.iter().for_each(|&slot| _ = space.assign_chain(slot, host));
        let shards = self.shards().len() as u64;
        let hash = ((shard as u64) << KeyHash::BITS).div_ceil(shards) as KeyHash;
        self.commit(Event::Forget { target: Target { hash, slot: 0, expected: 0 }, host })?;
        slots.into_iter().for_each(|slot| space.free_chain(slot));
        Ok(())
    }

    /// Takes headers out of slots in which a host that is gone has left some, and which are no
    /// object's as the log says.
    fn end_what_was_under_way(&self, dead: Dead) -> Result<(), Error> {
        let intents: Vec<_> = self.intents.table.of(dead.0.host).collect();
        let under_way = intents.len() as u64;
        self.upkeep.cleanups.note(dead.0, |cleanup| cleanup.intents += under_way);
        for (intent_slot, intent) in intents {
            if self.memory().keeps(sites::CLEAR_DECIDED) {
                self.decide_move(dead, intent_slot, intent)?;
            }
            let (to, from) = match intent {
                Intent::Places { to, .. } | Intent::Created { to } => (Some(to), None),
                Intent::Announces { from, to, .. } => (Some(to), from),
                Intent::Deletes { slot, .. } => (None, Some(slot)),
                Intent::Writes { .. }
                | Intent::TookOver { .. }
                | Intent::MovesOut { .. }
                | Intent::Through { .. } => (None, None),
            };
            for line in [to, from].into_iter().flatten() {
                if self.is_still_left(dead, line, intent.left() == Some(line))? {
                    let space = self.space_of(line)?;
                    self.intents.table.lost_no_more(line);
                    space.scrub(sites::SLOT_SCRUB, [line]);
                    if intent.left() == Some(line) {
                        space.chain_at(line)?.into_iter().for_each(|chain| space.free_chain(chain));
                    }
                }
            }
            self.intents.table.clear(dead.0.host, intent_slot);
        }
        Ok(())
    }

    /// Says of an object that was to move which of its slots is empty, before that is: one that is
    /// empty already would no longer tell who opens the pod, if all die, whether the object has
    /// moved.
    fn decide_move(
        &self,
        Dead(stay): Dead,
        intent_slot: IntentSlot,
        intent: Intent,
    ) -> Result<(), Error> {
        let Intent::Announces { from: Some(from), to, .. } = intent else { return Ok(()) };
        let decided = if self.holds_object(to)? {
            Intent::Deletes { slot: from, version: None, torn: None }
        } else if self.holds_object(from)? {
            Intent::Places { to, torn: None }
        } else {
            return Ok(());
        };
        self.intents.table.set(stay.host, intent_slot, decided);
        Ok(())
    }

    /// Whether an object is in this slot, as the log says.
    fn holds_object(&self, line: SlotLine) -> Result<bool, Error> {
        let space = self.space_of(line)?;
        Ok(space.slot_at(line).is_some_and(|slot| space.holds_object(slot)))
    }

    /// Whether nothing is in a slot that an object of a host which is gone has left, or was to come
    /// to, and nobody else is about to take something out of there, or has.
    fn is_still_left(&self, Dead(stay): Dead, line: SlotLine, left: bool) -> Result<bool, Error> {
        let space = self.space_of(line)?;
        // A host that has taken the object out of the slot since has said so before, and is at it.
        if self.holds_object(line)?
            || self.intents.table.left_by_others(stay.host).any(|it| it == line)
        {
            return Ok(false);
        }
        // Nobody promises a slot that an object may be leaving. One that an object came to may have
        // been left again since, and promised to another one; then it is not in a chunk of that
        // host any more.
        let nobodys = left || space.word(space.chunk_at(line)?)?.is_of(stay.host);
        Ok(self.memory().check(sites::CLEAR_PROMISED, nobodys))
    }

    /// Objects that are lost with a host that is gone say so in their slots, for the host that
    /// opens the pod after all have left.
    fn mark_lost(&self, Dead(stay): Dead) -> Result<(), Error> {
        for shard in self.shards() {
            let lost = shard.paused(|_, _, state, _| -> Vec<Entry> {
                state
                    .index
                    .entries()
                    .filter(|entry| entry.lost() == Some(LostTo::Host(stay.host)))
                    .collect()
            });
            for entry in lost {
                // A host that decided before this to take it out of its slot cannot any more. One
                // that wants to now waits.
                if self.commit(Event::Wrap(target(entry)))? {
                    self.mark_away(&entry, stay.host)?;
                }
            }
        }
        Ok(())
    }

    /// Frees chunks that a host which is gone had taken for large objects that are not in the
    /// index, and that nobody else is about to free.
    fn free_chains_of(&self, Dead(stay): Dead) -> Result<(), Error> {
        let mut known = Vec::new();
        for shard in self.shards() {
            shard.paused(|_, _, state, writer| {
                known.extend(state.space.chain_lines());
                known.extend(writer.quarantine.slots.iter().map(|&(_, line)| line));
            });
        }
        // A host that has taken an object out of its slot has recorded that before the log, and so
        // the index, said so.
        known.extend(self.intents.table.left_by_others(stay.host));
        self.shards()[0].state().space.free_chains_of(stay.host, &known)
    }
}
