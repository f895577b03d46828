//! Two hosts of one pod in this process, on engine `tigon`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;
use tombolo_memory::Mapped;
use tombolo_oltp::in_process::open_all;
use tombolo_pod::{PodSpec, Sizes};
use tombolo_sql::{
    Datum, Facts, OutputColumn, Response, Row, Session, Settings, SqlDatabase, SqlError,
    format_text, tables,
};
use tombolo_tigon::{Options, Shape, Tigon};

pub(crate) type Host = Arc<Tigon<Mapped>>;

/// A pod with two hosts, both of them in this process.
pub(crate) fn hosts() -> (Vec<Host>, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let spec = PodSpec::path(directory.path().join("pod"));
    let tables = tables();
    let shape = Shape {
        homes: 2,
        partitions: 2,
        tables: tables.len() as u16,
        workers: 4,
        log_buffer_bytes: 1 << 20,
    };
    let sizes = Sizes { scr_bytes: Some(16 << 20), lnr_bytes: Some(128 << 20), ..Sizes::default() };
    let _created = Tigon::create(&spec, sizes, shape).unwrap();
    let options = Options::new(tables);
    let hosts = open_all(2, || Arc::new(Tigon::open(&spec, options.clone()).unwrap()));
    (hosts, directory)
}

pub(crate) fn database(host: &Host) -> SqlDatabase<Host> {
    let durability = tombolo_database::Durability::Memory;
    SqlDatabase::new(Arc::clone(host), Settings { workers: 4, durability, ..Settings::default() })
}

pub(crate) fn session(db: &SqlDatabase<Host>) -> Session<'_, Host> {
    let facts = Facts::new("ada".to_owned(), "test".to_owned(), db.next_process());
    Session::new(db, facts, Arc::new(AtomicBool::new(false)))
}

/// The rows of the last statement: values as text, with blanks between them.
pub(crate) fn run(session: &mut Session<'_, Host>, sql: &str) -> Result<Vec<String>, SqlError> {
    let mut found = Vec::new();
    session.query(sql, &mut |_, response| {
        if let Response::Rows { columns, rows, .. } = response {
            let value = |(column, value): (&OutputColumn, &Datum)| format_text(value, column.ty);
            let text = |row: &Row| columns.iter().zip(row).map(value).collect::<Vec<_>>().join(" ");
            found = rows.iter().map(text).collect();
        }
        Ok(())
    })?;
    Ok(found)
}

pub(crate) fn ok(session: &mut Session<'_, Host>, sql: &str) -> Vec<String> {
    run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}
