//! Names of the objects that a file consists of in the pod.
//!
//! ```text
//! key   inode (8 bytes) | born (8) | number of the page, or all ones for the head (8)
//! ```

use crate::FileId;

const HEAD: u64 = u64::MAX;

/// Bytes of a key.
pub const KEY_BYTES: usize = 24;

/// Which page of which file an object is, or the head of which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub(crate) file: FileId,
    block: u64,
}

impl Key {
    pub(crate) fn head(file: FileId) -> Self {
        Self { file, block: HEAD }
    }

    pub(crate) fn page(file: FileId, block: u64) -> Self {
        Self { file, block }
    }

    /// The number of the page; `None` if it is a head.
    pub(crate) fn block(&self) -> Option<u64> {
        (self.block != HEAD).then_some(self.block)
    }

    pub(crate) fn bytes(&self) -> [u8; KEY_BYTES] {
        let mut bytes = [0; KEY_BYTES];
        bytes[..8].copy_from_slice(&self.file.inode.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.file.born.to_le_bytes());
        bytes[16..].copy_from_slice(&self.block.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; KEY_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| Some(u64::from_le_bytes(*bytes[at..].first_chunk()?));
        Some(Self { file: FileId { inode: word(0)?, born: word(8)? }, block: word(16)? })
    }

    /// A byte that all keys of a file have in common, and few of other files.
    pub(crate) fn tag(&self) -> u8 {
        Self::head(self.file).mixed() as u8
    }

    /// A number that differs for different keys, mostly in its low bits.
    pub(crate) fn mixed(&self) -> u64 {
        let mut mixed = self.file.inode ^ self.file.born.rotate_left(32);
        for word in [self.block, 0] {
            mixed = (mixed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^= mixed >> 29;
        }
        mixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_encoding() {
        let file = FileId { inode: 7, born: 1 << 60 };
        for key in [Key::head(file), Key::page(file, 0), Key::page(file, 1 << 40)] {
            assert_eq!(Key::decode(&key.bytes()), Some(key));
        }
        assert_eq!(Key::head(file).block(), None);
        assert_eq!(Key::decode(b"something else"), None);
    }
}
