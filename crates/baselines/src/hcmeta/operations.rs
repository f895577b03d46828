//! Operations of clients.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use tombolo_memory::{LINE_BYTES, Memory};

use tombolo_host::Host;
use tombolo_pod::{Area, Seat};
use tombolo_sharing::{
    Change, Counter, Error, Guarded, Header, ObjectArea, Part, Scheme, Stats, Usage, Version,
};

use super::body::{Opened, no_slot};
use super::entry::{Sink, Tried};
use super::guard::{Hold, WriteGuard};
use super::partition::{Key, Owned, Place};
use super::request::{KeyAt, Outcome, Wish};
use super::table::EntryNumber;
use super::{HcMeta, Options, sites};

/// Length and version of an object of which a part was read; a part that it does not have is an
/// error of its own.
type ReadPart = Result<(u64, Version), Error>;

/// The outcome of looking for an object without asking another host.
enum Found<T> {
    Done(T),
    Absent,
    /// Somebody is at it, or it changed meanwhile.
    Busy,
    /// It has no entry, and is not this host's: its owner can tell.
    Unknown,
}

/// The outcome of [`Scheme::update`].
enum Updated {
    Done,
    /// The object at this version is to be deleted.
    Delete(Version),
}

impl<M: Memory> HcMeta<M> {
    /// Tries the object as its owner has it, or all entries that may be its.
    fn look<T>(
        &self,
        hash: u64,
        key: &[u8],
        unshared: &mut impl FnMut(&mut Owned) -> Result<T, Error>,
        shared: &mut impl FnMut(EntryNumber) -> Result<Tried<T>, Error>,
    ) -> Result<Found<T>, Error> {
        let owner = self.owner_of(hash);
        let own = owner == self.enrolment.host();
        let entries: SmallVec<[EntryNumber; 2]> = if own {
            let mut shard = self.partition.shard(hash).lock();
            self.owned_touched(hash);
            let Some(owned) = shard.find(hash, key) else { return Ok(Found::Absent) };
            match owned.place {
                Place::Shared(entry) => smallvec![entry],
                Place::Lent => return Ok(Found::Busy),
                Place::Private(_) | Place::Local { .. } => return unshared(owned).map(Found::Done),
            }
        } else {
            self.table.candidates(owner, hash)
        };
        for entry in entries {
            match shared(entry)? {
                Tried::Done(done) => return Ok(Found::Done(done)),
                Tried::Busy => return Ok(Found::Busy),
                Tried::OtherKey => {}
            }
        }
        Ok(if own { Found::Busy } else { Found::Unknown })
    }

    /// The same; the object's owner is asked, if need be. Outer `None`: try again; inner: there is
    /// no such object.
    fn find<T>(
        &self,
        hash: u64,
        key: &[u8],
        mut unshared: impl FnMut(&mut Owned) -> Result<T, Error>,
        mut shared: impl FnMut(EntryNumber) -> Result<Tried<T>, Error>,
    ) -> Result<Option<Option<T>>, Error> {
        match self.look(hash, key, &mut unshared, &mut shared)? {
            Found::Done(done) => return Ok(Some(Some(done))),
            Found::Absent => return Ok(Some(None)),
            Found::Busy => return Ok(None),
            Found::Unknown => {}
        }
        match self.ask_to_share(self.owner_of(hash), key)? {
            Outcome::Done(entry) => match shared(entry)? {
                Tried::Done(done) => Ok(Some(Some(done))),
                Tried::Busy | Tried::OtherKey => Ok(None),
            },
            Outcome::Absent => Ok(Some(None)),
            _ => Ok(None),
        }
    }

    /// Reads part of an object's value; its length and version, if there is such an object.
    fn read_part(
        &self,
        key: &[u8],
        part: Part,
        into: Sink<'_>,
    ) -> Result<Option<(u64, Version)>, Error> {
        self.count(Counter::Reads);
        let hash = self.hash(key)?;
        let into = RefCell::new(into);
        let read = self.retry_with_backoff(|| {
            self.find(
                hash,
                key,
                |owned| self.read_unshared(owned, part, &mut into.borrow_mut()),
                |entry| self.read_shared(entry, key, part, &mut into.borrow_mut()),
            )
        })?;
        read.transpose()
    }

