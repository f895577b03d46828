//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// An expired value is removed only if it is still the one that was found.
    EXPIRE_VERSION = "kv.expire.version";
    /// A value whose deadline has passed is not given to anybody.
    READ_DEADLINE = "kv.read.deadline";
    /// A host's list of used values is in memory before others are told.
    USES_CLEAN = "kv.uses.clean";
    /// A host drops lines of others' rings before it reads them.
    USES_INVALIDATE = "kv.uses.invalidate";
    /// A list that was written over while it was read tells nothing.
    USES_WHOLE = "kv.uses.whole";
    /// Hosts advance the clock of uses together.
    USES_TICK = "kv.uses.tick";
    /// Hosts count together what they evict.
    EVICT_COUNT = "kv.evict.count";
    /// A transaction counts only if no value that it has read has expired meanwhile.
    TRANSACTION_DEADLINE = "kv.transaction.deadline";
    /// A transaction counts only if no key that was absent when it was watched has had a value
    /// since.
    TRANSACTION_ABSENT = "kv.transaction.absent";
}
