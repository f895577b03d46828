//! The operations on keys and values that expire.

use std::time::Duration;

use crate::{Entry, Keys, Store, StoreChange, StoreError};

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
}
