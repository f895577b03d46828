//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// The lock of a page or a block is one host's.
    LOCK = "regions.lock";
    /// Words of the directory change under its lock.
    DIRECTORY_LOCK = "regions.directory.lock";
    /// A page's lines are dropped from the caches before the page is fetched.
    FETCH_INVALIDATE = "regions.fetch.invalidate";
    /// A page is in memory before the host says that it has given it up.
    WRITE_BACK_CLEAN = "regions.write-back.clean";
    /// A page's mapping is taken away before the page is written back.
    REVOKE = "regions.revoke";
    /// A page is made read-only before it is written back.
    PROTECT = "regions.protect";
    /// A host notes that it may write a page before it maps it so.
    NOTE_WRITER = "regions.writer.note";
    /// A page that a dead host alone had written is lost.
    NOTE_LOST = "regions.lost.note";
    /// A host waits for the answer of each host that it has asked.
    AWAIT_ANSWER = "regions.answer.await";
    /// A page is another's only when the dead host that had it is gone.
    AWAIT_GONE = "regions.gone.await";
    /// Locks of a dead host are released.
    CLEAR_LOCK = "regions.clear.lock";
    /// A host gives its pages back before it leaves.
    LEAVE_PAGES = "regions.leave.pages";
}
