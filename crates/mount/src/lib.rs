//! Floor 5: a file system over the page cache, by FUSE: every host that mounts a backing directory
//! through the same pod sees one tree.
//!
//! * Names, directories, permissions, links and extended attributes are those of the backing
//!   directory, and pass through at once. Bytes, sizes and times of files are the page cache's.
//! * The kernel keeps nothing: no pages (direct I/O), no names, no attributes. So what a `write` on
//!   one host has done before it returned, a `read` that begins afterwards on any host sees; and
//!   likewise for names. That is more than close-to-open.
//! * `close` writes back and says what went wrong, without making anything durable; `fsync` does
//!   that.
//! * Locks (`fcntl` and `flock`) are taken on the backing files, and so hold among all hosts.
//! * A file can be mapped privately. Mapping it shared is refused by the kernel (`ENODEV`): what is
//!   written to a mapping would overwrite other hosts' bytes. A mount for reading allows it.
//! * `sendfile`, `splice` and private mappings read pages that the kernel keeps for them. It
//!   forgets them within some milliseconds after another host wrote to the file, and at `open` and
//!   `mmap`. `copy_file_range` sees what was written at once.
//! * Hosts may die. Files that only a dead host had open are found by their inode numbers, and what
//!   it wrote to them is written back, by another host, or by the next one that mounts them.
//!
//! Nobody may change the files below while they are mounted, nor, if all hosts have died, before
//! they are mounted again. The backing directory is on one file system that all hosts reach, and
//! that shows each host what others wrote: on one machine any one.
//!
//! Left out: mounts within the backing directory, `fallocate` that moves ranges, `O_TMPFILE` (which
//! `fuser` does not know), deadlock detection among locks. ACLs are refused (`EOPNOTSUPP`); those
//! that files have below are not looked at.

mod caller;
mod files;
mod filesystem;
mod kept;
mod locks;
mod mappings;
mod nodes;
mod options;
mod place;
mod shared;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tombolo_memory::Mapped;
use tombolo_objects::Objects;
use tombolo_pagecache::{Counts, Error, Options};
use tombolo_pod::Pod;

pub use files::Files;
use filesystem::Mount;
pub use options::MountOptions;
use shared::{Cache, Shared, told};

/// The type of a file system of layers.
const OVERLAYFS: u64 = 0x794c_7630;

/// How often the background work is done.
const TICK: Duration = Duration::from_millis(1);
const TIDY: Duration = Duration::from_millis(10);

/// Why a directory is not mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The backing directory is none, or cannot be read.
    #[error("{0} cannot be used as backing directory: {1}")]
    Backing(PathBuf, io::Error),
    /// There is no such mountpoint, or it is not an empty directory.
    #[error("{0} cannot be mounted on: {1}")]
    Mountpoint(PathBuf, String),
    /// The kernel has no FUSE, or this process may not use it.
    #[error(
        "/dev/fuse cannot be opened ({0}); load the kernel module `fuse`, and in a container pass the device on"
    )]
    NoFuse(io::Error),
    /// The kernel did not mount it.
    #[error(
        "mounting on {0} failed: {1}; it takes root, or `fusermount3` (Debian: apt-get install fuse3)"
    )]
    Refused(PathBuf, io::Error),
    /// The pod could not be joined, or pages could not be written back.
    #[error(transparent)]
    Cache(#[from] tombolo_pagecache::Error),
    /// The file system could not be unmounted.
    #[error("unmounting failed: {0}")]
    Unmount(io::Error),
}

/// A mounted file system. [`detach`](Self::detach) it, wait until it [is over](Self::is_over), and
/// [`leave`](Self::leave): what is dirty is written back then.
pub struct Mounted {
    mountpoint: PathBuf,
    cache: Arc<Cache>,
    shared: Arc<Shared>,
    session: BackgroundSession,
    background: Background,
}

