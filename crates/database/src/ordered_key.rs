//! Keys as words, which compare as their bytes do: for indexes.

/// The longest key, in bytes. A line in a mailbox carries one whole.
pub const MAX_KEY_BYTES: usize = 47;

/// Words of the longest key.
pub const MAX_KEY_WORDS: usize = (MAX_KEY_BYTES + 1) / 8;

/// A key of a table whose keys take `width` words: big-endian, filled up with zeros, its length in
/// the last byte. So words compare as bytes do: of two keys that differ in trailing zeros alone,
/// the shorter one is smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderedKey([u64; MAX_KEY_WORDS]);

/// How many words a key of up to `bytes` bytes takes.
pub const fn key_width(bytes: u16) -> usize {
    (bytes as usize + 1).div_ceil(8)
}

impl OrderedKey {
    /// The end of a partition: greater than all keys.
    pub const END: Self = Self([u64::MAX; MAX_KEY_WORDS]);

    /// The key with these bytes.
    ///
    /// # Panics
    /// If they do not fit into `width` words.
    pub fn new(bytes: &[u8], width: usize) -> Self {
        let last = 8 * width - 1;
        assert!(bytes.len() <= last, "a key of {} bytes in {width} words", bytes.len());
        let mut padded = [0; 8 * MAX_KEY_WORDS];
        padded[..bytes.len()].copy_from_slice(bytes);
        padded[last] = bytes.len() as u8;
        Self(std::array::from_fn(|word| {
            u64::from_be_bytes(padded[8 * word..][..8].try_into().expect("8 bytes"))
        }))
    }

    /// The key whose first words these are.
    pub fn from_words(words: &[u64]) -> Self {
        if words.first() == Some(&u64::MAX) && words.iter().all(|&word| word == u64::MAX) {
            return Self::END;
        }
        let mut key = [0; MAX_KEY_WORDS];
        key[..words.len()].copy_from_slice(words);
        Self(key)
    }

    /// Its first `width` words.
    #[inline]
    pub fn words(&self, width: usize) -> &[u64] {
        &self.0[..width]
    }

    /// Its bytes, in `buffer`.
    ///
    /// # Panics
    /// If it is [`Self::END`].
    pub fn bytes<'a>(&self, width: usize, buffer: &'a mut [u8; 8 * MAX_KEY_WORDS]) -> &'a [u8] {
        assert!(*self != Self::END, "the end of a partition has no bytes");
        for (bytes, word) in buffer.chunks_mut(8).zip(self.0) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        &buffer[..usize::from(buffer[8 * width - 1])]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_compare_as_bytes_do(
            one in prop::collection::vec(prop::num::u8::ANY, 0..16),
            other in prop::collection::vec(0..3u8, 0..16),
            third in prop::collection::vec(0..3u8, 0..16),
        ) {
            let key = |bytes: &[u8]| OrderedKey::new(bytes, key_width(16));
            prop_assert_eq!(one.cmp(&other), key(&one).cmp(&key(&other)));
            prop_assert_eq!(third.cmp(&other), key(&third).cmp(&key(&other)));
            prop_assert!(key(&one) < OrderedKey::END);
        }

        #[test]
        fn keys_read_back(bytes in prop::collection::vec(prop::num::u8::ANY, 0..=MAX_KEY_BYTES)) {
            let width = key_width(MAX_KEY_BYTES as u16);
            let key = OrderedKey::new(&bytes, width);
            let mut buffer = [0; 8 * MAX_KEY_WORDS];
            prop_assert_eq!(key.bytes(width, &mut buffer), &bytes[..]);
            prop_assert_eq!(OrderedKey::from_words(key.words(width)), key);
        }
    }

    #[test]
    fn short_keys_take_a_word() {
        assert_eq!(
            (key_width(4), key_width(7), key_width(8), key_width(MAX_KEY_BYTES as u16)),
            (1, 1, 2, MAX_KEY_WORDS)
        );
        assert_eq!(OrderedKey::from_words(&[u64::MAX]), OrderedKey::END);
    }
}
