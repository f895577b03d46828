//! What memory itself does for a protocol, and the simulator can take out: mapped memory does it by
//! instructions that no test on a coherent machine misses.

tombolo_memory::sites! {
    /// A clean is complete when it returns; without its fence it is only issued.
    CLEAN_FENCE = "memory.clean.fence";
    /// An invalidate is complete when it returns; without its fences it is only issued.
    INVALIDATE_FENCE = "memory.invalidate.fence";
    /// A narrow word is stored alone; otherwise its neighbours are written back with it.
    STORE_ALONE = "memory.store.alone";
}
