//! `tombolo qualify`: two processes of one machine find that their memory is coherent, and pods
//! keep to what is known.

use std::path::Path;

use crate::tombolo::{Running, complaint, folder, output, printed};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn two_processes_of_one_machine_qualify_its_memory() {
    let folder = folder();
    let path = folder.path().join("memory");
    let json = printed(&["qualify", text(&path), "--pair", "--format", "json"]);
    for said in [
        "\"verdict\": \"coherent with atomics\"",
        "\"allows_hardware_scr\": true",
        "\"line_outlives_writer\": true",
        "\"lost_fetch_adds\": 0",
        "\"lost_lines\": 0",
        "\"works\": true",
    ] {
        assert!(json.contains(said), "no {said} in {json}");
    }
    assert!(!json.contains("\"works\": false"), "{json}");
    printed(&["pod", "create", text(&path), "--size", "16MiB", "--scr", "1MiB"]);
    let info = printed(&["pod", "info", text(&path)]);
    assert!(info.contains("coherent with atomics"), "{info}");
}

#[test]
fn hosts_that_are_started_apart_find_each_other_beside_a_pods_hosts() {
    let folder = folder();
    let path = folder.path().join("pod");
    printed(&["pod", "create", text(&path), "--size", "16MiB", "--scr", "1MiB"]);
    let server = Running::start(&["serve", "--pod", text(&path), "--listen", "127.0.0.1:0"]);
    let arguments = ["qualify", text(&path), "--hosts", "3"];
    let mut others =
        ["b", "c"].map(|name| Running::start(&[&arguments[..], &["--host", name]].concat()));
    let said = printed(&[&arguments[..], &["--host", "a"]].concat());
    assert!(said.contains("coherent with atomics"), "{said}");
    for other in &mut others {
        let said = other.line_with("verdict");
        assert!(said.contains("coherent with atomics"), "{said}");
    }
    drop(server);
}

#[test]
fn a_host_that_does_not_come_is_named() {
    let folder = folder();
    let path = folder.path().join("memory");
    let said = complaint(&["qualify", text(&path), "--host", "a", "--within", "1"]);
    assert!(said.contains("host b did not come within 1 s"), "{said}");
    let said = complaint(&["qualify", text(&path), "--host", "z"]);
    assert!(said.contains("they are called a to h"), "{said}");
    assert!(!output(&["qualify", text(&path)]).status.success());
}
