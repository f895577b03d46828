//! Runs the files in `tests/slt`: statements, and what has to come of them.
//!
//! They are written as those of sqllogictest: `statement ok`, `statement error CODE`, and
//! `query TYPES [rowsort]` with `----` before the rows. All start with an empty database.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tombolo_oltp::Reference;
use tombolo_sql::{
    Datum, Facts, OutputColumn, Response, Row, Session, Settings, SqlDatabase, SqlError,
    format_text, tables,
};

/// The rows of a query, each value as text.
fn texts(columns: &[OutputColumn], rows: &[Row]) -> Vec<String> {
    let text = |(column, value): (&OutputColumn, &Datum)| match value {
        Datum::Null => "NULL".to_owned(),
        value => match format_text(value, column.ty) {
            text if text.is_empty() => "(empty)".to_owned(),
            text => text,
        },
    };
    let row = |row: &Row| columns.iter().zip(row).map(text).collect::<Vec<_>>().join(" ");
    rows.iter().map(row).collect()
}

fn run(session: &mut Session<'_, Reference>, sql: &str) -> Result<Vec<String>, SqlError> {
    let mut lines = Vec::new();
    session.query(sql, &mut |_, response| {
        if let Response::Rows { columns, rows, .. } = response {
            lines = texts(&columns, &rows);
        }
        Ok(())
    })?;
    Ok(lines)
}

/// Checks one record of a file: what is wrong, if anything.
fn check(session: &mut Session<'_, Reference>, record: &str) -> Result<(), String> {
    let (head, rest) = record.split_once('\n').unwrap_or((record, ""));
    let words: Vec<&str> = head.split_whitespace().collect();
    match &*words {
        ["statement", "ok"] => run(session, rest).map(|_| ()).map_err(|e| format!("{e:?}")),
        ["statement", "error", code] => match run(session, rest) {
            Err(error) if error.state == *code => Ok(()),
            other => Err(format!("{other:?} instead of {code}")),
        },
        ["query", _, options @ ..] => {
            let (sql, expected) = rest.split_once("----\n").unwrap_or((rest, ""));
            let mut found = run(session, sql).map_err(|error| format!("{error:?}"))?;
            let mut expected: Vec<&str> = expected.lines().collect();
            if options.contains(&"rowsort") {
                found.sort();
                expected.sort_unstable();
            }
            if found == expected { Ok(()) } else { Err(format!("{found:#?}")) }
        }
        _ => Err("no such record".to_owned()),
    }
}

#[test]
fn statements_do_what_files_say() {
    let mut failed = Vec::new();
    let mut records = 0;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slt");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let engine = Reference::new(&tables(), 2);
        let db = SqlDatabase::new(engine, Settings::default());
        let facts = Facts::new("ada".to_owned(), "test".to_owned(), 1);
        let mut session = Session::new(&db, facts, Arc::new(AtomicBool::new(false)));
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let text = lines.collect::<Vec<_>>().join("\n");
        for record in text.split("\n\n").map(str::trim_start).filter(|record| !record.is_empty()) {
            records += 1;
            if let Err(why) = check(&mut session, &format!("{}\n", record.trim_end())) {
                failed.push(format!("{}:\n{record}\n=> {why}", path.display()));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {records} failed:\n{}", failed.len(), failed.join("\n\n"));
    assert!(records > 100, "{records} records");
}
