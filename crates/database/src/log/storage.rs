//! Where a log's files lie.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files that are only appended to, in one directory. Names have no separators.
pub trait Storage {
    /// Makes an empty file.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if there is one of that name; any other error of the
    /// storage.
    fn create(&self, file: &str) -> io::Result<()>;

    /// Appends to a file that was made with `create`. After an error any part of the bytes may be
    /// there.
    ///
    /// # Errors
    /// As the storage has them.
    fn append(&self, file: &str, bytes: &[u8]) -> io::Result<()>;

    /// Returns when the file, all that was appended, and its name survive a loss of power.
    ///
    /// # Errors
    /// As the storage has them. What was appended since the last success may be lost then.
    fn sync(&self, file: &str) -> io::Result<()>;

    /// The names of all files, in order.
    ///
    /// # Errors
    /// As the storage has them.
    fn list(&self) -> io::Result<Vec<String>>;

    /// All that a file holds.
    ///
    /// # Errors
    /// As the storage has them.
    fn read(&self, file: &str) -> io::Result<Vec<u8>>;

    /// Removes a file.
    ///
    /// # Errors
    /// As the storage has them.
    fn remove(&self, file: &str) -> io::Result<()>;
}

impl<S: Storage + ?Sized> Storage for Arc<S> {
    fn create(&self, file: &str) -> io::Result<()> {
        (**self).create(file)
    }

    fn append(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        (**self).append(file, bytes)
    }

    fn sync(&self, file: &str) -> io::Result<()> {
        (**self).sync(file)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        (**self).list()
    }

    fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        (**self).read(file)
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        (**self).remove(file)
    }
}

/// How a process claims the directory of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// As a host of the database, beside other hosts.
    Running,
    /// As a program that needs the database at rest.
    AtRest,
}

/// Files that a directory keeps open; it opens others again when they are appended to.
const OPEN_FILES: usize = 32;

/// A directory of a file system.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Keeps others away until it is unlocked.
    claim: Option<File>,
    /// Files that were made here, and whether their names are durable.
    open: Mutex<HashMap<String, (Arc<File>, bool)>>,
}

impl Directory {
    /// The directory at `path`, which is made if it is not there.
    ///
    /// # Errors
    /// As the file system has them.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        fs::create_dir_all(&path)?;
        Ok(Self { path, claim: None, open: Mutex::default() })
    }

    /// The same, claimed as `claim` says, until it is dropped. Does not block.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another process has a claim that goes against this one; as
    /// of [`open`](Self::open).
    pub fn claim(path: impl Into<PathBuf>, claim: Claim) -> io::Result<Self> {
        let mut directory = Self::open(path)?;
        let file = File::open(&directory.path)?;
        match claim {
            Claim::Running => file.try_lock_shared()?,
            Claim::AtRest => file.try_lock()?,
        }
        directory.claim = Some(file);
        Ok(directory)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn files(&self) -> MutexGuard<'_, HashMap<String, (Arc<File>, bool)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, file: &str) -> io::Result<(Arc<File>, bool)> {
        if let Some((file, named)) = self.files().get(file) {
            return Ok((Arc::clone(file), *named));
        }
        let opened = Arc::new(OpenOptions::new().append(true).open(self.path.join(file))?);
        self.keep(file, &opened);
        Ok((opened, false))
    }

    /// Keeps a file open whose name is not known to be durable.
    fn keep(&self, name: &str, file: &Arc<File>) {
        let mut files = self.files();
        if files.len() >= OPEN_FILES {
            files.clear();
        }
        files.insert(name.to_owned(), (Arc::clone(file), false));
    }
}

impl Drop for Directory {
    /// A process that is just being started has the file open, too: closing it would not suffice.
    fn drop(&mut self) {
        if let Some(claim) = &self.claim {
            let _ = claim.unlock();
        }
    }
}

impl Storage for Directory {
    fn create(&self, file: &str) -> io::Result<()> {
        let made = OpenOptions::new().append(true).create_new(true).open(self.path.join(file))?;
        self.keep(file, &Arc::new(made));
        Ok(())
    }

    fn append(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        let (file, _) = self.file(file)?;
        (&*file).write_all(bytes)
    }

    fn sync(&self, file: &str) -> io::Result<()> {
        let (opened, named) = self.file(file)?;
        opened.sync_data()?;
        if !named {
            File::open(&self.path)?.sync_all()?;
            self.files().insert(file.to_owned(), (opened, true));
        }
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.path)?
            .map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
        let mut names: Vec<String> =
            names.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        names.sort_unstable();
        Ok(names)
    }

    fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path.join(file))
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        self.files().remove(file);
        fs::remove_file(self.path.join(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that had been forked, and was not the new program yet, used to hold the claim.
    #[test]
    fn a_claim_ends_with_its_directory_though_a_child_has_its_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let claimed = Directory::claim(folder.path(), Claim::AtRest).unwrap();
        let refused = Directory::claim(folder.path(), Claim::Running).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        let _inherited = claimed.claim.as_ref().unwrap().try_clone().unwrap();
        drop(claimed);
        Directory::claim(folder.path(), Claim::Running).unwrap();
    }
}
