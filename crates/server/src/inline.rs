//! Requests as a person types them: words on a line, of which parts may be quoted.

use bytes::Bytes;

use crate::decode::ProtocolError;

/// The words of a line, as Redis parses them.
pub(crate) fn words(line: &[u8]) -> Result<Vec<Bytes>, ProtocolError> {
    // Redis takes the line for text that ends at the first of these.
    let end = line.iter().position(|&byte| byte == 0).unwrap_or(line.len());
    let mut words = Vec::new();
    let mut rest = skip_spaces(&line[..end]);
    while !rest.is_empty() {
        let (word, after) =
            word(rest).ok_or_else(|| ProtocolError("unbalanced quotes in request".to_owned()))?;
        words.push(Bytes::from(word));
        rest = skip_spaces(after);
    }
    Ok(words)
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    &text[start..]
}

/// The first word of a text that begins with one, and what follows it. A quote ends the word.
fn word(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => break,
            b'"' | b'\'' => {
                let after = quoted(after, byte, &mut word)?;
                return after.first().is_none_or(is_space).then_some((word, after));
            }
            _ => word.push(byte),
        }
        rest = after;
    }
    Some((word, rest))
}

/// Appends the text up to the closing quote to `word`; what follows that quote.
fn quoted<'a>(text: &'a [u8], quote: u8, word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = text;
    loop {
        let (byte, length) = match *rest {
            [] => return None,
            [byte, ..] if byte == quote => return Some(&rest[1..]),
            [b'\\', b'x', high, low, ..] if quote == b'"' && hex(high, low).is_some() => {
                (hex(high, low)?, 4)
            }
            [b'\\', escaped, ..] if quote == b'"' => (unescaped(escaped), 2),
            [b'\\', b'\'', ..] => (b'\'', 2),
            [byte, ..] => (byte, 1),
        };
        word.push(byte);
        rest = &rest[length..];
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::words;

    /// `\x41` used to be `x41`, `\a` an `a`, and a quote within a word a part of it.
    #[test]
    fn as_redis_does() {
        for (line, expected) in [
            ("", &[][..]),
            ("  set  k\tv ", &["set", "k", "v"]),
            (r#""a b" 'c d'"#, &["a b", "c d"]),
            (r#"a"b c" d"#, &["ab c", "d"]),
            (r#"a'b "c'"#, &["ab \"c"]),
            (r#""\x41\x7a\xzz\a\b\n\"\\""#, &["Azxzz\x07\x08\n\"\\"]),
            (r#"'\x41\n\''"#, &["\\x41\\n'"]),
            (r"a\nb\", &["a\\nb\\"]),
            ("\x0bset\x0ck", &["set\x0ck"]),
            ("get a\0b c", &["get", "a"]),
            (r#""" ''"#, &["", ""]),
        ] {
            let found = words(line.as_bytes()).unwrap();
            assert_eq!(found, expected, "{line}");
        }
        for line in ["\"a", "'a", "\"a\"b", "'a'b", "a\"b\"c", "\"a\\\"", "a '"] {
            assert!(words(line.as_bytes()).is_err(), "{line}");
        }
    }
}
