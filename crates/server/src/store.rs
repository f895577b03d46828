//! What the server needs of a store.

use bytes::Bytes;
use tombolo_kv::{Change, Entry};

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

/// A section of the reply to `INFO`: its title, and names with values.
pub type InfoSection = (String, Vec<(String, String)>);

/// A key-value store with expiry. Calls block; they should take microseconds.
pub trait Store: Send + Sync + 'static {
    /// The clock by which values expire, in milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// The value of `key`, unless there is none or it has expired.
    ///
    /// # Errors
    /// [`StoreError`].
    fn get(&self, key: &[u8]) -> Result<Option<Entry>, StoreError>;

    /// Shows the value of each of `keys` to `visit`, in turn, as of some moment each.
    ///
    /// # Errors
    /// [`StoreError`]; keys that were shown by then do not count.
    fn get_each(
        &self,
        keys: &[Bytes],
        visit: &mut dyn FnMut(Option<&[u8]>),
    ) -> Result<(), StoreError> {
        let found: Vec<_> = keys.iter().map(|key| self.get(key)).collect::<Result<_, _>>()?;
        found.iter().for_each(|entry| visit(entry.as_ref().map(|entry| entry.value.as_slice())));
        Ok(())
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

    /// What the store says of itself.
    fn info(&self) -> Vec<InfoSection>;
}
