//! The pages of docs/reference are what the code says. With `WRITE_REFERENCE=1` they are written
//! anew instead of compared.

mod errors;
mod exit_codes;
mod metrics;
mod options;
mod redis_commands;
mod rust;

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The most columns of a line of a document.
const COLUMNS: usize = 100;

const GENERATED: &str = "<!-- Generated from the code: do not edit. To write it anew:
WRITE_REFERENCE=1 cargo test -p tombolo-cli --test cli reference -->";

/// Compares a page with what it has to be, or writes it.
fn compare(page: &str, title: &str, body: &str) {
    let path = repository().join("docs/reference").join(page);
    let text = format!("# {title}\n\n{GENERATED}\n\n{}\n", body.trim());
    if env::var_os("WRITE_REFERENCE").is_some() {
        fs::write(&path, text).unwrap();
        return;
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let differs = written.lines().zip(text.lines()).find(|(old, new)| old != new);
    assert!(
        written == text,
        "docs/reference/{page} is not what the code says (first difference: {differs:?}); write \
         it anew: WRITE_REFERENCE=1 cargo test -p tombolo-cli --test cli reference"
    );
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A source file of the repository.
fn source(path: &str) -> String {
    let path = repository().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A table as Markdown has it.
fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let header: Vec<String> = header.iter().map(|&cell| cell.to_owned()).collect();
    let rule = vec!["---".to_owned(); header.len()];
    [&header, &rule].into_iter().chain(rows).map(|cells| line(cells)).collect()
}

/// Text behind `lead`, in lines that are not too long. All but the first are indented as far as the
/// text is there; words are not cut.
fn wrapped(lead: &str, text: &str) -> String {
    let indent = lead.chars().count();
    let (mut lines, mut line) = (vec![], lead.to_owned());
    for word in text.split_whitespace() {
        let columns = line.chars().count();
        if columns > indent && columns + 1 + word.chars().count() > COLUMNS {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
        } else if columns > indent {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n")
}

/// The lines of a block of text that is shown as it is.
fn fenced(text: &str) -> String {
    format!("```text\n{}\n```\n", text.trim_end())
}
