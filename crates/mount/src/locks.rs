//! Locks on files and ranges of them, for all hosts: each owner of locks, as the kernel tells them
//! apart, gets a descriptor of the file below and holds its locks there.
//!
//! Locks of `flock` are taken by `flock` below, and those of `fcntl` as `F_OFD_SETLK`. The two
//! kinds know nothing of each other, as on any disk. `fuser` does not say which kind is asked for.
//! A lock of a part of a file is one of `fcntl`; for others [`Call::of`] looks which system call
//! the caller is in. Where that cannot be seen, the lock is taken both ways, and so keeps off all
//! that it should.
//!
//! The kernel keeps locks of directories to itself: those hold on one host. The kernel below knows
//! nothing of who waits for whom: no deadlock is reported.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fuser::{FileHandle, INodeNo, LockOwner};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use parking_lot::Mutex;
use rustix::fs::FlockOperation;

use crate::nodes::{Access, Node};

/// How long to wait between two attempts to get a lock.
const PAUSE: Duration = Duration::from_millis(2);

/// How long a process waits for a lock, at most, of which it cannot be seen whether a signal waits
/// for it.
const UNSEEN: Duration = Duration::from_secs(10);

/// A range of a file, and what is wanted with it.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) start: u64,
    /// The last byte.
    pub(crate) end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub(crate) kind: i32,
}

impl Range {
    fn is_whole(self) -> bool {
        self.start == 0 && self.end >= i64::MAX as u64
    }

    fn flock(self) -> libc::flock {
        let to_the_end = self.end >= i64::MAX as u64;
        libc::flock {
            l_type: self.kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: self.start as i64,
            l_len: if to_the_end { 0 } else { (self.end - self.start + 1) as i64 },
            l_pid: 0,
        }
    }
}

type Owner = (u64, u64);

/// The system call by which a lock is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Flock,
    Fcntl,
    /// One of them.
    Either,
}

/// How often to look for a caller to have come to rest, and how long to wait in between.
const LOOKS: u32 = 40;
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);

impl Call {
    /// The call that a thread is in which asks for a lock and waits for the answer. Thread 0 is one
    /// that cannot be seen from here.
    pub(crate) fn of(thread: u32, wanted: Range) -> Self {
        if !wanted.is_whole() {
            return Self::Fcntl;
        }
        if thread == 0 {
            return Self::Either;
        }
        for _ in 0..LOOKS {
            let Ok(found) = fs::read_to_string(format!("/proc/{thread}/syscall")) else { break };
            let number = found.split_ascii_whitespace().next().unwrap_or_default();
            // Numbers of 32-bit programs are others, and none of these two.
            match number.parse() {
                Ok(libc::SYS_flock) => return Self::Flock,
                Ok(libc::SYS_fcntl) => return Self::Fcntl,
                // It has sent its request, and does not sleep yet.
                Err(_) if number == "running" => thread::sleep(BETWEEN_LOOKS),
                _ => break,
            }
        }
        Self::Either
    }
}

/// A file below, by a descriptor for the locks of one owner.
struct Below {
    file: File,
    /// Whether `flock` holds it.
    is_flocked: AtomicBool,
}

impl Below {
    fn open(node: &Node) -> io::Result<Self> {
        let file = node.open(Access::Write).or_else(|_| node.open(Access::Read))?;
        Ok(Self { file, is_flocked: AtomicBool::new(false) })
    }

    /// Takes or gives up a lock; whether nobody is in the way.
    fn set(&self, call: Call, wanted: Range) -> io::Result<bool> {
        match call {
            Call::Flock => self.set_flock(wanted.kind),
            Call::Fcntl => self.set_range(wanted),
            Call::Either => self.set_both(wanted),
        }
    }

