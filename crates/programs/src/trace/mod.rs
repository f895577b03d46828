//! Traces: the accesses of programs to memory, one by one.
//!
//! [`Trace`] reads all formats (docs/traces.md): the binary one of this crate, the text that
//! `valgrind --tool=lackey --trace-mem=yes` prints, a text with an access a line, and DynamoRIO's
//! memory traces.

mod binary;
mod drmemtrace;
mod lackey;
mod recorder;
mod text;
mod threads;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::{Path, PathBuf};

pub use binary::{BinaryTrace, TraceWriter};
pub use drmemtrace::{DrmemTrace, Merged};
pub use lackey::LackeyTrace;
pub use recorder::{Recorded, Recorder};
pub use text::TextTrace;

use crate::graph::unpacked;

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
    /// The reason why it cannot be the record of an access.
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
        /// The system's error.
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
        /// The fault.
        problem: String,
    },
    /// A line is not one that lackey writes.
    #[error("line {line} of the trace, after {records} records: {problem}")]
    Line {
        /// Which one; the first is 1.
        line: u64,
        /// Records that were read before it.
        records: u64,
        /// The fault.
        problem: String,
    },
}

/// Records that come one by one.
trait Records {
    /// The next record, unless there is none.
    fn read(&mut self) -> Result<Option<Record>, TraceError>;

    /// Whether there are no more.
    fn ended(&mut self) -> &mut bool;
}

/// The next record; after the first error there is none.
#[inline]
fn next_record(records: &mut impl Records) -> Option<Result<Record, TraceError>> {
    if *records.ended() {
        return None;
    }
    let record = records.read().transpose();
    *records.ended() = !matches!(record, Some(Ok(_)));
    record
}

/// A trace in any format, which it tells by its first bytes. It ends after the first error.
pub enum Trace<R> {
    /// It begins as binary traces do.
    Binary(BinaryTrace<Whole<R>>),
    /// It begins as DynamoRIO's traces do.
    Drmemtrace(DrmemTrace<Whole<R>>),
    /// Several files of DynamoRIO's.
    Merged(Merged<R>),
    /// It begins with a digit, or with `#`.
    Text(TextTrace<Whole<R>>),
    /// It begins in none of these ways.
    Lackey(LackeyTrace<Whole<R>>),
}

/// The bytes that were read to tell the format, and the rest.
pub type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// A file's bytes, as they were before they were compressed.
pub type FileReader = Box<dyn BufRead>;

/// Bytes by which formats are told apart.
const START: u64 = 16;

impl<R: BufRead> Trace<R> {
    /// Begins to read.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`] and [`TraceError::Header`].
    pub fn new(mut reader: R) -> Result<Self, TraceError> {
        let mut start = Vec::new();
        let read = reader.by_ref().take(START).read_to_end(&mut start);
        read.map_err(|error| TraceError::Io { byte: 0, error })?;
        let is_binary = start.starts_with(binary::MAGIC);
        let is_drmemtrace = drmemtrace::begins(&start);
        let is_text = start.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'#');
        let whole = Cursor::new(start).chain(reader);
        Ok(match (is_binary, is_drmemtrace, is_text) {
            (true, ..) => Self::Binary(BinaryTrace::new(whole)?),
            (_, true, _) => Self::Drmemtrace(DrmemTrace::new(whole)),
            (.., true) => Self::Text(TextTrace::new(whole)),
            _ => Self::Lackey(LackeyTrace::new(whole)),
        })
    }

    /// How many threads it is about. A text, or a file of DynamoRIO's, tells those that were met so
    /// far.
    pub fn threads(&self) -> u32 {
        match self {
            Self::Binary(trace) => trace.threads(),
            Self::Drmemtrace(trace) => trace.threads(),
            Self::Merged(traces) => traces.threads(),
            Self::Text(trace) => trace.threads(),
            Self::Lackey(_) => 1,
        }
    }
}

impl Trace<FileReader> {
    /// Opens a file, gzipped or not; or a folder with DynamoRIO's files, one a thread. Returns the
    /// trace, and the number of its threads. A file that does not tell it at its beginning is read
    /// once for that.
    ///
    /// # Errors
    ///
    /// [`TraceError`], of the first reading, too.
    pub fn open(path: &Path) -> Result<(Self, u32), TraceError> {
        let failed = |error| TraceError::Io { byte: 0, error };
        if path.is_dir() {
            let files = drmemtrace_files(path).map_err(failed)?;
            let readers = files.iter().map(|file| reader(file)).collect::<io::Result<_>>();
            let merged = Self::Merged(Merged::new(readers.map_err(failed)?));
            let threads = merged.threads();
            return Ok((merged, threads));
        }
        let trace = Self::new(reader(path).map_err(failed)?)?;
        let threads = match trace {
            Self::Text(_) | Self::Drmemtrace(_) => {
                let mut all = Self::new(reader(path).map_err(failed)?)?;
                all.by_ref().try_for_each(|record| record.map(drop))?;
                all.threads()
            }
            _ => trace.threads(),
        };
        Ok((trace, threads.max(1)))
    }
}

fn reader(path: &Path) -> io::Result<FileReader> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    if file.fill_buf()?.starts_with(b"PK") {
        let advice = "it is a zip archive; extract it with `unzip -p FILE > FILE.trace`";
        return Err(io::Error::new(io::ErrorKind::InvalidData, advice));
    }
    unpacked(file)
}

/// The traces in a folder of DynamoRIO's, or in its folder `trace`, by name.
fn drmemtrace_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let within = path.join("trace");
    let folder = if within.is_dir() { &within } else { path };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".trace") || name.ends_with(".trace.gz") || name.ends_with(".trace.zip") {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        let problem = format!("no file in {} ends in .trace or .trace.gz", folder.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, problem));
    }
    if files.len() > threads::MAX_THREADS {
        let problem = format!("{} files; there may be {}", files.len(), threads::MAX_THREADS);
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(files)
}

impl<R: BufRead> Iterator for Trace<R> {
    type Item = Result<Record, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Binary(trace) => trace.next(),
            Self::Drmemtrace(trace) => trace.next(),
            Self::Merged(traces) => traces.next(),
            Self::Text(trace) => trace.next(),
            Self::Lackey(trace) => trace.next(),
        }
    }
}
