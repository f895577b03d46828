//! One directory, mounted by two hosts through one pod: what the tests of it have in common.

mod content;
mod deaths;
mod ends;
mod holes;
mod kernel;
mod locks;
mod monitoring;
mod options;
mod oracle;
mod permissions;
mod programs;
mod room;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::tombolo::{Running, folder, printed};

/// Two hosts and what they mount.
pub(crate) struct Mounts {
    pub(crate) hosts: Vec<Running>,
    pub(crate) places: Vec<PathBuf>,
    pub(crate) backing: PathBuf,
    disk: Option<SmallDisk>,
    pub(crate) folder: TempDir,
}

/// A file system in memory that is soon full.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, with the reason printed, where it cannot be mounted.
    fn mount(place: &Path, size: &str) -> Option<Self> {
        let size = format!("size={size}");
        let mount = ["-t", "tmpfs", "-o", &size, "tmpfs", path(place)];
        let mounted = Command::new("mount").args(mount).status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("skipped: a tmpfs cannot be mounted");
            return None;
        }
        Some(Self(place.to_owned()))
    }

    fn free_bytes(&self) -> u64 {
        let found = rustix::fs::statvfs(&self.0).unwrap();
        found.f_bavail * found.f_frsize
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", path(&self.0)]).status();
    }
}

impl Mounts {
    /// `None`, with the reason printed, where FUSE cannot be used.
    pub(crate) fn start(create: &[&str]) -> Option<Self> {
        let mut mounts = Self::unmounted(create)?;
        mounts.mount_all();
        Some(mounts)
    }

    /// The same over a file system of so many bytes.
    fn on_small_disk(create: &[&str], size: &str) -> Option<Self> {
        let mut mounts = Self::unmounted(create)?;
        mounts.disk = Some(SmallDisk::mount(&mounts.backing, size)?);
        mounts.mount_all();
        Some(mounts)
    }

    pub(crate) fn unmounted(create: &[&str]) -> Option<Self> {
        if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
            eprintln!("skipped: /dev/fuse cannot be opened: {error}");
            return None;
        }
        let root = rustix::process::geteuid().is_root();
        if !root && Command::new("fusermount3").arg("-V").output().is_err() {
            eprintln!("skipped: neither root nor fusermount3");
            return None;
        }
        let folder = folder();
        let (spec, backing) = (folder.path().join("pod"), folder.path().join("backing"));
        let places: Vec<PathBuf> =
            ["one", "two"].iter().map(|name| folder.path().join(name)).collect();
        printed(&[&["pod", "create", path(&spec), "--page-cache"], create].concat());
        fs::create_dir(&backing).unwrap();
        places.iter().for_each(|place| fs::create_dir(place).unwrap());
        Some(Self { hosts: vec![], places, backing, disk: None, folder })
    }

    pub(crate) fn mount_all(&mut self) {
        self.hosts = (0..2).map(|host| self.mount(host, &[])).collect();
    }

    /// Mounts again what a host had mounted that has ended.
    pub(crate) fn remount(&mut self, host: usize, options: &[&str]) {
        self.hosts[host] = self.mount(host, options);
    }

    fn mount(&self, host: usize, options: &[&str]) -> Running {
        self.mount_within(&[], host, options)
    }

    /// Mounts with a page; where that is, is its next line.
    pub(crate) fn mount_monitored(&self, host: usize, options: &[&str]) -> Running {
        self.mount(host, &[options, &["--metrics", "127.0.0.1:0"]].concat())
    }

    /// Mounts by a process that another program starts: with these words in front of its own.
    pub(crate) fn mount_within(&self, by: &[&str], host: usize, options: &[&str]) -> Running {
        let (pod, backing, place) =
            (self.folder.path().join("pod"), &self.backing, &self.places[host]);
        let mount = ["mount", "--pod", path(&pod), path(backing), path(place)];
        let mut running = Running::start_within(by, &[&mount[..], options].concat());
        running.line_with("is mounted on");
        running
    }

    /// Kills a host, and rids the kernel of what it had mounted.
    pub(crate) fn kill(&mut self, host: usize) {
        self.hosts[host].signal("-KILL");
        self.hosts[host].end();
        let place = path(&self.places[host]);
        let unmount = |command: &str, how: &str| {
            Command::new(command).args([how, place]).status().is_ok_and(|status| status.success())
        };
        assert!(unmount("umount", "-l") || unmount("fusermount3", "-uz"));
    }

    /// Unmounts; what the hosts say they have done.
    pub(crate) fn end(&mut self) -> Vec<String> {
        let hosts = self.hosts.iter_mut();
        hosts
            .map(|host| {
                host.signal("-TERM");
                let line = host.line_with("unmounted");
                assert!(host.end().success());
                line
            })
            .collect()
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        // A test that fails may have files open: told twice, a host ends whatever is open.
        for host in &mut self.hosts {
            host.stop_at_once();
        }
    }
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The standard output of a shell's commands, which have to succeed.
pub(crate) fn shell(folder: &Path, script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).current_dir(folder).output().unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{said}\n{complained}");
    said.into_owned()
}

pub(crate) fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: there is no {program}");
    }
    found
}

/// Waits until something holds, for a minute at most.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether other users can be tried here.
pub(crate) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: only root serves several users");
    }
    root
}
