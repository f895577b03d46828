//! Whether what was read is good: all of one version.

use tombolo_memory::Memory;

use crate::storage::index::Entry;
use crate::storage::records::RecordId;
use crate::{Error, Objects, sites};

impl<M: Memory> Objects<M> {
    /// Whether everything since the counter was loaded was one version: the counter is the same,
    /// and so is the object's entry as of the log's tail after that.
    ///
    /// In this order: a counter that has started again at zero meanwhile is announced in the log by
    /// the time it can be seen. The other way round, that could happen between the two looks.
    #[inline(always)]
    pub(crate) fn still_holds(
        &self,
        entry: &Entry,
        counter: u32,
        tail: u64,
    ) -> Result<bool, Error> {
        self.both_hold(entry.record(), counter, || self.entry_is_still(entry, tail))
    }

    /// The same, where `entry_again` looks at the log again, and tells whether the entry is as it
    /// was.
    #[inline(always)]
    pub(crate) fn both_hold<E>(
        &self,
        record: Option<RecordId>,
        counter: u32,
        entry_again: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        if self.memory().keeps(sites::READ_COUNTER_FIRST) {
            return Ok(self.counter_holds(record, counter) && self.entry_holds(entry_again)?);
        }
        Ok(self.entry_holds(entry_again)? && self.counter_holds(record, counter))
    }

    #[inline(always)]
    pub(crate) fn counter_holds(&self, record: Option<RecordId>, counter: u32) -> bool {
        let Some(record) = record else { return true };
        let now = self.records.load(record).readable();
        self.memory().check(sites::READ_COUNTER_AGAIN, now == Some(counter))
    }

    #[inline(always)]
    pub(crate) fn entry_holds<E>(
        &self,
        entry_again: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let memory = self.memory();
        if !memory.keeps(sites::READ_TAIL_AGAIN) {
            return Ok(true);
        }
        Ok(memory.check(sites::READ_ENTRY_AGAIN, entry_again()?))
    }

    /// Whether an entry that was found as of `tail` is the same as of the tail now.
    #[inline(always)]
    pub(crate) fn entry_is_still(&self, entry: &Entry, tail: u64) -> Result<bool, Error> {
        Ok(self.sync(entry.hash)? == tail || self.entry_stands(*entry))
    }

    /// Whether nobody has locked the object by the log, as far as its entry says.
    pub(crate) fn is_open(&self, entry: &Entry) -> bool {
        self.memory().check(sites::READ_LOG_LOCK, !entry.is_locked_by_log())
    }
}
