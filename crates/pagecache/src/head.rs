//! The head of a file: what all hosts have to agree on besides its pages.
//!
//! ```text
//! head   epoch (8 bytes) | size (8) | modified (8) | seat of the host that has the file alone (8)
//! ```
//!
//! The *epoch* starts at a random number and changes when the file is cut. It is odd while a thread
//! has the file alone, for cutting it or appending to it. What was read or written counts only if the
//! epoch is the same afterwards, and even. Who reads a file stores nothing in shared memory for it.
//!
//! The head is admitted when a file is first used, and evicted like a page. The size may be ahead of
//! that of the file below: only as long as the page that made it grow is dirty.

use tombolo_memory::Memory;
use tombolo_sharing::{Guard, Guarded, Scheme, Version};

use crate::cache::{Backing, PageCache};
use crate::key::Key;
use crate::pages::Pages;
use crate::{Attributes, Error, FileId, sites};

const HEAD_BYTES: usize = 32;

/// How long a file's time of modification may lag behind a write: like a kernel's clock tick.
const TICK_NS: i64 = 4_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) epoch: u64,
    pub(crate) size: u64,
    pub(crate) modified: i64,
    holder: u64,
}

impl Head {
    fn is_held(&self) -> bool {
        !self.epoch.is_multiple_of(2)
    }

    fn encode(&self) -> [u8; HEAD_BYTES] {
        let words = [self.epoch, self.size, self.modified.cast_unsigned(), self.holder];
        let mut bytes = [0; HEAD_BYTES];
        for (word, place) in words.iter().zip(bytes.chunks_mut(8)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8; HEAD_BYTES]) -> Self {
        let mut words = bytes
            .chunks(8)
            .map(|word| word.iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte)));
        let mut next = || words.next().unwrap_or(0);
        Self { epoch: next(), size: next(), modified: next().cast_signed(), holder: next() }
    }
}

/// What came of telling a file that a page of it is written.
pub(crate) enum Told {
    /// It knows.
    Yes,
    /// The file was cut meanwhile, or is not in the cache: begin again.
    Changed,
    /// Its head is in use, has no record, or is to be had from another host only, for which nobody may wait
    /// who has a lock.
    NotNow,
}

/// A file that this thread has alone.
pub(crate) struct Alone<'a, P: Pages, B: Backing> {
    cache: &'a PageCache<P, B>,
    file: FileId,
    pub(crate) head: Head,
    released: bool,
}

impl<P: Pages, B: Backing> PageCache<P, B> {
    /// The head of a file as it is in the cache, and its version.
    pub(crate) fn peek(&self, file: FileId) -> Result<Option<(Head, Version)>, Error> {
        let (key, mut bytes) = (Key::head(file), [0; HEAD_BYTES]);
        let version = self.objects().read_bytes(&key.bytes(), 0, &mut bytes)?;
        Ok(version.map(|version| (Head::decode(&bytes), version)))
    }

    /// The head of a file that nobody has alone; it is admitted if need be. `Err` is the host that has
    /// it alone.
    pub(crate) fn head(&self, file: FileId) -> Result<Result<Head, u64>, Error> {
        self.clock.touch(Key::head(file));
        let head = match self.peek(file)? {
            Some((head, _)) => head,
            None => self.admit_head(file)?,
        };
        let free = self.memory().check(sites::CUT_ALONE, !head.is_held());
        Ok(if free { Ok(head) } else { Err(head.holder) })
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
        let head = Head { epoch, size, modified, holder: 0 };
        match self.create(key, &head.encode()) {
            Err(Error::Objects(tombolo_sharing::Error::Exists)) => {
                Ok(self.peek(file)?.map_or(head, |(head, _)| head))
            }
            created => created.map(|()| head),
        }
    }

    /// Tells a file of which a page is locked by this thread that it has `end` bytes at least, and was
    /// written now; unless it was cut since it had `epoch`.
    pub(crate) fn tell(&self, file: FileId, epoch: u64, end: u64) -> Result<Told, Error> {
        let memory = self.memory();
        let same = |head: &Head| memory.check(sites::WRITE_EPOCH, head.epoch == epoch);
        let now = self.now();
        let (key, mut bytes) = (Key::head(file).bytes(), [0; HEAD_BYTES]);
        let Some(there) = self.objects().try_read_bytes(&key, 0, &mut bytes)? else {
            return Ok(Told::NotNow);
        };
        let Some(head) = there.map(|_| Head::decode(&bytes)).filter(same) else {
            return Ok(Told::Changed);
        };
        let recent = (0..TICK_NS).contains(&now.saturating_sub(head.modified));
        if recent && end <= head.size {
            return Ok(Told::Yes);
        }
        let Some(mut guard) = self.objects().try_write_start(&key)? else {
            return Ok(Told::NotNow);
        };
        let head = locked_head(&mut guard)?;
        if !same(&head) {
            return Ok(Told::Changed);
        }
        let changed = Head { size: head.size.max(end), modified: now, ..head };
        guard.write(0, &changed.encode())?;
        Ok(Told::Yes)
    }

    /// Takes a file for this thread alone.
    ///
    /// # Errors
    /// [`Error::Stalled`].
    pub(crate) fn alone(&self, file: FileId) -> Result<Alone<'_, P, B>, Error> {
        self.wait(|| {
            if let Err(holder) = self.head(file)? {
                return Ok(Err(holder));
            }
            let mut guard = match self.objects().write_start(&Key::head(file).bytes()) {
                Err(tombolo_sharing::Error::NotFound) => return Ok(Err(self.seat())),
                guard => guard?,
            };
            let head = locked_head(&mut guard)?;
            if !self.memory().check(sites::CUT_ALONE, !head.is_held()) {
                return Ok(Err(head.holder));
            }
            let held = Head { epoch: head.epoch | 1, holder: self.seat(), ..head };
            guard.write(0, &held.encode())?;
            drop(guard);
            Ok(Ok(Alone { cache: self, file, head: held, released: false }))
        })
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
            let mut guard = match self.objects().write_start(&Key::head(file).bytes()) {
                Err(tombolo_sharing::Error::NotFound) => return Ok(Err(self.seat())),
                guard => guard?,
            };
            let head = locked_head(&mut guard)?;
            if head.is_held() {
                return Ok(Err(head.holder));
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
        let memory = self.memory();
        memory.step();
        let below = self.backing.attributes(file)?;
        let written = !memory.keeps(sites::EVICT_SIZE) || below.size == head.size;
        if written && below.modified == head.modified {
            return self.evict_as_of(&key, version);
        }
        let mut guard = match self.objects().write_start(&key) {
            Err(tombolo_sharing::Error::NotFound) => return Ok(false),
            guard => guard?,
        };
        let head = locked_head(&mut guard)?;
        if head.is_held() {
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

    fn evict_as_of(&self, key: &[u8], version: Version) -> Result<bool, Error> {
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
        self.give_back()
    }

    fn give_back(&mut self) -> Result<(), Error> {
        self.released = true;
        let cache = self.cache;
        let key = Key::head(self.file).bytes();
        let mut guard = cache.patiently(|| cache.objects().write_start(&key))?;
        guard.write(
            0,
            &Head { epoch: (self.head.epoch | 1).wrapping_add(1), ..self.head }.encode(),
        )?;
        Ok(())
    }
}

impl<P: Pages, B: Backing> Drop for Alone<'_, P, B> {
    fn drop(&mut self) {
        if !self.released {
            // Whoever waits for the file learns from its head whom to ask.
            let _ = self.give_back();
        }
    }
}
