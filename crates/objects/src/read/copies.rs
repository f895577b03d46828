//! Copies of objects in a host's own memory (MEGALON, section 3.5.3).
//!
//! A copy says at which counter it was made, and is named by what is noted of its object's
//! generation. It is the object's value for as long as the entry has that generation and the record
//! that counter; so nobody is told of copies, and nobody has to take them back. (The paper lists
//! them in the index and can copy read-shared objects only.)
//!
//! A read-shared object's copy is good if the entry, as of a tail that was loaded after the read
//! began, has its generation. Of a read-write-shared one the counter is loaded next, and then the
//! entry is looked at again: it was the object's own counter.
//!
//! The object's note in the index names its copy, so finding it takes no look at another table
//! (`ring.rs` says how copies come and go).

use tombolo_memory::{Local, Memory};
use tombolo_sharing::{Counter, Header, Part};

use crate::host::lookup::Attempt;
use crate::read::ReadSnapshot;
use crate::storage::copies::{CopyContents, lines};
use crate::storage::index::validated::{NEVER_VALIDATED, ValidatedAt};
use crate::storage::index::{Entry, Found, validated};
use crate::{Error, Objects, sites};

impl<M: Memory> Objects<M> {
    /// Reads part of an object from its copy, if there is a good one.
    #[inline]
    pub(crate) fn read_copy(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Option<Attempt<Header>>, Error> {
        let (Some(copies), Some(line)) =
            (&self.copies, validated::copy_line(found.cell.validated_at))
        else {
            return Ok(None);
        };
        let (memory, entry) = (self.memory(), &found.entry);
        copies.fetch(line);
        let Some(counter) = self.readable_counter(entry) else { return Ok(None) };
        memory.step();
        let Some(copy) = copies.hold(memory, found) else { return Ok(Some(self.evicted())) };
        let (noted, header) = copy.start();
        // All of it has been on its way at once.
        let line = u64::from(line);
        memory.touches(Local::Copies, false, || line..line + header.map_or(1, |h| lines(&h)));
        let same_key = header.is_some_and(|header| copy.has_key(&header, key));
        memory.step();
        if !copy.is_still(memory) {
            return Ok(Some(self.evicted()));
        }
        let Some(header) = header.filter(|_| memory.check(sites::COPY_COUNTER, noted == counter))
        else {
            return Ok(None);
        };
        if memory.check(sites::KEY_COMPARE, same_key)
            && let Ok((offset, bytes)) = part.of(u64::from(header.value_bytes))
        {
            copy.value(&header, offset, bytes, value);
        }
        memory.step();
        if !copy.is_still(memory) {
            return Ok(Some(self.evicted()));
        }
        if !self.counter_was_own(entry, tail)? {
            return Ok(None);
        }
        if !memory.check(sites::KEY_COMPARE, same_key) {
            return Ok(Some(Attempt::OtherKey));
        }
        copy.use_again_soon(found);
        self.count(Counter::CopyReads);
        Ok(Some(Attempt::Good(header)))
    }

    fn evicted(&self) -> Attempt<Header> {
        self.count(Counter::Retries);
        Attempt::Changed
    }

    fn counter_was_own(&self, entry: &Entry, tail: u64) -> Result<bool, Error> {
        let again = entry.locked_by().is_some() && self.memory().keeps(sites::COPY_ENTRY_AGAIN);
        if again { self.entry_is_still(entry, tail) } else { Ok(true) }
    }

    /// The note of an object when it was found. For a host with a copy it is the copy's counter, as
    /// of which the host has no stale lines.
    #[inline]
    pub(crate) fn validated_at(&self, found: &Found<'_>) -> ValidatedAt {
        match &self.copies {
            Some(copies) if validated::copy_line(found.cell.validated_at).is_some() => {
                let copy = copies.hold(self.memory(), found);
                copy.and_then(|copy| copy.counter(self.memory())).unwrap_or(NEVER_VALIDATED)
            }
            _ => found.cell.validated_at,
        }
    }

    /// Keeps what a good read of a whole object has found.
    pub(crate) fn keep_copy(
        &self,
        found: &Found<'_>,
        snapshot: &ReadSnapshot,
        header: Header,
        key: &[u8],
        value: &[u8],
    ) {
        let Some(copies) = &self.copies else { return };
        let Entry { hash, generation, .. } = snapshot.entry;
        let counter = snapshot.counter;
        let contents = CopyContents { hash, generation, counter, header, key, value };
        copies.keep(self.memory(), found, &contents, |hash| &self.state(hash).index);
    }
}
