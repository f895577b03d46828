//! Patterns as `KEYS` and `SCAN` take them: `*`, `?`, `[a-c]`, `[^a]`, and `\` before any of these.

/// Whether all of `text` matches `pattern`.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last star stands, and the text it has to match up to so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
            continue;
        }
        match one(&pattern[p..], text[t]) {
            Some(length) => {
                p += length;
                t += 1;
            }
            None => {
                let Some((star_at, matched)) = star else { return false };
                star = Some((star_at, matched + 1));
                p = star_at + 1;
                t = matched + 1;
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// How many bytes of `pattern` match the one byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => {
            let (matched, length) = class(pattern, byte);
            matched.then_some(length)
        }
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        literal => (literal == byte).then_some(1),
    }
}

/// Whether `byte` is of the class at the start of `pattern`, and how long that is. A class without
/// an end goes to the end of the pattern.
fn class(pattern: &[u8], byte: u8) -> (bool, usize) {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = if negated { 2 } else { 1 };
    let mut matched = false;
    while at < pattern.len() && pattern[at] != b']' {
        if pattern[at] == b'\\' && at + 1 < pattern.len() {
            at += 1;
            matched |= pattern[at] == byte;
            at += 1;
        } else if pattern.len() > at + 2 && pattern[at + 1] == b'-' {
            let (low, high) = (pattern[at].min(pattern[at + 2]), pattern[at].max(pattern[at + 2]));
            matched |= (low..=high).contains(&byte);
            at += 3;
        } else {
            matched |= pattern[at] == byte;
            at += 1;
        }
    }
    (matched != negated, (at + 1).min(pattern.len()))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn as_redis_does() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*o", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "ab.b", true),
            ("user:[0-9]*", "user:42", true),
            ("[abc", "b", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn stars_do_not_explode() {
        assert!(!matches(&b"a*".repeat(40), &[b'a'; 39]));
        assert!(!matches(&[b"*a".repeat(30), b"b".to_vec()].concat(), &[b'a'; 5000]));
    }
}
