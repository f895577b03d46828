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
    // Whose value it reports is a matter of timing; who reports it is not.
    let lie = "client 0  Get -> Value(Some(";
    for part in ["is not linearizable", "none can be next", lie, "seed 77"] {
        assert!(shown.contains(part), "no {part:?} in:\n{shown}");
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
    ] {
        let refused = output(&["soak", option, wrong]);
        assert_eq!(refused.status.code(), Some(2), "{option} {wrong}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(wrong), "{option} {wrong}");
    }
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
