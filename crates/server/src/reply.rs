//! Replies to bytes, in either version of the protocol.

use bytes::{BufMut, BytesMut};

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Resp2,
    Resp3,
}

impl Protocol {
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// The reply of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Simple(&'static str),
    /// A status that is no constant.
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    /// Text for people: a string of its own kind in RESP3.
    Text(String),
    Null,
    /// No array where there could be one.
    NullArray,
    Array(Vec<Reply>),
    /// A flat array in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// An array in RESP2.
    Set(Vec<Reply>),
    /// Data for a client besides replies: an array in RESP2.
    Push(Vec<Reply>),
    /// Several replies to one request.
    Each(Vec<Reply>),
}

impl Reply {
    pub(crate) const OK: Self = Self::Simple("OK");

    pub(crate) fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bulk(bytes.as_ref().to_vec())
    }

    pub(crate) fn flag(flag: bool) -> Self {
        Self::Integer(i64::from(flag))
    }

    pub(crate) fn bulk_or_null(bytes: Option<Vec<u8>>) -> Self {
        bytes.map_or(Self::Null, Self::Bulk)
    }

    /// Bytes of the values in it.
    pub(crate) fn value_bytes(&self) -> u64 {
        match self {
            Self::Bulk(bytes) => bytes.len() as u64,
            Self::Array(items) | Self::Set(items) => items.iter().map(Self::value_bytes).sum(),
            Self::Map(pairs) => {
                pairs.iter().map(|(name, value)| name.value_bytes() + value.value_bytes()).sum()
            }
            _ => 0,
        }
    }

    /// Appends the reply to `out`.
    pub(crate) fn encode(&self, protocol: Protocol, out: &mut BytesMut) {
        let resp3 = protocol == Protocol::Resp3;
        match self {
            Self::Simple(text) => line(out, b'+', text),
            Self::Status(text) => line(out, b'+', &text.replace(['\r', '\n'], " ")),
            // An error is one line, whatever it quotes.
            Self::Error(text) => line(out, b'-', &text.replace(['\r', '\n'], " ")),
            Self::Integer(number) => head(out, b':', *number),
            Self::Bulk(bytes) => string(out, b'$', b"", bytes),
            Self::Text(text) if resp3 => string(out, b'=', b"txt:", text.as_bytes()),
            Self::Text(text) => string(out, b'$', b"", text.as_bytes()),
            Self::Null | Self::NullArray if resp3 => out.put_slice(b"_\r\n"),
            Self::NullArray => out.put_slice(b"*-1\r\n"),
            Self::Null => out.put_slice(b"$-1\r\n"),
            Self::Array(items) => {
                head(out, b'*', items.len() as i64);
                items.iter().for_each(|item| item.encode(protocol, out));
            }
            Self::Set(items) => {
                head(out, if resp3 { b'~' } else { b'*' }, items.len() as i64);
                items.iter().for_each(|item| item.encode(protocol, out));
            }
            Self::Push(items) => {
                head(out, if resp3 { b'>' } else { b'*' }, items.len() as i64);
                items.iter().for_each(|item| item.encode(protocol, out));
            }
            Self::Each(replies) => {
                replies.iter().for_each(|reply| reply.encode(protocol, out));
            }
            Self::Map(pairs) => {
                let (kind, count) =
                    if resp3 { (b'%', pairs.len()) } else { (b'*', 2 * pairs.len()) };
                head(out, kind, count as i64);
                for (name, value) in pairs {
                    name.encode(protocol, out);
                    value.encode(protocol, out);
                }
            }
        }
    }
}

/// Appends a value to `out`, or that there is none.
pub(crate) fn encode_value(value: Option<&[u8]>, protocol: Protocol, out: &mut BytesMut) {
    match value {
        Some(bytes) => string(out, b'$', b"", bytes),
        None => Reply::Null.encode(protocol, out),
    }
}

fn line(out: &mut BytesMut, kind: u8, text: &str) {
    out.put_u8(kind);
    out.put_slice(text.as_bytes());
    out.put_slice(b"\r\n");
}

fn head(out: &mut BytesMut, kind: u8, number: i64) {
    out.put_u8(kind);
    let mut digits = [0; 20];
    let mut first = digits.len();
    let mut rest = number.unsigned_abs();
    while rest > 0 || first == digits.len() {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    if number < 0 {
        out.put_u8(b'-');
    }
    out.put_slice(&digits[first..]);
    out.put_slice(b"\r\n");
}

fn string(out: &mut BytesMut, kind: u8, prefix: &[u8], bytes: &[u8]) {
    head(out, kind, (prefix.len() + bytes.len()) as i64);
    out.put_slice(prefix);
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}
