//! Which value goes next: a sample of this host's index, of which the best is taken.
//!
//! Samples go on where the last one ended, in the order of hashes. So each object is looked at once
//! in a while, and none twice before the others.
//!
//! The best ones of earlier samples stay candidates. So what goes is close to what an exact order
//! of all values would choose, with no order kept.

use std::sync::Mutex;

use tombolo_sharing::{EvictionPolicy, Resident};

use super::uses::Uses;

/// Objects that are looked at for each one that goes.
pub(crate) const SAMPLE: usize = 16;
/// Of those with a deadline: a look at one takes a read.
pub(crate) const VOLATILE_SAMPLE: usize = 8;

/// Steps through the index for a sample, at most: where objects are few, most find none.
pub(crate) const STEPS: usize = 1 << 14;

/// Candidates that stay for the next time.
const MOST_CANDIDATES: usize = 32;

/// An object, and its place in the order in which values go: the least one goes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) rank: u64,
    pub(crate) resident: Resident,
}

/// The facts that order values.
#[derive(Clone, Copy)]
pub(crate) struct Looked<'a> {
    pub(crate) uses: &'a Uses,
    pub(crate) random: u64,
    /// When it expires, where that matters.
    pub(crate) deadline_ms: u64,
}

/// The place of a value in the order of a policy.
pub(crate) fn rank(policy: EvictionPolicy, hash: u32, looked: Looked<'_>) -> u64 {
    use EvictionPolicy as P;
    match policy {
        P::AllKeysLru | P::VolatileLru => looked.uses.last_use(hash),
        P::AllKeysLfu | P::VolatileLfu => looked.uses.frequency(hash),
        P::VolatileTtl => looked.deadline_ms,
        P::NoEviction | P::AllKeysRandom | P::VolatileRandom => looked.random,
    }
}

/// The candidates of a host, shared by its threads. No memory of a pod is used while it is locked.
#[derive(Default)]
pub(crate) struct Candidates(Mutex<(EvictionPolicy, Vec<Candidate>)>);

impl Candidates {
    /// Adds a sample, and takes the candidate out that goes first by `policy`.
    pub(crate) fn take(&self, policy: EvictionPolicy, sample: &[Candidate]) -> Option<Candidate> {
        let mut guard = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (of, candidates) = &mut *guard;
        if *of != policy {
            (*of, *candidates) = (policy, Vec::new());
        }
        for new in sample {
            match candidates.iter_mut().find(|known| known.resident.slot == new.resident.slot) {
                Some(known) => *known = *new,
                None => candidates.push(*new),
            }
        }
        // The last one goes first.
        candidates.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.rank));
        let first = candidates.pop();
        let others = candidates.len().saturating_sub(MOST_CANDIDATES);
        candidates.drain(..others);
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(slot: u64, rank: u64) -> Candidate {
        Candidate { rank, resident: Resident { hash: 0, generation: 1, slot, bytes: 64 } }
    }

    #[test]
    fn the_least_goes_first_and_others_stay() {
        let candidates = Candidates::default();
        let policy = EvictionPolicy::AllKeysLru;
        let take = |sample: &[Candidate]| {
            candidates.take(policy, sample).map(|candidate| candidate.resident.slot)
        };
        assert_eq!(take(&[]), None);
        assert_eq!(take(&[candidate(1, 30), candidate(2, 10), candidate(3, 20)]), Some(2));
        assert_eq!(take(&[candidate(4, 25)]), Some(3));
        // It was used since.
        assert_eq!(take(&[candidate(4, 40)]), Some(1));
        assert_eq!((take(&[]), take(&[])), (Some(4), None));
        let many: Vec<_> = (0..100).map(|slot| candidate(slot, slot)).collect();
        assert_eq!(take(&many), Some(0));
        let left = std::iter::from_fn(|| take(&[])).collect::<Vec<_>>();
        assert_eq!(left, (1..=MOST_CANDIDATES as u64).collect::<Vec<_>>());
    }

    #[test]
    fn another_policy_begins_anew() {
        let candidates = Candidates::default();
        let sample = [candidate(1, 1), candidate(2, 2)];
        assert!(candidates.take(EvictionPolicy::AllKeysLru, &sample).is_some());
        assert!(candidates.take(EvictionPolicy::AllKeysLfu, &[]).is_none());
    }
}
