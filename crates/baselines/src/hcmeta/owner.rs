//! The work of an owner on its objects: for itself, and when it is asked.

use tombolo_memory::{FetchOp, HostMutex, Lines, Memory, Site, Work};
use tombolo_pod::Request;
use tombolo_sharing::{Error, HEADER_BYTES, Header, PREFIX_BYTES, Version, object_bytes};

use super::body::{Body, Opened, no_slot};
use super::guard::{Hold, Lent, LentObject, WriteGuard};
use super::partition::{Key, Owned, Place, Private, Shard, Sharing};
use super::record::Layout;
use super::request::{KeyAt, Outcome, Wish, decode};
use super::table::EntryNumber;
use super::value::Value;
use super::{HcMeta, sites};

impl<M: Memory> HcMeta<M> {
    /// Answers all requests there are, or the one whose time has come.
    pub(crate) fn serve(&self) -> Result<(), Error> {
        if self.request_server.takes_time() {
            return self.serve_next();
        }
        while let Some(request) = self.mailbox.next() {
            self.answer(&request)?;
        }
        Ok(())
    }

    /// Answers the request that is being served, if that has taken as long as it has to, and begins
    /// with the next one.
    fn serve_next(&self) -> Result<(), Error> {
        let is_done = || self.request_server.is_done(self.memory().uptime());
        if !is_done() {
            return Ok(());
        }
        let Some(mut serving) = self.request_server.serving.try_lock() else { return Ok(()) };
        if !is_done() {
            return Ok(());
        }
        if let Some(request) = serving.take() {
            self.answer(&request)?;
        }
        *serving = self.mailbox.next();
        self.request_server.begins(self.memory().uptime(), serving.is_some());
        Ok(())
    }

    fn answer(&self, request: &Request) -> Result<(), Error> {
        self.memory().works(Work::Message);
        let outcome = self.grant(request);
        let answer = *outcome.as_ref().unwrap_or(&Outcome::Failed);
        self.mailbox.answer(request, answer.encode());
        outcome.map(|_| ())
    }

    fn grant(&self, request: &Request) -> Result<Outcome, Error> {
        let strange = || Error::Damaged(format!("host {} asks for nothing known", request.from));
        match decode(&request.payload).ok_or_else(strange)? {
            (Wish::Create, KeyAt::Line(line)) => self.adopt(line),
            (Wish::Keys(shard), KeyAt::Line(line)) => self.write_keys(shard as usize, line),
            (wish, KeyAt::Here(key)) => self.grant_for(wish, key),
            (wish, KeyAt::Line(line)) => {
                let (_, key) = self.object_at(sites::HAND_INVALIDATE, line)?;
                self.grant_for(wish, &key)
            }
        }
    }

    fn grant_for(&self, wish: Wish, key: &[u8]) -> Result<Outcome, Error> {
        let hash = self.hash(key)?;
        match wish {
            Wish::Share => {
                let number = self.partition.shard_of(hash);
                let mut shard = self.partition.shards()[number].lock();
                self.owned_touched(hash);
                match shard.find(hash, key) {
                    None => Ok(Outcome::Absent),
                    Some(Owned { place: Place::Shared(entry), .. }) => Ok(Outcome::Done(*entry)),
                    Some(Owned { place: Place::Lent, .. }) => Ok(Outcome::Busy),
                    Some(_) => self.share(number, &mut shard, hash, key, true),
                }
            }
            Wish::Delete(version) => self.remove(hash, key, version),
            Wish::Create | Wish::Keys(_) => Ok(Outcome::Failed),
        }
    }

    /// Header and key of the object in the slot at `line`.
    pub(crate) fn object_at(&self, site: Site, line: u64) -> Result<(Header, Vec<u8>), Error> {
        let lines = self.space.lines(line).ok_or_else(|| no_slot(line))?;
        self.header_at(site, lines)?.ok_or_else(|| no_slot(line))
    }

