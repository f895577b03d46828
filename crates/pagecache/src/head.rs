//! The head of a file: what all hosts have to agree on besides its pages.
//!
//! ```text
//! head   epoch (8 bytes) | size (8) | modified (8) | a host's stay (8) | keep (8) | reach (8) |
//!        handle (24)
//! ```
//!
//! The *handle* finds the file again on any host, also when it has no name any more. It never
//! changes.
//!
//! The *stay* is of the host that has the file alone, or else of the one that last made it longer,
//! and may not have written there yet. If that host is dead, the next one ends what it was at. Of a
//! file that was held, it takes out what lies from *keep* to *reach*: so a cut is done, and an
//! append is not. If nothing of it is to go, or nobody had it alone, the file ends where pages say
//! it does.
//!
//! The *epoch* starts at a random number and changes when the file is cut. It is odd while a thread
//! has the file alone, for cutting it or appending to it. A read or a write counts only if the
//! epoch is the same afterwards, and even. A host that reads a file stores nothing in shared
//! memory for it.
//!
//! The head is admitted when a file is first used, and evicted like a page. The size may be ahead
//! of that of the file below: only as long as the page that made it grow is dirty.

use tombolo_memory::Memory;
use tombolo_pod::Stay;
use tombolo_sharing::Error::{Exists, NotFound};
use tombolo_sharing::{Guard, Guarded, Scheme, Version};

use crate::cache::{Backing, PageCache};
use crate::key::Key;
use crate::pages::{Held, Pages};
use crate::{Attributes, Error, FileId, Handle, NO_HANDLE, sites};

/// Bytes of what changes of a head.
pub(crate) const HEAD_BYTES: usize = 48;

/// The size up to which a file is kept: all of it.
pub(crate) const ALL: u64 = u64::MAX;

/// How long a file's time of modification may lag behind a write: like a kernel's clock tick.
const TICK_NS: i64 = 4_000_000;

/// Clocks of hosts may differ by so much before that is reported.
const SKEW_NS: i64 = 1_000_000_000;

/// A file's state at one time, which shows later writes: see [`PageCache::may_differ`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Of the head.
    version: Version,
    modified: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) epoch: u64,
    pub(crate) size: u64,
    pub(crate) modified: i64,
    /// The host that has the file alone, or made it longer.
    pub(crate) by: Option<Stay>,
    pub(crate) keep: u64,
    pub(crate) reach: u64,
}

impl Head {
    pub(crate) fn is_held(&self) -> bool {
        !self.epoch.is_multiple_of(2)
    }

    fn encode(&self) -> [u8; HEAD_BYTES] {
        let by = self.by.map_or(0, |by| (u64::from(by.number) << 8) | (u64::from(by.host) + 1));
        let modified = self.modified.cast_unsigned();
        let words = [self.epoch, self.size, modified, by, self.keep, self.reach];
        let mut bytes = [0; HEAD_BYTES];
        for (word, place) in words.iter().zip(bytes.chunks_mut(8)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; HEAD_BYTES]) -> Self {
        let mut words = bytes
            .chunks(8)
            .map(|word| word.iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte)));
        let mut next = || words.next().unwrap_or(0);
        let (epoch, size, modified) = (next(), next(), next().cast_signed());
        let by = next();
        let host = (by & 0xff).checked_sub(1).map(|host| host as u8);
        let by = host.map(|host| Stay { host, number: (by >> 8) as u32 });
        Self { epoch, size, modified, by, keep: next(), reach: next() }
    }

    /// By the name of the host.
    fn holder(&self) -> u64 {
        self.by.map_or(0, |by| by.host.into())
    }
}

/// The outcome of telling a file that a page of it is written.
pub(crate) enum Told {
    /// It knows.
    Yes,
    /// The file was cut meanwhile, or is not in the cache: begin again.
    Changed,
    /// Its head is in use, has no record, or is to be had from another host only, for which nobody
    /// may wait who has a lock.
    NotNow,
}

