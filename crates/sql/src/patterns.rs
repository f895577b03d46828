//! LIKE, and regular expressions.

use std::collections::HashMap;

use regex_lite::{Regex, RegexBuilder};

use crate::error::{Result, SqlError, state};

/// Regular expressions that are kept at most.
const MAX_KEPT: usize = 64;

/// Regular expressions of a session, which are made once.
#[derive(Debug, Default)]
pub(crate) struct Patterns(HashMap<(String, bool), Regex>);

impl Patterns {
    pub(crate) fn regex(&mut self, pattern: &str, ignores_case: bool) -> Result<&Regex> {
        if self.0.len() >= MAX_KEPT {
            self.0.clear();
        }
        let key = (pattern.to_owned(), ignores_case);
        if !self.0.contains_key(&key) {
            let made = RegexBuilder::new(pattern).case_insensitive(ignores_case).build();
            let regex = made.map_err(|error| {
                let message = format!("invalid regular expression: {error}");
                SqlError::new("2201B", message)
            })?;
            self.0.insert(key.clone(), regex);
        }
        Ok(&self.0[&key])
    }
}

/// A character of a pattern.
#[derive(Clone, Copy, PartialEq)]
enum Piece {
    One(char),
    AnyOne,
    Any,
}

/// Whether text is like a pattern. Takes time in proportion to the product of their lengths.
pub(crate) fn like(
    text: &str,
    pattern: &str,
    escape: Option<char>,
    ignores_case: bool,
) -> Result<bool> {
    let lower = |text: &str| if ignores_case { text.to_lowercase() } else { text.to_owned() };
    let pieces = pieces(&lower(pattern), escape)?;
    let text: Vec<char> = lower(text).chars().collect();
    let (mut at, mut piece) = (0, 0);
    // Where the last `%` stands, and how far it reaches.
    let mut last: Option<(usize, usize)> = None;
    while at < text.len() {
        match pieces.get(piece) {
            Some(Piece::Any) => {
                last = Some((piece, at));
                piece += 1;
            }
            Some(Piece::AnyOne) => (at, piece) = (at + 1, piece + 1),
            Some(Piece::One(char)) if *char == text[at] => (at, piece) = (at + 1, piece + 1),
            _ => match last {
                Some((any, reaches)) => {
                    last = Some((any, reaches + 1));
                    (at, piece) = (reaches + 1, any + 1);
                }
                None => return Ok(false),
            },
        }
    }
    Ok(pieces[piece..].iter().all(|piece| *piece == Piece::Any))
}

fn pieces(pattern: &str, escape: Option<char>) -> Result<Vec<Piece>> {
    let mut pieces = Vec::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        pieces.push(match char {
            char if Some(char) == escape => match chars.next() {
                Some(next) => Piece::One(next),
                None => {
                    let message = "LIKE pattern must not end with escape character";
                    return Err(SqlError::new(state::INVALID_ESCAPE, message));
                }
            },
            '%' => Piece::Any,
            '_' => Piece::AnyOne,
            char => Piece::One(char),
        });
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_like_patterns() {
        let is = |text, pattern| like(text, pattern, Some('\\'), false).unwrap();
        for (text, pattern) in [
            ("abc", "abc"),
            ("abc", "a%"),
            ("abc", "%b%"),
            ("abc", "a_c"),
            ("", "%"),
            ("aXbXc", "a%X_"),
        ] {
            assert!(is(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [("abc", "ab"), ("abc", "_"), ("a%", "a\\%b"), ("abc", "%d%")] {
            assert!(!is(text, pattern), "{text} {pattern}");
        }
        assert!(is("a%", "a\\%") && like("ÄB", "äb", None, true).unwrap());
        assert!(like("a", "a\\", Some('\\'), false).is_err());
    }
}
