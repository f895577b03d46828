//! Threads with a table of file descriptors of their own.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::thread::{self, JoinHandle};

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The first descriptor behind the standard streams.
const FIRST: libc::c_uint = 3;

/// Starts a thread whose file descriptors are its own, and those of threads that it starts.
///
/// The rest of the process cannot close what it opens, and a child of `fork()` does not inherit it.
/// Signals of the program go to other threads. The thread has the standard streams, and no other
/// descriptor from before: `body` may use only those that it opens itself.
///
/// # Errors
/// The system's error, if it starts no thread.
pub fn spawn_apart(
    name: &str,
    body: impl FnOnce(io::Result<()>) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        let own = block_signals().and_then(|()| own_file_table());
        body(own);
    })
}

/// The program's handlers run on other threads: here they could wait for this one.
fn block_signals() -> io::Result<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is filled before it is used, and lives as long as the calls.
    let error = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), null_mut())
    };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

fn own_file_table() -> io::Result<()> {
    // SAFETY: only this thread's view changes, and it uses no descriptor from before, as is said.
    unsafe { unshare_unsafe(UnshareFlags::FILES) }?;
    // SAFETY: as above; descriptors of other threads are in another table.
    match unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn the_thread_has_no_descriptor_of_others_and_others_have_none_of_its() {
        let file = File::open("/dev/null").unwrap();
        let number = file.as_raw_fd();
        let (send, receive) = std::sync::mpsc::channel();
        let thread = spawn_apart("apart", move |done| {
            done.unwrap();
            // SAFETY: asks about a number, whatever it stands for.
            send.send(unsafe { libc::fcntl(number, libc::F_GETFD) }).unwrap();
        });
        thread.unwrap().join().unwrap();
        assert_eq!(receive.recv().unwrap(), -1);
        assert!(file.metadata().is_ok());
    }
}
