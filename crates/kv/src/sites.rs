//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// An expired value is removed only if it is still the one that was found.
    EXPIRE_VERSION = "kv.expire.version";
    /// A value whose deadline has passed is not given to anybody.
    READ_DEADLINE = "kv.read.deadline";
}
