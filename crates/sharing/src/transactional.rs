//! Changing several objects in one step.

use std::collections::BTreeMap;

use crate::{Error, Scheme, Version};

/// The reads of a transaction: the version of each object that it has read, or that there was
/// none.
pub type Reads = BTreeMap<Vec<u8>, Option<Version>>;

/// The writes of a transaction: the value of each object that it has put, and nothing of those
/// that it has deleted.
pub type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A way of sharing that has transactions.
pub trait Transactional: Scheme {
    /// Makes all of `writes` at one instant, if then all of `reads` is still so and `still` says
    /// so; whether it was. On a conflict, and on an error, nothing was changed. `still` may be
    /// called while objects are locked: it uses none.
    ///
    /// # Errors
    /// [`Error::Busy`] if an object stayed in use; [`Error::Fenced`]: all was done, or nothing.
    /// [`Error::Lost`] or [`Error::Poisoned`] if the value of an object is gone that is written and
    /// was not read: a transaction that may come to nothing does not end that;
    /// [`Scheme::forget_lost`] does. Those of [`Scheme::put`].
    fn transact(
        &self,
        reads: &Reads,
        writes: &Writes,
        still: &dyn Fn() -> bool,
    ) -> Result<bool, Error>;

    /// A count that grows with each removal of an object with `key` that this host knows of, and
    /// now and then without one. Absence has no version: that an object is still not there does not
    /// say that it was not there in between.
    ///
    /// # Errors
    /// [`Error::KeyLength`].
    fn removals(&self, key: &[u8]) -> Result<u64, Error>;
}
