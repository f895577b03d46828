//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// Rows that were read are as they were when the transaction commits.
    READ_ROWS = "object-database.read.rows";
    /// No row has come or gone in ranges that were read when the transaction commits.
    READ_LEAVES = "object-database.read.leaves";
    /// The epoch is chosen when all was read that the commit depends on.
    EPOCH_AFTER_READS = "object-database.epoch.after-reads";
    /// A dead host's transactions that have committed are in its log.
    SETTLE_MARKER = "object-database.settle.marker";
    /// A dead host commits nothing any more when others look at what it has committed.
    SETTLE_OUT = "object-database.settle.out";
    /// A leaf that was split is looked for to the right of where it was known to be.
    LEAF_RIGHT = "object-database.leaf.right";
}
