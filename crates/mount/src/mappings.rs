//! Shared mappings for writing, which the kernel refuses (`ENODEV`) without asking this process.
//!
//! The log cannot tell of each one. It tells of files that programs make for such mappings alone.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says once what is refused to a program, and what helps.
#[derive(Default)]
pub(crate) struct Mappings {
    said: AtomicBool,
}

impl Mappings {
    /// A file of that name is made.
    pub(crate) fn made(&self, name: &OsStr) {
        let Some((program, remedy)) = maker(name.as_bytes()) else { return };
        if self.said.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            "{} is made by {program}, which maps it shared for writing: that is refused (ENODEV), here and \
             everywhere on this mount; {remedy}",
            name.display()
        );
    }
}

/// The program that makes a file of that name in order to map it, and what helps.
fn maker(name: &[u8]) -> Option<(&'static str, &'static str)> {
    if name.ends_with(b"-shm") {
        Some((
            "SQLite in WAL mode",
            "give PRAGMA locking_mode=EXCLUSIVE, and then PRAGMA journal_mode=DELETE",
        ))
    } else if name == b"lock.mdb" {
        Some(("LMDB", "keep this database elsewhere"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_made_for_mappings_are_known_by_their_names() {
        assert_eq!(maker(b"db-shm").map(|(program, _)| program), Some("SQLite in WAL mode"));
        assert_eq!(maker(b"lock.mdb").map(|(program, _)| program), Some("LMDB"));
        assert_eq!(maker(b"db-journal"), None);
    }
}