    /// The same, if there is one.
    pub(crate) fn header_at(
        &self,
        site: Site,
        lines: Lines,
    ) -> Result<Option<(Header, Vec<u8>)>, Error> {
        let memory = self.memory();
        let mut buffer = [0; PREFIX_BYTES];
        let prefix = &mut buffer[..PREFIX_BYTES.min(lines.bytes() as usize)];
        let since = memory.moment();
        self.means().drop_stale(site, Lines::covering(lines.start(), prefix.len() as u64));
        memory.read(lines.start(), prefix);
        memory.relies_on(lines.start(), prefix.len() as u64, since);
        Ok(Header::decode(prefix, lines.bytes()).map(|header| {
            (header, prefix[HEADER_BYTES..][..usize::from(header.key_bytes)].to_vec())
        }))
    }

    /// Creates an object of this host's own.
    pub(crate) fn create_own(&self, hash: u64, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        let number = self.partition.shard_of(hash);
        let mut shard = self.partition.shards()[number].lock();
        self.owned_touched(hash);
        if shard.find(hash, key).is_some() {
            return Err(Error::Exists);
        }
        let version = self.means().next_version();
        let place = if self.options.local {
            self.space.class_for(object_bytes(key, value)?)?;
            Place::Local { value: Value::new(value), version }
        } else {
            let (lines, header) = self.means().place(key, value, version)?;
            let dirty = Some(header.total_bytes());
            Place::Private(Private { line: lines.first(), fresh: true, dirty })
        };
        self.enrol(&mut shard, hash, key, place);
        self.share(number, &mut shard, hash, key, false)?;
        Ok(version)
    }

    /// Takes on an object that another host has written into the slot at `line`.
    fn adopt(&self, line: u64) -> Result<Outcome, Error> {
        let (_, key) = self.object_at(sites::HAND_INVALIDATE, line)?;
        let hash = self.hash(&key)?;
        let number = self.partition.shard_of(hash);
        let mut shard = self.partition.shards()[number].lock();
        if shard.find(hash, &key).is_some() {
            return Ok(Outcome::Exists);
        }
        let place = self.withdraw(line, false, hash, &key)?;
        self.enrol(&mut shard, hash, &key, place);
        self.share(number, &mut shard, hash, &key, false)?;
        Ok(Outcome::Done(0))
    }

    /// From here on there is an object.
    pub(crate) fn enrol(&self, shard: &mut Shard, hash: u64, key: &[u8], place: Place) {
        shard.insert(Owned { hash, key: key.into(), place });
        self.memory().fetch(sites::COUNT_OBJECT, self.own_count(), FetchOp::Add, 1);
    }

    /// Gives an object of this host's an entry, if there is a free one, or with `evict` one that is
    /// taken from another object.
    fn share(
        &self,
        number: usize,
        shard: &mut Shard,
        hash: u64,
        key: &[u8],
        evict: bool,
    ) -> Result<Outcome, Error> {
        let mut sharing = self.partition.sharing.lock();
        let set = self.table.set(self.enrolment.host(), hash);
        let free = set.clone().find(|&entry| sharing.hashes[self.index_of(entry)].is_none());
        let entry = match free {
            None if evict => self.evict(number, shard, &mut sharing, hash)?,
            free => free,
        };
        let Some(entry) = entry else { return Ok(Outcome::Busy) };
        let owned = shard.find(hash, key).ok_or_else(vanished)?;
        let private = match &owned.place {
            Place::Private(private) => *private,
            Place::Shared(entry) => return Ok(Outcome::Done(*entry)),
            Place::Lent => return Ok(Outcome::Busy),
            Place::Local { value, version } => {
                self.local_touched(hash, value.len(), false);
                match self.means().place(key, &value.to_vec(), *version) {
                    Ok((lines, header)) => {
                        let dirty = Some(header.total_bytes());
                        Private { line: lines.first(), fresh: true, dirty }
                    }
                    Err(Error::LnrFull { bytes }) => return Ok(Outcome::NoRoom(bytes as u32)),
                    Err(error) => return Err(error),
                }
            }
        };
        let record = self.publish_entry(entry, hash, key, private)?;
        owned.place = Place::Shared(entry);
        sharing.hashes[self.index_of(entry)] = Some(hash);
        sharing.first_records[self.index_of(entry)] = record;
        Ok(Outcome::Done(entry))
    }

