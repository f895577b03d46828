//! Room for a value, which is filled before any host sees it.

use std::ops::Deref;

use tombolo_sharing::{MAX_KEY_BYTES, Reserving, Room, Version};

use crate::key::stored;
use crate::store::too_long;
use crate::value::{PREFIX_BYTES, encode_prefix};
use crate::view::ObjectsOf;
use crate::{Entry, Error, Store};

/// Values below this length are put together before they are copied into the pod: that takes less
/// time than a reservation.
const COPIED_TWICE: usize = 32 << 10;

/// Room in the pod for a lasting value of a key, of a store that is held by a `H`. Dropping it
/// gives the room back.
#[must_use = "it holds room in the pod as long as it is there"]
pub struct ValueRoom<S: Reserving, H: Deref<Target = Store<S>>> {
    store: H,
    key: Vec<u8>,
    room: S::Room<ObjectsOf<H>>,
}

impl<S: Reserving> Store<S> {
    /// Reserves room for a lasting value of so many bytes. No host sees it before it is published.
    ///
    /// # Errors
    /// Those of [`put`](Self::put), and
    /// [`TooManyReservations`](tombolo_sharing::Error::TooManyReservations).
    pub fn reserve(&self, key: &[u8], bytes: u64) -> Result<ValueRoom<S, &Self>, Error> {
        Self::reserve_by(self, key, bytes)
    }

    /// As [`reserve`](Self::reserve), where the room keeps `store`.
    ///
    /// # Errors
    /// Those of [`reserve`](Self::reserve).
    pub fn reserve_by<H: Deref<Target = Self> + Clone>(
        store: H,
        key: &[u8],
        bytes: u64,
    ) -> Result<ValueRoom<S, H>, Error> {
        let key = stored(key).into_owned();
        if key.len() > MAX_KEY_BYTES {
            return Err(too_long(&key));
        }
        let prefix = encode_prefix(None);
        let reserve = || Ok(S::reserve_by(ObjectsOf(store.clone()), &key, &prefix, bytes)?);
        let room = store.with_room(prefix.len() + bytes as usize, reserve)?;
        Ok(ValueRoom { store, key, room })
    }
}

impl<S: Reserving> Store<S> {
    /// Gives each of these keys a value that lasts, as [`put_each`](Self::put_each) does. A long
    /// value is copied once, into room of its own.
    pub fn put_values<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
    ) -> Vec<Result<(), Error>> {
        if pairs.iter().all(|(_, value)| value.as_ref().len() < COPIED_TWICE) {
            return self.put_each(pairs);
        }
        pairs.iter().map(|(key, value)| self.put_long(key.as_ref(), value.as_ref())).collect()
    }

    fn put_long(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if value.len() >= COPIED_TWICE {
            match self.reserve(key, value.len() as u64) {
                Ok(mut room) => {
                    room.write(0, value)?;
                    return room.publish().map(drop);
                }
                // There may be room for it in place of the old value.
                Err(Error::Objects(
                    tombolo_sharing::Error::TooManyReservations { .. }
                    | tombolo_sharing::Error::LnrFull { .. },
                )) => {}
                Err(error) => return Err(error),
            }
        }
        self.put_each(&[(key, value)]).pop().unwrap_or(Ok(()))
    }

    /// Gives `key` a lasting value if it has none, as [`add`](Self::add) does. A long value is
    /// copied once, into the pod.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn add_value(&self, key: &[u8], value: &[u8]) -> Result<Option<Version>, Error> {
        if value.len() < COPIED_TWICE {
            return self.add(key, &Entry::lasting(value));
        }
        let own = stored(key);
        if own.len() <= MAX_KEY_BYTES && self.is_there(&own)? {
            return Ok(None);
        }
        match self.reserve(key, value.len() as u64) {
            Ok(mut room) => {
                room.write(0, value)?;
                room.publish_new()
            }
            Err(Error::Objects(tombolo_sharing::Error::TooManyReservations { .. })) => {
                self.add(key, &Entry::lasting(value))
            }
            Err(error) => Err(error),
        }
    }
}

impl<S: Reserving, H: Deref<Target = Store<S>>> ValueRoom<S, H> {
    /// Bytes that can be filled.
    pub fn len(&self) -> u64 {
        self.room.len()
    }

    /// Whether there is nothing to be filled.
    pub fn is_empty(&self) -> bool {
        self.room.is_empty()
    }

    /// Copies bytes into the room, from `offset` on.
    ///
    /// # Errors
    /// [`OutOfRange`](tombolo_sharing::Error::OutOfRange).
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.room.write(offset, bytes)?)
    }

    /// The room itself, to be filled in place; `None` if it does not lie in one piece.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.room.bytes_mut()
    }

    /// Makes the room the value of its key, whatever that had before: all hosts see it from now
    /// on. Returns the value's version. On an error the room is given back, and the old value
    /// stays.
    ///
    /// # Errors
    /// Those of [`Store::put`].
    pub fn publish(self) -> Result<Version, Error> {
        let bytes = self.object_bytes();
        let version = self.room.publish()?;
        self.store.note_put(&self.key, bytes);
        Ok(version)
    }

    /// The same, if the key has no value; `None` if it has one. The room is given back then.
    ///
    /// # Errors
    /// Those of [`Store::put`].
    pub fn publish_new(self) -> Result<Option<Version>, Error> {
        if self.store.is_there(&self.key)? {
            return Ok(None);
        }
        let bytes = self.object_bytes();
        match self.room.publish_new() {
            Err(tombolo_sharing::Error::Exists) => Ok(None),
            published => {
                let version = published?;
                self.store.note_put(&self.key, bytes);
                Ok(Some(version))
            }
        }
    }

    fn object_bytes(&self) -> usize {
        PREFIX_BYTES + self.room.len() as usize
    }
}
