//! Reading: optimistic, without locks and without storing anything that others see (MEGALON,
//! section 3.4.5).

mod batch;
mod copies;
mod fast;
pub(crate) mod guard;
pub(crate) mod partition;
mod scan;
mod validate;
pub(crate) mod view;

use std::borrow::Cow;

use tombolo_memory::{Lines, Memory, Moment};
use tombolo_sharing::{Counter, HEADER_BYTES, Header, PREFIX_BYTES, Part, split};

use crate::error::loss;
use crate::host::blocked::Why;
use crate::host::lookup::{Attempt, Candidate, Lookup};
use crate::ids::KeyHash;
use crate::storage::index::validated::{READ_SHARED, ValidatedAt};
use crate::storage::index::{Entry, Found, validated};
use crate::storage::space::extent::Extent;
use crate::{Error, Objects, Version, sites};
use tombolo_placement::Place;

/// Lines of an object that are fetched before it is copied; of more, the processor itself makes
/// sure.
const FETCHED: u64 = 20;

/// Header and key, unless that is long, fit into so many bytes.
const SHORT_PREFIX_BYTES: usize = 64;

/// The state at the beginning of a read; the read is good if all of it still holds at its end.
#[derive(Clone)]
pub(crate) struct ReadSnapshot {
    pub(crate) entry: Entry,
    pub(crate) extent: Extent,
    /// The record's counter, or [`READ_SHARED`].
    pub(crate) counter: u32,
    /// The log's tail before the entry was looked up.
    pub(crate) tail: u64,
    /// Nothing that is read from here on was out of date before.
    since: Moment,
    /// The note of an earlier read.
    validated_at: ValidatedAt,
    /// The whole object is fresh in this host's caches as of `counter`.
    fresh: bool,
    /// It was so before: nobody else has written it since this host read it last.
    pub(crate) known: bool,
}

impl ReadSnapshot {
    /// Whether everything since this was one version.
    #[inline(always)]
    pub(crate) fn still_holds<M: Memory>(&self, objects: &Objects<M>) -> Result<bool, Error> {
        objects.still_holds(&self.entry, self.counter, self.tail)
    }

    /// Shows bytes of the slot where they lie, piece by piece. Nobody writes them any more.
    pub(crate) fn view<'a, M: Memory>(
        &'a self,
        memory: &'a M,
        offset: u64,
        bytes: u64,
    ) -> impl Iterator<Item = Cow<'a, [u8]>> {
        self.extent.view(memory, offset, bytes, self.since)
    }

    /// The bytes that were read of the object are used from here on.
    #[track_caller]
    pub(crate) fn rely_on<M: Memory>(&self, memory: &M) {
        self.extent.rely_on(memory, 0, self.extent.bytes(), self.since);
    }
}

impl<M: Memory> Objects<M> {
    /// Reads the value of `key` into `value`, replacing what is there; its version, or `None` if
    /// there is no such object.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::Lost`], [`Error::Poisoned`], [`Error::Busy`],
    /// [`Error::Stalled`], [`Error::Fenced`], [`Error::Damaged`].
    pub fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<Version>, Error> {
        self.read_split(key, &mut [], value)
    }

    /// As [`read`](Self::read), but the first bytes of the value go into `head`, and all others
    /// into `rest`: a caller that wants these alone need not move them.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the value is shorter than `head`, and those of
    /// [`read`](Self::read).
    // (Inlined: the fewer instructions there are to the next read, the earlier that begins.)
    #[inline(always)]
    pub fn read_split<const HEAD: usize>(
        &self,
        key: &[u8],
        head: &mut [u8; HEAD],
        rest: &mut Vec<u8>,
    ) -> Result<Option<Version>, Error> {
        let hash = self.begin(key)?;
        let candidate = self.candidate(hash);
        let read = self.read_candidate(hash, candidate.as_ref(), key, Part::Whole, head, rest)?;
        Ok(read.map(|header| header.version))
    }

    /// Reads `into.len()` bytes of the value of `key` from `offset` on.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OutOfRange`], and those of [`read`](Self::read).
    pub fn read_range(&self, key: &[u8], offset: u64, into: &mut [u8]) -> Result<Version, Error> {
        let mut bytes = Vec::new();
        let part = Part::Range(offset, into.len() as u64);
        let header = self.read_part(key, part, &mut bytes)?.ok_or(Error::NotFound)?;
        into.copy_from_slice(&bytes);
        Ok(header.version)
    }

