//! `tombolo db`, and benchmarks of transactions.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::tombolo::{Running, complaint, folder, output, printed};

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&printed(&[args, &["--format", "json"]].concat())).unwrap()
}

fn bench(args: &[&str]) -> Value {
    json(&[&["bench"], args, &["--seconds", "0.5", "--warm-up", "0.2"]].concat())
}

const SMALL: [&str; 4] = ["tpcc", "--small", "--warehouses", "4"];

/// A database in a folder of its own.
struct Db {
    folder: tempfile::TempDir,
}

impl Db {
    fn empty() -> Self {
        Self { folder: folder() }
    }

    fn tpcc() -> Self {
        let db = Self::empty();
        db.create(&["--tables-from", "tpcc", "--small", "--warehouses", "4"]);
        db
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn log(&self) -> String {
        self.path("log")
    }

    fn create(&self, args: &[&str]) -> String {
        let (pod, log) = (self.path("pod"), self.log());
        printed(&[&["db", "create", &pod, "--log", &log], args].concat())
    }

    fn info(&self) -> Value {
        json(&["db", "info", "--log", &self.log()])
    }

    fn rows(&self) -> u64 {
        let info = self.info();
        let tables = info["tables"].as_array().unwrap();
        tables.iter().map(|table| table["rows"].as_u64().unwrap()).sum()
    }

    /// Runs TPC-C on it.
    fn run(&self) -> Value {
        let (pod, log) = (self.path("pod"), self.log());
        bench(&[&SMALL[..], &["--pod", &pod, "--log", &log]].concat())
    }
}

#[test]
fn tpcc_has_two_variants_with_two_names() {
    let full = bench(&[&SMALL[..], &["--durability", "epoch"]].concat());
    let published = bench(&[&SMALL[..], &["--as-published", "--moved-in"]].concat());
    assert_eq!(
        (&full["workload"], &published["workload"]),
        (&"TPC-C".into(), &"TPC-C as published".into())
    );
    for report in [&full, &published] {
        assert_eq!(report["conditions"]["violations"], Value::Array(vec![]));
        assert_eq!(report["engine"], "tigon");
        assert_eq!(report["kinds"].as_array().unwrap().len(), 5);
        for positive in ["commits", "commits_per_s", "scr_bytes_used"] {
            assert!(report[positive].as_f64().unwrap() > 0.0, "{positive} in {report}");
        }
        for latency in ["mean", "p50", "p95", "p99", "max"] {
            assert!(report["latency_ns"][latency].as_f64().unwrap() > 0.0, "{latency}");
        }
    }
    assert!(full["log_bytes"].as_u64().unwrap() > 0 && full["log_syncs"].as_u64().unwrap() > 0);
    assert_eq!(full["durable"], full["commits"]);
    assert!(full["durable_latency_ns"]["p50"].as_u64() > full["latency_ns"]["p50"].as_u64());
    assert_eq!((&published["durable"], &published["log_bytes"]), (&0.into(), &0.into()));
    // Customers and stocks of 4 warehouses, and the ends of their partitions.
    assert_eq!(published["shared_before"], 4 * (300 + 1000 + 2));
}

#[test]
fn ycsb_and_smallbank_run() {
    let ycsb = ["ycsb-txn", "--rows", "1000", "--cross", "50", "--reads", "50"];
    let report = bench(&[&ycsb[..], &["--moved-in"]].concat());
    assert_eq!(report["workload"], "YCSB with transactions");
    assert_eq!((&report["shared_before"], &report["moved_in"]), (&2002.into(), &0.into()));
    assert_eq!(report["requests_per_transaction"], 0.0);
    // Without a warm-up, in which all rows may move.
    let published = ["--as-published", "--workers", "2", "--seconds", "0.5", "--warm-up", "0"];
    let report = json(&[&["bench"], &ycsb[..], &published].concat());
    assert_eq!(report["workload"], "YCSB with transactions as published");
    assert!(report["moved_in"].as_u64().unwrap() > 0);
    let report = json(&[
        "bench",
        "smallbank",
        "--accounts",
        "1000",
        "--cross",
        "20",
        "--transactions",
        "500",
        "--warm-up",
        "0",
        "--hosts",
        "3",
    ]);
    assert_eq!(report["workload"], "SmallBank");
    let (commits, rollbacks) = (report["commits"].as_u64().unwrap(), report["rollbacks"].as_u64());
    assert_eq!(commits + rollbacks.unwrap(), 3 * 500);
}

#[test]
fn engines_are_compared_in_turn() {
    let compared = json(&[
        "bench",
        "smallbank",
        "--accounts",
        "100",
        "--cross",
        "50",
        "--compare",
        "--rounds",
        "1",
        "--seconds",
        "0.3",
        "--warm-up",
        "0",
    ]);
    let results = compared["results"].as_array().unwrap();
    let engines: Vec<&str> = results.iter().map(|r| r["engine"].as_str().unwrap()).collect();
    assert_eq!(engines, ["tigon", "objects", "sundial", "ds2pl"]);
    for report in results {
        for positive in ["commits", "cleaned_lines_per_transaction"] {
            assert!(report[positive].as_f64().unwrap() > 0.0, "{positive} in {report}");
        }
        // Hosts whose rows are objects have nothing to ask each other.
        let asks = report["messages_per_transaction"].as_f64().unwrap() > 0.0;
        assert_eq!(asks, report["engine"] != "objects", "{report}");
    }
    assert!(compared["ratios"]["sundial"].as_f64().unwrap() > 0.0, "{compared}");
    let by_use = &results[0]["scr_bytes_by_use"];
    assert!(by_use["records"].as_u64().unwrap() > 0 && by_use["index"].as_u64().unwrap() > 0);
    let by_table = results[0]["scr_bytes_by_table"].as_object().unwrap();
    let sum: u64 = by_table.values().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert!(sum > 0 && sum <= results[0]["scr_bytes_used"].as_u64().unwrap(), "{by_table:?}");
    assert!(results[1]["scr_bytes_used"].as_u64().unwrap() > 0);
    assert_eq!(results[2]["scr_bytes_used"], 0);
}

#[test]
fn every_engine_keeps_tpccs_conditions_and_recovers() {
    for engine in ["objects", "sundial", "ds2pl"] {
        let db = Db::tpcc();
        let (pod, log) = (db.path("pod"), db.log());
        let before = db.rows();
        let report = bench(
            &[&SMALL[..], &["--pod", &pod, "--log", &log, "--engine", engine, "--remote", "60/90"]]
                .concat(),
        );
        assert_eq!(report["engine"], engine);
        assert_eq!(report["conditions"]["violations"], Value::Array(vec![]), "{engine}");
        assert_eq!(report["durable"], report["commits"], "{engine}");
        assert!(db.rows() > before);
        assert!(printed(&["db", "check", "--log", &log]).contains("no problems"), "{engine}");
        // The log is of no engine: another one goes on with the rows.
        assert_eq!(db.run()["conditions"]["violations"], Value::Array(vec![]));
    }
}

#[test]
fn a_running_database_is_checkpointed() {
    let db = Db::tpcc();
    let (pod, log) = (db.path("pod"), db.log());
    let args = [&SMALL[..], &["--pod", &pod, "--log", &log, "--checkpoint-every", "0.1"]].concat();
    let report = bench(&args);
    assert!(report["checkpoints"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["conditions"]["violations"], Value::Array(vec![]));
    let files: Vec<_> = fs::read_dir(&log).unwrap().map(|file| file.unwrap().file_name()).collect();
    let is_first = |name: &std::ffi::OsString| name == "checkpoint-0000000000";
    assert!(!files.iter().any(is_first), "the first checkpoint is removed: {files:?}");
    assert!(printed(&["db", "check", "--log", &log]).contains("no problems"));
}

const SCHEMA: &str = r#"
[[table]]
name = "accounts"
key = ["branch", "number"]
per_partition = 1
columns = [
    { name = "branch", type = "u32" },
    { name = "number", type = "u32" },
    { name = "owner", type = "text", most = 10, nullable = true },
    { name = "balance", type = "decimal", scale = 2 },
]
index = [{ name = "by_owner", columns = ["branch", "owner"], unique = true }]

[[table]]
name = "currencies"
key = ["code"]
replicated = true
columns = [{ name = "code", type = "text", most = 3 }, { name = "rate", type = "i64" }]
"#;

#[test]
fn a_file_describes_the_tables_of_a_database() {
    let db = Db::empty();
    let file = db.path("schema.toml");
    fs::write(&file, SCHEMA).unwrap();
    let shown = db.create(&["--schema", &file, "--hosts", "2", "--partitions", "8"]);
    assert!(shown.contains("2 tables in 8 partitions"), "{shown}");
    let info = db.info();
    let names: Vec<_> = info["tables"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["accounts", "accounts.by_owner", "currencies"]);
    assert_eq!((&info["partitions"], &info["hosts"]), (&8.into(), &2.into()));
    assert!(printed(&["db", "check", "--log", &db.log()]).contains("no problems"));
    let (dump, other) = (printed(&["db", "dump", "--log", &db.log()]), Db::empty());
    fs::write(other.path("dump"), dump).unwrap();
    let (pod, log) = (other.path("pod"), other.log());
    printed(&["db", "load", &pod, "--log", &log, "--from", &other.path("dump")]);
    assert_eq!(other.info()["tables"], info["tables"]);
    let refused = |changed: &str, to: &str, reason: &str| {
        let empty = Db::empty();
        fs::write(&file, SCHEMA.replacen(changed, to, 1)).unwrap();
        let (pod, log) = (empty.path("pod"), empty.log());
        let error = complaint(&["db", "create", &pod, "--log", &log, "--schema", &file]);
        assert!(error.contains(reason), "{error}");
        assert!(!Path::new(&pod).exists() && !Path::new(&log).exists(), "nothing is half done");
    };
    refused("[\"branch\", \"number\"]", "[\"town\"]", "has no column `town`");
    refused("most = 10, ", "", "column `owner` lacks `most`");
    refused("most = 10", "most = 100", "keys of table `accounts`");
    refused("type = \"decimal\"", "type = \"float\"", "unknown variant `float`");
    refused("name = \"currencies\"", "name = \"accounts\"", "there is another one");
    refused("replicated", "repeated", "unknown field `repeated`");
}

#[test]
fn a_database_outlives_its_hosts_and_its_pod() {
    let db = Db::tpcc();
    let loaded = db.rows();
    assert_eq!(db.info()["durable_epoch"], 0);
    let report = db.run();
    assert_eq!(report["conditions"]["violations"], Value::Array(vec![]));
    let after = db.rows();
    assert!(after > loaded, "{after} rows after {loaded}");
    fs::remove_file(db.path("pod")).unwrap();
    let recovered = json(&["db", "recover", &db.path("pod"), "--log", &db.log()]);
    assert_eq!(
        (&recovered["rows"], &recovered["problems"]),
        (&after.into(), &Value::Array(vec![]))
    );
    assert!(recovered["removed_files"].as_u64().unwrap() > 0);
    assert!(Path::new(&db.path("pod")).exists());
    assert_eq!(db.rows(), after);
    // It goes on from there, with rows of both.
    db.run();
    assert!(db.rows() > after);
    assert!(printed(&["db", "check", "--log", &db.log()]).contains("no problems"));
    let rows = db.rows();
    assert!(printed(&["db", "checkpoint", "--log", &db.log()]).contains("files removed"));
    assert_eq!((db.rows(), db.info()["log_files"].as_u64().unwrap() < 6), (rows, true));
}

#[test]
fn a_dump_is_the_whole_database() {
    let (db, other) = (Db::tpcc(), Db::empty());
    let dump = db.path("dump");
    printed(&["db", "dump", "--log", &db.log(), "--out", &dump]);
    let load = |dump: &str, db: &Db| {
        let (pod, log) = (db.path("pod"), db.log());
        output(&["db", "load", &pod, "--log", &log, "--from", dump])
    };
    assert!(load(&dump, &other).status.success());
    assert_eq!(printed(&["db", "dump", "--log", &other.log()]), fs::read_to_string(&dump).unwrap());
    // An order line less, and the head says so: then the conditions do, too.
    let text = fs::read_to_string(&dump).unwrap();
    let lost = text.lines().find(|line| line.contains("\"order_line\"")).unwrap();
    let head = format!("\"rows\":{}}}", db.rows());
    let fewer = text.replacen(&format!("{lost}\n"), "", 1);
    let cut = db.path("cut");
    fs::write(&cut, &fewer).unwrap();
    let refused = load(&cut, &Db::empty());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("it was cut"), "{refused:?}");
    assert!(fewer.contains(&head));
    fs::write(&cut, fewer.replacen(&head, &format!("\"rows\":{}}}", db.rows() - 1), 1)).unwrap();
    let damaged = Db::empty();
    assert!(load(&cut, &damaged).status.success());
    for command in [
        vec!["db", "check", "--log", &damaged.log()],
        vec!["db", "recover", &damaged.path("pod"), "--log", &damaged.log()],
    ] {
        let checked = output(&command);
        assert_eq!(checked.status.code(), Some(3));
        let shown = String::from_utf8(checked.stdout).unwrap();
        assert!(shown.contains("condition") && shown.contains("in warehouse 0"), "{shown}");
    }
}

#[test]
fn a_damaged_log_is_refused_with_its_position() {
    let db = Db::tpcc();
    let file = Path::new(&db.log()).join("checkpoint-0000000000-0000");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let error = complaint(&["db", "recover", &db.path("pod"), "--log", &db.log()]);
    assert!(error.contains("checkpoint-0000000000-0000"), "{error}");
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let db = Db::tpcc();
    let (log, pod) = (db.log(), db.path("pod"));
    let refused = |args: &[&str], reason: &str| {
        let error = complaint(args);
        assert!(error.contains(reason), "{args:?}: {error}");
    };
    let create = ["db", "create", &pod, "--log", &log, "--tables-from"];
    refused(&[&create[..], &["smallbank"]].concat(), "is not empty");
    refused(&[&create[..], &["ycsb", "--warehouses", "2"]].concat(), "only TPC-C has warehouses");
    refused(&[&create[..], &["tpcc", "--rows", "20"]].concat(), "--warehouses");
    refused(&["bench", "smallbank", "--log", &log], "another workload's rows");
    refused(&["bench", "smallbank", "--log", &log, "--durability", "memory"], "writes no log");
    refused(&["bench", "tpcc", "--warehouses", "1", "--hosts", "2"], "not enough for 2 hosts");
    refused(&["bench", "tpcc", "--remote", "60"], "two percentages");
    refused(&["bench", "tpcc", "--engine", "oracle"], "invalid value 'oracle'");
    refused(&["bench", "smallbank", "--checkpoint-every", "1"], "--log");
    refused(&["db", "create", &db.path("p"), "--log", &db.path("l")], "--tables-from");
    refused(&["db", "info", "--log", &db.path("nothing")], "there is no directory");
    refused(&["db", "info", "--log", db.folder.path().to_str().unwrap()], "no checkpoint");
    refused(&["bench", "smallbank", "--log", "/dev/null/log"], "cannot make /dev/null/log");
    let other = db.path("objects");
    printed(&["pod", "create", &other, "--size", "64MiB"]);
    refused(&["bench", "smallbank", "--pod", &other], "pod of something else");
    refused(
        &["bench", "ycsb-txn", "--rows", "20000", "--moved-in", "--scr", "256KiB"],
        "give it more SCR",
    );
}

#[test]
fn commands_for_databases_at_rest_refuse_one_that_runs() {
    let db = Db::tpcc();
    let (pod, log) = (db.path("pod"), db.log());
    let args =
        [&["bench"], &SMALL[..], &["--seconds", "60", "--pod", &pod, "--log", &log]].concat();
    let mut running = Running::start(&args);
    let started = Instant::now();
    let refused = loop {
        let checked = output(&["db", "info", "--log", &log]);
        if !checked.status.success() {
            break String::from_utf8(checked.stderr).unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(60), "the database never runs");
    };
    assert!(refused.contains("use the log in"), "{refused}");
    running.stop_at_once();
    running.end();
    let since = Instant::now();
    while !output(&["db", "check", "--log", &log]).status.success() {
        assert!(since.elapsed() < Duration::from_secs(60), "hosts that were stopped never end");
    }
}

#[test]
fn what_was_acknowledged_outlives_deaths() {
    for engine in ["tigon", "objects"] {
        let report = json(&["db", "soak", "--kills", "4", "--seed", "3", "--engine", engine]);
        assert_eq!(report["failures"], Value::Array(vec![]), "{report}");
        let count = |name: &str| report[name].as_u64().unwrap();
        assert_eq!((count("deaths_of_one") + count("deaths_of_all"), count("recoveries")), (4, 5));
        assert!(count("acknowledged") > 0 && count("found") >= count("acknowledged"), "{report}");
        let goes_on = engine == "objects" && count("deaths_of_one") > 0;
        assert_eq!(count("went_on") > 0, goes_on, "{report}");
    }
}

#[test]
fn a_lost_transaction_is_found() {
    let said = output(&["db", "soak", "--kills", "1", "--plant-loss"]);
    assert_eq!(said.status.code(), Some(3));
    let shown = String::from_utf8(said.stdout).unwrap();
    assert!(shown.contains("transaction 0xffffffffffffffff was durable, and is lost"), "{shown}");
}
