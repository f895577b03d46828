//! A text with an access a line, `THREAD R|W ADDRESS BYTES [INSTRUCTIONS]`: as a few lines of a
//! tracing tool print it.
//!
//! The thread is any number. The address is hexadecimal, with `0x` or without. Instructions are
//! those of the thread since its last access, this one's among them; 1, unless given. Empty lines,
//! and lines that start with `#`, say nothing.

use std::io::{BufRead, Read};

use super::threads::Threads;
use super::{Record, Records, TraceError, next_record};

/// The longest line, in bytes.
const MAX_LINE: u64 = 1000;

/// Reads a text with an access a line. It ends after the first error.
pub struct TextTrace<R> {
    reader: R,
    threads: Threads,
    line: Vec<u8>,
    lines: u64,
    bytes: u64,
    records: u64,
    ended: bool,
}

impl<R: BufRead> TextTrace<R> {
    /// Begins to read.
    pub fn new(reader: R) -> Self {
        let (threads, line) = (Threads::default(), Vec::new());
        Self { reader, threads, line, lines: 0, bytes: 0, records: 0, ended: false }
    }

    /// How many threads were met so far.
    pub fn threads(&self) -> u32 {
        self.threads.count()
    }

    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            self.line.clear();
            let byte = self.bytes;
            let read = self.reader.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut self.line);
            self.bytes += read.map_err(|error| TraceError::Io { byte, error })? as u64;
            self.lines += 1;
            if self.line.is_empty() {
                return Ok(None);
            }
            if self.line.len() as u64 > MAX_LINE {
                return Err(self.problem(format!("more than {MAX_LINE} bytes; this is no access")));
            }
            let line = self.line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            return match parse(line, &mut self.threads) {
                Ok(record) => {
                    self.records += 1;
                    Ok(Some(record))
                }
                Err(problem) => Err(self.problem(problem)),
            };
        }
    }

    #[cold]
    fn problem(&self, problem: String) -> TraceError {
        TraceError::Line { line: self.lines, records: self.records, problem }
    }
}

impl<R: BufRead> Records for TextTrace<R> {
    #[inline]
    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        self.read()
    }

    #[inline]
    fn ended(&mut self) -> &mut bool {
        &mut self.ended
    }
}

impl<R: BufRead> Iterator for TextTrace<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        next_record(self)
    }
}

fn parse(line: &[u8], threads: &mut Threads) -> Result<Record, String> {
    let text = String::from_utf8_lossy(line);
    let words: Vec<&str> = text.split_whitespace().collect();
    let (thread, way, address, bytes, instructions) = match words[..] {
        [thread, way, address, bytes] => (thread, way, address, bytes, "1"),
        [thread, way, address, bytes, instructions] => (thread, way, address, bytes, instructions),
        _ => return Err(format!("{text:?} is not `THREAD R|W ADDRESS BYTES [INSTRUCTIONS]`")),
    };
    let write = match way {
        "R" | "r" => false,
        "W" | "w" => true,
        other => return Err(format!("{other:?} is neither R nor W")),
    };
    let no = |what: &str, word: &str| format!("{word:?} is no {what}");
    let hexadecimal = address.strip_prefix("0x").unwrap_or(address);
    let record = Record {
        thread: threads.number(thread.parse().map_err(|_| no("thread", thread))?)?,
        address: u64::from_str_radix(hexadecimal, 16).map_err(|_| no("address", address))?,
        bytes: bytes.parse().map_err(|_| no("number of bytes", bytes))?,
        write,
        instructions: instructions
            .parse()
            .map_err(|_| no("number of instructions", instructions))?,
    };
    record.problem().map_or(Ok(record), Err)
}
