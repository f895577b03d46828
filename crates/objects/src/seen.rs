//! What this host knows about an object's lines in its own caches, and where it has a copy of the object:
//! a note in the index entry.
//!
//! ```text
//! seen   generation (32 bits) | what was seen (32); all 0: nothing
//!
//! what   0 | counter at this host's last good read (31 bits)
//!        1 | all ones: it was read-shared then
//!        1 | used (1) | line of its copy (30), which says at which counter it was made
//! ```
//!
//! A note counts only if its generation is the entry's and its counter the record's. Generations are
//! never reused, so a note that a slow thread sets late, or in a cell that another object has moved
//! into, is at worst ignored: it costs an invalidation, never a stale read.

use std::sync::atomic::Ordering;

use tombolo_memory::Memory;

use crate::event::Generation;
use crate::index::Cell;
use crate::sites;

/// The counter that stands for "read-shared": odd, so no record that may be read has it.
pub(crate) const READ_SHARED: u32 = u32::MAX;

/// No counter of a record has this bit.
const COPY: u32 = 1 << 31;

/// The copy was read lately.
const USED: u32 = 1 << 30;

/// How many lines there can be for copies: one less than there are numbers, since that would be
/// [`READ_SHARED`].
pub(crate) const COPY_LINES: u64 = USED as u64 - 1;

/// A note that this host has no stale line of an object as of `counter`.
pub(crate) fn note(generation: Generation, counter: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(counter)
}

/// A note that it has a copy, from this line on, which was not read lately.
pub(crate) fn copied(generation: Generation, line: u32) -> u64 {
    note(generation, COPY | line)
}

/// The generation of a note.
pub(crate) fn generation(seen: u64) -> Generation {
    (seen >> 32) as u32
}

/// The line of the copy that a note is about, if it is about one.
#[inline]
pub(crate) fn copy_line(seen: u64) -> Option<u32> {
    let what = seen as u32;
    (what & COPY != 0 && what != READ_SHARED).then_some(what & (USED - 1))
}

/// The same note of a copy, of one that was read lately.
pub(crate) fn used(copied: u64) -> u64 {
    copied | u64::from(USED)
}

/// The same note of a copy, of one that was not.
pub(crate) fn unused(copied: u64) -> u64 {
    copied & !u64::from(USED)
}

/// Whether a host that noted `seen` has no stale line of an object that is at `counter` now.
pub(crate) fn is_fresh<M: Memory>(
    memory: &M,
    seen: u64,
    entry_generation: Generation,
    counter: u32,
) -> bool {
    memory.check(sites::READ_SEEN_GENERATION, generation(seen) == entry_generation)
        && memory.check(sites::READ_SEEN_COUNTER, seen as u32 == counter)
}

/// Notes that this host has no stale line of the object as of `counter`, unless a note was set
/// since `before` was read.
pub(crate) fn set<M: Memory>(
    memory: &M,
    cell: &Cell,
    before: u64,
    generation: Generation,
    counter: u32,
) {
    memory.step();
    let new = note(generation, counter);
    let _ = cell.seen.compare_exchange(before, new, Ordering::Relaxed, Ordering::Relaxed);
}
