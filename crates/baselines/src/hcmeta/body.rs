//! An object that this thread alone may change.

use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;
use tombolo_memory::{Lines, LnrAddr, Memory, Moment, Site};
use tombolo_sharing::{
    Counter, Counters, Error, HEADER_BYTES, Header, PREFIX_BYTES, Part, Version, object_bytes,
};

use super::sites;
use super::space::Space;
use super::value::Value;

/// The means of its host that an object's body uses.
pub(crate) struct Means<'a, M: Memory> {
    pub(crate) memory: &'a M,
    pub(crate) space: &'a Space<M>,
    pub(crate) counters: &'a Counters,
    /// Names writes.
    pub(crate) versions: &'a AtomicU64,
}

impl<M: Memory> Clone for Means<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Memory> Copy for Means<'_, M> {}

impl<M: Memory> Means<'_, M> {
    pub(crate) fn next_version(&self) -> Version {
        Version(self.versions.fetch_add(1, Ordering::Relaxed))
    }

    /// Writes an object into a free slot, through this host's caches.
    pub(crate) fn place(
        &self,
        key: &[u8],
        value: &[u8],
        version: Version,
    ) -> Result<(Lines, Header), Error> {
        let bytes = object_bytes(key, value)?;
        let line = self.space.reserve(bytes)?;
        let lines = self.space.lines(line).ok_or_else(|| no_slot(line))?;
        let header = Header::new(version, key, value.len() as u32);
        let mut prefix = [0; PREFIX_BYTES];
        prefix[..HEADER_BYTES].copy_from_slice(&header.encode());
        prefix[HEADER_BYTES..][..key.len()].copy_from_slice(key);
        self.memory.takes_blank(lines);
        // It may stay in these caches for long, and be read from there.
        self.drop_stale(sites::PRIVATE_INVALIDATE, lines);
        self.memory.write(lines.start(), &prefix[..HEADER_BYTES + key.len()]);
        self.memory.write(lines.start().plus(header.value_offset()), value);
        Ok((lines, header))
    }

    /// Drops lines that may be stale.
    pub(crate) fn drop_stale(&self, site: Site, lines: Lines) {
        self.counters.add(Counter::InvalidatedLines, lines.count());
        self.memory.consume(site, |_| ((), Some(lines)));
    }

    /// Brings lines into memory, and runs `announce`.
    pub(crate) fn publish<R>(
        &self,
        site: Site,
        lines: impl IntoIterator<Item = Lines> + Clone,
        announce: impl FnOnce(&M) -> R,
    ) -> R {
        let count = lines.clone().into_iter().map(Lines::count).sum();
        self.counters.add(Counter::CleanedLines, count);
        self.memory.publish(site, lines, announce)
    }
}

/// An object's bytes in its slot.
pub(crate) struct Body<'a, M: Memory> {
    means: Means<'a, M>,
    /// The step that drops its stale lines.
    site: Site,
    pub(crate) lines: Lines,
    pub(crate) header: Header,
    /// This host has no stale line of the object.
    pub(crate) fresh: bool,
    /// The lines that were written and are not in memory yet.
    pub(crate) dirty: SmallVec<[Lines; 3]>,
    /// Where the object was before, if it moved.
    pub(crate) left: Option<Lines>,
    since: Moment,
}

impl<'a, M: Memory> Body<'a, M> {
    /// The object in the slot at `line`; `None` if it has another key.
    pub(crate) fn open(
        means: Means<'a, M>,
        site: Site,
        line: u64,
        fresh: bool,
        key: &[u8],
    ) -> Result<Option<Self>, Error> {
        let since = means.memory.moment();
        let lines = means.space.lines(line).ok_or_else(|| no_slot(line))?;
        let mut buffer = [0; PREFIX_BYTES];
        let length = (HEADER_BYTES + key.len()).min(lines.bytes() as usize);
        if !fresh {
            means.drop_stale(site, Lines::covering(lines.start(), length as u64));
        }
        means.memory.read(lines.start(), &mut buffer[..length]);
        means.memory.relies_on(lines.start(), length as u64, since);
        let header =
            Header::decode(&buffer[..length], lines.bytes()).ok_or_else(|| no_slot(line))?;
        let same = has_key(&header, &buffer[..length], key);
        let other = !means.memory.check(sites::KEY_COMPARE, same);
        let body =
            Self { means, site, lines, header, fresh, dirty: SmallVec::new(), left: None, since };
        Ok((!other).then_some(body))
    }

