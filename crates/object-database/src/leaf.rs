//! Leaves of an index.
//!
//! ```text
//! leaf  greatest version of a deleted row (8) | right leaf (8) | its first key | own first key
//!       | keys
//! ```
//!
//! All numbers are little-endian, and keys are the words of [`OrderedKey`]s. A leaf without one to
//! its right has [`LeafId::FIRST`] there, which is nobody's right one.

use tombolo_database::{OrderedKey, Version};

/// The number of a leaf within its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LeafId(pub(crate) u64);

impl LeafId {
    /// The leaf with the smallest keys. It is never removed.
    pub(crate) const FIRST: Self = Self(0);
}

/// Keys that each leaf has room for.
const LEAST_KEYS: usize = 2;

/// The keys of a stretch of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// The leaf is for keys from here on.
    pub(crate) low: OrderedKey,
    /// The next leaf, and the first key that it is for; `None` if there is none.
    pub(crate) right: Option<(OrderedKey, LeafId)>,
    /// At least the version of each row that was deleted from here.
    pub(crate) newest_gone: Version,
    /// In order.
    pub(crate) keys: Vec<OrderedKey>,
}

impl Leaf {
    /// The only leaf of an empty table.
    pub(crate) fn first() -> Self {
        let low = OrderedKey::from_words(&[0]);
        Self { low, right: None, newest_gone: Version::default(), keys: Vec::new() }
    }

    /// Adds a key; whether it was not there.
    pub(crate) fn insert(&mut self, key: OrderedKey) -> bool {
        let at = self.keys.binary_search(&key);
        at.is_err_and(|at| {
            self.keys.insert(at, key);
            true
        })
    }

    /// Removes a key; whether it was there.
    pub(crate) fn remove(&mut self, key: &OrderedKey) -> bool {
        self.keys.binary_search(key).map(|at| self.keys.remove(at)).is_ok()
    }

    /// Whether its keys, of `width` words each, take more than so many bytes.
    pub(crate) fn is_longer(&self, bytes: usize, width: usize) -> bool {
        self.keys.len() > LEAST_KEYS.max(bytes / (8 * width))
    }

    /// Gives the upper half of its keys to a new leaf on its right: only the last key, if that was
    /// added just now, since keys are often added in their order.
    pub(crate) fn split(&mut self, right: LeafId, added: &OrderedKey) -> Self {
        let is_last = self.keys.last() == Some(added);
        let keep = if is_last { self.keys.len() - 1 } else { self.keys.len() / 2 };
        let keys = self.keys.split_off(keep);
        let low = keys[0];
        let leaf = Self { low, right: self.right, newest_gone: self.newest_gone, keys };
        self.right = Some((low, right));
        leaf
    }

    /// Takes over what the leaf on its right is for, which is empty.
    pub(crate) fn absorb(&mut self, right: &Self) {
        self.right = right.right;
        self.newest_gone = self.newest_gone.max(right.newest_gone);
    }

    pub(crate) fn encode(&self, width: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + 8 * width * (2 + self.keys.len()));
        let (high, right) = self.right.unwrap_or((OrderedKey::END, LeafId::FIRST));
        bytes.extend(self.newest_gone.0.to_le_bytes());
        bytes.extend(right.0.to_le_bytes());
        for key in [&high, &self.low].into_iter().chain(&self.keys) {
            key.words(width).iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        }
        bytes
    }

    /// `None` if these are not the bytes of a leaf.
    pub(crate) fn decode(bytes: &[u8], width: usize) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (&[newest_gone, right], keys) = words.split_first_chunk()?;
        if !rest.is_empty() || !keys.len().is_multiple_of(width) {
            return None;
        }
        let mut keys = keys.chunks_exact(width).map(OrderedKey::from_words);
        let (high, low) = (keys.next()?, keys.next()?);
        let right = Some((high, LeafId(right))).filter(|(_, right)| *right != LeafId::FIRST);
        Some(Self { low, right, newest_gone: Version(newest_gone), keys: keys.collect() })
    }
}

#[cfg(test)]
mod tests {
    use tombolo_database::key_width;

    use super::*;

    fn key(number: u16) -> OrderedKey {
        OrderedKey::new(&number.to_be_bytes(), key_width(2))
    }

    fn full() -> Leaf {
        let mut leaf = Leaf::first();
        leaf.newest_gone = Version(77);
        let mut number = 0;
        while !leaf.is_longer(1 << 10, 1) {
            assert!(leaf.insert(key(number)));
            number += 2;
        }
        leaf
    }

    #[test]
    fn leaves_read_back() {
        let mut leaf = full();
        assert_eq!(Leaf::decode(&leaf.encode(1), 1), Some(leaf.clone()));
        let right = leaf.split(LeafId(9), &key(0));
        assert_eq!(Leaf::decode(&leaf.encode(1), 1), Some(leaf));
        assert_eq!(Leaf::decode(&right.encode(1), 1), Some(right));
        assert_eq!(Leaf::decode(&Leaf::first().encode(3), 3), Some(Leaf::first()));
    }

    #[test]
    fn what_is_no_leaf_is_refused() {
        let bytes = full().encode(2);
        assert!((0..32).all(|cut| Leaf::decode(&bytes[..cut], 2).is_none() || cut == 48));
        assert!(Leaf::decode(&bytes[..bytes.len() - 8], 2).is_none());
    }

    #[test]
    fn a_split_leaves_each_key_in_one_half() {
        let whole = full();
        for added in [whole.keys[1], *whole.keys.last().unwrap()] {
            let mut left = whole.clone();
            let right = left.split(LeafId(5), &added);
            assert_eq!(left.right, Some((right.keys[0], LeafId(5))));
            assert_eq!([&left.keys[..], &right.keys].concat(), whole.keys);
            assert_eq!((right.right, right.newest_gone), (None, Version(77)));
        }
        let mut left = whole.clone();
        assert_eq!(left.split(LeafId(5), whole.keys.last().unwrap()).keys.len(), 1);
    }

    #[test]
    fn keys_come_and_go_once() {
        let mut leaf = full();
        let before = leaf.clone();
        assert!(!leaf.insert(key(2)) && !leaf.remove(&key(1)));
        assert!(leaf.insert(key(1)) && leaf.remove(&key(1)));
        assert_eq!(leaf, before);
    }

    #[test]
    fn an_empty_leaf_is_taken_over_by_the_one_before() {
        let mut left = full();
        let mut right = left.split(LeafId(5), &key(0));
        right.right = Some((key(900), LeafId(6)));
        right.newest_gone = Version(100);
        right.keys.clear();
        left.absorb(&right);
        assert_eq!((left.right, left.newest_gone), (Some((key(900), LeafId(6))), Version(100)));
    }
}
