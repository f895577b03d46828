//! The needs of the server of a store.

use std::ops::Range;

use bytes::Bytes;
use tombolo_kv::{Change, DeadlineChange, Entry, EvictionPolicy, Found, RemovalHook, Stat, Watch};

use crate::bus::Bus;

/// Why a store did not do what it was asked. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no room.
    #[error("{0}")]
    Full(String),
    /// It cannot be done, now or later.
    #[error("{0}")]
    Refused(String),
    /// It cannot be done now.
    #[error("{0}")]
    Unavailable(String),
}

/// How much of a store is in use, as far as it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Bytes that keys and values take.
    pub used_bytes: u64,
    /// Bytes there are.
    pub bytes: u64,
    /// Keys that are to expire.
    pub expiring: u64,
    /// Keys that were removed because they had expired.
    pub expired: u64,
    /// Keys that were evicted.
    pub evicted: u64,
}

/// The policy of a store when there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Eviction {
    /// Which values go.
    pub policy: EvictionPolicy,
    /// Bytes that values may take at most; all there are, if `None`.
    pub limit_bytes: Option<u64>,
}

/// A section of the reply to `INFO`: its title, and names with values.
pub type InfoSection = (String, Vec<(String, String)>);

/// A key-value store with expiry. Calls block; they should take microseconds.
pub trait Store {
    /// The clock by which values expire, in milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// The value of `key`, unless there is none or it has expired.
    ///
    /// # Errors
    /// [`StoreError`].
    fn get(&self, key: &[u8]) -> Result<Option<Entry>, StoreError>;

    /// Shows the value of each of `keys` to `visit`, in turn, as of some moment each. Of values
    /// longer than `most_bytes`, by some bytes or more, it shows only that they are.
    ///
    /// # Errors
    /// [`StoreError`]; keys that were shown by then do not count.
    fn get_each(
        &self,
        keys: &[Bytes],
        most_bytes: u64,
        visit: &mut dyn FnMut(Found<'_>),
    ) -> Result<(), StoreError> {
        let found: Vec<_> = keys.iter().map(|key| self.get(key)).collect::<Result<_, _>>()?;
        found.iter().for_each(|entry| match entry {
            None => visit(Found::Absent),
            Some(entry) if entry.value.len() as u64 > most_bytes => visit(Found::Longer),
            Some(entry) => visit(Found::Value(&entry.value)),
        });
        Ok(())
    }

    /// The length of the value of `key`, and when it expires; `None` if there is no value.
    ///
    /// # Errors
    /// [`StoreError`].
    fn stat(&self, key: &[u8]) -> Result<Option<Stat>, StoreError> {
        let stat = |entry: Entry| Stat {
            value_bytes: entry.value.len() as u64,
            deadline_ms: entry.deadline_ms,
        };
        Ok(self.get(key)?.map(stat))
    }

    /// When the value of `key` expires; `None` if there is no value.
    ///
    /// # Errors
    /// [`StoreError`].
    fn deadline(&self, key: &[u8]) -> Result<Option<Option<u64>>, StoreError> {
        Ok(self.stat(key)?.map(|stat| stat.deadline_ms))
    }

    /// The bytes of the value of `key` that `choose` wants of so many; `None` if there is no value.
    ///
    /// # Errors
    /// [`StoreError`], also if there are no such bytes.
    fn get_range(
        &self,
        key: &[u8],
        choose: &dyn Fn(u64) -> Range<u64>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(entry) = self.get(key)? else { return Ok(None) };
        let Range { start, end } = choose(entry.value.len() as u64);
        let part = entry.value.get(start as usize..end as usize);
        let refused = || StoreError::Refused(format!("the value has no bytes {start}..{end}"));
        part.map(|part| Some(part.to_vec())).ok_or_else(refused)
    }

    /// Lets `decide` say from the deadline of the value of `key` what becomes of it, as one step;
    /// whether there is a value. `decide` may be called several times; the last call counts.
    ///
    /// # Errors
    /// [`StoreError`].
    fn update_deadline(
        &self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<u64>) -> DeadlineChange,
    ) -> Result<bool, StoreError> {
        let mut found = false;
        self.update(key, &mut |before| {
            found = before.is_some();
            let Some(entry) = before else { return Change::Keep };
            match decide(entry.deadline_ms) {
                DeadlineChange::Keep => Change::Keep,
                DeadlineChange::Delete => Change::Delete,
                DeadlineChange::Set(deadline_ms) => Change::Put(Entry { deadline_ms, ..entry }),
            }
        })?;
        Ok(found)
    }

