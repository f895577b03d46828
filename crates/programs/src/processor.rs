//! The seam between programs and the machine that runs them.

use crate::element::Bytes;

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads. A machine may let the thread go on while this is under way, until it `depends` on it.
    Read,
    /// Writes. A machine may let the thread go on.
    Write,
    /// Reads and writes in one step (atomic): all that came before is over, and all that comes
    /// after waits.
    Update,
}

impl Access {
    /// Whether memory is changed.
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Update)
    }
}

/// A program's thread, as the memory it runs in sees it. A clone is the same thread.
///
/// A machine switches threads in these calls and nowhere else.
pub trait Processor: Clone + 'static {
    /// Reads or writes `bytes` bytes at `address`. That is one instruction.
    fn access(&self, address: u64, bytes: u32, access: Access);

    /// The machine's memory, if values are read and written there. Otherwise the machine learns of
    /// accesses, and values are the program's own.
    #[inline]
    fn bytes(&self) -> Option<&dyn Bytes> {
        None
    }

    /// The next access depends on the value that was read last: its address is known only then.
    fn depends(&self) {}

    /// Instructions that touch no memory.
    fn works(&self, instructions: u64);

    /// Waits until all threads of the program are here.
    fn barrier(&self);
}
