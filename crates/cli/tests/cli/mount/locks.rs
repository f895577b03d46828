//! Locks of files, among hosts.

use std::fs::{self, File};

use rustix::fs::FlockOperation;

use super::{Mounts, has, shell, wait_until};

#[test]
fn locks_hold_among_hosts() {
    let Some(mounts) = Mounts::start(&["--size", "8MiB", "--scr", "1MiB"]) else { return };
    let first = File::create(mounts.places[0].join("lock")).unwrap();
    let second = File::open(mounts.places[1].join("lock")).unwrap();
    let lock = |file: &File, how| rustix::fs::flock(file, how);
    lock(&first, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert!(lock(&second, FlockOperation::NonBlockingLockExclusive).is_err());
    drop(first);
    lock(&second, FlockOperation::LockExclusive).unwrap();
}

/// Locks of open files were never given up, and each kept a descriptor; and a signal to a process
/// that waited for a lock gave `EIO`.
#[test]
fn locks_end_with_the_open_file_and_waiting_with_a_signal() {
    if !has("python3") {
        return;
    }
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    let script = "
import fcntl, os, signal, struct, time
F_OFD_SETLK = 37
def lock(fd): fcntl.fcntl(fd, F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0))
def patiently(fd):
    # A file is released a moment after it was closed.
    for _ in range(1000):
        try:
            return lock(fd)
        except BlockingIOError:
            time.sleep(0.01)
    print('never released')
for _ in range(50):
    for place in ['one', 'two']:
        fd = os.open(place + '/lock', os.O_RDWR | os.O_CREAT)
        patiently(fd)
        os.close(fd)
first, second = [os.open(place + '/lock', os.O_RDWR) for place in ['one', 'two']]
patiently(first)
try:
    lock(second)
    print('both have it')
except BlockingIOError:
    pass
def alarm(*_): raise InterruptedError
signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    fcntl.lockf(second, fcntl.LOCK_EX)
except InterruptedError:
    print('interrupted')
";
    let open = |mounts: &Mounts| {
        let folder = format!("/proc/{}/fd", mounts.hosts[0].id());
        fs::read_dir(folder).unwrap().count()
    };
    let before = open(&mounts);
    fs::write(mounts.folder.path().join("script"), script).unwrap();
    assert_eq!(shell(mounts.folder.path(), "python3 script"), "interrupted\n");
    wait_until("descriptors are closed", || open(&mounts) <= before + 2);
    mounts.end();
}
