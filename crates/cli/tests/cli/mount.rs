//! One directory, mounted by two hosts through one pod.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rustix::fs::FlockOperation;
use tempfile::TempDir;

use crate::tombolo::{Running, complaint, folder, printed};

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

#[test]
fn what_is_done_on_one_host_is_there_on_the_other() {
    let Some(mut mounts) = Mounts::start(&["--size", "16MiB", "--scr", "1MiB"]) else { return };
    let [one, two] = &mounts.places[..] else { unreachable!() };
    let writing = File::create(one.join("file")).unwrap();
    let reading = File::open(two.join("file")).unwrap();
    for number in 0..200u64 {
        writing.write_all_at(&number.to_le_bytes(), number * 1000).unwrap();
        let mut bytes = [0; 8];
        reading.read_exact_at(&mut bytes, number * 1000).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), number, "no host waits for a close");
        assert_eq!(reading.metadata().unwrap().len(), number * 1000 + 8);
    }
    writing.set_len(10).unwrap();
    assert_eq!(fs::read(two.join("file")).unwrap().len(), 10);
    fs::rename(two.join("file"), two.join("other")).unwrap();
    assert!(!one.join("file").exists());
    writing.write_all_at(b"still", 0).unwrap();
    fs::remove_file(one.join("other")).unwrap();
    let mut bytes = [0; 5];
    reading.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"still", "who has it open still has it");
    drop((writing, reading));
    fs::write(one.join("last"), "last words").unwrap();
    mounts.end();
    assert_eq!(fs::read(mounts.backing.join("last")).unwrap(), b"last words");
    assert_eq!(fs::read_dir(&mounts.backing).unwrap().count(), 1);
}

#[test]
fn locks_hold_among_hosts() {
    let Some(mounts) = Mounts::start(&["--size", "8MiB", "--scr", "1MiB"]) else { return };
    let first = File::create(mounts.places[0].join("lock")).unwrap();
    let second = File::open(mounts.places[1].join("lock")).unwrap();
    let lock = |file: &File, how| rustix::fs::flock(file, how);
    lock(&first, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert!(lock(&second, FlockOperation::NonBlockingLockExclusive).is_err());
    drop(first);
    lock(&second, FlockOperation::LockExclusive).unwrap();
}

/// The error that a write gets when the disk is full.
const NO_SPACE: i32 = 28;

/// Bytes of a file, at most.
const CHAIN: u64 = 300_000;

/// Random operations on files and names, each on one of two hosts, and the same ones on a directory
/// of the file system below: both have to come to the same, in a pod that holds a fraction of them.
#[test]
fn two_hosts_are_as_good_as_a_file_system() {
    for seed in 0..3 {
        let Some(mut mounts) = Mounts::start(&["--size", "5MiB", "--scr", "256KiB"]) else {
            return;
        };
        let oracle = mounts.folder.path().join("oracle");
        fs::create_dir(&oracle).unwrap();
        let mut random = Random { dice: SmallRng::seed_from_u64(seed), oracle, step: 0 };
        for _ in 0..1500 {
            random.step(&mounts.places);
        }
        random.compare(&mounts.places[0]);
        random.compare(&mounts.places[1]);
        let told = mounts.end();
        assert!(!told[0].ends_with(" 0 evicted"), "the pod is too large for this test: {told:?}");
        random.compare(&mounts.backing);
    }
}

struct Random {
    dice: SmallRng,
    oracle: PathBuf,
    step: u64,
}

impl Random {
    fn name(&mut self) -> String {
        let folder = ["", "a/", "a/b/"][self.dice.random_range(0..3)];
        format!("{folder}f{}", self.dice.random_range(0..6))
    }

    /// Does the same in both worlds.
    fn step(&mut self, places: &[PathBuf]) {
        self.step += 1;
        let place = &places[self.dice.random_range(0..places.len())];
        let (name, other) = (self.name(), self.name());
        let (offset, length) = (self.dice.random_range(0..CHAIN), self.length());
        let mut bytes = vec![0; length];
        self.dice.fill(&mut bytes[..]);
        let kind = self.dice.random_range(0..100);
        let both = [place, &self.oracle].map(|root| {
            let (path, other) = (root.join(&name), root.join(&other));
            perform(kind, &path, &other, offset, &bytes)
        });
        assert_eq!(both[0], both[1], "step {}, kind {kind}: {name}, {other}, {offset}", self.step);
    }

    fn length(&mut self) -> usize {
        match self.dice.random_range(0..4) {
            0 => self.dice.random_range(0..10),
            1 => 4096,
            2 => self.dice.random_range(0..9000),
            _ => self.dice.random_range(0..60_000),
        }
    }

    fn compare(&self, root: &Path) {
        assert_eq!(tree(root, root), tree(&self.oracle, &self.oracle), "{}", root.display());
    }
}

/// What an operation came to: what was read, or the error's number.
type Seen = Result<Vec<u8>, Option<i32>>;

fn perform(kind: u32, path: &Path, other: &Path, offset: u64, bytes: &[u8]) -> Seen {
    let open = || OpenOptions::new().read(true).write(true).open(path);
    let done = match kind {
        0..30 => open().and_then(|file| {
            let mut bytes = vec![0; bytes.len()];
            let mut done = 0;
            // Up to the end, however many pieces that takes.
            while let read @ 1.. = file.read_at(&mut bytes[done..], offset + done as u64)? {
                done += read;
            }
            bytes.truncate(done);
            Ok(bytes)
        }),
        30..55 => open().and_then(|file| file.write_all_at(bytes, offset)).map(|()| vec![]),
        55..60 => OpenOptions::new()
            .append(true)
            .open(path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, bytes).map(|()| vec![])),
        60..68 => open().and_then(|file| file.set_len(offset)).map(|()| vec![]),
        68..71 => open().and_then(|file| file.set_len(offset / 100)).map(|()| vec![]),
        71..74 => open().and_then(|file| file.sync_data()).map(|()| vec![]),
        74..82 => File::create(path).map(|_| vec![]),
        82..85 => fs::remove_file(path).map(|()| vec![]),
        85..88 => fs::rename(path, other).map(|()| vec![]),
        88..90 => fs::hard_link(path, other).map(|()| vec![]),
        90..93 => fs::create_dir_all(path.parent().unwrap()).map(|()| vec![]),
        93 => fs::remove_dir_all(path.parent().unwrap().join("b")).map(|()| vec![]),
        94 | 95 => open()
            .and_then(|file| {
                let flags = rustix::fs::FallocateFlags::empty();
                Ok(rustix::fs::fallocate(&file, flags, offset, 1 + bytes.len() as u64)?)
            })
            .map(|()| vec![]),
        96 => std::os::unix::fs::symlink("f0", path).map(|()| vec![]),
        _ => fs::metadata(path).map(|found| {
            let facts = [found.len(), found.nlink(), u64::from(found.mode())];
            facts.iter().flat_map(|fact| fact.to_le_bytes()).collect()
        }),
    };
    done.map_err(|error| error.raw_os_error())
}

