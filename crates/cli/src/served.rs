//! The key-value store of a pod, as the server wants it, and what clients got from it.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tombolo::{Entry, Evicted, Item, Store, StoreChange, StoreError as KvError};
use tombolo_objects::{Error as ObjectsError, Reads, Version, Writes};
use tombolo_server as server;
use tombolo_server::{
    Bus, DeadlineChange, Found, InfoSection, RemovalHook, Stat, StoreError, StoreUsage, Watch,
};

use crate::messages::Wire;
use crate::operation::figures;

/// The key of an object that is there if keys of databases other than 0 may be. It is no value, so
/// it is neither evicted nor a key of database 0.
const DATABASES: &[u8] = b"\xff\0db";
/// The key of the object with the libraries of functions, which is no value either.
const LIBRARIES: &[u8] = b"\xff\0db\xfffn";
/// Values that are read together.
const TOGETHER: usize = 32;
/// Room for a value that has held more does not keep its memory.
const KEEP_BYTES: usize = 64 << 10;

/// Errors that clients of this process' host got, and findings of its looks at the others.
#[derive(Default)]
pub(crate) struct Tally {
    /// Writes that were refused because the pod was full.
    pub(crate) full: AtomicU64,
    /// Operations that failed because of another host, or because this one was fenced.
    pub(crate) unavailable: AtomicU64,
    /// Hosts that were seen fenced.
    pub(crate) fences: AtomicU64,
    /// Clocks that were found to differ, and how far one is away at most.
    pub(crate) clocks_differed: AtomicU64,
    pub(crate) clock_difference_ms: AtomicU64,
    /// Why an operation was refused last.
    reason: Mutex<String>,
}

impl Tally {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    /// Why an operation was refused last.
    pub(crate) fn reason(&self) -> String {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[cold]
    fn refusal(&self, error: KvError) -> StoreError {
        let refusal = refusal(error);
        let (counter, text) = match &refusal {
            StoreError::Full(text) => (&self.full, text),
            StoreError::Unavailable(text) => (&self.unavailable, text),
            _ => return refusal,
        };
        Self::add(counter, 1);
        text.clone_into(&mut self.reason.lock().unwrap_or_else(PoisonError::into_inner));
        refusal
    }
}

/// A store that connections share.
pub(crate) struct Served {
    pub(crate) store: Arc<Store>,
    pub(crate) wire: Option<Arc<Wire>>,
    pub(crate) tally: Arc<Tally>,
}

/// The number of a version; 0 for none.
fn number_of(version: Option<Version>) -> u64 {
    version.map_or(0, |version| version.0)
}

fn refusal(error: KvError) -> StoreError {
    let text = error.to_string();
    match error {
        KvError::Objects(ObjectsError::LnrFull { .. } | ObjectsError::IndexFull { .. }) => {
            StoreError::Full(text)
        }
        KvError::NotAValue
        | KvError::Objects(ObjectsError::KeyLength { .. } | ObjectsError::TooLarge { .. }) => {
            StoreError::Refused(text)
        }
        _ => StoreError::Unavailable(text),
    }
}

impl server::Store for Served {
    fn now_ms(&self) -> u64 {
        self.store.now_ms()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        self.store.get(key).map_err(|error| self.tally.refusal(error))
    }

    fn get_each(
        &self,
        keys: &[Bytes],
        most_bytes: u64,
        visit: &mut dyn FnMut(Found<'_>),
    ) -> Result<(), StoreError> {
        thread_local! {
            static ITEMS: RefCell<Vec<Item>> = const { RefCell::new(Vec::new()) };
        }
        ITEMS.with_borrow_mut(|items| {
            for keys in keys.chunks(TOGETHER) {
                let read = self.store.get_each_within(keys, most_bytes, items, &mut *visit);
                read.map_err(|error| self.tally.refusal(error))?;
                let large = |item: &&mut Item| item.value.capacity() > KEEP_BYTES;
                items.iter_mut().filter(large).for_each(|item| *item = Item::default());
            }
            Ok(())
        })
    }

    fn stat(&self, key: &[u8]) -> Result<Option<Stat>, StoreError> {
        self.store.stat(key).map_err(|error| self.tally.refusal(error))
    }

    fn deadline(&self, key: &[u8]) -> Result<Option<Option<u64>>, StoreError> {
        self.store.deadline(key).map_err(|error| self.tally.refusal(error))
    }

    fn get_range(
        &self,
        key: &[u8],
        choose: &dyn Fn(u64) -> Range<u64>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get_range(key, choose).map_err(|error| self.tally.refusal(error))
    }

    fn update_deadline(
        &self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<u64>) -> DeadlineChange,
    ) -> Result<bool, StoreError> {
        self.store.update_deadline(key, decide).map_err(|error| self.tally.refusal(error))
    }

