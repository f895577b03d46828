//! Hashes of keys.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use tombolo_memory::Memory;
use tombolo_pod::Pod;

use crate::{Error, MAX_KEY_BYTES};

/// The hash of a key in this pod: keyed, so that nobody can make keys collide from outside.
///
/// # Errors
/// [`Error::KeyLength`].
#[inline]
pub fn hash_key<M: Memory>(pod: &Pod<M>, key: &[u8]) -> Result<u64, Error> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(Error::KeyLength { bytes: key.len() });
    }
    let (k0, k1) = pod.identity().hash_key;
    let mut hasher = SipHasher13::new_with_keys(k0, k1);
    hasher.write(key);
    Ok(hasher.finish())
}
