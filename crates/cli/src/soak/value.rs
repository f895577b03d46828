//! Values that tell, in every word, which write made it.
//!
//! A value is words of eight bytes: a front half that names one write, and a back half that names
//! one. They differ only if the last write was of the back half alone. How many words there are
//! follows from the front.

use std::fmt;

use serde::{Deserialize, Serialize};
use tombolo_verify::models::Accumulate;

const WORD: usize = size_of::<u64>();

/// Words of half a value: from one line to more than a host freshens at once, and, now and then,
/// more than the chunks of a small pod hold.
const HALVES: [usize; 8] = [1, 3, 9, 20, 2, 60, 700, 100];
const LARGE_HALF: usize = 5_000;
const LARGE_EVERY: u64 = 32;

/// The longest value in bytes.
pub(super) const LONGEST: usize = 2 * LARGE_HALF * WORD;

const COUNT_BITS: u32 = 32;
const THREAD_BITS: u32 = 8;

/// Names a write: by the life of the process that did it, the thread, and a count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Tag(u64);

impl Tag {
    pub(super) fn first(life: u32, thread: u32) -> Self {
        Self((u64::from(life) << THREAD_BITS | u64::from(thread)) << COUNT_BITS)
    }

    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    fn count(self) -> u64 {
        self.0 & ((1 << COUNT_BITS) - 1)
    }

    fn half(self) -> usize {
        let count = self.count();
        let large = count % LARGE_EVERY == LARGE_EVERY - 1;
        if large { LARGE_HALF } else { HALVES[count as usize % HALVES.len()] }
    }

    /// The bytes of a value that this write makes whole.
    pub(super) fn value(self) -> Vec<u8> {
        self.words(2 * self.half())
    }

    pub(super) fn words(self, count: usize) -> Vec<u8> {
        self.0.to_le_bytes().repeat(count)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writer = self.0 >> COUNT_BITS;
        let thread = writer & ((1 << THREAD_BITS) - 1);
        write!(f, "{}.{thread}.{}", writer >> THREAD_BITS, self.count())
    }
}

/// The kind of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Value {
    /// Words of one write, then of one write.
    #[serde(rename = "w")]
    Whole(Tag, Tag),
    /// No value that anybody wrote: at `word`, `found` follows another one's words.
    #[serde(rename = "t")]
    Torn { words: usize, word: usize, follows: Tag, found: Tag },
}

impl Value {
    pub(super) fn new(tag: Tag) -> Self {
        Self::Whole(tag, tag)
    }

    /// The kind of `bytes`, of which there are at least a word.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let (words, _) = bytes.as_chunks::<WORD>();
        let at = |word: usize| Tag(words.get(word).copied().map_or(0, u64::from_le_bytes));
        let (front, half) = (at(0), words.len() / 2);
        let back = at(half);
        let torn = |word: usize, follows| Self::Torn {
            words: words.len(),
            word,
            follows,
            found: at(word),
        };
        if let Some(word) = (0..half).find(|&word| at(word) != front) {
            return torn(word, front);
        }
        if let Some(word) = (half..words.len()).find(|&word| at(word) != back) {
            return torn(word, back);
        }
        if bytes.len() != 2 * front.half() * WORD {
            return torn(words.len(), front);
        }
        Self::Whole(front, back)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(front, back) if front == back => write!(f, "{front:?}"),
            Self::Whole(front, back) => write!(f, "{front:?}+{back:?}"),
            Self::Torn { words, word, follows, found } if word < words => {
                write!(f, "torn ({found:?} follows {follows:?} at word {word} of {words})")
            }
            Self::Torn { words, follows, .. } => {
                write!(f, "torn ({words} words of {follows:?}, which wrote another number)")
            }
        }
    }
}

/// The value after a write of the back half.
impl Accumulate for Value {
    fn accumulate(&self, more: &Self) -> Self {
        match (*self, *more) {
            (Self::Whole(front, _), Self::Whole(_, back)) => Self::Whole(front, back),
            (torn, _) => torn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags() -> impl Iterator<Item = Tag> {
        std::iter::successors(Some(Tag::first(3, 7)), |tag| Some(tag.next())).take(64)
    }

    #[test]
    fn a_value_names_its_writes() {
        for tag in tags() {
            let mut bytes = tag.value();
            assert!(bytes.len() <= LONGEST);
            assert_eq!(Value::of(&bytes), Value::new(tag));
            let (half, other) = (bytes.len() / 2, tag.next());
            bytes[half..].copy_from_slice(&other.words(half / WORD));
            assert_eq!(Value::of(&bytes), Value::new(tag).accumulate(&Value::new(other)));
        }
    }

    #[test]
    fn a_torn_value_is_none() {
        let torn = |bytes: &[u8]| matches!(Value::of(bytes), Value::Torn { .. });
        for tag in tags() {
            let bytes = tag.value();
            for word in 0..bytes.len() / WORD {
                let mut other = bytes.clone();
                other[word * WORD..][..WORD].copy_from_slice(&tag.next().words(1));
                // Of a half of one word nobody can tell who wrote it; the history can.
                assert!(torn(&other) || bytes.len() == 2 * WORD, "word {word} of {tag:?}");
            }
            assert!(torn(&bytes[..bytes.len() - WORD]));
            assert!(torn(&tag.words(bytes.len() / WORD + 2)));
        }
        assert!(torn(&[0; 3]));
    }

    #[test]
    fn a_tag_is_shown_as_its_parts() {
        let tag = Tag::first(12, 3).next().next();
        assert_eq!(format!("{:?}", Value::new(tag)), "12.3.2");
        assert_eq!(format!("{:?}", Value::Whole(tag, tag.next())), "12.3.2+12.3.3");
    }
}
