//! Reading traces.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;

use super::{Access, CacheOperation, TraceFormat};

/// Bytes of a record of oracleGeneral.
const ORACLE_BYTES: usize = 24;

/// Bytes from which a format is told.
const HEAD_BYTES: u64 = 4096;

/// Bytes of a key where the trace does not tell: it is written as a number.
const KEY_BYTES: u32 = 16;

/// The longest key that a store takes.
const MOST_KEY_BYTES: u32 = 1024;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A record makes no sense.
    #[error("{unit} {number}: {reason}")]
    Record {
        /// The name of records: line, or record.
        unit: &'static str,
        /// The number of the record, from 1 on.
        number: u64,
        /// The fault.
        reason: String,
    },
    /// No format is recognized.
    #[error(
        "the trace is neither lines of JSON, nor lines with seven fields, nor records of 24 bytes; name its format"
    )]
    Unknown,
    /// The bytes cannot be read.
    #[error("the trace cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Reads a trace of this format, or of the one that it is recognized to be; up to `most` accesses.
/// Returns the format, too.
///
/// # Errors
/// [`TraceError`].
pub fn read(
    source: impl Read,
    format: Option<TraceFormat>,
    most: usize,
) -> Result<(TraceFormat, Vec<Access>), TraceError> {
    let mut source = BufReader::new(source);
    if source.fill_buf()?.starts_with(&GZIP) {
        read_plain(MultiGzDecoder::new(source), format, most)
    } else {
        read_plain(source, format, most)
    }
}

fn read_plain(
    mut source: impl Read,
    format: Option<TraceFormat>,
    most: usize,
) -> Result<(TraceFormat, Vec<Access>), TraceError> {
    let mut head = Vec::new();
    source.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    let format = format.or_else(|| recognize(&head)).ok_or(TraceError::Unknown)?;
    let whole = BufReader::new(Cursor::new(head).chain(source));
    let accesses = match format {
        TraceFormat::Llm => lines(whole, most, prompt),
        TraceFormat::Csv => lines(whole, most, fields),
        TraceFormat::OracleGeneral => records(whole, most),
    }?;
    Ok((format, accesses))
}

/// The format that a trace with this head has, if it is clear.
fn recognize(head: &[u8]) -> Option<TraceFormat> {
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if line.trim_ascii_start().starts_with(b"{") {
        return Some(TraceFormat::Llm);
    }
    if !line.is_empty() && line.iter().all(is_text) {
        let commas = line.iter().filter(|&&byte| byte == b',').count();
        return (commas == 6).then_some(TraceFormat::Csv);
    }
    (head.len() >= ORACLE_BYTES).then_some(TraceFormat::OracleGeneral)
}

/// Reads lines, each of which is a request; empty ones do not count.
fn lines(
    source: impl BufRead,
    most: usize,
    parse: impl Fn(&str, u64, &mut Vec<Access>) -> Result<(), String>,
) -> Result<Vec<Access>, TraceError> {
    let mut accesses = Vec::new();
    for (number, line) in (1..).zip(source.lines()) {
        let wrong = |reason: String| TraceError::Record { unit: "line", number, reason };
        let line = line.map_err(|error| wrong(error.to_string()))?;
        if !line.trim().is_empty() {
            parse(&line, number, &mut accesses).map_err(wrong)?;
        }
        if accesses.len() >= most {
            accesses.truncate(most);
            break;
        }
    }
    Ok(accesses)
}

#[derive(Deserialize)]
struct Prompt {
    hash_ids: Vec<u64>,
}

fn prompt(line: &str, request: u64, accesses: &mut Vec<Access>) -> Result<(), String> {
    let prompt: Prompt = serde_json::from_str(line).map_err(|error| error.to_string())?;
    accesses.extend(prompt.hash_ids.into_iter().map(|key| Access {
        request,
        key,
        key_bytes: KEY_BYTES,
        value_bytes: 0,
        operation: CacheOperation::Get,
        ttl_s: 0,
    }));
    Ok(())
}

/// A line such as `0,key,18,1024,7,get,0`.
fn fields(line: &str, request: u64, accesses: &mut Vec<Access>) -> Result<(), String> {
    let fields: Vec<&str> = line.trim().split(',').map(str::trim).collect();
    let &[time, key, key_bytes, value_bytes, _client, operation, ttl] = &fields[..] else {
        return Err(format!("it has {} fields, not 7", fields.len()));
    };
    let number = |what: &str, text: &str| {
        text.parse::<u32>().map_err(|_| format!("the {what} {text:?} is no number of 32 bits"))
    };
    if time.parse::<f64>().is_err() {
        return Err(format!("the time {time:?} is no number"));
    }
    let key_bytes = number("length of the key", key_bytes)?;
    if key_bytes > MOST_KEY_BYTES {
        return Err(format!("a key of {key_bytes} bytes is longer than {MOST_KEY_BYTES}"));
    }
    accesses.push(Access {
        request,
        key: hash(key),
        key_bytes: key_bytes.max(KEY_BYTES),
        value_bytes: number("length of the value", value_bytes)?,
        operation: match operation {
            "get" | "gets" => CacheOperation::Get,
            "set" | "add" | "replace" | "cas" | "append" | "prepend" | "incr" | "decr" => {
                CacheOperation::Put
            }
            "delete" => CacheOperation::Delete,
            other => return Err(format!("there is no operation {other:?}")),
        },
        ttl_s: number("time to live", ttl)?,
    });
    Ok(())
}

