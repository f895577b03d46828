//! DynamoRIO's memory traces (drmemtrace), as `drraw2trace` writes them: entries of 12 bytes.
//!
//! ```text
//! 0..2    type, little-endian
//! 2..4    size of an access or an instruction, instructions of a bundle, or kind of a marker
//! 4..12   address, or the number of a thread, a version, a time
//! ```
//!
//! | Type | Is |
//! | --- | --- |
//! | 0, 1 | a read, a write, by the instruction before |
//! | 10 to 16, 30, 31, 48, 49 | an instruction |
//! | 17 | a bundle of instructions |
//! | 22 | the thread of the entries to come |
//! | 25 | the header of a file, with the format's version |
//! | 28 | a marker; of kind 2, the time |
//! | others below 64 | of no account here: prefetches, flushes, encodings, ends |
//!
//! A tracer writes a file for each thread. [`Merged`] reads several of them in the order of their
//! times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufRead, ErrorKind};

use super::threads::Threads;
use super::{Record, Records, TraceError, next_record};

/// The type of the entry that a file begins with.
const HEADER: u16 = 25;
const ENTRY_BYTES: usize = 12;
/// The kind of marker that tells the time.
const TIMESTAMP: u16 = 2;
/// Entries of newer versions may have types that are not known here, up to this.
const TYPES: u16 = 64;
/// The newest version that can be taken for one.
const VERSIONS: u64 = 256;

/// Whether bytes begin a file of this format.
pub(super) fn begins(start: &[u8]) -> bool {
    let Some((entry, _)) = start.split_first_chunk::<ENTRY_BYTES>() else { return false };
    let (kind, _, value) = parts(entry);
    kind == HEADER && (1..VERSIONS).contains(&value)
}

fn parts(entry: &[u8; ENTRY_BYTES]) -> (u16, u16, u64) {
    let [a, b, c, d, value @ ..] = *entry;
    (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]), u64::from_le_bytes(value))
}

/// Reads one file. It ends after the first error.
pub struct DrmemTrace<R> {
    reader: R,
    threads: Threads,
    /// The thread of the entries to come, once one was named.
    thread: Option<u32>,
    /// By thread, instructions since its last record.
    instructions: Vec<u32>,
    /// The time that was told last, in microseconds.
    time: u64,
    entries: u64,
    ended: bool,
}

impl<R: BufRead> DrmemTrace<R> {
    /// Begins to read.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            threads: Threads::default(),
            thread: None,
            instructions: Vec::new(),
            time: 0,
            entries: 0,
            ended: false,
        }
    }

    /// How many threads were met so far.
    pub fn threads(&self) -> u32 {
        self.threads.count()
    }

    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        while let Some((kind, size, value)) = self.entry()? {
            match kind {
                0 | 1 => return self.access(kind == 1, size, value).map(Some),
                10..=16 | 30 | 31 | 48 | 49 => self.runs(1)?,
                17 => self.runs(size.into())?,
                22 => {
                    let number = self.threads.number(value).map_err(|why| self.problem(why))?;
                    self.thread = Some(number);
                    self.instructions.resize(self.threads.count() as usize, 0);
                }
                28 if size == TIMESTAMP => self.time = value,
                TYPES.. => return Err(self.problem(format!("an entry of the unknown type {kind}"))),
                _ => {}
            }
        }
        Ok(None)
    }

    fn entry(&mut self) -> Result<Option<(u16, u16, u64)>, TraceError> {
        let byte = self.entries * ENTRY_BYTES as u64;
        if self.reader.fill_buf().map_err(|error| TraceError::Io { byte, error })?.is_empty() {
            return Ok(None);
        }
        let mut entry = [0; ENTRY_BYTES];
        match self.reader.read_exact(&mut entry) {
            Ok(()) => self.entries += 1,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.entries += 1;
                return Err(self.problem("the trace is cut off in the middle of it".to_owned()));
            }
            Err(error) => return Err(TraceError::Io { byte, error }),
        }
        Ok(Some(parts(&entry)))
    }

    /// The thread that entries are about.
    fn present(&self) -> Result<u32, TraceError> {
        self.thread.ok_or_else(|| self.problem("no thread was named before it".to_owned()))
    }

    fn runs(&mut self, instructions: u32) -> Result<(), TraceError> {
        let thread = self.present()? as usize;
        let so_far = &mut self.instructions[thread];
        *so_far = so_far.saturating_add(instructions);
        Ok(())
    }

    fn access(&mut self, write: bool, size: u16, address: u64) -> Result<Record, TraceError> {
        let thread = self.present()?;
        let instructions = std::mem::take(&mut self.instructions[thread as usize]);
        let record = Record { thread, address, bytes: size.into(), write, instructions };
        record.problem().map_or(Ok(record), |problem| Err(self.problem(problem)))
    }

    #[cold]
    fn problem(&self, problem: String) -> TraceError {
        let number = self.entries.saturating_sub(1);
        TraceError::Record { number, byte: number * ENTRY_BYTES as u64, problem }
    }
}

impl<R: BufRead> Records for DrmemTrace<R> {
    #[inline]
    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        self.read()
    }

    #[inline]
    fn ended(&mut self) -> &mut bool {
        &mut self.ended
    }
}

impl<R: BufRead> Iterator for DrmemTrace<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        next_record(self)
    }
}

/// Several files, of a thread each, in the order of their times. It ends after the first error.
pub struct Merged<R> {
    files: Vec<DrmemTrace<R>>,
    /// The next record of each file, by its time and the file's number.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    records: Vec<Option<Record>>,
    error: Option<TraceError>,
}

impl<R: BufRead> Merged<R> {
    /// Begins to read.
    pub fn new(files: Vec<R>) -> Self {
        let files: Vec<_> = files.into_iter().map(DrmemTrace::new).collect();
        let records = vec![None; files.len()];
        let mut merged = Self { files, next: BinaryHeap::new(), records, error: None };
        (0..merged.files.len()).for_each(|file| merged.advance(file));
        merged
    }

    /// How many threads there are: a file is of one thread.
    pub fn threads(&self) -> u32 {
        self.files.len() as u32
    }

    fn advance(&mut self, file: usize) {
        match self.files[file].next() {
            Some(Ok(record)) => {
                self.records[file] = Some(Record { thread: file as u32, ..record });
                self.next.push(Reverse((self.files[file].time, file)));
            }
            Some(Err(error)) => self.error = self.error.take().or(Some(error)),
            None => {}
        }
    }
}

impl<R: BufRead> Iterator for Merged<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.error.take() {
            self.next.clear();
            return Some(Err(error));
        }
        let Reverse((_, file)) = self.next.pop()?;
        let record = self.records[file].take();
        self.advance(file);
        record.map(Ok)
    }
}
