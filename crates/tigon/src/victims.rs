//! The shared rows of a partition, in the order in which they are to move out.
//!
//! A clock and a queue are this host's own. The order of the last use is kept in SCR
//! ([`Usage`]); this host then knows its rows by their records.

use std::collections::{BTreeMap, VecDeque};

use tombolo_database::TxError;
use tombolo_memory::Memory;

use crate::cat::Cat;
use crate::index::RecordAt;
use crate::partition::Entry;
use crate::usage::Usage;

/// A row, and its record if it is in the list by use.
pub(crate) type Listed<M> = (Option<RecordAt>, Entry<M>);

/// The shared rows of a partition. Some may have moved out since.
pub(crate) struct SharedRows<M: Memory> {
    /// In the order in which the clock's hand comes to them, or they were shared.
    queue: VecDeque<Entry<M>>,
    /// By their records' addresses.
    by_record: BTreeMap<u32, Entry<M>>,
    /// The record after which the next one is taken where any will do.
    hand: u32,
}

impl<M: Memory> SharedRows<M> {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::new(), by_record: BTreeMap::new(), hand: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.by_record.len()
    }

    /// Adds a row; its record is named if it is in the list by use.
    pub(crate) fn add(&mut self, listed: Option<RecordAt>, entry: Entry<M>) {
        match listed {
            None => self.queue.push_back(entry),
            Some(at) => _ = self.by_record.insert(at.0, entry),
        }
    }

    /// Takes the row whose turn to move out it is.
    ///
    /// # Errors
    /// That the list by use names no row of this partition; that a host has died.
    pub(crate) fn take_next(
        &mut self,
        cat: &Cat<M>,
        usage: Option<Usage>,
    ) -> Result<Option<Listed<M>>, TxError> {
        let Some(usage) = usage else {
            return Ok(self.queue.pop_front().map(|entry| (None, entry)));
        };
        let Some(at) = usage.first(cat)? else { return Ok(None) };
        match self.by_record.remove(&at.0) {
            Some(entry) => Ok(Some((Some(at), entry))),
            None => Err(TxError::Failed(format!(
                "the list of shared rows by use names a record of another partition: {at:?}"
            ))),
        }
    }

    /// Takes a row, another one each time.
    pub(crate) fn take_any(&mut self) -> Option<Listed<M>> {
        if let Some(entry) = self.queue.pop_front() {
            return Some((None, entry));
        }
        let next = self.by_record.range(self.hand.saturating_add(1)..).next();
        let (&at, _) = next.or_else(|| self.by_record.first_key_value())?;
        self.hand = at;
        self.by_record.remove(&at).map(|entry| (Some(RecordAt(at)), entry))
    }
}
