//! One host's handle on the store.

use std::borrow::Cow;

use tombolo_memory::Memory;
use tombolo_pod::Pod;
use tombolo_sharing::{Item, MAX_KEY_BYTES, Scheme};

use crate::evict::Evictor;
use crate::expiry::{Expiry, is_full};
use crate::key::{is_marked, original, stored};
use crate::removal::Hook;
use crate::room::KnownRoom;
use crate::value::{
    Entry, HIGH_BYTES, PREFIX_BYTES, decode, decode_parts, encode_into, encode_prefix, is_near,
};
use crate::{Error, sites};

/// The change of a key by [`Store::update`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Leave it as it is, or absent.
    Keep,
    /// Give it this value and deadline.
    Put(Entry),
    /// Remove it.
    Delete,
}

/// The finding of [`Store::get_each_within`] for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// The key has no value.
    Absent,
    /// Its value.
    Value(&'a [u8]),
    /// It has a longer value than was wanted, or had, if that has expired.
    Longer,
}

/// A key-value store, as one host serves it. Shared by the host's threads.
///
/// Keys have up to [`MAX_KEY_BYTES`](tombolo_sharing::MAX_KEY_BYTES) bytes; a longer one has no
/// value, and none can be put there. Operations on one key are linearizable across all hosts,
/// expiry included.
pub struct Store<S: Scheme> {
    pub(crate) objects: S,
    pub(crate) expiry: Expiry,
    pub(crate) known_room: KnownRoom,
    pub(crate) evictor: Evictor<S::Memory>,
    pub(crate) removal_hook: Hook,
}

impl<S: Scheme> Store<S> {
    /// Joins a pod.
    ///
    /// # Errors
    /// As of [`Scheme::join`].
    pub fn join(pod: Pod<S::Memory>, options: S::Options) -> Result<Self, Error> {
        let objects = S::join(pod, options)?;
        let evictor = Evictor::new(objects.area(), objects.host_number());
        let (expiry, known_room, removal_hook) =
            (Expiry::new(), Default::default(), Hook::default());
        let store = Self { objects, expiry, known_room, evictor, removal_hook };
        store.follow_eviction();
        Ok(store)
    }

    /// Leaves the pod: see [`Scheme::leave`].
    ///
    /// # Errors
    /// As of [`Scheme::leave`].
    pub fn leave(&self) -> Result<(), Error> {
        Ok(self.objects.leave()?)
    }

    /// Does what has to be done in the background: that of the objects, removing expired values,
    /// and evicting some, if the pod is about to be full. To be called about every millisecond, by
    /// one thread of each host.
    ///
    /// # Errors
    /// As of [`Scheme::tick`].
    pub fn tick(&self) -> Result<(), Error> {
        self.objects.tick()?;
        self.remove_some_expired()?;
        self.evict_ahead()
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
        let stored = stored(key);
        // (No closure, and no loop: compilers prepare for those before the read.)
        let version = match self.objects.read_split(&stored, &mut prefix, &mut entry.value) {
            Ok(Some(version)) => version,
            Ok(None) => return Ok(false),
            Err(error) => return self.get_in_spite_of(error, key, entry),
        };
        entry.deadline_ms = decode(&prefix, &mut entry.value)?;
        let passed = self.has_passed(entry.deadline_ms);
        if passed {
            self.remove_expired(&stored, version)?;
        } else {
            self.note_use(&stored);
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
        match error {
            tombolo_sharing::Error::KeyLength { .. } => return Ok(false),
            error if !error.is_loss() => return Err(not_a_value_if_short(error.into())),
            _ => self.objects.forget_lost(&stored(key))?,
        };
        self.get_into(key, entry)
    }

    /// Repeats `attempt` where the object with `key` went with a host that has died, or with
    /// memory: then there is none.
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
        self.get_each_within(keys, u64::MAX, items, |found| match found {
            Found::Value(value) => visit(Some(value)),
            Found::Absent | Found::Longer => visit(None),
        })
    }

