//! Keys of values, and the keys of the objects that hold them.
//!
//! An object's key has at least one byte, and a value's may be empty. The empty key is stored as
//! [`MARK`], and a key that begins with the mark has the mark in front of it once more. So no two
//! keys are stored alike.

use std::borrow::Cow;

/// Not the start of any text in UTF-8.
const MARK: &[u8] = b"\xff\0kv";

/// Whether `key` is stored under another one.
#[inline(always)]
pub(crate) fn is_marked(key: &[u8]) -> bool {
    match key.first() {
        None => true,
        Some(first) => *first == MARK[0] && key.starts_with(MARK),
    }
}

/// The key of the object that holds the value of `key`.
#[inline(always)]
pub(crate) fn stored(key: &[u8]) -> Cow<'_, [u8]> {
    if is_marked(key) { marked(key) } else { Cow::Borrowed(key) }
}

#[cold]
fn marked(key: &[u8]) -> Cow<'_, [u8]> {
    Cow::Owned([MARK, key].concat())
}

/// The key whose value the object with this key holds.
pub(crate) fn original(stored: &[u8]) -> &[u8] {
    stored.strip_prefix(MARK).unwrap_or(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_an_object_of_its_own() {
        let keys: [&[u8]; 6] = [b"", b"k", b"\xff", MARK, b"\xff\0kvk", b"\xff\0kv\xff\0kv"];
        for (number, key) in keys.iter().enumerate() {
            let own = stored(key);
            assert!(!own.is_empty());
            assert_eq!(original(&own), *key);
            assert!(keys[..number].iter().all(|other| stored(other) != own));
        }
    }
}
