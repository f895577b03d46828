//! Pods that are saved to files, and loaded.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use redis::Commands;
use serde_json::Value;
use tempfile::TempDir;

use crate::tombolo::{Servers, complaint, folder, printed};

const SMALL: [&str; 4] = ["--size", "32MiB", "--scr", "1MiB"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&printed(&[args, &["--format", "json"]].concat())).unwrap()
}

/// A pod with a host that serves it, and a file that is still to be.
fn served() -> (Servers, TempDir, String) {
    let (servers, folder) = (Servers::start(1, &SMALL, &[]), folder());
    let file = text(&folder.path().join("saved")).to_owned();
    (servers, folder, file)
}

/// Another host, with a pod of its own, that a file was loaded into.
fn loaded(file: &str) -> (Servers, Value) {
    let servers = Servers::start(1, &SMALL, &[]);
    let report = json(&["pod", "load", &servers.spec(), file]);
    (servers, report)
}

#[test]
fn a_pod_is_saved_while_it_is_written_to_and_loaded_into_another() {
    let (servers, _folder, file) = served();
    let mut client = servers.connect(0);
    let mut all = redis::pipe();
    (0..3000u64).for_each(|n| _ = all.set(format!("stays:{n}"), n).ignore());
    let () = all.query(&mut client).unwrap();
    let () = client.set_ex("expires", "x", 1000).unwrap();
    let () = client.set("counter", 0).unwrap();
    let (written, saved) = (AtomicU64::new(0), AtomicBool::new(false));
    let (before, report, after) = thread::scope(|scope| {
        let mut writer = servers.connect(0);
        let (written, saved) = (&written, &saved);
        scope.spawn(move || {
            for n in 1.. {
                let () = writer.set("counter", n).unwrap();
                written.store(n, Ordering::Relaxed);
                let () = writer.set(format!("comes:{}", n % 50), n).unwrap();
                let () = writer.del(format!("comes:{}", (n + 25) % 50)).unwrap();
                if saved.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        while written.load(Ordering::Relaxed) < 100 {
            thread::yield_now();
        }
        let before = written.load(Ordering::Relaxed);
        let report = json(&["pod", "save", &servers.spec(), &file]);
        let after = written.load(Ordering::Relaxed) + 1;
        saved.store(true, Ordering::Relaxed);
        (before, report, after)
    });
    assert!(report["objects"].as_u64().unwrap() >= 3002, "{report}");
    assert_eq!(report["lost"], 0);
    assert_eq!(report["file_bytes"], fs::metadata(&file).unwrap().len());

    let (other, loaded) = loaded(&file);
    assert_eq!(loaded["objects"], report["objects"]);
    assert_eq!(loaded["bytes"], report["bytes"]);
    assert_eq!(loaded["uuid"], report["uuid"]);
    let mut client = other.connect(0);
    for n in 0..3000u64 {
        let found: u64 = client.get(format!("stays:{n}")).unwrap();
        assert_eq!(found, n);
    }
    let left: i64 = client.ttl("expires").unwrap();
    assert!((900..=1000).contains(&left), "{left} s are left");
    let counter: u64 = client.get("counter").unwrap();
    assert!((before..=after).contains(&counter), "{counter} is not of {before} to {after}");
    let keys: u64 = redis::cmd("DBSIZE").query(&mut client).unwrap();
    assert_eq!(keys, report["objects"].as_u64().unwrap());
}

#[test]
fn a_damaged_file_changes_nothing() {
    let (servers, folder, file) = served();
    let mut client = servers.connect(0);
    let () = client.set("key", "value").unwrap();
    printed(&["pod", "save", &servers.spec(), &file]);
    let whole = fs::read(&file).unwrap();
    let () = client.del("key").unwrap();
    let load = |bytes: &[u8]| {
        let other = folder.path().join("other");
        fs::write(&other, bytes).unwrap();
        complaint(&["pod", "load", &servers.spec(), text(&other)])
    };
    let mut damaged = whole.clone();
    damaged[50] ^= 1;
    let said = load(&damaged);
    assert!(said.contains("damaged at byte 32") && said.contains("nothing is changed"), "{said}");
    let said = load(&whole[..whole.len() - 1]);
    assert!(said.contains(&format!("ends at byte {}", whole.len() - 1)), "{said}");
    let mut newer = whole.clone();
    newer[8] = 2;
    let said = load(&newer);
    assert!(said.contains("format version 2 at byte 8"), "{said}");
    let said = load(b"something else");
    assert!(said.contains("not a saved pod"), "{said}");
    let there: bool = client.exists("key").unwrap();
    assert!(!there, "nothing was loaded");
    printed(&["pod", "load", &servers.spec(), &file]);
    let found: String = client.get("key").unwrap();
    assert_eq!(found, "value");
}

#[test]
fn existing_keys_are_refused_kept_or_replaced() {
    let (servers, _folder, file) = served();
    let mut client = servers.connect(0);
    let () = client.mset(&[("one", "old"), ("other", "old")]).unwrap();
    printed(&["pod", "save", &servers.spec(), &file]);
    let () = client.set("one", "new").unwrap();
    let () = client.del("other").unwrap();
    let load = ["pod", "load", &servers.spec(), &file];
    let kept = json(&[&load[..], &["--existing", "keep"]].concat());
    assert_eq!((&kept["objects"], &kept["existing"]), (&1.into(), &1.into()));
    let values: (String, String) = client.mget(&["one", "other"]).unwrap();
    assert_eq!(values, ("new".to_owned(), "old".to_owned()));
    let said = complaint(&load);
    assert!(said.contains("already; have such kept or replaced (--existing)"), "{said}");
    assert!(said.contains("0 objects were loaded, and 2 objects of"), "{said}");
    let replaced = json(&[&load[..], &["--existing", "replace"]].concat());
    assert_eq!((&replaced["objects"], &replaced["existing"]), (&2.into(), &2.into()));
    let one: String = client.get("one").unwrap();
    assert_eq!(one, "old");
}

#[test]
fn a_file_is_replaced_only_if_asked_for_and_never_the_pod() {
    let (servers, folder, file) = served();
    let spec = servers.spec();
    fs::write(&file, "precious").unwrap();
    let said = complaint(&["pod", "save", &spec, &file]);
    assert!(said.contains("--force"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    printed(&["pod", "save", &spec, &file, "--force"]);
    assert!(fs::read(&file).unwrap().starts_with(b"TOMBSAVE"));
    let said = complaint(&["pod", "save", &spec, &spec, "--force"]);
    assert!(said.contains("the pod itself"), "{said}");
    let said = complaint(&["pod", "save", &spec, text(folder.path()), "--force"]);
    assert!(said.contains("no regular file"), "{said}");
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["saved"], "nothing is left behind");
}

#[test]
fn a_pod_that_is_too_small_says_what_is_missing() {
    let (servers, folder, file) = served();
    let mut client = servers.connect(0);
    (0..200).for_each(|n| client.set(format!("k{n}"), vec![1; 100_000]).unwrap());
    printed(&["pod", "save", &servers.spec(), &file]);
    let small = folder.path().join("small");
    printed(&["pod", "create", text(&small), "--size", "8MiB", "--scr", "1MiB"]);
    let load = |existing| complaint(&["pod", "load", text(&small), &file, "--existing", existing]);
    let said = load("fail");
    assert!(said.contains("too small"), "{said}");
    assert!(said.contains("0 objects were loaded, and 200 objects of 200"), "{said}");
    let said = load("keep");
    assert!(said.contains("full") && said.contains("objects were loaded, and"), "{said}");
    assert!(printed(&["pod", "info", text(&small)]).contains("closed"));
    assert!(printed(&["pod", "check", text(&small)]).contains("no problems"));
}

#[test]
fn pods_for_pages_are_neither_saved_nor_loaded() {
    let (servers, folder, file) = served();
    printed(&["pod", "save", &servers.spec(), &file]);
    let pages = folder.path().join("pages");
    printed(&[&["pod", "create", text(&pages), "--page-cache"], &SMALL[..]].concat());
    let (save, load) = (folder.path().join("other"), &file);
    let said = complaint(&["pod", "save", text(&pages), text(&save)]);
    assert!(said.contains("page cache") && !save.exists(), "{said}");
    let said = complaint(&["pod", "load", text(&pages), load]);
    assert!(said.contains("page cache"), "{said}");
}
