//! The list of a partition's shared rows in the order of their last use by other hosts.
//!
//! ```text
//! list     latch: number of the host that holds it, plus 1 | record used last | record used first
//! record   its word | record used next | record used before
//! ```
//!
//! All are words of SCR, and 0 is no record. A thread that holds a record's latch may take the
//! list's latch, and not the other way round. A record is in the list from before its index has it
//! until it is taken out of the index. (Tigon paper, sections 3.2 and 4.6: LRU.)

use tombolo_database::TxError;
use tombolo_memory::{Memory, ScrAddr};

use crate::cat::Cat;
use crate::index::RecordAt;
use crate::sites;

/// Words of a record that is in a list.
pub(crate) const RECORD_WORDS: u64 = 3;

/// Words of a list.
pub(crate) const LIST_WORDS: u64 = 3;

/// A list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    latch: ScrAddr<u64>,
}

/// A neighbour in a list.
#[derive(Clone, Copy)]
enum Side {
    /// The record used next, or of the list the one used last.
    Later = 1,
    /// The record used before, or of the list the one used first.
    Earlier = 2,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Later => Self::Earlier,
            Self::Earlier => Self::Later,
        }
    }
}

impl Usage {
    pub(crate) fn at(latch: ScrAddr<u64>) -> Self {
        Self { latch }
    }

    /// Puts a record that is in no list at the end of those used last. The caller has its latch, or
    /// no other host knows it.
    pub(crate) fn add<M: Memory>(self, cat: &Cat<M>, at: RecordAt) -> Result<(), TxError> {
        self.change(cat, || self.push(cat.memory(), at))
    }

    /// A record was used. The caller has its latch, and it is not free.
    pub(crate) fn uses<M: Memory>(self, cat: &Cat<M>, at: RecordAt) -> Result<(), TxError> {
        self.change(cat, || self.cut(cat.memory(), at) && self.push(cat.memory(), at))
    }

    /// Takes a record out. The caller has its latch, or no other host knows it.
    pub(crate) fn remove<M: Memory>(self, cat: &Cat<M>, at: RecordAt) -> Result<(), TxError> {
        self.change(cat, || self.cut(cat.memory(), at))
    }

    /// The record that was not used for the longest time. The caller has no record's latch.
    pub(crate) fn first<M: Memory>(self, cat: &Cat<M>) -> Result<Option<RecordAt>, TxError> {
        self.latched(cat, || {
            let first = cat.memory().load(self.link(None, Side::Earlier));
            (first != 0).then_some(RecordAt(first as u32))
        })
    }

    /// Makes a change, which says whether the list is as it must be.
    fn change<M: Memory>(self, cat: &Cat<M>, work: impl FnOnce() -> bool) -> Result<(), TxError> {
        if self.latched(cat, work)? {
            return Ok(());
        }
        Err(TxError::Failed(format!("a list of shared rows by use is damaged: {self:?}")))
    }

    /// # Errors
    /// That a host of the database has died.
    fn latched<M: Memory, T>(self, cat: &Cat<M>, work: impl FnOnce() -> T) -> Result<T, TxError> {
        let (memory, mut round) = (cat.memory(), 0);
        let own = u64::from(cat.home) + 1;
        while memory.load(self.latch) != 0
            || memory.compare_exchange(sites::USAGE_LATCH, self.latch, 0, own).is_err()
        {
            cat.homes.wait(&mut round)?;
        }
        let done = work();
        memory.store(self.latch, 0);
        Ok(done)
    }

    fn link(self, record: Option<u64>, side: Side) -> ScrAddr<u64> {
        let of = record.map_or(self.latch, |record| ScrAddr::new(record * 8));
        of.element(side as u64)
    }

    fn push<M: Memory>(self, memory: &M, at: RecordAt) -> bool {
        let at = u64::from(at.0);
        let last = memory.load(self.link(None, Side::Later));
        memory.store(self.link(Some(at), Side::Later), 0);
        memory.store(self.link(Some(at), Side::Earlier), last);
        let is_sound = self.join(memory, (last, Side::Later), 0, at);
        memory.store(self.link(None, Side::Later), at);
        is_sound
    }

    fn cut<M: Memory>(self, memory: &M, at: RecordAt) -> bool {
        let at = u64::from(at.0);
        let [later, earlier] =
            [Side::Later, Side::Earlier].map(|side| memory.load(self.link(Some(at), side)));
        self.join(memory, (later, Side::Earlier), at, earlier)
            && self.join(memory, (earlier, Side::Later), at, later)
    }

    /// The neighbour of a record on a side is `now` from now on; whether it was `before`. No record
    /// is the list's end, of which the neighbour is kept at the other side.
    fn join<M: Memory>(
        self,
        memory: &M,
        (record, side): (u64, Side),
        before: u64,
        now: u64,
    ) -> bool {
        let link = match record {
            0 => self.link(None, side.other()),
            record => self.link(Some(record), side),
        };
        let is_sound = memory.load(link) == before;
        memory.store(link, now);
        is_sound
    }
}
