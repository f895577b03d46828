//! The process that a host runs in, and whether it still does.
//!
//! Only proof counts. A process is known to have ended if the kernel says so of its own number, in
//! its own PID namespace; or if its lock on the memory is free ([`life`](crate::life)), which holds
//! across namespaces. Evidence that cannot be read, or not be compared, proves nothing.
//!
//! Numbers come back, so a process has a mark that does not: the number of its pidfd's inode, or,
//! before Linux 6.9, when it began. `/proc` tells the latter by the clock of the reader's time
//! namespace, and perhaps not of other users' processes, and it may be the `/proc` of another PID
//! namespace. Marks of different kinds are not compared.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::linux::fs::MetadataExt;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::{LifeLock, fork};

/// The kernel's number for the file system of pidfds.
const PIDFS_MAGIC: u64 = 0x5049_4446;

/// A mark that is the number of an inode.
const BY_INODE: u64 = 1 << 63;

/// A process, among all of all machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its number on its machine.
    pub id: u64,
    /// Which machine, since when it runs, and which processes are numbered together there.
    pub machine: u64,
    /// Tells it from others that have its number before or after it: of the kind that its machine
    /// has. 0 if there is none.
    pub mark: u64,
    /// The lock that the kernel takes back when it has let go of the memory.
    pub lock: Option<LifeLock>,
}

impl Process {
    /// This one.
    pub fn own() -> Self {
        thread_local! {
            // By how often it was forked, and without a lock: another thread might have had it when
            // it was.
            static OWN: Cell<Option<(u64, Process)>> = const { Cell::new(None) };
        }
        let forks = fork::count();
        if let Some((_, own)) = OWN.get().filter(|&(known, _)| known == forks) {
            return own;
        }
        let own = {
            let id = u64::from(std::process::id());
            let mark = Pid::from_raw(id as i32)
                .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
                .and_then(|process| inode(&process))
                // Not by number: `/proc` may be that of another PID namespace.
                .or_else(|| began("self"));
            Self { id, machine: machine(), mark: mark.unwrap_or(0), lock: None }
        };
        OWN.set(Some((forks, own)));
        own
    }

    /// Whether it is known to have ended, by its number. Of processes of other machines, or of
    /// other PID namespaces, nothing is.
    pub fn has_ended(self) -> bool {
        let own = Self::own();
        let is_own = (self.id, self.mark) == (own.id, own.mark);
        self.is_of_here() && !is_own && self.ended_here()
    }

    /// Whether it is one of this machine and this PID namespace.
    pub(crate) fn is_of_here(self) -> bool {
        self.machine == Self::own().machine && self.machine != 0
    }

    /// Whether one of its threads is known to have a processor, or to wait for one, or for a disk.
    /// If none does, it is stopped or frozen, or all of it waits for something else. Of other
    /// machines' processes, and of those that `/proc` does not show, nothing is known.
    pub fn is_running(self) -> bool {
        self.is_of_here()
            && !self.has_ended()
            && proc_is_own()
            && threads(self.id).any(|thread| is_busy(&thread))
    }

    fn ended_here(self) -> bool {
        // A descriptor stands for the process itself, whichever process gets its number afterwards.
        static WATCHED: Mutex<Option<HashMap<Process, OwnedFd>>> = Mutex::new(None);
        let mut watched = WATCHED.lock();
        let process = match watched.get_or_insert_default().entry(self) {
            Entry::Occupied(process) => process,
            Entry::Vacant(vacant) => match self.watch() {
                Ok(Some(process)) => vacant.insert_entry(process),
                Ok(None) => return true,
                Err(_) => return false,
            },
        };
        let ended = is_readable(process.get());
        if ended {
            process.remove();
        }
        ended
    }

