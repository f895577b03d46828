//! Several keys read and changed in one step.

use std::collections::BTreeMap;

use tombolo_memory::Memory;
use tombolo_sharing::{MAX_KEY_BYTES, Reads, Transactional, Version, Writes, retry_with_backoff};

use crate::key::stored;
use crate::store::too_long;
use crate::{Entry, Error, Store, sites};

/// How often a key is read again whose value has expired and is not gone yet.
const TRIES: usize = 8;

/// The state of a key when it was watched: see [`Store::watch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The key.
    pub key: Vec<u8>,
    /// Names the put that gave it its value; `None` if it had none.
    pub version: Option<u64>,
    /// When that value expires, in milliseconds since the Unix epoch.
    pub deadline_ms: Option<u64>,
    /// If it had none: a count of its removals. It may have got a value since, and lost it again.
    pub removals: u64,
}

/// The reads and changes of a transaction: see [`Store::transaction`]. Nothing that it
/// changes is there for others before it ends.
pub struct Transaction<'a, S: Transactional> {
    store: &'a Store<S>,
    /// The keys here are those of objects.
    reads: Reads,
    found: BTreeMap<Vec<u8>, Option<Entry>>,
    changed: BTreeMap<Vec<u8>, Option<Entry>>,
    /// Keys that had no value when they were watched, and their removals until then.
    absent: Vec<(Vec<u8>, u64)>,
    /// The first deadline of the values that were read, and had not expired.
    deadline_ms: Option<u64>,
}

