//! Where output goes that nobody takes, and what is said when a command line is wrong.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::tombolo::{Running, folder, printed, tombolo};
use crate::up::ports;

fn command(args: &[&str]) -> Command {
    let mut command = tombolo(args);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Commands that print something, with a pod of their own.
fn commands(pod: &str) -> Vec<Vec<&str>> {
    let create = vec!["pod", "create", pod, "--size", "8MiB", "--scr", "1MiB"];
    vec![
        create.clone(),
        vec!["pod", "info", pod],
        vec!["pod", "info", pod, "--format", "json"],
        vec!["pod", "check", pod],
        vec!["check", "--list"],
        vec!["--version"],
        vec!["pod", "create", "--help"],
        vec!["check", "--scenario", "claimer-dies", "--seeds", "2"],
        [create, vec!["--dry-run", "--force"]].concat(),
    ]
}

/// `tombolo pod info POD | true` panicked.
#[test]
fn a_pipe_that_is_closed_is_a_quiet_end() {
    let folder = folder();
    let pod = folder.path().join("pod");
    for args in commands(pod.to_str().unwrap()) {
        let mut child = command(&args).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success() && words(&ended).is_empty(), "{args:?}: {}", words(&ended));
    }
}

/// `tombolo pod info POD >/dev/full` panicked.
#[test]
fn a_full_disk_is_said_in_a_sentence() {
    let folder = folder();
    let pod = folder.path().join("pod");
    for args in commands(pod.to_str().unwrap()) {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ended = command(&args).stdout(full).output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{args:?}");
        let said = words(&ended);
        assert!(said.contains("cannot write to the standard output: No space left"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// `tombolo up | head -1` panicked, and left the pod behind.
#[test]
fn up_ends_in_order_when_nobody_reads_on() {
    let port = ports(1).to_string();
    let args = ["up", "--hosts", "1", "--port", &port, "--size", "16MiB", "--scr", "1MiB"];
    let mut child = command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let left = format!("/dev/shm/tombolo-up-{}", child.id());
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && !words(&ended).contains("panicked"), "{}", words(&ended));
    assert!(!Path::new(&left).exists());
}

#[test]
fn errors_are_json_where_results_are() {
    let ended = command(&["pod", "info", "/nowhere/pod", "--format", "json"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said: Value = serde_json::from_str(&words(&ended)).unwrap();
    assert!(said["error"].as_str().unwrap().contains("/nowhere/pod"));
    // Also where the command line is wrong.
    let ended = command(&["pod", "info", "--format", "json"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let said: Value = serde_json::from_str(&words(&ended)).unwrap();
    assert!(said["error"].as_str().unwrap().contains("<SPEC>"), "{said}");
}

/// To look at a pod took the right to write to it.
#[test]
fn a_pod_that_may_only_be_read_is_looked_at() {
    let folder = folder();
    let pod = folder.path().join("pod");
    let spec = pod.to_str().unwrap();
    printed(&["pod", "create", spec, "--size", "8MiB", "--scr", "1MiB"]);
    for path in [folder.path(), &pod] {
        std::fs::set_permissions(path, Permissions::from_mode(0o555)).unwrap();
    }
    let looks =
        [&["pod", "info", spec][..], &["pod", "check", spec], &["pod", "list", folder_of(&pod)]];
    for args in looks {
        let mut looking = command(args);
        if rustix::process::geteuid().is_root() {
            looking.uid(1001).gid(1001);
        }
        let ended = looking.output().unwrap();
        assert!(ended.status.success(), "{args:?}: {}", words(&ended));
        assert!(String::from_utf8_lossy(&ended.stdout).contains("pod"), "{args:?}");
    }
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
}

fn folder_of(path: &Path) -> &str {
    path.parent().unwrap().to_str().unwrap()
}

/// `,huge` never said whether huge pages came.
#[test]
fn huge_pages_that_are_asked_for_are_counted() {
    let folder = folder();
    let pod = folder.path().join("pod");
    let spec = format!("{},huge", pod.display());
    let create = ["pod", "create", &spec, "--size", "16MiB", "--scr", "1MiB"];
    let created: Value =
        serde_json::from_str(&printed(&[&create[..], &["--format", "json"]].concat())).unwrap();
    let huge = &created["huge_pages"];
    let (bytes, all) = (huge["bytes"].as_u64().unwrap(), huge["of_bytes"].as_u64().unwrap());
    assert!(bytes <= all && all == 17 << 20, "{huge}");
    let shown = printed(&["pod", "info", &spec]);
    assert!(shown.contains("in huge pages"), "{shown}");
    let plain = printed(&["pod", "info", pod.to_str().unwrap()]);
    assert!(!plain.contains("in huge pages"), "{plain}");
}

/// An orchestrator sets `TOMBOLO_PORT` for a service of that name, and the error did not say where
/// the value came from.
#[test]
fn an_environment_variable_that_is_wrong_is_named() {
    let ended = command(&["up"]).env("TOMBOLO_PORT", "tcp://10.0.0.1:7000").output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(words(&ended).contains("environment variable TOMBOLO_PORT"), "{}", words(&ended));
}

/// Hosts that had ended in other PID namespaces were shown alive.
#[test]
fn a_host_that_was_killed_is_shown_dead() {
    let folder = folder();
    let pod = folder.path().join("pod");
    let pod = pod.to_str().unwrap();
    printed(&["pod", "create", pod, "--size", "8MiB", "--scr", "1MiB"]);
    let serve = ["serve", "--pod", pod, "--listen", "127.0.0.1:0"];
    let mut host = Running::start(&serve);
    host.line_with("listening on");
    assert!(!printed(&["pod", "info", pod]).contains("dead"));
    host.signal("-KILL");
    host.end();
    assert!(printed(&["pod", "info", pod]).contains(", dead"));
}

/// `pod save POD -` made a file of that name.
#[test]
fn a_pod_is_saved_to_the_standard_output_and_loaded_from_the_standard_input() {
    let folder = folder();
    let [pod, other] = ["pod", "other"].map(|name| folder.path().join(name));
    let [pod, other] = [&pod, &other].map(|path| path.to_str().unwrap());
    for pod in [pod, other] {
        printed(&["pod", "create", pod, "--size", "8MiB", "--scr", "1MiB"]);
    }
    let mut saving = command(&["pod", "save", pod, "-"]);
    let saved = saving.current_dir(folder.path()).output().unwrap();
    assert!(saved.status.success() && saved.stdout.starts_with(b"TOMBSAVE"), "{}", words(&saved));
    assert!(words(&saved).contains("0 objects"), "{}", words(&saved));
    assert!(!folder.path().join("-").exists());
    let file = folder.path().join("saved");
    std::fs::write(&file, &saved.stdout).unwrap();
    let mut loading = command(&["pod", "load", other, "-"]);
    let loaded = loading.stdin(File::open(&file).unwrap()).output().unwrap();
    assert!(loaded.status.success(), "{}", words(&loaded));
}

/// It ran until it was interrupted, and was meant to do nothing.
#[test]
fn a_benchmark_without_an_end_is_refused() {
    let ended = command(&["bench", "ycsb", "-P", "a", "-p", "operationcount=0"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(words(&ended).contains("would run for ever"), "{}", words(&ended));
}

/// A pod of an `up` that was killed stayed in memory, and nobody said so.
#[test]
fn pods_that_nobody_uses_are_found_and_removed() {
    let folder = folder();
    let [used, left] = ["used", "left"].map(|name| folder.path().join(name));
    let [used, left] = [&used, &left].map(|path| path.to_str().unwrap());
    for pod in [used, left] {
        printed(&["pod", "create", pod, "--size", "8MiB", "--scr", "1MiB"]);
    }
    std::fs::write(folder.path().join("foreign"), "no pod").unwrap();
    let mut host = Running::start(&["serve", "--pod", used, "--listen", "127.0.0.1:0"]);
    host.line_with("listening on");
    let list = || printed(&["pod", "list", folder.path().to_str().unwrap(), "--format", "json"]);
    let found: Value = serde_json::from_str(&list()).unwrap();
    let in_use = |number: usize| (found[number]["path"].clone(), found[number]["in_use"].clone());
    assert_eq!((in_use(0), in_use(1)), ((left.into(), false.into()), (used.into(), true.into())));
    printed(&["pod", "remove", left]);
    assert!(!Path::new(left).exists());
    let refused = words(&command(&["pod", "remove", used]).output().unwrap());
    assert!(refused.contains("is in use"), "{refused}");
    let foreign = folder.path().join("foreign");
    assert!(
        !command(&["pod", "remove", foreign.to_str().unwrap()]).output().unwrap().status.success()
    );
    assert!(foreign.exists() && Path::new(used).exists());
}