    fn set_flock(&self, kind: i32) -> io::Result<bool> {
        let how = match kind {
            libc::F_UNLCK => FlockOperation::Unlock,
            libc::F_RDLCK => FlockOperation::NonBlockingLockShared,
            _ => FlockOperation::NonBlockingLockExclusive,
        };
        match rustix::fs::flock(&self.file, how) {
            Ok(()) => {
                self.is_flocked.store(kind != libc::F_UNLCK, Ordering::Relaxed);
                Ok(true)
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                // The kernel gives a lock up before it looks whether another kind can be had.
                self.is_flocked.store(false, Ordering::Relaxed);
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn set_range(&self, wanted: Range) -> io::Result<bool> {
        match fcntl(&self.file, FcntlArg::F_OFD_SETLK(&wanted.flock())) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn set_both(&self, wanted: Range) -> io::Result<bool> {
        let was_flocked = self.is_flocked.load(Ordering::Relaxed);
        if !self.set_flock(wanted.kind)? {
            return Ok(false);
        }
        let taken = self.set_range(wanted);
        if !matches!(taken, Ok(true)) && !was_flocked {
            self.set_flock(libc::F_UNLCK)?;
        }
        taken
    }
}

/// The locks of an owner on a file.
struct Held {
    below: Arc<Below>,
    /// The open files by which it took them.
    by: BTreeSet<u64>,
}

#[derive(Default)]
pub(crate) struct Locks(Mutex<HashMap<Owner, Held>>);

/// The process that wants a lock, and its open file.
#[derive(Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) owner: LockOwner,
    pub(crate) handle: FileHandle,
    pub(crate) call: Call,
    /// Its process; 0 if that cannot be seen from here.
    pub(crate) process: u32,
}

impl Locks {
    /// The lock of somebody else that is in the way, if there is one.
    pub(crate) fn find(&self, node: &Node, owner: LockOwner, wanted: Range) -> io::Result<Range> {
        let below = match self.held(node, owner) {
            Some(below) => below,
            None => Arc::new(Below::open(node)?),
        };
        let mut flock = wanted.flock();
        fcntl(&below.file, FcntlArg::F_OFD_GETLK(&mut flock))?;
        let end = if flock.l_len == 0 { i64::MAX } else { flock.l_start + flock.l_len - 1 };
        Ok(Range { start: flock.l_start as u64, end: end as u64, kind: i32::from(flock.l_type) })
    }

    /// Takes or gives up a lock; whether nobody is in the way.
    pub(crate) fn set(&self, node: &Node, asker: Asker, wanted: Range) -> io::Result<bool> {
        let below = if wanted.kind == libc::F_UNLCK {
            let Some(below) = self.held(node, asker.owner) else { return Ok(true) };
            below
        } else {
            self.below(node, asker)?
        };
        below.set(asker.call, wanted)
    }

    /// Takes a lock, for which its asker waits; gives up when that is sent a signal, or when it is
    /// time to stop.
    ///
    /// # Errors
    /// `EINTR` if it gave up: also after a while, if it cannot be told whether there is a signal.
    pub(crate) fn wait(
        &self,
        node: &Node,
        asker: Asker,
        wanted: Range,
        stopping: impl Fn() -> bool,
    ) -> io::Result<()> {
        let started = Instant::now();
        while !self.set(node, asker, wanted)? {
            let interrupted = match asker.process {
                0 => started.elapsed() > UNSEEN,
                process => has_signal(process),
            };
            if stopping() || interrupted {
                return Err(Errno::EINTR.into());
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Gives up all locks of an owner on a file.
    pub(crate) fn release(&self, number: INodeNo, owner: LockOwner) {
        self.0.lock().remove(&(number.0, owner.0));
    }

    /// An open file is closed for good: locks that were taken by it alone are given up. Those of
    /// processes were before, and those of open files nobody else would give up.
    pub(crate) fn close(&self, number: INodeNo, handle: FileHandle) {
        self.0.lock().retain(|owner, held| {
            let was_by = owner.0 == number.0 && held.by.remove(&handle.0);
            !(was_by && held.by.is_empty())
        });
    }

    fn held(&self, node: &Node, owner: LockOwner) -> Option<Arc<Below>> {
        self.0.lock().get(&(node.number.0, owner.0)).map(|held| Arc::clone(&held.below))
    }

    fn below(&self, node: &Node, asker: Asker) -> io::Result<Arc<Below>> {
        let mut locks = self.0.lock();
        let held = match locks.entry((node.number.0, asker.owner.0)) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(Held { below: Arc::new(Below::open(node)?), by: BTreeSet::new() })
            }
        };
        held.by.insert(asker.handle.0);
        Ok(Arc::clone(&held.below))
    }
}

/// Whether a signal is waiting for a process, or the process is gone: the kernel does not say so.
fn has_signal(pid: u32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return true };
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    };
    (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") & !mask("SigIgn:") != 0
}
