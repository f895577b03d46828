//! What programs did to memory, access by access.
//!
//! [`Trace`] reads both formats there are: the binary one of this crate (docs/traces.md), and the
//! text that `valgrind --tool=lackey --trace-mem=yes` prints.

mod binary;
mod lackey;
mod recorder;

use std::io::{BufRead, Chain, Cursor, Read};

pub use binary::{BinaryTrace, TraceWriter};
pub use lackey::LackeyTrace;
pub use recorder::{Recorded, Recorder};

/// The most bytes an access in a trace can have.
pub const MAX_ACCESS_BYTES: u32 = 1 << 14;

/// An access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The thread that made it.
    pub thread: u32,
    /// Its first byte.
    pub address: u64,
    /// How many bytes it has: 1 to [`MAX_ACCESS_BYTES`], none beyond the last address.
    pub bytes: u32,
    /// Whether it writes.
    pub write: bool,
    /// Instructions of this thread since its last record, its own among them: none if the
    /// instruction is the one before's.
    pub instructions: u32,
}

impl Record {
    /// What keeps it from being the record of an access.
    #[inline]
    fn problem(&self) -> Option<String> {
        let fits = (1..=MAX_ACCESS_BYTES).contains(&self.bytes)
            && self.address <= u64::MAX - u64::from(self.bytes - 1);
        if fits { None } else { Some(self.describe_problem()) }
    }

    #[cold]
    fn describe_problem(self) -> String {
        let Self { address, bytes, .. } = self;
        if (1..=MAX_ACCESS_BYTES).contains(&bytes) {
            format!("{bytes} bytes at {address:#x} go beyond the last address")
        } else {
            format!("an access of {bytes} bytes; it may have 1 to {MAX_ACCESS_BYTES}")
        }
    }
}

/// Why a trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read or written.
    #[error("byte {byte} of the trace: {error}")]
    Io {
        /// How many bytes came before.
        byte: u64,
        /// What the system says.
        error: std::io::Error,
    },
    /// It does not begin as a binary trace does.
    #[error("the trace's header: {0}")]
    Header(String),
    /// A binary record is none.
    #[error("record {number} (byte {byte}) of the trace: {problem}")]
    Record {
        /// Which one; the first is 0.
        number: u64,
        /// Where it begins.
        byte: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A line is not one that lackey writes.
    #[error("line {line} of the trace, after {records} records: {problem}")]
    Line {
        /// Which one; the first is 1.
        line: u64,
        /// Records that were read before it.
        records: u64,
        /// What is wrong with it.
        problem: String,
    },
}

/// A trace in either format, which it tells by its first bytes. It ends after the first error.
pub enum Trace<R> {
    /// It begins as binary traces do.
    Binary(BinaryTrace<Whole<R>>),
    /// It does not.
    Lackey(LackeyTrace<Whole<R>>),
}

/// What was read to tell the format, and the rest.
pub type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

impl<R: BufRead> Trace<R> {
    /// Begins to read.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`] and [`TraceError::Header`].
    pub fn new(mut reader: R) -> Result<Self, TraceError> {
        let mut start = Vec::new();
        let read = reader.by_ref().take(binary::MAGIC.len() as u64).read_to_end(&mut start);
        read.map_err(|error| TraceError::Io { byte: 0, error })?;
        let is_binary = start == binary::MAGIC;
        let whole = Cursor::new(start).chain(reader);
        if is_binary {
            BinaryTrace::new(whole).map(Self::Binary)
        } else {
            Ok(Self::Lackey(LackeyTrace::new(whole)))
        }
    }

    /// How many threads it is about.
    pub fn threads(&self) -> u32 {
        match self {
            Self::Binary(trace) => trace.threads(),
            Self::Lackey(_) => 1,
        }
    }
}

impl<R: BufRead> Iterator for Trace<R> {
    type Item = Result<Record, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Binary(trace) => trace.next(),
            Self::Lackey(trace) => trace.next(),
        }
    }
}
