//! Commands on the bits of strings: the first one is the highest of the first byte.

use bytes::Bytes;
use tombolo_kv::Entry;

use super::{Context, Failure, Modified, Outcome, excerpt, integer, is, modify};
use crate::decode::MAX_ARGUMENT_BYTES;
use crate::reply::Reply;
use crate::store::Store;

/// Where a bit is: `#3`, where that is allowed, is the third field of so many bits.
pub(super) fn bit_offset(text: &[u8], field_bits: Option<u64>) -> Result<u64, Failure> {
    let failure = || Failure::new("ERR bit offset is not an integer or out of range");
    let (text, factor) = match (text.strip_prefix(b"#"), field_bits) {
        (Some(number), Some(bits)) => (number, bits),
        _ => (text, 1),
    };
    let number = integer(text).ok().and_then(|number| u64::try_from(number).ok());
    let offset = number.and_then(|number| number.checked_mul(factor));
    offset.filter(|offset| offset / 8 < MAX_ARGUMENT_BYTES as u64).ok_or_else(failure)
}

pub(super) fn getbit(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let offset = bit_offset(&args[2], None)?;
    let byte = offset / 8;
    let choose = |bytes: u64| if byte < bytes { byte..byte + 1 } else { 0..0 };
    let found = context.store().get_range(&args[1], &choose)?.unwrap_or_default();
    Ok(Reply::Integer(found.first().map_or(0, |byte| bit_of(*byte, offset))))
}

fn bit_of(byte: u8, offset: u64) -> i64 {
    i64::from(byte >> (7 - offset % 8) & 1)
}

pub(super) fn setbit(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let offset = bit_offset(&args[2], None)?;
    let bit = match integer(&args[3]) {
        Ok(bit @ (0 | 1)) => bit as u8,
        _ => return Err(Failure::new("ERR bit is not an integer or out of range")),
    };
    modify(context, &args[1], |before| {
        let mut entry = before.unwrap_or_default();
        let at = (offset / 8) as usize;
        let grows = entry.value.len() <= at;
        entry.value.resize(entry.value.len().max(at + 1), 0);
        let byte = &mut entry.value[at];
        let old = bit_of(*byte, offset);
        let mask = 1 << (7 - offset % 8);
        *byte = if bit == 1 { *byte | mask } else { *byte & !mask };
        let same = !grows && old == i64::from(bit);
        Ok(if same { Modified::keep(old) } else { Modified::put(entry, old) })
    })
    .map(Reply::Integer)
}

/// A range of bits, of which both ends count.
struct Range {
    start: i64,
    end: i64,
    /// The ends are bytes.
    bytes: bool,
}

impl Range {
    /// From the words behind the others of a command, of which the first ones may be left out.
    fn parse(args: &[Bytes]) -> Result<Self, Failure> {
        let start = args.first().map_or(Ok(0), |start| integer(start))?;
        let end = args.get(1).map_or(Ok(-1), |end| integer(end))?;
        let bytes = match args.get(2) {
            None => true,
            Some(unit) if is(unit, "byte") => true,
            Some(unit) if is(unit, "bit") => false,
            Some(_) => return Err(Failure::syntax()),
        };
        Ok(Self { start, end, bytes })
    }

    /// The bits that it has of a string of so many bytes; none, if the end is before the start.
    fn of(&self, length: usize) -> std::ops::Range<u64> {
        let length = if self.bytes { length as i64 } else { 8 * length as i64 };
        if self.start < 0 && self.end < 0 && self.start > self.end {
            return 0..0;
        }
        let from_end = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
        let (start, end) = (from_end(self.start), from_end(self.end).min(length - 1));
        if start > end {
            return 0..0;
        }
        let unit = if self.bytes { 8 } else { 1 };
        start as u64 * unit..(end as u64 + 1) * unit
    }
}

/// A string, if it may be read now.
fn value(context: &Context<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    context.reserve_value(key)?;
    Ok(context.store().get(key)?.map(|entry| entry.value))
}

pub(super) fn bitcount(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    if args.len() == 3 || args.len() > 5 {
        return Err(Failure::syntax());
    }
    let range = Range::parse(&args[2..])?;
    let value = value(context, &args[1])?.unwrap_or_default();
    let bits = range.of(value.len());
    if bits.is_empty() {
        return Ok(Reply::Integer(0));
    }
    let (first, last) = ((bits.start / 8) as usize, ((bits.end - 1) / 8) as usize);
    let mut count: i64 = value[first..=last].iter().map(|byte| i64::from(byte.count_ones())).sum();
    // Bits of the outer bytes that are not within.
    let outside = |range: std::ops::Range<u64>| -> i64 {
        range.map(|bit| bit_of(value[(bit / 8) as usize], bit)).sum()
    };
    count -= outside(bits.start / 8 * 8..bits.start);
    count -= outside(bits.end..bits.end.next_multiple_of(8));
    Ok(Reply::Integer(count))
}

