//! Values that are read into buffers of the caller, one or many.

use tombolo_sharing::{Item, Viewed};

use crate::key::stored;
use crate::store::Found;
use crate::{Error, Store};

/// Values up to this length are read together, and longer ones one after the other: those take long
/// enough to be worth no second copy.
const TOGETHER_BYTES: u64 = 16 << 10;

impl<S: Viewed> Store<S> {
    /// Copies the value of `key` to the start of `into`, and returns its length, if it has a value.
    /// A value that is longer than `into` is not copied.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn get_to(&self, key: &[u8], into: &mut [u8]) -> Result<Option<u64>, Error> {
        if into.len() as u64 > TOGETHER_BYTES {
            return self.get_long_to(key, into);
        }
        let [length] = self.get_each_to(&[key], &mut [into])?[..] else { return Ok(None) };
        Ok(length)
    }

    /// The same, straight into the buffer. (A view counts as a read of the whole value, so that it
    /// need not be dropped from the caches the next time.)
    fn get_long_to(&self, key: &[u8], into: &mut [u8]) -> Result<Option<u64>, Error> {
        loop {
            let view = match self.view(key) {
                Err(Error::Objects(tombolo_sharing::Error::TooManyViews { .. })) => {
                    return self.get_unseen_to(key, into);
                }
                view => view?,
            };
            let Some(view) = view else { return Ok(None) };
            let bytes = view.value_bytes();
            if let Some(part) = into.get_mut(..bytes as usize) {
                view.copy_to(part);
            }
            match view.end() {
                // The next look finds that it is lost.
                Err(Error::Objects(error)) if error.is_loss() => {}
                ended => return ended.map(|()| Some(bytes)),
            }
        }
    }

    /// The same, without a view.
    #[cold]
    fn get_unseen_to(&self, key: &[u8], into: &mut [u8]) -> Result<Option<u64>, Error> {
        let key = &stored(key);
        loop {
            let Some(start) = self.start(key)? else { return Ok(None) };
            if self.has_passed(start.stat.deadline_ms) {
                self.remove_expired(key, start.version)?;
                return Ok(None);
            }
            let bytes = start.stat.value_bytes;
            let Some(part) = into.get_mut(..bytes as usize) else { return Ok(Some(bytes)) };
            if part.is_empty() || self.is_read(key, 0, part, start.version)? {
                self.note_use(key);
                return Ok(Some(bytes));
            }
        }
    }

    /// Copies the values of all `keys`, each to the start of its buffer, as
    /// [`get_to`](Self::get_to) does; the length of each that there is. Several together take less
    /// time than one after the other.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), of the first key that has one.
    ///
    /// # Panics
    /// If there are fewer buffers than keys.
    pub fn get_each_to<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        buffers: &mut [&mut [u8]],
    ) -> Result<Vec<Option<u64>>, Error> {
        let (mut items, mut lengths, mut longer) = (Vec::<Item>::new(), Vec::new(), Vec::new());
        let most = buffers.iter().map(|buffer| buffer.len() as u64).max().unwrap_or(0);
        if most > TOGETHER_BYTES {
            let pairs = keys.iter().zip(buffers);
            return pairs.map(|(key, into)| self.get_to(key.as_ref(), into)).collect();
        }
        let mut places = buffers.iter_mut();
        self.get_each_within(keys, most, &mut items, |found| {
            let into = places.next().expect("a buffer for each key");
            lengths.push(match found {
                Found::Absent => None,
                Found::Value(value) => {
                    if let Some(part) = into.get_mut(..value.len()) {
                        part.copy_from_slice(value);
                    }
                    Some(value.len() as u64)
                }
                Found::Longer => {
                    longer.push(lengths.len());
                    None
                }
            });
        })?;
        for number in longer {
            lengths[number] = self.get_long_to(keys[number].as_ref(), buffers[number])?;
        }
        Ok(lengths)
    }

    /// Whether each of `keys` has a value.
    ///
    /// # Errors
    /// Those of [`deadline`](Self::deadline), of the first key that has one.
    pub fn exist<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<bool>, Error> {
        keys.iter().map(|key| Ok(self.deadline(key.as_ref())?.is_some())).collect()
    }
}
