//! Transactions of hosts that died, or were fenced: a note says that one is done, and what becomes
//! of its objects. Without a note nothing was changed.

use tombolo_memory::Memory;
use tombolo_pod::Stay;
use tombolo_sharing::{HEADER_BYTES, Header, Part};

use crate::ids::SlotLine;
use crate::storage::intents::{Intent, IntentSlot};
use crate::storage::records::RecordId;
use crate::storage::space::extent::Extent;
use crate::transaction::{Redo, UNWRITTEN, decode, note_key};
use crate::{Error, Objects, sites};

/// The redo note of a transaction of some host.
struct RedoNote {
    slot: SlotLine,
    redo: Vec<Redo>,
}

impl<M: Memory> Objects<M> {
    /// The fate of the object with this record, as a note says of a host whose lock this
    /// host has taken over. All shards of the log are applied beyond the fence of that host.
    pub(crate) fn redo_of(&self, record: RecordId) -> Result<Option<Redo>, Error> {
        if !self.memory().keeps(sites::TRANSACTION_REDO) {
            return Ok(None);
        }
        let holders: Vec<u8> =
            self.intents.table.holders(self.enrolment.host(), record).skip(1).collect();
        for stay in holders.into_iter().map(|host| self.area().stay_of(host)) {
            for intent_slot in self.intents.table.slots() {
                let Some(note) = self.redo_note(stay, intent_slot)? else { continue };
                let mut of_object = note.redo.into_iter().filter(|redo| redo.record == record);
                let Some(redo) = of_object.next() else { continue };
                self.say_decided(stay, intent_slot, note.slot);
                return Ok(Some(redo));
            }
        }
        Ok(None)
    }

    /// Says for the host that opens the pod, if all die, that a transaction of `stay` is done. That
    /// host knows no more than the intents whether an event of a fenced host had its effect.
    fn say_decided(&self, stay: Stay, intent_slot: IntentSlot, slot: SlotLine) {
        let table = &self.intents.table;
        let announced = table.of(stay.host).any(|(of, intent)| {
            let announces =
                matches!(intent, Intent::Announces { from: None, to, .. } if to == slot);
            of == intent_slot && announces
        });
        if announced && self.memory().keeps(sites::TRANSACTION_DECIDED) {
            table.set(stay.host, intent_slot, Intent::Created { to: slot });
        }
    }

    /// The note that a host has with this intent.
    fn redo_note(&self, stay: Stay, intent_slot: IntentSlot) -> Result<Option<RedoNote>, Error> {
        let key = note_key(stay, intent_slot);
        let hash = self.hash(&key)?;
        if self.state(hash).index.with_hash(hash).next().is_none() {
            return Ok(None);
        }
        let mut value = Vec::new();
        let slot = self.repeat(|| {
            self.lookup(hash, |found, tail| {
                let looked = self.look(found, tail, &key, Part::Whole, |snapshot, header| {
                    self.copy_value(snapshot, header, Part::Whole, &mut value)
                })?;
                looked.map(|(_, copied)| copied.map(|()| found.entry.slot)).transpose()
            })
        })?;
        let Some(slot) = slot else { return Ok(None) };
        let damaged = || Error::Damaged("the redo note of a transaction says nothing".to_owned());
        Ok(Some(RedoNote { slot, redo: decode(&value).ok_or_else(damaged)? }))
    }

    /// Whether nobody has said yet what the object in a slot is, whose lock was taken over.
    pub(crate) fn is_unwritten(&self, extent: &Extent) -> bool {
        let memory = self.memory();
        memory.consume(sites::READ_INVALIDATE, |_| ((), [extent.first()]));
        let mut header = [0; HEADER_BYTES];
        extent.read(memory, 0, &mut header);
        let header = Header::decode(&header, extent.bytes());
        let unwritten = header.is_some_and(|header| header.version == UNWRITTEN);
        unwritten && memory.keeps(sites::TRANSACTION_UNWRITTEN)
    }

    /// Deletes the notes of a host that is gone, all of whose locks are released.
    pub(crate) fn drop_notes(&self, stay: Stay) -> Result<(), Error> {
        if self.memory().keeps(sites::TRANSACTION_NOTES_END) {
            for intent_slot in self.intents.table.slots() {
                self.delete(&note_key(stay, intent_slot))?;
            }
        }
        Ok(())
    }
}
