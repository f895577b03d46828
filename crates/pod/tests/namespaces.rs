//! Hosts in other namespaces, and of other users: a living one is not taken for dead, and a dead
//! one is known to be.
//!
//! Each host, and each process that looks at them, is this test program once more, in namespaces
//! that the test has `unshare` make. Where that may not be done, a test says so and does nothing.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tombolo_pod::{Layout, PodOptions, PodSpec, Sizes, create, inspect, open};

const POD: &str = "TOMBOLO_TEST_POD";
const ROLE: &str = "TOMBOLO_TEST_ROLE";

/// The role of this program when a test has started it once more.
#[test]
fn role() {
    let (Ok(pod), Ok(role)) = (std::env::var(POD), std::env::var(ROLE)) else { return };
    let spec = PodSpec::path(pod);
    if role == "host" {
        let pod = open(&spec).unwrap();
        let seat = pod.join().unwrap();
        println!("\nsaid: {}", seat.host());
        // Until the test ends it.
        let _ = std::io::stdin().lines().next();
        return;
    }
    let pod = inspect(&spec).unwrap();
    let stay = pod.stay_of(0);
    let said = match (pod.is_seated(stay), pod.has_ended(stay)) {
        (true, true) => "ended",
        (true, false) => "not known to have ended",
        (false, _) => "not there",
    };
    println!("\nsaid: {said}");
}

struct Started {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Started {
    fn new(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take(), child, lines }
    }

    fn said(&mut self) -> String {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        lines
            .find_map(|line| line.strip_prefix("said: ").map(str::to_owned))
            .expect("it says something")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Place {
    _folder: TempDir,
    pod: PathBuf,
    program: PathBuf,
}

impl Place {
    /// A pod, and a copy of this program, that everybody may use.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (pod, program) = (folder.path().join("pod"), folder.path().join("program"));
        let sizes =
            Sizes { scr_bytes: Some(64 << 10), lnr_bytes: Some(8 << 20), ..Sizes::default() };
        let plan = |scr, lnr| Layout::plan(scr, lnr, PodOptions::default(), &[]);
        drop(create(&PodSpec::path(&pod), sizes, &plan).unwrap());
        // By another process: a file that another thread's child has open for writing cannot be
        // started.
        let copied =
            Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
        assert!(copied.unwrap().success(), "cannot copy this program");
        for (path, mode) in [(folder.path(), 0o777), (&pod, 0o666), (&program, 0o755)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        Self { _folder: folder, pod, program }
    }

    /// The words of a command of a shell that starts this program in `role`.
    fn words(&self, role: &str) -> String {
        let (pod, program) = (self.pod.display(), self.program.display());
        format!("env {POD}={pod} {ROLE}={role} {program} --exact role --nocapture")
    }

    fn sh(&self, script: &str) -> Started {
        Started::new(Command::new("sh").args(["-c", script]))
    }

    fn host(&self, before: &str) -> Started {
        let mut host = self.sh(&format!("exec {before} {}", self.words("host")));
        assert_eq!(host.said(), "0");
        host
    }

    fn look(&self, before: &str) -> String {
        let mut looking = self.sh(&format!("exec {before} {}", self.words("look")));
        let said = looking.said();
        looking.lines.by_ref().for_each(drop);
        said
    }
}

/// Whether `unshare` with these options may be had here.
fn may(unshare: &str) -> bool {
    let script = format!("unshare {unshare} true");
    let may = Command::new("sh").args(["-c", &script]).status().is_ok_and(|s| s.success());
    if !may {
        println!("skipped: `{script}` is not permitted here");
    }
    may
}

/// Waits for what has to be so soon.
fn within_time(mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(30), "it does not become so");
        std::thread::yield_now();
    }
}

/// With `/proc` mounted with `hidepid=2`, another user's live host was declared ended, since its
/// beginning could not be read.
#[test]
fn a_host_of_another_user_that_proc_hides_lives() {
    let as_user = "setpriv --reuid 4001 --regid 4001 --clear-groups";
    let mount =
        format!("-m sh -c 'mount -t proc -o hidepid=2 proc /proc && exec {as_user} \"$@\"' sh");
    if !may(&mount) {
        return;
    }
    let place = Place::new();
    let _host = place.host("setpriv --reuid 4000 --regid 4000 --clear-groups");
    assert_eq!(place.look(&format!("unshare {mount}")), "not known to have ended");
}

/// `/proc` tells beginnings by the clock of the reader's time namespace, and a live host in another
/// one was declared ended.
#[test]
fn a_host_in_another_time_namespace_lives() {
    if !may("-T --boottime 100000") {
        return;
    }
    let place = Place::new();
    let _host = place.host("unshare -T --boottime 100000");
    assert_eq!(place.look(""), "not known to have ended");
    assert_eq!(place.look("unshare -T --boottime 500"), "not known to have ended");
}

/// In a PID namespace with the `/proc` of another, a host's number is another process' there; and
/// it was declared ended when that had a beginning of its own.
#[test]
fn hosts_in_a_pid_namespace_without_its_own_proc_live() {
    if !may("-pf") {
        return;
    }
    let place = Place::new();
    let (host, look) = (place.words("host"), place.words("look"));
    // No process has such a number in the namespace whose `/proc` this is.
    let script = format!(
        "echo 29000 > /proc/sys/kernel/ns_last_pid; {host} <&3 >/dev/null & until {look} | grep '^said: [ne].*ended'; do :; done"
    );
    let script = format!("exec unshare -pf --kill-child sh -c \"{script}\" 3<&0");
    let said = place.sh(&script).said();
    assert_eq!(said, "not known to have ended");
}

/// A host that is killed in another PID namespace kept its seat until an operator said that it was
/// gone.
#[test]
fn a_host_that_is_killed_in_another_pid_namespace_is_known_to_have_ended() {
    if !may("-pf --mount-proc") {
        return;
    }
    let place = Place::new();
    let mut host = place.host("unshare -pf --mount-proc --kill-child");
    assert_eq!(place.look(""), "not known to have ended");
    assert_eq!(place.look("unshare -pf --mount-proc"), "not known to have ended");
    host.child.kill().unwrap();
    host.child.wait().unwrap();
    // The namespace's first process ends a moment after the one that has started it.
    within_time(|| place.look("") == "ended");
    within_time(|| place.look("unshare -pf --mount-proc") == "ended");
}

/// Many lives and deaths, each in a PID namespace of its own, while one process looks: each seat is
/// free again.
#[test]
fn seats_of_hosts_killed_in_other_pid_namespaces_are_free() {
    if !may("-pf") {
        return;
    }
    let place = Place::new();
    let pod = open(&PodSpec::path(Path::new(&place.pod))).unwrap();
    for round in 0..20 {
        let mut host = place.host("unshare -pf --kill-child");
        let stay = pod.stay_of(0);
        assert!(pod.is_seated(stay) && !pod.has_ended(stay), "in round {round}");
        host.child.kill().unwrap();
        within_time(|| pod.has_ended(stay));
        assert!(pod.fence(stay) && pod.is_gone(stay) && pod.release(stay));
    }
}
