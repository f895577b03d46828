//! Pods by command, and what is wrong said in one sentence.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use crate::tombolo::{Running, complaint, folder, output, printed};

const SMALL: [&str; 4] = ["--size", "16MiB", "--scr", "1MiB"];

fn create(spec: &str) {
    printed(&[&["pod", "create", spec], &SMALL[..]].concat());
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_pod_is_created_shown_and_checked() {
    let folder = folder();
    let path = folder.path().join("pod");
    let planned = printed(&[&["pod", "create", text(&path), "--dry-run"], &SMALL[..]].concat());
    assert!(planned.contains("would create") && !path.exists(), "{planned}");
    create(text(&path));
    let info = printed(&["pod", "info", text(&path)]);
    assert!(info.contains("closed") && info.contains("16.0 MiB"), "{info}");
    assert!(info.contains("up to 16 hosts"), "{info}");
    let json = printed(&["pod", "info", text(&path), "--format", "json"]);
    assert!(json.contains("\"state\": \"closed\"") && json.contains("\"hosts\": []"), "{json}");
    assert!(printed(&["pod", "check", text(&path)]).contains("no problems"));
}

/// A pod for objects and pages: a server uses the one part, and the other is as it was.
#[test]
fn a_pod_has_areas_for_objects_and_for_pages() {
    let folder = folder();
    let path = folder.path().join("pod");
    let create = ["pod", "create", text(&path), "--size", "64MiB", "--page-cache=16MiB"];
    let created = printed(&create);
    assert!(created.contains("objects") && created.contains("a page cache"), "{created}");
    let mut host = Running::start(&["serve", "--pod", text(&path), "--listen", "127.0.0.1:0"]);
    host.line_with("listening on");
    let info = printed(&["pod", "info", text(&path)]);
    assert!(info.contains("open") && info.contains("closed"), "one area of each: {info}");
    host.signal("-TERM");
    assert!(host.end().success());
    assert!(printed(&["pod", "check", text(&path)]).contains("no problems"));
}

#[test]
fn an_existing_pod_is_kept() {
    let folder = folder();
    let path = folder.path().join("pod");
    create(text(&path));
    let before = fs::read(&path).unwrap();
    let again = complaint(&[&["pod", "create", text(&path)], &SMALL[..]].concat());
    assert!(again.contains("--force"), "{again}");
    assert!(fs::read(&path).unwrap() == before);
    printed(&[&["pod", "create", text(&path), "--force"], &SMALL[..]].concat());
}

#[test]
fn a_live_pod_is_kept_whatever_is_asked_for() {
    let folder = folder();
    let path = folder.path().join("pod");
    create(text(&path));
    let mut host = Running::start(&["serve", "--pod", text(&path), "--listen", "127.0.0.1:0"]);
    host.line_with("listening on");
    let forced = complaint(&[&["pod", "create", text(&path), "--force"], &SMALL[..]].concat());
    assert!(forced.contains("stop them first"), "{forced}");
    let info = printed(&["pod", "info", text(&path)]);
    assert!(info.contains("open") && info.contains("host 0: pid"), "{info}");
    assert!(printed(&["pod", "check", text(&path)]).contains("no problems"));
    host.signal("-TERM");
    assert!(host.end().success());
    assert!(printed(&["pod", "info", text(&path)]).contains("closed"));
}

#[test]
fn a_pod_is_for_as_many_hosts_as_it_was_made_for() {
    let folder = folder();
    let path = folder.path().join("pod");
    printed(&[&["pod", "create", text(&path), "--hosts", "1"], &SMALL[..]].concat());
    assert!(
        printed(&["pod", "info", text(&path), "--format", "json"]).contains("\"max_hosts\": 1")
    );
    let mut host = Running::start(&["serve", "--pod", text(&path), "--listen", "127.0.0.1:0"]);
    host.line_with("listening on");
    let refused = complaint(&["serve", "--pod", text(&path), "--listen", "127.0.0.1:0"]);
    assert!(refused.contains("it was made for (1)") && refused.contains("--hosts"), "{refused}");
    host.signal("-TERM");
    assert!(host.end().success());
}

#[test]
fn a_pod_whose_hosts_were_killed_has_a_problem_until_it_is_opened() {
    let folder = folder();
    let path = folder.path().join("pod");
    create(text(&path));
    let mut host = Running::start(&["serve", "--pod", text(&path), "--listen", "127.0.0.1:0"]);
    host.line_with("listening on");
    host.signal("-KILL");
    host.end();
    let check = output(&["pod", "check", text(&path)]);
    assert_eq!(check.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&check.stdout).contains("problem: host 0"));
    let mut host = Running::start(&["serve", "--pod", text(&path), "--listen", "127.0.0.1:0"]);
    host.line_with("listening on");
    host.signal("-TERM");
    assert!(host.end().success());
    assert!(printed(&["pod", "check", text(&path)]).contains("no problems"));
}

