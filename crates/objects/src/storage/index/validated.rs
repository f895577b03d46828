//! This host's notes about an object's lines in its own caches, and where it has a copy of the
//! object. A note is in the index entry, and of the entry's generation. Most take few bits
//! (`index/cell.rs`).
//!
//! ```text
//! note   0 | counter at this host's last good read; 1: there was none
//!        1 | all ones: it was read-shared then
//!        1 | used (1) | line of its copy (30), which says at which counter it was made
//! ```
//!
//! A note counts only if its counter is the record's. Generations are never reused, so one that a
//! slow thread would set late, or in a cell that another object has moved into, is not set: it
//! costs an invalidation, never a stale read.

use tombolo_memory::Memory;

use crate::ids::Generation;
use crate::sites;
use crate::storage::index::{Cell, ToNote};
use crate::sync::Ordering;

/// A note.
pub(crate) type ValidatedAt = u32;

/// No good read of this generation: odd, so no record that may be read has such a counter.
pub(crate) const NEVER_VALIDATED: ValidatedAt = 1;

/// The counter that stands for "read-shared": odd, too.
pub(crate) const READ_SHARED: u32 = u32::MAX;

/// Bits of a counter, at most: as many as there is room for in an entry of the index. One that is
/// written more often than it can count starts a new generation.
pub(crate) const COUNTER_BITS: u32 = 19;

/// No counter of a record has this bit.
const COPY: u32 = 1 << 31;

/// The copy was read lately.
const USED: u32 = 1 << 30;

/// How many lines there can be for copies: one less than there are numbers, since that would be
/// [`READ_SHARED`].
pub(crate) const COPY_LINES: u64 = USED as u64 - 1;

/// A note that this host has a copy, from this line on, which was not read lately.
pub(crate) fn copied(line: u32) -> ValidatedAt {
    COPY | line
}

/// The line of the copy that a note is about, if it is about one.
#[inline]
pub(crate) fn copy_line(validated_at: ValidatedAt) -> Option<u32> {
    (validated_at & COPY != 0 && validated_at != READ_SHARED).then_some(validated_at & (USED - 1))
}

/// The counter of this host's last good read, if that is what a note is about.
#[inline(always)]
pub(crate) fn counter(validated_at: ValidatedAt) -> Option<u32> {
    (validated_at & (COPY | 1) == 0).then_some(validated_at)
}

/// The same note of a copy, of one that was read lately.
pub(crate) fn used(copied: ValidatedAt) -> ValidatedAt {
    copied | USED
}

/// The same note of a copy, of one that was not.
pub(crate) fn unused(copied: ValidatedAt) -> ValidatedAt {
    copied & !USED
}

/// Whether a host that noted `validated_at` has no stale line of an object that is at `counter`
/// now.
#[inline(always)]
pub(crate) fn is_fresh<M: Memory>(memory: &M, validated_at: ValidatedAt, counter: u32) -> bool {
    let any = !memory.keeps(sites::READ_SEEN_COUNTER);
    validated_at == counter || any && validated_at != NEVER_VALIDATED
}

/// Notes that this host has no stale line of the object as of `counter`, unless a note was set
/// since `before` was read.
pub(crate) fn set<M: Memory>(
    memory: &M,
    cell: Cell<'_>,
    generation: Generation,
    before: ValidatedAt,
    counter: u32,
) {
    memory.step();
    cell.mark_validated(generation, before, counter, Ordering::Relaxed);
}

/// Notes what was seen of an object with a record that this thread has locked, as was planned
/// before.
#[inline(always)]
pub(crate) fn set_locked<M: Memory>(memory: &M, to_note: ToNote<'_>) {
    memory.step();
    to_note.set();
}
