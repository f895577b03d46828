//! The errors, as their enumerations have them.

use std::fs;

use super::rust::{items, literal};
use super::{compare, fenced, repository, source, wrapped};

/// The subjects of errors, each with the file that defines them.
const ERRORS: [(&str, &str); 9] = [
    ("Objects", "crates/sharing/src/error.rs"),
    ("The key-value store", "crates/kv/src/error.rs"),
    ("The log", "crates/log/src/error.rs"),
    ("The pod", "crates/pod/src/error.rs"),
    ("Memory", "crates/memory/src/error.rs"),
    ("Saved files", "crates/objects/src/saved/error.rs"),
    ("The server", "crates/server/src/config.rs"),
    ("Files and their pages", "crates/pagecache/src/error.rs"),
    ("Mounting", "crates/mount/src/lib.rs"),
];

const HEAD: &str = "\
The messages of all errors. `{name}` stands for a value. An error that has another one as its cause
has that one's message. [Failures](../book/failures.md#what-an-error-means) says what to do about
the common ones.
";

#[test]
fn errors_are_those_of_the_code() {
    let mut body = HEAD.to_owned();
    for (title, file) in ERRORS {
        body += &format!("\n## {title}\n");
        let described = errors(&source(file));
        assert!(!described.is_empty(), "{file} has no errors");
        body += &described;
    }
    body += "\n## Replies of the server\n\nA client gets these instead of a reply. `{text}` is \
             the message of an error above.\n\n";
    for reply in replies() {
        body += &(wrapped("* ", &format!("`{reply}`")) + "\n");
    }
    compare("errors.md", "Errors", &body);
}

/// The errors of a file, in their order.
fn errors(text: &str) -> String {
    let mut described = String::new();
    for item in items(text) {
        let Some((_, message)) = item.attributes.split_once("#[error(") else { continue };
        if message.starts_with("transparent") {
            continue;
        }
        let name = item.line.trim().trim_end_matches([',', '{', '(']);
        let name = name.split(['(', ' ']).next().unwrap();
        let message = literal(message).unwrap_or_else(|| panic!("{name} has no message"));
        let about = wrapped("", &format!("`{name}`: {}", item.comment));
        described += &format!("\n{about}\n\n{}", fenced(&wrapped("", &plain(&message))));
    }
    described
}

/// A message without how its values are formatted.
fn plain(message: &str) -> String {
    let mut plain = String::new();
    let mut rest = message;
    while let Some((before, after)) = rest.split_once('{') {
        let (value, after) = after.split_once('}').unwrap();
        plain += before;
        match value.split(':').next().unwrap() {
            "" | "0" | "1" => plain += "{...}",
            name => plain += &format!("{{{name}}}"),
        }
        rest = after;
    }
    plain + rest
}

/// Literals of the server that begin as an error of Redis' protocol does.
fn replies() -> Vec<String> {
    let mut replies = vec![];
    let folder = repository().join("crates/server/src");
    for folder in [folder.join("commands"), folder] {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                let text = fs::read_to_string(entry.path()).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap();
                replies.extend(code.match_indices('"').filter_map(|(at, _)| reply(&code[at..])));
            }
        }
    }
    replies.sort();
    replies.dedup();
    replies
}

fn reply(text: &str) -> Option<String> {
    let (kind, _) = text[1..].split_once(' ')?;
    let is_kind = kind.len() > 2 && kind.chars().all(|char| char.is_ascii_uppercase());
    is_kind.then(|| literal(text)).flatten().map(|reply| plain(&reply))
}
