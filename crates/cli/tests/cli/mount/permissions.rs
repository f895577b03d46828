//! Several users: nobody gets what the directory below would not give.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::{Mounts, SmallDisk, is_root, path};

/// An ordinary user.
const USER: u32 = 1001;

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
    // On a busy machine it takes longer than that until enough of them were made.
    let goes_on = |made: u32| {
        let limit = if made > 100 { 20 } else { 300 };
        made < 1500 && started.elapsed() < Duration::from_secs(limit)
    };
    while goes_on(made) {
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

/// A user's new files belong to the user, with the mode that was asked for. Where the user may not
/// make any, none is made.
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
