//! The steps that memory itself does for a protocol, and that the simulator can leave out: mapped
//! memory does it by instructions that no test on a coherent machine misses.

tombolo_memory::sites! {
    /// A narrow word is stored alone; otherwise its neighbours are written back with it.
    STORE_ALONE = "memory.store.alone";
}
