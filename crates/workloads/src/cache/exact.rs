//! An exact order by last use: what approximations are compared with.

use std::collections::{BTreeMap, HashMap};

/// How many were found, of how many that were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Accesses that asked for a value.
    pub gets: u64,
    /// Those that found it.
    pub hits: u64,
    /// Bytes of values that were asked for.
    pub get_bytes: u64,
    /// Bytes of those that were found.
    pub hit_bytes: u64,
}

impl Rates {
    /// Counts an access.
    pub fn count(&mut self, value_bytes: u64, hit: bool) {
        self.gets += 1;
        self.get_bytes += value_bytes;
        self.hits += u64::from(hit);
        self.hit_bytes += if hit { value_bytes } else { 0 };
    }

    /// The part of accesses that found their value.
    pub fn by_requests(&self) -> f64 {
        self.hits as f64 / self.gets.max(1) as f64
    }

    /// The part of bytes that were found.
    pub fn by_bytes(&self) -> f64 {
        self.hit_bytes as f64 / self.get_bytes.max(1) as f64
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            gets: self.gets + other.gets,
            hits: self.hits + other.hits,
            get_bytes: self.get_bytes + other.get_bytes,
            hit_bytes: self.hit_bytes + other.hit_bytes,
        }
    }
}

/// A cache of a fixed room, from which what was used least recently goes.
pub struct ExactLru {
    room: u64,
    used: u64,
    /// The last use of each key, and the room that its value takes.
    held: HashMap<u64, (u64, u64)>,
    by_use: BTreeMap<u64, u64>,
    now: u64,
}

impl ExactLru {
    /// An empty cache with this much room, in whatever unit.
    pub fn new(room: u64) -> Self {
        Self { room, used: 0, held: HashMap::new(), by_use: BTreeMap::new(), now: 0 }
    }

    /// Uses the value of `key`; whether it is there.
    pub fn get(&mut self, key: u64) -> bool {
        let Some(&(_, room)) = self.held.get(&key) else { return false };
        self.put(key, room);
        true
    }

    /// Puts a value that takes this much room. One that takes more than there is is not kept.
    pub fn put(&mut self, key: u64, room: u64) {
        self.delete(key);
        if room > self.room {
            return;
        }
        while self.used + room > self.room {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            let (_, freed) = self.held.remove(&oldest).unwrap_or_default();
            self.used -= freed;
        }
        self.now += 1;
        self.held.insert(key, (self.now, room));
        self.by_use.insert(self.now, key);
        self.used += room;
    }

    /// Removes the value of `key`, if there is one.
    pub fn delete(&mut self, key: u64) {
        if let Some((used, room)) = self.held.remove(&key) {
            self.by_use.remove(&used);
            self.used -= room;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by a list, whose order is that of uses.
    fn by_list(keys: &[u64], most: usize) -> u64 {
        let (mut list, mut hits) = (Vec::new(), 0);
        for key in keys {
            if let Some(at) = list.iter().position(|held| held == key) {
                list.remove(at);
                hits += 1;
            } else if list.len() == most {
                list.remove(0);
            }
            list.push(*key);
        }
        hits
    }

    #[test]
    fn it_is_what_a_list_would_be() {
        let mut dice: u64 = 1;
        let keys: Vec<u64> = std::iter::repeat_with(|| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (dice >> 40) % 50 * ((dice >> 50) % 4)
        })
        .take(5_000)
        .collect();
        for room in [1, 5, 20, 60, 500] {
            let (mut cache, mut rates) = (ExactLru::new(room), Rates::default());
            for &key in &keys {
                let hit = cache.get(key);
                rates.count(10, hit);
                if !hit {
                    cache.put(key, 1);
                }
            }
            assert_eq!(rates.hits, by_list(&keys, room as usize), "{room}");
            assert_eq!(rates.by_requests(), rates.by_bytes());
        }
    }

    #[test]
    fn large_values_take_the_room_of_several() {
        let mut cache = ExactLru::new(10);
        (0..10).for_each(|key| cache.put(key, 1));
        cache.get(0);
        cache.put(100, 8);
        let there: Vec<u64> = (0..10).filter(|&key| cache.held.contains_key(&key)).collect();
        assert_eq!(there, [0, 9]);
        cache.put(200, 11);
        assert!(!cache.get(200) && cache.get(100));
        cache.delete(100);
        assert_eq!(cache.used, 2);
    }
}