    /// Reads part of an object that has no entry.
    fn read_unshared(
        &self,
        owned: &mut Owned,
        part: Part,
        into: &mut Sink<'_>,
    ) -> Result<ReadPart, Error> {
        self.with_unshared(owned, |object| {
            let (offset, bytes) = part.of(object.length())?;
            object.read(offset, into.room(bytes))?;
            Ok(Ok((object.length(), object.version())))
        })
    }

    /// Reads part of an object that has this entry, perhaps.
    fn read_shared(
        &self,
        entry: EntryNumber,
        key: &[u8],
        part: Part,
        into: &mut Sink<'_>,
    ) -> Result<Tried<ReadPart>, Error> {
        let of_header = |header: Header| (u64::from(header.value_bytes), header.version);
        Ok(self.read_entry(entry, key, part, into)?.map(|read| read.map(of_header)))
    }

    /// Does something to an object that nobody else uses meanwhile; `None` if there is no such
    /// object.
    fn change<T>(
        &self,
        key: &[u8],
        act: impl FnMut(&mut Opened<'_, '_, M>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let hash = self.hash(key)?;
        let act = RefCell::new(act);
        self.retry_with_backoff(|| {
            self.find(
                hash,
                key,
                |owned| self.with_unshared(owned, |object| act.borrow_mut()(object)),
                |entry| {
                    Ok(match self.lock_entry(entry, key)? {
                        Tried::Done(mut held) => {
                            Tried::Done(act.borrow_mut()(&mut Opened::Slot(&mut held.body))?)
                        }
                        Tried::OtherKey => Tried::OtherKey,
                        Tried::Busy => Tried::Busy,
                    })
                },
            )
        })
    }

    fn hold_entry(
        &self,
        entry: EntryNumber,
        key: &[u8],
    ) -> Result<Tried<WriteGuard<'_, M>>, Error> {
        Ok(self.lock_entry(entry, key)?.map(|held| WriteGuard(Hold::Shared(held))))
    }

    fn delete_if(&self, key: &[u8], expected: Option<Version>) -> Result<bool, Error> {
        let hash = self.hash(key)?;
        let owner = self.owner_of(hash);
        let deleted = self.retry_with_backoff(|| {
            let outcome = if owner == self.enrolment.host() {
                self.remove(hash, key, expected)?
            } else {
                self.ask_about(owner, Wish::Delete(expected), key)?
            };
            match outcome {
                Outcome::Done(line) => {
                    if line != 0 {
                        self.space.free(line.into());
                    }
                    Ok(Some(true))
                }
                Outcome::Absent => Ok(Some(false)),
                Outcome::Changed => Err(Error::Changed),
                _ => Ok(None),
            }
        })?;
        if deleted {
            self.count(Counter::Deletes);
        }
        Ok(deleted)
    }

    /// Creates an object that is another host's.
    fn create_at(&self, owner: u8, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        let means = self.means();
        let (lines, header) = means.place(key, value, means.next_version())?;
        means.publish(sites::HAND_CLEAN, [lines], |memory| {
            memory.gives(lines, header.total_bytes());
        });
        // Unless there is an answer, the owner may still take it on: then nobody uses the slot
        // again.
        match self.ask(owner, Wish::Create, KeyAt::Line(lines.first()))? {
            Outcome::Done(_) => Ok(header.version),
            _ => {
                self.space.free(lines.first());
                Err(Error::Exists)
            }
        }
    }

    /// The keys of a shard of another host's.
    fn ask_for_keys(&self, owner: u8, shard: u64) -> Result<Vec<Key>, Error> {
        let mut room = LINE_BYTES;
        loop {
            let line = self.space.reserve(room)?;
            let lines = self.space.lines(line).ok_or_else(|| no_slot(line))?;
            let outcome = self.ask(owner, Wish::Keys(shard), KeyAt::Line(line))?;
            let keys = match outcome {
                Outcome::Done(length) => {
                    let since = self.memory().moment();
                    let mut bytes = vec![0; length as usize];
                    self.means().drop_stale(sites::HAND_INVALIDATE, lines);
                    self.memory().read(lines.start(), &mut bytes);
                    self.memory().relies_on(lines.start(), u64::from(length), since);
                    Some(parse_keys(&bytes).ok_or_else(|| no_slot(line))?)
                }
                Outcome::NoRoom(bytes) => {
                    room = bytes.into();
                    None
                }
                _ => return Err(no_slot(line)),
            };
            self.space.free(line);
            if let Some(keys) = keys {
                return Ok(keys);
            }
        }
    }
}

