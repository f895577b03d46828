//! A store that is a map in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::SystemTime;

use tombolo_server::{Change, Entry, InfoSection, Store, StoreError, Watch};

/// The longest value it takes.
const MAX_VALUE_BYTES: usize = 64 << 20;

/// A map of keys to values.
#[derive(Default)]
pub(crate) struct Map(Mutex<Entries>);

#[derive(Clone, Default)]
struct Entries {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// Numbers of the puts.
    puts: BTreeMap<Vec<u8>, u64>,
    put: u64,
    /// The libraries of functions, and how often they were kept.
    libraries: (u64, Vec<u8>),
}

impl Entries {
    fn insert(&mut self, key: Vec<u8>, entry: Entry) {
        self.put += 1;
        self.puts.insert(key.clone(), self.put);
        self.entries.insert(key, entry);
    }

    fn watch(&self, key: &[u8], now_ms: u64) -> Watch {
        let alive = |entry: &&Entry| entry.deadline_ms.is_none_or(|deadline| deadline > now_ms);
        let entry = self.entries.get(key).filter(alive);
        let version = entry.and_then(|_| self.puts.get(key).copied());
        let deadline_ms = entry.and_then(|entry| entry.deadline_ms);
        let removals = if version.is_none() { self.puts.get(key).map_or(0, |put| *put) } else { 0 };
        Watch { key: key.to_vec(), version, deadline_ms, removals }
    }
}

fn check(entry: &Entry) -> Result<(), StoreError> {
    if entry.value.len() <= MAX_VALUE_BYTES {
        return Ok(());
    }
    Err(StoreError::Full("the value is too long".to_owned()))
}

impl Map {
    fn alive(&self, entry: &Entry) -> bool {
        entry.deadline_ms.is_none_or(|deadline| deadline > self.now_ms())
    }
}

impl Store for Map {
    fn libraries_version(&self) -> Result<u64, StoreError> {
        Ok(self.0.lock().unwrap().libraries.0)
    }

    fn libraries(&self) -> Result<(u64, Vec<u8>), StoreError> {
        Ok(self.0.lock().unwrap().libraries.clone())
    }

    fn keep_libraries(&self, before: u64, libraries: &[u8]) -> Result<bool, StoreError> {
        let kept = &mut self.0.lock().unwrap().libraries;
        let is_last = kept.0 == before;
        if is_last {
            *kept = (before + 1, libraries.to_vec());
        }
        Ok(is_last)
    }

    fn now_ms(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since_epoch.map_or(0, |time| time.as_millis() as u64)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        let found = self.0.lock().unwrap().entries.get(key).cloned();
        Ok(found.filter(|entry| self.alive(entry)))
    }

    fn put(&self, key: &[u8], entry: &Entry) -> Result<(), StoreError> {
        check(entry)?;
        self.0.lock().unwrap().insert(key.to_vec(), entry.clone());
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<bool, StoreError> {
        let removed = self.0.lock().unwrap().entries.remove(key);
        Ok(removed.is_some_and(|entry| self.alive(&entry)))
    }

    fn update(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(Option<Entry>) -> Change,
    ) -> Result<(), StoreError> {
        let mut map = self.0.lock().unwrap();
        let before = map.entries.get(key).filter(|entry| self.alive(entry)).cloned();
        match change(before) {
            Change::Keep => {}
            Change::Put(entry) => {
                check(&entry)?;
                map.insert(key.to_vec(), entry);
            }
            Change::Delete => _ = map.entries.remove(key),
        }
        Ok(())
    }

    fn scan(&self, cursor: u64, count: usize) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let entries = self.0.lock().unwrap();
        let map = &entries.entries;
        let page = map.iter().skip(cursor as usize).take(count);
        let keys: Vec<_> =
            page.filter(|(_, entry)| self.alive(entry)).map(|(key, _)| key.clone()).collect();
        let next = cursor + count as u64;
        Ok((if next < map.len() as u64 { next } else { 0 }, keys))
    }

    fn key_count(&self) -> Result<u64, StoreError> {
        Ok(self.0.lock().unwrap().entries.values().filter(|entry| self.alive(entry)).count() as u64)
    }

    fn clear(&self) -> Result<(), StoreError> {
        self.0.lock().unwrap().entries.clear();
        Ok(())
    }

    fn watch(&self, key: &[u8]) -> Result<Watch, StoreError> {
        Ok(self.0.lock().unwrap().watch(key, self.now_ms()))
    }

    fn atomically(
        &self,
        watched: &[Watch],
        body: &mut dyn FnMut(&dyn Store) -> bool,
    ) -> Result<bool, StoreError> {
        let mut map = self.0.lock().unwrap();
        let now_ms = self.now_ms();
        if watched.iter().any(|watch| map.watch(&watch.key, now_ms) != *watch) {
            return Ok(false);
        }
        let view = Self(Mutex::new(map.clone()));
        if body(&view) {
            *map = view.0.into_inner().unwrap();
        }
        Ok(true)
    }

    fn info(&self) -> Vec<InfoSection> {
        vec![("Map".to_owned(), vec![("kind".to_owned(), "tree".to_owned())])]
    }
}
