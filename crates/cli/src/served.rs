//! The key-value store of a pod, as the server wants it, and the figures it is watched by.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tombolo::{Entry, Item, Store, StoreChange, StoreError as KvError};
use tombolo_objects::Error as ObjectsError;
use tombolo_server as server;
use tombolo_server::{DeadlineChange, Found, InfoSection, Stat, StoreError, StoreUsage};

/// Values that are read together.
const TOGETHER: usize = 32;
/// Room for a value that has held more does not keep its memory.
const KEEP_BYTES: usize = 64 << 10;

/// A store that connections share.
pub(crate) struct Served(pub(crate) Arc<Store>);

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
        self.0.now_ms()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        self.0.get(key).map_err(refusal)
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
                self.0.get_each_within(keys, most_bytes, items, &mut *visit).map_err(refusal)?;
                let large = |item: &&mut Item| item.value.capacity() > KEEP_BYTES;
                items.iter_mut().filter(large).for_each(|item| *item = Item::default());
            }
            Ok(())
        })
    }

    fn stat(&self, key: &[u8]) -> Result<Option<Stat>, StoreError> {
        self.0.stat(key).map_err(refusal)
    }

    fn deadline(&self, key: &[u8]) -> Result<Option<Option<u64>>, StoreError> {
        self.0.deadline(key).map_err(refusal)
    }

    fn get_range(
        &self,
        key: &[u8],
        choose: &dyn Fn(u64) -> Range<u64>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.get_range(key, choose).map_err(refusal)
    }

    fn update_deadline(
        &self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<u64>) -> DeadlineChange,
    ) -> Result<bool, StoreError> {
        self.0.update_deadline(key, decide).map_err(refusal)
    }

    fn set_range(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<Option<u64>, StoreError> {
        self.0.set_range(key, offset, bytes).map_err(refusal)
    }

    fn check_key(&self, key: &[u8]) -> Result<(), StoreError> {
        self.0.check_key(key).map_err(refusal)
    }

    fn room(&self) -> u64 {
        self.0.room()
    }

    fn put(&self, key: &[u8], entry: &Entry) -> Result<(), StoreError> {
        self.0.put(key, entry).map_err(refusal)
    }

    fn put_each(&self, pairs: &[(Bytes, Bytes)]) -> Vec<Result<(), StoreError>> {
        let outcomes = self.0.put_each(pairs).into_iter();
        outcomes.map(|outcome| outcome.map_err(refusal)).collect()
    }

    fn delete(&self, key: &[u8]) -> Result<bool, StoreError> {
        self.0.delete(key).map_err(refusal)
    }

    fn update(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(Option<Entry>) -> StoreChange,
    ) -> Result<(), StoreError> {
        self.0.update(key, change).map_err(refusal)
    }

    fn scan(&self, cursor: u64, count: usize) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let mut keys = Vec::new();
        let next = self.0.scan(cursor, count, |key| keys.push(key.to_vec())).map_err(refusal)?;
        Ok((next, keys))
    }

    fn key_count(&self) -> Result<u64, StoreError> {
        self.0.key_count().map_err(refusal)
    }

    fn clear(&self) -> Result<(), StoreError> {
        self.0.clear().map_err(refusal)
    }

    fn usage(&self) -> StoreUsage {
        let usage = self.0.objects().usage();
        StoreUsage {
            used_bytes: usage.lnr_used_bytes,
            bytes: usage.lnr_bytes,
            expiring: self.0.expiring(),
            expired: self.0.expired(),
        }
    }

    fn info(&self) -> Vec<InfoSection> {
        let objects = self.0.objects();
        let mut fields = vec![
            ("pod".to_owned(), objects.pod().identity().uuid.to_string()),
            ("host".to_owned(), objects.seat().host().to_string()),
            ("incarnation".to_owned(), objects.seat().incarnation().to_string()),
        ];
        let figures = figures(&self.0);
        fields.extend(figures.iter().map(|f| (f.name.to_owned(), f.value.to_string())));
        vec![("Tombolo".to_owned(), fields)]
    }
}

/// A number by which a host is watched.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// It only grows.
    pub(crate) is_counter: bool,
    pub(crate) value: u64,
}

/// How far the clock of this process' host is from another one's, at most, and how many were found
/// to differ.
pub(crate) static CLOCK_DIFFERENCE_MS: AtomicU64 = AtomicU64::new(0);
pub(crate) static CLOCKS_DIFFERED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn figures(store: &Store) -> Vec<Figure> {
    let (usage, stats) = (store.objects().usage(), store.objects().stats());
    let figure = |is_counter| move |name, help, value| Figure { name, help, is_counter, value };
    let (gauge, counter) = (figure(false), figure(true));
    vec![
        gauge("objects", "Objects in the pod.", usage.objects),
        gauge("lnr_used_bytes", "Bytes of LNR in use for objects.", usage.lnr_used_bytes),
        gauge("lnr_bytes", "Bytes of LNR for objects.", usage.lnr_bytes),
        gauge(
            "lnr_fragmented_bytes",
            "Bytes of LNR in slots without an object, of chunks with some.",
            usage.lnr_fragmented_bytes,
        ),
        gauge(
            "lnr_poisoned_bytes",
            "Bytes of LNR that get no new objects because of memory errors.",
            usage.lnr_poisoned_bytes,
        ),
        gauge("records_used", "Coherence records in use.", usage.records_used),
        gauge("records", "Coherence records.", usage.records),
        gauge("local_bytes", "Bytes of this host's memory for its replica.", usage.local_bytes),
        gauge("log_lag", "Log entries this host has not applied.", usage.log_lag),
        gauge(
            "clock_difference_ms",
            "How far the clock of another host is from this host's, at most, in milliseconds.",
            CLOCK_DIFFERENCE_MS.load(Ordering::Relaxed),
        ),
        counter(
            "clocks_differed",
            "Hosts whose clock was found to be more than a second away.",
            CLOCKS_DIFFERED.load(Ordering::Relaxed),
        ),
        counter("reads", "Objects read.", stats.reads),
        counter("writes", "Writes to existing objects.", stats.writes),
        counter("creates", "Objects created.", stats.creates),
        counter("deletes", "Objects deleted.", stats.deletes),
        counter("moves", "Objects moved to another slot.", stats.moves),
        counter("poisoned", "Objects lost to memory errors that this host met.", stats.poisoned),
        counter("retries", "Reads begun again because of a change.", stats.retries),
        counter("churn", "Coherence records allocated.", stats.churn),
        counter("reclaims", "Coherence records taken back.", stats.reclaims),
        counter("cleaned_lines", "Cache lines written back.", stats.cleaned_lines),
        counter("invalidated_lines", "Cache lines dropped.", stats.invalidated_lines),
    ]
}
