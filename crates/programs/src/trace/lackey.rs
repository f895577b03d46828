//! The output of `valgrind --tool=lackey --trace-mem=yes`: a line for each instruction (`I`), and
//! after it one for each load (` L`), store (` S`) or both (` M`) that it does, with address and
//! size.
//!
//! Valgrind's own lines (`==pid==`, `--pid--`, `**pid**`) and empty lines say nothing. There is one
//! thread: lackey does not tell which one it was.

use std::io::BufRead;

use super::{Record, Records, TraceError, next_record};

/// The longest line, in bytes.
const MAX_LINE: usize = 1000;

/// Reads lackey's text. It ends after the first error.
pub struct LackeyTrace<R> {
    reader: R,
    lines: u64,
    bytes: u64,
    records: u64,
    /// Instructions since the last record.
    instructions: u32,
    /// The second half of a load and store.
    store: Option<Record>,
    ended: bool,
}

/// The meaning of a line.
enum Line {
    Nothing,
    Instruction,
    Access { record: Record, both: bool },
}

impl<R: BufRead> LackeyTrace<R> {
    /// Begins to read.
    pub fn new(reader: R) -> Self {
        Self { reader, lines: 0, bytes: 0, records: 0, instructions: 0, store: None, ended: false }
    }

    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        if let Some(store) = self.store.take() {
            self.records += 1;
            return Ok(Some(store));
        }
        loop {
            match self.line()? {
                None if self.records == 0 => {
                    let problem = "the trace ends without an access; give lackey --trace-mem=yes";
                    return Err(self.problem(problem.to_owned()));
                }
                None => return Ok(None),
                Some(Line::Nothing) => {}
                Some(Line::Instruction) => {
                    self.instructions = self.instructions.saturating_add(1);
                }
                Some(Line::Access { mut record, both }) => {
                    if both {
                        self.store = Some(Record { write: true, ..record });
                    }
                    record.instructions = std::mem::take(&mut self.instructions);
                    self.records += 1;
                    return Ok(Some(record));
                }
            }
        }
    }

    /// The next line, unless there is none.
    fn line(&mut self) -> Result<Option<Line>, TraceError> {
        let byte = self.bytes;
        let block = self.reader.fill_buf().map_err(|error| TraceError::Io { byte, error })?;
        if block.is_empty() {
            return Ok(None);
        }
        let near = &block[..block.len().min(MAX_LINE)];
        let Some(end) = near.iter().position(|&byte| byte == b'\n') else {
            return self.long_line();
        };
        let line = parse(&block[..end]);
        self.lines += 1;
        self.reader.consume(end + 1);
        self.bytes += end as u64 + 1;
        line.map(Some).map_err(|problem| self.problem(problem))
    }

    /// A line that does not lie in the reader's buffer as a whole.
    #[cold]
    fn long_line(&mut self) -> Result<Option<Line>, TraceError> {
        let mut line = Vec::new();
        let byte = self.bytes;
        let mut near = std::io::Read::take(&mut self.reader, MAX_LINE as u64 + 1);
        let read = near.read_until(b'\n', &mut line);
        read.map_err(|error| TraceError::Io { byte, error })?;
        self.lines += 1;
        self.bytes += line.len() as u64;
        if line.len() > MAX_LINE {
            return Err(self.problem(format!("more than {MAX_LINE} bytes; lackey's are short")));
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        parse(text).map(Some).map_err(|problem| self.problem(problem))
    }

    #[cold]
    fn problem(&self, problem: String) -> TraceError {
        TraceError::Line { line: self.lines, records: self.records, problem }
    }
}

impl<R: BufRead> Records for LackeyTrace<R> {
    #[inline]
    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        self.read()
    }

    #[inline]
    fn ended(&mut self) -> &mut bool {
        &mut self.ended
    }
}

impl<R: BufRead> Iterator for LackeyTrace<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        next_record(self)
    }
}

fn parse(line: &[u8]) -> Result<Line, String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let access = |rest, write, both| {
        let (address, bytes) = place(rest).ok_or_else(|| not_lackey(line))?;
        let record = Record { thread: 0, address, bytes, write, instructions: 0 };
        record.problem().map_or(Ok(Line::Access { record, both }), Err)
    };
    match line {
        [b'I', b' ', b' ', rest @ ..] if place(rest).is_some() => Ok(Line::Instruction),
        [b' ', b'L', b' ', rest @ ..] => access(rest, false, false),
        [b' ', b'S', b' ', rest @ ..] => access(rest, true, false),
        [b' ', b'M', b' ', rest @ ..] => access(rest, false, true),
        [] | [b'=', b'=', ..] | [b'-', b'-', ..] | [b'*', b'*', ..] => Ok(Line::Nothing),
        _ => Err(not_lackey(line)),
    }
}

/// The address and the size in `hexadecimal,decimal`.
#[inline]
fn place(text: &[u8]) -> Option<(u64, u32)> {
    let comma = text.iter().position(|&byte| byte == b',')?;
    let (digits, size) = (&text[..comma], &text[comma + 1..]);
    if !(1..=16).contains(&digits.len()) || !(1..=9).contains(&size.len()) {
        return None;
    }
    let mut address = 0;
    for &digit in digits {
        address = address << 4 | u64::from(char::from(digit).to_digit(16)?);
    }
    let mut bytes = 0;
    for &digit in size {
        bytes = 10 * bytes + char::from(digit).to_digit(10)?;
    }
    Some((address, bytes))
}

#[cold]
fn not_lackey(line: &[u8]) -> String {
    let start = String::from_utf8_lossy(&line[..line.len().min(40)]);
    format!(
        "{start:?} is neither a binary trace nor a line of lackey, such as \" L 1ffeffe818,8\"; \
         run valgrind --tool=lackey --trace-mem=yes --log-file=FILE PROGRAM"
    )
}
