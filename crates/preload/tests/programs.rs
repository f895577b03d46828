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

/// Mappings that are written, remapped, given up and unmapped again and again, beside one that
/// stays. At the end the process is killed, and a child of its goes on.
const CHANGES: &str = "
import ctypes, mmap, os, random, signal, sys
PAGE, SIZE = 4096, 8 << 20
libc = ctypes.CDLL(None)
def area():
    return mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
def fill(area, seed):
    for at in range(0, len(area), PAGE):
        area[at:at + 4] = (at // PAGE * 7 + seed).to_bytes(4, 'little')
def check(area, seed, given_up=()):
    for at in range(0, SIZE, PAGE):
        expected = 0 if at in given_up else at // PAGE * 7 + seed
        found = int.from_bytes(area[at:at + 4], 'little')
        assert found == expected, (at, found, expected)
random.seed(2)
stays = area()
fill(stays, 5)
for turn in range(60):
    other = area()
    fill(other, turn)
    given_up = set(random.sample(range(0, SIZE, PAGE), 200))
    for at in given_up:
        other.madvise(mmap.MADV_DONTNEED, at, PAGE)
    check(other, turn, given_up)
    if turn % 2:
        other.resize(SIZE + (4 << 20))
        check(other, turn, given_up)
        other[SIZE + PAGE] = 3
        assert other[SIZE + PAGE] == 3 and other[-1] == 0
    if turn % 3 == 0:
        start = ctypes.addressof(ctypes.c_char.from_buffer(stays))
        if libc.mlock(ctypes.c_void_p(start), ctypes.c_size_t(64 * PAGE)) == 0:
            check(stays, 5)
            libc.munlock(ctypes.c_void_p(start), ctypes.c_size_t(64 * PAGE))
    other.close()
    check(stays, 5)
parent, (reads, writes) = os.getpid(), os.pipe()
if os.fork() == 0:
    os.close(writes)
    # Until the parent is gone.
    os.read(reads, 1)
    check(stays, 5)
    fill(stays, 9)
    check(stays, 9)
    print('the child has all', flush=True)
    os._exit(0)
print('killed', flush=True)
os.kill(parent, signal.SIGKILL)
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

/// A mapping that was remapped lost its parked pages: the message that its old address is unmapped
/// was served before they had followed to the new one.
///
/// Also: all threads of a process with tiers are killed at once, and nothing waits for them.
#[test]
fn mappings_change_as_they_do_without_and_a_child_outlives_its_parent() {
    if !pages_move() {
        return;
    }
    let Some(output) = run("python3", &["-c", CHANGES], true) else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("killed") && said.contains("the child has all"), "{said}{error}");
}