pub(super) fn bitpos(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let wanted = match integer(&args[2])? {
        bit @ (0 | 1) => bit,
        _ => return Err(Failure::new("ERR The bit argument must be 1 or 0.")),
    };
    if args.len() > 6 {
        return Err(Failure::syntax());
    }
    let range = Range::parse(&args[3..])?;
    let Some(value) = value(context, &args[1])? else {
        return Ok(Reply::Integer(if wanted == 1 { -1 } else { 0 }));
    };
    let bits = range.of(value.len());
    if let Some(found) = position(&value, bits.clone(), wanted) {
        return Ok(Reply::Integer(found as i64));
    }
    // A string without an end that was asked for goes on with zeros.
    let goes_on = wanted == 0 && args.len() < 5 && !bits.is_empty();
    Ok(Reply::Integer(if goes_on { 8 * value.len() as i64 } else { -1 }))
}

fn position(value: &[u8], bits: std::ops::Range<u64>, wanted: i64) -> Option<u64> {
    let without = if wanted == 1 { 0 } else { u8::MAX };
    let mut bit = bits.start;
    while bit < bits.end {
        let byte = value[(bit / 8) as usize];
        if bit.is_multiple_of(8) && byte == without {
            bit += 8;
            continue;
        }
        if bit_of(byte, bit) == wanted {
            return Some(bit);
        }
        bit += 1;
    }
    None
}

pub(super) fn bitop(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let combine: fn(u8, u8) -> u8 = match args[1].to_ascii_lowercase().as_slice() {
        b"and" => |a, b| a & b,
        b"or" => |a, b| a | b,
        b"xor" => |a, b| a ^ b,
        b"not" if args.len() == 4 => |a, _| !a,
        b"not" => {
            let text = "ERR BITOP NOT must be called with a single source key.";
            return Err(Failure::new(text));
        }
        _ => return Err(Failure::syntax()),
    };
    let bytes = |key: &Bytes| Ok(context.store().stat(key)?.map_or(0, |stat| stat.value_bytes));
    context.reserve(args[3..].iter().map(bytes).sum::<Result<u64, Failure>>()?)?;
    let read = |key: &Bytes| Ok(context.store().get(key)?.map_or(Vec::new(), |e| e.value));
    let values = args[3..].iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
    let length = values.iter().map(Vec::len).max().unwrap_or(0);
    let byte = |value: &Vec<u8>, at: usize| value.get(at).copied().unwrap_or(0);
    let combined = |at: usize| {
        let (first, others) = values.split_first().unwrap_or((const { &Vec::new() }, &[]));
        let others = others.iter().map(|value| byte(value, at));
        match values.len() {
            1 => combine(byte(first, at), byte(first, at)),
            _ => others.fold(byte(first, at), combine),
        }
    };
    // A single source of XOR is itself, and not zero.
    let alone = values.len() == 1 && !is(&args[1], "not");
    let result: Vec<u8> =
        (0..length).map(|at| if alone { byte(&values[0], at) } else { combined(at) }).collect();
    if result.is_empty() {
        context.store().delete(&args[2])?;
    } else {
        context.store().put(&args[2], &Entry::lasting(result))?;
    }
    Ok(Reply::Integer(length as i64))
}

/// An integer of up to 64 bits within a string.
#[derive(Clone, Copy)]
struct Field {
    signed: bool,
    bits: u64,
    offset: u64,
}

#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

impl Field {
    fn parse(kind: &[u8], offset: &[u8]) -> Result<Self, Failure> {
        let (signed, most) = match kind.first() {
            Some(b'i') => (true, 64),
            Some(b'u') => (false, 63),
            _ => (false, 0),
        };
        let bits = kind.get(1..).and_then(|bits| integer(bits).ok()).unwrap_or(0);
        if !(1..=most).contains(&bits) {
            return Err(Failure::new(
                "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
            ));
        }
        let bits = bits as u64;
        let offset = bit_offset(offset, Some(bits))?;
        Ok(Self { signed, bits, offset })
    }

    /// Bytes of a string that has it.
    fn string_bytes(self) -> usize {
        (self.offset + self.bits).div_ceil(8) as usize
    }

