//! The remains that this host found of others that were gone, and what became of them: facts for an
//! operator.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tombolo_pod::Stay;

/// A clean-up after a host that is gone, as the host knows that completed it. Parts of the same
/// clean-up that another host did before are not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleanup {
    /// The stay that was cleaned up after.
    pub stay: Stay,
    /// Locks of objects that the host held when it ended.
    pub locks: u64,
    /// Operations that it had under way.
    pub intents: u64,
    /// Objects that were locked, or in the host's own memory, and are whole.
    pub whole: u64,
    /// Objects whose values are lost.
    pub lost: u64,
    /// Chunks of LNR that are given back.
    pub chunks: u64,
    complete: bool,
}

/// Clean-ups that are kept until somebody takes them: one for each host there may be.
const KEPT: usize = tombolo_pod::MAX_HOSTS as usize;

/// The clean-ups that this host is at, or has completed.
#[derive(Default)]
pub(crate) struct Cleanups(Mutex<VecDeque<Cleanup>>);

impl Cleanups {
    /// Notes something of the clean-up after `stay`.
    pub(crate) fn note(&self, stay: Stay, note: impl FnOnce(&mut Cleanup)) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|cleanup| cleanup.stay == stay && !cleanup.complete);
        let at = at.unwrap_or_else(|| {
            if kept.len() >= KEPT {
                kept.pop_front();
            }
            let (locks, intents, whole, lost, chunks) = (0, 0, 0, 0, 0);
            kept.push_back(Cleanup { stay, locks, intents, whole, lost, chunks, complete: false });
            kept.len() - 1
        });
        note(&mut kept[at]);
    }

    /// Nothing of `stay` is left.
    pub(crate) fn complete(&self, stay: Stay) {
        self.note(stay, |cleanup| cleanup.complete = true);
    }

    /// Those that are complete, each once.
    pub(crate) fn take(&self) -> Vec<Cleanup> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let complete = kept.iter().copied().filter(|cleanup| cleanup.complete).collect();
        kept.retain(|cleanup| !cleanup.complete);
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleanup_is_told_of_once_and_when_it_is_complete() {
        let (cleanups, stay) = (Cleanups::default(), Stay { host: 3, number: 7 });
        cleanups.note(stay, |cleanup| cleanup.locks += 1);
        cleanups.note(stay, |cleanup| cleanup.lost += 2);
        assert_eq!(cleanups.take(), []);
        cleanups.complete(stay);
        let taken = cleanups.take();
        assert_eq!((taken.len(), taken[0].locks, taken[0].lost), (1, 1, 2));
        assert_eq!(cleanups.take(), []);
    }

    #[test]
    fn no_more_are_kept_than_there_may_be_hosts() {
        let cleanups = Cleanups::default();
        (0..1000).for_each(|number| cleanups.complete(Stay { host: 1, number }));
        assert_eq!(cleanups.take().len(), KEPT);
    }
}
