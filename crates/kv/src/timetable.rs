//! When the values are due that a host has put.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most there is in a timetable, in bytes: later keys are found by the walk through all keys.
const MOST_BYTES: usize = 64 << 20;
/// Memory that a key takes besides its own bytes, in bytes.
const KEY_OVERHEAD_BYTES: usize = 96;

/// Keys of objects, by the time at which their values expire. Ordered, so that a seed of the
/// simulator gives one run.
#[derive(Default)]
pub(crate) struct Timetable {
    by_time: BTreeSet<(u64, Arc<[u8]>)>,
    by_key: BTreeMap<Arc<[u8]>, u64>,
    bytes: usize,
}

impl Timetable {
    /// Adds a key. One that is there already, and due sooner, is looked at then.
    pub(crate) fn add(&mut self, key: &[u8], due_ms: u64) {
        match self.by_key.get_key_value(key) {
            Some((_, &sooner)) if sooner <= due_ms => {}
            Some((own, &later)) => {
                let own = own.clone();
                self.by_time.remove(&(later, own.clone()));
                self.insert(own, due_ms);
            }
            None if self.bytes < MOST_BYTES => {
                self.bytes += key.len() + KEY_OVERHEAD_BYTES;
                self.insert(key.into(), due_ms);
            }
            None => {}
        }
    }

    fn insert(&mut self, key: Arc<[u8]>, due_ms: u64) {
        self.by_time.insert((due_ms, key.clone()));
        self.by_key.insert(key, due_ms);
    }

    pub(crate) fn len(&self) -> usize {
        self.by_time.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    /// Takes out a key that is due.
    pub(crate) fn next(&mut self, now_ms: u64) -> Option<Arc<[u8]>> {
        if self.by_time.first()?.0 > now_ms {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        self.bytes -= key.len() + KEY_OVERHEAD_BYTES;
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_when_they_are_due() {
        let mut due = Timetable::default();
        for (key, due_ms) in [("a", 30), ("b", 10), ("c", 20), ("a", 40), ("c", 5)] {
            due.add(key.as_bytes(), due_ms);
        }
        let mut at = |now_ms| due.next(now_ms).map(|key| key.to_vec());
        assert_eq!(at(4), None);
        assert_eq!(at(15), Some(b"c".to_vec()));
        assert_eq!(at(15), Some(b"b".to_vec()));
        assert_eq!(at(15), None);
        assert_eq!(at(30), Some(b"a".to_vec()));
        assert_eq!(at(100), None);
        assert_eq!((due.by_key.len(), due.bytes), (0, 0));
    }

    #[test]
    fn a_timetable_has_a_limit() {
        let mut due = Timetable::default();
        let key = |n: usize| [&n.to_le_bytes()[..], &[0; 1000]].concat();
        let most = MOST_BYTES / (1008 + KEY_OVERHEAD_BYTES) + 1;
        (0..most + 10).for_each(|n| due.add(&key(n), n as u64));
        assert_eq!(due.by_key.len(), most);
    }
}
