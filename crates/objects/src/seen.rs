//! What this host knows about an object's lines in its own caches: a note in the index entry.
//!
//! ```text
//! seen   generation (32 bits) | counter at this host's last good read (32); all 0: unknown
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

fn note(generation: Generation, counter: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(counter)
}

/// Whether a host that noted `seen` has no stale line of an object that is at `counter` now.
pub(crate) fn is_fresh<M: Memory>(
    memory: &M,
    seen: u64,
    generation: Generation,
    counter: u32,
) -> bool {
    memory.check(sites::READ_SEEN_GENERATION, seen >> 32 == u64::from(generation))
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