/// A file that this thread has alone.
pub(crate) struct Alone<'a, P: Pages, B: Backing> {
    cache: &'a PageCache<P, B>,
    file: FileId,
    pub(crate) head: Head,
    /// Others find the file like this, if this comes to nothing.
    otherwise: Option<Head>,
    released: bool,
}

impl<P: Pages, B: Backing> PageCache<P, B> {
    /// The head of a file as it is in the cache, and its version.
    pub(crate) fn peek(&self, file: FileId) -> Result<Option<(Head, Version)>, Error> {
        let (key, mut bytes) = (Key::head(file), [0; HEAD_BYTES]);
        match self.objects().read_bytes(&key.bytes(), 0, &mut bytes) {
            // A host that needs it makes it anew.
            Err(error) if error.is_loss() => Ok(None),
            read => Ok(read?.map(|version| (Head::decode(&bytes), version))),
        }
    }

    /// The stamp that shows whether a file is written from now on; `None` if it is not in the
    /// cache. It asks no other host.
    ///
    /// # Errors
    /// [`Error::Objects`].
    pub fn stamp(&self, file: FileId) -> Result<Option<Stamp>, Error> {
        let head = self.peek(file)?;
        Ok(head.map(|(head, version)| Stamp { version, modified: head.modified }))
    }

    /// Whether a file may have been written since it had a stamp. That it was written less than a
    /// tick after the write before leaves no trace, so after a write it may for a while.
    ///
    /// # Errors
    /// [`Error::Objects`].
    pub fn may_differ(&self, file: FileId, since: Option<Stamp>) -> Result<bool, Error> {
        let (Some(since), Some(now)) = (since, self.stamp(file)?) else { return Ok(true) };
        let age = self.now().saturating_sub(since.modified);
        Ok(now != since || age.saturating_abs() <= SKEW_NS + TICK_NS)
    }

    /// The head of a file that nobody has alone; it is admitted if need be. `Err` is the host that
    /// has it alone.
    pub(crate) fn head(&self, file: FileId) -> Result<Result<Head, u64>, Error> {
        match self.free_head(file)? {
            // That it was made longer is all that is known of it.
            Ok(head) if self.is_doubtful(&head) => {
                self.alone(file, |size| (ALL, size))?.settle()?;
                Ok(Err(self.seat()))
            }
            head => Ok(head),
        }
    }

    /// The same, of a file that may end before its head says so.
    fn free_head(&self, file: FileId) -> Result<Result<Head, u64>, Error> {
        self.clock.touch(Key::head(file));
        let head = match self.peek(file)? {
            Some((head, _)) => head,
            None => self.admit_head(file)?,
        };
        let held = head.is_held();
        if held && self.is_left(&head) && self.memory().keeps(sites::HELD_BY_DEAD) {
            self.end_for(file, head.by)?;
            return Ok(Err(self.seat()));
        }
        let free = self.memory().check(sites::CUT_ALONE, !held);
        Ok(if free { Ok(head) } else { Err(head.holder()) })
    }

    /// Whether who has a file alone has left, or has died and is cleared up after.
    pub(crate) fn is_left(&self, head: &Head) -> bool {
        let area = self.objects().area();
        let is_over = |stay| stay != self.stay() && !area.is_member(stay) && !area.is_fenced(stay);
        head.by.is_some_and(is_over)
    }

    /// Whether who made a file longer is not in the pod any more: it may not have written there.
    pub(crate) fn is_doubtful(&self, head: &Head) -> bool {
        let area = self.objects().area();
        let is_out = |stay| stay != self.stay() && !area.is_member(stay);
        head.by.is_some_and(is_out) && self.memory().keeps(sites::GROWN_BY_DEAD)
    }

    /// Whether a file certainly ends where its head says so. Otherwise, if who made it longer dies
    /// before it has written there, it never was so long; and nobody may have seen zeros before
    /// what is not there.
    pub(crate) fn ends_there(&self, file: FileId, head: &Head) -> Result<bool, Error> {
        if head.by.is_none() || !self.memory().keeps(sites::READ_GROWN) {
            return Ok(true);
        }
        Ok(self.end_of(file, head.size)? == head.size && !self.is_doubtful(head))
    }

