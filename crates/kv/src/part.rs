//! Reads and changes of a value that do not copy it: its deadline, its length, a part.

use std::ops::Range;

use tombolo_sharing::{Guard, Guarded, MAX_KEY_BYTES, Scheme, Version};

use crate::key::stored;
use crate::store::not_a_value_if_short;
use crate::value::{
    HIGH_BYTES, PREFIX_BYTES, Prefix, decode_prefix, encode_prefix, far_deadline, is_near,
    value_bytes,
};
use crate::{Change, Error, Store};

/// The length of a value, and when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its length.
    pub value_bytes: u64,
    /// When it expires, in milliseconds since the Unix epoch.
    pub deadline_ms: Option<u64>,
}

/// The change that [`Store::update_deadline`] makes to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineChange {
    /// Leave it as it is.
    Keep,
    /// Have it expire then; never, if `None`.
    Set(Option<u64>),
    /// Remove it.
    Delete,
}

/// Facts of an object besides its value, all of one version.
pub(crate) struct Start {
    pub(crate) stat: Stat,
    pub(crate) version: Version,
}

impl<S: Scheme> Store<S> {
    /// When the value of `key` expires; `None` if it has no value. Takes as long whatever the
    /// length of the value.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn deadline(&self, key: &[u8]) -> Result<Option<Option<u64>>, Error> {
        let found = self.stored_deadline(&stored(key))?;
        Ok(found.map(|(deadline, _)| deadline).filter(|deadline| !self.has_passed(*deadline)))
    }

    /// The length and the deadline of the value of `key`, if it has one. Takes as long whatever the
    /// length of the value.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn stat(&self, key: &[u8]) -> Result<Option<Stat>, Error> {
        let start = self.start(&stored(key))?.map(|start| start.stat);
        Ok(start.filter(|stat| !self.has_passed(stat.deadline_ms)))
    }

    /// The bytes of the value of `key` that `choose` wants of so many, if it has a value. Copies no
    /// others.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), and of [`Scheme::read_range`] if there are no such bytes.
    pub fn get_range(
        &self,
        key: &[u8],
        choose: impl Fn(u64) -> Range<u64>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = &stored(key);
        let mut bytes = Vec::new();
        loop {
            let start = self.start(key)?.filter(|start| !self.has_passed(start.stat.deadline_ms));
            let Some(Start { stat, version }) = start else { return Ok(None) };
            let range = choose(stat.value_bytes);
            bytes.resize(range.end.saturating_sub(range.start) as usize, 0);
            if bytes.is_empty() || self.is_read(key, range.start, &mut bytes, version)? {
                self.note_use(key);
                return Ok(Some(bytes));
            }
        }
    }

    /// Reads a part of a value, and returns whether that is still at `version`.
    pub(crate) fn is_read(
        &self,
        key: &[u8],
        offset: u64,
        into: &mut [u8],
        version: Version,
    ) -> Result<bool, Error> {
        let read = self.objects.read_range(key, PREFIX_BYTES as u64 + offset, into);
        match read {
            Ok(now) => Ok(now == version),
            // Another value is there, or none.
            Err(tombolo_sharing::Error::NotFound | tombolo_sharing::Error::OutOfRange { .. })
                if self.objects.stat(key)?.is_none_or(|(_, now)| now != version) =>
            {
                Ok(false)
            }
            Err(error) if error.is_loss() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The deadline and version of the value that the object with `key` holds, if there is one,
    /// expired or not.
    pub(crate) fn stored_deadline(
        &self,
        key: &[u8],
    ) -> Result<Option<(Option<u64>, Version)>, Error> {
        match self.prefix(key)? {
            None => Ok(None),
            Some((Prefix::Near(deadline_ms), version)) => Ok(Some((deadline_ms, version))),
            Some((Prefix::Far(_), _)) => {
                Ok(self.start(key)?.map(|start| (start.stat.deadline_ms, start.version)))
            }
        }
    }

    fn prefix(&self, key: &[u8]) -> Result<Option<(Prefix, Version)>, Error> {
        if key.len() > MAX_KEY_BYTES {
            return Ok(None);
        }
        let mut prefix = [0; PREFIX_BYTES];
        let read = self.unless_lost(key, || match self.objects.read_range(key, 0, &mut prefix) {
            Err(tombolo_sharing::Error::NotFound) => Ok(None),
            read => read.map(Some),
        });
        let Some(version) = read.map_err(not_a_value_if_short)? else { return Ok(None) };
        Ok(Some((decode_prefix(&prefix)?, version)))
    }

    /// Facts of the object with `key` besides its value, of one version; `None` if it is absent.
    pub(crate) fn start(&self, key: &[u8]) -> Result<Option<Start>, Error> {
        loop {
            let Some((prefix, version)) = self.prefix(key)? else { return Ok(None) };
            let found = self.unless_lost(key, || self.objects.stat(key))?;
            let Some((object_bytes, _)) = found.filter(|&(_, now)| now == version) else {
                continue;
            };
            let value_bytes = value_bytes(prefix, object_bytes)?;
            let deadline_ms = match prefix {
                Prefix::Near(deadline_ms) => deadline_ms,
                Prefix::Far(low) => {
                    let mut high = [0; HIGH_BYTES];
                    if !self.is_read(key, value_bytes, &mut high, version)? {
                        continue;
                    }
                    Some(far_deadline(low, high))
                }
            };
            let stat = Stat { value_bytes, deadline_ms };
            return Ok(Some(Start { stat, version }));
        }
    }
}

impl<S: Guarded> Store<S> {
    /// Lets `decide` say from the deadline of a value what becomes of it, as one step; returns
    /// whether `key` has a value. The value is not copied, unless its deadline is thousands of
    /// years from now. `decide` may be called several times; the last call counts.
    ///
    /// # Errors
    /// Those of [`update`](Self::update).
    pub fn update_deadline(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<u64>) -> DeadlineChange,
    ) -> Result<bool, Error> {
        let own = &stored(key);
        loop {
            let Some((prefix, version)) = self.prefix(own)? else { return Ok(false) };
            let Prefix::Near(deadline_ms) = prefix else {
                return self.replace_deadline(key, decide);
            };
            if self.has_passed(deadline_ms) {
                return Ok(false);
            }
            match decide(deadline_ms) {
                DeadlineChange::Keep => return Ok(true),
                DeadlineChange::Delete => match self.objects.delete_version(own, version) {
                    Ok(true) => return Ok(true),
                    Ok(false) | Err(tombolo_sharing::Error::Changed) => {}
                    Err(error) if error.is_loss() => {}
                    Err(error) => return Err(error.into()),
                },
                DeadlineChange::Set(new) if is_near(new) => {
                    if self.overwrite(own, version, 0, &encode_prefix(new))? {
                        self.remember(own, new);
                        return Ok(true);
                    }
                }
                DeadlineChange::Set(_) => return self.replace_deadline(key, decide),
            }
        }
    }

    /// The same, by writing the whole value anew.
    #[cold]
    fn replace_deadline(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<u64>) -> DeadlineChange,
    ) -> Result<bool, Error> {
        let mut found = false;
        self.update(key, |before| {
            found = before.is_some();
            let Some(mut entry) = before else { return Change::Keep };
            match decide(entry.deadline_ms) {
                DeadlineChange::Keep => Change::Keep,
                DeadlineChange::Delete => Change::Delete,
                DeadlineChange::Set(deadline_ms) => {
                    entry.deadline_ms = deadline_ms;
                    Change::Put(entry)
                }
            }
        })?;
        Ok(found)
    }

    /// Changes bytes of the value of `key` from `offset` on; the length of the value. `None` if the
    /// key has no value, or one that ends before those bytes: nothing is changed.
    ///
    /// # Errors
    /// Those of [`update`](Self::update).
    pub fn set_range(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<Option<u64>, Error> {
        let key = &stored(key);
        loop {
            let start = self.start(key)?.filter(|start| !self.has_passed(start.stat.deadline_ms));
            let Some(Start { stat, version }) = start else { return Ok(None) };
            if offset.saturating_add(bytes.len() as u64) > stat.value_bytes {
                return Ok(None);
            }
            if self.overwrite(key, version, PREFIX_BYTES as u64 + offset, bytes)? {
                return Ok(Some(stat.value_bytes));
            }
        }
    }

    /// Changes bytes of the object with `key`, if it is at `version`; whether it was.
    fn overwrite(
        &self,
        key: &[u8],
        version: Version,
        offset: u64,
        bytes: &[u8],
    ) -> Result<bool, Error> {
        let mut guard = match self.objects.write_start(key) {
            Err(tombolo_sharing::Error::NotFound) => return Ok(false),
            Err(error) if error.is_loss() => return Ok(false),
            guard => guard?,
        };
        if guard.version() != version {
            return Ok(false);
        }
        guard.write(offset, bytes)?;
        guard.end()?;
        Ok(true)
    }
}
