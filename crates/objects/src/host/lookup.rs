//! Lookup: the facts of an object before it is read or written in its slot.
//!
//! Of several objects each step is taken for all before the next: buckets are asked for, entries
//! are looked up, lines are asked for. A core has as many lines under way at once as an object of a
//! kilobyte has, and whatever comes behind more of them waits: so no lookup comes behind an
//! object's lines.

use tombolo_log::End;
use tombolo_memory::{Lines, Memory};

use crate::ids::{KeyHash, SlotLine};
use crate::replica::Shard;
use crate::storage::index::{Entry, Found, Probe};
use crate::{Error, Objects};

/// Objects that are found together.
pub(crate) const BATCH: usize = 16;

/// An object in its slot that may have a certain key.
pub(crate) struct Candidate<'a, M: Memory> {
    pub(crate) shard: &'a Shard<M>,
    /// Where the log ended before it was found.
    pub(crate) end: End<'a, M>,
    pub(crate) found: Found<'a>,
    pub(crate) lines: Lines,
}

/// The candidates for each of some keys.
pub(crate) type Candidates<'a, M> = [Option<Candidate<'a, M>>; BATCH];

/// A lookup that has begun, and where.
pub(crate) struct PendingLookup<'a, M: Memory> {
    shard: &'a Shard<M>,
    lookup: Probe<'a>,
}

impl<'a, M: Memory> Candidate<'a, M> {
    #[inline(always)]
    fn new(shard: &'a Shard<M>, end: End<'a, M>, found: Found<'a>) -> Option<Self> {
        let lines = shard.state().space.lines_at(found.entry.slot)?;
        found.entry.is_plain().then_some(Self { shard, end, found, lines })
    }
}

/// The outcome of looking at one object.
pub(crate) enum Attempt<T> {
    /// It has the key; this is what was read, and the read is good.
    Good(T),
    /// It has another key, which is as good a finding.
    OtherKey,
    /// It changed meanwhile.
    Changed,
}

impl<T> Attempt<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Attempt<U> {
        match self {
            Self::Good(read) => Attempt::Good(change(read)),
            Self::OtherKey => Attempt::OtherKey,
            Self::Changed => Attempt::Changed,
        }
    }
}

impl<T> Attempt<Result<T, Error>> {
    pub(crate) fn transpose(self) -> Result<Attempt<T>, Error> {
        Ok(match self {
            Self::Good(read) => Attempt::Good(read?),
            Self::OtherKey => Attempt::OtherKey,
            Self::Changed => Attempt::Changed,
        })
    }
}

/// The outcome of looking for the object with a key.
pub(crate) enum Lookup<T> {
    Found(T),
    Absent,
    /// Something changed meanwhile: look again.
    Retry,
}

impl<T> Lookup<T> {
    pub(crate) fn found(self) -> Option<T> {
        match self {
            Self::Found(found) => Some(found),
            Self::Absent | Self::Retry => None,
        }
    }
}

impl<M: Memory> Objects<M> {
    /// Looks at each object with `hash`, as of the log's tail, until one has the key that is looked
    /// for, or changes meanwhile.
    ///
    /// # Errors
    /// The first of `look`; those of applying the log.
    pub(crate) fn lookup<'a, T>(
        &'a self,
        hash: KeyHash,
        mut look: impl FnMut(&Found<'a>, u64) -> Result<Attempt<T>, Error>,
    ) -> Result<Lookup<T>, Error> {
        let tail = self.sync(hash)?;
        for found in self.state(hash).index.find(self.memory(), hash) {
            match look(&found, tail)? {
                Attempt::Good(found) => return Ok(Lookup::Found(found)),
                Attempt::OtherKey => {}
                Attempt::Changed => return Ok(Lookup::Retry),
            }
        }
        Ok(Lookup::Absent)
    }