    /// Notes that a file ends where its head says so, if that is certain: others need not look any
    /// more.
    pub(crate) fn vouch(&self, file: FileId) -> Result<(), Error> {
        let Some((seen, _)) = self.peek(file)? else { return Ok(()) };
        if seen.by.is_none() || seen.is_held() || !self.ends_there(file, &seen)? {
            return Ok(());
        }
        let Some(mut guard) = self.lock_head(file)? else { return Ok(()) };
        let head = locked_head(&mut guard)?;
        if head.epoch == seen.epoch && (head.size, head.by) == (seen.size, seen.by) {
            guard.write(0, &Head { by: None, ..head }.encode())?;
        }
        Ok(())
    }

    /// This host's stay.
    fn stay(&self) -> Stay {
        self.objects().seat().stay()
    }

    /// The handle of a file whose head is in the cache.
    pub(crate) fn handle_of(&self, file: FileId) -> Result<Option<Handle>, Error> {
        let (key, mut handle) = (Key::head(file), NO_HANDLE);
        match self.objects().read_bytes(&key.bytes(), HEAD_BYTES as u64, &mut handle) {
            Err(error) if error.is_loss() => Ok(None),
            read => Ok(read?.map(|_| handle)),
        }
    }

    fn admit_head(&self, file: FileId) -> Result<Head, Error> {
        let key = Key::head(file);
        let _latch = self.latch(self.latch_of(key))?;
        if self.memory().keeps(sites::ADMIT_ABSENT)
            && let Some((head, _)) = self.peek(file)?
        {
            return Ok(head);
        }
        self.memory().step();
        let Attributes { size, modified } = self.backing.attributes(file)?;
        let epoch = self.memory().random() & !1;
        let head = Head { epoch, size, modified, by: None, keep: ALL, reach: 0 };
        let handle = self.backing.handle(file)?;
        let whole = |head: Head| [&head.encode()[..], &handle].concat();
        match self.create(key, &whole(head)) {
            Err(Error::Objects(Exists)) => Ok(self.peek(file)?.map_or(head, |(head, _)| head)),
            // It was lost: pages say where the file ends.
            Err(Error::Objects(error)) if error.is_loss() => {
                let size = match self.memory().keeps(sites::LOST_HEAD_SIZE) {
                    true => self.end_of(file, ALL)?,
                    false => size,
                };
                let head = Head { size, modified: self.now(), ..head };
                self.patiently(|| self.objects().put(&key.bytes(), &whole(head)))?;
                Ok(head)
            }
            created => created.map(|()| head),
        }
    }

    /// Tells a file of which a page is locked by this thread that it has `end` bytes at least, and
    /// was written now; unless it was cut since it had `epoch`.
    pub(crate) fn tell(&self, file: FileId, epoch: u64, end: u64) -> Result<Told, Error> {
        let memory = self.memory();
        let same = |head: &Head| memory.check(sites::WRITE_EPOCH, head.epoch == epoch);
        let now = self.now();
        let (key, mut bytes) = (Key::head(file).bytes(), [0; HEAD_BYTES]);
        let there = match self.objects().try_read_bytes(&key, 0, &mut bytes) {
            Err(error) if error.is_loss() => return Ok(Told::Changed),
            there => there?,
        };
        let Some(there) = there else { return Ok(Told::NotNow) };
        let Some(head) = there.map(|_| Head::decode(&bytes)).filter(same) else {
            return Ok(Told::Changed);
        };
        let recent = (0..TICK_NS).contains(&now.saturating_sub(head.modified));
        if recent && end <= head.size {
            return Ok(Told::Yes);
        }
        let guard = match self.objects().try_write_start(&key) {
            Err(error) if error.is_loss() => return Ok(Told::Changed),
            guard => guard?,
        };
        let Some(mut guard) = guard else { return Ok(Told::NotNow) };
        let head = locked_head(&mut guard)?;
        if !same(&head) {
            return Ok(Told::Changed);
        }
        let by = if end > head.size { Some(self.stay()) } else { head.by };
        let changed = Head { size: head.size.max(end), modified: now, by, ..head };
        guard.write(0, &changed.encode())?;
        Ok(Told::Yes)
    }

