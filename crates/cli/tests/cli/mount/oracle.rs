//! Two mounts against a plain directory: the same random operations come to the same.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rustix::fs::FallocateFlags;

use super::Mounts;

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

/// The outcome of an operation: what was read, or the error's number.
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
                let keep = FallocateFlags::KEEP_SIZE;
                let how = [
                    FallocateFlags::empty(),
                    keep,
                    keep | FallocateFlags::PUNCH_HOLE,
                    FallocateFlags::ZERO_RANGE,
                    keep | FallocateFlags::ZERO_RANGE,
                ];
                let how = how[offset as usize % how.len()];
                Ok(rustix::fs::fallocate(&file, how, offset, 1 + bytes.len() as u64)?)
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
