//! Copies of objects in a host's own memory (MEGALON, section 3.5.3).
//!
//! A copy says of which generation and counter it is. It is the object's value for as long as its
//! entry has that generation and its record that counter; so nobody is told of copies, and nobody has
//! to take them back. (The paper lists them in the index and can copy read-shared objects only.)
//!
//! A read-shared object's copy is good if the entry, as of a tail that was loaded after the read
//! began, has its generation. Of a read-write-shared one the counter is loaded next, and then the
//! entry is looked at again: it was the object's own counter.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use tombolo_memory::{LINE_BYTES, Local, Memory};
use tombolo_sharing::{Counter, HEADER_BYTES, Header, Part};

use crate::event::{Generation, SlotLine};
use crate::index::{Entry, Found};
use crate::read::{Outcome, Started};
use crate::{Error, Objects, sites};

/// What a copy takes besides its bytes, about.
const OVERHEAD_BYTES: u64 = 160;

/// Values are this long, more or less, for all that is known beforehand.
const USUAL_BYTES: u64 = 512;

const CACHE_SHARDS: usize = 32;

#[derive(Clone)]
struct Bytes;

impl Weighter<SlotLine, Copy> for Bytes {
    fn weight(&self, _: &SlotLine, copy: &Copy) -> u64 {
        OVERHEAD_BYTES + copy.0.len() as u64
    }
}

/// An object as it was at one generation and counter, all in one piece, so that it costs as few cache
/// misses as can be:
///
/// ```text
/// generation (4 bytes) | counter (4) | header (16) | key | value
/// ```
#[derive(Clone)]
struct Copy(Arc<[u8]>);

const NOTE_BYTES: usize = 8;

impl Copy {
    fn new(started: &Started, header: Header, key: &[u8], value: &[u8]) -> Self {
        let generation = started.entry.generation.to_le_bytes();
        let counter = started.counter.to_le_bytes();
        Self([&generation, &counter, &header.encode()[..], key, value].concat().into())
    }

    /// Generation and counter.
    fn note(&self) -> (Generation, u32) {
        let word =
            |at: usize| self.0[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        (word(0), word(4))
    }

    /// Header, key and value; nothing only if this is no copy.
    fn object(&self) -> Option<(Header, &[u8], &[u8])> {
        let object = &self.0[NOTE_BYTES..];
        let header = Header::decode(object, u64::MAX)?;
        let (key, value) =
            object[HEADER_BYTES..].split_at_checked(usize::from(header.key_bytes))?;
        Some((header, key, value))
    }
}

/// The copies of one host, by slot. Who has not been read for long makes room.
pub(crate) struct Copies {
    cache: Option<Cache<SlotLine, Copy, Bytes, foldhash::fast::FixedState>>,
}

impl Copies {
    /// Room for copies of `bytes` bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        let cache = (bytes > 0).then(|| {
            let options = OptionsBuilder::new()
                .shards(CACHE_SHARDS)
                .weight_capacity(bytes)
                .estimated_items_capacity((bytes / USUAL_BYTES) as usize)
                .build()
                .expect("nothing is left open");
            let hasher = foldhash::fast::FixedState::default();
            Cache::with_options(options, Bytes, hasher, DefaultLifecycle::default())
        });
        Self { cache }
    }

    pub(crate) fn are_wanted(&self) -> bool {
        self.cache.is_some()
    }

    /// Bytes of local memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.cache.as_ref().map_or(0, Cache::weight)
    }

    fn of(&self, slot: SlotLine) -> Option<Copy> {
        self.cache.as_ref()?.get(&slot)
    }

    /// Keeps what a good read of a whole object has found.
    pub(crate) fn keep(&self, started: &Started, header: Header, key: &[u8], value: &[u8]) {
        let Some(cache) = &self.cache else { return };
        cache.insert(started.entry.slot, Copy::new(started, header, key, value));
    }

    fn drop_copy(&self, slot: SlotLine) {
        if let Some(cache) = &self.cache {
            cache.remove(&slot);
        }
    }
}

impl<M: Memory> Objects<M> {
    /// Reads part of an object from its copy, if there is a good one: its header, and whether it has that
    /// part.
    pub(crate) fn read_copy(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Option<Outcome>, Error> {
        let entry = found.entry;
        if !self.copies.are_wanted() {
            return Ok(None);
        }
        let (memory, slot) = (self.memory(), entry.slot);
        memory.touches(Local::Copies, false, || slot..slot + 1);
        let Some(copy) = self.copies.of(entry.slot) else { return Ok(None) };
        let (generation, noted) = copy.note();
        let same = memory.check(sites::COPY_GENERATION, generation == entry.generation)
            && self
                .readable_counter(entry)
                .is_some_and(|counter| memory.check(sites::COPY_COUNTER, noted == counter));
        if !same {
            self.copies.drop_copy(entry.slot);
            return Ok(None);
        }
        let Some((header, _, copied)) = copy.object().filter(|&(_, own, _)| own == key) else {
            return Ok(None);
        };
        if !self.counter_was_own(entry, tail)? {
            return Ok(None);
        }
        self.count(Counter::CopyReads);
        let range = part.of(copied.len() as u64).map(|(offset, bytes)| {
            memory.touches(Local::Copies, false, || slot..slot + bytes.div_ceil(LINE_BYTES));
            value.clear();
            value.extend_from_slice(&copied[offset as usize..][..bytes as usize]);
        });
        Ok(Some((header, range)))
    }

    fn counter_was_own(&self, entry: Entry, tail: u64) -> Result<bool, Error> {
        let again = entry.record.is_some() && self.memory().keeps(sites::COPY_ENTRY_AGAIN);
        if again { self.entry_is_still(entry, tail) } else { Ok(true) }
    }
}
