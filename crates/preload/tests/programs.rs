//! Programs that were not written for tiers compute what they compute without.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Fills and changes 64 MiB, checks them, and has a child check them, too.
const PYTHON: &str = "
import os, random, threading
random.seed(1)
area = [bytearray(os.urandom(1 << 20)) * 16 for _ in range(4)]
known = {}
for _ in range(600000):
    which, at = random.randrange(4), random.randrange(16 << 20)
    if random.random() < 0.3:
        known[which, at] = area[which][at] = random.randrange(256)
    elif (which, at) in known:
        assert area[which][at] == known[which, at]
for _ in range(300):
    thread = threading.Thread(target=lambda: sum(area[0][::4096]))
    thread.start()
    thread.join()
def check():
    return all(area[which][at] == value for (which, at), value in known.items())
child = os.fork()
if child == 0:
    os._exit(0 if check() else 1)
assert os.waitpid(child, 0)[1] == 0 and check()
print('served', [line for line in open(f'/dev/shm/tombolo-tier.{os.getpid()}')
                 if line.startswith(('served', 'hint'))])
os.remove(f'/dev/shm/tombolo-tier.{os.getpid()}')
print('done')
";

const SQL: &str = "
pragma cache_size = -100000;
create table t(a integer primary key, b text, c integer);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000)
insert into t select i, hex(i * 2654435761) || 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', (i * 7919) % 100003
from n;
create index ti on t(c);
update t set b = b || 'y' where c % 7 = 0;
delete from t where c % 11 = 3;
select count(*), sum(c), sum(length(b)) from t;
pragma integrity_check;
";

fn library() -> PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    folder.join("libtombolo_preload.so")
}

/// `None`, and a line that says so, if there is no such program.
fn run(program: &str, arguments: &[&str], has_tiers: bool) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(arguments);
    if has_tiers {
        let library = library();
        assert!(library.is_file(), "{} was not built", library.display());
        command.env("LD_PRELOAD", library).env("TOMBOLO_TIER", "0 0 16777216 nomad");
    }
    let output = command.output().map_err(|reason| eprintln!("skipped: {program}: {reason}"));
    output.ok()
}

/// Whether pages move on this machine; a line says why not.
fn pages_move() -> bool {
    let found = tombolo_tiering::probe();
    found.map_err(|reason| eprintln!("skipped: {reason}")).is_ok()
}

#[test]
fn python_finds_its_bytes_and_so_does_its_child() {
    if !pages_move() {
        return;
    }
    let Some(output) = run("python3", &["-c", PYTHON], true) else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("done"), "{said}{error}");
    assert!(!said.contains(r"served pages\t0\n"), "nothing was served: {said}");
}

#[test]
fn sqlite_says_the_same_with_tiers_and_without() {
    if !pages_move() {
        return;
    }
    let Some(plain) = run("sqlite3", &[":memory:", SQL], false) else { return };
    let Some(tiered) = run("sqlite3", &[":memory:", SQL], true) else { return };
    assert!(tiered.status.success(), "{}", String::from_utf8_lossy(&tiered.stderr));
    assert_eq!(tiered.stdout, plain.stdout);
    assert!(String::from_utf8_lossy(&plain.stdout).ends_with("ok\n"));
}

#[test]
fn options_that_are_wrong_are_said_and_the_program_runs() {
    let output = Command::new("sh")
        .args(["-c", "echo fine"])
        .env("LD_PRELOAD", library())
        .env("TOMBOLO_TIER", "nonsense")
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"fine\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("runs without tiers"));
}