    /// As [`get_each`](Self::get_each), but of values longer than `most_bytes`, by two bytes or
    /// more, only that they are.
    ///
    /// # Errors
    /// Those of [`get_each`](Self::get_each).
    pub fn get_each_within<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        most_bytes: u64,
        items: &mut Vec<Item>,
        visit: impl FnMut(Found<'_>),
    ) -> Result<(), Error> {
        let usual = |key: &K| !is_marked(key.as_ref()) && key.as_ref().len() <= MAX_KEY_BYTES;
        if !keys.iter().all(usual) {
            return self.get_each_unusual(keys, most_bytes, items, visit);
        }
        self.get_stored_within(keys, most_bytes, items)?;
        items[..keys.len()].iter().try_for_each(show(visit))
    }

    /// The same, where some keys are stored under others, or cannot be stored.
    #[cold]
    fn get_each_unusual<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        most_bytes: u64,
        items: &mut Vec<Item>,
        visit: impl FnMut(Found<'_>),
    ) -> Result<(), Error> {
        let keys: Vec<_> = keys.iter().map(|key| stored(key.as_ref())).collect();
        let storable = |key: &&Cow<'_, [u8]>| key.len() <= MAX_KEY_BYTES;
        let readable: Vec<_> = keys.iter().filter(storable).collect();
        self.get_stored_within(&readable, most_bytes, items)?;
        let absent = Item::default();
        let mut read = items.iter();
        let found = keys.iter().map(|key| match storable(&key) {
            true => read.next().unwrap_or(&absent),
            false => &absent,
        });
        found.into_iter().try_for_each(show(visit))
    }