/// Every name below a directory, with what it stands for.
fn tree(root: &Path, folder: &Path) -> BTreeSet<(PathBuf, Vec<u8>)> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_owned();
        let found = fs::symlink_metadata(&path).unwrap();
        if found.is_dir() {
            all.extend(tree(root, &path));
            all.insert((name, b"a directory".to_vec()));
        } else if found.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            all.insert((name, target.into_os_string().into_encoded_bytes()));
        } else {
            all.insert((name, fs::read(&path).unwrap()));
        }
    }
    all
}

/// What a shell says to some commands that have to succeed.
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

#[test]
fn a_file_larger_than_the_pod_is_copied() {
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    let script = "dd if=/dev/urandom of=one/large bs=1M count=40 conv=fsync 2>&1
        cmp one/large two/large
        dd if=two/large of=two/copy bs=64k 2>&1
        cmp one/large one/copy";
    shell(mounts.folder.path(), script);
    mounts.end();
    shell(&mounts.backing, "cmp large copy");
}

#[test]
fn git_works_on_both_hosts() {
    if !has("git") {
        return;
    }
    let Some(mut mounts) = Mounts::start(&["--size", "16MiB", "--scr", "1MiB"]) else { return };
    let script = "
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        export GIT_CONFIG_GLOBAL=/dev/null
        git init -q one/repo
        cd one/repo
        for i in $(seq 1 100); do echo \"file $i\" > f$i; done
        git add -A
        git commit -qm first
        cd ../../two/repo
        test -z \"$(git status --short)\"
        echo more >> f1
        git commit -qam second
        git gc -q
        cd ../../one/repo
        git fsck --full --strict
        test -z \"$(git status --short)\"
        git clone -q . ../clone
        git -C ../../two/clone log --oneline | wc -l";
    assert_eq!(shell(mounts.folder.path(), script).trim(), "2");
    mounts.end();
    shell(&mounts.backing, "git -C clone -c safe.directory='*' fsck --full");
}