/// The open files of a host, and the pages that wait to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Files that programs have open on this host: a file counts as often as it is open.
    pub open_files: u64,
    /// Pages of all hosts that are not in their files yet.
    pub dirty_pages: u64,
    /// How long one of them has waited for that, at most.
    pub dirty_for: Duration,
}

/// Threads that do the background work.
struct Background {
    stopping: Arc<AtomicBool>,
    /// The other hosts go on without this one.
    fenced: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    fn start(cache: &Arc<Cache>) -> Self {
        let (stopping, fenced) = Default::default();
        let mut background = Self { stopping, fenced, threads: vec![] };
        background.every(TICK, cache, Cache::tick);
        background.every(TIDY, cache, Cache::tidy);
        background
    }

    fn every(
        &mut self,
        time: Duration,
        cache: &Arc<Cache>,
        work: impl Fn(&Cache) -> Result<(), Error> + Send + 'static,
    ) {
        let (stopping, cache) = (Arc::clone(&self.stopping), Arc::clone(cache));
        let fenced = Arc::clone(&self.fenced);
        self.threads.push(thread::spawn(move || {
            let mut last = None;
            while !stopping.load(Ordering::Relaxed) {
                if let Err(error) = work(&cache) {
                    if matches!(&error, Error::Objects(error) if error.is_fenced()) {
                        return fenced.store(true, Ordering::Relaxed);
                    }
                    // The same error comes with each attempt: once in a while is enough.
                    let now = Instant::now();
                    if last.is_none_or(|last| now - last > Duration::from_secs(5)) {
                        tracing::error!("{}", told(&cache, &error));
                        last = Some(now);
                    }
                }
                thread::sleep(time);
            }
        }));
    }

    fn stop(self) {
        self.stopping.store(true, Ordering::Relaxed);
        for thread in self.threads {
            // If it panicked, that was reported when it did.
            let _ = thread.join();
        }
    }
}

impl Mounted {
    /// Joins a pod that was made for a page cache, and mounts `backing` on `mountpoint`, an empty
    /// directory, as `how` says. Requests are answered by so many threads.
    ///
    /// # Errors
    /// Errors of either: see [`MountError`].
    pub fn new(
        pod: Pod<Mapped>,
        backing: &Path,
        mountpoint: &Path,
        how: &MountOptions,
        threads: usize,
        options: Options,
    ) -> Result<Self, MountError> {
        let (backing, mountpoint) = check(backing, mountpoint)?;
        let cache = Arc::new(Cache::join(pod, Arc::new(Files::below(&backing)), options)?);
        let mut background = Background::start(&cache);
        let mounted = Self::mount(&cache, &mut background, &backing, &mountpoint, how, threads);
        match mounted {
            Ok((shared, session)) => Ok(Self { mountpoint, cache, shared, session, background }),
            Err(error) => {
                background.stop();
                cache.leave()?;
                Err(error)
            }
        }
    }

