//! Hosts that are killed, and what is left of them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::room::NO_SPACE;
use super::{Mounts, wait_until};
use crate::tombolo::{address_of_page, get, metric};

/// Bytes that numbers take in a file, at most.
const MOST: u64 = 300_000;

/// Writes one number after the other, until that fails; how many it was told are written.
fn count_up(file: &File, base: u64) -> u64 {
    let write = |n: &u64| file.write_all_at(&(base + n).to_le_bytes(), n * 8).is_ok();
    (0..MOST / 8).take_while(write).count() as u64
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

/// Writes to files without a name until the host is gone, also while the disk is full.
fn write_unnamed(place: &Path, round: u64) -> thread::JoinHandle<()> {
    let files: Vec<File> = (0..3)
        .map(|number| {
            let path = place.join(format!("unnamed{round}-{number}"));
            let file = File::create(&path).unwrap();
            fs::remove_file(path).unwrap();
            file
        })
        .collect();
    thread::spawn(move || {
        for n in 0..100_000 {
            let file = &files[n as usize % files.len()];
            let written = file.write_all_at(&[7; 16 << 10], n / 3 % 100 * (16 << 10));
            if written.is_err_and(|error| error.raw_os_error() != Some(NO_SPACE)) {
                return;
            }
        }
    })
}

/// A host was killed while its disk was full and it had files without a name: others stood still,
/// and its pages stayed for ever.
#[test]
fn nothing_is_left_of_a_host_that_is_killed_on_a_full_disk() {
    let create = ["--size", "8MiB", "--scr", "512KiB"];
    let Some(mut mounts) = Mounts::on_small_disk(&create, "3m") else { return };
    mounts.hosts[1].signal("-TERM");
    mounts.hosts[1].end();
    mounts.hosts[1] = mounts.mount_monitored(1, &[]);
    let page = address_of_page(&mut mounts.hosts[1]);
    let objects = || metric(&get(&page, "/metrics"), "tombolo_pod_objects{");
    let name = mounts.places[1].join("file");
    let file = File::options().read(true).write(true).create_new(true).open(&name).unwrap();
    file.write_all_at(&[1; 100_000], 0).unwrap();
    file.sync_all().unwrap();
    let mut longest = Duration::ZERO;
    for round in 0..6 {
        // All of it is in the file already, as far as the disk takes it.
        let path = mounts.places[0].join("clean");
        let clean = File::create(&path).unwrap();
        let _ = clean.write_all_at(&[3; 20_000], 0).and_then(|()| clean.sync_all());
        fs::remove_file(path).unwrap();
        let writing = write_unnamed(&mounts.places[0], round);
        thread::sleep(Duration::from_millis(30 + 70 * round));
        mounts.kill(0);
        let started = Instant::now();
        let bytes = [round as u8; 100_000];
        file.write_all_at(&bytes, 0).unwrap();
        file.sync_all().unwrap();
        let mut found = [0; 100_000];
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found, bytes);
        longest = longest.max(started.elapsed());
        writing.join().unwrap();
        drop(clean);
        mounts.remount(0, &[]);
    }
    println!("after a death no write with fsync took longer than {} ms", longest.as_millis());
    drop(file);
    fs::remove_file(name).unwrap();
    // The one object that is left says which directory is shared.
    wait_until("no page of a dead file is in the pod", || objects() <= 1.0);
    let disk = mounts.disk.as_ref().unwrap();
    wait_until("room is given back", || disk.free_bytes() >= 11 << 18);
    mounts.end();
    assert_eq!(fs::read_dir(&mounts.backing).unwrap().count(), 0);
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
