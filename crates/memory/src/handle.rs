//! Handles of files: a handle finds a file again by what it is and not by its name, for as long as
//! the file has a name or is open anywhere on this machine.
//!
//! Left out: handles of more than [`MOST`] bytes, which no file system of local disks has.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::OFlags;

/// Bytes of what the file system says: ext4 needs 8, XFS and tmpfs 12, Btrfs 20.
const MOST: usize = 22;

/// A handle by which a file is found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHandle {
    kind: u8,
    length: u8,
    bytes: [u8; MOST],
}

/// The kernel's own: its length, its kind, and bytes that follow at once.
#[repr(C)]
struct Raw {
    head: libc::file_handle,
    bytes: [u8; MOST],
}

impl Raw {
    fn new(length: usize, kind: i32, bytes: [u8; MOST]) -> Self {
        let head =
            libc::file_handle { handle_bytes: length as u32, handle_type: kind, f_handle: [] };
        Self { head, bytes }
    }
}

impl FileHandle {
    /// Bytes of a handle that is encoded.
    pub const BYTES: usize = MOST + 2;

    /// The handle of an open file; `None` if its file system has none, or larger ones.
    ///
    /// # Errors
    /// Those of `name_to_handle_at`.
    pub fn of(file: impl AsFd) -> io::Result<Option<Self>> {
        let mut raw = Raw::new(MOST, 0, [0; MOST]);
        let mut mount = 0;
        let fd = file.as_fd().as_raw_fd();
        // SAFETY: the path ends with a zero, and the handle says how many bytes follow it.
        let done = unsafe {
            let handle = (&raw mut raw).cast();
            libc::name_to_handle_at(fd, c"".as_ptr(), handle, &mut mount, libc::AT_EMPTY_PATH)
        };
        if done != 0 {
            let error = io::Error::last_os_error();
            let none = [libc::EOPNOTSUPP, libc::EOVERFLOW, libc::ENOSYS, libc::EPERM];
            let has_none = error.raw_os_error().is_some_and(|number| none.contains(&number));
            return if has_none { Ok(None) } else { Err(error) };
        }
        let kind = u8::try_from(raw.head.handle_type).ok();
        let length = raw.head.handle_bytes as u8;
        Ok(kind.map(|kind| Self { kind, length, bytes: raw.bytes }))
    }

    /// Opens the file, which lies on the file system of `beside`. `None` if it is no more: it has
    /// no name, and nobody has it open.
    ///
    /// # Errors
    /// Those of `open_by_handle_at`: `EPERM` without the capability to look at every file.
    pub fn open(&self, beside: impl AsFd, flags: OFlags) -> io::Result<Option<OwnedFd>> {
        let mut raw = Raw::new(self.length.into(), self.kind.into(), self.bytes);
        let flags = flags.union(OFlags::CLOEXEC).bits().cast_signed();
        let beside = beside.as_fd().as_raw_fd();
        // SAFETY: the handle says how many bytes follow it.
        let fd = unsafe { libc::open_by_handle_at(beside, (&raw mut raw).cast(), flags) };
        if fd >= 0 {
            // SAFETY: the kernel has just given it to this thread.
            return Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ESTALE) { Ok(None) } else { Err(error) }
    }

    /// As bytes, which are never all zeros.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        (bytes[0], bytes[1]) = (self.length, self.kind);
        bytes[2..].copy_from_slice(&self.bytes);
        bytes
    }

    /// The handle that these bytes are of, if they are of one.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let [length, kind, rest @ ..] = *bytes;
        ((1..=MOST as u8).contains(&length)).then_some(Self { kind, length, bytes: rest })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_handle_finds_a_file_until_nobody_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let beside = File::open(folder.path()).unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let Some(handle) = FileHandle::of(&file).unwrap() else { return };
        let handle = FileHandle::decode(&handle.encode()).unwrap();
        let found = match handle.open(&beside, OFlags::RDWR) {
            // Not every machine that tests run on lets them do this.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
            found => found.unwrap().unwrap(),
        };
        std::fs::remove_file(&path).unwrap();
        drop(found);
        assert!(handle.open(&beside, OFlags::RDWR).unwrap().is_some(), "it is still open");
        drop(file);
        assert!(handle.open(&beside, OFlags::RDWR).unwrap().is_none(), "nobody has it");
        assert!(FileHandle::decode(&[0; FileHandle::BYTES]).is_none());
    }
}