    /// Repeats a lookup while it says so, for as long as patience lasts; `None` if there is no such
    /// object.
    #[inline(always)]
    pub(crate) fn repeat<T>(
        &self,
        mut lookup: impl FnMut() -> Result<Lookup<T>, Error>,
    ) -> Result<Option<T>, Error> {
        self.retry_with_backoff(|| {
            Ok(match lookup()? {
                Lookup::Found(found) => Some(Some(found)),
                Lookup::Absent => Some(None),
                Lookup::Retry => None,
            })
        })
    }

    /// An object with `hash`, if it is found at once.
    #[inline(always)]
    pub(crate) fn candidate(&self, hash: KeyHash) -> Option<Candidate<'_, M>> {
        self.sought(&self.begin_lookup(hash)?, drop)
    }

    /// The same, to be written: its first line is asked for as soon as it is known where that is.
    #[inline(always)]
    pub(crate) fn candidate_to_write<'a>(
        &'a self,
        pending: &PendingLookup<'a, M>,
    ) -> Option<Candidate<'a, M>> {
        self.sought(pending, |slot| self.memory().prefetch(Lines::new(slot, 1)))
    }

    #[inline(always)]
    fn sought<'a>(
        &'a self,
        pending: &PendingLookup<'a, M>,
        on_slot: impl FnOnce(SlotLine),
    ) -> Option<Candidate<'a, M>> {
        let &PendingLookup { shard, lookup } = pending;
        let end = shard.at_end()?;
        let index = &shard.state().index;
        Candidate::new(shard, end, index.find_at_once(self.memory(), lookup, on_slot)?)
    }

    /// Begins to look for an object: what does not depend on it is best done before it is sought.
    #[inline(always)]
    pub(crate) fn begin_lookup(&self, hash: KeyHash) -> Option<PendingLookup<'_, M>> {
        let shard = self.shard(hash);
        Some(PendingLookup { shard, lookup: shard.state().index.begin_lookup(hash)? })
    }

    /// An object that is found at once, if it takes no more than the bucket that every lookup
    /// begins with; if it may, that is fetched.
    #[inline(always)]
    fn candidate_or_fetch<'a>(
        &'a self,
        pending: &PendingLookup<'a, M>,
    ) -> Option<Candidate<'a, M>> {
        let &PendingLookup { shard, lookup } = pending;
        let end = shard.at_end()?;
        let index = &shard.state().index;
        Candidate::new(shard, end, index.find_or_fetch(self.memory(), lookup)?)
    }

    /// Finds objects with these hashes, as [`candidate`](Self::candidate) does; there are as many
    /// at most as are found together.
    #[inline(always)]
    pub(crate) fn candidates(
        &self,
        hashes: impl Iterator<Item = Option<KeyHash>> + Clone,
    ) -> Candidates<'_, M> {
        let mut pending = [const { None }; BATCH];
        for (pending, hash) in pending.iter_mut().zip(hashes.clone()) {
            *pending = hash.and_then(|hash| self.begin_lookup(hash));
        }
        // Stored where it stays: it is some hundred bytes, each of them.
        let mut candidates = [const { None }; BATCH];
        for (candidate, pending) in candidates.iter_mut().zip(&pending) {
            *candidate = pending.as_ref().and_then(|pending| self.candidate_or_fetch(pending));
        }
        for (candidate, hash) in candidates.iter_mut().zip(hashes) {
            if candidate.is_none() {
                *candidate = hash.and_then(|hash| self.candidate(hash));
            }
        }
        candidates
    }

    /// Has `candidate` found again, if the log goes on behind where it ended then.
    #[inline(always)]
    pub(crate) fn renew<'a>(&'a self, candidate: &mut Option<Candidate<'a, M>>, hash: KeyHash) {
        if candidate.as_ref().is_some_and(|found| !found.end.is_still()) {
            *candidate = self.candidate(hash);
        }
    }

    /// Whether an entry is as it was, as far as the log has been applied.
    #[cold]
    pub(crate) fn entry_stands(&self, entry: Entry) -> bool {
        let index = &self.state(entry.hash).index;
        let found = index.find_slot(self.memory(), entry.hash, entry.slot);
        found.is_some_and(|found| found.entry == entry)
    }
}
