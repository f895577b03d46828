//! The operations on objects.

use tombolo_memory::Mapped;

use crate::{
    Change, Error, Item, Keys, ObjectRoom, ObjectView, Objects, OwnedView, ReadGuard, Reservation,
    Version, View, WriteGuard,
};

/// Operations on objects. Keys have 1 to [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES) bytes.
///
/// Operations on one object are linearizable across all hosts. Each may block for as long as
/// another host has the object locked, at most some seconds, and takes about a microsecond
/// otherwise.
///
/// # Errors
/// Besides those that each names: [`Error::KeyLength`]; [`Error::Busy`], [`Error::Stalled`] and
/// [`Error::Unanswered`] if another host hangs; [`Error::Fenced`] if the others go on without this
/// one; [`Error::Lost`] and [`Error::Poisoned`] if the value is gone for all.
impl Objects {
    /// Gives `key` a value, whether there was an object or not. Returns the new version.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// let objects = tombolo::Objects::join(&path)?;
    /// let first = objects.put(b"key", b"value")?;
    /// assert_ne!(objects.put(b"key", b"another")?, first);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LnrFull`], [`Error::IndexFull`], [`Error::TooLarge`].
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        (**self).put(key, value)
    }

    /// Creates an object. Returns its version.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is one with this key, and those of [`put`](Self::put).
    #[inline]
    pub fn create(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        (**self).create(key, value)
    }

    /// Replaces the value of an object. Returns the new version.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none, and those of [`put`](Self::put).
    #[inline]
    pub fn write(&self, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        (**self).write(key, value)
    }

    /// Replaces some bytes of a value, from `offset` on. Returns the new version.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::OutOfRange`] if they are not within the value.
    #[inline]
    pub fn write_range(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<Version, Error> {
        (**self).write_range(key, offset, bytes)
    }

    /// Replaces the value if the object is at version `expected`. Returns the new version.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// # let objects = tombolo::Objects::join(&path)?;
    /// let old = objects.put(b"key", b"old")?;
    /// objects.compare_and_swap(b"key", old, b"new")?;
    /// let refused = objects.compare_and_swap(b"key", old, b"too late");
    /// assert!(matches!(refused, Err(tombolo::Error::Changed)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Changed`] if it is not, [`Error::NotFound`], and those of [`put`](Self::put).
    #[inline]
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Version,
        value: &[u8],
    ) -> Result<Version, Error> {
        (**self).compare_and_swap(key, expected, value)
    }

    /// Reads an object, lets `change` decide, and does it, all in one step. `change` may be called
    /// several times; the last call counts. It must not use this host's objects.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// # let objects = tombolo::Objects::join(&path)?;
    /// use tombolo::Change;
    ///
    /// objects.update(b"log", |old| {
    ///     let mut lines = old.unwrap_or_default().to_vec();
    ///     lines.extend_from_slice(b"another line\n");
    ///     Change::Put(lines)
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    #[inline]
    pub fn update(
        &self,
        key: &[u8],
        change: impl FnMut(Option<&[u8]>) -> Change,
    ) -> Result<(), Error> {
        (**self).update(key, change)
    }

    /// Deletes an object; whether there was one.
    ///
    /// # Errors
    /// Those of all operations.
    #[inline]
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        (**self).delete(key)
    }

    /// Deletes an object if it is at version `expected`; whether there was one.
    ///
    /// # Errors
    /// [`Error::Changed`] if it is not.
    #[inline]
    pub fn delete_version(&self, key: &[u8], expected: Version) -> Result<bool, Error> {
        (**self).delete_version(key, expected)
    }

    /// Reads a value into `value`, whose room is used if it suffices. Returns its version, or
    /// `None` if there is no such object: then `value` means nothing.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// # let objects = tombolo::Objects::join(&path)?;
    /// objects.put(b"key", b"value")?;
    /// let mut value = Vec::new();
    /// assert!(objects.read(b"key", &mut value)?.is_some());
    /// assert_eq!(value, b"value");
    /// assert!(objects.read(b"none", &mut value)?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of all operations.
    #[inline]
    pub fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<Version>, Error> {
        (**self).read(key, value)
    }

    /// Reads the bytes of a value from `offset` on, as many as `into` has. Returns the version.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::OutOfRange`] if they are not within the value.
    #[inline]
    pub fn read_range(&self, key: &[u8], offset: u64, into: &mut [u8]) -> Result<Version, Error> {
        (**self).read_range(key, offset, into)
    }

    /// The length of a value in bytes, and its version; `None` if there is no such object.
    ///
    /// # Errors
    /// Those of all operations.
    #[inline]
    pub fn stat(&self, key: &[u8]) -> Result<Option<(u64, Version)>, Error> {
        (**self).stat(key)
    }

    /// Reads all `keys` into as many `items`, in a third to half of the time that one after the
    /// other takes. Each is as it was at some moment meanwhile.
    ///
    /// # Errors
    /// The first that one of them has.
    ///
    /// # Panics
    /// If there are fewer items than keys.
    #[inline]
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K], items: &mut [Item]) -> Result<(), Error> {
        (**self).multi_get(keys, items)
    }

    /// Puts each of these pairs, in their order. Returns what became of each.
    #[inline]
    pub fn multi_put<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
    ) -> Vec<Result<Version, Error>> {
        (**self).multi_put(pairs)
    }

    /// Begins to read an object in parts. Other hosts may write it meanwhile:
    /// [`ReadGuard::read_end`] tells whether the parts belong together.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    #[inline]
    pub fn read_start(&self, key: &[u8]) -> Result<ReadGuard<'_, Mapped>, Error> {
        (**self).read_start(key)
    }

    /// Locks an object, to read and write it in parts. Others wait until
    /// [`WriteGuard::write_end`].
    ///
    /// # Errors
    /// [`Error::NotFound`].
    #[inline]
    pub fn write_start(&self, key: &[u8]) -> Result<WriteGuard<'_, Mapped>, Error> {
        (**self).write_start(key)
    }

    /// Shows a value where it lies, without a copy if it is large. It stays as it is while others
    /// write or delete the object. Its room is kept until the view ends.
    ///
    /// # Errors
    /// [`Error::TooManyViews`].
    #[inline]
    pub fn view(&self, key: &[u8]) -> Result<Option<View<'_, Mapped>>, Error> {
        (**self).view(key)
    }

    /// As [`view`](Self::view), where the view keeps this host in the pod and can be sent anywhere.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// let objects = tombolo::Objects::join(&path)?;
    /// objects.put(b"key", &[7; 4096])?;
    /// let view = objects.view_owned(b"key")?.unwrap();
    /// drop(objects);
    /// let sum = std::thread::spawn(move || view.iter().map(|&byte| u64::from(byte)).sum::<u64>());
    /// assert_eq!(sum.join().unwrap(), 7 * 4096_u64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooManyViews`].
    pub fn view_owned(&self, key: &[u8]) -> Result<Option<ObjectView>, Error> {
        Ok(tombolo_objects::Objects::view_by(self.clone(), key)?.map(OwnedView::new))
    }

    /// Reserves room for the value of `key`, of so many bytes. It is filled, and then published or
    /// dropped; no host sees it before. If this process dies, the other hosts free it. A host may
    /// have as many rooms as half of the objects that it may have locked, which
    /// [`LayoutOptions::writes`](crate::LayoutOptions::writes) says.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// # let objects = tombolo::Objects::join(&path)?;
    /// let mut room = objects.reserve(b"key", 4096)?;
    /// room.bytes_mut().ok_or("it lies in several pieces")?.fill(7);
    /// assert!(objects.view(b"key")?.is_none());
    /// room.publish()?;
    /// assert_eq!(objects.stat(b"key")?.unwrap().0, 4096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooManyReservations`], and those of [`put`](Self::put).
    pub fn reserve(&self, key: &[u8], bytes: u64) -> Result<Reservation<'_, Mapped>, Error> {
        (**self).reserve_room(key, bytes)
    }

    /// As [`reserve`](Self::reserve), where the room keeps this host in the pod and can be sent
    /// anywhere.
    ///
    /// # Errors
    /// Those of [`reserve`](Self::reserve).
    pub fn reserve_owned(&self, key: &[u8], bytes: u64) -> Result<ObjectRoom, Error> {
        tombolo_objects::Objects::reserve_room_by(self.clone(), key, &[], bytes)
    }

    /// All keys, in no order.
    ///
    /// # Errors
    /// The walk ends with the error that it meets.
    pub fn keys(&self) -> Keys<'_, Error> {
        self.keys_with_prefix(b"")
    }

    /// All keys that begin with `prefix`, in no order. The walk looks at all keys.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("pod");
    /// # tombolo::create(&path, tombolo::CreateOptions::sized(16 << 20))?;
    /// # let objects = tombolo::Objects::join(&path)?;
    /// for key in ["user:1", "user:2", "other"] {
    ///     objects.put(key.as_bytes(), b"")?;
    /// }
    /// let users = objects.keys_with_prefix(b"user:").collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(users.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The walk ends with the error that it meets.
    pub fn keys_with_prefix(&self, prefix: &[u8]) -> Keys<'_, Error> {
        Keys::new(prefix, |cursor, keys| (**self).scan(cursor, |key| keys.push(key.to_vec())))
    }
}
