//! The files of a directory, as the page cache reads and writes them.
//!
//! A file can be got at as long as somebody on this host uses it: has it open, or is changing its
//! size. Its last user writes its pages back first, so a page that is dirty has a host that can
//! write it. If that fails, the file stays at hand without a user, and is tried again.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;
use tombolo_memory::FileHandle;
use tombolo_pagecache::{Attributes, Backing, Below, Fate, FileId, Handle, NO_HANDLE};

use crate::nodes::{self, Access};

struct Used {
    file: Arc<File>,
    access: Access,
    /// None, if what was written to it could not be brought there so far.
    users: usize,
    /// How often somebody began to use it.
    uses: u64,
    /// How often that had been when its last user began to write its pages back.
    written_back: Option<u64>,
}

/// The files that this host uses.
#[derive(Default)]
pub struct Files {
    /// Where to look for others.
    root: Option<PathBuf>,
    /// The descriptor that says which file system handles are of.
    beside: Option<File>,
    used: RwLock<HashMap<FileId, Used>>,
}

impl Files {
    /// Files in this directory, and below it on the same file system.
    pub fn below(root: &Path) -> Self {
        Self { root: Some(root.to_owned()), beside: File::open(root).ok(), ..Self::default() }
    }

    /// Has a file at hand from now on, under the name that all hosts know it by.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn share(&self, path: &Path) -> io::Result<FileId> {
        let file = nodes::open_path(path)?;
        let id = nodes::id(&nodes::look(&file)?);
        self.enter(id, Access::Write, |access| nodes::open(&file, access))?;
        Ok(id)
    }

    /// One more uses a file, which `open` opens as needed. Also a file that is wanted for reading
    /// is opened for writing, if that can be done: other hosts' pages may have to be written to it.
    ///
    /// # Errors
    /// Those of `open`, if the file cannot be opened as it is wanted.
    pub(crate) fn enter(
        &self,
        id: FileId,
        wanted: Access,
        open: impl Fn(Access) -> io::Result<File>,
    ) -> io::Result<()> {
        let mut files = self.used.write();
        if let Some(used) = files.get_mut(&id) {
            if wanted == Access::Write && used.access == Access::Read {
                (used.file, used.access) = (Arc::new(open(wanted)?), wanted);
            }
            used.users += 1;
            used.uses += 1;
            return Ok(());
        }
        let (file, access) = match (open(Access::Write), wanted) {
            (Err(_), Access::Read) => (open(Access::Read)?, Access::Read),
            (file, _) => (file?, Access::Write),
        };
        let file = Arc::new(file);
        files.insert(id, Used { file, access, users: 1, uses: 1, written_back: None });
        Ok(())
    }

    /// Where a file is that is at hand, as far as that can be told.
    pub(crate) fn place_of(&self, id: FileId) -> Option<PathBuf> {
        let file = self.file(id).ok()?;
        fs::read_link(nodes::path_of(&*file)).ok()
    }

    /// Whether it is at hand.
    pub(crate) fn is_used(&self, id: FileId) -> bool {
        self.used.read().contains_key(&id)
    }

    pub(crate) fn file(&self, id: FileId) -> io::Result<Arc<File>> {
        let files = self.used.read();
        let used = files.get(&id).ok_or_else(|| io::Error::from(rustix::io::Errno::STALE))?;
        Ok(Arc::clone(&used.file))
    }

    /// Visits the names of files that have one of these inode numbers, as far as they may be looked
    /// at.
    fn walk(
        root: &Path,
        inodes: &BTreeSet<u64>,
        found: &mut dyn FnMut(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let device = fs::symlink_metadata(root)?.dev();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            // It may have gone since, or be somebody else's.
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let entry = entry?;
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && entry.metadata().is_ok_and(|found| found.dev() == device) {
                    folders.push(entry.path());
                } else if inodes.contains(&entry.ino()) {
                    found(&entry.path())?;
                }
            }
        }
        Ok(())
    }
}

impl Backing for Files {
    fn knows(&self, file: FileId) -> bool {
        self.used.read().get(&file).is_some_and(|used| used.access == Access::Write)
    }

