//! The databases of a store, and notes of what a command does to keys.
//!
//! The keys of database 0 are the store's own, so that programs which use the store without a
//! server have them under the same names. The keys of all others have a prefix and the number of
//! their database in front, as has a key of database 0 that begins with the prefix itself.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use bytes::Bytes;
use tombolo_kv::{Change, DeadlineChange, Entry, Found, Stat};

use crate::store::{Eviction, InfoSection, Store, StoreError, StoreUsage};

/// How many databases there are.
pub(crate) const DATABASES: u8 = 16;

/// Not the start of any text in UTF-8.
const PREFIX: &[u8] = b"\xff\0db";

/// Keys that are met in one step of a walk.
const STEP: usize = 1000;

/// The store's key for a key of a database.
#[inline]
pub(crate) fn stored(database: u8, key: &[u8]) -> Cow<'_, [u8]> {
    if database == 0 && !key.starts_with(PREFIX) {
        Cow::Borrowed(key)
    } else {
        Cow::Owned([PREFIX, &[database], key].concat())
    }
}

/// The database of a store's key, and the key there.
pub(crate) fn original(stored: &[u8]) -> (u8, &[u8]) {
    match stored.strip_prefix(PREFIX).and_then(<[u8]>::split_first) {
        Some((&database, key)) if database < DATABASES => (database, key),
        _ => (0, stored),
    }
}

/// The number of keys of each database.
pub(crate) type KeyCounts = [u64; DATABASES as usize];

/// How many keys each database has.
///
/// # Errors
/// Those of [`Store::scan`] and [`Store::key_count`].
pub(crate) fn key_counts(store: &dyn Store) -> Result<KeyCounts, StoreError> {
    let mut counts = [0; DATABASES as usize];
    if !store.has_databases()? {
        counts[0] = store.key_count()?;
        return Ok(counts);
    }
    let mut cursor = 0;
    loop {
        let (next, keys) = store.scan(cursor, STEP)?;
        keys.iter().for_each(|key| counts[usize::from(original(key).0)] += 1);
        cursor = next;
        if cursor == 0 {
            return Ok(counts);
        }
    }
}

/// The fate of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It has a new value, or other bytes in it.
    Put(Deadline),
    Removed,
    /// Its value stays.
    Kept(Deadline),
}

/// The fate of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    AsBefore,
    Set,
    Gone,
}

impl Deadline {
    fn of(before: Option<u64>, after: Option<u64>) -> Self {
        match after {
            _ if before == after => Self::AsBefore,
            Some(_) => Self::Set,
            None => Self::Gone,
        }
    }
}

/// An effect, and the store's key that it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) stored: Vec<u8>,
    pub(crate) effect: Effect,
}

/// Effects, in their order.
#[derive(Debug, Default)]
pub(crate) struct Notes(RefCell<Vec<Note>>);

impl Notes {
    fn add(&self, stored: &[u8], effect: Effect) {
        self.0.borrow_mut().push(Note { stored: stored.to_vec(), effect });
    }

    pub(crate) fn count(&self) -> usize {
        self.0.borrow().len()
    }

    /// Takes out all but the first `count`.
    pub(crate) fn split_off(&self, count: usize) -> Vec<Note> {
        let mut notes = self.0.borrow_mut();
        let count = count.min(notes.len());
        notes.split_off(count)
    }
}

/// A database of a store.
#[derive(Clone, Copy)]
pub(crate) struct Database<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) number: u8,
    /// Where to note what is done, if somebody wants to know.
    pub(crate) notes: Option<&'a Notes>,
}

impl Database<'_> {
    fn stored<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        stored(self.number, key)
    }

    /// Whether keys are the store's own.
    fn is_plain(&self, mut keys: impl Iterator<Item = impl AsRef<[u8]>>) -> bool {
        self.number == 0 && keys.all(|key| !key.as_ref().starts_with(PREFIX))
    }

    /// Notes a write that leaves the value of `key` as it was.
    pub(crate) fn rewritten(&self, key: &[u8]) {
        self.note(&self.stored(key), Effect::Put(Deadline::AsBefore));
    }

    fn note(&self, stored: &[u8], effect: Effect) {
        self.notes.iter().for_each(|notes| notes.add(stored, effect));
    }
}