    fn read(self, value: &[u8]) -> i128 {
        let bit =
            |at: u64| value.get((at / 8) as usize).map_or(0, |byte| i128::from(bit_of(*byte, at)));
        let places = self.offset..self.offset + self.bits;
        self.wrapped(places.fold(0, |number, at| number << 1 | bit(at)))
    }

    fn write(self, value: &mut [u8], number: i128) {
        for place in 0..self.bits {
            let at = self.offset + place;
            let bit = (number >> (self.bits - 1 - place) & 1) as u8;
            let shift = 7 - at % 8;
            let byte = &mut value[(at / 8) as usize];
            *byte = *byte & !(1 << shift) | bit << shift;
        }
    }

    /// The number that its low bits are.
    fn wrapped(self, number: i128) -> i128 {
        let low = number & ((1 << self.bits) - 1);
        if self.signed && low >> (self.bits - 1) == 1 { low - (1 << self.bits) } else { low }
    }

    /// The value that the field holds for a number; `None` if it does not fit and that fails.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i128> {
        let (least, most) = if self.signed {
            (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        } else {
            (0, (1 << self.bits) - 1)
        };
        match overflow {
            _ if (least..=most).contains(&number) => Some(number),
            Overflow::Wrap => Some(self.wrapped(number)),
            Overflow::Saturate => Some(number.clamp(least, most)),
            Overflow::Fail => None,
        }
    }
}

fn field_actions(args: &[Bytes]) -> Result<Vec<(Field, Action, Overflow)>, Failure> {
    let mut actions = Vec::new();
    let (mut rest, mut overflow) = (args, Overflow::Wrap);
    while !rest.is_empty() {
        let taken = match rest {
            [word, kind, ..] if is(word, "overflow") => {
                overflow = match kind.to_ascii_lowercase().as_slice() {
                    b"wrap" => Overflow::Wrap,
                    b"sat" => Overflow::Saturate,
                    b"fail" => Overflow::Fail,
                    _ => return Err(Failure::new("ERR Invalid OVERFLOW type specified")),
                };
                2
            }
            [word, kind, offset, ..] if is(word, "get") => {
                actions.push((Field::parse(kind, offset)?, Action::Get, overflow));
                3
            }
            [word, kind, offset, number, ..] if is(word, "set") || is(word, "incrby") => {
                let field = Field::parse(kind, offset)?;
                let number = integer(number)?;
                let action =
                    if is(word, "set") { Action::Set(number) } else { Action::Add(number) };
                actions.push((field, action, overflow));
                4
            }
            _ => return Err(Failure::syntax()),
        };
        rest = &rest[taken..];
    }
    Ok(actions)
}

pub(super) fn bitfield(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let actions = field_actions(&args[2..])?;
    let written = actions.iter().filter(|(_, action, _)| !matches!(action, Action::Get));
    let Some(bytes) = written.map(|(field, ..)| field.string_bytes()).max() else {
        return read_fields(context, &args[1], &actions);
    };
    modify(context, &args[1], |before| {
        let mut entry = before.unwrap_or_default();
        let old = entry.value[..bytes.min(entry.value.len())].to_vec();
        entry.value.resize(entry.value.len().max(bytes), 0);
        let replies = actions.iter().map(|action| apply(&mut entry.value, *action)).collect();
        let replies = Reply::Array(replies);
        let same = entry.value[..bytes] == old;
        Ok(if same { Modified::keep(replies) } else { Modified::put(entry, replies) })
    })
}