/// FNV-1a, and then mixed: keys are many, and alike.
fn hash(key: &str) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn records(mut source: impl BufRead, most: usize) -> Result<Vec<Access>, TraceError> {
    let mut accesses = Vec::new();
    for number in 1.. {
        if accesses.len() >= most || source.fill_buf()?.is_empty() {
            break;
        }
        let mut record = [0; ORACLE_BYTES];
        source.read_exact(&mut record).map_err(|_| TraceError::Record {
            unit: "record",
            number,
            reason: format!("it ends before it has {ORACLE_BYTES} bytes"),
        })?;
        let (object, size) = (&record[4..12], &record[12..16]);
        accesses.push(Access {
            request: number,
            key: u64::from_le_bytes(object.try_into().expect("8 bytes")),
            key_bytes: KEY_BYTES,
            value_bytes: u32::from_le_bytes(size.try_into().expect("4 bytes")),
            operation: CacheOperation::Get,
            ttl_s: 0,
        });
    }
    Ok(accesses)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const LLM: &str = concat!(
        "{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 5, \"hash_ids\": [0, 1, 2]}\n",
        "\n{\"timestamp\": 7, \"hash_ids\": [0, 3]}\n",
    );
    const CSV: &str = "0,user:1,18,1000,7,get,0\n1,user:2,20,3,7,set,60\n2,user:1,18,0,9,delete,0";

    fn read_all(bytes: &[u8]) -> Result<(TraceFormat, Vec<Access>), String> {
        read(bytes, None, usize::MAX).map_err(|error| error.to_string())
    }

    #[test]
    fn blocks_of_prompts_are_read_packed_or_not() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(LLM.as_bytes()).unwrap();
        for bytes in [LLM.as_bytes().to_vec(), packed.finish().unwrap()] {
            let (format, accesses) = read_all(&bytes).unwrap();
            let told = accesses.iter().map(|access| (access.request, access.key));
            assert_eq!(format, TraceFormat::Llm);
            assert_eq!(told.collect::<Vec<_>>(), [(1, 0), (1, 1), (1, 2), (3, 0), (3, 3)]);
            assert_eq!(read(&bytes[..], None, 4).unwrap().1.len(), 4);
        }
    }

    #[test]
    fn lines_with_fields_are_read() {
        let (format, accesses) = read_all(CSV.as_bytes()).unwrap();
        assert_eq!(format, TraceFormat::Csv);
        use CacheOperation::{Delete, Get, Put};
        let told = |access: &Access| {
            (access.operation, access.key_bytes, access.value_bytes, access.ttl_s)
        };
        let told: Vec<_> = accesses.iter().map(told).collect();
        assert_eq!(told, [(Get, 18, 1000, 0), (Put, 20, 3, 60), (Delete, 18, 0, 0)]);
        assert!(accesses[0].key == accesses[2].key && accesses[0].key != accesses[1].key);
    }

    #[test]
    fn records_are_read() {
        let record = |time: u32, object: u64, size: u32, next: i64| {
            [
                &time.to_le_bytes()[..],
                &object.to_le_bytes(),
                &size.to_le_bytes(),
                &next.to_le_bytes(),
            ]
            .concat()
        };
        let bytes = [record(1, 1 << 40, 500, 2), record(2, 1 << 40, 500, -1)].concat();
        let (format, accesses) = read_all(&bytes).unwrap();
        assert_eq!(format, TraceFormat::OracleGeneral);
        assert_eq!(accesses.len(), 2);
        assert_eq!((accesses[1].key, accesses[1].value_bytes), (1 << 40, 500));
        let cut = read_all(&bytes[..40]).unwrap_err();
        assert_eq!(cut, "record 2: it ends before it has 24 bytes");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let line = |text: &str| read_all(format!("{CSV}\n{text}").as_bytes()).unwrap_err();
        assert_eq!(line("3,k,1"), "line 4: it has 3 fields, not 7");
        assert_eq!(
            line("3,k,1,x,1,get,0"),
            "line 4: the length of the value \"x\" is no number of 32 bits"
        );
        assert_eq!(line("3,k,1,1,1,fly,0"), "line 4: there is no operation \"fly\"");
        let broken = read_all(format!("{LLM}{{\"hash_ids\": 1}}").as_bytes()).unwrap_err();
        assert!(broken.starts_with("line 4: invalid type"), "{broken}");
        assert!(read_all(b"hello\n").unwrap_err().contains("name its format"));
        assert_eq!(
            read_all(b"\x1f\x8bnonsense").unwrap_err().split(':').next().unwrap(),
            "the trace cannot be read"
        );
    }
}
