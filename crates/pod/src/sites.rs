//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// The LNR half of the superblock is in memory before the pod is ready.
    FORMAT_CLEAN = "pod.format.clean";
    /// The LNR half of the superblock is read afresh.
    OPEN_INVALIDATE = "pod.open.invalidate";
    /// A piece of a transfer is in memory before it is announced.
    TRANSFER_CLEAN = "pod.transfer.clean";
    /// A piece of a transfer is read afresh.
    TRANSFER_INVALIDATE = "pod.transfer.invalidate";
    /// A request for a replica is answered by one host.
    TRANSFER_ANSWER = "pod.transfer.answer";
    /// A piece is handed over only as long as the taker still waits for it.
    TRANSFER_GIVE = "pod.transfer.give";
    /// Seats, readiness and phase change in one step.
    MEMBER_CHANGE = "pod.member.change";
    /// No two stays have the same number.
    INCARNATION = "pod.member.incarnation";
    /// The pod's clock never goes back.
    CLOCK_MAX = "pod.clock.max";
    /// Whoever reports that a deadline has passed makes it pass for all.
    CLOCK_ADVANCE = "pod.clock.advance";
}
