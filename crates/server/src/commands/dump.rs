//! `DUMP` and `RESTORE`: values as Redis' files have them.
//!
//! ```text
//! type      a byte: 0 is a string
//! length    of the string: 6, 14, 32 or 64 bits; or how it is packed
//! string
//! version   two bytes, the lower one first
//! checksum  eight bytes: CRC-64 of all before, as Redis calculates it
//! ```

use bytes::Bytes;
use tombolo_kv::Entry;

use super::{Context, Failure, Modified, Outcome, integer, is, modify};
use crate::decode::MAX_ARGUMENT_BYTES;
use crate::reply::Reply;
use crate::store::Store;

/// The version of files that is written: Redis 7.0's, which later ones read.
const VERSION: u16 = 10;
/// The newest version that is read; strings have been the same in all.
const NEWEST_VERSION: u16 = 12;
const STRING: u8 = 0;
const LIBRARY: u8 = 245;
const FOOTER_BYTES: usize = 10;

pub(super) fn dump(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    context.reserve_value(&args[1])?;
    let entry = context.store().get(&args[1])?;
    Ok(Reply::bulk_or_null(entry.map(|entry| pack(&entry.value))))
}

pub(super) fn restore(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let (mut replace, mut absolute) = (false, false);
    let mut options = args[4..].iter();
    while let Some(option) = options.next() {
        if is(option, "replace") {
            replace = true;
        } else if is(option, "absttl") {
            absolute = true;
        } else if is(option, "idletime") || is(option, "freq") {
            // A value that was restored counts as used now.
            integer(options.next().ok_or_else(Failure::syntax)?)?;
        } else {
            return Err(Failure::syntax());
        }
    }
    if !replace && context.exists(&args[1])? {
        return Err(busy());
    }
    let ttl = u64::try_from(integer(&args[2])?)
        .map_err(|_| Failure::new("ERR Invalid TTL value, must be >= 0"))?;
    let now = context.store().now_ms();
    let deadline = if absolute { ttl } else { ttl.saturating_add(now) };
    let deadline_ms = (ttl > 0).then_some(deadline);
    let entry = Entry { value: unpack(&args[3])?, deadline_ms };
    modify(context, &args[1], |before| {
        if before.is_some() && !replace {
            return Err(busy());
        }
        Ok(match deadline_ms {
            Some(deadline) if deadline <= now => Modified::delete(()),
            _ => Modified::put(entry.clone(), ()),
        })
    })?;
    Ok(Reply::OK)
}

fn busy() -> Failure {
    Failure::new("BUSYKEY Target key name already exists.")
}

fn pack(value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len() + 16);
    add_string(STRING, value, &mut bytes);
    finish(bytes)
}

/// The same of libraries of functions.
pub(super) fn pack_libraries<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    texts.for_each(|text| add_string(LIBRARY, text, &mut bytes));
    finish(bytes)
}

fn add_string(kind: u8, value: &[u8], bytes: &mut Vec<u8>) {
    bytes.push(kind);
    match value.len() {
        short @ 0..64 => bytes.push(short as u8),
        middling @ 64..16384 => bytes.extend([0x40 | (middling >> 8) as u8, middling as u8]),
        long => {
            bytes.push(0x80);
            bytes.extend((long as u32).to_be_bytes());
        }
    }
    bytes.extend(value);
}

