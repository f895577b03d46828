//! `tombolo figures`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::tombolo::{complaint, folder, printed};

/// The files of a folder.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect()
}

fn drawn(jobs: &str, seed: &str) -> BTreeMap<String, String> {
    let folder = folder();
    let out = folder.path().to_str().unwrap();
    let table = printed(&[
        "figures", "megalon", "--only", "8,9", "--scale", "0.002", "--out", out, "--jobs", jobs,
        "--seed", seed,
    ]);
    assert!(table.contains("churn of megalon"), "{table}");
    files(folder.path())
}

#[test]
fn the_sdm_papers_figures_are_drawn() {
    let folder = folder();
    let out = folder.path().to_str().unwrap();
    let args = ["figures", "sdm", "--only", "3,8", "--scale", "-5", "--out", out];
    let table = printed(&args);
    assert!(table.contains("SDM-full, GAP, IPC over INV-CF, mean"), "{table}");
    let once = files(folder.path());
    let summary: Value = serde_json::from_str(&once["summary.json"]).unwrap();
    let rows = summary["rows"].as_array().unwrap();
    assert!(rows.len() >= 12 && rows.iter().all(|row| row["ours"].as_f64().unwrap() > 0.0));
    assert_eq!(once["figure-08.csv"].lines().count(), 1 + 2 * 3 * 18);
    assert!(once["report.html"].contains("tombolo figures sdm --scale -5 --seed 1 --only 8"));
    printed(&args);
    assert_eq!(once, files(folder.path()));
    let unknown = complaint(&["figures", "sdm", "--only", "4"]);
    assert!(unknown.contains("name some of 3, 8, 9, 10, 11"), "{unknown}");
}

#[test]
fn one_seed_draws_the_same_figures_each_time() {
    let once = drawn("1", "42");
    assert_eq!(once, drawn("2", "42"));
    assert_ne!(once, drawn("2", "43"));

    let names: Vec<_> = once.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "figure-08.csv",
            "figure-08.svg",
            "figure-09.csv",
            "figure-09.svg",
            "report.html",
            "summary.json"
        ]
    );
    let summary: Value = serde_json::from_str(&once["summary.json"]).unwrap();
    let rows = summary["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["ours"].as_f64().unwrap() > 0.0), "{rows:?}");
    let of = |text: &str| -> Vec<_> {
        rows.iter().filter(|row| row["quantity"].as_str().unwrap().contains(text)).collect()
    };
    assert_eq!(of("churn of hcmeta (ours)").len(), of("churn of hcmeta (as published)").len());
    let stated = of("churn of hcmeta (as published), 1 thread")[0];
    assert_eq!(stated["paper"], 44.0);
    assert!(stated["error"].as_f64().unwrap().abs() < 0.3, "{stated}");
    // Of this the paper has no number.
    let keys = of("megalon, keys of 90 bytes")[0];
    assert!(keys["paper"].is_null() && keys["error"].is_null(), "{keys}");
    assert!(keys["paper_says"].as_str().unwrap().contains("across all key sizes"));
    assert!(once["figure-09.svg"].contains("Sizes of keys"));
    assert!(once["report.html"].contains("--scale 0.002 --seed 42 --only 9"));
    assert!(once["report.html"].contains("[device]"), "the profile is not there");
}

#[test]
fn mistakes_are_named_before_anything_is_drawn() {
    let with = |more: &[&str]| complaint(&[&["figures", "megalon"], more].concat());
    assert!(with(&["--only", "3"]).contains("name some of 4, 5, 6"));
    assert!(with(&["--scale", "2"]).contains("not a number from 0.002 to 1"));
    let out = with(&["--only", "8", "--out", "/dev/null/figures", "--jobs", "1"]);
    assert!(out.contains("name another folder with --out"), "{out}");
}