    /// Takes a file for this thread alone, to do something that `plan` tells, of a file of so many
    /// bytes, what to keep and how far it reaches, if this host dies meanwhile.
    ///
    /// # Errors
    /// [`Error::Stalled`].
    pub(crate) fn alone(
        &self,
        file: FileId,
        plan: impl Fn(u64) -> (u64, u64),
    ) -> Result<Alone<'_, P, B>, Error> {
        let mut alone = self.wait(|| {
            if let Err(holder) = self.free_head(file)? {
                return Ok(Err(holder));
            }
            let Some(mut guard) = self.lock_head(file)? else { return Ok(Err(self.seat())) };
            let head = locked_head(&mut guard)?;
            if !self.memory().check(sites::CUT_ALONE, !head.is_held()) {
                return Ok(Err(head.holder()));
            }
            // The host that made the file longer may not have written there yet, or be dead.
            let grown = head.by.is_some();
            let (keep, reach) = if grown { (ALL, head.size) } else { plan(head.size) };
            let by = Some(self.stay());
            let held = Head { epoch: head.epoch | 1, by, keep, reach, ..head };
            guard.write(0, &held.encode())?;
            drop(guard);
            let otherwise = grown.then_some(head);
            Ok(Ok(Alone { cache: self, file, head: held, otherwise, released: false }))
        })?;
        if alone.otherwise.is_some() {
            let size = self.end_of(file, alone.head.size)?;
            let (keep, reach) = plan(size);
            let head = Head { size, keep, reach, ..alone.head };
            alone.write(head)?;
            (alone.head, alone.otherwise) = (head, None);
        }
        Ok(alone)
    }

    /// The lock of a head that is there.
    fn lock_head(&self, file: FileId) -> Result<Option<Held<'_, P>>, Error> {
        match self.objects().write_start(&Key::head(file).bytes()) {
            Err(NotFound) => Ok(None),
            Err(error) if error.is_loss() => Ok(None),
            guard => Ok(Some(guard?)),
        }
    }

    /// Ends what a host was at that had a file alone, and is gone.
    fn end_for(&self, file: FileId, dead: Option<Stay>) -> Result<(), Error> {
        let Some(mut guard) = self.lock_head(file)? else { return Ok(()) };
        let left = locked_head(&mut guard)?;
        if !left.is_held() || left.by != dead {
            return Ok(());
        }
        let head = Head { by: Some(self.stay()), ..left };
        guard.write(0, &head.encode())?;
        drop(guard);
        let alone = Alone { cache: self, file, head, otherwise: Some(left), released: false };
        let (reach, keep) = match left.keep {
            ALL => {
                let end = self.end_of(file, left.reach)?;
                (end, end)
            }
            keep => (left.reach, keep),
        };
        if self.memory().keeps(sites::DEAD_KEEP) {
            self.resize(file, reach, keep)?;
        }
        alone.release(keep)
    }

    /// Where a file ends that has `most` bytes at most, as its pages and the file below say. A
    /// thread that is writing a page is waited for.
    fn end_of(&self, file: FileId, most: u64) -> Result<u64, Error> {
        if let Some(last) = most.checked_sub(1).filter(|_| most != ALL) {
            let block = last / self.page_bytes;
            let length = self.length_of(Key::page(file, block))?.unwrap_or(0);
            if block * self.page_bytes + length >= most {
                return Ok(most);
            }
        }
        self.memory().step();
        let below = self.backing.attributes(file)?.size;
        if below >= most {
            return Ok(most);
        }
        let (first, last) = (below / self.page_bytes, most.div_ceil(self.page_bytes));
        let mut pages = self.pages_of(file, first, last)?;
        pages.sort_unstable();
        for key in pages.into_iter().rev() {
            if let (Some(block), Some(length)) = (key.block(), self.length_of(key)?)
                && length > 0
            {
                return Ok((block * self.page_bytes + length).clamp(below, most));
            }
        }
        Ok(below)
    }

    /// Sets the time of a file's last write.
    ///
    /// # Errors
    /// [`Error::Stalled`], [`Error::Backing`], [`Error::Objects`].
    pub fn set_modified(&self, file: FileId, modified: i64) -> Result<(), Error> {
        self.wait(|| {
            if let Err(holder) = self.head(file)? {
                return Ok(Err(holder));
            }
            let Some(mut guard) = self.lock_head(file)? else { return Ok(Err(self.seat())) };
            let head = locked_head(&mut guard)?;
            if head.is_held() {
                return Ok(Err(head.holder()));
            }
            guard.write(0, &Head { modified, ..head }.encode())?;
            self.memory().step();
            self.backing.set_modified(file, modified)?;
            Ok(Ok(()))
        })
    }

    /// Evicts the head of a file; whether it did.
    pub(crate) fn evict_head(&self, file: FileId) -> Result<bool, Error> {
        let key = Key::head(file).bytes();
        let Some((head, version)) = self.peek(file)? else { return Ok(false) };
        if head.is_held() || !self.backing.knows(file) {
            return Ok(false);
        }
        // The host that made the file longer may not have written there yet.
        if head.by.is_some() && self.end_of(file, head.size)? < head.size {
            return Ok(false);
        }
        let memory = self.memory();
        memory.step();
        let below = self.backing.attributes(file)?;
        let written = !memory.keeps(sites::EVICT_SIZE) || below.size == head.size;
        if written && below.modified == head.modified {
            return self.evict_as_of(&key, version);
        }
        let Some(mut guard) = self.lock_head(file)? else { return Ok(false) };
        let size = head.size;
        let head = locked_head(&mut guard)?;
        if head.is_held() || head.size != size {
            return Ok(false);
        }
        memory.step();
        if memory.keeps(sites::EVICT_SIZE) && self.backing.attributes(file)?.size < head.size {
            memory.step();
            self.backing.resize(file, head.size)?;
        }
        self.backing.set_modified(file, head.modified)?;
        let version = guard.version();
        drop(guard);
        self.evict_as_of(&key, version)
    }

    /// Takes an object out of the cache if it still has that version; whether it did.
    pub(crate) fn evict_as_of(&self, key: &[u8], version: Version) -> Result<bool, Error> {
        match self.objects().delete_version(key, version) {
            Err(tombolo_sharing::Error::Changed) => Ok(false),
            deleted => Ok(deleted?),
        }
    }

    /// This host's clock, in nanoseconds.
    pub(crate) fn now(&self) -> i64 {
        i64::try_from(self.memory().wall_clock_ms())
            .map_or(i64::MAX, |ms| ms.saturating_mul(1_000_000))
    }
}