impl<S: Transactional> Store<S> {
    /// Runs `body` so that all that it reads and changes happens in one step. If another host or
    /// thread was in the way, `body` runs again, with longer waits up to some microseconds; so what
    /// it does besides must not matter. An error of `body` leaves everything as it was, and was
    /// decided on values that were there at one moment.
    ///
    /// # Errors
    /// Those of `body`. [`Error::Conflict`] if others were in the way for ten seconds. Those of
    /// [`put`](Self::put); if this host was fenced, all may be done, or nothing.
    pub fn transaction<T, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction<'_, S>) -> Result<T, E>,
    ) -> Result<T, E> {
        match self.transaction_if(&[], body)? {
            Some(answer) => Ok(answer),
            None => Err(Error::Conflict.into()),
        }
    }

    /// As [`transaction`](Self::transaction), if what is watched has not changed; else `None`, and
    /// nothing is done.
    ///
    /// # Errors
    /// Those of [`transaction`](Self::transaction).
    pub fn transaction_if<T, E: From<Error>>(
        &self,
        watched: &[Watch],
        mut body: impl FnMut(&mut Transaction<'_, S>) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let mut outcome = None;
        let ended = retry_with_backoff(self.objects.memory(), || {
            let attempt = self.attempt(watched, &mut body);
            outcome = match attempt {
                Ok(None) => return Ok(None),
                Ok(Some(answer)) => Some(Ok(answer)),
                Err(error) => Some(Err(error)),
            };
            Ok(Some(()))
        });
        match (ended, outcome) {
            (Ok(()), Some(outcome)) => outcome,
            _ => Err(Error::Conflict.into()),
        }
    }

    /// `None` if others were in the way.
    fn attempt<T, E: From<Error>>(
        &self,
        watched: &[Watch],
        body: &mut impl FnMut(&mut Transaction<'_, S>) -> Result<T, E>,
    ) -> Result<Option<Option<T>>, E> {
        if self.has_changed(watched)? {
            return Ok(Some(None));
        }
        let mut transaction = Transaction::new(self);
        let result = body(&mut transaction);
        if result.is_err() {
            transaction.changed.clear();
        }
        for Watch { key, version, deadline_ms, removals } in watched {
            transaction.notice(&stored(key), version.map(Version), *deadline_ms);
            if version.is_none() {
                transaction.absent.push((stored(key).into_owned(), *removals));
            }
        }
        if !transaction.commit()? {
            return Ok(None);
        }
        result.map(|answer| Some(Some(answer)))
    }

    /// Notes what `key` has now. A put, a removal, or the end of its lifetime change that.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn watch(&self, key: &[u8]) -> Result<Watch, Error> {
        let (own, key) = (stored(key), key.to_vec());
        for _ in 0..TRIES {
            let removals = self.removals(&own);
            if let Some((deadline_ms, version)) = self.look_at(&own)? {
                return Ok(Watch { key, version: Some(version.0), deadline_ms, removals: 0 });
            }
            // Its value may have expired, and been removed just now.
            if self.removals(&own) == removals {
                return Ok(Watch { key, version: None, deadline_ms: None, removals });
            }
        }
        Err(Error::Conflict)
    }

    /// A key that is too long for a value has none to be removed.
    fn removals(&self, stored: &[u8]) -> u64 {
        self.objects.removals(stored).unwrap_or(0)
    }

    /// Whether one of these keys has changed since it was watched.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn has_changed(&self, watched: &[Watch]) -> Result<bool, Error> {
        for watch in watched {
            let own = stored(&watch.key);
            let version = self.look_at(&own)?.map(|(_, version)| version.0);
            let came_and_went = version.is_none() && self.removals(&own) != watch.removals;
            if version != watch.version || came_and_went || self.has_passed(watch.deadline_ms) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The deadline and version of a value that has not expired; one that has is removed.
    fn look_at(&self, stored: &[u8]) -> Result<Option<(Option<u64>, Version)>, Error> {
        if stored.len() > MAX_KEY_BYTES {
            return Ok(None);
        }
        for _ in 0..TRIES {
            let Some((deadline, version)) = self.stored_deadline(stored)? else { return Ok(None) };
            if !self.has_passed(deadline) {
                return Ok(Some((deadline, version)));
            }
            self.remove_expired(stored, version)?;
        }
        Err(Error::Conflict)
    }
}

impl<'a, S: Transactional> Transaction<'a, S> {
    fn new(store: &'a Store<S>) -> Self {
        let (reads, found, changed) = (Reads::new(), BTreeMap::new(), BTreeMap::new());
        Self { store, reads, found, changed, absent: Vec::new(), deadline_ms: None }
    }

    /// The store.
    pub fn store(&self) -> &'a Store<S> {
        self.store
    }

    /// The value of `key`, if it has one, as this transaction leaves it.
    ///
    /// # Errors
    /// Those of [`Store::get`].
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let stored = stored(key);
        if let Some(changed) = self.changed.get(&*stored) {
            return Ok(changed.clone());
        }
        if let Some(found) = self.found.get(&*stored) {
            return Ok(found.clone());
        }
        if stored.len() > MAX_KEY_BYTES {
            return Ok(None);
        }
        self.read(&stored)
    }

    fn read(&mut self, stored: &[u8]) -> Result<Option<Entry>, Error> {
        for _ in 0..TRIES {
            let (store, mut bytes) = (self.store, Vec::new());
            let objects = &store.objects;
            let version = store.unless_lost(stored, || objects.read(stored, &mut bytes))?;
            let entry = version.map(|_| Entry::decode(bytes)).transpose()?;
            if let (Some(Entry { deadline_ms, .. }), Some(version)) = (&entry, version)
                && store.has_passed(*deadline_ms)
            {
                store.remove_expired(stored, version)?;
                continue;
            }
            let deadline_ms = entry.as_ref().and_then(|entry| entry.deadline_ms);
            self.notice(stored, version, deadline_ms);
            self.found.insert(stored.to_vec(), entry.clone());
            return Ok(entry);
        }
        Err(Error::Conflict)
    }

    /// The transaction counts only if this is still so.
    fn notice(&mut self, stored: &[u8], version: Option<Version>, deadline_ms: Option<u64>) {
        if stored.len() <= MAX_KEY_BYTES {
            self.reads.insert(stored.to_vec(), version);
        }
        let sooner = |deadline: u64| self.deadline_ms.is_none_or(|first| deadline < first);
        if deadline_ms.is_some_and(sooner) {
            self.deadline_ms = deadline_ms;
        }
    }

    /// Gives `key` a value, whatever it had before.
    ///
    /// # Errors
    /// Those of [`Store::check_key`].
    pub fn put(&mut self, key: &[u8], entry: Entry) -> Result<(), Error> {
        let stored = stored(key);
        if stored.len() > MAX_KEY_BYTES {
            return Err(too_long(&stored));
        }
        self.changed.insert(stored.into_owned(), Some(entry));
        Ok(())
    }

    /// Removes `key`; whether it had a value.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        let was_there = self.get(key)?.is_some();
        if was_there {
            self.changed.insert(stored(key).into_owned(), None);
        }
        Ok(was_there)
    }

    /// Has the value of `key` expire then; never, if `None`. Whether there is one.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn expire(&mut self, key: &[u8], deadline_ms: Option<u64>) -> Result<bool, Error> {
        let Some(entry) = self.get(key)? else { return Ok(false) };
        self.put(key, Entry { deadline_ms, ..entry })?;
        Ok(true)
    }

    /// Keys to which this transaction has given values, or which it has removed, and whether they
    /// have one now.
    pub fn changes(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let changed = self.changed.iter();
        changed.map(|(stored, entry)| (crate::key::original(stored), entry.is_some()))
    }

    /// Makes the changes, unless others were in the way; whether they were not.
    fn commit(self) -> Result<bool, Error> {
        let Self { store, reads, changed, absent, deadline_ms, .. } = self;
        let writes: Writes = changed
            .iter()
            .map(|(key, entry)| (key.clone(), entry.as_ref().map(Entry::encode)))
            .collect();
        let still = || {
            let memory = store.objects.memory();
            let in_time = memory.check(sites::TRANSACTION_DEADLINE, !store.has_passed(deadline_ms));
            // That the keys have no value has been seen just now, so their removals are known.
            let same = absent.iter().all(|(key, removals)| store.removals(key) == *removals);
            in_time && memory.check(sites::TRANSACTION_ABSENT, same)
        };
        let bytes = writes.values().flatten().map(Vec::len).sum();
        let commit = || match store.objects.transact(&reads, &writes, &still) {
            // A value that is gone is absent. The next attempt has nothing in its way.
            Err(error) if error.is_loss() => {
                writes.keys().try_for_each(|key| store.objects.forget_lost(key).map(drop))?;
                Ok(false)
            }
            done => Ok(done?),
        };
        let done = store.with_room(bytes, commit)?;
        if done {
            for (key, entry) in &changed {
                store.remember(key, entry.as_ref().and_then(|entry| entry.deadline_ms));
                if let Some(Some(object)) = writes.get(key) {
                    store.note_put(key, object.len());
                }
            }
        }
        Ok(done)
    }
}
