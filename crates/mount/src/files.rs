//! The files of a directory, as the page cache reads and writes them.
//!
//! A file can be got at as long as somebody on this host uses it: has it open, or is changing its size.
//! Whoever is the last to use it writes its pages back first, so a page that is dirty has a host that
//! can write it.

use std::collections::HashMap;
use std::fs::{File, FileTimes};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use tombolo_pagecache::{Attributes, Backing, FileId};

use crate::nodes;

struct Used {
    file: Arc<File>,
    users: usize,
}

/// The files that this host uses.
#[derive(Default)]
pub struct Files(RwLock<HashMap<FileId, Used>>);

impl Files {
    /// Has a file at hand from now on, under the name that all hosts know it by.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn share(&self, path: &Path) -> io::Result<FileId> {
        let file = File::options().read(true).write(true).open(path)?;
        let id = nodes::id(&nodes::look(&file)?);
        self.enter(id, || Ok(file))?;
        Ok(id)
    }

    /// One more uses a file, which `open` opens if nobody else does.
    pub(crate) fn enter(
        &self,
        id: FileId,
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<()> {
        let mut files = self.0.write();
        if let Some(used) = files.get_mut(&id) {
            used.users += 1;
            return Ok(());
        }
        files.insert(id, Used { file: Arc::new(open()?), users: 1 });
        Ok(())
    }

    /// One uses it no more.
    pub(crate) fn leave(&self, id: FileId) {
        let mut files = self.0.write();
        if let Some(used) = files.get_mut(&id) {
            used.users -= 1;
            if used.users == 0 {
                files.remove(&id);
            }
        }
    }

    /// Whether the caller is the only one who uses it.
    pub(crate) fn is_last(&self, id: FileId) -> bool {
        self.0.read().get(&id).is_some_and(|used| used.users == 1)
    }

    pub(crate) fn file(&self, id: FileId) -> io::Result<Arc<File>> {
        let files = self.0.read();
        let used = files.get(&id).ok_or_else(|| io::Error::from(rustix::io::Errno::STALE))?;
        Ok(Arc::clone(&used.file))
    }
}

impl Backing for Files {
    fn knows(&self, file: FileId) -> bool {
        self.0.read().contains_key(&file)
    }

    fn attributes(&self, file: FileId) -> io::Result<Attributes> {
        let found = self.file(file)?.metadata()?;
        let modified =
            found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
        Ok(Attributes { size: found.len(), modified })
    }

    fn read(&self, file: FileId, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let file = self.file(file)?;
        let mut done = 0;
        while done < into.len() {
            match file.read_at(&mut into[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file(file)?.write_all_at(bytes, offset)
    }

    fn resize(&self, file: FileId, size: u64) -> io::Result<()> {
        self.file(file)?.set_len(size)
    }

    fn set_modified(&self, file: FileId, modified: i64) -> io::Result<()> {
        self.file(file)?.set_times(FileTimes::new().set_modified(time(modified)))
    }

    fn sync(&self, file: FileId, data_only: bool) -> io::Result<()> {
        let file = self.file(file)?;
        if data_only { file.sync_data() } else { file.sync_all() }
    }
}

/// A time in nanoseconds since the Unix epoch.
pub(crate) fn time(ns: i64) -> SystemTime {
    let distance = Duration::from_nanos(ns.unsigned_abs());
    if ns < 0 { SystemTime::UNIX_EPOCH - distance } else { SystemTime::UNIX_EPOCH + distance }
}

/// Nanoseconds since the Unix epoch.
pub(crate) fn nanoseconds(time: SystemTime) -> i64 {
    let ns = |distance: Duration| i64::try_from(distance.as_nanos()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => ns(since),
        Err(before) => -ns(before.duration()),
    }
}