/// Keys, each after its length, after the length of all.
fn parse_keys(bytes: &[u8]) -> Option<Vec<Key>> {
    let mut rest = bytes.get(4..)?;
    let mut keys = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let (key, after) = after.split_at_checked(u16::from_le_bytes(*length).into())?;
        keys.push(key.into());
        rest = after;
    }
    Some(keys)
}

impl<M: Memory> Scheme for HcMeta<M> {
    type Memory = M;
    type Options = Options;

    fn attach(host: &Arc<Host<M>>, area: Area<M>, options: Options) -> Result<Self, Error> {
        Self::attach_all(host, area, options)
    }

    fn leave(&self) -> Result<(), Error> {
        self.leave_with_all()
    }

    fn tick(&self) -> Result<(), Error> {
        self.serve()?;
        // Nobody else of this host looks, if nothing else is done.
        let mut looks = self.options.idle_looks;
        while looks > 0 && !self.active.load(Ordering::Relaxed) {
            looks -= 1;
            self.serve()?;
            self.memory().pause();
        }
        self.active.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn area(&self) -> &ObjectArea<M> {
        &self.area
    }

    fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    fn usage(&self) -> Usage {
        self.used()
    }

    fn object_count(&self) -> Result<u64, Error> {
        self.serve()?;
        Ok(self.objects())
    }

    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<Version>, Error> {
        Ok(self.read_part(key, Part::Whole, Sink::Whole(value))?.map(|(_, version)| version))
    }

    fn read_range(&self, key: &[u8], offset: u64, into: &mut [u8]) -> Result<Version, Error> {
        let part = Part::Range(offset, into.len() as u64);
        let read = self.read_part(key, part, Sink::Range(into))?;
        read.map(|(_, version)| version).ok_or(Error::NotFound)
    }

    fn stat(&self, key: &[u8]) -> Result<Option<(u64, Version)>, Error> {
        self.read_part(key, Part::Nothing, Sink::Range(&mut []))
    }

    fn create(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        let hash = self.hash(key)?;
        let owner = self.owner_of(hash);
        let version = self.retry_with_backoff(|| {
            if owner == self.enrolment.host() {
                return self.create_own(hash, key, value).map(Some);
            }
            self.create_at(owner, key, value).map(Some)
        })?;
        self.count(Counter::Creates);
        Ok(version)
    }

    fn write(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        let version = self.change(key, |object| {
            object.set(key, value)?;
            Ok(object.version())
        })?;
        self.count(Counter::Writes);
        version.ok_or(Error::NotFound)
    }

    fn write_range(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<Version, Error> {
        let version = self.change(key, |object| {
            object.write(offset, bytes)?;
            Ok(object.version())
        })?;
        self.count(Counter::Writes);
        version.ok_or(Error::NotFound)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        self.retry_with_backoff(|| match self.write(key, value) {
            Err(Error::NotFound) => match self.create(key, value) {
                Err(Error::Exists) => Ok(None),
                created => created.map(Some),
            },
            written => written.map(Some),
        })
    }

    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Version,
        value: &[u8],
    ) -> Result<Version, Error> {
        let version = self.change(key, |object| {
            if object.version() != expected {
                return Err(Error::Changed);
            }
            object.set(key, value)?;
            Ok(object.version())
        })?;
        self.count(Counter::Writes);
        version.ok_or(Error::NotFound)
    }

    fn update(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<&[u8]>) -> Change,
    ) -> Result<(), Error> {
        self.retry_with_backoff(|| {
            let updated = self.change(key, |object| {
                let mut value = vec![0; object.length() as usize];
                object.read(0, &mut value)?;
                match change(Some(&value)) {
                    Change::Keep => Ok(Updated::Done),
                    Change::Put(new) => object.set(key, &new).map(|()| Updated::Done),
                    Change::Delete => Ok(Updated::Delete(object.version())),
                }
            })?;
            match updated {
                Some(Updated::Done) => Ok(Some(())),
                Some(Updated::Delete(version)) => match self.delete_version(key, version) {
                    Ok(true) => Ok(Some(())),
                    Ok(false) | Err(Error::Changed) => Ok(None),
                    Err(error) => Err(error),
                },
                None => match change(None) {
                    Change::Put(value) => match self.create(key, &value) {
                        Err(Error::Exists) => Ok(None),
                        created => created.map(|_| Some(())),
                    },
                    Change::Keep | Change::Delete => Ok(Some(())),
                },
            }
        })
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.delete_if(key, None)
    }