#[test]
fn foreign_truncated_and_other_files_are_refused() {
    let folder = folder();
    let path = folder.path().join("file");
    let serve = || complaint(&["serve", "--pod", text(&path)]);
    assert!(serve().contains("create it first"));
    fs::write(&path, "not a pod at all, but long enough to be looked at".repeat(100)).unwrap();
    assert!(serve().contains("holds no pod"));
    let create_there = complaint(&[&["pod", "create", text(&path)], &SMALL[..]].concat());
    assert!(create_there.contains("--force"), "{create_there}");
    fs::remove_file(&path).unwrap();

    create(text(&path));
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..4 << 20]).unwrap();
    assert!(serve().contains("cut off"));
    let mut other = whole.clone();
    other[8] = 77;
    fs::write(&path, &other).unwrap();
    assert!(serve().contains("format version 77"));
    let mut damaged = whole;
    damaged[100] ^= 1;
    fs::write(&path, &damaged).unwrap();
    assert!(serve().contains("damaged"));
}

#[test]
fn bad_input_is_said_in_a_sentence() {
    let folder = folder();
    let path = folder.path().join("pod");
    let create = |args: &[&str]| complaint(&[&["pod", "create", text(&path)], args].concat());
    assert!(create(&["--size", "12parsecs"]).contains("is not a size"));
    assert!(create(&["--size", "1KiB", "--scr", "1MiB"]).contains("does not fit"));
    assert!(create(&["--size", "1PiB"]).contains("limit"));
    assert!(create(&["--size", "900TiB", "--scr", "1MiB"]).contains("limit"));
    assert!(create(&["--size", "3TiB", "--scr", "64MiB"]).contains("make room"));
    assert!(create(&[]).contains("no size"));
    let spec = format!("{},size=8MiB,numa=1023", text(&path));
    assert!(complaint(&["pod", "create", &spec]).contains("NUMA node"));
    assert!(!path.exists(), "nothing is left behind");
    assert!(
        complaint(&["pod", "create", "/nowhere/at/all", "--size", "1MiB"]).contains("/nowhere")
    );
    assert!(complaint(&["pod", "create", "/dev/null", "--size", "1MiB"]).contains("not DAX"));
    assert!(complaint(&["bench", "ycsb", "-p", "recordcont=1"]).contains("recordcount"));
    assert!(complaint(&["bench", "ycsb", "-P", "e"]).contains("scan"));
    assert!(complaint(&["bench", "ycsb", "-P", "/nowhere"]).contains("cannot read the workload"));
    assert!(complaint(&["up", "--hosts", "65"]).contains("65 is not in 1..=64"));
    assert!(create(&["--size", "16MiB", "--hosts", "0"]).contains("0 is not in 1..=64"));
    let hcmeta = ["bench", "ycsb", "--scheme", "hcmeta", "--hosts", "17"];
    assert!(complaint(&hcmeta).contains("HCMeta takes up to 16 hosts"));
    assert!(complaint(&["up", "--port", "65535"]).contains("choose another"));
    assert_eq!(output(&["dance"]).status.code(), Some(2));
}

#[test]
fn addresses_that_cannot_be_served_are_refused() {
    let folder = folder();
    let path = folder.path().join("pod");
    create(text(&path));
    let serve = |args: &[&str]| complaint(&[&["serve", "--pod", text(&path)], args].concat());
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    assert!(serve(&["--listen", &taken]).contains("choose another port"));
    assert!(serve(&["--listen", "0.0.0.0:0"]).contains("password"));
    assert!(serve(&["--listen", "nowhere"]).contains("127.0.0.1:7000"));
    // None of them kept its seat.
    assert!(printed(&["pod", "info", text(&path)]).contains("closed"));
}

#[test]
fn options_come_from_a_file_the_environment_and_flags() {
    let folder = folder();
    let (config, pod) = (folder.path().join("tombolo.toml"), folder.path().join("pod"));
    fs::write(&config, "[pod.create]\nsize = '32MiB'\nscr = '2MiB'\n").unwrap();
    let with = |args: &[&str]| {
        let base = ["--config", text(&config), "pod", "create", text(&pod), "--dry-run"];
        crate::tombolo::tombolo(&[&base, args].concat())
    };
    let shown = |command: &mut std::process::Command| {
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(shown(&mut with(&[])).contains("32.0 MiB"));
    assert!(shown(with(&[]).env("TOMBOLO_SIZE", "48MiB")).contains("48.0 MiB"));
    let flag = shown(with(&["--size", "64MiB"]).env("TOMBOLO_SIZE", "48MiB"));
    assert!(flag.contains("64.0 MiB"), "{flag}");
}

#[test]
fn metrics_are_served() {
    use std::io::{Read, Write};
    let folder = folder();
    let path = folder.path().join("pod");
    create(text(&path));
    let args =
        ["serve", "--pod", text(&path), "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let mut host = Running::start(&args);
    let line = host.line_with("metrics on");
    let address = line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned();
    let get = |path: &str| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let metrics = get("/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
    let objects = metrics.lines().find(|line| line.starts_with("tombolo_pod_objects{pod=\""));
    assert!(objects.is_some_and(|line| line.ends_with("\"} 0")), "{metrics}");
    assert!(metrics.contains("# TYPE tombolo_server_commands_total counter"));
    assert!(get("/nothing").starts_with("HTTP/1.1 404"));
    host.signal("-TERM");
    assert!(host.end().success());
    assert!(printed(&["pod", "info", text(&path)]).contains("closed"));
}