/// Adds version and checksum.
fn finish(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(VERSION.to_le_bytes());
    let checksum = checksum(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

fn unpack(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let [STRING, string @ ..] = body(bytes)? else {
        return Err(Failure::new("ERR Bad data format: values are strings here"));
    };
    let value = string_of(string).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value);
    value.ok_or_else(|| Failure::new("ERR Bad data format"))
}

/// The texts of libraries.
pub(super) fn unpack_libraries(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
    let (mut rest, mut texts) = (body(bytes)?, Vec::new());
    while let [kind, string @ ..] = rest {
        if *kind != LIBRARY {
            return Err(Failure::new("ERR given type is not a function"));
        }
        let (text, after) =
            string_of(string).ok_or_else(|| Failure::new("ERR Failed loading library data"))?;
        texts.push(text);
        rest = after;
    }
    Ok(texts)
}

/// The bytes before version and checksum, if those are right.
fn body(bytes: &[u8]) -> Result<&[u8], Failure> {
    let wrong = || Failure::new("ERR DUMP payload version or checksum are wrong");
    let split = bytes.len().checked_sub(FOOTER_BYTES).ok_or_else(wrong)?;
    let (body, footer) = bytes.split_at(split);
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    let expected = footer[2..].try_into().map_or(0, u64::from_le_bytes);
    // A checksum of 0 is none.
    let whole = expected == 0 || expected == checksum(&bytes[..bytes.len() - 8]);
    if version > NEWEST_VERSION || !whole {
        return Err(wrong());
    }
    Ok(body)
}

/// A length, and what follows it; of what is packed, how.
fn length_of(bytes: &[u8]) -> Option<(Result<usize, u8>, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    match first >> 6 {
        0 => Some((Ok(usize::from(first & 0x3f)), rest)),
        1 => {
            let (&low, rest) = rest.split_first()?;
            Some((Ok(usize::from(first & 0x3f) << 8 | usize::from(low)), rest))
        }
        2 if first == 0x80 => {
            let (bytes, rest) = rest.split_first_chunk()?;
            Some((Ok(u32::from_be_bytes(*bytes) as usize), rest))
        }
        2 if first == 0x81 => {
            let (bytes, rest) = rest.split_first_chunk()?;
            Some((Ok(usize::try_from(u64::from_be_bytes(*bytes)).ok()?), rest))
        }
        2 => None,
        _ => Some((Err(first & 0x3f), rest)),
    }
}

fn string_of(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (length, rest) = length_of(bytes)?;
    match length {
        Ok(length) => Some((rest.get(..length)?.to_vec(), &rest[length..])),
        Err(0) => {
            let (&number, rest) = rest.split_first()?;
            Some(((number as i8).to_string().into_bytes(), rest))
        }
        Err(1) => {
            let (number, rest) = rest.split_first_chunk()?;
            Some((i16::from_le_bytes(*number).to_string().into_bytes(), rest))
        }
        Err(2) => {
            let (number, rest) = rest.split_first_chunk()?;
            Some((i32::from_le_bytes(*number).to_string().into_bytes(), rest))
        }
        Err(3) => {
            let (packed, rest) = length_of(rest)?;
            let (length, rest) = length_of(rest)?;
            let packed = packed.ok()?;
            let value = decompressed(rest.get(..packed)?, length.ok()?)?;
            Some((value, &rest[packed..]))
        }
        Err(_) => None,
    }
}

/// The string of so many bytes that was compressed by LZF.
fn decompressed(mut bytes: &[u8], length: usize) -> Option<Vec<u8>> {
    if length > MAX_ARGUMENT_BYTES {
        return None;
    }
    // No room is made for a length that the bytes do not come to.
    let mut value: Vec<u8> = Vec::new();
    while let Some((&control, rest)) = bytes.split_first() {
        let control = usize::from(control);
        if control < 32 {
            value.extend(rest.get(..=control)?);
            bytes = &rest[control + 1..];
        } else {
            let (copied, rest) = match control >> 5 {
                7 => {
                    let (&more, rest) = rest.split_first()?;
                    (9 + usize::from(more), rest)
                }
                short => (short + 2, rest),
            };
            let (&low, rest) = rest.split_first()?;
            let back = ((control & 31) << 8 | usize::from(low)) + 1;
            let start = value.len().checked_sub(back)?;
            for at in start..start + copied {
                value.push(value[at]);
            }
            bytes = rest;
        }
        if value.len() > length {
            return None;
        }
    }
    (value.len() == length).then_some(value)
}

/// The polynomial by Jones, bits reversed.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u64, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| TABLE[usize::from(sum as u8 ^ byte)] ^ sum >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        // The check value of Redis' own test.
        assert_eq!(checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        for length in [0, 1, 63, 64, 16383, 16384, 100_000] {
            let value: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let mut packed = pack(&value);
            assert_eq!(unpack(&packed).unwrap(), value);
            packed[length] ^= 1;
            assert!(unpack(&packed).is_err());
        }
    }

    #[test]
    fn what_is_compressed_is_read() {
        // "abcabcabc...": three literals, and a copy of 17 from three before.
        let bytes = b"\x02abc\xe0\x08\x02";
        assert_eq!(decompressed(bytes, 20).unwrap(), b"abcabcabcabcabcabcab");
        assert_eq!(decompressed(bytes, 19), None);
        assert_eq!(decompressed(b"\x20\x05", 3), None);
        assert_eq!(decompressed(b"\x1fa", 1), None);
    }
}