    fn find(&self, files: &BTreeSet<FileId>) -> io::Result<BTreeSet<FileId>> {
        let mut found = BTreeSet::new();
        let (Some(root), false) = (&self.root, files.is_empty()) else { return Ok(found) };
        let inodes = files.iter().map(|file| file.inode).collect();
        Self::walk(root, &inodes, &mut |path| {
            let Ok(file) = nodes::open_path(path) else { return Ok(()) };
            let id = nodes::id(&nodes::look(&file)?);
            if files.contains(&id) && found.insert(id) {
                self.enter(id, Access::Write, |access| nodes::open(&file, access))?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn below(&self) -> Option<Below> {
        let root = self.root.as_ref()?;
        let found = nodes::look(&nodes::open_path(root).ok()?).ok()?;
        Some(Below { id: nodes::id(&found), path: root.display().to_string() })
    }

    fn handle(&self, file: FileId) -> io::Result<Handle> {
        let handle = FileHandle::of(&*self.file(file)?)?;
        Ok(handle.map_or(NO_HANDLE, |handle| handle.encode()))
    }

    fn fate(&self, handle: &Handle) -> Fate {
        let (Some(handle), Some(beside)) = (FileHandle::decode(handle), &self.beside) else {
            return Fate::Unknown;
        };
        match handle.open(beside, OFlags::PATH) {
            Ok(Some(_)) => Fate::There,
            Ok(None) => Fate::Gone,
            Err(_) => Fate::Unknown,
        }
    }

    fn has_name(&self, file: FileId) -> io::Result<bool> {
        Ok(self.file(file)?.metadata()?.nlink() > 0)
    }

    fn put_off(&self, file: FileId) {
        let has_name = self.has_name(file).unwrap_or(true);
        let mut files = self.used.write();
        let Some(used) = files.get_mut(&file) else { return };
        used.users = used.users.saturating_sub(1);
        // As long as this host had it open, the file below would not be gone.
        if used.users == 0 && !has_name {
            files.remove(&file);
        }
    }

    fn take_put_off(&self) -> Vec<FileId> {
        let mut files = self.used.write();
        let put_off = files.iter_mut().filter(|(_, used)| used.users == 0);
        put_off
            .map(|(file, used)| {
                used.users = 1;
                used.uses += 1;
                *file
            })
            .collect()
    }

    fn reserve(&self, file: FileId, offset: u64, bytes: u64) -> io::Result<()> {
        let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&*self.file(file)?, flags, offset, bytes) {
            // Then room is what writing it back takes.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            reserved => Ok(reserved?),
        }
    }

    fn admits(&self, file: FileId, size: u64) -> io::Result<()> {
        // Nobody uses this position. It may be up to the largest size there is.
        match rustix::fs::seek(&*self.file(file)?, SeekFrom::Start(size)) {
            Err(Errno::INVAL | Errno::OVERFLOW) => Err(Errno::FBIG.into()),
            found => Ok(found.map(drop)?),
        }
    }

    fn put_back(&self, file: FileId) -> bool {
        let mut files = self.used.write();
        let Some(used) = files.get_mut(&file) else { return true };
        if used.users > 1 {
            used.users -= 1;
            return true;
        }
        let through = used.written_back.replace(used.uses) == Some(used.uses);
        if through {
            files.remove(&file);
        }
        through
    }

    fn attributes(&self, file: FileId) -> io::Result<Attributes> {
        let found = self.file(file)?.metadata()?;
        let modified = nanoseconds(found.mtime(), found.mtime_nsec());
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
        if modified == FAR {
            return Ok(());
        }
        self.file(file)?.set_times(FileTimes::new().set_modified(time(modified)))
    }

    fn sync(&self, file: FileId, data_only: bool) -> io::Result<()> {
        let file = self.file(file)?;
        if data_only { file.sync_data() } else { file.sync_all() }
    }
}

/// The time that a file has if it cannot be told in nanoseconds since the Unix epoch: it is what
/// the file below says.
pub(crate) const FAR: i64 = i64::MAX;

/// A time in nanoseconds since the Unix epoch.
pub(crate) fn time(ns: i64) -> SystemTime {
    moment(ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000))
}

/// A time in seconds since the Unix epoch, or before it, and nanoseconds after that.
pub(crate) fn moment(seconds: i64, ns: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    };
    second.unwrap_or(SystemTime::UNIX_EPOCH) + Duration::from_nanos(ns.unsigned_abs())
}

/// Nanoseconds since the Unix epoch, or [`FAR`].
pub(crate) fn nanoseconds(seconds: i64, ns: i64) -> i64 {
    let whole = seconds.checked_mul(1_000_000_000);
    whole.and_then(|whole| whole.checked_add(ns)).unwrap_or(FAR)
}
