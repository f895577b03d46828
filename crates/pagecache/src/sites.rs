//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// A host that joins has the same files below as the others.
    JOIN_BELOW = "pagecache.join.below";
    /// One thread at a time admits a page.
    LATCH_TAKE = "pagecache.latch.take";
    /// A page is looked for once more under the latch, before its file is read.
    ADMIT_ABSENT = "pagecache.admit.absent";
    /// A page is admitted only for the state of the file that its reader or writer began with.
    ADMIT_EPOCH = "pagecache.admit.epoch";
    /// A host that cuts a file waits for pages that are being admitted.
    CUT_BARRIER = "pagecache.cut.barrier";
    /// Pages beyond the cut leave the cache.
    CUT_PAGES = "pagecache.cut.pages";
    /// Pages of a range that becomes zeros leave the cache.
    ZERO_PAGES = "pagecache.zero.pages";
    /// A host that cuts a file has it alone.
    CUT_ALONE = "pagecache.cut.alone";
    /// A read counts only if the file was not cut meanwhile.
    READ_EPOCH = "pagecache.read.epoch";
    /// A read that ends at the file's end counts only if that is still the end.
    READ_SIZE = "pagecache.read.size";
    /// A write counts only if the file has not been cut since it began.
    WRITE_EPOCH = "pagecache.write.epoch";
    /// A read does not count that finds a page blank, which is to be written whole.
    READ_BLANK = "pagecache.read.blank";
    /// Nor is a part of a blank page written.
    WRITE_BLANK = "pagecache.write.blank";
    /// A page knows how many of its bytes belong to the file.
    WRITE_LENGTH = "pagecache.write.length";
    /// The operation of a dead host that had a file alone is ended.
    HELD_BY_DEAD = "pagecache.held.by-dead";
    /// The bytes of an operation that it had not ended are taken out of the file.
    DEAD_KEEP = "pagecache.dead.keep";
    /// A file that a dead host made longer ends where pages say.
    GROWN_BY_DEAD = "pagecache.grown.by-dead";
    /// A read counts only if the file certainly ends where its head says so.
    READ_GROWN = "pagecache.read.grown";
    /// A head that is lost with a host has the size that pages tell.
    LOST_HEAD_SIZE = "pagecache.lost.head-size";
    /// A written page is marked.
    WRITE_MARK = "pagecache.write.mark";
    /// A page says that it was written.
    WRITE_WRITTEN = "pagecache.write.written";
    /// A dead host's writes to a file that no other host has at hand are brought there.
    DEAD_FILES = "pagecache.dead.files";
    /// Pages of a file that has neither a name nor a user leave the cache.
    GONE_FILES = "pagecache.gone.files";
    /// When all hosts have died, pages that were written are brought to their files.
    SALVAGE_PAGE = "pagecache.salvage.page";
    /// And files end where they ended.
    SALVAGE_SIZE = "pagecache.salvage.size";
    /// It is so before others can see what was written.
    WRITE_MARK_FIRST = "pagecache.write.mark-first";
    /// A page is in its file before its mark is off.
    CLEAN_WRITE_FIRST = "pagecache.clean.write-first";
    /// A page of which a part stays is taken out of the cache only if it is clean.
    CUT_UNMARKED = "pagecache.cut.unmarked";
    /// Where marks are in the pages: a page leaves the cache only if it is not marked.
    HEADER_UNMARKED = "pagecache.header.unmarked";
    /// And only as it was when that was seen.
    HEADER_VERSION = "pagecache.header.version";
    /// A host notes which pages it has marked.
    HEADER_NOTE = "pagecache.header.note";
    /// A host that finds a page clean has forgotten the note before.
    HEADER_FORGET_FIRST = "pagecache.header.forget-first";
    /// A marked page is cleaned before it is evicted.
    EVICT_CLEAN = "pagecache.evict.clean";
    /// A file has its size before the note of it is evicted.
    EVICT_SIZE = "pagecache.evict.size";
    /// Marked pages of a file are cleaned before it is synchronised.
    SYNC_CLEAN = "pagecache.sync.clean";
    /// They are so before, not after.
    SYNC_CLEAN_FIRST = "pagecache.sync.clean-first";
    /// A file is synchronised.
    SYNC_FLUSH = "pagecache.sync.flush";
}
