//! The trait that ways of sharing have in common.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tombolo_host::Host;
use tombolo_memory::Memory;
use tombolo_pod::{Area, Pod};

use crate::{Error, Eviction, ObjectArea, Part, Resident, Stats, Version};

/// The change of an object by [`Scheme::update`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Leave it as it is, or absent.
    Keep,
    /// Give it this value, creating it if it is absent.
    Put(Vec<u8>),
    /// Delete it.
    Delete,
}

/// The value that was read of one of several objects. It keeps its memory for the next time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// The object's version; `None` if there is no such object.
    pub version: Option<Version>,
    /// Its value, if it is there, and not longer than was wanted.
    pub value: Vec<u8>,
    /// The length of its value in bytes, if it is there.
    pub value_bytes: u64,
}

/// How much there is, and is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Objects in the pod.
    pub objects: u64,
    /// Bytes of LNR in slots that hold objects.
    pub lnr_used_bytes: u64,
    /// Bytes of LNR that are divided into slots, some with objects, and that no object takes up:
    /// for objects of other sizes they are there only when those have been moved together.
    pub lnr_fragmented_bytes: u64,
    /// Bytes of LNR in chunks that get no new objects any more, because of memory errors.
    pub lnr_poisoned_bytes: u64,
    /// Bytes of LNR there are for objects.
    pub lnr_bytes: u64,
    /// Coherence records in use.
    pub records_used: u64,
    /// Coherence records there are, or could be if all were narrow.
    pub records: u64,
    /// Of those in use, the wide ones, where widths are mixed.
    pub records_wide: u64,
    /// Bytes of SCR that records, and what else objects have there, take up.
    pub scr_used_bytes: u64,
    /// Bytes of this host's own memory for the index and what goes with it.
    pub local_bytes: u64,
    /// Bytes of this host's own memory for copies of objects.
    pub copies_bytes: u64,
    /// Bytes of objects that are in this host's own memory alone.
    pub partition_bytes: u64,
    /// Log entries this host has not applied.
    pub log_lag: u64,
}

/// A way to share objects among the hosts of a pod, as one host does it. Shared by its threads.
///
/// Keys have 1 to [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES) bytes, values any number that the pod has
/// room for. Operations on one object are linearizable across all hosts.
///
/// # Errors
/// Besides what each operation names: [`Error::KeyLength`], [`Error::Busy`], [`Error::Stalled`],
/// [`Error::Fenced`], [`Error::Damaged`].
pub trait Scheme: Sized {
    /// The memory it works on.
    type Memory: Memory;
    /// How a host takes part.
    type Options: Clone + Default + 'static;

    /// Takes part in an area for objects or pages of the pod that `host` is in, besides other
    /// tenants of that host.
    ///
    /// # Errors
    /// [`Error::Pod`] if the area is of another kind; [`Error::NobodyAnswers`] if no host hands
    /// over its replica; [`Error::Damaged`].
    fn attach(
        host: &Arc<Host<Self::Memory>>,
        area: Area<Self::Memory>,
        options: Self::Options,
    ) -> Result<Self, Error>;

    /// Joins a pod, and the first area for objects in it; if there is none, that for pages.
    ///
    /// # Errors
    /// [`Error::Pod`] if there is no seat; as of [`attach`](Self::attach).
    fn join(pod: Pod<Self::Memory>, options: Self::Options) -> Result<Self, Error> {
        let area = ObjectArea::first(&pod)?;
        let host = Host::join(pod)?;
        let attached = Self::attach(&host, (*area).clone(), options);
        if attached.is_err() {
            host.leave();
        }
        attached
    }

    /// Leaves the area, and the pod with the last tenant of its host. The last host leaves the area
    /// closed, with all objects in place. Nothing else may be done with the handle afterwards, or
    /// meanwhile.
    fn leave(&self) -> Result<(), Error>;

    /// Does a little of what has to be done in the background. To be called about every
    /// millisecond, by one thread of each host.
    fn tick(&self) -> Result<(), Error>;

    /// The area of the pod in which the objects lie.
    fn area(&self) -> &ObjectArea<Self::Memory>;