fn locked_head(guard: &mut impl Guard) -> Result<Head, Error> {
    let mut bytes = [0; HEAD_BYTES];
    guard.read(0, &mut bytes)?;
    Ok(Head::decode(&bytes))
}

impl<P: Pages, B: Backing> Alone<'_, P, B> {
    /// Lets others have the file again, which has `size` bytes now.
    pub(crate) fn release(mut self, size: u64) -> Result<(), Error> {
        self.head.size = size;
        self.head.modified = self.cache.now();
        self.otherwise = None;
        self.give_back()
    }

    /// Does so without having changed anything.
    fn settle(mut self) -> Result<(), Error> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<(), Error> {
        self.released = true;
        let epoch = (self.head.epoch | 1).wrapping_add(1);
        self.write(self.otherwise.unwrap_or(Head { epoch, by: None, ..self.head }))
    }

    fn write(&self, head: Head) -> Result<(), Error> {
        let (cache, key) = (self.cache, Key::head(self.file).bytes());
        let mut guard = cache.patiently(|| cache.objects().write_start(&key))?;
        guard.write(0, &head.encode())?;
        Ok(())
    }
}

impl<P: Pages, B: Backing> Drop for Alone<'_, P, B> {
    fn drop(&mut self) {
        // A thread that panics waits for nobody: once its host is gone, others end what it was at.
        if !self.released && !std::thread::panicking() {
            // A host that waits for the file learns from its head which one to ask.
            let _ = self.give_back();
        }
    }
}
