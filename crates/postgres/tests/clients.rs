//! Programs that people use, over a server whose engine is easy to believe. Where a program is not
//! installed its test says so, and ends.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tombolo_oltp::Reference;
use tombolo_postgres::{Config, Password, Server};
use tombolo_sql::{Settings, SqlDatabase, tables};

/// A server that ends when it is dropped.
struct Running {
    address: SocketAddr,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn start(config: Config) -> Running {
    let engine = Reference::new(&tables(), 2);
    let db = SqlDatabase::new(engine, Settings { workers: 16, ..Settings::default() });
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), db, config).unwrap();
    let address = server.address().unwrap();
    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&has_ended);
    let run = move || server.run(|| ended.load(Ordering::Relaxed)).unwrap();
    Running { address, has_ended, thread: Some(thread::spawn(run)) }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(!matches!(ended, Some(Err(_))), "the server panicked");
    }
}

/// A program of PostgreSQL's, if it is installed.
fn program(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let installed = versions.map(|version| version.path().join("bin").join(name));
    let found = installed.chain([PathBuf::from("/usr/bin").join(name)]).find(|path| path.exists());
    if found.is_none() {
        eprintln!(
            "skipped: {name} is not installed (Debian's postgresql-client, postgresql-contrib)"
        );
    }
    found
}

impl Running {
    fn command(&self, program: &PathBuf) -> Command {
        let mut command = Command::new(program);
        command
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", self.address.port().to_string())
            .env("PGUSER", "ada")
            .env("PGDATABASE", "test")
            .env("PGCONNECT_TIMEOUT", "60")
            .env("PGAPPNAME", "test");
        command
    }

    /// Runs psql with these arguments and this input.
    fn psql(&self, psql: &PathBuf, args: &[&str], input: &str) -> Output {
        let mut command = self.command(psql);
        command.args(["-X", "-v", "VERBOSITY=verbose"]).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

fn stdout(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn psql_makes_fills_and_shows_tables() {
    let Some(psql) = program("psql") else { return };
    let server = start(Config::default());
    let script = "\
CREATE TABLE item (id int PRIMARY KEY, name varchar(20) NOT NULL, price numeric(8,2) DEFAULT 1);
CREATE INDEX item_name ON item (name);
COPY item (id, name, price) FROM stdin;
1\tbook\t12.50
2\tpen\t\\N
\\.
INSERT INTO item (id, name) VALUES (3, 'it''s');
BEGIN;
DELETE FROM item;
ROLLBACK;
";
    stdout(&server.psql(&psql, &["-v", "ON_ERROR_STOP=1"], script));
    let rows = server.psql(&psql, &["-At", "-c", "SELECT * FROM item ORDER BY id"], "");
    assert_eq!(stdout(&rows), "1|book|12.50\n2|pen|\n3|it's|1.00\n");
    let lines = server.psql(&psql, &["-c", "COPY item TO STDOUT WITH (FORMAT csv, HEADER)"], "");
    assert_eq!(stdout(&lines), "id,name,price\n1,book,12.50\n2,pen,\n3,it's,1.00\n");

    let list = stdout(&server.psql(&psql, &["-c", "\\dt"], ""));
    assert!(list.contains("public | item | table | ada"), "{list}");
    let shown = stdout(&server.psql(&psql, &["-c", "\\d item"], ""));
    for line in [
        "name   | character varying(20) |           | not null |",
        "\"item_pkey\" PRIMARY KEY, btree (id)",
        "\"item_name\" btree (name)",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    let relations = stdout(&server.psql(&psql, &["-c", "\\d"], ""));
    assert!(relations.contains("item"), "{relations}");

    let refused = server.psql(&psql, &["-c", "INSERT INTO item VALUES (1, 'x', 1)"], "");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("23505") && text.contains("Key (id)=(1) already exists."), "{text}");
}

#[test]
fn a_password_has_to_be_known() {
    let Some(psql) = program("psql") else { return };
    let login = Some(("ada".to_owned(), Password::new("secret").unwrap()));
    let server = start(Config { login, ..Config::default() });
    let with = |password: &str| {
        let mut command = server.command(&psql);
        command.args(["-X", "-w", "-Atc", "SELECT 1"]).env("PGPASSWORD", password);
        command.output().unwrap()
    };
    assert_eq!(stdout(&with("secret")), "1\n");
    let refused = with("wrong");
    assert!(!refused.status.success());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("password authentication failed"), "{text}");
}

#[test]
fn without_a_password_only_loopback_is_listened_on() {
    let db = SqlDatabase::new(Reference::new(&tables(), 1), Settings::default());
    let refused = Server::bind("0.0.0.0:0".parse().unwrap(), db, Config::default());
    assert!(refused.is_err_and(|error| error.to_string().contains("loopback")));
}

#[test]
fn pgbench_fills_its_tables_and_runs() {
    let Some(pgbench) = program("pgbench") else { return };
    let server = start(Config::default());
    let run = |args: &[&str]| stdout(&server.command(&pgbench).args(args).output().unwrap());
    run(&["-i", "-s", "1", "-q"]);
    for mode in ["simple", "extended", "prepared"] {
        let report = run(&["-c", "2", "-t", "20", "-M", mode, "--max-tries=100"]);
        assert!(report.contains("number of transactions actually processed: 40/40"), "{report}");
        let report = run(&["-n", "-S", "-c", "2", "-t", "50", "-M", mode]);
        assert!(report.contains("number of transactions actually processed: 100/100"), "{report}");
    }
    let Some(psql) = program("psql") else { return };
    let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = \
                (SELECT sum(bbalance) FROM pgbench_branches), \
                (SELECT count(*) FROM pgbench_history)";
    let found = stdout(&server.psql(&psql, &["-Atc", sums], ""));
    // Each run that is not told `-n` begins by truncating the history.
    assert_eq!(found, "t|40\n");
}
