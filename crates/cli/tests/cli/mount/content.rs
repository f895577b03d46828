//! The content of a file, and its metadata.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::{Mounts, has, shell};

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

/// A page was read from its file before it was overwritten whole: a program that writes pages of a
/// large file, as databases do, waited for the disk at each of them.
#[test]
fn a_page_that_is_overwritten_whole_is_not_read() {
    let create = ["--size", "8MiB", "--scr", "512KiB"];
    let Some(mut mounts) = Mounts::unmounted(&create) else { return };
    let below = mounts.backing.join("file");
    fs::write(&below, vec![1; 100 * 4096]).unwrap();
    mounts.mount_all();
    let [one, two] = [0, 1].map(|host| {
        let path = mounts.places[host].join("file");
        File::options().read(true).write(true).open(path).unwrap()
    });
    for page in 0..100 {
        one.write_all_at(&[2; 4096], page * 4096).unwrap();
        let mut bytes = [0; 10];
        two.read_exact_at(&mut bytes, page * 4096 + 7).unwrap();
        assert_eq!(bytes, [2; 10]);
    }
    drop((one, two));
    let said = mounts.end();
    assert!(said.iter().all(|line| line.contains("pages: 0 read from files")), "{said:?}");
    assert_eq!(fs::read(&below).unwrap(), vec![2; 100 * 4096]);
}
