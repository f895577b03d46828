//! New objects.

use smallvec::SmallVec;
use tombolo_memory::Memory;
use tombolo_sharing::{Counter, Part};

use crate::host::lookup::Lookup;
use crate::host::reserve::PATIENCE;
use crate::replica::apply::fingerprint;
use crate::replica::event::Event;
use crate::storage::index::Entry;
use crate::write::relocate::Placed;
use crate::{Error, Objects, Version};

impl<M: Memory> Objects<M> {
    /// Creates an object.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::LnrFull`], [`Error::TooLarge`] or [`Error::IndexFull`] if there
    /// is no room; [`Error::KeyLength`], [`Error::Busy`], [`Error::Stalled`], [`Error::Fenced`].
    pub fn create(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        let hash = self.begin(key)?;
        let index = &self.state(hash).index;
        let objects = index.len();
        if objects >= index.capacity() {
            return Err(Error::IndexFull { objects });
        }
        let mut placed = None;
        let created = self.retry_with_backoff(|| {
            let mut others = SmallVec::<[Entry; 4]>::new();
            let same = self.lookup(hash, |found, tail| {
                others.push(found.entry);
                self.look(found, tail, key, Part::Nothing, |_, _| ())
            })?;
            match same {
                Lookup::Found(_) => return Err(Error::Exists),
                Lookup::Absent => {}
                Lookup::Retry => return Ok(None),
            }
            let expected = fingerprint(others.into_iter());
            if placed.is_none() {
                let Some(intent) = self.open_intent() else { return Ok(None) };
                placed = Some(self.place(intent, hash, key, value, PATIENCE)?);
            }
            let Some(placed) = &placed else { return Ok(None) };
            let Placed { slot, intent, .. } = *placed;
            let event = Event::Create { hash, slot, expected, intent_slot: intent.intent_slot };
            Ok(self.announce(placed, None, event)?.then_some(placed.header.version))
        });
        if let Some(placed) = placed {
            self.end_placing(hash, &placed, None, created.as_ref().map(|_| true));
        }
        if created.is_ok() {
            self.count(Counter::Creates);
        }
        created
    }
}
