//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// An epoch is followed by the next one, whichever hosts advance it.
    EPOCH_ADVANCE = "database.epoch.advance";
    /// A worker that looks at shared structures has announced it, so nothing is freed under it.
    BEGIN_ANNOUNCE = "database.begin.announce";
    /// A worker that is about to commit has announced it, so no logger passes its epoch.
    COMMIT_ANNOUNCE = "database.commit.announce";
    /// The epoch of a commit is loaded after the announcement.
    COMMIT_EPOCH = "database.commit.epoch";
    /// A record is in memory before it is published: another host may have to write it to a file.
    APPEND_CLEAN = "database.append.clean";
    /// Bytes of a buffer are used again only when they are in a file.
    APPEND_ROOM = "database.append.room";
    /// A logger passes an epoch only when no worker of its host commits in it.
    FLUSH_COMMITTING = "database.flush.committing";
    /// A logger loads the epoch before it looks for workers that commit.
    FLUSH_EPOCH_FIRST = "database.flush.epoch-first";
    /// A logger looks how far buffers are filled after it has looked for workers that commit.
    FLUSH_FILLED_LAST = "database.flush.filled-last";
    /// A file is on the disk before the logger says so.
    FLUSH_SYNC = "database.flush.sync";
    /// A logger that has been retired by another host stays retired.
    FLUSH_RETIRED = "database.flush.retired";
    /// A logger that begins says so before it loads the epoch that its log begins with.
    JOIN_ANNOUNCE = "database.join.announce";
    /// A dead host's buffers are read afresh.
    DRAIN_INVALIDATE = "database.drain.invalidate";
    /// A dead host's buffers are in a file before its logger is retired.
    DRAIN_SYNC = "database.drain.sync";
    /// A host whose logger was retired knows that its own transactions are not durable.
    DURABLE_OWN = "database.durable.own";
    /// A home is one host's.
    HOME_CLAIM = "database.home.claim";
    /// No arrival is lost.
    HOME_COUNT = "database.home.count";
    /// At most one checkpoint of a running database is written at a time.
    CHECKPOINT_ASK = "database.checkpoint.ask";
}
