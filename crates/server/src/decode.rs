//! Requests from bytes: arrays of strings, or a line of words.

use bytes::{Buf, Bytes, BytesMut};

use crate::inline::words;

/// The longest argument, in bytes.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 512 << 20;
/// The most arguments of a request: bytes are what bounds it.
const MAX_ARGUMENTS: i64 = i32::MAX as i64;
/// The most that a request takes, in bytes.
const MAX_REQUEST_BYTES: usize = 1 << 30;
/// Memory that an argument takes besides its own bytes, in bytes.
const ARGUMENT_OVERHEAD_BYTES: usize = size_of::<Bytes>();
/// Room that is made for a request's arguments at once, whatever its length is said to be.
const FEW_ARGUMENTS: usize = 4;
/// Bounds for a client that has not given the password: it needs no more to give it, and so no more
/// is kept.
const MAX_STRANGER_ARGUMENT_BYTES: usize = 16 << 10;
const MAX_STRANGER_ARGUMENTS: usize = 10;
/// The longest line: a length, or a request written as words.
const MAX_LINE_BYTES: usize = 64 << 10;

/// The peer's bytes are no request. There is no way to find the next one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Protocol error: {0}")]
pub(crate) struct ProtocolError(pub(crate) String);

/// The sender of the requests, which decides how long they may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// Has not given the password.
    Stranger,
    Client,
}

/// Takes requests out of a stream of bytes, wherever that was cut into pieces. No byte is looked at
/// twice.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    arguments: Vec<Bytes>,
    /// Arguments that are still to come.
    missing: usize,
    /// Bytes of memory that the arguments in `arguments` take.
    bytes: usize,
    /// The length of the next one, if that has been read.
    length: Option<usize>,
    /// Bytes at the start of the buffer that are known to hold no end of line.
    searched: usize,
}

impl Decoder {
    /// Bytes of the arguments that it has of a request that is not whole.
    pub(crate) fn held_bytes(&self) -> usize {
        if self.missing > 0 { self.bytes } else { 0 }
    }

    /// The next request, if `buffer` holds all of it; its bytes are taken out. A request has at
    /// least one argument.
    pub(crate) fn next(
        &mut self,
        buffer: &mut BytesMut,
        sender: Sender,
    ) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        loop {
            if self.missing == 0 {
                match self.begin(buffer, sender)? {
                    None => return Ok(None),
                    Some(request) if !request.is_empty() => return Ok(Some(request)),
                    Some(_) => continue,
                }
            }
            let Some(argument) = self.argument(buffer, sender)? else { return Ok(None) };
            self.arguments.push(argument);
            self.missing -= 1;
            if self.missing == 0 {
                return Ok(Some(std::mem::take(&mut self.arguments)));
            }
        }
    }

    /// Reads the first line of a request. A request in words is whole then; one that is empty, or
    /// an array that only begins here, comes back empty.
    fn begin(
        &mut self,
        buffer: &mut BytesMut,
        sender: Sender,
    ) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        let count_or_words = |line: &[u8]| match line.strip_prefix(b"*") {
            Some(count) => Ok(Err(number(count))),
            None => words(line).map(Ok),
        };
        let count = match self.line(buffer, count_or_words)? {
            None => return Ok(None),
            Some(Ok(words)) => return Ok(Some(words)),
            Some(Err(count)) => count.filter(|&count| count <= MAX_ARGUMENTS),
        };
        let count = count.ok_or_else(|| ProtocolError("invalid multibulk length".to_owned()))?;
        self.missing = usize::try_from(count).unwrap_or(0);
        self.bytes = 0;
        if sender == Sender::Stranger && self.missing > MAX_STRANGER_ARGUMENTS {
            return Err(ProtocolError("unauthenticated multibulk length".to_owned()));
        }
        self.arguments.reserve(self.missing.min(FEW_ARGUMENTS));
        Ok(Some(Vec::new()))
    }

    fn argument(
        &mut self,
        buffer: &mut BytesMut,
        sender: Sender,
    ) -> Result<Option<Bytes>, ProtocolError> {
        let length = match self.length {
            Some(length) => length,
            None => {
                let Some(length) = self.line(buffer, argument_length)? else { return Ok(None) };
                if sender == Sender::Stranger && length > MAX_STRANGER_ARGUMENT_BYTES {
                    return Err(ProtocolError("unauthenticated bulk length".to_owned()));
                }
                if self.bytes + length > MAX_REQUEST_BYTES {
                    return Err(ProtocolError("too big request".to_owned()));
                }
                self.length = Some(length);
                length
            }
        };
        if buffer.len() < length + 2 {
            return Ok(None);
        }
        self.length = None;
        self.bytes += length + ARGUMENT_OVERHEAD_BYTES;
        let argument = buffer.split_to(length).freeze();
        buffer.advance(2);
        Ok(Some(argument))
    }

    /// The result of `parse` for a line without its end, if all of it is there.
    fn line<T>(
        &mut self,
        buffer: &mut BytesMut,
        parse: impl FnOnce(&[u8]) -> Result<T, ProtocolError>,
    ) -> Result<Option<T>, ProtocolError> {
        let Some(end) = buffer[self.searched..].iter().position(|&byte| byte == b'\n') else {
            self.searched = buffer.len();
            return if self.searched > MAX_LINE_BYTES {
                Err(ProtocolError("too big inline request".to_owned()))
            } else {
                Ok(None)
            };
        };
        let end = self.searched + end;
        let line = &buffer[..end];
        let parsed = parse(line.strip_suffix(b"\r").unwrap_or(line));
        buffer.advance(end + 1);
        self.searched = 0;
        parsed.map(Some)
    }
}

