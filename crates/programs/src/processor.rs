//! The seam between programs and the machine that runs them.

/// What a program's thread does to the memory it runs in. A clone is the same thread.
///
/// A machine switches threads in these calls and nowhere else.
pub trait Processor: Clone + 'static {
    /// Reads or writes `bytes` bytes at `address`. That is one instruction.
    fn access(&self, address: u64, bytes: u32, write: bool);

    /// Instructions that touch no memory.
    fn works(&self, instructions: u64);

    /// Waits until all threads of the program are here.
    fn barrier(&self);
}
