//! Values that are written whole, with what stands before them in their lines.
//!
//! Past the caches go whole lines only, and the first and the last one of a value have parts that
//! come from elsewhere. They can be put together when it becomes known what is to be written, which
//! is before it is locked: then memory is waited for, and it costs nothing. Of several values that
//! are written together nothing is waited for one by one.

use std::iter::once;

use crate::stream::STREAMED_BYTES;
use crate::{LINE_BYTES, Lines, LnrAddr, Memory, Site};

const LINE: usize = LINE_BYTES as usize;

/// The new content of some lines: a header, a key, and a value in two pieces,
/// one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    pub(crate) lines: Lines,
    pub(crate) header: [u8; 16],
    pub(crate) key: &'a [u8],
    pub(crate) head: &'a [u8],
    pub(crate) rest: &'a [u8],
}

/// The same as lines that are stored past the caches: the first, those that are whole as they are,
/// and the last, filled up with zeros.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InLines<'a> {
    pub(crate) first: [u8; LINE],
    pub(crate) middle: &'a [u8],
    pub(crate) last: [u8; LINE],
    /// Whether there is a last one.
    pub(crate) has_last: bool,
}

impl<'a> Whole<'a> {
    /// Writes an object that begins with `lines`, and ends in the last of them. Bytes behind it
    /// there mean nothing, and may change. The key is there already; it may be written again, as it
    /// is. `head` has a few bytes, or none.
    ///
    /// # Panics
    /// If it does not take these lines.
    #[inline(always)]
    pub fn new(
        lines: Lines,
        header: [u8; 16],
        key: &'a [u8],
        head: &'a [u8],
        rest: &'a [u8],
    ) -> Self {
        let bytes = header.len() + key.len() + head.len() + rest.len();
        let count = bytes.div_ceil(LINE) as u64;
        assert!(lines.count() == count, "{bytes} bytes do not take {} lines", lines.count());
        Self { lines, header, key, head, rest }
    }

    /// Writes values as [`Memory::write_whole`] does, by what else memory can do.
    #[track_caller]
    pub fn write_all<M: Memory>(memory: &M, site: Site, values: &[Self]) {
        for value in values {
            let front = [&value.header, value.rewritten_key()].concat();
            memory.write(value.lines.start(), &front);
            if !value.head.is_empty() {
                memory.write(value.value(), value.head);
            }
            let rest = value.value().plus(value.head.len() as u64);
            memory.write_all(once((rest, value.rest)));
        }
        memory.clean_all(site, values.iter().map(|value| value.lines));
    }

    /// Where the value begins.
    pub(crate) fn value(&self) -> LnrAddr {
        self.lines.start().plus(self.before() as u64)
    }

    /// How many bytes come before the value.
    #[inline(always)]
    pub(crate) fn before(&self) -> usize {
        self.header.len() + self.key.len()
    }

    /// The part of the key that is written again: all of it, if the rest of the value begins in the
    /// first line, too.
    pub(crate) fn rewritten_key(&self) -> &'a [u8] {
        if self.before() + self.head.len() <= LINE { self.key } else { &[] }
    }

    /// Lines of what begins in the first one, and is not short, its first and its last line put
    /// together.
    #[inline(always)]
    pub(crate) fn in_lines(&self) -> Option<InLines<'a>> {
        let Self { ref header, key, head, rest, .. } = *self;
        let (key_end, head_end) = (self.before(), self.before() + head.len());
        if head_end > LINE || (rest.len() as u64) < STREAMED_BYTES {
            return None;
        }
        let mut first = [0; 2 * LINE];
        first[..16].copy_from_slice(header);
        first[16..key_end].copy_from_slice(key);
        first[key_end..head_end].copy_from_slice(head);
        // More than there is room for in the line: so many bytes always take the same few
        // instructions.
        first[head_end..][..LINE].copy_from_slice(&rest[..LINE]);
        let (middle, left) = rest[LINE - head_end..].as_chunks::<LINE>();
        let mut last = [0; 2 * LINE];
        last[..LINE].copy_from_slice(&rest[rest.len() - LINE..]);
        let last = *last[LINE - left.len()..].first_chunk().expect("there are that many");
        let first = *first.first_chunk().expect("there are that many");
        let (middle, has_last) = (middle.as_flattened(), !left.is_empty());
        Some(InLines { first, middle, last, has_last })
    }
}