    /// Reads part of the value.
    pub(crate) fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let from = self.value_at(offset, into.len())?;
        self.freshen();
        self.means.memory.read(from, into);
        self.means.memory.relies_on(from, into.len() as u64, self.since);
        Ok(())
    }

    /// Changes part of the value.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let to = self.value_at(offset, bytes.len())?;
        self.freshen();
        self.means.memory.write(to, bytes);
        self.renew_header(self.header.value_bytes);
        self.soil(Lines::covering(to, bytes.len() as u64));
        self.soil(Lines::covering(self.lines.start(), HEADER_BYTES as u64));
        Ok(())
    }

    /// Lines that are to be cleaned, once.
    fn soil(&mut self, lines: Lines) {
        if !self.dirty.contains(&lines) {
            self.dirty.push(lines);
        }
    }

    /// Replaces the value, in another slot if it does not fit or leaves most of this one empty. On
    /// an error nothing is changed.
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let bytes = object_bytes(key, value)?;
        let capacity = self.lines.bytes();
        let wasteful = bytes * 4 < capacity && capacity > 1024;
        if bytes > capacity || wasteful {
            match self.means.place(key, value, self.means.next_version()) {
                Ok((lines, header)) => {
                    self.means.counters.add(Counter::Moves, 1);
                    self.left = Some(self.lines);
                    (self.lines, self.header, self.fresh) = (lines, header, true);
                    self.dirty.push(lines);
                    return Ok(());
                }
                Err(error) if bytes > capacity => return Err(error),
                Err(_) => {}
            }
        }
        // Header and key lines are fresh already; every other byte of the object is overwritten.
        let value_at = self.lines.start().plus(self.header.value_offset());
        self.means.memory.write(value_at, value);
        self.renew_header(value.len() as u32);
        self.dirty.push(Lines::covering(self.lines.start(), self.header.total_bytes()));
        self.fresh = true;
        Ok(())
    }

    /// Drops what may be stale, unless it was done: before anything is written.
    pub(crate) fn freshen(&mut self) {
        if !self.fresh {
            self.means.drop_stale(self.site, self.lines);
            self.fresh = true;
        }
    }

    fn value_at(&self, offset: u64, bytes: usize) -> Result<LnrAddr, Error> {
        let length = u64::from(self.header.value_bytes);
        let (offset, _) = Part::Range(offset, bytes as u64).of(length)?;
        Ok(self.lines.start().plus(self.header.value_offset() + offset))
    }

    fn renew_header(&mut self, value_bytes: u32) {
        let version = self.means.next_version();
        self.header = Header { version, value_bytes, ..self.header };
        self.means.memory.write(self.lines.start(), &self.header.encode());
    }
}

/// Whether a slot that begins with `prefix` holds the object with `key`.
pub(crate) fn has_key(header: &Header, prefix: &[u8], key: &[u8]) -> bool {
    usize::from(header.key_bytes) == key.len() && prefix.get(HEADER_BYTES..) == Some(key)
}

pub(crate) fn no_slot(line: u64) -> Error {
    Error::Damaged(format!("line {line} holds no object, though the index says so"))
}

/// An object that this thread alone may change, wherever it is.
pub(crate) enum Opened<'o, 'a, M: Memory> {
    Slot(&'o mut Body<'a, M>),
    Local { value: &'o mut Value, version: &'o mut Version, means: Means<'a, M> },
}

impl<M: Memory> Opened<'_, '_, M> {
    pub(crate) fn version(&self) -> Version {
        match self {
            Self::Slot(body) => body.header.version,
            Self::Local { version, .. } => **version,
        }
    }

    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Slot(body) => u64::from(body.header.value_bytes),
            Self::Local { value, .. } => value.len() as u64,
        }
    }

    pub(crate) fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        match self {
            Self::Slot(body) => body.read(offset, into),
            Self::Local { value, .. } => {
                value.read(range(offset, into.len(), value.len())?, into);
                Ok(())
            }
        }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Self::Slot(body) => body.write(offset, bytes),
            Self::Local { value, version, means } => {
                let range = range(offset, bytes.len(), value.len())?;
                value.write(range, bytes);
                **version = means.next_version();
                Ok(())
            }
        }
    }

    pub(crate) fn set(&mut self, key: &[u8], new: &[u8]) -> Result<(), Error> {
        match self {
            Self::Slot(body) => body.set(key, new),
            Self::Local { value, version, means } => {
                // It may have to move to LNR.
                means.space.class_for(object_bytes(key, new)?)?;
                value.set(new);
                **version = means.next_version();
                Ok(())
            }
        }
    }
}

fn range(offset: u64, bytes: usize, length: usize) -> Result<std::ops::Range<usize>, Error> {
    let (offset, bytes) = Part::Range(offset, bytes as u64).of(length as u64)?;
    Ok(offset as usize..(offset + bytes) as usize)
}