    fn mount(
        cache: &Arc<Cache>,
        background: &mut Background,
        backing: &Path,
        mountpoint: &Path,
        how: &MountOptions,
        threads: usize,
    ) -> Result<(Arc<Shared>, BackgroundSession), MountError> {
        // The kernel has applied the mask of the process that creates a file; this process has none
        // of its own.
        rustix::process::umask(rustix::fs::Mode::empty());
        raise_descriptors();
        let shared = Shared::new(Arc::clone(cache), backing, Arc::clone(&background.stopping))
            .map_err(|error| MountError::Backing(backing.to_owned(), error))?;
        let shared = Arc::new(shared);
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(place::NAME.to_owned()),
            MountOption::Subtype(place::NAME.to_owned()),
            MountOption::DefaultPermissions,
        ];
        config.mount_options.extend_from_slice(&how.kernel);
        if how.allows_others || rustix::process::geteuid().is_root() {
            config.acl = SessionACL::All;
        }
        config.n_threads = Some(threads);
        config.clone_fd = true;
        let mount = Mount { shared: Arc::clone(&shared), is_read_only: how.is_read_only };
        let session = fuser::spawn_mount(mount, mountpoint, &config)
            .map_err(|error| MountError::Refused(mountpoint.to_owned(), error))?;
        let (kernel, kept) = (session.notifier(), Arc::clone(&shared.kept));
        background.every(TICK, cache, move |cache| kept.look(cache, &kernel));
        Ok((shared, session))
    }

    /// Whether it is not mounted any more, and nothing is open there.
    pub fn is_over(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Whether the other hosts have shut this one out: whatever it is asked fails from then on.
    pub fn is_fenced(&self) -> bool {
        self.background.fenced.load(Ordering::Relaxed)
    }

    /// This host's counters.
    pub fn counts(&self) -> Counts {
        self.cache.counts()
    }

    /// The open files here, and the pages that wait to be written.
    pub fn load(&self) -> Load {
        Load {
            open_files: self.shared.open_files(),
            dirty_pages: self.cache.dirty_count(),
            dirty_for: self.cache.dirty_for(),
        }
    }

    /// The objects that hold pages and heads of files.
    pub fn objects(&self) -> &Objects<Mapped> {
        self.cache.objects()
    }

    /// Lets go of the mount point. Open files are served until they are closed.
    ///
    /// # Errors
    /// [`MountError::Unmount`].
    pub fn detach(&self) -> Result<(), MountError> {
        if self.is_over() {
            return Ok(());
        }
        place::detach(&self.mountpoint).map_err(MountError::Unmount)
    }

    /// Writes back what is dirty; says now and then how many pages are left.
    ///
    /// # Errors
    /// [`MountError::Cache`]: pages stay dirty, and other hosts, or the next one that mounts the
    /// directory, try again.
    pub fn write_back(&self, progress: &mut dyn FnMut(usize)) -> Result<(), MountError> {
        Ok(self.cache.write_back_all(progress)?)
    }

    /// Waits until it [is over](Self::is_over), writes back what is dirty and leaves the pod.
    ///
    /// # Errors
    /// [`MountError::Cache`] if pages cannot be written back: then this host is still in the pod.
    pub fn leave(self, progress: &mut dyn FnMut(usize)) -> Result<(), MountError> {
        let Self { cache, shared, session, background, .. } = self;
        while !session.guard.is_finished() {
            thread::sleep(TICK);
        }
        forget(session);
        shared.close_all();
        drop(shared);
        cache.write_back_all(progress)?;
        background.stop();
        Ok(cache.leave()?)
    }

    /// Ends at once, whatever is open, without leaving the pod: other hosts take this one for dead
    /// when its process ends.
    pub fn abandon(self) {
        forget(self.session);
    }
}

/// Dropping a session unmounts what is mounted in the same place by now, whatever that is.
fn forget(session: BackgroundSession) {
    std::mem::forget(session);
}

/// Lets this process have as many descriptors as it may: each open file takes one.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Fewer do as well, until more files are open at once.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Both directories, as what they really are.
fn check(backing: &Path, mountpoint: &Path) -> Result<(PathBuf, PathBuf), MountError> {
    let below = fs::canonicalize(backing)
        .and_then(|path| fs::read_dir(&path).map(|_| path))
        .map_err(|error| MountError::Backing(backing.to_owned(), error))?;
    let kind = rustix::fs::statfs(&below).map(|found| found.f_type);
    if kind.is_ok_and(|kind| kind as u64 == OVERLAYFS) {
        tracing::warn!(
            "{} is on an overlay, in which files change their inode numbers when they are first written: what hosts \
             have open then is not what others see; use a directory of a file system of its own",
            below.display()
        );
    }
    let on = place::check(mountpoint)?;
    if on.starts_with(&below) || below.starts_with(&on) {
        let why = "it and the backing directory must lie apart".to_owned();
        return Err(MountError::Mountpoint(mountpoint.to_owned(), why));
    }
    fs::File::options().read(true).write(true).open("/dev/fuse").map_err(MountError::NoFuse)?;
    Ok((below, on))
}