    fn set_range(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<Option<u64>, StoreError> {
        self.store.set_range(key, offset, bytes).map_err(|error| self.tally.refusal(error))
    }

    fn check_key(&self, key: &[u8]) -> Result<(), StoreError> {
        self.store.check_key(key).map_err(|error| self.tally.refusal(error))
    }

    fn room(&self) -> u64 {
        self.store.room()
    }

    fn put(&self, key: &[u8], entry: &Entry) -> Result<(), StoreError> {
        self.store.put(key, entry).map_err(|error| self.tally.refusal(error))
    }

    fn put_each(&self, pairs: &[(Bytes, Bytes)]) -> Vec<Result<(), StoreError>> {
        let outcomes = self.store.put_each(pairs).into_iter();
        outcomes.map(|outcome| outcome.map_err(|error| self.tally.refusal(error))).collect()
    }

    fn delete(&self, key: &[u8]) -> Result<bool, StoreError> {
        self.store.delete(key).map_err(|error| self.tally.refusal(error))
    }

    fn update(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(Option<Entry>) -> StoreChange,
    ) -> Result<(), StoreError> {
        self.store.update(key, change).map_err(|error| self.tally.refusal(error))
    }

    fn scan(&self, cursor: u64, count: usize) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let mut keys = Vec::new();
        let next = self
            .store
            .scan(cursor, count, |key| keys.push(key.to_vec()))
            .map_err(|error| self.tally.refusal(error))?;
        Ok((next, keys))
    }

    fn watch(&self, key: &[u8]) -> Result<Watch, StoreError> {
        self.store.watch(key).map_err(|error| self.tally.refusal(error))
    }

    fn atomically(
        &self,
        watched: &[Watch],
        body: &mut dyn FnMut(&dyn server::Store) -> bool,
    ) -> Result<bool, StoreError> {
        let refusal = |error| self.tally.refusal(error);
        server::atomically(&self.store, self, &refusal, watched, body)
    }

    fn key_count(&self) -> Result<u64, StoreError> {
        let count = self.store.key_count().map_err(|error| self.tally.refusal(error))?;
        let others = [self.has_databases()?, self.libraries_version()? > 0];
        Ok(others.into_iter().fold(count, |count, is_there| count.saturating_sub(is_there.into())))
    }

    fn has_databases(&self) -> Result<bool, StoreError> {
        let there = self.store.objects().stat(DATABASES).map(|stat| stat.is_some());
        there.map_err(|error| self.tally.refusal(error.into()))
    }

    fn use_databases(&self) -> Result<(), StoreError> {
        match self.store.objects().create(DATABASES, &[]) {
            Ok(_) | Err(ObjectsError::Exists) => Ok(()),
            Err(error) => Err(self.tally.refusal(error.into())),
        }
    }

    fn libraries(&self) -> Result<(u64, Vec<u8>), StoreError> {
        let mut bytes = Vec::new();
        let read = self.store.objects().read(LIBRARIES, &mut bytes);
        let version = read.map_err(|error| self.tally.refusal(error.into()))?;
        Ok((number_of(version), bytes))
    }

    fn libraries_version(&self) -> Result<u64, StoreError> {
        let stat = self.store.objects().stat(LIBRARIES);
        let stat = stat.map_err(|error| self.tally.refusal(error.into()))?;
        Ok(number_of(stat.map(|(_, version)| version)))
    }

    fn keep_libraries(&self, before: u64, libraries: &[u8]) -> Result<bool, StoreError> {
        let before = (before > 0).then_some(Version(before));
        let reads = Reads::from([(LIBRARIES.to_vec(), before)]);
        let writes = Writes::from([(LIBRARIES.to_vec(), Some(libraries.to_vec()))]);
        let kept = self.store.objects().transact(&reads, &writes, &|| true);
        kept.map_err(|error| self.tally.refusal(error.into()))
    }

    fn on_removal(&self, hook: RemovalHook) {
        self.store.on_removal(hook);
    }

    fn clear(&self) -> Result<(), StoreError> {
        self.store.clear().map_err(|error| self.tally.refusal(error))
    }

    fn bus(&self) -> Result<Option<&dyn Bus>, StoreError> {
        match &self.wire {
            Some(wire) => Ok(Some(&**wire)),
            None => Err(StoreError::Refused(
                "this pod has no room for messages between its hosts, so that nothing is published; create it anew, without --messages 0".to_owned(),
            )),
        }
    }

    fn usage(&self) -> StoreUsage {
        let usage = self.store.objects().usage();
        StoreUsage {
            used_bytes: usage.lnr_used_bytes,
            bytes: usage.lnr_bytes,
            expiring: self.store.expiring(),
            expired: self.store.expired(),
            evicted: self.store.evicted_values(),
        }
    }

    fn eviction(&self) -> server::Eviction {
        let (policy, limit_bytes) = (self.store.eviction_policy(), self.store.byte_limit());
        server::Eviction { policy, limit_bytes }
    }

    fn set_eviction(&self, eviction: server::Eviction) -> Result<(), StoreError> {
        let before = self.eviction();
        // A setting that stays is not stored: another host may change it just now.
        if eviction.policy != before.policy {
            self.store.set_eviction_policy(eviction.policy);
        }
        if eviction.limit_bytes != before.limit_bytes {
            self.store.set_byte_limit(eviction.limit_bytes);
        }
        Ok(())
    }

    fn info(&self) -> Vec<InfoSection> {
        let objects = self.store.objects();
        let mut fields = vec![
            ("pod".to_owned(), objects.pod().identity().uuid.to_string()),
            ("host".to_owned(), objects.seat().host().to_string()),
            ("incarnation".to_owned(), objects.seat().incarnation().to_string()),
        ];
        let figures = figures(&self.store, &self.tally);
        fields.extend(figures.iter().map(|f| (f.name.to_owned(), f.value.to_string())));
        let evicted = self.store.evicted().into_iter().filter(|evicted| evicted.values > 0);
        fields.extend(evicted.map(|Evicted { policy, reason, values }| {
            (format!("evicted_{policy}_{}", reason.name()), values.to_string())
        }));
        vec![("Tombolo".to_owned(), fields)]
    }
}
