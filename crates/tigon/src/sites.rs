//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// A latch is one thread's.
    LATCH_TAKE = "tigon.latch.take";
    /// Lines of a row are dropped when another host has written it since this one last read it:
    /// after the latch was taken.
    ROW_INVALIDATE = "tigon.row.invalidate";
    /// A row is in memory before its latch is released.
    ROW_CLEAN = "tigon.row.clean";
    /// The host that writes a row takes its currency from all others.
    ROW_ALONE = "tigon.row.alone";
    /// One thread at a time changes the list of a partition's shared rows by use.
    USAGE_LATCH = "tigon.usage.latch";
    /// A home reads a row again that others have written.
    ROW_DIRTY = "tigon.row.dirty";
    /// A row is moved out only when no transaction has locked it.
    MOVE_UNLOCKED = "tigon.move.unlocked";
    /// A row that moves in takes its locks along.
    MOVE_LOCKS = "tigon.move.locks";
    /// A record says that its row has moved out before the row is used at home.
    MOVE_FREE = "tigon.move.free";
    /// A row that was changed while it was shared is copied back.
    MOVE_BACK = "tigon.move.back";
    /// A row whose record has moved out is looked up again.
    MOVED_AGAIN = "tigon.moved.again";
    /// The row behind one that moves out knows that there is a gap again.
    GAP_MOVE = "tigon.gap.move";
    /// The row behind one that is inserted knows that there is a gap again.
    GAP_INSERT = "tigon.gap.insert";
    /// A row is inserted only where no other transaction has locked the gap.
    GAP_LOCKED = "tigon.gap.locked";
    /// The ghost that splits a gap is locked as the gap was.
    GAP_INHERIT = "tigon.gap.inherit";
    /// A gap between shared rows counts only if its home says that it is one.
    GAP_CLOSED = "tigon.gap.closed";
    /// A row that is locked as the next one is still the next one then.
    GAP_NEXT = "tigon.gap.next";
    /// The row behind an absent one is locked.
    GAP_LOCK = "tigon.gap.lock";
    /// A node that changes meanwhile is read again.
    NODE_VERSION = "tigon.node.version";
    /// A node is still its parent's child when its version is known.
    NODE_PARENT = "tigon.node.parent";
    /// Nodes and records are used again when no transaction can know of them any more.
    RECLAIM_WAIT = "tigon.reclaim.wait";
    /// A ghost stays as long as the epoch in which the row was deleted: versions of a key grow.
    GHOST_EPOCH = "tigon.ghost.epoch";
}
