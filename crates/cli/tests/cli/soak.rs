//! `tombolo soak`.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::tombolo::{Running, complaint, folder, output, printed};

#[test]
fn a_short_soak_passes() {
    let args = ["soak", "--seconds", "3", "--hosts", "3", "--threads", "2", "--seed", "1"];
    let shown = printed(&[&args, &["--format", "json"][..]].concat());
    let report: Value = serde_json::from_str(&shown).unwrap();
    for (name, expected) in [("hosts", 3), ("keys", 8), ("coherence_records", 4), ("undecided", 0)]
    {
        assert_eq!(report[name], expected, "{name}");
    }
    for positive in
        ["seconds", "operations", "operations_per_s", "rounds", "joins", "churn", "moves"]
    {
        assert!(report[positive].as_f64().unwrap() > 0.0, "{positive} in {report}");
    }
    // Every key of every round.
    let rounds = report["rounds"].as_u64().unwrap();
    assert_eq!(report["histories_checked"], 8 * rounds);
    assert_eq!(report["failures"], Value::Array(vec![]));
}

#[test]
fn one_host_alone_leaves_and_finds_its_objects_again() {
    let shown = printed(&["soak", "--seconds", "1", "--hosts", "1"]);
    assert!(shown.contains("no failures"), "{shown}");
}

#[test]
fn a_stale_read_is_found() {
    // Once in hundreds of soaks another host's write makes the lie come true.
    let soak = || output(&["soak", "--seconds", "3", "--plant-stale-read", "--seed", "77"]);
    let mut soaks = (0..3).map(|_| soak());
    let said = soaks.find(|said| said.status.code() == Some(3)).expect("the lie is found");
    let shown = String::from_utf8(said.stdout).unwrap();
    // Whose value it reports is a matter of timing; which client reports it is not.
    let lie = "client 0  Get -> Value(Some(";
    for part in ["is not linearizable", "none can be next", lie, "seed 77"] {
        assert!(shown.contains(part), "no {part:?} in:\n{shown}");
    }
}

/// The report of a soak with these arguments, which finds nothing.
fn report(args: &[&str]) -> Value {
    let shown = printed(&[&["soak", "--hosts", "4", "--format", "json"], args].concat());
    let report: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(report["failures"], Value::Array(vec![]));
    assert_eq!(report["undecided"], 0);
    report
}

fn number(report: &Value, name: &str) -> f64 {
    report[name].as_f64().unwrap_or_else(|| panic!("{name} in {report}"))
}

#[test]
fn hosts_are_killed_and_nothing_is_lost_but_what_they_wrote() {
    let found = report(&["--kills", "10", "--kill-every", "100ms", "--seed", "5"]);
    assert_eq!(found["deaths"], 10);
    assert_eq!(found["torn_writes"], "lost");
    // Each of them came back, and some others had left.
    assert!(number(&found, "joins") >= 10.0);
    assert!(number(&found, "recoveries") > 0.0);
    let pauses = &found["pauses_after_deaths"];
    let [samples, median, p99, max] =
        ["samples", "median_ms", "p99_ms", "max_ms"].map(|name| number(pauses, name));
    assert!(samples > 0.0 && 0.0 < median && median <= p99 && p99 <= max, "{pauses}");
    assert_eq!(found["pauses_after_stops"], Value::Null);
    for counted in ["stops", "fenced", "rescues", "lost", "told_lost"] {
        assert!(found[counted].is_u64(), "{counted} in {found}");
    }
}

#[test]
fn nothing_is_lost_where_writes_are_undone() {
    let found = report(&["--kills", "10", "--load", "a", "--torn-writes", "undo"]);
    for (name, expected) in [("deaths", 10), ("lost", 0), ("told_lost", 0)] {
        assert_eq!(found[name], expected, "{name}");
    }
    assert_eq!(found["torn_writes"], "undo");
}

#[test]
fn nothing_is_lost_that_is_in_the_pod_too() {
    let local = ["--partition", "1MiB", "--move-after", "4", "--partition-backup"];
    let kills = ["--kills", "10", "--torn-writes", "undo"];
    let found = report(&[&kills, &local[..]].concat());
    for (name, expected) in [("deaths", 10), ("lost", 0), ("told_lost", 0)] {
        assert_eq!(found[name], expected, "{name}");
    }
    assert_eq!(found["partition_backup"], true);
}

