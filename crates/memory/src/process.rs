//! The process that a host runs in, and whether it still does.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::linux::fs::MetadataExt;
use std::sync::OnceLock;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process, among all of all machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its number on its machine.
    pub id: u64,
    /// Which machine, since when it runs, and which processes are numbered together there.
    pub machine: u64,
    /// When the process began, by its machine's clock: numbers come back.
    pub started: u64,
}

impl Process {
    /// This one.
    pub fn own() -> Self {
        static OWN: OnceLock<Process> = OnceLock::new();
        *OWN.get_or_init(|| {
            let id = u64::from(std::process::id());
            Self { id, machine: machine(), started: started(id).unwrap_or(0) }
        })
    }

    /// Whether it is known to have ended. Of other machines' processes nothing is.
    pub fn has_ended(self) -> bool {
        let own = Self::own();
        self != own && self.machine == own.machine && self.machine != 0 && self.ended_here()
    }

    /// Whether it is known to be neither ended nor stopped: then it merely waits for its turn. Of other
    /// machines' processes nothing is.
    pub fn is_running(self) -> bool {
        let stopped = |state: &str| matches!(state, "T" | "t" | "X" | "Z");
        let own = Self::own();
        let here = self.machine == own.machine && self.machine != 0 && !self.has_ended();
        here && field(self.id, 0).is_some_and(|state| !stopped(&state))
    }

    fn ended_here(self) -> bool {
        // A descriptor stands for the process itself, whoever gets its number afterwards.
        static WATCHED: Mutex<Option<HashMap<Process, OwnedFd>>> = Mutex::new(None);
        let mut watched = WATCHED.lock();
        let process = match watched.get_or_insert_default().entry(self) {
            Entry::Occupied(process) => process,
            Entry::Vacant(vacant) => match self.watch() {
                Ok(Some(process)) => vacant.insert_entry(process),
                Ok(None) => return true,
                Err(_) => return started(self.id) != Some(self.started),
            },
        };
        let ended = is_readable(process.get());
        if ended {
            process.remove();
        }
        ended
    }

    /// A descriptor of the process; `None` if it has ended.
    fn watch(self) -> Result<Option<OwnedFd>, Errno> {
        let id = i32::try_from(self.id).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH);
        match id.and_then(|id| pidfd_open(id, PidfdFlags::empty())) {
            // Looked at after it was opened: what the number stands for now is what is watched.
            Ok(process) => Ok((started(self.id) == Some(self.started)).then_some(process)),
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A process's descriptor is readable when it has ended.
fn is_readable(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// When the process with this number began, in ticks since the machine did.
fn started(id: u64) -> Option<u64> {
    field(id, 19)?.parse().ok()
}

/// A field of what the kernel says of a process, counted from that of its state on.
fn field(id: u64, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The field before is the program's name in parentheses, and may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(number).map(str::to_owned)
}

/// A name for this machine since it was started; 0 if that cannot be told.
fn machine() -> u64 {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let hex: String = boot.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    let numbered = fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.st_ino());
    u64::from_str_radix(&hex, 16).map_or(0, |boot| boot ^ numbered)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::process::Signal;

    use super::*;

    #[test]
    fn tells_processes_that_have_ended() {
        assert!(!Process::own().has_ended());
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let id = u64::from(child.id());
        let process = Process { id, started: started(id).unwrap(), ..Process::own() };
        assert!(!process.has_ended());
        let of_another_machine = Process { machine: process.machine ^ 1, ..process };
        let earlier = Process { started: process.started - 1, ..process };
        assert!(earlier.has_ended(), "its number is another's now");
        assert!(process.is_running() && !of_another_machine.is_running());
        rustix::process::kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        while process.is_running() {
            std::thread::yield_now();
        }
        assert!(!process.has_ended(), "it is stopped");
        child.kill().unwrap();
        while !process.has_ended() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(process.has_ended() && !of_another_machine.has_ended());
    }
}
