//! Hosts that stand still, or die where their processes cannot be seen: the others go on, and seats
//! are free again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Commands, Connection};
use tombolo_memory::Mapped;
use tombolo_pod::{Pod, PodSpec, SeatState, inspect};

use crate::tombolo::{Running, Servers, connect};

const POD: [&str; 4] = ["--size", "64MiB", "--scr", "4MiB"];

/// How long a client of a host that lives waits for an answer, at most.
const PATIENCE: Duration = Duration::from_secs(30);

/// Keys that all hosts write.
const KEYS: u32 = 8;

fn set(with: &mut Connection, number: u32) -> redis::RedisResult<()> {
    with.set(format!("key:{}", number % KEYS), number)
}

/// Commands that are sent together, and the bytes that each writes.
const TOGETHER: u32 = 200;
const LONG: isize = 256 << 10;

/// Has a host write keys all the time, until its connection ends or it is `over`: it is nearly
/// always amid a write.
fn keep_busy(mut with: Connection, over: &AtomicBool) {
    let mut commands = redis::pipe();
    for number in 0..TOGETHER {
        commands.setrange(format!("key:{}", number % KEYS), LONG - 1, "x").ignore();
    }
    while !over.load(Ordering::Relaxed) && commands.exec(&mut with).is_ok() {}
}

/// Says that it is over when it is dropped: also where a test fails, whose other threads would go
/// on.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Stops host 2 again and again, at any moment of its writes. It joins again when it goes on and
/// the others have fenced it. Clients of the two others get an answer to each command.
fn others_go_on_beside(stop: impl Fn(&Running), go_on: impl Fn(&Running)) {
    let servers = Servers::start(3, &POD, &["--rejoin"]);
    let mut hosts = [0, 1].map(|host| servers.connect(host));
    for with in &hosts {
        with.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let mut longest = Duration::ZERO;
    for _ in 0..8 {
        let victim = connect_patiently(&servers, 2);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| keep_busy(victim, &over));
            let _over = AtTheEnd(&over);
            (0..200).for_each(|number| set(&mut hosts[0], number).unwrap());
            stop(&servers.hosts[2].0);
            for number in 0..400 {
                let started = Instant::now();
                set(&mut hosts[number as usize % 2], number).unwrap();
                longest = longest.max(started.elapsed());
            }
            go_on(&servers.hosts[2].0);
        });
    }
    println!("no command took longer than {} ms", longest.as_millis());
}

