//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// An entry is in memory before it is ordered.
    APPEND_CLEAN = "log.append.clean";
    /// An entry is read afresh: the line may be cached from an earlier lap.
    REPLAY_INVALIDATE = "log.replay.invalidate";
    /// A place of the ring is reused only when all have applied what it held.
    RING_ROOM = "log.ring.room";
    /// A place of a segment is reused only when all have applied what it held.
    SEGMENT_ROOM = "log.segment.room";
    /// A place of a segment is reused only when its last entry's committer knows what became of it.
    SEGMENT_LEARNT = "log.segment.learnt";
    /// A fenced host writes its segment back before it says that it writes nothing any more.
    SEGMENT_WITHDRAW = "log.segment.withdraw";
    /// The log is applied up to its end before a replica is used.
    TAIL_SYNC = "log.tail.sync";
    /// How far all members have applied the log counts only if nobody has joined meanwhile.
    HEAD_MEMBERS = "log.head.members";
    /// A joiner announces at once what its replica has applied already.
    JOIN_ANNOUNCE = "log.join.announce";
    /// A place of the ring goes to one run.
    RING_ORDER = "log.ring.order";
    /// A place that is filled is passed over, not overwritten.
    RING_LAP = "log.ring.lap";
    /// A place that is used again is not the log's end.
    RING_PASSED = "log.ring.passed";
    /// A host that has no seat any more applies nothing: what it reads may be overwritten.
    REPLAY_SEAT = "log.replay.seat";
    /// Entries that a host has ordered after it was fenced have no effect.
    FENCE_IGNORED = "log.fence.ignored";
    /// The low-water mark has moved before a place is used again.
    RING_LOW_WATER_MARK = "log.ring.low-water-mark";
}