impl Store for Database<'_> {
    fn now_ms(&self) -> u64 {
        self.store.now_ms()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        self.store.get(&self.stored(key))
    }

    fn get_each(
        &self,
        keys: &[Bytes],
        most_bytes: u64,
        visit: &mut dyn FnMut(Found<'_>),
    ) -> Result<(), StoreError> {
        if self.is_plain(keys.iter()) {
            return self.store.get_each(keys, most_bytes, visit);
        }
        let keys: Vec<Bytes> =
            keys.iter().map(|key| self.stored(key).into_owned().into()).collect();
        self.store.get_each(&keys, most_bytes, visit)
    }

    fn stat(&self, key: &[u8]) -> Result<Option<Stat>, StoreError> {
        self.store.stat(&self.stored(key))
    }

    fn deadline(&self, key: &[u8]) -> Result<Option<Option<u64>>, StoreError> {
        self.store.deadline(&self.stored(key))
    }

    fn get_range(
        &self,
        key: &[u8],
        choose: &dyn Fn(u64) -> Range<u64>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get_range(&self.stored(key), choose)
    }

    fn update_deadline(
        &self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<u64>) -> DeadlineChange,
    ) -> Result<bool, StoreError> {
        let stored = self.stored(key);
        let mut last = DeadlineChange::Keep;
        let found = self.store.update_deadline(&stored, &mut |before| {
            last = decide(before);
            last
        })?;
        match last {
            _ if !found => {}
            DeadlineChange::Keep => {}
            DeadlineChange::Delete => self.note(&stored, Effect::Removed),
            DeadlineChange::Set(Some(_)) => self.note(&stored, Effect::Kept(Deadline::Set)),
            DeadlineChange::Set(None) => self.note(&stored, Effect::Kept(Deadline::Gone)),
        }
        Ok(found)
    }

    fn set_range(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<Option<u64>, StoreError> {
        let stored = self.stored(key);
        let length = self.store.set_range(&stored, offset, bytes)?;
        if length.is_some() {
            self.note(&stored, Effect::Put(Deadline::AsBefore));
        }
        Ok(length)
    }

    fn check_key(&self, key: &[u8]) -> Result<(), StoreError> {
        self.store.check_key(&self.stored(key))
    }

    fn room(&self) -> u64 {
        self.store.room()
    }

    fn put(&self, key: &[u8], entry: &Entry) -> Result<(), StoreError> {
        let stored = self.stored(key);
        self.store.put(&stored, entry)?;
        self.note(&stored, Effect::Put(Deadline::of(None, entry.deadline_ms)));
        Ok(())
    }

    fn put_each(&self, pairs: &[(Bytes, Bytes)]) -> Vec<Result<(), StoreError>> {
        let own: Vec<(Bytes, Bytes)>;
        let pairs = if self.is_plain(pairs.iter().map(|(key, _)| key)) {
            pairs
        } else {
            let stored = |key: &Bytes| self.stored(key).into_owned().into();
            own = pairs.iter().map(|(key, value)| (stored(key), value.clone())).collect();
            &own
        };
        let outcomes = self.store.put_each(pairs);
        if self.notes.is_some() {
            let put = outcomes.iter().zip(pairs).filter(|(outcome, _)| outcome.is_ok());
            put.for_each(|(_, (key, _))| self.note(key, Effect::Put(Deadline::AsBefore)));
        }
        outcomes
    }

    fn delete(&self, key: &[u8]) -> Result<bool, StoreError> {
        let stored = self.stored(key);
        let deleted = self.store.delete(&stored)?;
        if deleted {
            self.note(&stored, Effect::Removed);
        }
        Ok(deleted)
    }

    fn update(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(Option<Entry>) -> Change,
    ) -> Result<(), StoreError> {
        let stored = self.stored(key);
        if self.notes.is_none() {
            return self.store.update(&stored, change);
        }
        let mut effect = None;
        self.store.update(&stored, &mut |before| {
            let old = before.as_ref().map(|entry| entry.deadline_ms);
            let change = change(before);
            effect = match &change {
                Change::Keep => None,
                Change::Put(entry) => {
                    Some(Effect::Put(Deadline::of(old.flatten(), entry.deadline_ms)))
                }
                Change::Delete => old.map(|_| Effect::Removed),
            };
            change
        })?;
        effect.into_iter().for_each(|effect| self.note(&stored, effect));
        Ok(())
    }

    fn scan(&self, cursor: u64, count: usize) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let (next, mut keys) = self.store.scan(cursor, count)?;
        keys.retain_mut(|stored| {
            let (database, key) = original(stored);
            if key.len() < stored.len() {
                *stored = key.to_vec();
            }
            database == self.number
        });
        Ok((next, keys))
    }

    fn key_count(&self) -> Result<u64, StoreError> {
        Ok(key_counts(self.store)?[usize::from(self.number)])
    }

    /// Removes every key of the database that is there all the while.
    fn clear(&self) -> Result<(), StoreError> {
        if !self.store.has_databases()? {
            return if self.number == 0 { self.store.clear() } else { Ok(()) };
        }
        let mut cursor = 0;
        loop {
            let (next, keys) = self.scan(cursor, STEP)?;
            for key in keys {
                self.store.delete(&self.stored(&key))?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    fn has_databases(&self) -> Result<bool, StoreError> {
        self.store.has_databases()
    }

    fn libraries(&self) -> Result<(u64, Vec<u8>), StoreError> {
        self.store.libraries()
    }

    fn libraries_version(&self) -> Result<u64, StoreError> {
        self.store.libraries_version()
    }

    fn usage(&self) -> StoreUsage {
        self.store.usage()
    }

    fn eviction(&self) -> Eviction {
        self.store.eviction()
    }

    fn set_eviction(&self, eviction: Eviction) -> Result<(), StoreError> {
        self.store.set_eviction(eviction)
    }

    fn info(&self) -> Vec<InfoSection> {
        self.store.info()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_every_database_is_another_one() {
        let keys: [&[u8]; 5] = [b"", b"k", b"\xff", PREFIX, b"\xff\0db\x01k"];
        let mut met = Vec::new();
        for database in 0..DATABASES {
            for key in keys {
                let own = stored(database, key).into_owned();
                assert_eq!(original(&own), (database, key));
                assert!(!met.contains(&own));
                met.push(own);
            }
        }
    }
}