#[test]
fn sqlite_works_on_both_hosts_at_once() {
    if !has("sqlite3") {
        return;
    }
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    let script = "
        sqlite3 one/db 'create table t(host text, number int)'
        writer() {
          for i in $(seq 1 20); do
            sqlite3 -cmd '.timeout 60000' $1/db \"insert into t values('$1', $i)\"
          done
        }
        writer one & first=$!
        writer two & second=$!
        writer one & third=$!
        wait $first && wait $second && wait $third
        sqlite3 two/db 'select count(*), sum(number) from t; pragma integrity_check'";
    assert_eq!(shell(mounts.folder.path(), script), "60|630\nok\n");
    mounts.end();
    let check = "sqlite3 db 'select count(*) from t; pragma integrity_check'";
    assert_eq!(shell(&mounts.backing, check), "60\nok\n");
}

/// Writes one number after the other, until that fails; how many it was told are written.
fn count_up(file: &File, base: u64) -> u64 {
    let write = |n: &u64| file.write_all_at(&(base + n).to_le_bytes(), n * 8).is_ok();
    (0..CHAIN / 8).take_while(write).count() as u64
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn what_a_killed_host_wrote_comes_to_its_file() {
    let Some(mut mounts) = Mounts::start(&["--size", "16MiB", "--scr", "1MiB"]) else { return };
    // It does not write anything back by itself.
    mounts.hosts[0].signal("-TERM");
    mounts.hosts[0].end();
    mounts.hosts[0] = mounts.mount(0, &["--write-back-ms", "600000"]);
    let file = File::create(mounts.places[0].join("file")).unwrap();
    file.write_all_at(&vec![7; 100_000], 0).unwrap();
    let below = mounts.backing.join("file");
    assert_eq!(fs::metadata(&below).unwrap().len(), 0, "it is not written back yet");
    mounts.kill(0);
    let started = Instant::now();
    while fs::read(&below).unwrap() != [7; 100_000] {
        assert!(started.elapsed() < Duration::from_secs(60), "nobody wrote it back");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(fs::read(mounts.places[1].join("file")).unwrap(), [7; 100_000]);
}

/// Waits until something holds, for a minute at most.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Writes to a file until it is told that there is no room, and then closes it.
fn fill(path: &Path) {
    let file = File::create(path).unwrap();
    let full = (0..1000).find_map(|n| {
        let written = file.write_all_at(&[7; 64 << 10], n * (64 << 10));
        written.and_then(|()| file.sync_data()).err()
    });
    assert_eq!(full.and_then(|error| error.raw_os_error()), Some(NO_SPACE));
}

/// A disk was full, and dirty pages that it did not take filled the pod: each host stood still for
/// half a minute, and then all files gave `EIO`.
#[test]
fn a_full_disk_stands_in_nobodys_way() {
    let create = ["--size", "8MiB", "--scr", "512KiB"];
    let Some(mut mounts) = Mounts::on_small_disk(&create, "3m") else { return };
    let [one, two] = [0, 1].map(|host| mounts.places[host].clone());
    let other = File::create(one.join("other")).unwrap();
    other.write_all_at(&vec![1; 1 << 20], 0).unwrap();
    other.sync_all().unwrap();
    for number in 0..6 {
        let file = File::create(one.join(format!("full{number}"))).unwrap();
        let write = |n: u64| file.write_all_at(&[7; 64 << 10], n * (64 << 10));
        let full = (0..400).find_map(|n| write(n).err()).expect("the disk is full");
        assert_eq!(full.raw_os_error(), Some(NO_SPACE), "it is told while it writes");
    }
    let again = File::options().read(true).write(true).open(two.join("other")).unwrap();
    for round in 0..20u8 {
        again.write_all_at(&vec![round; 1 << 20], 0).unwrap();
        again.sync_all().unwrap();
        assert_eq!(fs::read(one.join("other")).unwrap(), vec![round; 1 << 20]);
    }
    drop((other, again));
    for number in 0..6 {
        fs::remove_file(two.join(format!("full{number}"))).unwrap();
    }
    let disk = mounts.disk.as_ref().unwrap();
    wait_until("room is given back", || disk.free_bytes() >= 3 << 19);
    let last = File::create(two.join("last")).unwrap();
    last.write_all_at(&vec![9; 1 << 20], 0).unwrap();
    last.sync_all().unwrap();
    drop(last);
    mounts.end();
    assert_eq!(fs::read(mounts.backing.join("last")).unwrap(), vec![9; 1 << 20]);
}

/// Pages that were written before the disk was full are kept, and are in the file once there is
/// room.
#[test]
fn what_a_full_disk_did_not_take_is_written_when_there_is_room() {
    let create = ["--size", "8MiB", "--scr", "512KiB"];
    let Some(mut mounts) = Mounts::on_small_disk(&create, "2m") else { return };
    let bytes = vec![5; 200_000];
    let file = File::create(mounts.places[0].join("late")).unwrap();
    fill(&mounts.places[0].join("large"));
    let _ = fs::write(mounts.backing.join("more"), [0; 64 << 10]);
    let told = file.write_all_at(&bytes, 0).and_then(|()| file.sync_all()).unwrap_err();
    assert_eq!(told.raw_os_error(), Some(NO_SPACE));
    let written = file.metadata().unwrap().len() as usize;
    drop(file);
    fs::remove_file(mounts.backing.join("more")).unwrap();
    fs::remove_file(mounts.places[1].join("large")).unwrap();
    let late = mounts.backing.join("late");
    wait_until("it is written", || fs::read(&late).unwrap() == bytes[..written]);
    assert_eq!(fs::read(mounts.places[1].join("late")).unwrap(), bytes[..written]);
    mounts.end();
}

/// A host was killed that had unlinked files. Their pages stayed dirty, until there was no room for
/// others.
#[test]
fn unlinked_files_of_a_killed_host_leave_the_pod() {
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    for _ in 0..4 {
        mounts.hosts[0].signal("-TERM");
        mounts.hosts[0].end();
        mounts.remount(0, &["--write-back-ms", "600000"]);
        let files: Vec<File> = (0..4)
            .map(|number| {
                let path = mounts.places[0].join(format!("temporary{number}"));
                let file = File::create(&path).unwrap();
                fs::remove_file(path).unwrap();
                file.write_all_at(&vec![7; 700_000], 0).unwrap();
                file
            })
            .collect();
        mounts.kill(0);
        drop(files);
        mounts.remount(0, &[]);
    }
    let file = File::create(mounts.places[1].join("file")).unwrap();
    for n in 0..100 {
        file.write_all_at(&vec![n as u8; 100_000], n * 100_000).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    mounts.end();
    assert_eq!(fs::read_dir(&mounts.backing).unwrap().count(), 1);
}

/// Each name that the kernel knew took a descriptor: with 1,008 files and the usual limit,
/// everything was told that there are too many open files.
#[test]
fn the_kernel_knows_more_names_than_there_are_descriptors() {
    if !has("prlimit") {
        return;
    }
    let Some(mut mounts) = Mounts::start(&["--size", "16MiB", "--scr", "1MiB"]) else { return };
    let host = mounts.hosts[0].id().to_string();
    let limited = Command::new("prlimit").args(["--pid", &host, "--nofile=128:128"]).status();
    assert!(limited.unwrap().success());
    let name = |number: u32| mounts.places[0].join(format!("file{number}"));
    for number in 0..500 {
        fs::write(name(number), number.to_string()).unwrap();
    }
    for number in 0..500 {
        assert_eq!(fs::read_to_string(name(number)).unwrap(), number.to_string());
    }
    mounts.end();
}

/// An ordinary user.
const USER: u32 = 1001;

/// Whether other users can be tried here.
pub(crate) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: only root serves several users");
    }
    root
}

/// Runs a script as an ordinary user with one more group; whether it succeeded, and what it said.
fn as_user(folder: &Path, script: &str) -> (bool, String) {
    let id = USER.to_string();
    let user = ["--reuid", &id, "--regid", &id, "--groups", "1007", "sh", "-c", script];
    let output = Command::new("setpriv").args(user).current_dir(folder).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// Lets everybody reach the mounts.
fn open_to_all(mounts: &Mounts) {
    let all = fs::Permissions::from_mode(0o777);
    for folder in [mounts.folder.path(), &mounts.backing] {
        fs::set_permissions(folder, all.clone()).unwrap();
    }
}

/// A user opened a name with `O_CREAT` that root had made on another host a moment before, and was
/// given the file.
#[test]
fn nobody_is_given_anothers_file() {
    if !is_root() {
        return;
    }
    let Some(mut mounts) = Mounts::start(&["--size", "16MiB", "--scr", "1MiB"]) else { return };
    open_to_all(&mounts);
    let over = mounts.folder.path().join("over");
    let script = format!(
        "while [ ! -e {0} ]; do for n in 0 1 2 3; do echo mine >> f$n; mkdir d$n; ln -s x l$n; done; done 2>&- || :",
        path(&over)
    );
    let two = mounts.places[1].clone();
    let other = thread::spawn(move || as_user(&two, &script));
    let started = Instant::now();
    let (mut made, mut late) = (0, 0);
    while made < 1500 && started.elapsed() < Duration::from_secs(20) {
        let number = made % 4;
        let [file, folder, link] =
            ["f", "d", "l"].map(|kind| mounts.places[0].join(format!("{kind}{number}")));
        let _ = fs::remove_file(&file);
        let mut options = OpenOptions::new();
        let new = options.write(true).create_new(true).mode(0o600).open(&file);
        let Ok(new) = new else {
            late += 1;
            continue;
        };
        made += 1;
        let found = new.metadata().unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (0, 0, 0o600));
        new.write_all_at(b"secret", 0).unwrap();
        thread::yield_now();
        let found = new.metadata().unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600), "it is root's");
        let mut bytes = [0; 16];
        let read = File::open(&file).and_then(|file| file.read_at(&mut bytes, 0));
        assert!(read.is_err() || read.is_ok_and(|read| bytes[..read] == *b"secret"));
        let (_, _) = (fs::remove_dir(&folder), fs::remove_file(&link));
        if fs::create_dir(&folder).is_ok() {
            let owner = fs::metadata(&folder).map(|found| found.uid());
            assert!(owner.is_ok_and(|owner| owner == 0), "only root removes root's folder");
        }
    }
    fs::write(over, "").unwrap();
    other.join().unwrap();
    assert!(made > 100, "made {made}, late {late}");
    mounts.end();
}

