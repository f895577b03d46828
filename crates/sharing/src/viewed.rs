//! Ways of sharing whose values can be looked at where they lie.

use std::borrow::Cow;
use std::ops::Deref;

use crate::{Error, Scheme, Version};

/// A way of sharing that shows values without copying them.
pub trait Viewed: Scheme {
    /// A value that is looked at, which holds the objects by a `H`.
    type View<H: Deref<Target = Self>>: View;

    /// Views the value of `key` as it is now; `None` if there is no such object.
    ///
    /// # Errors
    /// Those of [`read`](Scheme::read), and [`Error::TooManyViews`].
    fn view_by<H: Deref<Target = Self>>(
        objects: H,
        key: &[u8],
    ) -> Result<Option<Self::View<H>>, Error>;
}

/// One version of a value, which stays as it is for as long as this is there, whatever becomes of
/// the object.
pub trait View {
    /// The version.
    fn version(&self) -> Version;

    /// Whether the value lies in one piece.
    fn is_contiguous(&self) -> bool;

    /// Length of the value in bytes.
    fn value_bytes(&self) -> u64;

    /// Copies the bytes of the value from `offset` on to `into`, as many as there are in both.
    fn copy_to(&self, offset: u64, into: &mut [u8]);

    /// The first bytes of the value: as many as lie together.
    fn first_piece(&self) -> Cow<'_, [u8]>;

    /// The value; copied, if it does not lie together.
    fn bytes(&self) -> Cow<'_, [u8]>;

    /// Ends the view. The bytes that were looked at were the value, unless this is an error.
    ///
    /// # Errors
    /// [`Error::Poisoned`]: it may not have been, because of a memory error.
    fn end(self) -> Result<(), Error>;
}