fn argument_length(line: &[u8]) -> Result<usize, ProtocolError> {
    let Some(length) = line.strip_prefix(b"$") else {
        let found = line.first().map_or(' ', |&byte| char::from(byte));
        return Err(ProtocolError(format!("expected '$', got '{found}'")));
    };
    number(length)
        .and_then(|length| usize::try_from(length).ok())
        .filter(|&length| length <= MAX_ARGUMENT_BYTES)
        .ok_or_else(|| ProtocolError("invalid bulk length".to_owned()))
}

/// An integer written as Redis writes it: no plus sign, no spaces, no zeros in front.
pub(crate) fn number(text: &[u8]) -> Option<i64> {
    let usual = match text.strip_prefix(b"-").unwrap_or(text) {
        [b'0'] => text.len() == 1,
        digits => matches!(digits, [b'1'..=b'9', ..]),
    };
    std::str::from_utf8(text).ok().filter(|_| usual)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode_all(pieces: &[&[u8]]) -> Result<Vec<Vec<Bytes>>, ProtocolError> {
        decode_from(Sender::Client, pieces)
    }

    fn decode_from(sender: Sender, pieces: &[&[u8]]) -> Result<Vec<Vec<Bytes>>, ProtocolError> {
        let (mut decoder, mut buffer) = (Decoder::default(), BytesMut::new());
        let mut requests = Vec::new();
        for piece in pieces {
            buffer.extend_from_slice(piece);
            while let Some(request) = decoder.next(&mut buffer, sender)? {
                requests.push(request);
            }
        }
        Ok(requests)
    }

    fn texts(requests: &[Vec<Bytes>]) -> Vec<Vec<&str>> {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        requests.iter().map(|request| request.iter().map(|word| text(word)).collect()).collect()
    }

    #[test]
    fn arrays_and_lines() {
        let bytes = b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n\r\n*0\r\nPING\r\nset \"a b\" 'c' d\\n\n";
        let requests = decode_all(&[bytes]).unwrap();
        let expected = vec![vec!["ECHO", "hi"], vec!["PING"], vec!["set", "a b", "c", "d\\n"]];
        assert_eq!(texts(&requests), expected);
    }

    #[test]
    fn says_what_is_wrong() {
        let error = |bytes: &[u8]| decode_all(&[bytes]).unwrap_err().0;
        assert_eq!(error(b"*1\r\n+PING\r\n"), "expected '$', got '+'");
        assert_eq!(error(b"*x\r\n"), "invalid multibulk length");
        assert_eq!(error(b"*2147483648\r\n"), "invalid multibulk length");
        assert_eq!(error(b"*1\r\n$-1\r\n"), "invalid bulk length");
        assert_eq!(error(b"*1\r\n$9999999999\r\n"), "invalid bulk length");
        assert_eq!(error(b"set \"a\r\n"), "unbalanced quotes in request");
        assert_eq!(error(&[b'a'; MAX_LINE_BYTES + 1]), "too big inline request");
    }

    #[test]
    fn many_arguments_are_taken_as_long_as_they_are_not_too_many_bytes() {
        let arguments = (1 << 20) + 1;
        let mut bytes = format!("*{arguments}\r\n").into_bytes();
        bytes.extend(b"$1\r\nx\r\n".repeat(arguments));
        assert_eq!(decode_all(&[&bytes]).unwrap()[0].len(), arguments);
        let (mut decoder, mut buffer) = (Decoder::default(), BytesMut::from("*3\r\n"));
        decoder.bytes = MAX_REQUEST_BYTES;
        assert_eq!(decoder.next(&mut buffer, Sender::Client), Ok(None));
        decoder.bytes = MAX_REQUEST_BYTES;
        buffer.extend_from_slice(b"$1\r\n");
        let error = decoder.next(&mut buffer, Sender::Client).unwrap_err();
        assert_eq!(error.0, "too big request");
    }

    #[test]
    fn strangers_may_send_a_password_and_little_else() {
        let stranger = |bytes: &[u8]| decode_from(Sender::Stranger, &[bytes]).map_err(|e| e.0);
        assert_eq!(stranger(b"*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n").map(|all| all.len()), Ok(1));
        for (bytes, error) in [
            (&b"*11\r\n"[..], "unauthenticated multibulk length"),
            (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
        ] {
            assert_eq!(stranger(bytes), Err(error.to_owned()));
            assert_eq!(decode_all(&[bytes]), Ok(vec![]));
        }
        assert_eq!(stranger(b"*10\r\n$16384\r\n"), Ok(vec![]));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            requests in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5), 1..5),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        ) {
            let mut bytes = Vec::new();
            for request in &requests {
                bytes.extend(format!("*{}\r\n", request.len()).bytes());
                for argument in request {
                    bytes.extend(format!("${}\r\n", argument.len()).bytes());
                    bytes.extend(argument);
                    bytes.extend(b"\r\n");
                }
            }
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            let decoded = decode_all(&pieces).unwrap();
            prop_assert_eq!(decoded, requests);
        }

        #[test]
        fn garbage_is_survived(bytes: Vec<u8>) {
            let _ = decode_all(&[&bytes]);
        }
    }
}