/// What a user makes is the user's, with the mode that was asked for, and where it may not be made,
/// nothing is.
#[test]
fn what_is_made_belongs_to_the_user_that_makes_it() {
    if !is_root() {
        return;
    }
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    open_to_all(&mounts);
    let make =
        "umask 027; echo a > file; mkdir folder; ln -s file link; mkfifo pipe; mkdir shared/in";
    let shared = mounts.places[0].join("shared");
    fs::create_dir(&shared).unwrap();
    std::os::unix::fs::chown(&shared, Some(0), Some(1007)).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o2770)).unwrap();
    assert_eq!(as_user(&mounts.places[1], make), (true, String::new()));
    let look = |name: &str| fs::symlink_metadata(mounts.backing.join(name)).unwrap();
    for (name, mode) in [("file", 0o640), ("folder", 0o750), ("link", 0o777), ("pipe", 0o640)] {
        let found = look(name);
        let facts = (found.uid(), found.gid(), found.mode() & 0o7777);
        assert_eq!(facts, (USER, USER, mode), "{name}");
    }
    let inner = look("shared/in");
    assert_eq!((inner.uid(), inner.gid(), inner.mode() & 0o7777), (USER, 1007, 0o2750));
    fs::create_dir_all(mounts.places[0].join("root")).unwrap();
    let (made, said) = as_user(&mounts.places[1], "echo a > root/file || mkdir root/folder");
    assert!(!made && said.contains("ermission denied"), "{said}");
    assert_eq!(fs::read_dir(mounts.backing.join("root")).unwrap().count(), 0);
    mounts.end();
}

