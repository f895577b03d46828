//! Objects in memory that cannot be read any more.
//!
//! A host that meets a memory error in an object loses it *for all*, by the event by which values
//! are lost with hosts: what it has written there since may be nobody's but its own, so who else
//! reads the same bytes could find them torn. From then on it is as with other losses: reads say
//! so, writing the whole value anew or deleting the object ends it. The chunk is marked, and gets
//! no new objects ([`space`](crate::storage::space)).
//!
//! * A reader asks for errors *after* the copy, and looks at the object again then, as always:
//!   what was read while the object changed says nothing of it.
//! * A writer asks when its lines are cleaned, before it releases the lock.
//! * A host that puts an object into a free slot asks when it has written it, and takes another
//!   slot then.
//! * A key that cannot be read may be any: the object is taken for the one that is looked for. It
//!   is lost, whosever it was.
//!
//! Left out: the log, tables, and mail. A host that meets an error there ends.

use tombolo_memory::{Lines, LnrAddr, Memory};
use tombolo_sharing::ObjectArea;

/// From here on this host goes on after errors in memory that objects lie in, or what has a
/// checksum: the windows by which replicas are handed over, and what writes have noted to be
/// undone.
pub(crate) fn survive<M: Memory>(area: &ObjectArea<M>) {
    let (windows, geometry) = (area.pod().layout().windows(), area.geometry());
    let undo = area.areas().undo;
    let end = area.areas().chunks.offset() + geometry.chunks * geometry.chunk_bytes;
    let memory = area.memory();
    memory.survives_poison(Lines::covering(LnrAddr::new(windows.start), windows.bytes));
    memory.survives_poison(Lines::covering(undo, end - undo.offset()));
}
