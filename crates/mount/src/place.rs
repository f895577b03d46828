//! Where the file system is mounted: checking the place, freeing it, and letting go of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::MountError;

/// The name of mounts of this kind in the kernel's list.
pub(crate) const NAME: &str = "tombolo";

/// Lets go of a mount: nobody finds it any more. Open files there are served until they are closed.
///
/// # Errors
/// The kernel's error, where `fusermount3` does not help, either.
pub(crate) fn detach(place: &Path) -> io::Result<()> {
    match unmount(place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        // A user other than root has a helper for it.
        Err(Errno::PERM) => helped(place),
        detached => Ok(detached?),
    }
}

fn helped(place: &Path) -> io::Result<()> {
    let mut helper = Command::new("fusermount3");
    let helper = helper.args(["-u", "-z", "-q", "--"]).arg(place);
    let status = helper.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(Errno::PERM.into()) }
}

/// The empty directory that a place really is. A mount of this kind whose process has died is taken
/// away from there first.
pub(crate) fn check(place: &Path) -> Result<PathBuf, MountError> {
    let refuse = |why: &str| MountError::Mountpoint(place.to_owned(), why.to_owned());
    if is_dead(place) {
        detach(place).map_err(|error| {
            let command = format!("umount -l {}", place.display());
            refuse(&format!("the mount there is dead, and stays ({error}); try `{command}`"))
        })?;
    }
    let on = fs::canonicalize(place).map_err(|error| refuse(&error.to_string()))?;
    let mut entries = fs::read_dir(&on).map_err(|error| refuse(&error.to_string()))?;
    if entries.next().is_some() {
        return Err(refuse("it is not empty; give an empty directory"));
    }
    Ok(on)
}

/// Whether a file system of this kind is mounted there, and nobody serves it any more.
fn is_dead(place: &Path) -> bool {
    let gone = |error: io::Error| error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error());
    fs::metadata(place).err().is_some_and(gone) && is_ours(place)
}

fn is_ours(place: &Path) -> bool {
    // Directories above the dead mount can be looked at as ever.
    let (Some(folder), Some(name)) = (place.parent(), place.file_name()) else { return false };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(place) = fs::canonicalize(folder).map(|folder| folder.join(name)) else { return false };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let mut fields = line.split(' ');
        let (name, on) = (fields.next(), fields.next());
        name == Some(NAME) && on.is_some_and(|on| unescaped(on) == place.to_string_lossy())
    })
}

/// A path as the kernel lists it: blanks and the like are octal numbers.
fn unescaped(listed: &str) -> String {
    let known = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    known.iter().fold(listed.to_owned(), |path, (octal, plain)| path.replace(octal, plain))
}
