//! Reading and writing shared objects, without messages.

use tombolo_memory::{Memory, Work};
use tombolo_sharing::{Counter, Error, HEADER_BYTES, Header, PREFIX_BYTES, Part};

use super::body::{Body, has_key, no_slot};
use super::record::Layout;
use super::table::EntryNumber;
use super::{HcMeta, sites};

/// The outcome of trying an entry.
pub(crate) enum Tried<T> {
    Done(T),
    /// Its object has another key.
    OtherKey,
    /// Somebody writes, or it changed meanwhile.
    Busy,
}

impl<T> Tried<T> {
    pub(crate) fn map<U>(self, made: impl FnOnce(T) -> U) -> Tried<U> {
        match self {
            Self::Done(done) => Tried::Done(made(done)),
            Self::OtherKey => Tried::OtherKey,
            Self::Busy => Tried::Busy,
        }
    }
}

/// Where the bytes go that are read.
pub(crate) enum Sink<'a> {
    /// Here, replacing what is there.
    Whole(&'a mut Vec<u8>),
    /// Here; there are as many.
    Range(&'a mut [u8]),
}

impl Sink<'_> {
    /// Room for so many bytes.
    pub(crate) fn room(&mut self, bytes: u64) -> &mut [u8] {
        match self {
            Self::Whole(value) => {
                value.resize(bytes as usize, 0);
                value
            }
            Self::Range(into) => into,
        }
    }
}

/// A shared object that this thread has locked.
pub(crate) struct Held<'a, M: Memory> {
    scheme: &'a HcMeta<M>,
    entry: EntryNumber,
    /// The record's earlier word.
    record: u32,
    pub(crate) body: Body<'a, M>,
}

impl<M: Memory> HcMeta<M> {
    /// Reads part of the value, if the entry is that of the object with `key`. A part that the
    /// value does not have is an error of its own: the read was good.
    pub(crate) fn read_entry(
        &self,
        entry: EntryNumber,
        key: &[u8],
        part: Part,
        into: &mut Sink<'_>,
    ) -> Result<Tried<Result<Header, Error>>, Error> {
        let (memory, at) = (self.memory(), self.table.record(entry));
        let since = memory.moment();
        let record = memory.load(at);
        if Layout::is_locked(record) {
            return Ok(Tried::Busy);
        }
        if !self.table.has_key(entry, key) {
            return Ok(Tried::OtherKey);
        }
        let line = self.table.object(entry);
        let Some(lines) = self.space.lines(line) else { return Ok(Tried::Busy) };
        let current = self.layout.is_current(record);
        if !current {
            self.means().drop_stale(sites::READ_INVALIDATE, lines);
        }
        let mut buffer = [0; PREFIX_BYTES];
        let prefix = &mut buffer[..(HEADER_BYTES + key.len()).min(lines.bytes() as usize)];
        memory.read(lines.start(), prefix);
        let header = Header::decode(prefix, lines.bytes());
        let same =
            header.filter(|header| memory.check(sites::KEY_COMPARE, has_key(header, prefix, key)));
        let copied = same.map(|header| {
            let (offset, bytes) = part.of(u64::from(header.value_bytes))?;
            let from = lines.start().plus(header.value_offset() + offset);
            memory.read(from, into.room(bytes));
            Ok(header)
        });
        let again = memory.load(at);
        if !memory.check(sites::READ_AGAIN, self.layout.is_same(record, again)) {
            self.count(Counter::Retries);
            return Ok(Tried::Busy);
        }
        let relied_on = header.ok_or_else(|| no_slot(line))?.total_bytes();
        memory.relies_on(lines.start(), relied_on, since);
        if !current || !Layout::is_used(again) {
            self.mark_validated(entry, again);
        }
        Ok(copied.map_or(Tried::OtherKey, Tried::Done))
    }

    /// After a good read: this host's caches are current, and the object is used.
    fn mark_validated(&self, entry: EntryNumber, mut record: u32) {
        loop {
            let (at, new) = (self.table.record(entry), self.layout.validated(record));
            match self.memory().compare_exchange(sites::READ_MARK_VALIDATED, at, record, new) {
                Err(found) if self.layout.is_same(found, record) => record = found,
                _ => return,
            }
        }
    }

    /// Locks the object with `key`, if the entry is its.
    pub(crate) fn lock_entry(
        &self,
        entry: EntryNumber,
        key: &[u8],
    ) -> Result<Tried<Held<'_, M>>, Error> {
        let (memory, at) = (self.memory(), self.table.record(entry));
        let record = memory.load(at);
        if Layout::is_locked(record) {
            return Ok(Tried::Busy);
        }
        if !self.table.has_key(entry, key) {
            return Ok(Tried::OtherKey);
        }
        memory.works(Work::Lock);
        let locked = Layout::locked(record);
        if memory.compare_exchange(sites::WRITE_LOCK, at, record, locked).is_err() {
            return Ok(Tried::Busy);
        }
        let (line, fresh) = (self.table.object(entry), self.layout.is_current(record));
        match Body::open(self.means(), sites::WRITE_INVALIDATE, line, fresh, key) {
            Ok(Some(body)) => {
                memory.takes(body.lines);
                Ok(Tried::Done(Held { scheme: self, entry, record, body }))
            }
            other => {
                memory.store(at, record);
                other.map(|_| Tried::OtherKey)
            }
        }
    }
}

impl<M: Memory> Drop for Held<'_, M> {
    fn drop(&mut self) {
        let body = &mut self.body;
        let HcMeta { table, space, layout, .. } = self.scheme;
        let memory = self.scheme.memory();
        let written = !body.dirty.is_empty();
        let moved = written && memory.keeps(sites::WRITE_VERSION);
        let others = !written || !memory.keeps(sites::WRITE_ALONE);
        let record = layout.released(self.record, moved, body.fresh, others);
        let dirty = std::mem::take(&mut body.dirty);
        self.scheme.means().publish(sites::WRITE_CLEAN, dirty, |memory| {
            memory.gives(body.lines, body.header.total_bytes());
            if let Some(left) = body.left {
                memory.gives(left, 0);
                table.set_object(self.entry, body.lines.first());
            }
            memory.store(table.record(self.entry), record);
        });
        if let Some(left) = body.left {
            space.free(left.first());
        }
    }
}
