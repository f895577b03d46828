//! Reads of objects that are in their slots, and of which this host has no stale line: most reads.
//! They take the same steps as [others](crate::read), and give up where something is to be done, or
//! has changed. So they take few instructions, and the processor begins with the next read while it
//! waits for this one's lines.

use std::convert::Infallible;

use tombolo_memory::{Lines, Memory};
use tombolo_sharing::{HEADER_BYTES, Header, Part};

use crate::host::lookup::Candidate;
use crate::storage::index::Found;
use crate::storage::index::validated;
use crate::storage::index::validated::READ_SHARED;
use crate::{Objects, sites};

impl<M: Memory> Objects<M> {
    /// Reads part of an object that may have `key`: the first bytes of it into `head`, all others
    /// into `rest`. `None` if it takes more than that to tell what came of it.
    #[inline(always)]
    pub(crate) fn read_fresh<const HEAD: usize>(
        &self,
        candidate: &Candidate<'_, M>,
        key: &[u8],
        part: Part,
        head: &mut [u8; HEAD],
        rest: &mut Vec<u8>,
    ) -> Option<Header> {
        let &Candidate { end, found: Found { entry, cell }, lines, .. } = candidate;
        let memory = self.memory();
        if self.places_objects() {
            return None;
        }
        let record = entry.record();
        if rest.capacity() == 0 {
            // There is room to be made first, so the copy would ask for its lines late.
            self.fetch(lines, part);
        } else if record.is_some() {
            // It, and what is noted of it, would be waited for first.
            memory.prefetch(Lines::new(lines.first(), 1));
        }
        let since = memory.moment();
        let counter = match record {
            None => READ_SHARED,
            Some(record) => self.records.load(record).readable()?,
        };
        if !validated::is_fresh(memory, cell.validated_at, counter) {
            return None;
        }
        let header = self.header_with(lines, key)?;
        let (offset, length) = part.of(u64::from(header.value_bytes)).ok()?;
        let others = (length as usize).checked_sub(HEAD)?;
        // Where that is does not depend on what is read here: it can be on its way before the
        // header has come.
        let start = (HEADER_BYTES + key.len()) as u64 + offset;
        if HEAD > 0 {
            memory.read(lines.start().plus(start), head);
        }
        let rest_at = lines.start().plus(start + HEAD as u64);
        if rest.len() == others {
            memory.read(rest_at, rest);
        } else {
            rest.clear();
            memory.append(rest_at, others as u64, rest);
        }
        let Ok(holds) =
            self.both_hold(entry.record(), counter, || Ok::<_, Infallible>(end.is_still()));
        if !holds || !memory.check(sites::POISON_READ, !memory.poisoned(lines)) {
            return None;
        }
        memory.relies_on(lines.start(), lines.bytes(), since);
        Some(header)
    }

    /// The header of the object in these lines, if that has `key`.
    #[inline(always)]
    pub(crate) fn header_with(&self, lines: Lines, key: &[u8]) -> Option<Header> {
        if (HEADER_BYTES + key.len()) as u64 > lines.bytes() {
            return None;
        }
        let (header, has_key) = self.memory().read_before(lines.start(), key);
        if !self.memory().check(sites::KEY_COMPARE, has_key) {
            return None;
        }
        Header::decode_with(&header, key.len(), lines.bytes())
    }
}
