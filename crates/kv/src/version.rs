//! Changes of a value that are made only if it is at a known version, or absent.
//!
//! A version names the write that produced a value, and the change of a deadline is one.

use tombolo_sharing::{MAX_KEY_BYTES, Scheme, Version};

use crate::key::stored;
use crate::store::{not_a_value_if_short, too_long};
use crate::value::{PREFIX_BYTES, decode};
use crate::{Entry, Error, Store};

impl<S: Scheme> Store<S> {
    /// The value of `key`, and its version, if it has one.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn get_versioned(&self, key: &[u8]) -> Result<Option<(Entry, Version)>, Error> {
        let key = &stored(key);
        if key.len() > MAX_KEY_BYTES {
            return Ok(None);
        }
        let (mut prefix, mut value) = ([0; PREFIX_BYTES], Vec::new());
        let read = self.unless_lost(key, || self.objects.read_split(key, &mut prefix, &mut value));
        let Some(version) = read.map_err(not_a_value_if_short)? else { return Ok(None) };
        let deadline_ms = decode(&prefix, &mut value)?;
        if self.has_passed(deadline_ms) {
            self.remove_expired(key, version)?;
            return Ok(None);
        }
        self.note_use(key);
        Ok(Some((Entry { value, deadline_ms }, version)))
    }

    /// Gives `key` a value if it has none; its version, or `None` if `key` has one already.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn add(&self, key: &[u8], entry: &Entry) -> Result<Option<Version>, Error> {
        let own = &stored(key);
        if own.len() > MAX_KEY_BYTES {
            return Err(too_long(own));
        }
        let object = entry.encode();
        loop {
            match self.with_room(object.len(), || Ok(self.objects.create(own, &object)?)) {
                Ok(version) => {
                    self.note_put(own, object.len());
                    self.remember(own, entry.deadline_ms);
                    return Ok(Some(version));
                }
                Err(Error::Objects(tombolo_sharing::Error::Exists)) if self.is_there(own)? => {
                    return Ok(None);
                }
                // It has expired, or is gone, and is out of the way.
                Err(Error::Objects(tombolo_sharing::Error::Exists)) => {}
                Err(Error::Objects(error)) if error.is_loss() => {
                    self.objects.forget_lost(own)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives `key` another value if that which it has is at `expected`; the new version, or `None`
    /// if it is not, or has expired.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn put_if_version(
        &self,
        key: &[u8],
        expected: Version,
        entry: &Entry,
    ) -> Result<Option<Version>, Error> {
        let own = &stored(key);
        if own.len() > MAX_KEY_BYTES || !self.is_there(own)? {
            return Ok(None);
        }
        let object = entry.encode();
        let put = || match self.objects.compare_and_swap(own, expected, &object) {
            Err(error) if is_another(&error) => Ok(None),
            put => Ok(put.map(Some)?),
        };
        let put = self.with_room(object.len(), put)?;
        if put.is_some() {
            self.note_put(own, object.len());
            self.remember(own, entry.deadline_ms);
        }
        Ok(put)
    }

    /// Removes `key` if its value is at `expected`; whether it was, and had not expired.
    ///
    /// # Errors
    /// Those of [`delete`](Self::delete).
    pub fn delete_if_version(&self, key: &[u8], expected: Version) -> Result<bool, Error> {
        let own = &stored(key);
        if own.len() > MAX_KEY_BYTES || !self.is_there(own)? {
            return Ok(false);
        }
        match self.objects.delete_version(own, expected) {
            Err(error) if is_another(&error) => Ok(false),
            deleted => Ok(deleted?),
        }
    }

    /// Whether the object with `key` holds a value; one that has expired is removed.
    pub(crate) fn is_there(&self, key: &[u8]) -> Result<bool, Error> {
        let Some((deadline_ms, version)) = self.stored_deadline(key)? else { return Ok(false) };
        let passed = self.has_passed(deadline_ms);
        if passed {
            self.remove_expired(key, version)?;
        }
        Ok(!passed)
    }
}

/// Whether the object is not at the expected version: changed, gone or lost.
fn is_another(error: &tombolo_sharing::Error) -> bool {
    matches!(error, tombolo_sharing::Error::Changed | tombolo_sharing::Error::NotFound)
        || error.is_loss()
}