    /// Shows an entry to all; its record.
    fn publish_entry(
        &self,
        entry: EntryNumber,
        hash: u64,
        key: &[u8],
        private: Private,
    ) -> Result<u32, Error> {
        let Private { line, fresh, dirty } = private;
        let lines = self.space.lines(line).ok_or_else(|| no_slot(line))?;
        let memory = self.memory();
        let before = memory.load(self.table.record(entry));
        let moved = memory.keeps(sites::SHARE_VERSION);
        let others = !memory.keeps(sites::SHARE_ALONE);
        let record = self.layout.released(before, moved, fresh, others);
        self.means().publish(sites::SHARE_CLEAN, dirty.map(|_| lines), |memory| {
            memory.gives(lines, dirty.unwrap_or(0));
            self.table.fill(entry, hash, key, line, record);
        });
        Ok(record)
    }

    /// Takes the entry, whose record was `record`, from the object that has it; whether nobody was
    /// faster.
    pub(crate) fn unshare(
        &self,
        shard: &mut Shard,
        sharing: &mut Sharing,
        hash: u64,
        entry: EntryNumber,
        record: u32,
    ) -> Result<bool, Error> {
        self.owned_touched(hash);
        let owned = shard.with_entry(hash, entry).ok_or_else(vanished)?;
        let Some((line, fresh)) = self.close_entry(sharing, entry, record) else {
            return Ok(false);
        };
        owned.place = self.withdraw(line, fresh, hash, &owned.key)?;
        Ok(true)
    }

    /// Takes an entry away from readers and writers for good: where its object is, and whether this
    /// host's caches are current.
    fn close_entry(
        &self,
        sharing: &mut Sharing,
        entry: EntryNumber,
        record: u32,
    ) -> Option<(u64, bool)> {
        let (memory, locked) = (self.memory(), Layout::locked(record));
        let at = self.table.record(entry);
        memory.compare_exchange(sites::UNSHARE_LOCK, at, record, locked).ok()?;
        if memory.keeps(sites::UNSHARE_SCRUB) {
            self.table.scrub(entry);
        }
        sharing.hashes[self.index_of(entry)] = None;
        let fresh = memory.check(sites::UNSHARE_STALE, self.layout.is_current(record));
        Some((self.table.object(entry), fresh))
    }

    /// An object in LNR that is this host's alone from here on.
    pub(crate) fn withdraw(
        &self,
        line: u64,
        fresh: bool,
        hash: u64,
        key: &[u8],
    ) -> Result<Place, Error> {
        let lines = self.space.lines(line).ok_or_else(|| no_slot(line))?;
        self.memory().takes(lines);
        let private = Private { line, fresh, dirty: None };
        if !self.options.local {
            return Ok(Place::Private(private));
        }
        let mut body = self.open(private, key)?;
        let (mut value, version) = (vec![0; body.header.value_bytes as usize], body.header.version);
        body.read(0, &mut value)?;
        self.local_touched(hash, value.len(), true);
        self.give_up(private)?;
        Ok(Place::Local { value: Value::new(&value), version })
    }