    /// The pod.
    fn pod(&self) -> &Pod<Self::Memory> {
        self.area().pod()
    }

    /// The memory this host sees.
    fn memory(&self) -> &Self::Memory {
        self.pod().memory()
    }

    /// This host's counters.
    fn stats(&self) -> Stats;

    /// How much is in use, as far as this host knows.
    fn usage(&self) -> Usage;

    /// How many objects there are.
    fn object_count(&self) -> Result<u64, Error>;

    /// Reads the value of `key` into `value`, replacing what is there; its version, or `None` if
    /// there is no such object.
    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<Version>, Error>;

    /// As [`read`](Self::read), but the first bytes of the value go into `head`, and all others
    /// into `rest`. A caller that wants them apart need not move them.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the value is shorter than `head`.
    fn read_split<const HEAD: usize>(
        &self,
        key: &[u8],
        head: &mut [u8; HEAD],
        rest: &mut Vec<u8>,
    ) -> Result<Option<Version>, Error> {
        let version = self.read(key, rest)?;
        version.map(|version| split(head, rest).map(|()| version)).transpose()
    }

    /// Reads the values of all `keys`, each into the item at its place; not at one instant.
    ///
    /// # Panics
    /// If there are fewer items than keys.
    fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K], items: &mut [Item]) -> Result<(), Error> {
        for (number, key) in keys.iter().enumerate() {
            let item = &mut items[number];
            item.version = self.read(key.as_ref(), &mut item.value)?;
            item.value_bytes = item.value.len() as u64;
        }
        Ok(())
    }

    /// As [`multi_get`](Self::multi_get), but of values longer than `most_bytes` only their length.
    ///
    /// # Panics
    /// If there are fewer items than keys.
    fn multi_get_within<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        most_bytes: u64,
        items: &mut [Item],
    ) -> Result<(), Error> {
        for (number, key) in keys.iter().enumerate() {
            let item = &mut items[number];
            let found = self.stat(key.as_ref())?;
            item.value.clear();
            (item.value_bytes, item.version) = match found {
                None => (0, None),
                Some((bytes, version)) if bytes > most_bytes => (bytes, Some(version)),
                Some(_) => {
                    let version = self.read(key.as_ref(), &mut item.value)?;
                    (item.value.len() as u64, version)
                }
            };
        }
        Ok(())
    }

    /// Reads `into.len()` bytes of the value of `key` from `offset` on.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OutOfRange`].
    fn read_range(&self, key: &[u8], offset: u64, into: &mut [u8]) -> Result<Version, Error>;

    /// The length of the value of `key` in bytes, and its version; `None` if there is no such
    /// object.
    fn stat(&self, key: &[u8]) -> Result<Option<(u64, Version)>, Error>;

    /// Has the processor fetch what it takes to find `key`, which is wanted soon.
    fn prefetch(&self, key: &[u8]) {
        let _ = key;
    }

    /// Creates an object.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::LnrFull`], [`Error::TooLarge`] or [`Error::IndexFull`] if there
    /// is no room.
    fn create(&self, key: &[u8], value: &[u8]) -> Result<Version, Error>;

    /// Replaces the value of an existing object; it may have another length. On an error the old
    /// value stays.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::LnrFull`] or [`Error::TooLarge`].
    fn write(&self, key: &[u8], value: &[u8]) -> Result<Version, Error>;

    /// Changes some bytes of an existing object, from `offset` on, within its length.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::OutOfRange`].
    fn write_range(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<Version, Error>;

    /// Creates the object, or replaces its value.
    ///
    /// # Errors
    /// As of [`write`](Self::write) and [`create`](Self::create), but for the absence or presence
    /// of the object.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<Version, Error>;

    /// As [`put`](Self::put), of a value that begins with `head` and ends with `rest`. A caller
    /// that has them apart need not move them.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    fn put_split<const HEAD: usize>(
        &self,
        key: &[u8],
        head: &[u8; HEAD],
        rest: &[u8],
    ) -> Result<Version, Error> {
        self.put(key, &[head, rest].concat())
    }

    /// Creates the objects with these keys, or replaces their values, in their order, each as
    /// [`put`](Self::put) does; what became of each. They are not written at one instant.
    fn multi_put<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
    ) -> Vec<Result<Version, Error>> {
        pairs.iter().map(|(key, value)| self.put(key.as_ref(), value.as_ref())).collect()
    }

    /// Replaces the value if the object is at version `expected`.
    ///
    /// # Errors
    /// [`Error::Changed`] if it is not, [`Error::NotFound`], and those of [`write`](Self::write).
    fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Version,
        value: &[u8],
    ) -> Result<Version, Error>;

    /// Reads an object, lets `change` decide, and does it, all in one step. `change` gets the
    /// value, or `None` if there is no such object; it may be called several times, the last call
    /// counts.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    fn update(&self, key: &[u8], change: impl FnMut(Option<&[u8]>) -> Change) -> Result<(), Error>;

    /// Deletes an object; whether there was one.
    fn delete(&self, key: &[u8]) -> Result<bool, Error>;

    /// Deletes an object if it is at version `expected`; whether there was one.
    ///
    /// # Errors
    /// [`Error::Changed`] if it is at another.
    fn delete_version(&self, key: &[u8], expected: Version) -> Result<bool, Error>;

    /// Deletes an object whose value is lost ([`Error::is_loss`]); whether it was.
    fn forget_lost(&self, key: &[u8]) -> Result<bool, Error> {
        let _ = key;
        Ok(false)
    }

    /// Shows some keys to `visit` and returns the next cursor. A walk starts with cursor 0 and is
    /// over when 0 comes back. It meets every object that is there all the time, others perhaps;
    /// an object may be met twice.
    fn scan(&self, cursor: u64, visit: impl FnMut(&[u8])) -> Result<u64, Error>;

    /// The same, but for objects that only another host can reach without being asked to: that host
    /// meets them.
    ///
    /// # Errors
    /// Those of [`scan`](Self::scan).
    fn scan_within_reach(&self, cursor: u64, visit: impl FnMut(&[u8])) -> Result<u64, Error> {
        self.scan(cursor, visit)
    }

    /// This host's number in the area, if it can tell other hosts there what it has used.
    fn host_number(&self) -> Option<u8> {
        None
    }

    /// Shows some objects to `visit` that may be evicted, or none; returns the next cursor. Any
    /// number is a cursor. A walk by these cursors meets all objects, in an order that is as good
    /// as random, and goes on for ever. It reads this host's own memory alone. A scheme that evicts
    /// nothing shows none.
    fn sample(&self, cursor: u64, visit: impl FnMut(Resident)) -> u64 {
        let _ = visit;
        cursor
    }

    /// Reads the key of an object that was sampled into `key`, and the first bytes of its value
    /// into `head`; its version, or `None` if it has changed, is in use, or cannot be read. It
    /// waits for no other host.
    fn inspect(
        &self,
        resident: Resident,
        key: &mut Vec<u8>,
        head: &mut [u8],
    ) -> Result<Option<Version>, Error> {
        let _ = (resident, key, head);
        Ok(None)
    }

    /// Deletes an object that was inspected, if it is still at that version, and no host views it
    /// or has it locked. It waits for no lock.
    fn evict(&self, resident: Resident, key: &[u8], version: Version) -> Result<Eviction, Error> {
        let _ = (resident, key, version);
        Ok(Eviction::Changed)
    }

    /// Bytes of LNR in slots that hold objects, as far as this host knows: as
    /// [`usage`](Self::usage) tells, for less.
    fn used_bytes(&self) -> u64 {
        self.usage().lnr_used_bytes
    }
}

/// Moves the first bytes of `rest` into `head`.
///
/// # Errors
/// [`Error::OutOfRange`] if there are too few.
pub fn split<const HEAD: usize>(head: &mut [u8; HEAD], rest: &mut Vec<u8>) -> Result<(), Error> {
    Part::Range(0, HEAD as u64).of(rest.len() as u64)?;
    head.copy_from_slice(&rest[..HEAD]);
    rest.drain(..HEAD);
    Ok(())
}