    /// The length of the value of `key` in bytes, and its version; `None` if there is no such
    /// object.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn stat(&self, key: &[u8]) -> Result<Option<(u64, Version)>, Error> {
        let read = self.read_part(key, Part::Nothing, &mut Vec::new())?;
        Ok(read.map(|header| (u64::from(header.value_bytes), header.version)))
    }

    /// Has the processor fetch what it takes to find `key`, which is wanted soon.
    pub fn prefetch(&self, key: &[u8]) {
        if let Ok(hash) = self.hash(key) {
            self.state(hash).index.prefetch(hash);
        }
    }

    #[inline(always)]
    pub(crate) fn read_part(
        &self,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Option<Header>, Error> {
        let hash = self.begin(key)?;
        let candidate = self.candidate(hash);
        self.read_candidate(hash, candidate.as_ref(), key, part, &mut [], value)
    }

    /// The same, of a key whose hash is given, and of which perhaps a candidate is; the first bytes
    /// go into `head`.
    #[inline(always)]
    pub(crate) fn read_candidate<const HEAD: usize>(
        &self,
        hash: KeyHash,
        candidate: Option<&Candidate<'_, M>>,
        key: &[u8],
        part: Part,
        head: &mut [u8; HEAD],
        rest: &mut Vec<u8>,
    ) -> Result<Option<Header>, Error> {
        self.count(Counter::Reads);
        if let Some(candidate) = candidate
            && let Some(header) = self.read_fresh(candidate, key, part, head, rest)
        {
            return Ok(Some(header));
        }
        let Some(header) = self.read_any(hash, key, part, rest)? else { return Ok(None) };
        split(head, rest)?;
        Ok(Some(header))
    }

    /// The same, wherever the object is, and whatever this host knows of it.
    #[inline(never)]
    fn read_any(
        &self,
        hash: KeyHash,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Option<Header>, Error> {
        let read = self.repeat(|| self.try_read(hash, key, part, value))?;
        if let Some(header) = read {
            part.of(u64::from(header.value_bytes))?;
        }
        Ok(read)
    }

    /// Reads part of the object with `key`, whose hash is given.
    #[inline(always)]
    fn try_read(
        &self,
        hash: KeyHash,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Lookup<Header>, Error> {
        let tail = self.sync(hash)?;
        let index = &self.state(hash).index;
        let (found, alone) = index.find_one(self.memory(), hash);
        let Some(found) = found else { return Ok(Lookup::Absent) };
        match self.read_found(&found, tail, key, part, value)? {
            Attempt::Good(header) => Ok(Lookup::Found(header)),
            Attempt::OtherKey if alone => Ok(Lookup::Absent),
            Attempt::OtherKey => self.try_read_others(hash, key, part, value),
            Attempt::Changed => Ok(Lookup::Retry),
        }
    }

    /// The same, where several objects may have this hash.
    #[cold]
    fn try_read_others(
        &self,
        hash: KeyHash,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Lookup<Header>, Error> {
        self.lookup(hash, |found, tail| self.read_found(found, tail, key, part, value))
    }

    /// Reads part of an object that may have `key`, wherever it is; nothing, if it has no such
    /// part.
    #[inline(always)]
    pub(crate) fn read_found(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Attempt<Header>, Error> {
        if found.entry.partition() == Some(self.enrolment.host()) {
            return self.read_in_partition(found, key, part, value);
        }
        if self.places_objects() {
            return self.read_and_place(found, tail, key, part, value);
        }
        let attempt = self.look(found, tail, key, part, |snapshot, header| {
            // A fault of the range is an error only if the read turns out good.
            let _ = self.copy_value(snapshot, header, part, value);
        })?;
        Ok(attempt.map(|(header, ())| header))
    }

    /// The same, where objects may have copies, or be elsewhere; and may be after this.
    fn read_and_place(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Attempt<Header>, Error> {
        if let Some(attempt) = self.read_copy(found, tail, key, part, value)? {
            return Ok(attempt);
        }
        let attempt = self.look(found, tail, key, part, |snapshot, header| {
            // As above.
            let _ = self.copy_value(snapshot, header, part, value);
            snapshot.clone()
        })?;
        if let Attempt::Good((header, snapshot)) = &attempt
            && part.is_whole(u64::from(header.value_bytes))
        {
            self.place_after_read(found, snapshot, *header, key, value);
        }
        Ok(attempt.map(|(header, _)| header))
    }

    /// Copies an object that was read into this host's memory, or moves it there, if it is to be
    /// there.
    fn place_after_read(
        &self,
        found: &Found<'_>,
        snapshot: &ReadSnapshot,
        header: Header,
        key: &[u8],
        value: &[u8],
    ) {
        let profile = self.profiles.access(snapshot.entry.hash, false, snapshot.known);
        match self.placement.place(&profile, Place::Shared, &self.costs) {
            Place::Shared => {}
            Place::Partition if self.partition.is_open() => {
                // The read is done; if the object cannot move now, it may at the next access.
                let tail = snapshot.tail;
                let _ = self.blocked(Why::Misplaced { found, tail, header, key, value });
            }
            Place::Partition | Place::Copied => self.keep_copy(found, snapshot, header, key, value),
        }
    }

    /// Copies part of a value.
    #[inline(always)]
    pub(crate) fn copy_value(
        &self,
        snapshot: &ReadSnapshot,
        header: &Header,
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let (offset, bytes) = part.of(u64::from(header.value_bytes))?;
        let start = header.value_offset() + offset;
        self.invalidate_if_stale(snapshot, start, bytes);
        value.clear();
        snapshot.extent.append(self.memory(), start, bytes, value);
        Ok(())
    }

    /// Looks at one object that may have `key`, and validates what was found.
    #[inline(always)]
    pub(crate) fn look<T>(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
        part: Part,
        copy: impl FnOnce(&ReadSnapshot, &Header) -> T,
    ) -> Result<Attempt<(Header, T)>, Error> {
        if let Some(host) = found.entry.partition() {
            self.blocked(Why::InPartition { host, entry: found.entry })?;
            return Ok(Attempt::Changed);
        }
        let Some(snapshot) = self.start(found, tail, part) else {
            self.count(Counter::Retries);
            return Ok(Attempt::Changed);
        };
        if let Some(to) = found.entry.lost() {
            let other = self.read_key(&snapshot).as_deref() != Some(key)
                && !self.is_key_poisoned(&snapshot.extent);
            return match snapshot.still_holds(self)? {
                false => Ok(Attempt::Changed),
                true if other => Ok(Attempt::OtherKey),
                true => Err(loss(to)),
            };
        }
        let prefix = self.read_prefix(&snapshot, key).map(|header| copy(&snapshot, header));
        if !snapshot.still_holds(self)? {
            self.count(Counter::Retries);
            return Ok(Attempt::Changed);
        }
        self.conclude(found, &snapshot, prefix)
    }

    /// The result of a read that turned out good.
    #[inline(always)]
    pub(crate) fn conclude<T>(
        &self,
        found: &Found<'_>,
        snapshot: &ReadSnapshot,
        prefix: Prefix<T>,
    ) -> Result<Attempt<(Header, T)>, Error> {
        if !self.has_read_all(snapshot) {
            return self.conclude_poisoned(snapshot, prefix);
        }
        self.mark_validated(found, snapshot);
        match prefix {
            Prefix::Match(header, copied) => Ok(Attempt::Good((header, copied))),
            Prefix::OtherKey => Ok(Attempt::OtherKey),
            Prefix::Nonsense => Err(damaged_object(snapshot)),
        }
    }

    /// The result of a read in which this host has met a memory error.
    #[cold]
    fn conclude_poisoned<T>(
        &self,
        snapshot: &ReadSnapshot,
        prefix: Prefix<T>,
    ) -> Result<Attempt<(Header, T)>, Error> {
        let ReadSnapshot { entry, extent, .. } = snapshot;
        if matches!(prefix, Prefix::OtherKey) && !self.is_key_poisoned(extent) {
            return Ok(Attempt::OtherKey);
        }
        if self.lose_poisoned(entry.hash, entry.slot)? {
            return Err(Error::Poisoned);
        }
        Ok(Attempt::Changed)
    }

    /// Begins a read: loads the counter, *then* drops lines that may be stale. `None` if somebody
    /// writes, or the record is not this object's any more.
    #[inline(always)]
    pub(crate) fn start(&self, found: &Found<'_>, tail: u64, part: Part) -> Option<ReadSnapshot> {
        let entry = found.entry;
        let extent = self.state(entry.hash).space.extent_at(entry.slot)?;
        let lines = extent.count();
        self.fetch(extent.first(), part);
        // Small objects are made fresh whole even for a part, so that the next read finds them so.
        let whole = part.is_whole(extent.bytes()) || lines <= self.small_lines;
        let memory = self.memory();
        let since = memory.moment();
        let after = memory.keeps(sites::READ_INVALIDATE_AFTER_COUNTER);
        if !after {
            extent.lines().for_each(|lines| memory.invalidate(sites::READ_INVALIDATE, lines));
        }
        let (counter, known) = memory.consume(sites::READ_INVALIDATE, |memory| {
            let counter = self.readable_counter(&entry);
            let noted = self.validated_at(found);
            let is_fresh = |counter| validated::is_fresh(memory, noted, counter);
            let known = counter.is_some_and(is_fresh);
            let doubtful = counter.is_some() && !known && whole && after;
            if doubtful {
                self.counters.add(Counter::InvalidatedLines, lines);
            }
            ((counter, known), extent.lines().filter(move |_| doubtful))
        });
        let (validated_at, fresh) = (found.cell.validated_at, known || whole);
        Some(ReadSnapshot {
            entry,
            extent,
            counter: counter?,
            tail,
            since,
            validated_at,
            fresh,
            known,
        })
    }

    /// Has lines fetched that a read will take.
    #[inline(always)]
    pub(crate) fn fetch(&self, slot: Lines, part: Part) {
        self.memory().prefetch(self.fetched(slot, part));
    }

    /// Lines that a read will take, or most of them. Where they lie is known before the header is,
    /// in which it says how many there are.
    #[inline(always)]
    pub(crate) fn fetched(&self, slot: Lines, part: Part) -> Lines {
        let lines = match part {
            // An object takes more than four fifths of its slot, or a line more than a small one's.
            Part::Whole | Part::AtMost(_) if slot.count() <= self.small_lines => {
                (slot.count() * 4 / 5 + 1).min(FETCHED)
            }
            Part::Whole | Part::AtMost(_) | Part::Nothing | Part::Range(..) => 1,
        };
        Lines::new(slot.first(), lines)
    }

    #[inline(always)]
    pub(crate) fn readable_counter(&self, entry: &Entry) -> Option<u32> {
        if !self.is_open(entry) {
            return None;
        }
        let Some(record) = entry.record() else {
            return Some(READ_SHARED);
        };
        // A record that is locked now would be found out after the copy, too; this saves the copy.
        let word = self.records.load(record);
        if let Some(holder) = word.holder() {
            self.obstructed(holder, *entry);
        }
        word.readable()
    }

    /// Reads bytes of a slot, without lines that may be stale.
    #[track_caller]
    pub(crate) fn read_bytes(&self, snapshot: &ReadSnapshot, offset: u64, into: &mut [u8]) {
        self.invalidate_if_stale(snapshot, offset, into.len() as u64);
        snapshot.extent.read(self.memory(), offset, into);
    }

    /// Drops lines of so many bytes, if they may be stale: those of a large object, of which a read
    /// wants a part.
    #[track_caller]
    fn invalidate_if_stale(&self, snapshot: &ReadSnapshot, offset: u64, bytes: u64) {
        let ReadSnapshot { extent, fresh, .. } = snapshot;
        if !fresh {
            let lines = || extent.covering(offset, bytes);
            self.counters.add(Counter::InvalidatedLines, lines().map(Lines::count).sum());
            self.memory().consume(sites::READ_INVALIDATE, |_| ((), lines()));
        }
    }

    /// Reads header and key, as far as they go with `key`.
    #[inline(always)]
    pub(crate) fn read_prefix(&self, snapshot: &ReadSnapshot, key: &[u8]) -> Prefix<()> {
        let capacity = snapshot.extent.bytes();
        let length = (HEADER_BYTES + key.len()).min(capacity as usize);
        if length > SHORT_PREFIX_BYTES {
            return self.read_long_prefix(snapshot, key, length);
        }
        self.read_prefix_into(snapshot, key, &mut [0; SHORT_PREFIX_BYTES][..length])
    }

    #[cold]
    fn read_long_prefix(&self, snapshot: &ReadSnapshot, key: &[u8], length: usize) -> Prefix<()> {
        self.read_prefix_into(snapshot, key, &mut [0; PREFIX_BYTES][..length])
    }

    #[inline(always)]
    fn read_prefix_into(
        &self,
        snapshot: &ReadSnapshot,
        key: &[u8],
        prefix: &mut [u8],
    ) -> Prefix<()> {
        let capacity = snapshot.extent.bytes();
        self.read_bytes(snapshot, 0, prefix);
        let Some(header) = Header::decode(prefix, capacity) else { return Prefix::Nonsense };
        let same = usize::from(header.key_bytes) == key.len() && &prefix[HEADER_BYTES..] == key;
        if self.memory().check(sites::KEY_COMPARE, same) {
            Prefix::Match(header, ())
        } else {
            Prefix::OtherKey
        }
    }

    /// After a good read: this host has no stale line of the object as of its counter.
    #[inline(always)]
    pub(crate) fn mark_validated(&self, found: &Found<'_>, snapshot: &ReadSnapshot) {
        let memory = self.memory();
        snapshot.rely_on(memory);
        if !snapshot.known && memory.check(sites::READ_PART_NOT_VALIDATED, snapshot.fresh) {
            let generation = snapshot.entry.generation;
            validated::set(memory, found.cell, generation, snapshot.validated_at, snapshot.counter);
        }
    }

    /// The key of the object, of which nothing else may be whole: its value may be lost, or a host
    /// be about to bring it back. Lines behind the key are not looked at: they may be stale, if the
    /// object ends there.
    pub(crate) fn read_key(&self, snapshot: &ReadSnapshot) -> Option<Vec<u8>> {
        let mut header = [0; HEADER_BYTES];
        self.read_bytes(snapshot, 0, &mut header);
        let mut key = vec![0; Header::decode_key_bytes(&header, snapshot.extent.bytes())?];
        self.read_bytes(snapshot, HEADER_BYTES as u64, &mut key);
        Some(key)
    }

    /// Whether what was read of an object was what memory holds.
    #[inline(always)]
    pub(crate) fn has_read_all(&self, snapshot: &ReadSnapshot) -> bool {
        self.memory().check(sites::POISON_READ, !self.is_poisoned(&snapshot.extent))
    }
}

/// Methods by which a guard or view describes its value, from its method `header`.
macro_rules! tells_of_its_value {
    ($guard:ident) => {
        tells_of_its_value!([M: Memory], $guard<'_, M>);
    };
    ([$($parameters:tt)*], $guard:ty) => {
        impl<$($parameters)*> $guard {
            /// The value's length in bytes.
            pub fn len(&self) -> u64 {
                u64::from(self.header().value_bytes)
            }

            /// Whether the value has no bytes.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The value's version, as it is now.
            pub fn version(&self) -> Version {
                self.header().version
            }
        }
    };
}
pub(crate) use tells_of_its_value;

/// The first bytes of an object.
pub(crate) enum Prefix<T> {
    /// The key that is wanted; this was read behind it.
    Match(Header, T),
    OtherKey,
    /// No header that a writer could have written: torn, or the pod is damaged.
    Nonsense,
}

impl<T> Prefix<T> {
    fn map<U>(self, read: impl FnOnce(&Header) -> U) -> Prefix<U> {
        match self {
            Self::Match(header, _) => Prefix::Match(header, read(&header)),
            Self::OtherKey => Prefix::OtherKey,
            Self::Nonsense => Prefix::Nonsense,
        }
    }
}

pub(crate) fn damaged_object(snapshot: &ReadSnapshot) -> Error {
    let slot = snapshot.extent.start();
    Error::Damaged(format!("the slot at {slot:?} holds no object, though the index says so"))
}
