//! Hosts that are killed, and what is left of them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use super::Mounts;

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
