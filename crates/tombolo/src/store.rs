//! The operations on keys and values that expire.

use std::time::Duration;

use tombolo_kv::Store as KvStore;

use crate::{
    Entry, Keys, OwnedView, Store, StoreChange, StoreError, StoreRoom, StoreTransaction, StoreView,
    Version,
};

/// How long the value of a key lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// There is no value.
    Absent,
    /// For ever.
    Lasting,
    /// For so long.
    Left(Duration),
}

/// Operations on keys and values. Keys have 1 to [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES) bytes.
///
/// Operations on one key are linearizable across all hosts. A value that has expired for one host
/// has expired for all. Each operation may block for as long as another host has the object
/// locked, at most some seconds, and takes about a microsecond otherwise.
///
/// # Errors
/// [`StoreError::NotAValue`] if the object was not put by a store; else those of
/// [`Objects`](crate::Objects), as [`StoreError::Objects`]. A value that is lost is a miss.
impl Store {
    /// The value of `key`, and when it expires; `None` if it has none.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// use tombolo::{Entry, Store};
    ///
    /// let store = Store::join(&path)?;
    /// store.put(b"key", &Entry::lasting(b"value"))?;
    /// assert_eq!(store.get(b"key")?.unwrap().value, b"value");
    /// assert_eq!(store.get(b"none")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of all operations.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        (**self).get(key)
    }

    /// Gives `key` a value, whatever it had before.
    ///
    /// # Errors
    /// Those of all operations; that the pod is full.
    #[inline]
    pub fn put(&self, key: &[u8], entry: &Entry) -> Result<(), StoreError> {
        (**self).put(key, entry)
    }

    /// Gives `key` a value for so long; at least for a millisecond.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// # let store = tombolo::Store::join(&path)?;
    /// use std::time::Duration;
    /// use tombolo::Lifetime;
    ///
    /// store.put_for(b"session", b"token", Duration::from_secs(3600))?;
    /// assert!(matches!(store.lifetime(b"session")?, Lifetime::Left(left) if !left.is_zero()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`put`](Self::put).
    pub fn put_for(
        &self,
        key: &[u8],
        value: impl Into<Vec<u8>>,
        time_to_live: Duration,
    ) -> Result<(), StoreError> {
        let deadline_ms = Some(self.deadline_after(time_to_live));
        self.put(key, &Entry { value: value.into(), deadline_ms })
    }

    /// Makes the value of `key` expire after so long; whether there is one.
    ///
    /// # Errors
    /// As of [`put`](Self::put).
    pub fn expire_after(&self, key: &[u8], time_to_live: Duration) -> Result<bool, StoreError> {
        let (deadline_ms, mut was_there) = (Some(self.deadline_after(time_to_live)), false);
        self.update(key, |before| {
            was_there = before.is_some();
            match before {
                Some(Entry { value, .. }) => StoreChange::Put(Entry { value, deadline_ms }),
                None => StoreChange::Keep,
            }
        })?;
        Ok(was_there)
    }

    /// How long the value of `key` lasts. It reads the value.
    ///
    /// # Errors
    /// Those of all operations.
    pub fn lifetime(&self, key: &[u8]) -> Result<Lifetime, StoreError> {
        Ok(match self.get(key)? {
            None => Lifetime::Absent,
            Some(Entry { deadline_ms: None, .. }) => Lifetime::Lasting,
            Some(Entry { deadline_ms: Some(deadline), .. }) => {
                Lifetime::Left(Duration::from_millis(deadline.saturating_sub(self.now_ms())))
            }
        })
    }

    fn deadline_after(&self, time_to_live: Duration) -> u64 {
        let ms = u64::try_from(time_to_live.as_millis()).unwrap_or(u64::MAX);
        self.now_ms().saturating_add(ms.max(1))
    }

    /// Removes `key`; whether it had a value.
    ///
    /// # Errors
    /// Those of all operations.
    #[inline]
    pub fn delete(&self, key: &[u8]) -> Result<bool, StoreError> {
        (**self).delete(key)
    }

    /// Reads the value of `key`, lets `change` decide, and does it, all in one step. `change` may
    /// be called several times; the last call counts. It must not use this store.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// # let store = tombolo::Store::join(&path)?;
    /// use tombolo::{Entry, StoreChange};
    ///
    /// // Compare and swap: only if nobody has changed the value meanwhile.
    /// store.put(b"leader", &Entry::lasting(b"one"))?;
    /// let mut swapped = false;
    /// store.update(b"leader", |before| {
    ///     swapped = before.is_some_and(|entry| entry.value == b"one");
    ///     if swapped { StoreChange::Put(Entry::lasting(b"two")) } else { StoreChange::Keep }
    /// })?;
    /// assert!(swapped);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`put`](Self::put).
    #[inline]
    pub fn update(
        &self,
        key: &[u8],
        change: impl FnMut(Option<Entry>) -> StoreChange,
    ) -> Result<(), StoreError> {
        (**self).update(key, change)
    }

    /// Gives `key` a value if it has none; the version, or `None` if `key` has one already.
    ///
    /// # Errors
    /// As of [`put`](Self::put).
    #[inline]
    pub fn add(&self, key: &[u8], entry: &Entry) -> Result<Option<Version>, StoreError> {
        (**self).add(key, entry)
    }

    /// As [`add`](Self::add), of a value that lasts. A long one is copied once, into the pod.
    ///
    /// # Errors
    /// As of [`put`](Self::put).
    #[inline]
    pub fn add_value(&self, key: &[u8], value: &[u8]) -> Result<Option<Version>, StoreError> {
        (**self).add_value(key, value)
    }

    /// The value of `key`, and its version. A change of the deadline gives another version.
    ///
    /// # Errors
    /// Those of all operations.
    #[inline]
    pub fn get_versioned(&self, key: &[u8]) -> Result<Option<(Entry, Version)>, StoreError> {
        (**self).get_versioned(key)
    }

    /// Gives `key` another value if that which it has is at version `expected`. Returns the new
    /// version, or `None` if the value has changed, or is gone.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// # let store = tombolo::Store::join(&path)?;
    /// use tombolo::Entry;
    ///
    /// store.put(b"leader", &Entry::lasting(b"one"))?;
    /// let (_, version) = store.get_versioned(b"leader")?.ok_or("it is gone")?;
    /// assert!(store.put_if_version(b"leader", version, &Entry::lasting(b"two"))?.is_some());
    /// assert!(store.put_if_version(b"leader", version, &Entry::lasting(b"late"))?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`put`](Self::put).
    #[inline]
    pub fn put_if_version(
        &self,
        key: &[u8],
        expected: Version,
        entry: &Entry,
    ) -> Result<Option<Version>, StoreError> {
        (**self).put_if_version(key, expected, entry)
    }

    /// Removes `key` if its value is at version `expected`; whether it was.
    ///
    /// # Errors
    /// Those of all operations.
    #[inline]
    pub fn delete_if_version(&self, key: &[u8], expected: Version) -> Result<bool, StoreError> {
        (**self).delete_if_version(key, expected)
    }

    /// Gives each of these keys a value that lasts, in their order; the outcome of each. Several
    /// together take less time than one after the other, and are not put at one instant.
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
    ) -> Vec<Result<(), StoreError>> {
        (**self).put_values(pairs)
    }

    /// Copies the value of `key` to the start of `into`, and returns its length. A value that is
    /// longer than `into` is not copied.
    ///
    /// # Errors
    /// Those of all operations.
    pub fn get_to(&self, key: &[u8], into: &mut [u8]) -> Result<Option<u64>, StoreError> {
        (**self).get_to(key, into)
    }

    /// Copies the values of all `keys`, each to the start of its buffer, as
    /// [`get_to`](Self::get_to) does; the length of each that there is.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// # let store = tombolo::Store::join(&path)?;
    /// store.put_many(&[("a", "one"), ("b", "three")]);
    /// let (mut a, mut b, mut c) = ([0; 3], [0; 3], [0; 3]);
    /// let found = store.get_many_to(&["a", "b", "c"], &mut [&mut a, &mut b, &mut c])?;
    /// assert_eq!(found, [Some(3), Some(5), None]);
    /// assert_eq!(&a, b"one");
    /// assert_eq!(b, [0; 3], "it is too short");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of all operations, of the first key that has one.
    ///
    /// # Panics
    /// If there are fewer buffers than keys.
    pub fn get_many_to<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        buffers: &mut [&mut [u8]],
    ) -> Result<Vec<Option<u64>>, StoreError> {
        (**self).get_each_to(keys, buffers)
    }

    /// Whether each of `keys` has a value.
    ///
    /// # Errors
    /// Those of all operations, of the first key that has one.
    pub fn exist<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>, StoreError> {
        (**self).exist(keys)
    }

    /// Shows the value of `key` where it lies, without a copy if it is large. The view keeps this
    /// host in the pod, and the value's room; it can be sent anywhere.
    ///
    /// # Errors
    /// [`TooManyViews`](crate::Error::TooManyViews), and those of all operations.
    pub fn view_owned(&self, key: &[u8]) -> Result<Option<StoreView>, StoreError> {
        Ok(KvStore::view_by(self.clone(), key)?.map(OwnedView::new))
    }

    /// Reserves room for a lasting value of `key`, of so many bytes. It is filled, and then
    /// published or dropped; no host sees it before. If this process dies, the other hosts free it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// # let store = tombolo::Store::join(&path)?;
    /// let mut room = store.reserve_owned(b"key", 4096)?;
    /// room.bytes_mut().ok_or("it lies in several pieces")?.fill(7);
    /// assert_eq!(store.get(b"key")?, None);
    /// room.publish()?;
    /// assert_eq!(store.get(b"key")?.unwrap().value, [7; 4096]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TooManyReservations`](crate::Error::TooManyReservations), and those of
    /// [`put`](Self::put).
    pub fn reserve_owned(&self, key: &[u8], bytes: u64) -> Result<StoreRoom, StoreError> {
        KvStore::reserve_by(self.clone(), key, bytes)
    }

    /// Address and length in this process of the pod's memory in which values lie: to be registered
    /// with a device, perhaps in pieces. They stay for as long as this host does. A device may
    /// write only in rooms.
    pub fn mapping(&self) -> (usize, usize) {
        self.objects().memory().lnr_mapping()
    }

    /// Runs `body` so that all that it reads and changes happens in one step, for all hosts. If
    /// others were in the way, `body` runs again; so what it does besides must not matter. It uses
    /// the transaction alone, not this store. An error of `body` leaves everything as it was.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// use tombolo::{Entry, Store, StoreError};
    ///
    /// let store = Store::join(&path)?;
    /// store.put(b"mine", &Entry::lasting(b"coin"))?;
    /// // The coin is here or there, whenever another host looks, and also if this host dies.
    /// let moved = store.transaction(|tx| {
    ///     let Some(coin) = tx.get(b"mine")? else { return Ok(false) };
    ///     tx.delete(b"mine")?;
    ///     tx.put(b"yours", coin)?;
    ///     Ok::<_, StoreError>(true)
    /// })?;
    /// assert!(moved);
    /// assert_eq!(store.get(b"mine")?, None);
    /// assert_eq!(store.get(b"yours")?.unwrap().value, b"coin");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of `body`, and of [`put`](Self::put). [`StoreError::Conflict`] if others were in the
    /// way for ten seconds.
    pub fn transaction<T, E: From<StoreError>>(
        &self,
        body: impl FnMut(&mut StoreTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        (**self).transaction(body)
    }

    /// How many keys there are; expired ones count until they are removed.
    ///
    /// # Errors
    /// Those of all operations.
    #[inline]
    pub fn key_count(&self) -> Result<u64, StoreError> {
        (**self).key_count()
    }

    /// All keys whose values have not expired, in no order.
    ///
    /// # Errors
    /// The walk ends with the error that it meets.
    pub fn keys(&self) -> Keys<'_, StoreError> {
        self.keys_with_prefix(b"")
    }

    /// All keys that begin with `prefix` and whose values have not expired, in no order. The walk
    /// looks at all keys.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// # let store = tombolo::Store::join(&path)?;
    /// use tombolo::Entry;
    ///
    /// for key in ["user:1", "user:2", "other"] {
    ///     store.put(key.as_bytes(), &Entry::lasting(b""))?;
    /// }
    /// let users = store.keys_with_prefix(b"user:").collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(users.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The walk ends with the error that it meets.
    pub fn keys_with_prefix(&self, prefix: &[u8]) -> Keys<'_, StoreError> {
        Keys::new(prefix, |cursor, keys| (**self).scan(cursor, 1, |key| keys.push(key.to_vec())))
    }

    /// As [`keys_with_prefix`](Self::keys_with_prefix), where the walk keeps this host in the pod
    /// and can be sent anywhere.
    ///
    /// # Errors
    /// The walk ends with the error that it meets.
    pub fn keys_owned(&self, prefix: &[u8]) -> Keys<'static, StoreError> {
        let store = self.clone();
        Keys::new(prefix, move |cursor, keys| store.scan(cursor, 1, |key| keys.push(key.to_vec())))
    }

    /// This host's counters, and the memory in use as far as it knows, each with its name.
    pub fn numbers(&self) -> Vec<(&'static str, u64)> {
        let (usage, stats) = (self.objects().usage(), self.objects().stats());
        let used = [
            ("objects", usage.objects),
            ("lnr_bytes", usage.lnr_bytes),
            ("lnr_used_bytes", usage.lnr_used_bytes),
            ("lnr_fragmented_bytes", usage.lnr_fragmented_bytes),
            ("records", usage.records),
            ("records_used", usage.records_used),
            ("local_bytes", usage.local_bytes),
            ("log_lag", usage.log_lag),
            ("expired", self.expired()),
        ];
        used.into_iter().chain(stats.named()).collect()
    }
}
