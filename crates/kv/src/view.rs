//! Values where they lie.

use std::borrow::Cow;
use std::ops::Deref;

use tombolo_sharing::{MAX_KEY_BYTES, Scheme, Version, View, Viewed};

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

/// The objects of a store that is held by a `H`.
pub struct ObjectsOf<H>(pub(crate) H);

impl<S: Scheme, H: Deref<Target = Store<S>>> Deref for ObjectsOf<H> {
    type Target = S;

    fn deref(&self) -> &S {
        self.0.objects()
    }
}

/// A view of a value of a store that is held by a `H`.
pub type ViewBy<S, H> = ValueView<<S as Viewed>::View<ObjectsOf<H>>>;

impl<S: Viewed> Store<S> {
    /// Views the value of `key`, if it has one. A large value is not copied. A host that puts
    /// another one or deletes it does not wait for that.
    ///
    /// # Errors
    /// [`Error::NotAValue`], and those of [`Viewed::view_by`].
    pub fn view(&self, key: &[u8]) -> Result<Option<ViewBy<S, &Self>>, Error> {
        Self::view_by(self, key)
    }

    /// As [`view`](Self::view), where the view keeps `store`.
    ///
    /// # Errors
    /// Those of [`view`](Self::view).
    pub fn view_by<H: Deref<Target = Self> + Clone>(
        store: H,
        key: &[u8],
    ) -> Result<Option<ViewBy<S, H>>, Error> {
        let key = &stored(key);
        if key.len() > MAX_KEY_BYTES {
            return Ok(None);
        }
        let view = || S::view_by(ObjectsOf(store.clone()), key);
        let Some(object) = store.unless_lost(key, view)? else { return Ok(None) };
        let prefix = {
            let first = object.first_piece();
            decode_prefix(first.first_chunk().ok_or(Error::NotAValue)?)?
        };
        match prefix {
            Prefix::Far(_) => {
                store.note_use(key);
                Ok(Some(ValueView { object, behind: HIGH_BYTES }))
            }
            Prefix::Near(deadline_ms) if store.has_passed(deadline_ms) => {
                store.remove_expired(key, object.version())?;
                Ok(None)
            }
            Prefix::Near(_) => {
                store.note_use(key);
                Ok(Some(ValueView { object, behind: 0 }))
            }
        }
    }
}

impl<V: View> ValueView<V> {
    /// Whether the value lies together, so that nothing is copied to show it as one slice.
    pub fn is_contiguous(&self) -> bool {
        self.object.is_contiguous()
    }

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

    /// Length of the value in bytes.
    pub fn value_bytes(&self) -> u64 {
        self.object.value_bytes().saturating_sub((PREFIX_BYTES + self.behind) as u64)
    }

    /// Copies the first bytes of the value to `into`, as many as there are in both.
    pub fn copy_to(&self, into: &mut [u8]) {
        let count = into.len().min(self.value_bytes() as usize);
        self.object.copy_to(PREFIX_BYTES as u64, &mut into[..count]);
    }

    /// The version, as [`put_if_version`](Store::put_if_version) wants it.
    pub fn version(&self) -> Version {
        self.object.version()
    }

    /// Ends the view. The bytes that were looked at were the value, unless this is an error.
    ///
    /// # Errors
    /// As of [`View::end`].
    pub fn end(self) -> Result<(), Error> {
        Ok(self.object.end()?)
    }
}
