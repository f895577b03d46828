//! How mounts begin and end.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Mounts, path, wait_until};
use crate::tombolo::{complaint, folder, printed};

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
