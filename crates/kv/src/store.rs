//! One host's handle on the store.

use tombolo_memory::Memory;
use tombolo_pod::Pod;
use tombolo_sharing::{Item, Scheme, Version};

use crate::expiry::Expiry;
use crate::value::{Entry, PREFIX_BYTES, decode_prefix, encode_into, encode_prefix};
use crate::{Error, sites};

/// What [`Store::update`] makes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Leave it as it is, or absent.
    Keep,
    /// Give it this value and deadline.
    Put(Entry),
    /// Remove it.
    Delete,
}

/// A key-value store, as one host serves it. Shared by the host's threads.
///
/// Keys have 1 to [`MAX_KEY_BYTES`](tombolo_sharing::MAX_KEY_BYTES) bytes. Operations on one key
/// are linearizable across all hosts, expiry included.
pub struct Store<S: Scheme> {
    pub(crate) objects: S,
    pub(crate) expiry: Expiry,
}

impl<S: Scheme> Store<S> {
    /// Joins a pod.
    ///
    /// # Errors
    /// As of [`Scheme::join`].
    pub fn join(pod: Pod<S::Memory>, options: S::Options) -> Result<Self, Error> {
        Ok(Self { objects: S::join(pod, options)?, expiry: Expiry::new() })
    }

    /// Leaves the pod: see [`Scheme::leave`].
    ///
    /// # Errors
    /// As of [`Scheme::leave`].
    pub fn leave(&self) -> Result<(), Error> {
        Ok(self.objects.leave()?)
    }

    /// Does what has to be done in the background: that of the objects, and removing expired
    /// values. To be called about every millisecond, by one thread of each host.
    ///
    /// # Errors
    /// As of [`Scheme::tick`].
    pub fn tick(&self) -> Result<(), Error> {
        self.objects.tick()?;
        self.remove_some_expired()
    }

    /// The objects that hold the values.
    pub fn objects(&self) -> &S {
        &self.objects
    }

