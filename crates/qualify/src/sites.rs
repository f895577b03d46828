//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// A line is in memory before the other host is told.
    CLEAN = "qualify.clean";
    /// A line is read afresh.
    INVALIDATE = "qualify.invalidate";
    /// A word is added to in one step.
    ADD = "qualify.add";
    /// A word is replaced in one step.
    REPLACE = "qualify.replace";
}
