//! Reads of objects that are in their slots, and of which this host has no stale line: most reads. They take the
//! same steps as [others](crate::read), and give up where something is to be done, or has changed. So they take few
//! instructions, and the processor begins with the next read while it waits for this one's lines.

use tombolo_memory::{LINE_BYTES, Memory};
use tombolo_sharing::{HEADER_BYTES, Header, Part};

use crate::event::KeyHash;
use crate::extent::Extent;
use crate::{Objects, seen, sites};

impl<M: Memory> Objects<M> {
    /// Reads part of the object with `key`, whose hash is given. `None` if it takes more than that to tell what
    /// came of it, or if header and key don't fit into a line.
    #[inline(always)]
    pub(crate) fn read_fresh(
        &self,
        hash: KeyHash,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Option<Header> {
        let (memory, shard) = (self.memory(), self.shard(hash));
        let tail = shard.at_end()?;
        let found = shard.state().index.find_one(memory, hash).0?;
        let entry = found.entry;
        if self.places_objects() || !entry.is_in_its_slot() {
            return None;
        }
        let Extent::Whole(lines) = shard.state().space.extent_at(entry.slot)? else { return None };
        self.fetch(lines, part);
        let since = memory.moment();
        let counter = self.readable_counter(&entry)?;
        if !seen::is_fresh(memory, found.seen, entry.generation, counter) {
            return None;
        }
        let mut prefix = [0; LINE_BYTES as usize];
        let prefix = prefix.get_mut(..HEADER_BYTES + key.len())?;
        memory.read(lines.start(), prefix);
        let header = Header::decode(prefix, lines.bytes())?;
        let same = usize::from(header.key_bytes) == key.len() && &prefix[HEADER_BYTES..] == key;
        if !memory.check(sites::KEY_COMPARE, same) {
            return None;
        }
        let (offset, length) = part.of(u64::from(header.value_bytes)).ok()?;
        value.resize(length as usize, 0);
        memory.read(lines.start().plus(header.value_offset() + offset), value);
        if !self.still_holds(&entry, counter, tail).ok()? {
            return None;
        }
        if !memory.check(sites::POISON_READ, !memory.poisoned(lines)) {
            return None;
        }
        memory.relies_on(lines.start(), lines.bytes(), since);
        Some(header)
    }
}