    /// A descriptor of the process with this number, whose end proves that of this one; `None` if
    /// this one has ended.
    ///
    /// # Errors
    /// The kernel's error, if there is no telling.
    fn watch(self) -> Result<Option<OwnedFd>, Errno> {
        let id = i32::try_from(self.id).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?;
        match pidfd_open(id, PidfdFlags::empty()) {
            Ok(process) => {
                // Looked at after it was opened: what the number stands for now is what is watched.
                // If it is another process, it has the number since this one has ended.
                let mark = inode(&process).or_else(|| began_by_number(self.id));
                let is_other = mark.is_some_and(|mark| differ(mark, self.mark));
                Ok((!is_other).then_some(process))
            }
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether two marks are of one kind and of two processes.
fn differ(one: u64, other: u64) -> bool {
    /// The bits that say by which clock a beginning is told.
    const CLOCK: u64 = !(u32::MAX as u64);
    let by_inode = one & other & BY_INODE != 0;
    let by_one_clock = (one | other) & BY_INODE == 0 && one & CLOCK == other & CLOCK;
    one != 0 && other != 0 && (by_inode || by_one_clock) && one != other
}

/// The mark of a process by its pidfd; `None` where all of them have the same inode.
fn inode(process: &OwnedFd) -> Option<u64> {
    let system = rustix::fs::fstatfs(process).ok()?;
    let inode = rustix::fs::fstat(process).ok()?.st_ino;
    (system.f_type as u64 == PIDFS_MAGIC).then_some(inode | BY_INODE)
}

/// The mark of a process by its beginning, in ticks since the machine's, by the clock of this time
/// namespace.
fn began(process: &str) -> Option<u64> {
    let ticks: u64 = field(process, 19)?.parse().ok()?;
    let clock = fs::metadata("/proc/self/ns/time").map_or(0, |namespace| namespace.st_ino());
    Some((clock << u32::BITS | ticks & u64::from(u32::MAX)) & !BY_INODE)
}

/// The mark of the process with this number by its beginning, if `/proc` numbers processes as this
/// process does.
fn began_by_number(id: u64) -> Option<u64> {
    if proc_is_own() { began(&id.to_string()) } else { None }
}

/// Whether `/proc` numbers processes as this process does.
fn proc_is_own() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // One for each PID namespace from that of `/proc` on down to this process' own.
    numbers.is_some_and(|numbers| numbers.split_ascii_whitespace().count() == 1)
}

/// The threads of the process with this number, as `/proc` names them.
fn threads(id: u64) -> impl Iterator<Item = String> {
    let folder = fs::read_dir(format!("/proc/{id}/task")).ok();
    let names = folder.into_iter().flatten().flatten().map(|thread| thread.file_name());
    names.map(move |thread| format!("{id}/task/{}", thread.display()))
}

/// Whether a thread has a processor, or waits for one, or for a disk.
fn is_busy(thread: &str) -> bool {
    match field(thread, 0).as_deref() {
        Some("R") => true,
        // The first version's freezer has its threads look as if they waited for a disk.
        Some("D") => !fs::read_to_string(format!("/proc/{thread}/wchan"))
            .is_ok_and(|place| place == "__refrigerator"),
        _ => false,
    }
}

/// A process's descriptor is readable when it has ended.
fn is_readable(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// A field of what the kernel says of a process, counted from that of its state on.
fn field(process: &str, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The field before is the program's name in parentheses, and may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(number).map(str::to_owned)
}

/// The name that the kernel has given itself when it was started; `None` if it does not tell.
pub(crate) fn boot() -> Option<u64> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let hex: String = boot.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&hex, 16).ok()
}

/// A name for this machine since it was started, and for this PID namespace; 0 if that cannot be
/// told.
fn machine() -> u64 {
    let namespace = fs::metadata("/proc/self/ns/pid").map(|namespace| namespace.st_ino());
    boot().zip(namespace.ok()).map_or(0, |(boot, namespace)| boot ^ namespace)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::process::Signal;

    use super::*;

    fn mark_of(id: u32) -> u64 {
        let pid = Pid::from_raw(id as i32).unwrap();
        inode(&pidfd_open(pid, PidfdFlags::empty()).unwrap())
            .or_else(|| began_by_number(id.into()))
            .unwrap()
    }

    #[test]
    fn tells_processes_that_have_ended() {
        assert!(!Process::own().has_ended());
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (id, mark) = (u64::from(child.id()), mark_of(child.id()));
        let process = Process { id, mark, ..Process::own() };
        assert!(!process.has_ended());
        let of_another_machine = Process { machine: process.machine ^ 1, ..process };
        let earlier = Process { mark: process.mark - 1, ..process };
        assert!(earlier.has_ended(), "its number is another's now");
        child.kill().unwrap();
        while !process.has_ended() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(process.has_ended() && !of_another_machine.has_ended());
    }

    /// Waits for what has to be so soon.
    fn within_time(is_so: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < Duration::from_secs(30), "it does not become so");
            std::thread::yield_now();
        }
    }

    fn busy() -> (Child, Process) {
        let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let process =
            Process { id: child.id().into(), mark: mark_of(child.id()), ..Process::own() };
        within_time(|| process.is_running());
        assert!(!Process { machine: process.machine ^ 1, ..process }.is_running());
        (child, process)
    }

    #[test]
    fn a_stopped_process_does_not_run() {
        let (mut child, process) = busy();
        rustix::process::kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        within_time(|| !process.is_running());
        assert!(!process.has_ended(), "it is stopped");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A process that the freezer of its control group has stopped is in state `S` or `D`, like one
    /// that sleeps or waits for a disk, and was taken for busy.
    #[test]
    fn a_frozen_process_does_not_run() {
        let freezers = [
            ("/sys/fs/cgroup", "cgroup.freeze", "1", "0"),
            ("/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0"),
            ("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"),
        ];
        for (root, file, freeze, thaw) in freezers {
            let group = Path::new(root).join(format!("tombolo-test-{}", std::process::id()));
            let (mut child, process) = busy();
            let say = |file: &str, word: &str| {
                // Where no control groups are mounted, there is no such file.
                let mut file = fs::File::options().write(true).open(group.join(file))?;
                file.write_all(word.as_bytes())
            };
            let frozen = fs::create_dir(&group)
                .and_then(|()| say("cgroup.procs", &process.id.to_string()))
                .and_then(|()| say(file, freeze));
            match frozen {
                Err(_) => println!("skipped: there is no freezer at {root}"),
                Ok(()) => {
                    within_time(|| !process.is_running());
                    say(file, thaw).unwrap();
                    within_time(|| process.is_running());
                }
            }
            child.kill().unwrap();
            child.wait().unwrap();
            within_time(|| !group.exists() || fs::remove_dir(&group).is_ok());
        }
    }

    /// With `/proc` mounted with `hidepid=2`, or that of another PID namespace, a live process had
    /// a beginning that could not be read, or was another's, and was taken for dead.
    #[test]
    fn what_cannot_be_compared_is_no_proof() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process { id: u64::from(child.id()), ..Process::own() };
        for mark in [0, 77, 77 | 4_026_531_834 << u32::BITS & !BY_INODE] {
            // A kernel without marks by inode tells processes of one clock apart.
            let known = began_by_number(process.id).is_some_and(|other| differ(other, mark));
            let process = Process { mark, ..process };
            assert!(!process.has_ended() || known && mark_of(child.id()) & BY_INODE == 0);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Process { mark: 0, ..process }.has_ended());
        let nobodys = Process { id: u64::from(u32::MAX), ..process };
        assert!(!nobodys.has_ended(), "there are no such numbers");
    }

    #[test]
    fn marks_are_compared_within_their_kind() {
        assert!(differ(BY_INODE | 1, BY_INODE | 2) && !differ(BY_INODE | 1, BY_INODE | 1));
        assert!(differ(7 << 32 | 1, 7 << 32 | 2), "by one clock");
        assert!(!differ(7 << 32 | 1, 8 << 32 | 2), "by two clocks");
        assert!(!differ(BY_INODE | 1, 2) && !differ(0, 7) && !differ(7, 0));
    }
}