    fn open(&self, private: Private, key: &[u8]) -> Result<Body<'_, M>, Error> {
        let Private { line, fresh, .. } = private;
        let body = Body::open(self.means(), sites::PRIVATE_INVALIDATE, line, fresh, key)?;
        let mut body = body.ok_or_else(|| no_slot(line))?;
        body.freshen();
        Ok(body)
    }

    /// Returns the slot of an object that was this host's alone.
    fn give_up(&self, private: Private) -> Result<(), Error> {
        self.hand_out(private)?;
        self.space.free(private.line);
        Ok(())
    }

    /// The slot of an object that was this host's alone goes to the host that wants it.
    fn hand_out(&self, private: Private) -> Result<(), Error> {
        let Private { line, dirty, .. } = private;
        let lines = self.space.lines(line).ok_or_else(|| no_slot(line))?;
        self.means().publish(sites::FREE_CLEAN, dirty.map(|_| lines), |memory| {
            memory.gives(lines, 0);
        });
        Ok(())
    }

    /// Does something to an object that has no entry.
    pub(crate) fn with_unshared<T>(
        &self,
        owned: &mut Owned,
        mut act: impl FnMut(&mut Opened<'_, '_, M>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match &mut owned.place {
            Place::Local { value, version } => {
                self.local_touched(owned.hash, value.len(), true);
                act(&mut Opened::Local { value, version, means: self.means() })
            }
            Place::Private(private) => {
                let mut body = self.open(*private, &owned.key)?;
                let done = act(&mut Opened::Slot(&mut body));
                let after = private.after(&body);
                let before = std::mem::replace(private, after);
                if body.left.is_some() {
                    self.give_up(before)?;
                }
                done
            }
            Place::Shared(_) | Place::Lent => Err(vanished()),
        }
    }

    /// Lends an object that has no entry to this thread.
    pub(crate) fn lend(&self, owned: &mut Owned) -> Result<WriteGuard<'_, M>, Error> {
        let object = match &mut owned.place {
            Place::Private(private) => {
                LentObject::Slot { before: *private, body: self.open(*private, &owned.key)? }
            }
            Place::Local { value, version } => {
                LentObject::Local { value: std::mem::take(value), version: *version }
            }
            Place::Shared(_) | Place::Lent => return Err(vanished()),
        };
        owned.place = Place::Lent;
        let (hash, key) = (owned.hash, owned.key.clone());
        Ok(WriteGuard(Hold::Lent(Lent { scheme: self, hash, key, object })))
    }

    /// Deletes an object of this host's, if it is at version `expected`. The asking host gets its
    /// slot, at the line that the outcome names, if it had one: a host that deletes makes room for
    /// itself.
    pub(crate) fn remove(
        &self,
        hash: u64,
        key: &[u8],
        expected: Option<Version>,
    ) -> Result<Outcome, Error> {
        let mut shard = self.partition.shard(hash).lock();
        let Some(owned) = shard.find(hash, key) else { return Ok(Outcome::Absent) };
        if matches!(owned.place, Place::Lent) {
            return Ok(Outcome::Busy);
        }
        if let Place::Shared(entry) = owned.place {
            let mut sharing = self.partition.sharing.lock();
            let record = self.memory().load(self.table.record(entry));
            let free = !Layout::is_locked(record);
            if !free || !self.unshare(&mut shard, &mut sharing, hash, entry, record)? {
                return Ok(Outcome::Busy);
            }
        }
        let owned = shard.find(hash, key).ok_or_else(vanished)?;
        if let Some(expected) = expected
            && self.with_unshared(owned, |opened| Ok(opened.version()))? != expected
        {
            return Ok(Outcome::Changed);
        }
        let mut line = 0;
        if let Place::Private(private) = owned.place {
            self.hand_out(private)?;
            line = private.line;
        }
        shard.remove(hash, key);
        self.memory().fetch(sites::COUNT_OBJECT, self.own_count(), FetchOp::Add, u64::MAX);
        Ok(Outcome::Done(line as u32))
    }

    /// The keys of one of this host's shards.
    pub(crate) fn keys_of(&self, shard: usize) -> Vec<Key> {
        let shard: Option<&HostMutex<M, Shard>> = self.partition.shards().get(shard);
        shard.map_or_else(Vec::new, |shard| {
            shard.lock().objects().map(|owned| owned.key.clone()).collect()
        })
    }

    /// Writes the keys of a shard into the slot at `line`, each after its length, if they fit.
    fn write_keys(&self, shard: usize, line: u64) -> Result<Outcome, Error> {
        let lines = self.space.lines(line).ok_or_else(|| no_slot(line))?;
        let mut bytes = vec![0; 4];
        for key in self.keys_of(shard) {
            bytes.extend((key.len() as u16).to_le_bytes());
            bytes.extend(&key[..]);
        }
        let length = bytes.len() as u32;
        if u64::from(length) > lines.bytes() {
            return Ok(Outcome::NoRoom(length));
        }
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.memory().takes_blank(lines);
        self.memory().write(lines.start(), &bytes);
        self.means().publish(sites::HAND_CLEAN, [lines], |memory| {
            memory.gives(lines, u64::from(length));
        });
        Ok(Outcome::Done(length))
    }

    /// An entry's place among this host's own.
    pub(crate) fn index_of(&self, entry: EntryNumber) -> usize {
        (u64::from(entry) % self.table.entries()) as usize
    }
}

fn vanished() -> Error {
    Error::Damaged("an object vanished while its owner held it".to_owned())
}
