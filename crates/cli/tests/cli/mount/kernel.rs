//! The kernel's own part in mounted files: pages that it keeps, and locks.

use std::fs;
use std::process::Command;

use super::{Mounts, has, shell};

const SMALL: [&str; 4] = ["--size", "8MiB", "--scr", "512KiB"];

/// Runs a script of Python in the folder that has the mounts `one` and `two`; what it prints.
fn python(mounts: &Mounts, script: &str) -> String {
    fs::write(mounts.folder.path().join("script"), script).unwrap();
    shell(mounts.folder.path(), "python3 script")
}

/// `sendfile`, `splice` and private mappings gave old bytes for ever through descriptors that were
/// open before another host wrote.
#[test]
fn pages_that_the_kernel_keeps_follow_other_hosts_writes() {
    if !has("python3") {
        return;
    }
    let Some(mut mounts) = Mounts::start(&SMALL) else { return };
    let script = "
import mmap, os, time
SIZE = 100000
def content(number): return (b'%07d ' % number) * (SIZE // 8)
fd = os.open('one/file', os.O_RDWR | os.O_CREAT)
os.pwrite(fd, content(0), 0)
other = os.open('two/file', os.O_RDWR)
mapped = mmap.mmap(fd, SIZE, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
sink = os.open('sink', os.O_RDWR | os.O_CREAT)
def sent():
    done = 0
    os.lseek(sink, 0, os.SEEK_SET)
    while done < SIZE:
        done += os.sendfile(sink, fd, done, SIZE - done)
    return os.pread(sink, SIZE, 0)
def spliced():
    out, into = os.pipe()
    bytes = b''
    while len(bytes) < SIZE:
        moved = os.splice(fd, into, min(4096, SIZE - len(bytes)), offset_src=len(bytes))
        bytes += os.read(out, moved)
    os.close(out), os.close(into)
    return bytes
ways = {'sendfile': sent, 'splice': spliced, 'mmap': lambda: mapped[:]}
for way, read in ways.items():
    assert read() == content(0), way
for number in range(1, 6):
    os.pwrite(other, content(number), 0)
    for way, read in ways.items():
        tries = 0
        while read() != content(number):
            tries += 1
            assert tries < 6000, way + ' gives old bytes'
            time.sleep(0.01)
    # Later writes leave the time of the last write as it is, or are hidden by setting it again.
    time.sleep(1.2 if number == 3 else 0)
    os.utime('two/file', (1000, 1000))
for way, read in ways.items():
    assert read() == content(5), way
print('as written')
";
    assert_eq!(python(&mounts, script), "as written\n");
    mounts.end();
}

/// A script that prints which exclusive locks another process can take while two descriptors hold
/// locks of each kind. Their paths are the script's arguments.
const LOCKS: &str = "
import fcntl, os, sys
first, second = [os.open(name, os.O_RDWR | os.O_CREAT) for name in sys.argv[1:3]]
def now(how): return how if how == fcntl.LOCK_UN else how | fcntl.LOCK_NB
def flock(fd, how): fcntl.flock(fd, now(how))
# Locks of `lockf` belong to the process: another one is asked what it can have.
def lockf(fd, how): fcntl.lockf(fd, now(how))
def can(name, kind):
    child = os.fork()
    if child == 0:
        try:
            kind(os.open(name, os.O_RDWR), fcntl.LOCK_EX)
        except BlockingIOError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0
def show(what): print(what, [can(name, kind) for name in sys.argv[1:3] for kind in (flock, lockf)])
flock(first, fcntl.LOCK_EX)
show('flock')
lockf(first, fcntl.LOCK_EX)
show('both')
flock(first, fcntl.LOCK_UN)
show('lockf')
flock(second, fcntl.LOCK_SH)
lockf(first, fcntl.LOCK_UN)
show('shared')
flock(first, fcntl.LOCK_SH)
lockf(first, fcntl.LOCK_SH)
show('shared by both')
os.close(first)
os.close(second)
";

/// A process that took both kinds of locks by one descriptor, as mail programs do, got in its own
/// way.
#[test]
fn both_kinds_of_locks_hold_and_do_not_meet() {
    if !has("python3") {
        return;
    }
    let Some(mut mounts) = Mounts::start(&SMALL) else { return };
    fs::write(mounts.folder.path().join("script"), LOCKS).unwrap();
    let on = |first: &str, second: &str| {
        shell(mounts.folder.path(), &format!("python3 script {first} {second}"))
    };
    let plain = on("plain", "plain");
    assert!(plain.starts_with("flock [False, True, False, True]"), "{plain}");
    assert_eq!(on("one/lock", "two/lock"), plain);
    assert_eq!(on("one/another", "one/another"), plain);
    mounts.end();
}

/// Locks of processes that a host cannot see, whose kind it does not know, keep off both kinds.
#[test]
fn locks_of_processes_elsewhere_keep_off_all_others() {
    let unshare = ["unshare", "-pf", "--kill-child"];
    let may = Command::new(unshare[0]).args(&unshare[1..]).arg("true").status();
    if !has("python3") || !may.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no PID namespace can be made");
        return;
    }
    let Some(mut mounts) = Mounts::start(&SMALL) else { return };
    mounts.hosts[0].signal("-TERM");
    mounts.hosts[0].end();
    mounts.hosts[0] = mounts.mount_within(&unshare, 0, &[]);
    let script = "
import fcntl
first, second = open('one/lock', 'w'), open('two/lock', 'w')
def try_all():
    for lock in fcntl.flock, fcntl.lockf:
        try:
            lock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock(second, fcntl.LOCK_UN)
            print('taken', end=' ')
        except BlockingIOError:
            print('kept off', end=' ')
for lock in fcntl.flock, fcntl.lockf:
    lock(first, fcntl.LOCK_EX)
    try_all()
    lock(first, fcntl.LOCK_UN)
    try_all()
";
    assert_eq!(python(&mounts, script).trim(), "kept off kept off taken taken ".repeat(2).trim());
    mounts.kill(0);
    mounts.remount(0, &[]);
    mounts.end();
}