/// A file kept its set-user-ID bit when another user wrote to it, lost it when it was made with it,
/// and ACLs were accepted that nobody looked at.
#[test]
fn privileges_end_with_a_write_and_acls_are_refused() {
    if !is_root() {
        return;
    }
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    open_to_all(&mounts);
    let file = mounts.places[0].join("file");
    let made = OpenOptions::new().write(true).create_new(true).mode(0o6755).open(&file).unwrap();
    let mode = || fs::metadata(mounts.places[1].join("file")).unwrap().mode() & 0o7777;
    assert_eq!(mode(), 0o6755, "as it was asked for");
    made.write_all_at(b"root", 0).unwrap();
    assert_eq!(mode(), 0o6755, "root may");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6777)).unwrap();
    assert_eq!(as_user(&mounts.places[1], "echo a >> file"), (true, String::new()));
    assert_eq!(mode(), 0o777);
    // Owner, another user, group, mask and others: kind, rights, and whose.
    let none = u32::MAX;
    let entries = [(1u16, 7u16, none), (2, 4, USER), (4, 5, none), (16, 7, none), (32, 5, none)];
    let bytes = entries.iter().flat_map(|(kind, rights, of)| {
        [&kind.to_le_bytes()[..], &rights.to_le_bytes(), &of.to_le_bytes()].concat()
    });
    let acl: Vec<u8> = 2u32.to_le_bytes().into_iter().chain(bytes).collect();
    let set = rustix::fs::setxattr(
        &file,
        "system.posix_acl_access",
        &acl,
        rustix::fs::XattrFlags::empty(),
    );
    assert_eq!(set, Err(rustix::io::Errno::OPNOTSUPP));
    drop(made);
    mounts.end();
}

