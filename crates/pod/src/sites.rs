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
    /// Whoever reports that a deadline has passed makes it pass for all.
    CLOCK_ADVANCE = "pod.clock.advance";
}
