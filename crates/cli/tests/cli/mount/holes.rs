//! Holes in files: made, found, and kept.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

use super::Mounts;

const PAGE: u64 = 4096;

/// `fallocate` with any flag was refused.
#[test]
fn a_hole_is_zeros_on_all_hosts_and_takes_no_room() {
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    let [one, two] = [0, 1].map(|host| mounts.places[host].join("file"));
    let bytes: Vec<u8> = (0..100 * PAGE).map(|n| (n % 251) as u8 + 1).collect();
    fs::write(&one, &bytes).unwrap();
    let file = File::options().read(true).write(true).open(&two).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, 10 * PAGE + 100, 50 * PAGE).unwrap();
    let mut expected = bytes.clone();
    expected[10 * PAGE as usize + 100..60 * PAGE as usize + 100].fill(0);
    assert!(fs::read(&one).unwrap() == expected);
    let blocks = || mounts.backing.join("file").metadata().unwrap().blocks();
    file.sync_all().unwrap();
    assert!(blocks() <= 52 * 8, "{} blocks", blocks());
    // Room is made without the file growing.
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 120 * PAGE).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 100 * PAGE);
    assert!(blocks() >= 119 * 8, "{} blocks", blocks());
    assert!(fs::read(&one).unwrap() == expected);
    let moved = FallocateFlags::COLLAPSE_RANGE;
    assert_eq!(fallocate(&file, moved, 0, PAGE), Err(Errno::OPNOTSUPP));
    drop(file);
    mounts.end();
    assert!(fs::read(mounts.backing.join("file")).unwrap() == expected);
}

/// All of a file was said to be data, and what was sparse was copied whole.
#[test]
fn holes_are_found_where_they_are_below() {
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    let oracle = mounts.folder.path().join("oracle");
    for path in [&oracle, &mounts.places[0].join("file")] {
        let file = File::create(path).unwrap();
        file.set_len(90 * PAGE).unwrap();
        for page in [0, 1, 20, 21, 60] {
            file.write_all_at(&[1; PAGE as usize], page * PAGE).unwrap();
        }
    }
    let (oracle, file) =
        (File::open(oracle).unwrap(), File::open(mounts.places[1].join("file")).unwrap());
    for at in (0..95).map(|page| page * PAGE + 7) {
        for wanted in [SeekFrom::Data(at), SeekFrom::Hole(at)] {
            assert_eq!(seek(&file, wanted), seek(&oracle, wanted), "{wanted:?}");
        }
    }
    drop(file);
    mounts.end();
}
