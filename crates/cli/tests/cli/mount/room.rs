//! No room: on the disk below, in the pod, or in a file.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Mounts, path, shell, wait_until};
use crate::tombolo::{complaint, folder};

/// The error that a write gets when the disk is full.
pub(super) const NO_SPACE: i32 = 28;

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
