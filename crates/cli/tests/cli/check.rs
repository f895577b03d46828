//! `tombolo check`.

use serde_json::Value;

use crate::tombolo::{complaint, output, printed};

fn report(args: &[&str]) -> Value {
    let shown = printed(&[&["check", "--format", "json"], args].concat());
    serde_json::from_str(&shown).unwrap()
}

#[test]
fn seeds_are_counted_and_reported() {
    let report = report(&["--scenario", "crash", "--scenario", "short", "--seeds", "20"]);
    let scenarios = report["scenarios"].as_u64().unwrap();
    assert_eq!(report["schedules"], 20 * scenarios);
    for positive in ["schedules_per_s", "crash_points", "histories_checked"] {
        assert!(report[positive].as_f64().unwrap() > 0.0, "{positive} in {report}");
    }
    assert_eq!(report["undecided"], 0);
    assert_eq!(report["failures"], Value::Array(vec![]));
    assert_eq!(report["mutants"], Value::Null);
}

/// It exited with 0, whatever it had missed.
#[test]
fn steps_that_one_seed_misses_are_named() {
    let said = output(&["check", "--seeds", "1"]);
    let text = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said.status.code(), Some(4), "{text}");
    assert!(text.contains("no schedule came to "), "{text}");
}

#[test]
fn deaths_at_every_step_of_a_scenario_are_a_pass() {
    let report = report(&["--scenario", "writer-dies", "--deaths", "1"]);
    let deaths = &report["deaths"];
    assert_eq!(deaths["aimed"], deaths["died"]);
    assert_eq!(deaths["missed"], Value::Array(vec![]));
}

#[test]
fn every_schedule_of_a_scenario_is_run() {
    let schedules = |preemptions: &str| {
        report(&["--scenario", "two-writers", "--exhaustive", preemptions])["schedules"].as_u64()
    };
    let counts = ["0", "1", "2"].map(schedules);
    assert_eq!(counts[0], Some(4), "one for each kind of caches");
    assert!(counts.is_sorted_by(|a, b| a < b), "{counts:?}");
}

#[test]
fn mutants_are_hunted() {
    // One scenario does not find them all.
    let scene = ["--scenario", "commits", "--bound", "20", "--format", "json"];
    let said = output(&[&["check", "--mutants"], &scene[..]].concat());
    assert_eq!(said.status.code(), Some(3));
    let report: Value = serde_json::from_slice(&said.stdout).unwrap();
    let mutants = &report["mutants"];
    let count = |name: &str| mutants[name].as_array().unwrap().len() as u64;
    let known = mutants["killed"].as_u64().unwrap() + count("survivors");
    assert_eq!(mutants["total"], known);
    let names = |name: &str| mutants[name].as_array().unwrap().clone();
    assert!(names("survivors").contains(&Value::from("kv.read.deadline")));
    assert!(names("kills").iter().any(|kill| kill["mutant"] == "log.append.clean"));
}

#[test]
fn a_failure_is_explained_and_replayed() {
    let scene = ["--scenario", "two-writers", "--without", "objects.read.seen-counter"];
    let found = output(&[&["check", "--seeds", "100", "--format", "json"], &scene[..]].concat());
    assert_eq!(found.status.code(), Some(3));
    let report: Value = serde_json::from_slice(&found.stdout).unwrap();
    let failure = &report["failures"][0];
    let what = failure["what"].as_str().unwrap();
    assert!(what.contains("made stale by host"), "{what}");
    // Reads of objects that a host knows have a file of their own.
    let read = ["objects/src/read/mod.rs:", "objects/src/read/fast.rs:"];
    assert!(read.iter().any(|place| what.contains(place)), "{what}");
    assert!(!failure["schedule"].as_array().unwrap().is_empty());

    let seed = failure["seed"].to_string();
    let replayed = output(&[&["check", "--replay", &seed], &scene[..]].concat());
    assert_eq!(replayed.status.code(), Some(3));
    let shown = String::from_utf8(replayed.stdout).unwrap();
    for part in [what, "what the adversary has to do", "what hosts did", "(stale)"] {
        assert!(shown.contains(part), "no {part:?} in:\n{shown}");
    }
}

#[test]
fn what_does_not_fail_is_said_not_to() {
    let shown = printed(&["check", "--scenario", "move", "--replay", "3", "--strategy", "pct"]);
    assert!(shown.contains("nothing failed"), "{shown}");
    assert!(printed(&["check", "--list"]).contains("objects.write.clean"));
}

#[test]
fn bad_input_is_explained() {
    for (args, part) in [
        (&["check", "--scenario", "nonsense"][..], "no such scenario"),
        (&["check", "--without", "nonsense"], "no such step"),
        (&["check", "--replay", "1"], "takes one --scenario"),
        (&["check", "--replay", "1", "--mutants"], "cannot be used with"),
        (&["check", "--hosts", "1"], "2..=8"),
        (&["check", "--aim", "nobody"], "--replay"),
        (&["check", "--replay", "1", "--aim", "objects.write.clean:1"], "SITE:N+K:FATE"),
        (&["check", "--replay", "1", "--aim", "nonsense:1+0:lost"], "no such step"),
    ] {
        let said = complaint(args);
        assert!(said.contains(part), "no {part:?} in:\n{said}");
    }
}

#[test]
fn hosts_die_at_each_step_and_one_death_is_done_again() {
    let report = report(&["--scenario", "writer-dies", "--deaths", "1"]);
    let deaths = &report["deaths"];
    let (aimed, steps) = (deaths["aimed"].as_u64().unwrap(), deaths["steps"].as_u64().unwrap());
    assert!(steps > 10, "{deaths}");
    assert!(aimed > 5 * steps, "one for each fate of dirty lines, and for each line: {deaths}");
    assert_eq!(deaths["died"], aimed);
    assert_eq!(deaths["missed"], Value::Array(vec![]));
    for aim in ["objects.write.clean:1+0:one", "objects.write.clean:1+0:one:1"] {
        let replay = ["check", "--scenario", "writer-dies", "--replay", "7", "--aim", aim];
        let shown = printed(&replay);
        assert!(shown.contains("nothing failed"), "{shown}");
    }
}