/// Files that could not be written below were opened, and writes to them accepted.
#[test]
fn a_file_that_cannot_be_written_below_is_not_opened_for_writing() {
    let Some(mut mounts) = Mounts::unmounted(&["--size", "8MiB", "--scr", "512KiB"]) else {
        return;
    };
    let Some(disk) = SmallDisk::mount(&mounts.backing, "4m") else { return };
    mounts.disk = Some(disk);
    fs::write(mounts.backing.join("file"), "as it was").unwrap();
    let read_only = ["-o", "remount,ro", path(&mounts.backing)];
    assert!(Command::new("mount").args(read_only).status().unwrap().success());
    mounts.mount_all();
    let file = mounts.places[0].join("file");
    let read = File::open(&file).unwrap();
    let refused = |told: std::io::Result<File>| {
        assert_eq!(told.unwrap_err().raw_os_error(), Some(30), "EROFS");
    };
    refused(File::options().write(true).open(&file));
    refused(File::options().append(true).open(&file));
    refused(File::create(mounts.places[0].join("new")));
    let mut bytes = [0; 9];
    read.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"as it was");
    drop(read);
    mounts.end();
}

/// Hosts with different directories below one pod took each other's pages for their own.
#[test]
fn hosts_with_other_files_below_are_refused() {
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    fs::write(mounts.places[0].join("file"), "words").unwrap();
    let other = mounts.folder.path().join("other");
    let place = mounts.folder.path().join("three");
    fs::create_dir(&other).unwrap();
    fs::create_dir(&place).unwrap();
    let pod = mounts.folder.path().join("pod");
    let mount = ["mount", "--pod", path(&pod), path(&other), path(&place)];
    let backing = mounts.backing.clone();
    let refused = |said: String| {
        assert!(said.contains("files of another directory"), "{said}");
        assert!(said.contains(path(&backing)), "{said}");
    };
    refused(complaint(&mount));
    let kept = File::open(mounts.places[1].join("file")).unwrap();
    fs::write(mounts.places[0].join("file"), "other words").unwrap();
    mounts.hosts.iter().for_each(|host| host.signal("-KILL"));
    drop(kept);
    [0, 1].iter().for_each(|&host| mounts.kill(host));
    refused(complaint(&mount));
    (0..2).for_each(|host| mounts.remount(host, &[]));
    assert_eq!(fs::read(mounts.places[1].join("file")).unwrap(), b"other words");
    mounts.end();
}

/// `SIGTERM` with a file open left a dead mount point, and dirty pages that were not written back.
#[test]
fn a_host_that_is_to_stop_serves_what_is_open_until_it_is_closed() {
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    mounts.hosts[0].signal("-TERM");
    mounts.hosts[0].end();
    mounts.remount(0, &["--write-back-ms", "600000"]);
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    let file = options.open(mounts.places[0].join("file")).unwrap();
    file.write_all_at(b"before", 0).unwrap();
    mounts.hosts[0].signal("-TERM");
    let below = mounts.backing.join("file");
    wait_until("what is dirty is safe", || fs::read(&below).unwrap() == b"before");
    let place = mounts.places[0].clone();
    wait_until("the place is free", || !place.join("file").exists());
    let again = mounts.mount(0, &[]);
    file.write_all_at(b" and after", 6).unwrap();
    let mut bytes = [0; 16];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"before and after", "it is served as ever");
    drop(file);
    assert!(mounts.hosts[0].end().success());
    mounts.hosts[0] = again;
    assert_eq!(fs::read(place.join("file")).unwrap(), b"before and after");
    mounts.end();
}

/// A mount whose process was killed could not be mounted again.
#[test]
fn a_dead_mount_is_mounted_again() {
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    fs::write(mounts.places[0].join("file"), "words").unwrap();
    mounts.hosts[0].signal("-KILL");
    mounts.hosts[0].end();
    assert!(fs::read(mounts.places[0].join("file")).is_err());
    mounts.remount(0, &[]);
    assert_eq!(fs::read(mounts.places[0].join("file")).unwrap(), b"words");
    mounts.end();
}

/// A host that was fenced went on changing names, and stayed mounted with `EIO`.
#[test]
fn a_host_that_is_fenced_ends() {
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    let file = File::create(mounts.places[0].join("file")).unwrap();
    let pod = mounts.folder.path().join("pod");
    printed(&["pod", "fence", path(&pod), "0"]);
    assert!(!mounts.hosts[0].end().success());
    drop(file);
    assert!(fs::read_dir(&mounts.places[0]).unwrap().next().is_none(), "nothing is mounted");
    fs::write(mounts.places[1].join("file"), "words").unwrap();
    mounts.remount(0, &[]);
    assert_eq!(fs::read(mounts.places[0].join("file")).unwrap(), b"words");
    mounts.end();
}

