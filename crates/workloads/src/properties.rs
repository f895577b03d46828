//! Java property files, the format of YCSB's workload files.
//!
//! The grammar is that of `java.util.Properties`: `name=value`, `name: value` or `name value`;
//! blank lines and lines that start with `#` or `!` say nothing; a line that ends with an odd
//! number of backslashes goes on in the next; `\t`, `\n`, `\r`, `\f`, `\uXXXX` and a backslash
//! before any other character are escapes; the last of several values of one name holds.
//!
//! Two deviations, both for the sake of hand-written files: white space at the end of a value is
//! dropped (Java keeps it, and then cannot read the number before it), and a name may not be empty.
//! An escaped character outside the basic plane (a surrogate pair) is refused; written as itself it
//! is fine.

use std::fmt;

use crate::WorkloadError;

/// Where a property was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    Line {
        /// The file, as its reader called it.
        file: String,
        /// The line on which the property starts; the first is 1.
        line: usize,
    },
    /// By [`Properties::set`], which is what an option `-p name=value` does.
    Assignment,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line } => write!(f, "{file}:{line}"),
            Self::Assignment => f.write_str("-p"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

/// Names with values, and where each was given. A value that is read or set later overrides an
/// earlier one.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    list: Vec<Property>,
}

impl Properties {
    /// No properties.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the properties in `text`, the content of a file that messages call `file`.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Syntax`] names the line of a malformed escape or an empty name. The lines
    /// above it have been added.
    pub fn read(&mut self, file: &str, text: &str) -> Result<(), WorkloadError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines().enumerate();
        while let Some((index, first)) = lines.next() {
            let first = trim_start(first);
            if first.is_empty() || first.starts_with(['#', '!']) {
                continue;
            }
            let mut whole = first.to_owned();
            while continues(&whole) {
                whole.pop();
                let Some((_, more)) = lines.next() else { break };
                whole.push_str(trim_start(more));
            }
            let origin = Origin::Line { file: file.to_owned(), line: index + 1 };
            let (name, value) = split(&whole);
            match (unescape(name), unescape(value)) {
                (Ok(name), Ok(value)) => self.insert(name, value.trim_end(), origin)?,
                (Err(problem), _) | (_, Err(problem)) => {
                    return Err(WorkloadError::Syntax { origin, problem });
                }
            }
        }
        Ok(())
    }

    /// Adds the property in an assignment `name=value`, as it follows `-p` on a command line.
    /// Nothing in it is an escape.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Syntax`] if there is no `=`, or nothing before it.
    pub fn set(&mut self, assignment: &str) -> Result<(), WorkloadError> {
        let Some((name, value)) = assignment.split_once('=') else {
            let problem = format!("{assignment:?} is no assignment; write name=value");
            return Err(WorkloadError::Syntax { origin: Origin::Assignment, problem });
        };
        self.insert(name.trim().to_owned(), value.trim(), Origin::Assignment)
    }

    /// The value of `name`, if it has one.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.find(name).map(|property| property.value.as_str())
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Property> {
        self.list.iter().find(|property| property.name == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Property> {
        self.list.iter()
    }

    fn insert(&mut self, name: String, value: &str, origin: Origin) -> Result<(), WorkloadError> {
        if name.is_empty() {
            let problem = "a value without a name; write name=value".to_owned();
            return Err(WorkloadError::Syntax { origin, problem });
        }
        self.list.retain(|property| property.name != name);
        self.list.push(Property { name, value: value.to_owned(), origin });
        Ok(())
    }
}

/// The characters that separate a name from its value and may stand before either.
const BLANK: [char; 3] = [' ', '\t', '\u{c}'];

fn trim_start(line: &str) -> &str {
    line.trim_start_matches(BLANK)
}

fn continues(line: &str) -> bool {
    line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

/// The name and the value of a line, both still escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|c: char| {
        let ends_name = !escaped && (c == '=' || c == ':' || BLANK.contains(&c));
        escaped = !escaped && c == '\\';
        ends_name
    });
    let (name, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = trim_start(rest);
    (name, trim_start(rest.strip_prefix(['=', ':']).unwrap_or(rest)))
}

fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\u{c}'),
            Some('u') => plain.push(code_point(chars.by_ref().take(4).collect())?),
            Some(other) => plain.push(other),
            None => {}
        }
    }
    Ok(plain)
}

fn code_point(digits: String) -> Result<char, String> {
    let is_hexadecimal = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let code = is_hexadecimal.then(|| u32::from_str_radix(&digits, 16).ok()).flatten();
    code.and_then(char::from_u32)
        .ok_or_else(|| format!("\\u{digits} stands for no character; write the character itself"))
}
