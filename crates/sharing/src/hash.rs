//! Hashes of keys.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline, rapidhash_v3_nano_inline};
use tombolo_memory::Memory;
use tombolo_pod::Pod;

use crate::{Error, MAX_KEY_BYTES};

/// Up to this length all variants of rapidhash V3 are alike, but the full one can be written in
/// place: less to be done before a key is looked for.
const ALIKE_BYTES: usize = 48;

/// How a pod's keys are hashed: by rapidhash V3 nano, with multipliers that follow from the pod's
/// secret, so that nobody can make keys collide from outside.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher(RapidSecrets);

impl KeyHasher {
    /// That of a pod with this secret.
    pub fn new((k0, k1): (u64, u64)) -> Self {
        Self(RapidSecrets { seed: RapidSecrets::seed(k1).seed, ..RapidSecrets::seed(k0) })
    }

    /// That of `pod`.
    pub fn of<M: Memory>(pod: &Pod<M>) -> Self {
        Self::new(pod.identity().hash_key)
    }

    /// The hash of a key.
    ///
    /// # Errors
    /// [`Error::KeyLength`].
    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> Result<u64, Error> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(Error::KeyLength { bytes: key.len() });
        }
        if key.len() <= ALIKE_BYTES {
            return Ok(rapidhash_v3_inline::<true, true, false>(key, &self.0));
        }
        Ok(rapidhash_v3_nano_inline::<true, false>(key, &self.0))
    }
}

/// The hash of one key in this pod.
///
/// # Errors
/// [`Error::KeyLength`].
pub fn hash_key<M: Memory>(pod: &Pod<M>, key: &[u8]) -> Result<u64, Error> {
    KeyHasher::of(pod).hash(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts with different versions of this program must agree.
    #[test]
    fn hashes_are_those_of_the_format() {
        let hasher = KeyHasher::new((0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210));
        let key: Vec<u8> = (0..=255).cycle().take(MAX_KEY_BYTES).collect();
        let hashes = [1, 3, 4, 8, 16, 17, 24, 32, 33, 48, 49, 96, 97, 1024]
            .map(|length| hasher.hash(&key[..length]).unwrap());
        let expected = [
            0xca6a_9404_023a_6c20,
            0xf9ae_c884_bc34_8efa,
            0x8f52_3194_02f2_37d4,
            0xea77_b499_43ea_1ff8,
            0x93e4_5617_73ce_9561,
            0x5893_705e_52f0_f1de,
            0xb25b_8a36_17e3_4ab2,
            0x1f4f_7f2c_a7c7_2ada,
            0xc11d_f69e_942b_c7b5,
            0x6279_5bad_1820_f1a7,
            0xb3b9_b96c_37f2_9a94,
            0x7146_5f19_597a_f220,
            0x9386_39ab_3cd3_d64c,
            0xab9e_15a3_f133_593e,
        ];
        assert_eq!(hashes, expected);
        assert!(hasher.hash(&[]).is_err() && hasher.hash(&[0; MAX_KEY_BYTES + 1]).is_err());
    }

    #[test]
    fn short_keys_have_the_hash_that_long_ones_have() {
        let hasher = KeyHasher::new((3, 4));
        for length in 1..=ALIKE_BYTES {
            let key: Vec<u8> = (0..length as u8).collect();
            let nano = rapidhash_v3_nano_inline::<true, false>(&key, &hasher.0);
            assert_eq!(hasher.hash(&key).unwrap(), nano, "{length} bytes");
        }
    }

    #[test]
    fn both_halves_of_the_secret_count() {
        let hash = |secret| KeyHasher::new(secret).hash(b"a key of 24 bytes, as is").unwrap();
        let hashes = [(1, 1), (1, 2), (2, 1), (2, 2)].map(hash);
        assert!(hashes.iter().all(|one| hashes.iter().filter(|other| *other == one).count() == 1));
    }
}