/// `tar` said that a file changed while it was read, and `git` read everything anew: to close a
/// file changed its time of change.
#[test]
fn reading_a_file_leaves_no_trace() {
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    let name = |host: usize| mounts.places[host].join("file");
    fs::write(name(0), "words").unwrap();
    let times = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
    };
    let before = times(&mounts.backing.join("file"));
    thread::sleep(Duration::from_millis(20));
    assert_eq!(fs::read(name(1)).unwrap(), b"words");
    drop(File::options().read(true).write(true).open(name(0)).unwrap());
    File::open(name(1)).unwrap().sync_all().unwrap();
    assert_eq!(times(&name(0)), before);
    let below = mounts.backing.join("file");
    mounts.end();
    assert_eq!(times(&below), before);
}

/// Locks of open files were never given up, and each kept a descriptor; and a signal to a process
/// that waited for a lock gave `EIO`.
#[test]
fn locks_end_with_the_open_file_and_waiting_with_a_signal() {
    if !has("python3") {
        return;
    }
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    let script = "
import fcntl, os, signal, struct, time
F_OFD_SETLK = 37
def lock(fd): fcntl.fcntl(fd, F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0))
def patiently(fd):
    # A file is released a moment after it was closed.
    for _ in range(1000):
        try:
            return lock(fd)
        except BlockingIOError:
            time.sleep(0.01)
    print('never released')
for _ in range(50):
    for place in ['one', 'two']:
        fd = os.open(place + '/lock', os.O_RDWR | os.O_CREAT)
        patiently(fd)
        os.close(fd)
first, second = [os.open(place + '/lock', os.O_RDWR) for place in ['one', 'two']]
patiently(first)
try:
    lock(second)
    print('both have it')
except BlockingIOError:
    pass
def alarm(*_): raise InterruptedError
signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    fcntl.lockf(second, fcntl.LOCK_EX)
except InterruptedError:
    print('interrupted')
";
    let open = |mounts: &Mounts| {
        let folder = format!("/proc/{}/fd", mounts.hosts[0].id());
        fs::read_dir(folder).unwrap().count()
    };
    let before = open(&mounts);
    fs::write(mounts.folder.path().join("script"), script).unwrap();
    assert_eq!(shell(mounts.folder.path(), "python3 script"), "interrupted\n");
    wait_until("descriptors are closed", || open(&mounts) <= before + 2);
    mounts.end();
}

/// Times before 1970 with a fraction came out as others, and those after 2262 were all the same.
#[test]
fn times_are_kept_however_far_they_are() {
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    let file = File::create(mounts.places[0].join("file")).unwrap();
    file.write_all_at(b"words", 0).unwrap();
    let oracle = File::create(mounts.folder.path().join("oracle")).unwrap();
    let times = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (found.atime(), found.atime_nsec(), found.mtime(), found.mtime_nsec())
    };
    for tv_sec in [-2, -1_000_000_000, 0, 1, 9_300_000_000, 11_000_000_000] {
        let time = rustix::fs::Timespec { tv_sec, tv_nsec: 500_000_000 };
        let both = rustix::fs::Timestamps { last_access: time, last_modification: time };
        rustix::fs::futimens(&file, &both).unwrap();
        rustix::fs::futimens(&oracle, &both).unwrap();
        let expected = times(&mounts.folder.path().join("oracle"));
        for place in &mounts.places {
            assert_eq!(times(&place.join("file")), expected);
        }
        file.sync_all().unwrap();
        assert_eq!(times(&mounts.backing.join("file")), expected);
    }
    drop(file);
    mounts.end();
}

/// `copy_file_range` copied old bytes from files that were open before another host wrote to them.
#[test]
fn a_copied_range_is_as_other_hosts_wrote_it() {
    if !has("python3") {
        return;
    }
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    let script = "
import os
source = os.open('one/source', os.O_RDWR | os.O_CREAT)
target = os.open('one/target', os.O_RDWR | os.O_CREAT)
other = os.open('two/source', os.O_RDWR)
for number in range(20):
    bytes = (b'%07d ' % number) * 20000
    os.pwrite(other, bytes, 0)
    # The kernel copies up to the size that it was told last.
    done = 0
    while done < os.fstat(source).st_size:
        copied = os.copy_file_range(source, target, len(bytes) - done, done, done)
        assert copied > 0
        done += copied
    assert os.pread(target, len(bytes), 0) == bytes, number
    assert os.copy_file_range(source, target, 10, len(bytes), 0) == 0, 'the end'
print('copied')
";
    fs::write(mounts.folder.path().join("script"), script).unwrap();
    assert_eq!(shell(mounts.folder.path(), "python3 script"), "copied\n");
    mounts.end();
}

