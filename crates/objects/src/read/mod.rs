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
use crate::host::lookup::Candidate;
use crate::ids::KeyHash;
use crate::storage::index::seen::{READ_SHARED, Seen};
use crate::storage::index::{Entry, Found, seen};
use crate::storage::space::extent::Extent;
use crate::{Error, Objects, Version, sites};

/// Lines of an object that are fetched before it is copied; of more, the processor itself makes sure.
const FETCHED: u64 = 20;

/// Header and key, unless that is long, fit into so many bytes.
const SHORT_PREFIX_BYTES: usize = 64;

/// What a read began with; it is good if all of it still holds at its end.
#[derive(Clone)]
pub(crate) struct Started {
    pub(crate) entry: Entry,
    pub(crate) extent: Extent,
    /// The record's counter, or [`READ_SHARED`].
    pub(crate) counter: u32,
    /// The log's tail before the entry was looked up.
    pub(crate) tail: u64,
    /// Nothing that is read from here on was out of date before.
    since: Moment,
    /// What was noted of an earlier read.
    seen: Seen,
    /// The whole object is fresh in this host's caches as of `counter`.
    fresh: bool,
    /// It was so before: nobody else has written it since this host read it last.
    pub(crate) known: bool,
}

impl Started {
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

    /// What was read of the object is used from here on.
    #[track_caller]
    pub(crate) fn rely_on<M: Memory>(&self, memory: &M) {
        self.extent.rely_on(memory, 0, self.extent.bytes(), self.since);
    }
}

/// What came of looking at one object.
pub(crate) enum Looked<T> {
    /// It has the key; this is what was read, and the read is good.
    Good(T),
    /// It has another key, which is as good a finding.
    OtherKey,
    /// It changed meanwhile.
    Changed,
}

impl<T> Looked<T> {
    fn good(self) -> Option<T> {
        match self {
            Self::Good(read) => Some(read),
            Self::OtherKey | Self::Changed => None,
        }
    }

    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Looked<U> {
        match self {
            Self::Good(read) => Looked::Good(change(read)),
            Self::OtherKey => Looked::OtherKey,
            Self::Changed => Looked::Changed,
        }
    }
}

impl<T> Looked<Result<T, Error>> {
    pub(crate) fn transpose(self) -> Result<Looked<T>, Error> {
        Ok(match self {
            Self::Good(read) => Looked::Good(read?),
            Self::OtherKey => Looked::OtherKey,
            Self::Changed => Looked::Changed,
        })
    }
}

impl<M: Memory> Objects<M> {
    /// Reads the value of `key` into `value`, replacing what is there; its version, or `None` if
    /// there is no such object.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::Lost`], [`Error::Poisoned`], [`Error::Busy`], [`Error::Log`], [`Error::Damaged`].
    pub fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<Version>, Error> {
        self.read_split(key, &mut [], value)
    }

    /// As [`read`](Self::read), but the first bytes of the value go into `head`, and all others into `rest`: who wants these alone need not
    /// move them.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the value is shorter than `head`, and those of [`read`](Self::read).
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
    pub fn foresee(&self, key: &[u8]) {
        if let Ok(hash) = self.hash(key) {
            self.state(hash).index.prefetch(hash);
        }
    }

    #[inline(always)]
    fn read_part(
        &self,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Option<Header>, Error> {
        let hash = self.begin(key)?;
        let candidate = self.candidate(hash);
        self.read_candidate(hash, candidate.as_ref(), key, part, &mut [], value)
    }

    /// The same, of a key whose hash is given, and of which perhaps a candidate is; the first bytes go into `head`.
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
        let read = self.persist(|| self.try_read(hash, key, part, value))?;
        if let Some(header) = read {
            part.of(u64::from(header.value_bytes))?;
        }
        Ok(read)
    }

