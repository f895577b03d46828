//! Views and rooms that keep their host in the pod, and can be sent anywhere.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use tombolo_kv::{ValueRoom, ViewBy as ValueViewBy};
use tombolo_memory::Mapped;
use tombolo_objects::{ReservationBy, Version, ViewBy};

use crate::{Error, Objects, Store, StoreError};

/// A view that can be kept, and sent to another thread or task. It shows one version of a value,
/// whatever becomes of the object, and keeps the value's room in the pod until it is dropped. The
/// host stays in the pod for as long.
///
/// With the feature `bytes` it turns into a `bytes::Bytes` without a copy.
#[must_use = "it holds room in the pod as long as it is there"]
pub struct OwnedView<V: Shown> {
    view: V,
    /// The value, if it lies in several pieces.
    copy: Option<Vec<u8>>,
}

/// An owned view of an object.
pub type ObjectView = OwnedView<ViewBy<Objects, Mapped>>;

/// An owned view of a value of a store.
pub type StoreView = OwnedView<ValueViewBy<tombolo_objects::Objects<Mapped>, Store>>;

/// Room for an object that can be kept, and sent to another thread. Dropping it gives it back.
pub type ObjectRoom = ReservationBy<Objects, Mapped>;

/// Room for a value of a store that can be kept, and sent to another thread. Dropping it gives it
/// back.
pub type StoreRoom = ValueRoom<tombolo_objects::Objects<Mapped>, Store>;

/// The kinds of views that an [`OwnedView`] can hold.
pub trait Shown {
    /// The errors at its end.
    type Error;

    /// The value.
    fn shown(&self) -> Cow<'_, [u8]>;

    /// The value's version.
    fn version(&self) -> Version;

    /// Ends the view.
    ///
    /// # Errors
    /// If the memory that was looked at has an error.
    fn end(self) -> Result<(), Self::Error>;
}

macro_rules! shown {
    ($view:ty, $error:ty) => {
        impl Shown for $view {
            type Error = $error;

            fn shown(&self) -> Cow<'_, [u8]> {
                self.bytes()
            }

            fn version(&self) -> Version {
                Self::version(self)
            }

            fn end(self) -> Result<(), $error> {
                Self::end(self)
            }
        }
    };
}

shown!(ViewBy<Objects, Mapped>, Error);
shown!(ValueViewBy<tombolo_objects::Objects<Mapped>, Store>, StoreError);

impl<V: Shown> OwnedView<V> {
    pub(crate) fn new(view: V) -> Self {
        let copy = match view.shown() {
            Cow::Borrowed(_) => None,
            Cow::Owned(bytes) => Some(bytes),
        };
        Self { view, copy }
    }

    /// The version of the value.
    pub fn version(&self) -> Version {
        self.view.version()
    }

    /// Whether the value is shown where it lies in the pod, or as a copy because it lies in several
    /// pieces there. (A small value is always a copy.)
    pub fn is_contiguous(&self) -> bool {
        self.copy.is_none()
    }

    /// Ends the view. The bytes that were looked at were the value, unless this is an error.
    ///
    /// # Errors
    /// If this host has met a memory error there.
    pub fn end(self) -> Result<(), V::Error> {
        self.view.end()
    }
}

impl<V: Shown> AsRef<[u8]> for OwnedView<V> {
    fn as_ref(&self) -> &[u8] {
        match (&self.copy, self.view.shown()) {
            (Some(copy), _) => copy,
            (None, Cow::Borrowed(bytes)) => bytes,
            (None, Cow::Owned(_)) => unreachable!("a view that copies has a copy"),
        }
    }
}

impl<V: Shown> Deref for OwnedView<V> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

impl<V: Shown> fmt::Debug for OwnedView<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedView of {} bytes", self.len())
    }
}

#[cfg(feature = "bytes")]
impl<V: Shown + Send + 'static> From<OwnedView<V>> for bytes::Bytes {
    fn from(view: OwnedView<V>) -> Self {
        Self::from_owner(view)
    }
}
