//! Values that a store removes by itself, and the hook that is told of them.

use std::sync::{Arc, PoisonError, RwLock};

use tombolo_sharing::Scheme;

use crate::Store;
use crate::key::original;

/// Why a host has removed a value that nobody has asked it to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removal {
    /// Its deadline had passed.
    Expired,
    /// There was no room, and the pod's policy let it go.
    Evicted,
}

/// Called with the key of each value that this host removes by itself, when that is done. It may
/// use the store, and is called by whichever thread has removed the value.
pub type RemovalHook = Arc<dyn Fn(Removal, &[u8]) + Send + Sync>;

/// The hook, if there is one.
#[derive(Default)]
pub(crate) struct Hook(RwLock<Option<RemovalHook>>);

impl Hook {
    /// Tells of the value that the object with the key `stored` has held.
    pub(crate) fn tell(&self, removal: Removal, stored: &[u8]) {
        // It may use the store, so it is not called under the lock.
        let hook = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        hook.iter().for_each(|hook| hook(removal, original(stored)));
    }
}

impl<S: Scheme> Store<S> {
    /// Has `hook` told of each value that this host removes by itself, in place of an earlier hook.
    /// Other hosts' removals are theirs to tell.
    pub fn on_removal(&self, hook: RemovalHook) {
        *self.removal_hook.0.write().unwrap_or_else(PoisonError::into_inner) = Some(hook);
    }
}
