//! The names of keys.

use crate::{InsertOrder, Workload};

/// Digits of the largest hash, 2^63.
const HASH_DIGITS: u32 = 19;

impl Workload {
    /// Writes the key of record `number` into `key`, in place of what it holds.
    ///
    /// As in YCSB, this is `user` and the number or, in hashed order, its hash, with zeros between
    /// them up to `zeropadding` digits. More zeros follow if the key would be shorter than
    /// `keylength`, and `keyprefix` stands in for `user`.
    ///
    /// Hashes can collide: two of `n` records share a key with a probability of about n² / 2^64,
    /// which is 0.00003 for 24 million.
    pub fn key(&self, number: u64, key: &mut Vec<u8>) {
        let mut rest = match self.insert_order {
            InsertOrder::Hashed => hash(number),
            InsertOrder::Ordered => number,
        };
        let prefix = self.key_prefix.as_bytes();
        let digits = digits(rest).max(self.min_digits());
        key.clear();
        key.extend_from_slice(prefix);
        key.resize(prefix.len() + digits as usize, b'0');
        for byte in key[prefix.len()..].iter_mut().rev() {
            *byte = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }

    /// The length of the longest key of this workload, in bytes, inserted records included (as long
    /// as hosts that share the inserts get about equally far).
    pub fn longest_key_bytes(&self) -> u32 {
        self.unpadded_key_bytes().max(self.prefix_bytes().saturating_add(self.min_digits()))
    }

    /// The same, without any zeros in front.
    pub(crate) fn unpadded_key_bytes(&self) -> u32 {
        self.prefix_bytes().saturating_add(match self.insert_order {
            InsertOrder::Hashed => HASH_DIGITS,
            InsertOrder::Ordered => digits(self.last_number()),
        })
    }

    /// The highest number any record gets, if every operation that may insert does.
    fn last_number(&self) -> u64 {
        let inserted = match self.proportions.insert {
            0.0 => 0,
            _ => self.operation_count.unwrap_or(crate::MAX_RECORDS),
        };
        self.record_count.saturating_add(inserted) - 1
    }

    fn min_digits(&self) -> u32 {
        self.zero_padding.max(self.key_length_bytes.saturating_sub(self.prefix_bytes()))
    }

    fn prefix_bytes(&self) -> u32 {
        u32::try_from(self.key_prefix.len()).unwrap_or(u32::MAX)
    }
}

fn digits(number: u64) -> u32 {
    number.checked_ilog10().map_or(1, |log| log + 1)
}

/// YCSB's hash: 64-bit FNV-1a over the bytes of the number, the lowest first, and then the absolute
/// value of what that is as a signed number.
pub fn hash(number: u64) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    let hash = number.to_le_bytes().into_iter().fold(OFFSET_BASIS, fold);
    hash.cast_signed().unsigned_abs()
}