    /// The time by which deadlines pass, in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        self.objects.pod().clock().now_ms(self.objects.memory())
    }

    /// The value of `key`, if it has one.
    ///
    /// # Errors
    /// [`Error::NotAValue`], and those of [`Scheme::read`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let mut entry = Entry::default();
        Ok(self.get_into(key, &mut entry)?.then_some(entry))
    }

    /// Reads the value of `key` into `entry`, in the room that this has, if that is enough; returns
    /// whether there is one. If there is none, the contents of `entry` mean nothing. A caller that
    /// gets one value after the other saves the time that new room takes.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn get_into(&self, key: &[u8], entry: &mut Entry) -> Result<bool, Error> {
        let mut prefix = [0; PREFIX_BYTES];
        // (No closure, and no loop: compilers prepare for those before the read.)
        let version = match self.objects.read_split(key, &mut prefix, &mut entry.value) {
            Ok(Some(version)) => version,
            Ok(None) => return Ok(false),
            Err(error) => return self.get_in_spite_of(error, key, entry),
        };
        entry.deadline_ms = decode_prefix(&prefix)?;
        let passed = self.has_passed(entry.deadline_ms);
        if passed {
            self.remove_expired(key, version)?;
        }
        Ok(!passed)
    }

    #[cold]
    fn get_in_spite_of(
        &self,
        error: tombolo_sharing::Error,
        key: &[u8],
        entry: &mut Entry,
    ) -> Result<bool, Error> {
        if !error.is_loss() {
            return Err(not_a_value_if_short(error.into()));
        }
        self.objects.forget_lost(key)?;
        self.get_into(key, entry)
    }

    /// Repeats `attempt` where the value of `key` went with a host that has died, or with memory:
    /// then there is none.
    pub(crate) fn unless_lost<T>(
        &self,
        key: &[u8],
        mut attempt: impl FnMut() -> Result<T, tombolo_sharing::Error>,
    ) -> Result<T, Error> {
        loop {
            match attempt() {
                Err(error) if error.is_loss() => self.objects.forget_lost(key)?,
                outcome => return Ok(outcome?),
            };
        }
    }

    /// Shows the values of all `keys` to `visit`, one after the other, each as of some moment since
    /// this began; `items` is room for reading them, which grows as it has to and is there to be
    /// used again.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), of the first key that has one; none is shown then.
    pub fn get_each<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        items: &mut Vec<Item>,
        mut visit: impl FnMut(Option<&[u8]>),
    ) -> Result<(), Error> {
        items.resize_with(items.len().max(keys.len()), Item::default);
        while let Err(error) = self.objects.multi_get(keys, items) {
            if !error.is_loss() {
                return Err(error.into());
            }
            for key in keys {
                self.objects.forget_lost(key.as_ref())?;
            }
        }
        for (key, item) in keys.iter().zip(&mut *items) {
            let Some(version) = item.version else { continue };
            let prefix = item.value.first_chunk().ok_or(Error::NotAValue)?;
            if self.has_passed(decode_prefix(prefix)?) {
                self.remove_expired(key.as_ref(), version)?;
                item.version = None;
            }
        }
        for item in &items[..keys.len()] {
            visit(item.version.map(|_| &item.value[PREFIX_BYTES..]));
        }
        Ok(())
    }

    /// Gives `key` a value, whatever it had before.
    ///
    /// # Errors
    /// Those of [`Scheme::put`].
    pub fn put(&self, key: &[u8], entry: &Entry) -> Result<(), Error> {
        self.put_until(key, &entry.value, entry.deadline_ms)
    }

    fn put_until(&self, key: &[u8], value: &[u8], deadline_ms: Option<u64>) -> Result<(), Error> {
        self.objects.put_split(key, &encode_prefix(deadline_ms), value)?;
        Ok(())
    }

    /// Gives each of these keys a value that lasts, in their order, whatever they had before;
    /// returns the outcome of each. Several together take less time than one after the other.
    pub fn put_each<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
    ) -> Vec<Result<(), Error>> {
        if let [(key, value)] = pairs {
            return vec![self.put_until(key.as_ref(), value.as_ref(), None)];
        }
        let object_bytes = |value: &V| PREFIX_BYTES + value.as_ref().len();
        let all_bytes = pairs.iter().map(|(_, value)| object_bytes(value)).sum();
        // One after the other: room for each of them would take longer to find than to fill.
        let mut bytes = Vec::with_capacity(all_bytes);
        pairs.iter().for_each(|(_, value)| encode_into(&mut bytes, value.as_ref(), None));
        let mut rest = bytes.as_slice();
        let mut object = |value| {
            let (object, others) = rest.split_at(object_bytes(value));
            rest = others;
            object
        };
        let objects: Vec<_> = pairs.iter().map(|(key, value)| (key, object(value))).collect();
        let outcomes = self.objects.multi_put(&objects).into_iter();
        outcomes.map(|outcome| outcome.map(drop).map_err(Error::from)).collect()
    }

    /// Removes `key`; whether it had a value.
    ///
    /// # Errors
    /// [`Error::NotAValue`], and those of [`Scheme::delete`].
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        loop {
            let Some((deadline, version)) = self.deadline(key)? else { return Ok(false) };
            let expired = self.has_passed(deadline);
            match self.objects.delete_version(key, version) {
                Err(error) if error.is_loss() => {}
                Ok(was_there) => return Ok(was_there && !expired),
                Err(tombolo_sharing::Error::Changed) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads the value of `key`, lets `change` decide, and does it, all in one step. `change` may
    /// be called several times; the last call counts.
    ///
    /// # Errors
    /// [`Error::NotAValue`], and those of [`Scheme::update`].
    pub fn update(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<Entry>) -> Change,
    ) -> Result<(), Error> {
        let mut foreign = false;
        let mut change = |bytes: Option<&[u8]>| {
            let before = bytes.map(|bytes| Entry::decode(bytes.to_vec())).transpose();
            foreign = before.is_err();
            let Ok(before) = before else { return tombolo_sharing::Change::Keep };
            match change(before.filter(|entry| !self.has_passed(entry.deadline_ms))) {
                Change::Keep => tombolo_sharing::Change::Keep,
                Change::Put(entry) => tombolo_sharing::Change::Put(entry.encode()),
                Change::Delete => tombolo_sharing::Change::Delete,
            }
        };
        self.unless_lost(key, || self.objects.update(key, &mut change))?;
        if foreign { Err(Error::NotAValue) } else { Ok(()) }
    }

    /// Shows at least `count` keys to `visit`, unless there are no more, and returns the next
    /// cursor: see [`Scheme::scan`].
    ///
    /// # Errors
    /// Those of [`Scheme::scan`].
    pub fn scan(
        &self,
        mut cursor: u64,
        count: usize,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<u64, Error> {
        let mut shown = 0;
        let mut keys = Vec::new();
        loop {
            cursor = self.objects.scan(cursor, |key| keys.push(key.to_vec()))?;
            for key in keys.drain(..) {
                let deadline = match self.deadline(&key) {
                    Err(Error::NotAValue) => continue,
                    found => found?,
                };
                if deadline.is_some_and(|(deadline, _)| !self.has_passed(deadline)) {
                    visit(&key);
                    shown += 1;
                }
            }
            if cursor == 0 || shown >= count {
                return Ok(cursor);
            }
        }
    }

    /// How many keys there are; expired ones count until they are removed.
    ///
    /// # Errors
    /// Those of [`Scheme::object_count`].
    pub fn key_count(&self) -> Result<u64, Error> {
        Ok(self.objects.object_count()?)
    }

    /// Removes every key that is there all the while; one that somebody puts meanwhile may stay.
    ///
    /// # Errors
    /// Those of [`scan`](Self::scan) and [`Scheme::delete`].
    pub fn clear(&self) -> Result<(), Error> {
        let mut cursor = 0;
        let mut keys = Vec::new();
        loop {
            cursor = self.objects.scan(cursor, |key| keys.push(key.to_vec()))?;
            for key in keys.drain(..) {
                match self.delete(&key) {
                    Ok(_) | Err(Error::NotAValue) => {}
                    Err(error) => return Err(error),
                }
            }
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    pub(crate) fn has_passed(&self, deadline_ms: Option<u64>) -> bool {
        let memory = self.objects.memory();
        let passed = |deadline| self.objects.pod().clock().has_passed(memory, deadline);
        memory.keeps(sites::READ_DEADLINE) && deadline_ms.is_some_and(passed)
    }

    /// The deadline and version of the value of `key`, if there is one, expired or not.
    pub(crate) fn deadline(&self, key: &[u8]) -> Result<Option<(Option<u64>, Version)>, Error> {
        let mut prefix = [0; PREFIX_BYTES];
        match self.objects.read_range(key, 0, &mut prefix) {
            Ok(version) => Ok(Some((decode_prefix(&prefix)?, version))),
            Err(tombolo_sharing::Error::NotFound) => Ok(None),
            Err(error) if error.is_loss() => {
                self.objects.forget_lost(key)?;
                self.deadline(key)
            }
            Err(error) => Err(not_a_value_if_short(error.into())),
        }
    }
}

/// What reading the prefix of an object that is too short for one means.
fn not_a_value_if_short(error: Error) -> Error {
    match error {
        Error::Objects(tombolo_sharing::Error::OutOfRange { .. }) => Error::NotAValue,
        error => error,
    }
}
