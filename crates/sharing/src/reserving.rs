//! Ways of sharing that give out room for a value before it is there.

use std::ops::Deref;

use crate::{Error, Scheme, Version};

/// A way of sharing that gives out room, to be filled and published.
pub trait Reserving: Scheme {
    /// Room for a value, which holds the objects by a `H`. Dropping it gives it back.
    type Room<H: Deref<Target = Self>>: Room;

    /// Reserves room for a value of `head` and so many bytes behind it.
    ///
    /// # Errors
    /// [`Error::TooManyReservations`]; those of [`create`](Scheme::create), but for
    /// [`Error::Exists`].
    fn reserve_by<H: Deref<Target = Self>>(
        objects: H,
        key: &[u8],
        head: &[u8],
        bytes: u64,
    ) -> Result<Self::Room<H>, Error>;
}

/// Room for a value, which no host sees before it is published.
pub trait Room {
    /// Bytes that can be filled.
    fn len(&self) -> u64;

    /// Whether there is nothing to be filled.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes into the room, from `offset` on. They are in memory when this returns.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error>;

    /// The room itself, to be filled in place; `None` if it does not lie in one piece, or cannot
    /// be looked into.
    fn bytes_mut(&mut self) -> Option<&mut [u8]>;

    /// Makes the room the value of its key, whatever that had before.
    ///
    /// # Errors
    /// Those of [`put`](Scheme::put).
    fn publish(self) -> Result<Version, Error>;

    /// The same, if the key has no value.
    ///
    /// # Errors
    /// [`Error::Exists`], and those of [`put`](Scheme::put).
    fn publish_new(self) -> Result<Version, Error>;
}