/// A page beyond what the file system below can hold was accepted, and stayed dirty for ever.
#[test]
fn a_file_is_no_larger_than_the_file_system_below_can_hold() {
    const FAR: u64 = 17 << 40;
    let Some(mut mounts) = Mounts::unmounted(&["--size", "8MiB", "--scr", "512KiB"]) else {
        return;
    };
    let below = tempfile::tempdir().unwrap();
    mounts.backing = below.path().to_owned();
    let plain = File::create(below.path().join("plain")).unwrap();
    let Err(expected) = plain.write_all_at(b"far", FAR) else {
        eprintln!("skipped: the file system of temporary files holds files of 17 TiB");
        return;
    };
    mounts.mount_all();
    let file = File::create(mounts.places[0].join("file")).unwrap();
    let told = file.write_all_at(b"far", FAR).unwrap_err();
    assert_eq!(told.raw_os_error(), expected.raw_os_error());
    assert_eq!(file.metadata().unwrap().len(), 0);
    drop(file);
    mounts.end();
}

#[test]
fn all_hosts_are_killed_and_files_are_as_they_were_told() {
    let create = ["--size", "16MiB", "--scr", "1MiB", "--torn-writes", "undo"];
    let Some(mut mounts) = Mounts::start(&create) else { return };
    for round in 0..3u64 {
        let writing = [0, 1].map(|host| {
            let file = File::create(mounts.places[host].join(format!("file{host}"))).unwrap();
            thread::spawn(move || count_up(&file, round))
        });
        thread::sleep(Duration::from_millis(100 + 50 * round));
        mounts.hosts.iter().for_each(|host| host.signal("-KILL"));
        [0, 1].iter().for_each(|&host| mounts.kill(host));
        let told = writing.map(|thread| thread.join().unwrap());
        for host in 0..2 {
            mounts.hosts[host] = mounts.mount(host, &[]);
        }
        for (host, told) in told.into_iter().enumerate() {
            let name = format!("file{host}");
            let found = numbers(&fs::read(mounts.places[1 - host].join(&name)).unwrap());
            assert!(found.len() as u64 >= told, "{} of {told} are there", found.len());
            assert!((round..).zip(&found).all(|(number, found)| number == *found), "{found:?}");
            assert!(numbers(&fs::read(mounts.backing.join(&name)).unwrap()).starts_with(&found));
        }
    }
}

/// The smallest pods could be created, and then took no write.
#[test]
fn the_smallest_pod_takes_writes_of_both_hosts() {
    let folder = folder();
    let spec = folder.path().join("pod");
    let create = ["pod", "create", path(&spec), "--page-cache", "--scr", "32KiB", "--size"];
    let refused = complaint(&[&create[..], &["128KiB"]].concat());
    let least = refused.split(' ').rev().nth(4).unwrap().to_owned();
    assert!(refused.contains(&format!("{least} bytes are the least")), "{refused}");
    let small = ["--scr", "32KiB", "--size", &least];
    let Some(mut mounts) = Mounts::start(&small) else { return };
    let script = "
        for number in 1 2 3; do
          for host in one two; do
            head -c 50000 /dev/urandom > $host/$host$number
            echo more >> $host/log
          done
        done
        for number in 1 2 3; do cmp one/one$number two/one$number; cmp one/two$number two/two$number; done
        wc -l < two/log";
    assert_eq!(shell(mounts.folder.path(), script).trim(), "6");
    mounts.end();
}

#[test]
fn what_cannot_be_mounted_is_said() {
    let folder = folder();
    let (spec, place) = (folder.path().join("pod"), folder.path().join("place"));
    fs::create_dir(&place).unwrap();
    printed(&["pod", "create", path(&spec), "--size", "8MiB", "--scr", "64KiB"]);
    let mount = ["mount", "--pod", path(&spec)];
    let nowhere = complaint(&[&mount[..], &["/nowhere", path(&place)]].concat());
    assert!(nowhere.contains("/nowhere cannot be used as backing directory"), "{nowhere}");
    let full = complaint(&[&mount[..], &["/etc", path(folder.path())]].concat());
    assert!(full.contains("it is not empty"), "{full}");
    if Path::new("/dev/fuse").exists() {
        let plain = complaint(&[&mount[..], &["/etc", path(&place)]].concat());
        assert!(plain.contains("--page-cache"), "{plain}");
    }
    let pages = folder.path().join("pages");
    printed(&["pod", "create", path(&pages), "--size", "8MiB", "--scr", "64KiB", "--page-cache"]);
    let serving = complaint(&["serve", "--pod", path(&pages), "--listen", "127.0.0.1:0"]);
    assert!(serving.contains("made for a page cache"), "{serving}");
}
