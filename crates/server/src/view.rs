//! A transaction of a key-value store, as commands use a store.

use std::cell::RefCell;
use std::collections::BTreeMap;

use tombolo_kv::{Change, Entry, Error, Transaction, Transactional, Watch};

use crate::store::{InfoSection, Store, StoreError};

/// Keys that are met in one step of a walk.
const STEP: usize = 1000;

/// Runs `body` in one step on a store whose own commands `outer` does, as [`Store::atomically`]
/// says.
///
/// # Errors
/// Those of [`tombolo_kv::Store::transaction`], as `refusal` has them.
pub fn atomically<S: Transactional>(
    store: &tombolo_kv::Store<S>,
    outer: &dyn Store,
    refusal: &dyn Fn(Error) -> StoreError,
    watched: &[Watch],
    body: &mut dyn FnMut(&dyn Store) -> bool,
) -> Result<bool, StoreError> {
    let ended = store.transaction_if(watched, |transaction| {
        let view = View { transaction: RefCell::new(transaction), outer, refusal };
        if body(&view) { Ok(()) } else { Err(Ended::Undone) }
    });
    match ended {
        Ok(done) => Ok(done.is_some()),
        Err(Ended::Undone) => Ok(true),
        Err(Ended::Failed(error)) => Err(refusal(error)),
    }
}

/// Why a transaction changed nothing.
enum Ended {
    Undone,
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The reads and changes of a transaction.
struct View<'a, 'b, S: Transactional> {
    transaction: RefCell<&'b mut Transaction<'a, S>>,
    outer: &'b dyn Store,
    refusal: &'b dyn Fn(Error) -> StoreError,
}

impl<'a, S: Transactional> View<'a, '_, S> {
    fn run<T>(
        &self,
        operation: impl FnOnce(&mut Transaction<'a, S>) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        operation(&mut self.transaction.borrow_mut()).map_err(self.refusal)
    }

    /// The keys that are changed, and whether they have values.
    fn changes(&self) -> BTreeMap<Vec<u8>, bool> {
        let transaction = self.transaction.borrow();
        transaction.changes().map(|(key, there)| (key.to_vec(), there)).collect()
    }
}

impl<S: Transactional> Store for View<'_, '_, S> {
    fn now_ms(&self) -> u64 {
        self.outer.now_ms()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        self.run(|transaction| transaction.get(key))
    }

    fn check_key(&self, key: &[u8]) -> Result<(), StoreError> {
        self.outer.check_key(key)
    }

    fn room(&self) -> u64 {
        self.outer.room()
    }

    fn put(&self, key: &[u8], entry: &Entry) -> Result<(), StoreError> {
        self.run(|transaction| transaction.put(key, entry.clone()))
    }

    fn delete(&self, key: &[u8]) -> Result<bool, StoreError> {
        self.run(|transaction| transaction.delete(key))
    }

    fn update(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(Option<Entry>) -> Change,
    ) -> Result<(), StoreError> {
        self.run(|transaction| {
            let before = transaction.get(key)?;
            match change(before) {
                Change::Keep => Ok(()),
                Change::Put(entry) => transaction.put(key, entry),
                Change::Delete => transaction.delete(key).map(drop),
            }
        })
    }

    /// The keys of the store, but for those that are removed. Keys that are new come last.
    fn scan(&self, cursor: u64, count: usize) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let (next, mut keys) = self.outer.scan(cursor, count)?;
        let changes = self.changes();
        keys.retain(|key| !changes.contains_key(key));
        if next == 0 {
            keys.extend(changes.into_iter().filter(|(_, there)| *there).map(|(key, _)| key));
        }
        Ok((next, keys))
    }

    fn key_count(&self) -> Result<u64, StoreError> {
        let mut count = self.outer.key_count()? as i64;
        for (key, there) in self.changes() {
            count += i64::from(there) - i64::from(self.outer.deadline(&key)?.is_some());
        }
        Ok(count.max(0) as u64)
    }

    /// Removes every key that is there now.
    fn clear(&self) -> Result<(), StoreError> {
        let mut cursor = 0;
        loop {
            let (next, keys) = self.scan(cursor, STEP)?;
            for key in keys {
                self.delete(&key)?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    fn has_databases(&self) -> Result<bool, StoreError> {
        self.outer.has_databases()
    }

    fn libraries(&self) -> Result<(u64, Vec<u8>), StoreError> {
        self.outer.libraries()
    }

    fn libraries_version(&self) -> Result<u64, StoreError> {
        self.outer.libraries_version()
    }

    fn info(&self) -> Vec<InfoSection> {
        self.outer.info()
    }
}
