//! Rows that are inserted: a ghost is put in their place, and locked.

use tombolo_database::{Conflict, Locks, Mode, OrderedKey, TxError, Version};
use tombolo_memory::Memory;

use super::{ATTEMPTS, Handle, Place, Tx};
use crate::index::{Index, Side};
use crate::partition::{Inserted, Partition};
use crate::request::Wish;
use crate::tigon::Part;

impl<'a, M: Memory> Tx<'a, M> {
    /// The access, locked for a writer, of a row that may be inserted: there was none, or it is a
    /// ghost.
    pub(super) fn reach_to_insert(
        &mut self,
        place: Place<'a, M>,
        key: &OrderedKey,
    ) -> Result<usize, TxError> {
        for _ in 0..ATTEMPTS {
            if let Some(&number) = self.found.get(&place.row(key)) {
                self.strengthen(number, Mode::Exclusive)?;
                return Ok(number);
            }
            if let Some(number) = self.reach_known(place, key, Mode::Exclusive)? {
                return Ok(number);
            }
            match place.part {
                Part::Own(partition) => {
                    if let Some(number) = self.insert_own(place, partition, key)? {
                        return Ok(number);
                    }
                }
                Part::Others(index) => self.insert_other(place, index, key)?,
            }
        }
        Err(self.conflict(Conflict::Moved))
    }

    fn insert_own(
        &mut self,
        place: Place<'a, M>,
        partition: &'a Partition<M>,
        key: &OrderedKey,
    ) -> Result<Option<usize>, TxError> {
        let mut rows = partition.rows.lock();
        partition.searches(self.db.memory(), &rows, key);
        let (next, _) = rows.next(key);
        let held = self.mode_of(place, &next);
        let locks = Locks::of(Some(Mode::Exclusive));
        match partition.insert(&self.db.cat, &mut rows, key, held, locks)? {
            Inserted::Exists => Ok(None),
            Inserted::GapLocked => Err(self.conflict(Conflict::Gap)),
            Inserted::Made(row) => {
                Ok(Some(self.add_ghost(place, key, Handle::Own(partition, row), Mode::Exclusive)))
            }
        }
    }

    fn insert_other(
        &mut self,
        place: Place<'a, M>,
        index: &Index,
        key: &OrderedKey,
    ) -> Result<(), TxError> {
        let next = index.seek(&self.db.cat, key, Side::After { or_equal: false })?;
        let held = next.and_then(|(next, at)| Some((self.mode_of(place, &next)?, at)));
        if self.ask(place.request(Wish::Ghost(held), *key))? {
            // The ghost is locked for this transaction. So its record stays.
            let at = index.get(&self.db.cat, key)?.ok_or_else(|| damaged(key))?;
            let handle = Handle::Other(at, place.kept(&self.db.cat, index));
            self.add_ghost(place, key, handle, Mode::Shared);
        }
        Ok(())
    }

    fn add_ghost(
        &mut self,
        place: Place<'a, M>,
        key: &OrderedKey,
        handle: Handle<'a, M>,
        mode: Mode,
    ) -> usize {
        self.add(place, *key, handle, mode, (None, Version::default()))
    }
}

fn damaged(key: &OrderedKey) -> TxError {
    TxError::Failed(format!("the shared index has lost a row that was put there: {key:?}"))
}