    /// Reads the objects with these keys; those whose deadline has passed are absent.
    fn get_stored_within<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        most_bytes: u64,
        items: &mut Vec<Item>,
    ) -> Result<(), Error> {
        items.resize_with(items.len().max(keys.len()), Item::default);
        let most_bytes = most_bytes.saturating_add((PREFIX_BYTES + HIGH_BYTES) as u64);
        while let Err(error) = self.objects.multi_get_within(keys, most_bytes, items) {
            if !error.is_loss() {
                return Err(error.into());
            }
            for key in keys {
                self.objects.forget_lost(key.as_ref())?;
            }
        }
        for (key, item) in keys.iter().zip(&mut *items) {
            let Some(version) = item.version.filter(|_| item.value_bytes <= most_bytes) else {
                continue;
            };
            let (prefix, rest) = item.value.split_first_chunk().ok_or(Error::NotAValue)?;
            if self.has_passed(decode_parts(prefix, rest)?.0) {
                self.remove_expired(key.as_ref(), version)?;
                item.version = None;
            } else {
                self.note_use(key.as_ref());
            }
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
        let key = &stored(key);
        if !is_near(deadline_ms) {
            let object = Entry { value: value.to_vec(), deadline_ms }.encode();
            self.with_room(object.len(), || Ok(self.objects.put(key, &object).map(drop)?))?;
            self.note_put(key, object.len());
            return Ok(());
        }
        let prefix = encode_prefix(deadline_ms);
        let bytes = PREFIX_BYTES + value.len();
        self.with_room(bytes, || Ok(self.objects.put_split(key, &prefix, value).map(drop)?))?;
        self.note_put(key, bytes);
        self.remember(key, deadline_ms);
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
        if pairs.iter().any(|(key, _)| is_marked(key.as_ref())) {
            let put = |(key, value): &(K, V)| self.put_until(key.as_ref(), value.as_ref(), None);
            return pairs.iter().map(put).collect();
        }
        let object_bytes = |value: &V| PREFIX_BYTES + value.as_ref().len();
        let all_bytes = pairs.iter().map(|(_, value)| object_bytes(value)).sum();
        if let Err(Error::Objects(tombolo_sharing::Error::LnrFull { .. })) =
            self.keep_limit(all_bytes)
        {
            // One after the other, each finds out for itself.
            let put = |(key, value): &(K, V)| self.put_until(key.as_ref(), value.as_ref(), None);
            return pairs.iter().map(put).collect();
        }
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
        let outcomes = self.objects.multi_put(&objects).into_iter().zip(pairs);
        let finish =
            |(outcome, (key, value)): (Result<_, tombolo_sharing::Error>, &(K, V))| match outcome {
                Err(error) if is_full(&error) => self.put_until(key.as_ref(), value.as_ref(), None),
                outcome => {
                    self.note_put(key.as_ref(), object_bytes(value));
                    outcome.map(drop).map_err(Error::from)
                }
            };
        outcomes.map(finish).collect()
    }

    /// Whether `key` could have a value, if there is room for one.
    ///
    /// # Errors
    /// [`tombolo_sharing::Error::KeyLength`].
    pub fn check_key(&self, key: &[u8]) -> Result<(), Error> {
        let stored = stored(key);
        if stored.len() > MAX_KEY_BYTES { Err(too_long(&stored)) } else { Ok(()) }
    }

    /// Removes `key`; whether it had a value.
    ///
    /// # Errors
    /// [`Error::NotAValue`], and those of [`Scheme::delete`].
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let key = &stored(key);
        loop {
            let Some((deadline, version)) = self.stored_deadline(key)? else { return Ok(false) };
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
        let (mut foreign, mut new_deadline) = (false, None);
        let mut change = |bytes: Option<&[u8]>| {
            let before = bytes.map(|bytes| Entry::decode(bytes.to_vec())).transpose();
            foreign = before.is_err();
            let Ok(before) = before else { return tombolo_sharing::Change::Keep };
            match change(before.filter(|entry| !self.has_passed(entry.deadline_ms))) {
                Change::Keep => tombolo_sharing::Change::Keep,
                Change::Put(entry) => {
                    new_deadline = entry.deadline_ms;
                    tombolo_sharing::Change::Put(entry.encode())
                }
                Change::Delete => tombolo_sharing::Change::Delete,
            }
        };
        let stored = stored(key);
        if stored.len() > MAX_KEY_BYTES {
            return match change(None) {
                tombolo_sharing::Change::Put(_) => Err(too_long(&stored)),
                _ => Ok(()),
            };
        }
        self.with_room(0, || {
            self.unless_lost(&stored, || self.objects.update(&stored, &mut change))
        })?;
        self.note_put(&stored, 0);
        self.remember(&stored, new_deadline);
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
                let deadline = match self.stored_deadline(&key) {
                    Err(Error::NotAValue) => continue,
                    found => found?,
                };
                if deadline.is_some_and(|(deadline, _)| !self.has_passed(deadline)) {
                    visit(original(&key));
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
                match self.delete(original(&key)) {
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
}

/// Shows what was read of an object.
fn show(mut visit: impl FnMut(Found<'_>)) -> impl FnMut(&Item) -> Result<(), Error> {
    move |item| {
        match item.version {
            None => visit(Found::Absent),
            Some(_) if item.value.len() as u64 != item.value_bytes => visit(Found::Longer),
            Some(_) => {
                let (prefix, rest) = item.value.split_first_chunk().ok_or(Error::NotAValue)?;
                visit(Found::Value(&rest[..decode_parts(prefix, rest)?.1]));
            }
        }
        Ok(())
    }
}

pub(crate) fn too_long(key: &[u8]) -> Error {
    tombolo_sharing::Error::KeyLength { bytes: key.len() }.into()
}

/// The meaning of an error while reading the prefix of an object that is too short for one.
pub(crate) fn not_a_value_if_short(error: Error) -> Error {
    match error {
        Error::Objects(tombolo_sharing::Error::OutOfRange { .. }) => Error::NotAValue,
        error => error,
    }
}
