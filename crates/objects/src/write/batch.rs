//! Writing several objects together.

use smallvec::SmallVec;
use tombolo_memory::Memory;

use crate::host::lookup::BATCH;
use crate::write::fast::WritePlan;
use crate::{Error, Objects, Version, sites};

/// Objects that are locked, and which key and value each will have.
type Batch<'a, 'v, M> = SmallVec<[(WritePlan<'a, M>, &'v [u8], &'v [u8]); BATCH]>;

impl<M: Memory> Objects<M> {
    /// Creates the objects with these keys, or replaces their values, each as [`put`](Self::put)
    /// does, in their order; what became of each. Several together take less time than one after
    /// the other. They are not written at one instant.
    pub fn multi_put<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
    ) -> Vec<Result<Version, Error>> {
        let mut outcomes = Vec::with_capacity(pairs.len());
        let mut batch = SmallVec::new();
        for pairs in pairs.chunks(BATCH) {
            self.answer_at_once();
            let hashes: SmallVec<[_; BATCH]> =
                pairs.iter().map(|(key, _)| self.hash(key.as_ref()).ok()).collect();
            let mut candidates = self.candidates(hashes.iter().copied());
            for (candidate, (_, value)) in candidates.iter().zip(pairs) {
                let fetch = |candidate| self.fetch_candidate(candidate, value.as_ref().len());
                candidate.iter().for_each(fetch);
            }
            let versions = self.next_versions(pairs.len() as u64);
            let found = hashes.iter().zip(&mut candidates);
            for (((key, value), (hash, candidate)), number) in pairs.iter().zip(found).zip(0..) {
                let (key, value) = (key.as_ref(), value.as_ref());
                hash.iter().for_each(|&hash| self.renew(candidate, hash));
                let version = Version(versions.0 + number);
                let locked = candidate.as_ref().and_then(|candidate| {
                    let intent_slot = self.intents.reserve_for_now()?;
                    let plan = self.plan(candidate, &intent_slot, key, version, value.len())?;
                    self.take(candidate, &plan, key)?;
                    intent_slot.keep();
                    Some((plan, key, value))
                });
                match locked {
                    Some(locked) => batch.push(locked),
                    // If something is wrong, who writes it by itself says what.
                    None => {
                        self.write_together(&mut batch, &mut outcomes);
                        outcomes.push(self.put(key, value));
                    }
                }
            }
            self.write_together(&mut batch, &mut outcomes);
        }
        outcomes
    }

    /// Writes objects that are locked, and says what became of each. None is left in the batch.
    fn write_together(
        &self,
        batch: &mut Batch<'_, '_, M>,
        outcomes: &mut Vec<Result<Version, Error>>,
    ) {
        batch.iter().for_each(|(plan, ..)| self.begin_to_write(plan));
        let whole = |plan: &WritePlan<'_, M>, key, value| {
            self.memory().prepare(plan.whole(key, &[], value), false)
        };
        let values: SmallVec<[_; BATCH]> =
            batch.iter().map(|(plan, key, value)| whole(plan, key, value)).collect();
        let first = outcomes.len();
        let cleaned = batch.iter().map(|(plan, ..)| plan.dirty.count()).sum();
        self.write_and(sites::BATCH_CLEAN, &values, cleaned, || {
            let released = batch.iter().map(|(plan, ..)| self.release(plan));
            outcomes.extend(released.map(|outcome| outcome.map_err(|error| *error)));
        });
        for ((.., key, value), outcome) in batch.drain(..).zip(&mut outcomes[first..]) {
            if outcome.as_ref().is_err_and(Error::is_loss) {
                *outcome = self.put(key, value);
            }
        }
    }
}
