//! Values where they lie.

use std::borrow::Cow;

use tombolo_sharing::{MAX_KEY_BYTES, View, Viewed};

use crate::key::stored;
use crate::value::{HIGH_BYTES, PREFIX_BYTES, Prefix, decode_prefix};
use crate::{Error, Store};

/// A value that stays as it is for as long as this is there, whatever is put meanwhile, and also if
/// it expires.
#[must_use = "it holds room in the pod as long as it is there"]
pub struct ValueView<V> {
    object: V,
    /// Bytes behind the value.
    behind: usize,
}

impl<S: Viewed> Store<S> {
    /// Views the value of `key`, if it has one. A large value is not copied. A host that puts
    /// another one or deletes it does not wait for that.
    ///
    /// # Errors
    /// [`Error::NotAValue`], and those of [`Viewed::view`].
    pub fn view(&self, key: &[u8]) -> Result<Option<ValueView<S::View<'_>>>, Error> {
        let key = &stored(key);
        if key.len() > MAX_KEY_BYTES {
            return Ok(None);
        }
        let Some(object) = self.unless_lost(key, || self.objects.view(key))? else {
            return Ok(None);
        };
        let prefix = {
            let first = object.first_piece();
            decode_prefix(first.first_chunk().ok_or(Error::NotAValue)?)?
        };
        match prefix {
            Prefix::Far(_) => Ok(Some(ValueView { object, behind: HIGH_BYTES })),
            Prefix::Near(deadline_ms) if self.has_passed(deadline_ms) => {
                self.remove_expired(key, object.version())?;
                Ok(None)
            }
            Prefix::Near(_) => Ok(Some(ValueView { object, behind: 0 })),
        }
    }
}

impl<V: View> ValueView<V> {
    /// The value; copied, if it does not lie together.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self.object.bytes() {
            Cow::Borrowed(bytes) => {
                let end = bytes.len().saturating_sub(self.behind);
                Cow::Borrowed(bytes.get(PREFIX_BYTES..end).unwrap_or_default())
            }
            Cow::Owned(mut bytes) => {
                bytes.truncate(bytes.len().saturating_sub(self.behind).max(PREFIX_BYTES));
                bytes.drain(..PREFIX_BYTES);
                Cow::Owned(bytes)
            }
        }
    }

    /// Ends the view. The bytes that were looked at were the value, unless this is an error.
    ///
    /// # Errors
    /// As of [`View::end`].
    pub fn end(self) -> Result<(), Error> {
        Ok(self.object.end()?)
    }
}
