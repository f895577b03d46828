//! `fork()`: a child has nothing of its parent's memory in the pod, and says so.
//!
//! A child that went on with its parent's mapping would be a second process that takes itself for
//! the same host: both would use one segment of the log and one set of locks. So in the child,
//! before `fork()` returns there, every mapping is replaced. LNR is zeros from then on. SCR is
//! [`BEYOND`] in every word: a thread that looks at the log or at a lock there finds that something
//! has changed, and takes its slow way, on which it asks
//! [`Memory::is_forked`](crate::Memory::is_forked). No fast way has an instruction for that. All of
//! it is private: the parent does not notice what the child stores.
//!
//! The child gives its copies of the file's descriptor up, too, so that its parent's lock
//! ([`life`](crate::life)) is the parent's alone. It may open and join the pod anew. Views that the
//! parent had are zeros in the child.
//!
//! **In the child** nothing but atomics, and system calls: other threads may have held any lock.
//! Processes made by a raw `clone` are not seen. `vfork` and `posix_spawn` need none of this, as
//! long as the child does nothing but start a program.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{IntoRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Once, OnceLock};

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

use crate::poison;

/// The largest positive number in both halves: no host stores such a word.
const BEYOND: u64 = 0x7fff_ffff_7fff_ffff;

/// As much of SCR is replaced at once.
const PIECE_BYTES: usize = 1 << 20;

/// How often this process, or one that it comes from, was forked since it came from its parent.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// A piece of memory full of [`BEYOND`]; -1 if there is none.
static PIECE: AtomicI32 = AtomicI32::new(-1);

/// Tells a process from its children: what it says in these is another number.
pub(crate) fn count() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// From here on children get to know that they are such.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let piece = piece().map_or(-1, IntoRawFd::into_raw_fd);
        PIECE.store(piece, Ordering::Relaxed);
        // SAFETY: the handler does only what it may in the child of a process with threads.
        unsafe { libc::pthread_atfork(None, None, Some(in_new_child)) };
    });
}

fn piece() -> io::Result<File> {
    let mut piece = File::from(rustix::fs::memfd_create("tombolo-fork", MemfdFlags::CLOEXEC)?);
    let words = [BEYOND.to_le_bytes(); 512];
    (0..PIECE_BYTES / size_of_val(&words))
        .try_for_each(|_| piece.write_all(words.as_flattened()))?;
    Ok(piece)
}

extern "C" fn in_new_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for mapping in poison::all() {
        mapping.leave_to_parent();
    }
}

/// Functions to run around each `fork()`.
#[derive(Clone, Copy, Debug)]
pub struct AroundForks {
    /// In the parent, before: whatever it locks, the other two release.
    pub before: fn(),
    /// In the parent, afterwards.
    pub in_parent: fn(),
    /// In the child, whose only thread is the one that forked.
    pub in_child: fn(),
}

static AROUND: OnceLock<AroundForks> = OnceLock::new();

impl AroundForks {
    /// Has these functions run around each `fork()` from here on. The first call counts, and others
    /// have no effect. A process that is made by a raw `clone` is not seen.
    pub fn install(self) {
        AROUND.get_or_init(|| {
            // SAFETY: the functions keep what `before` and the others promise.
            unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child_of_one)) };
            self
        });
    }
}

extern "C" fn before() {
    AROUND.get().inspect(|around| (around.before)());
}

extern "C" fn in_parent() {
    AROUND.get().inspect(|around| (around.in_parent)());
}

extern "C" fn in_child_of_one() {
    AROUND.get().inspect(|around| (around.in_child)());
}

/// Puts private pages in the place of `bytes` bytes at `address`: zeros, but for those from `scr.0`
/// to `scr.1`.
pub(crate) fn replace(address: usize, bytes: usize, scr: (usize, usize)) {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    let zeros = |address: usize, bytes: usize, access| {
        let place = with_exposed_provenance_mut(address);
        // SAFETY: pages of a mapping of ours, which the child's only thread does not use now.
        unsafe { rustix::mm::mmap_anonymous(place, bytes, access, flags) }.is_ok()
    };
    if !zeros(address, bytes, access) {
        let message = b"tombolo: cannot part a child of fork() from its parent's pod\n";
        // SAFETY: the bytes are this message's. The child may not go on with the parent's memory.
        unsafe {
            libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len());
            libc::_exit(libc::EXIT_FAILURE)
        }
    }
    let piece = PIECE.load(Ordering::Relaxed);
    for from in (scr.0..scr.1).step_by(PIECE_BYTES) {
        let length = (scr.1 - from).min(PIECE_BYTES);
        let place = with_exposed_provenance_mut::<u8>(from).cast();
        // SAFETY: as above. Without a piece the descriptor is none, and this fails.
        let mapped = unsafe {
            libc::mmap(
                place,
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_FIXED,
                piece,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            // Then a look at it ends the child, and not with zeros, which would mean something.
            zeros(from, scr.1 - from, ProtFlags::empty());
            return;
        }
    }
}

/// Has a descriptor stand for nothing, in place of what it stood for.
pub(crate) fn give_up(file: RawFd) {
    // SAFETY: calls of the system, on a descriptor whose owner will close it as it is.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if nothing >= 0 {
            libc::dup3(nothing, file, libc::O_CLOEXEC);
            libc::close(nothing);
        }
    }
}

/// Runs `body` in a child of `fork()`; whether it returned `true` there. It waits for the child.
/// This is for tests: in the child of a process with threads a lock may be held that nobody
/// releases.
///
/// # Errors
/// The system's error, if there can be no child.
#[doc(hidden)]
pub fn in_child(body: impl FnOnce() -> bool) -> io::Result<bool> {
    // SAFETY: the child runs `body`, and ends without going on here.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let fine = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
            // SAFETY: nothing of the parent's is run or dropped.
            unsafe { libc::_exit(i32::from(!fine)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the status lives as long as the call.
            match unsafe { libc::waitpid(child, &raw mut status, 0) } {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0),
            }
        }
    }
}