#[test]
fn hosts_that_are_stopped_find_out_that_they_were_fenced() {
    let stops = ["--stop-every", "300ms", "--stop-for", "600ms"];
    let found = report(&[&["--seconds", "6"], &stops[..]].concat());
    assert!(number(&found, "stops") > 0.0);
    assert!(number(&found, "fenced") <= number(&found, "stops"));
    assert!(number(&found["pauses_after_stops"], "samples") > 0.0);
    assert_eq!(found["pauses_after_deaths"], Value::Null);
    let text = printed(&[&["soak", "--seconds", "2"], &stops[..]].concat());
    for part in ["hosts stopped", "pauses of the others", "no failures"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn what_is_wrong_is_found_while_hosts_are_killed() {
    for plant in ["--plant-stale-read", "--plant-loss"] {
        // Whose fault it is may not show: the host may be killed before, or what it says come true.
        let soak = || output(&["soak", "--kills", "20", plant]);
        let said = (0..3).map(|_| soak()).find(|said| said.status.code() == Some(3));
        let shown = String::from_utf8(said.expect("the fault is found").stdout).unwrap();
        assert!(shown.contains("is not linearizable"), "{shown}");
    }
}

/// A process that `parent` has started.
fn child_of(parent: &Running) -> String {
    let children = format!("/proc/{0}/task/{0}/children", parent.id());
    loop {
        if let Some(child) = fs::read_to_string(&children).unwrap().split_whitespace().next() {
            return child.to_owned();
        }
    }
}

#[test]
fn a_host_that_dies_is_named() {
    let folder = folder();
    let pod = folder.path().join("pod");
    let args = ["soak", "--seconds", "600", "--hosts", "2", "--format", "json"];
    let mut soak = Running::start(&[&args, &["--pod", &sized(&pod)][..]].concat());
    let host = child_of(&soak);
    assert!(Command::new("kill").args(["-KILL", &host]).status().unwrap().success());
    assert_eq!(soak.end().code(), Some(3));
    let shown: Vec<String> = soak.lines.by_ref().map(Result::unwrap).collect();
    let report: Value = serde_json::from_str(&shown.join("\n")).unwrap();
    // Killed while it joined, it may be what the other complains of, too.
    let failures = report["failures"].as_array().unwrap();
    let named = |failure: &Value| {
        let what = failure["what"].as_str().unwrap();
        what.starts_with("host 0 ended") && what.contains("SIGKILL")
    };
    assert!(failures.iter().any(named), "{failures:?}");
}

fn sized(pod: &Path) -> String {
    format!("{},size=8MiB", pod.display())
}

#[test]
fn it_ends_when_told_to_and_reports() {
    let mut soak = Running::start(&["soak", "--seconds", "600", "--format", "json"]);
    child_of(&soak);
    soak.signal("-INT");
    assert!(soak.end().success());
    let shown: Vec<String> = soak.lines.by_ref().map(Result::unwrap).collect();
    let report: Value = serde_json::from_str(&shown.join("\n")).unwrap();
    assert_eq!(report["failures"], Value::Array(vec![]));
    assert_eq!(report["histories_checked"], 8 * report["rounds"].as_u64().unwrap());
}

#[test]
fn bad_input_is_refused() {
    for (option, wrong) in [
        ("--seconds", "0"),
        ("--hosts", "0"),
        ("--hosts", "65"),
        ("--threads", "65"),
        ("--keys", "0"),
        ("--size", "12parsecs"),
        ("--kill-every", "0ms"),
        ("--stop-every", "5"),
        ("--stop-for", "5parsecs"),
        ("--kills", "0"),
        ("--load", "d"),
    ] {
        let refused = output(&["soak", option, wrong]);
        assert_eq!(refused.status.code(), Some(2), "{option} {wrong}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(wrong), "{option} {wrong}");
    }
    assert!(complaint(&["soak", "--hosts", "1", "--kills", "3"]).contains("give more --hosts"));
    assert!(complaint(&["soak", "--pod", "/nowhere/at/all,size=8MiB"]).contains("/nowhere"));
    let small = complaint(&["soak", "--size", "64KiB"]);
    assert!(small.contains("leaves no room for objects"), "{small}");
}

#[test]
fn a_pod_that_is_there_is_kept() {
    let folder = folder();
    let pod = folder.path().join("pod");
    let path = pod.to_str().unwrap();
    printed(&["pod", "create", path, "--size", "16MiB", "--scr", "1MiB"]);
    assert!(complaint(&["soak", "--pod", path]).contains("--force"));
    assert!(printed(&["pod", "check", path]).contains("no problems"));
}