pub(super) fn bitfield_ro(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let actions = field_actions(&args[2..])?;
    if actions.iter().any(|(_, action, _)| !matches!(action, Action::Get)) {
        return Err(Failure::new("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read_fields(context, &args[1], &actions)
}

fn read_fields(
    context: &Context<'_>,
    key: &[u8],
    actions: &[(Field, Action, Overflow)],
) -> Outcome {
    let value = value(context, key)?.unwrap_or_default();
    let read = |(field, ..): &(Field, Action, Overflow)| Reply::Integer(field.read(&value) as i64);
    Ok(Reply::Array(actions.iter().map(read).collect()))
}

fn apply(value: &mut [u8], (field, action, overflow): (Field, Action, Overflow)) -> Reply {
    let old = field.read(value);
    let new = match action {
        Action::Get => return Reply::Integer(old as i64),
        // Redis takes a negative number for a large one here.
        Action::Set(number) if !field.signed => i128::from(number as u64),
        Action::Set(number) => i128::from(number),
        Action::Add(number) => old + i128::from(number),
    };
    let Some(new) = field.fit(new, overflow) else { return Reply::Null };
    field.write(value, new);
    Reply::Integer(if matches!(action, Action::Set(_)) { old } else { new } as i64)
}

/// The longest table for a common subsequence, in cells of 4 bytes.
const MAX_CELLS: usize = 32 << 20;

#[derive(Default)]
struct LcsOptions {
    length: bool,
    indexes: bool,
    with_length: bool,
    least: i64,
}

pub(super) fn lcs(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let mut options = LcsOptions::default();
    let mut rest = args[3..].iter();
    while let Some(word) = rest.next() {
        match word.to_ascii_lowercase().as_slice() {
            b"len" => options.length = true,
            b"idx" => options.indexes = true,
            b"withmatchlen" => options.with_length = true,
            b"minmatchlen" => {
                options.least = integer(rest.next().ok_or_else(Failure::syntax)?)?.max(0);
            }
            _ => return Err(Failure::syntax()),
        }
    }
    if options.length && options.indexes {
        let text = "ERR If you want both the length and indexes, please just use IDX.";
        return Err(Failure::new(text));
    }
    let (a, b) = (value(context, &args[1])?, value(context, &args[2])?);
    let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
    if (a.len() + 1).saturating_mul(b.len() + 1) > MAX_CELLS {
        return Err(Failure::new(
            "ERR Insufficient memory, failed allocating transient memory, string too long for LCS",
        ));
    }
    Ok(super::patiently(|| common_subsequence(&a, &b, &options)))
}

fn common_subsequence(a: &[u8], b: &[u8], options: &LcsOptions) -> Reply {
    let width = b.len() + 1;
    let mut lengths = vec![0_u32; (a.len() + 1) * width];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            lengths[i * width + j] = if a[i - 1] == b[j - 1] {
                lengths[(i - 1) * width + j - 1] + 1
            } else {
                lengths[(i - 1) * width + j].max(lengths[i * width + j - 1])
            };
        }
    }
    let length = Reply::Integer(i64::from(lengths[a.len() * width + b.len()]));
    if options.length {
        return length;
    }
    let mut common = Vec::new();
    // Starts of ranges that match, and their lengths, from the end on.
    let mut ranges: Vec<(usize, usize, usize)> = Vec::new();
    let (mut i, mut j) = (a.len(), b.len());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            common.push(a[i - 1]);
            match ranges.last_mut() {
                Some((start_a, start_b, bytes)) if (*start_a, *start_b) == (i, j) => {
                    (*start_a, *start_b, *bytes) = (i - 1, j - 1, *bytes + 1);
                }
                _ => ranges.push((i - 1, j - 1, 1)),
            }
            (i, j) = (i - 1, j - 1);
        } else if lengths[(i - 1) * width + j] > lengths[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    if !options.indexes {
        common.reverse();
        return Reply::Bulk(common);
    }
    let number = |at: usize| Reply::Integer(at as i64);
    let matches = ranges.into_iter().filter(|range| range.2 as i64 >= options.least);
    let matches = matches.map(|(a, b, bytes)| {
        let range = |start: usize| Reply::Array(vec![number(start), number(start + bytes - 1)]);
        let length = options.with_length.then(|| number(bytes));
        Reply::Array([range(a), range(b)].into_iter().chain(length).collect())
    });
    let matches = Reply::Array(matches.collect());
    Reply::Map(vec![(Reply::bulk("matches"), matches), (Reply::bulk("len"), length)])
}

/// The condition of a command that looks at the value before.
#[derive(Clone)]
pub(super) enum Comparison {
    Equal(Bytes),
    Different(Bytes),
}

impl Comparison {
    /// The one that these words begin with.
    pub(super) fn parse(word: &[u8], value: &Bytes) -> Option<Self> {
        match word.to_ascii_lowercase().as_slice() {
            b"ifeq" => Some(Self::Equal(value.clone())),
            b"ifne" => Some(Self::Different(value.clone())),
            _ => None,
        }
    }

    /// Whether it holds of a value.
    pub(super) fn holds(&self, value: &[u8]) -> bool {
        match self {
            Self::Equal(expected) => value == expected,
            Self::Different(other) => value != other,
        }
    }
}

pub(super) fn delex(context: &mut Context<'_>, args: &[Bytes]) -> Outcome {
    let comparison = match &args[2..] {
        [] => return Ok(Reply::flag(context.store().delete(&args[1])?)),
        [word, value] => Comparison::parse(word, value)
            .ok_or_else(|| Failure::new(format!("ERR Invalid condition '{}'", excerpt(word))))?,
        _ => return Err(Failure::arity("delex")),
    };
    modify(context, &args[1], |before| {
        Ok(match before {
            Some(entry) if comparison.holds(&entry.value) => Modified::delete(true),
            _ => Modified::keep(false),
        })
    })
    .map(Reply::flag)
}
