//! The steps of HCMeta that the simulator can take out.

tombolo_memory::sites! {
    /// A chunk is taken by one host.
    CHUNK_CLAIM = "hcmeta.chunk.claim";
    /// No host that comes or leaves goes uncounted.
    COUNT_HOST = "hcmeta.host.count";
    /// A joining host reads the pod's contents afresh.
    OPEN_INVALIDATE = "hcmeta.open.invalidate";
    /// A pod for pages holds none when it is opened.
    OPEN_EMPTY = "hcmeta.open.empty";
    /// An object is in memory before others can find it.
    SHARE_CLEAN = "hcmeta.share.clean";
    /// An entry that another object gets has another version.
    SHARE_VERSION = "hcmeta.share.version";
    /// Only the owner's own caches may be trusted for an object that is shared.
    SHARE_ALONE = "hcmeta.share.alone";
    /// The clock changes a record only if nobody else does.
    CLOCK = "hcmeta.clock.step";
    /// Objects that are created or deleted at once are all counted.
    COUNT_OBJECT = "hcmeta.object.count";
    /// Nobody writes an object that is being unshared.
    UNSHARE_LOCK = "hcmeta.unshare.lock";
    /// An object that is unshared has no entry.
    UNSHARE_SCRUB = "hcmeta.unshare.scrub";
    /// The owner knows whether its caches are current when it has unshared an object.
    UNSHARE_STALE = "hcmeta.unshare.stale";
    /// The owner drops stale lines of an object of its own.
    PRIVATE_INVALIDATE = "hcmeta.private.invalidate";
    /// Stale lines are dropped after the record was looked at.
    READ_INVALIDATE = "hcmeta.read.invalidate";
    /// A read that somebody wrote into is not used.
    READ_AGAIN = "hcmeta.read.again";
    /// A host's bit is set only if nobody has written meanwhile.
    READ_MARK_VALIDATED = "hcmeta.read.mark-validated";
    /// One writer at a time.
    WRITE_LOCK = "hcmeta.write.lock";
    /// Stale lines are dropped before they are partly written.
    WRITE_INVALIDATE = "hcmeta.write.invalidate";
    /// The written lines are in memory before the lock is released.
    WRITE_CLEAN = "hcmeta.write.clean";
    /// A write moves the version on.
    WRITE_VERSION = "hcmeta.write.version";
    /// A write makes all other hosts' caches count as stale.
    WRITE_ALONE = "hcmeta.write.alone";
    /// Keys are compared whole.
    KEY_COMPARE = "hcmeta.key.compare";
    /// The value for the owner is in memory before the owner is asked.
    HAND_CLEAN = "hcmeta.hand.clean";
    /// A value that is handed over is read afresh.
    HAND_INVALIDATE = "hcmeta.hand.invalidate";
    /// A slot is given up clean.
    FREE_CLEAN = "hcmeta.free.clean";
    /// Objects are in memory when all leave.
    CLOSE_CLEAN = "hcmeta.close.clean";
    /// Slots without an object have no header when all leave.
    CLOSE_SCRUB = "hcmeta.close.scrub";
}