/// A connection to a host that may be joining again.
fn connect_patiently(servers: &Servers, host: usize) -> Connection {
    let started = Instant::now();
    loop {
        let client = redis::Client::open(format!("redis://{}", servers.hosts[host].1)).unwrap();
        if let Ok(mut with) = client.get_connection()
            && set(&mut with, 0).is_ok()
        {
            return with;
        }
        assert!(started.elapsed() < PATIENCE, "host {host} does not join again");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn others_go_on_beside_a_host_that_is_stopped() {
    others_go_on_beside(|host| host.signal("-STOP"), |host| host.signal("-CONT"));
}

/// A control group whose processes can be frozen. It is removed in the end.
pub(crate) struct Freezer {
    group: PathBuf,
    /// The file by which it is frozen, and the words for that, and for going on.
    file: &'static str,
    words: [&'static str; 2],
    /// A file that tells whether it is frozen, and how.
    told: (&'static str, &'static str),
}

impl Freezer {
    /// One of version 2 or 1; `None`, with the reason printed, where none may be made.
    pub(crate) fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tombolo-test-{}-{number}", std::process::id());
        let second = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
        for folder in second.map(Path::new) {
            let group = folder.join(&name);
            if folder.join("cgroup.controllers").exists() && fs::create_dir(&group).is_ok() {
                let told = ("cgroup.events", "frozen 1");
                return Some(Self { group, file: "cgroup.freeze", words: ["1", "0"], told });
            }
        }
        let group = Path::new("/sys/fs/cgroup/freezer").join(name);
        if fs::create_dir(&group).is_ok() {
            let (file, words) = ("freezer.state", ["FROZEN", "THAWED"]);
            return Some(Self { group, file, words, told: ("freezer.state", "FROZEN") });
        }
        eprintln!("skipped: no control group can be made");
        None
    }

    pub(crate) fn freeze(&self, process: u32) {
        fs::write(self.group.join("cgroup.procs"), process.to_string()).unwrap();
        fs::write(self.group.join(self.file), self.words[0]).unwrap();
        let (file, frozen) = self.told;
        while !fs::read_to_string(self.group.join(file)).unwrap().contains(frozen) {
            thread::yield_now();
        }
    }

    pub(crate) fn thaw(&self) {
        fs::write(self.group.join(self.file), self.words[1]).unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.thaw();
        // It stays as long as processes are in it: those of a test that has failed.
        let _ = fs::remove_dir(&self.group);
    }
}

/// A host that a control group had frozen, whose process is said to sleep, kept all writers waiting
/// for 5 s, and their clients got errors.
#[test]
fn others_go_on_beside_a_host_that_is_frozen() {
    let Some(freezer) = Freezer::new() else { return };
    others_go_on_beside(|host| freezer.freeze(host.id()), |_| freezer.thaw());
}

/// Whether `unshare` may make a PID namespace here.
fn may_unshare() -> bool {
    let may = Command::new(UNSHARE[0]).args(&UNSHARE[1..]).arg("true").status();
    let may = may.is_ok_and(|status| status.success());
    if !may {
        eprintln!("skipped: no PID namespace can be made");
    }
    may
}

const UNSHARE: [&str; 3] = ["unshare", "-pf", "--kill-child"];

/// Whether a host is alone in a pod, and nothing of another is left there.
fn is_alone(pod: &Pod<Mapped>) -> bool {
    let is_clear = pod.areas().all(|area| {
        let members = area.membership();
        members.hosts().count() == 1 && members.fenced().next().is_none()
    });
    let none_fenced = pod.stays_in(SeatState::Fenced).next().is_none();
    is_clear && none_fenced && pod.stays_in(SeatState::Seated).count() == 1
}

/// Kills hosts in PID namespaces of their own while they write, and another host serves a client;
/// how long it took after each death until nothing of the host was left.
fn die(deaths: usize) -> Vec<Duration> {
    let servers = Servers::start(1, &POD, &[]);
    let spec = servers.spec();
    let pod = inspect(&PodSpec::path(&spec)).unwrap();
    let mut with = servers.connect(0);
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || {
            with.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut counted = 0u32;
            while !over.load(Ordering::Relaxed) {
                counted += 1;
                let () = with.set("count", counted).unwrap();
                let got: u32 = with.get("count").unwrap();
                assert_eq!(got, counted, "an acknowledged value");
                thread::sleep(Duration::from_millis(1));
            }
        });
        let _over = AtTheEnd(over);
        (0..deaths).map(|_| one_dies(&spec, &pod)).collect()
    })
}

fn one_dies(spec: &str, pod: &Pod<Mapped>) -> Duration {
    let serve = ["serve", "--pod", spec, "--listen", "127.0.0.1:0", "--workers", "1"];
    let mut host = Running::start_within(&UNSHARE, &serve);
    let line = host.line_with("listening on");
    let with = connect(line.rsplit(' ').next().unwrap().parse().unwrap());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| keep_busy(with, &over));
        let _over = AtTheEnd(&over);
        thread::sleep(Duration::from_millis(5));
        host.signal("-KILL");
        let killed = Instant::now();
        while !is_alone(pod) {
            assert!(killed.elapsed() < PATIENCE, "something of a dead host stays");
            thread::yield_now();
        }
        let time = killed.elapsed();
        host.end();
        time
    })
}

#[test]
fn nothing_is_left_of_hosts_that_die_in_other_namespaces() {
    if may_unshare() {
        die(10);
    }
}

/// Measured death by death; the figure is in `docs/verification.md`.
#[test]
#[ignore = "a campaign of minutes: --ignored runs it"]
fn a_thousand_deaths_leave_each_seat_free_within_a_second() {
    if !may_unshare() {
        return;
    }
    let mut times = die(1000);
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
    println!(
        "1000 deaths; free after {:.1} ms (median), {:.1} ms (99 of 100), {:.1} ms (longest)",
        at(50),
        at(99),
        at(100)
    );
    assert!(times.iter().all(|time| *time < Duration::from_secs(1)), "{:?}", times.last());
}