    /// Changes bytes of the value of `key` from `offset` on; the length of the value. `None`, with
    /// nothing changed, if there is no value, or one that ends before those bytes: then the value
    /// is to be changed by [`update`](Self::update).
    ///
    /// # Errors
    /// [`StoreError`].
    fn set_range(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<Option<u64>, StoreError> {
        let _ = (key, offset, bytes);
        Ok(None)
    }

    /// Whether `key` could have a value, if there is room for one.
    ///
    /// # Errors
    /// [`StoreError::Refused`].
    fn check_key(&self, key: &[u8]) -> Result<(), StoreError> {
        let _ = key;
        Ok(())
    }

    /// Bytes for values that were there a moment ago.
    fn room(&self) -> u64 {
        0
    }

    /// Gives `key` a value, whatever it had before.
    ///
    /// # Errors
    /// [`StoreError`].
    fn put(&self, key: &[u8], entry: &Entry) -> Result<(), StoreError>;

    /// Gives each of these keys a value that lasts, in their order; returns the outcome of each.
    fn put_each(&self, pairs: &[(Bytes, Bytes)]) -> Vec<Result<(), StoreError>> {
        let put = |(key, value): &(Bytes, Bytes)| self.put(key, &Entry::lasting(value.to_vec()));
        pairs.iter().map(put).collect()
    }

    /// Removes `key`; whether it had a value.
    ///
    /// # Errors
    /// [`StoreError`].
    fn delete(&self, key: &[u8]) -> Result<bool, StoreError>;

    /// Lets `change` decide, from the value `key` has, what becomes of it, as one step. `change`
    /// may be called several times; the last call counts.
    ///
    /// # Errors
    /// [`StoreError`].
    fn update(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(Option<Entry>) -> Change,
    ) -> Result<(), StoreError>;

    /// Some `count` keys and the next cursor; a walk starts with 0 and ends when 0 comes back. It
    /// meets every key that is there all the while, perhaps more than once.
    ///
    /// # Errors
    /// [`StoreError`].
    fn scan(&self, cursor: u64, count: usize) -> Result<(u64, Vec<Vec<u8>>), StoreError>;

    /// How many keys there are.
    ///
    /// # Errors
    /// [`StoreError`].
    fn key_count(&self) -> Result<u64, StoreError>;

    /// Removes all keys.
    ///
    /// # Errors
    /// [`StoreError`].
    fn clear(&self) -> Result<(), StoreError>;

    /// Whether keys of databases other than 0 may be there: see [`use_databases`].
    ///
    /// [`use_databases`]: Self::use_databases
    ///
    /// # Errors
    /// [`StoreError`].
    fn has_databases(&self) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Notes for all servers of the store that keys of databases other than 0 may be there from
    /// here on. A store that does not note it counts keys by a walk through all of them.
    ///
    /// # Errors
    /// [`StoreError`].
    fn use_databases(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The libraries of functions that were kept last, for all servers of the store, and a number
    /// that changes with them. No value is among them: they neither expire nor are evicted.
    ///
    /// # Errors
    /// [`StoreError`].
    fn libraries(&self) -> Result<(u64, Vec<u8>), StoreError> {
        Ok((self.libraries_version()?, Vec::new()))
    }

    /// The number of the libraries alone.
    ///
    /// # Errors
    /// [`StoreError`].
    fn libraries_version(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Keeps libraries in place of those with this number; whether those are still there.
    ///
    /// # Errors
    /// [`StoreError`].
    fn keep_libraries(&self, before: u64, libraries: &[u8]) -> Result<bool, StoreError> {
        let _ = (before, libraries);
        Err(StoreError::Refused("this store keeps no functions".to_owned()))
    }

    /// Has `hook` told of values that the store removes by itself, in place of an earlier one.
    fn on_removal(&self, hook: RemovalHook) {
        let _ = hook;
    }

    /// The way to servers of other hosts that have the same values; `None` if there are none.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if there may be others, and no way to them.
    fn bus(&self) -> Result<Option<&dyn Bus>, StoreError> {
        Ok(None)
    }

    /// Notes what `key` has now, for [`atomically`](Self::atomically).
    ///
    /// # Errors
    /// [`StoreError`].
    fn watch(&self, key: &[u8]) -> Result<Watch, StoreError> {
        let _ = key;
        Err(no_transactions())
    }

    /// Runs `body` on a view of the store, so that all that it reads and changes there happens in
    /// one step, if what is watched has not changed; whether it has not. `body` may run several
    /// times, and the last time counts. It says whether its changes are to be made; if not, what it
    /// has read was there at one moment all the same.
    ///
    /// # Errors
    /// [`StoreError`]: no change was made.
    fn atomically(
        &self,
        watched: &[Watch],
        body: &mut dyn FnMut(&dyn Store) -> bool,
    ) -> Result<bool, StoreError> {
        let _ = (watched, body);
        Err(no_transactions())
    }

    /// How much is in use.
    fn usage(&self) -> StoreUsage {
        StoreUsage::default()
    }

    /// Its policy when there is no room.
    fn eviction(&self) -> Eviction {
        Eviction::default()
    }

    /// Has it do something else then.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if it cannot.
    fn set_eviction(&self, eviction: Eviction) -> Result<(), StoreError> {
        if eviction == self.eviction() {
            return Ok(());
        }
        Err(StoreError::Refused("this store evicts nothing, and has no limit".to_owned()))
    }

    /// The store's sections of INFO.
    fn info(&self) -> Vec<InfoSection>;
}

fn no_transactions() -> StoreError {
    StoreError::Refused("this store has no transactions".to_owned())
}
