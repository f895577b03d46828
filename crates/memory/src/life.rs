//! Locks by which the kernel tells that a holder of memory lives, whatever namespaces it is in.
//!
//! Each stay of a host in a pod has a number, and holds the lock of one byte of the memory's file
//! at an offset that is far behind the file's end and made of that number. It is an
//! open-file-description lock of the description that the memory is mapped through. So the kernel
//! takes it back at one moment only: when the last mapping and the last descriptor of that
//! description are gone. From then on nothing of that stay can store anything. A lock that is free
//! therefore proves a death, and one that is held proves nothing.
//!
//! Decisions:
//! * **Why not classic POSIX locks.** Closing *any* descriptor of the file drops all of a process'
//!   POSIX locks on it. A library that looks at the pod and closes it again would declare its own
//!   process dead.
//! * **`fork()`**: a child inherits the description, so the lock outlives its parent until the
//!   child ends, too, or gives its copy up. That errs on the safe side. Where both are in one PID
//!   namespace, the parent's pidfd proves its end.
//! * **A number per stay, not per seat.** A host that was fenced and lives holds the lock of its
//!   own stay, and the seat's next host another one.
//! * **Two descriptions.** A description does not see its own locks. One process may be two hosts
//!   through clones of one handle, so a second description asks.
//! * **Which file.** A lock belongs to an inode of one running kernel. A second device node, or
//!   another machine, has locks of its own, and there a free lock proves nothing. So a lock has a
//!   name, made of the kernel's boot, the file system and the inode. The boot identifier must
//!   differ between machines that share memory.
//! * **Shared locks.** Network file systems make a lock of the whole file of `flock`, which users
//!   of the memory share.
//! * **Where locks do not work**, a host has none, and a pidfd is what remains. That shows when the
//!   lock is taken: the second description must see it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use crate::process::boot;

/// A lock that tells whether its holder lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LifeLock {
    /// Which file's locks it is one of.
    pub file: u64,
    /// Which of them.
    pub number: u32,
}

/// Locks are this far behind a file's start.
const BEYOND: i64 = 1 << 62;
/// Two pods in one file start at least so far apart.
const PAGE_BITS: u32 = 12;
/// As many places of pods in a file are told apart.
const PLACES: u64 = 1 << 30;

/// The locks of one file.
#[derive(Debug)]
pub(crate) struct LifeLocks {
    /// Memory is mapped through this one.
    held: Arc<File>,
    /// Asks whether locks are held.
    asking: File,
    name: u64,
    first: i64,
}

impl LifeLocks {
    /// The locks of the file at `path`, which is `held`, for the pod at byte `offset`; `None` if it
    /// has none that can be named.
    pub(crate) fn new(held: Arc<File>, path: &Path, offset: u64) -> Option<Self> {
        let boot = boot().filter(|&boot| boot != 0)?;
        let found = held.metadata().ok()?;
        let same = |file: &File| {
            file.metadata().is_ok_and(|m| (m.dev(), m.ino()) == (found.dev(), found.ino()))
        };
        // By its descriptor it is found even if it was renamed since.
        let own = format!("/proc/self/fd/{}", held.as_raw_fd());
        let mut opened = [Path::new(&own), path].into_iter().map(File::open);
        let asking = opened.find_map(|file| file.ok().filter(same))?;
        let mix = |hash: u64, word: u64| {
            (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        let name = [boot, found.dev(), found.ino()].into_iter().fold(1, mix).max(1);
        let place = (offset >> PAGE_BITS) % PLACES;
        Some(Self { held, asking, name, first: BEYOND + ((place as i64) << u32::BITS) })
    }

    /// Holds the lock `number` for as long as memory is mapped; `None` if that cannot be had.
    pub(crate) fn hold(&self, number: u32) -> Option<LifeLock> {
        self.at(self.held.as_raw_fd(), libc::F_OFD_SETLK, libc::F_RDLCK, number).ok()?;
        let lock = LifeLock { file: self.name, number };
        (self.is_free(lock) == Some(false)).then_some(lock)
    }

    /// Whether nobody holds a lock; `None` if that is not known.
    pub(crate) fn is_free(&self, lock: LifeLock) -> Option<bool> {
        if lock.file != self.name {
            return None;
        }
        let asking = self.asking.as_raw_fd();
        let found = self.at(asking, libc::F_OFD_GETLK, libc::F_WRLCK, lock.number).ok()?;
        Some(i32::from(found.l_type) == libc::F_UNLCK)
    }

    fn at(
        &self,
        file: RawFd,
        command: libc::c_int,
        kind: libc::c_int,
        number: u32,
    ) -> io::Result<libc::flock> {
        let mut lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: self.first + i64::from(number),
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: these commands take a pointer to a whole `flock`, which lives as long as the
        // call.
        match unsafe { libc::fcntl(file, command, &raw mut lock) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(lock),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks(path: &Path, offset: u64) -> LifeLocks {
        let file = File::options().read(true).write(true).open(path).unwrap();
        LifeLocks::new(Arc::new(file), path, offset).unwrap()
    }

    #[test]
    fn a_lock_is_free_when_its_holder_has_let_go_of_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (first, second) = (locks(file.path(), 0), locks(file.path(), 0));
        let lock = first.hold(7).unwrap();
        // Its own process sees it as others do.
        assert_eq!((first.is_free(lock), second.is_free(lock)), (Some(false), Some(false)));
        assert_eq!(second.is_free(LifeLock { number: 8, ..lock }), Some(true));
        let copy = first.held.clone();
        drop(first);
        assert_eq!(second.is_free(lock), Some(false), "somebody still has the description");
        drop(copy);
        assert_eq!(second.is_free(lock), Some(true));
    }

    #[test]
    fn looking_at_the_file_and_closing_it_frees_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (first, second) = (locks(file.path(), 0), locks(file.path(), 0));
        let lock = first.hold(u32::MAX).unwrap();
        drop(File::options().read(true).write(true).open(file.path()).unwrap());
        assert_eq!(second.is_free(lock), Some(false));
    }

    #[test]
    fn pods_and_files_have_locks_of_their_own() {
        let [file, other] = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
        let (first, second) = (locks(file.path(), 0), locks(file.path(), 4096));
        let lock = first.hold(7).unwrap();
        assert_eq!(second.is_free(lock), Some(true));
        assert_eq!(second.hold(7), Some(lock));
        assert_eq!(locks(other.path(), 0).is_free(lock), None, "nothing is known of that");
    }
}
