//! Values where they lie.

use std::borrow::Cow;

use tombolo_sharing::{View, Viewed};

use crate::value::{PREFIX_BYTES, decode_prefix};
use crate::{Error, Store};

/// A value that stays as it is for as long as this is there, whatever is put meanwhile, and also if
/// it expires.
#[must_use = "it holds room in the pod as long as it is there"]
pub struct ValueView<V> {
    object: V,
}

impl<S: Viewed> Store<S> {
    /// Views the value of `key`, if it has one. A large value is not copied. A host that puts
    /// another one or deletes it does not wait for that.
    ///
    /// # Errors
    /// [`Error::NotAValue`], and those of [`Viewed::view`].
    pub fn view(&self, key: &[u8]) -> Result<Option<ValueView<S::View<'_>>>, Error> {
        let Some(object) = self.unless_lost(key, || self.objects.view(key))? else {
            return Ok(None);
        };
        let deadline_ms = {
            let first = object.first_piece();
            decode_prefix(first.first_chunk().ok_or(Error::NotAValue)?)?
        };
        if !self.has_passed(deadline_ms) {
            return Ok(Some(ValueView { object }));
        }
        self.remove_expired(key, object.version())?;
        Ok(None)
    }
}

impl<V: View> ValueView<V> {
    /// The value; copied, if it does not lie together.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self.object.bytes() {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[PREFIX_BYTES..]),
            Cow::Owned(mut bytes) => {
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
