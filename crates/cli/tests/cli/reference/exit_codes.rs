//! The exit codes, as constants of the code have them.

use super::rust::items;
use super::{compare, source, table};

/// Files with constants whose comments begin with `MARK`.
const FILES: [&str; 2] = ["crates/cli/src/output.rs", "crates/memory/src/poison.rs"];
const MARK: &str = "The exit code: ";

/// Codes that have no constants here: the standard library has them, and the parser of command
/// lines.
const OTHERS: [(&str, &str); 3] = [
    ("0", "all went well"),
    ("1", "something went wrong; one line on standard error says what, and what to do"),
    ("2", "the command line is wrong"),
];

#[test]
fn exit_codes_are_those_of_the_code() {
    let row = |(code, meaning): (&str, &str)| vec![code.to_owned(), meaning.to_owned()];
    let mut rows: Vec<_> = OTHERS.map(row).into();
    for file in FILES {
        rows.extend(constants(&source(file)));
    }
    assert_eq!(rows.len(), OTHERS.len() + 4, "a constant is not found: {rows:?}");
    let body = format!(
        "Each command ends with one of these codes. [Failures](../book/failures.md) says what to do.\n\n{}",
        table(&["Code", "Meaning"], &rows)
    );
    compare("exit-codes.md", "Exit codes", &body);
}

fn constants(text: &str) -> Vec<Vec<String>> {
    let constant = |comment: &str, line: &str| {
        let meaning = comment.trim().strip_prefix(MARK)?.trim_end_matches('.');
        let value = line.split(" = ").nth(1)?.strip_suffix(';')?;
        Some(vec![value.to_owned(), meaning.to_owned()])
    };
    items(text).iter().filter_map(|item| constant(&item.comment, &item.line)).collect()
}