    /// Reads part of the object with `key`, whose hash is given; the outer `None` if something changed
    /// meanwhile.
    #[inline(always)]
    fn try_read(
        &self,
        hash: KeyHash,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Option<Option<Header>>, Error> {
        let tail = self.sync(hash)?;
        let index = &self.state(hash).index;
        let (found, alone) = index.find_one(self.memory(), hash);
        let Some(found) = found else { return Ok(Some(None)) };
        match self.read_found(&found, tail, key, part, value)? {
            Looked::OtherKey if alone => Ok(Some(None)),
            Looked::OtherKey => self.try_read_others(hash, key, part, value),
            looked => Ok(looked.good().map(Some)),
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
    ) -> Result<Option<Option<Header>>, Error> {
        let tail = self.sync(hash)?;
        for found in self.state(hash).index.find(self.memory(), hash) {
            match self.read_found(&found, tail, key, part, value)? {
                Looked::OtherKey => {}
                looked => return Ok(looked.good().map(Some)),
            }
        }
        Ok(Some(None))
    }

    /// Reads part of an object that may have `key`, wherever it is; nothing, if it has no such part.
    #[inline(always)]
    fn read_found(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Looked<Header>, Error> {
        if found.entry.home() == Some(self.enrolment.host()) {
            return self.read_at_home(found, key, part, value);
        }
        if self.places_objects() {
            return self.read_and_place(found, tail, key, part, value);
        }
        let looked = self.look(found, tail, key, part, |started, header| {
            // What is wrong with the range is an error only if the read turns out good.
            let _ = self.copy_value(started, header, part, value);
        })?;
        Ok(looked.map(|(header, ())| header))
    }

    /// The same, where objects may have copies, or be elsewhere; and may be after this.
    fn read_and_place(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Looked<Header>, Error> {
        if let Some(looked) = self.read_copy(found, tail, key, part, value)? {
            return Ok(looked);
        }
        let looked = self.look(found, tail, key, part, |started, header| {
            // As above.
            let _ = self.copy_value(started, header, part, value);
            started.clone()
        })?;
        if let (Looked::Good((header, started)), Part::Whole) = (&looked, part) {
            self.place_after_read(found, started, *header, key, value);
        }
        Ok(looked.map(|(header, _)| header))
    }

    /// Copies part of a value.
    #[inline(always)]
    pub(crate) fn copy_value(
        &self,
        started: &Started,
        header: &Header,
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let (offset, bytes) = part.of(u64::from(header.value_bytes))?;
        let start = header.value_offset() + offset;
        self.freshen(started, start, bytes);
        value.clear();
        started.extent.append(self.memory(), start, bytes, value);
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
        copy: impl FnOnce(&Started, &Header) -> T,
    ) -> Result<Looked<(Header, T)>, Error> {
        if let Some(host) = found.entry.home() {
            self.bring_back_from(host, found.entry)?;
            return Ok(Looked::Changed);
        }
        let Some(started) = self.start(found, tail, part) else {
            self.count(Counter::Retries);
            return Ok(Looked::Changed);
        };
        if let Some(host) = found.entry.lost() {
            let other = self.read_key(&started).as_deref() != Some(key)
                && !self.is_key_poisoned(&started.extent);
            return match started.still_holds(self)? {
                false => Ok(Looked::Changed),
                true if other => Ok(Looked::OtherKey),
                true => Err(loss(host)),
            };
        }
        let prefix = self.read_prefix(&started, key).map(|header| copy(&started, header));
        if !started.still_holds(self)? {
            self.count(Counter::Retries);
            return Ok(Looked::Changed);
        }
        self.conclude(found, &started, prefix)
    }

    /// What came of a read that turned out good.
    #[inline(always)]
    pub(crate) fn conclude<T>(
        &self,
        found: &Found<'_>,
        started: &Started,
        prefix: Prefix<T>,
    ) -> Result<Looked<(Header, T)>, Error> {
        if !self.has_read_all(started) {
            return self.conclude_poisoned(started, prefix);
        }
        self.vouch(found, started);
        match prefix {
            Prefix::Match(header, copied) => Ok(Looked::Good((header, copied))),
            Prefix::OtherKey => Ok(Looked::OtherKey),
            Prefix::Nonsense => Err(damaged_object(started)),
        }
    }

    /// What came of a read in which this host has met a memory error.
    #[cold]
    fn conclude_poisoned<T>(
        &self,
        started: &Started,
        prefix: Prefix<T>,
    ) -> Result<Looked<(Header, T)>, Error> {
        let Started { entry, extent, .. } = started;
        if matches!(prefix, Prefix::OtherKey) && !self.is_key_poisoned(extent) {
            return Ok(Looked::OtherKey);
        }
        if self.lose_poisoned(entry.hash, entry.slot)? {
            return Err(Error::Poisoned);
        }
        Ok(Looked::Changed)
    }

    /// Begins a read: loads the counter, *then* drops lines that may be stale. `None` if somebody
    /// writes, or the record is not this object's any more.
    #[inline(always)]
    pub(crate) fn start(&self, found: &Found<'_>, tail: u64, part: Part) -> Option<Started> {
        let entry = found.entry;
        let extent = self.state(entry.hash).space.extent_at(entry.slot)?;
        let lines = extent.count();
        self.fetch(extent.first(), part);
        // Small objects are made fresh whole even for a part, so that the next read finds them so.
        let whole = matches!(part, Part::Whole) || lines <= self.small_lines;
        let memory = self.memory();
        let since = memory.moment();
        let after = memory.keeps(sites::READ_INVALIDATE_AFTER_COUNTER);
        if !after {
            extent.lines().for_each(|lines| memory.invalidate(sites::READ_INVALIDATE, lines));
        }
        let (counter, known) = memory.consume(sites::READ_INVALIDATE, |memory| {
            let counter = self.readable_counter(&entry);
            let noted = self.noted(found);
            let is_fresh = |counter| seen::is_fresh(memory, noted, counter);
            let known = counter.is_some_and(is_fresh);
            let doubtful = counter.is_some() && !known && whole && after;
            if doubtful {
                self.counters.add(Counter::InvalidatedLines, lines);
            }
            ((counter, known), extent.lines().filter(move |_| doubtful))
        });
        let (seen, fresh) = (found.cell.seen, known || whole);
        Some(Started { entry, extent, counter: counter?, tail, since, seen, fresh, known })
    }

    /// Has lines fetched that a read will take.
    #[inline(always)]
    pub(crate) fn fetch(&self, slot: Lines, part: Part) {
        self.memory().prefetch(self.fetched(slot, part));
    }

    /// Lines that a read will take, or most of them. Where they lie is known before the header is, in which it
    /// says how many there are.
    #[inline(always)]
    pub(crate) fn fetched(&self, slot: Lines, part: Part) -> Lines {
        let lines = match part {
            // An object takes more than four fifths of its slot, or a line more than a small one's.
            Part::Whole if slot.count() <= self.small_lines => {
                (slot.count() * 4 / 5 + 1).min(FETCHED)
            }
            Part::Whole | Part::Nothing | Part::Range(..) => 1,
        };
        Lines::new(slot.first(), lines)
    }

    #[inline(always)]
    pub(crate) fn readable_counter(&self, entry: &Entry) -> Option<u32> {
        if !self.is_open(entry) {
            return None;
        }
        let Some(record) = entry.own_record() else {
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
    pub(crate) fn read_bytes(&self, started: &Started, offset: u64, into: &mut [u8]) {
        self.freshen(started, offset, into.len() as u64);
        started.extent.read(self.memory(), offset, into);
    }

    /// Drops lines of so many bytes, if they may be stale: those of a large object, of which a read wants a part.
    #[track_caller]
    fn freshen(&self, started: &Started, offset: u64, bytes: u64) {
        let Started { extent, fresh, .. } = started;
        if !fresh {
            let lines = || extent.covering(offset, bytes);
            self.counters.add(Counter::InvalidatedLines, lines().map(Lines::count).sum());
            self.memory().consume(sites::READ_INVALIDATE, |_| ((), lines()));
        }
    }

    /// Reads header and key, as far as they go with `key`.
    #[inline(always)]
    pub(crate) fn read_prefix(&self, started: &Started, key: &[u8]) -> Prefix<()> {
        let capacity = started.extent.bytes();
        let length = (HEADER_BYTES + key.len()).min(capacity as usize);
        if length > SHORT_PREFIX_BYTES {
            return self.read_long_prefix(started, key, length);
        }
        self.read_prefix_into(started, key, &mut [0; SHORT_PREFIX_BYTES][..length])
    }

    #[cold]
    fn read_long_prefix(&self, started: &Started, key: &[u8], length: usize) -> Prefix<()> {
        self.read_prefix_into(started, key, &mut [0; PREFIX_BYTES][..length])
    }

    #[inline(always)]
    fn read_prefix_into(&self, started: &Started, key: &[u8], prefix: &mut [u8]) -> Prefix<()> {
        let capacity = started.extent.bytes();
        self.read_bytes(started, 0, prefix);
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
    pub(crate) fn vouch(&self, found: &Found<'_>, started: &Started) {
        let memory = self.memory();
        started.rely_on(memory);
        if !started.known && memory.check(sites::READ_PART_VOUCHES_NOT, started.fresh) {
            let generation = started.entry.generation;
            seen::set(memory, found.cell, generation, started.seen, started.counter);
        }
    }

    /// The key of the object, of which nothing else may be whole: its value may be lost, or a host be about
    /// to bring it back. Lines behind the key are not looked at: they may be stale, if the object ends there.
    pub(crate) fn read_key(&self, started: &Started) -> Option<Vec<u8>> {
        let mut header = [0; HEADER_BYTES];
        self.read_bytes(started, 0, &mut header);
        let mut key = vec![0; Header::decode_key_bytes(&header, started.extent.bytes())?];
        self.read_bytes(started, HEADER_BYTES as u64, &mut key);
        Some(key)
    }

    /// Whether what was read of an object was what memory holds.
    #[inline(always)]
    pub(crate) fn has_read_all(&self, started: &Started) -> bool {
        self.memory().check(sites::POISON_READ, !self.is_poisoned(&started.extent))
    }
}

/// What an object begins with.
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

pub(crate) fn damaged_object(started: &Started) -> Error {
    let slot = started.extent.start();
    Error::Damaged(format!("the slot at {slot:?} holds no object, though the index says so"))
}
