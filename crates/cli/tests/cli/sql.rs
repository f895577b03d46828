//! `tombolo sql`, asked by psql.

use std::path::Path;
use std::process::Command;

use crate::tombolo::{Running, folder, has_program, printed};

/// A host that serves SQL.
struct SqlHost {
    process: Running,
    port: String,
}

impl SqlHost {
    fn start(folder: &Path) -> Self {
        let [pod, log] = ["pod", "log"].map(|name| folder.join(name).display().to_string());
        let args = ["sql", "--pod", &pod, "--log", &log, "--listen", "127.0.0.1:0"];
        Self { process: Running::start(&args), port: String::new() }
    }

    /// Waits until it serves, which it says.
    fn ready(mut self) -> Self {
        let line = self.process.line_with("serving SQL on");
        let address = line.split([' ', ',']).nth(3).unwrap();
        self.port = address.rsplit(':').next().unwrap().to_owned();
        self
    }

    /// The rows of a statement, a line each.
    fn rows(&self, sql: &str) -> String {
        let psql = ["-h", "127.0.0.1", "-p", &self.port, "-U", "ada", "-X", "-q", "-A", "-t"];
        let done = Command::new("psql").args(psql).args(["-c", sql]).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{sql}: {said}");
        String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
    }
}

fn start_two(folder: &Path) -> [SqlHost; 2] {
    // Each waits for the other.
    [SqlHost::start(folder), SqlHost::start(folder)].map(SqlHost::ready)
}

#[test]
fn hosts_of_sql_die_and_come_back_while_others_go_on() {
    if !has_program("psql") {
        return;
    }
    let folder = folder();
    let [pod, log] = ["pod", "log"].map(|name| folder.path().join(name).display().to_string());
    printed(&["db", "create", &pod, "--sql", "--hosts", "2", "--log", &log, "--scr", "8MiB"]);
    let [one, mut other] = start_two(folder.path());
    one.rows("CREATE TABLE t (id int PRIMARY KEY)");
    other.rows("INSERT INTO t VALUES (1)");

    other.process.signal("-KILL");
    other.process.end();
    one.rows("INSERT INTO t VALUES (2)");
    assert_eq!(one.rows("SELECT id FROM t ORDER BY id"), "1\n2");

    let mut late = SqlHost::start(folder.path()).ready();
    late.rows("INSERT INTO t VALUES (3)");
    assert_eq!(one.rows("SELECT count(*) FROM t"), "3");

    // One that leaves is no trouble, either.
    late.process.stop_at_once();
    one.rows("INSERT INTO t VALUES (4)");
    let late = SqlHost::start(folder.path()).ready();
    assert_eq!(late.rows("SELECT id FROM t ORDER BY id"), "1\n2\n3\n4");

    // When all have gone, the log has the rows.
    for mut host in [one, late] {
        host.process.signal("-KILL");
        host.process.end();
    }
    let [one, other] = start_two(folder.path());
    assert_eq!(one.rows("SELECT sum(id) FROM t"), "10");
    assert_eq!(other.rows("SELECT sum(id) FROM t"), "10");
}
