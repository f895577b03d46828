//! The binary format: docs/traces.md.

use std::io::{BufWriter, Read, Write};

use super::{Record, Records, TraceError, next_record};
use crate::MAX_THREADS;

pub(super) const MAGIC: &[u8; 8] = b"TOMTRACE";
const VERSION: u32 = 1;
const RECORD: usize = 16;
const BLOCK: usize = 1 << 16;
/// The thread and the marks of the record that says how many there were.
const END: u16 = u16::MAX;
const WRITE: u16 = 1 << 15;
/// Where a record has its marks.
const MARKS: u32 = 112;

/// Reads a binary trace. It ends after the first error.
pub struct BinaryTrace<R> {
    reader: R,
    threads: u32,
    /// The bytes that were read and not yet looked at are `start..end`.
    block: Box<[u8]>,
    start: usize,
    end: usize,
    records: u64,
    ended: bool,
}

impl<R: Read> BinaryTrace<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`], and [`TraceError::Header`] if this is no such trace.
    pub fn new(mut reader: R) -> Result<Self, TraceError> {
        let mut header = Vec::new();
        let read = reader.by_ref().take(RECORD as u64).read_to_end(&mut header);
        read.map_err(|error| TraceError::Io { byte: 0, error })?;
        let Ok(header) = <[u8; RECORD]>::try_from(header.as_slice()) else {
            let problem = format!("it has {} bytes instead of {RECORD}", header.len());
            return Err(TraceError::Header(problem));
        };
        let threads = check_header(&header).map_err(TraceError::Header)?;
        let block = vec![0; BLOCK].into();
        Ok(Self { reader, threads, block, start: 0, end: 0, records: 0, ended: false })
    }

    /// How many threads it is about.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Fills the block, which holds less than a record.
    #[cold]
    fn fill(&mut self) -> Result<(), TraceError> {
        self.block.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        while self.end < RECORD {
            let read = match self.reader.read(&mut self.block[self.end..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(TraceError::Io { byte: self.byte() + self.end as u64, error });
                }
                Ok(read) => read,
            };
            if read == 0 {
                let problem = match self.end {
                    0 => "the trace ends without its end; it was cut off".to_owned(),
                    bytes => format!("{bytes} bytes of {RECORD}; the trace was cut off"),
                };
                return Err(self.problem(problem));
            }
            self.end += read;
        }
        Ok(())
    }

    #[inline]
    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        if self.end - self.start < RECORD {
            self.fill()?;
        }
        let place = self.start..self.start + RECORD;
        let bytes: &[u8; RECORD] = self.block[place].try_into().expect("a record's length");
        let word = u128::from_le_bytes(*bytes);
        let record = decode(word);
        if (word >> MARKS) as u16 == END {
            return self.finish(record);
        }
        if let Some(problem) = self.wrong_thread(record.thread).or_else(|| record.problem()) {
            return Err(self.problem(problem));
        }
        self.start += RECORD;
        self.records += 1;
        Ok(Some(record))
    }

    #[inline]
    fn wrong_thread(&self, thread: u32) -> Option<String> {
        let threads = self.threads;
        (thread >= threads)
            .then(|| format!("thread {thread}, but the header says that there are {threads}"))
    }

    #[cold]
    fn finish(&mut self, end: Record) -> Result<Option<Record>, TraceError> {
        if (end.thread, end.instructions) != (END.into(), 0) {
            return Err(self.problem("neither an access nor the trace's end".to_owned()));
        }
        if end.address != self.records {
            let counted = self.records;
            let problem = format!("the end of {} records, but {counted} came", end.address);
            return Err(self.problem(problem));
        }
        self.start += RECORD;
        let mut more = [0];
        let follows = self.start < self.end || matches!(self.reader.read(&mut more), Ok(1));
        if follows {
            return Err(self.problem("bytes after the end".to_owned()));
        }
        Ok(None)
    }

    fn byte(&self) -> u64 {
        (self.records + 1) * RECORD as u64
    }

    #[cold]
    fn problem(&self, problem: String) -> TraceError {
        TraceError::Record { number: self.records, byte: self.byte(), problem }
    }
}

impl<R: Read> Records for BinaryTrace<R> {
    #[inline]
    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        self.read()
    }

    #[inline]
    fn ended(&mut self) -> &mut bool {
        &mut self.ended
    }
}

impl<R: Read> Iterator for BinaryTrace<R> {
    type Item = Result<Record, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        next_record(self)
    }
}

/// Writes a binary trace.
pub struct TraceWriter<W: Write> {
    writer: BufWriter<W>,
    threads: u32,
    records: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`], and [`TraceError::Header`] if there are not 1 to [`MAX_THREADS`]
    /// threads.
    pub fn new(writer: W, threads: u32) -> Result<Self, TraceError> {
        let mut header = [0; RECORD];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..].copy_from_slice(&threads.to_le_bytes());
        check_header(&header).map_err(TraceError::Header)?;
        let mut writer = BufWriter::with_capacity(BLOCK, writer);
        writer.write_all(&header).map_err(|error| TraceError::Io { byte: 0, error })?;
        Ok(Self { writer, threads, records: 0 })
    }

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`], and [`TraceError::Record`] if this is none that could be read again.
    #[inline]
    pub fn write(&mut self, record: &Record) -> Result<(), TraceError> {
        let problem = if record.thread >= self.threads {
            Some(format!("thread {} of {}", record.thread, self.threads))
        } else {
            record.problem()
        };
        if let Some(problem) = problem {
            return Err(TraceError::Record { number: self.records, byte: self.byte(), problem });
        }
        let marks = record.bytes as u16 | if record.write { WRITE } else { 0 };
        self.put(record.address, record.instructions, record.thread as u16, marks)?;
        self.records += 1;
        Ok(())
    }

    /// Writes the end; how many records there are, and the writer.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`].
    pub fn finish(mut self) -> Result<(u64, W), TraceError> {
        self.put(self.records, 0, END, END)?;
        let byte = self.byte();
        let written = self.writer.into_inner();
        let writer = written.map_err(|error| TraceError::Io { byte, error: error.into_error() })?;
        Ok((self.records, writer))
    }

    fn put(
        &mut self,
        address: u64,
        instructions: u32,
        thread: u16,
        marks: u16,
    ) -> Result<(), TraceError> {
        let mut bytes = [0; RECORD];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        bytes[8..12].copy_from_slice(&instructions.to_le_bytes());
        bytes[12..14].copy_from_slice(&thread.to_le_bytes());
        bytes[14..].copy_from_slice(&marks.to_le_bytes());
        let written = self.writer.write_all(&bytes);
        written.map_err(|error| TraceError::Io { byte: self.byte(), error })
    }

    fn byte(&self) -> u64 {
        (self.records + 1) * RECORD as u64
    }
}

/// A record, and the marks that its size and direction are from.
#[inline]
fn decode(word: u128) -> Record {
    let marks = (word >> MARKS) as u16;
    Record {
        address: word as u64,
        instructions: (word >> 64) as u32,
        thread: u32::from((word >> 96) as u16),
        bytes: u32::from(marks & !WRITE),
        write: marks & WRITE != 0,
    }
}

/// The number of threads.
fn check_header(header: &[u8; RECORD]) -> Result<u32, String> {
    let (magic, numbers) = header.split_at(8);
    if magic != MAGIC {
        let start = String::from_utf8_lossy(magic);
        return Err(format!("it begins with {start:?} instead of \"TOMTRACE\""));
    }
    let [version, threads] =
        [0, 4].map(|at| u32::from_le_bytes(numbers[at..at + 4].try_into().expect("four bytes")));
    if version != VERSION {
        return Err(format!("version {version}; only {VERSION} can be read"));
    }
    if !(1..=MAX_THREADS as u32).contains(&threads) {
        return Err(format!("{threads} threads; there may be 1 to {MAX_THREADS}"));
    }
    Ok(threads)
}