    fn delete_version(&self, key: &[u8], expected: Version) -> Result<bool, Error> {
        self.delete_if(key, Some(expected))
    }

    fn scan(&self, cursor: u64, mut visit: impl FnMut(&[u8])) -> Result<u64, Error> {
        let shards = self.options.shards as u64;
        let (owner, shard) = ((cursor / shards) as u8, cursor % shards);
        if owner >= self.options.hosts {
            return Ok(0);
        }
        let keys = if owner == self.enrolment.host() {
            self.serve()?;
            self.keys_of(shard as usize)
        } else {
            self.ask_for_keys(owner, shard)?
        };
        keys.iter().for_each(|key| visit(key));
        Ok((cursor + 1) % (shards * u64::from(self.options.hosts)))
    }

    fn scan_within_reach(&self, cursor: u64, mut visit: impl FnMut(&[u8])) -> Result<u64, Error> {
        self.serve()?;
        let shard = cursor % self.options.shards as u64;
        self.keys_of(shard as usize).iter().for_each(|key| visit(key));
        Ok((shard + 1) % self.options.shards as u64)
    }
}

impl<M: Memory> Guarded for HcMeta<M> {
    type Guard<'a> = WriteGuard<'a, M>;

    fn seat(&self) -> &Seat {
        self.host.seat()
    }

    fn write_start(&self, key: &[u8]) -> Result<WriteGuard<'_, M>, Error> {
        let hash = self.hash(key)?;
        let held = self.retry_with_backoff(|| {
            self.find(hash, key, |owned| self.lend(owned), |entry| self.hold_entry(entry, key))
        })?;
        self.count(Counter::Writes);
        held.ok_or(Error::NotFound)
    }

    fn try_write_start(&self, key: &[u8]) -> Result<Option<WriteGuard<'_, M>>, Error> {
        let hash = self.hash(key)?;
        let (mut lend, mut hold) =
            (|owned: &mut Owned| self.lend(owned), |entry| self.hold_entry(entry, key));
        Ok(match self.look(hash, key, &mut lend, &mut hold)? {
            Found::Done(held) => {
                self.count(Counter::Writes);
                Some(held)
            }
            _ => None,
        })
    }

    fn try_read_bytes(
        &self,
        key: &[u8],
        offset: u64,
        into: &mut [u8],
    ) -> Result<Option<Option<Version>>, Error> {
        self.count(Counter::Reads);
        let hash = self.hash(key)?;
        let part = Part::Range(offset, into.len() as u64);
        let into = RefCell::new(Sink::Range(into));
        self.retry_with_backoff(|| {
            let found = self.look(
                hash,
                key,
                &mut |owned| self.read_unshared(owned, part, &mut into.borrow_mut()),
                &mut |entry| self.read_shared(entry, key, part, &mut into.borrow_mut()),
            )?;
            Ok(match found {
                Found::Done(read) => Some(Some(Some(read?.1))),
                Found::Absent => Some(Some(None)),
                Found::Unknown => Some(None),
                Found::Busy => None,
            })
        })
    }

    fn lnr_usage(&self) -> (u64, u64) {
        self.space.usage()
    }

    fn meanwhile(&self) -> Result<(), Error> {
        self.serve()
    }
}
