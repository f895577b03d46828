//! Pods take the memory that is used: chunks get it when they fill, and give it back when they are
//! free for a while. Reads stay right meanwhile.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tombolo_memory::Mapped;
use tombolo_objects::{Maintenance, Objects, Options, census};
use tombolo_pod::{PodSpec, open};
use tombolo_sharing::{CreateOptions, ObjectArea, create};
use tombolo_workloads::{check_value, fill_value};

const MIB: u64 = 1 << 20;

/// A pod in shared memory, where memory comes and goes.
struct Place {
    spec: PodSpec,
    _folder: tempfile::TempDir,
}

fn pod(lnr_bytes: u64, chunk_bytes: Option<u64>) -> Place {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path: PathBuf = folder.path().join("pod");
    let spec = PodSpec::path(path);
    let layout = tombolo_sharing::Options { chunk_bytes, ..Default::default() };
    let (scr_bytes, lnr_bytes) = (Some(16 * MIB), Some(lnr_bytes));
    create(&spec, CreateOptions { scr_bytes, lnr_bytes, layout, sparse: true, force: false })
        .unwrap();
    Place { spec, _folder: folder }
}

/// A host that gives memory back at once.
fn join(place: &Place) -> Objects<Mapped> {
    let at_once = Maintenance { give_back_after: Duration::ZERO, ..Maintenance::default() };
    let options = Options { maintenance: at_once, ..Options::default() };
    Objects::join(open(&place.spec).unwrap(), options).unwrap()
}

fn taken(objects: &Objects<Mapped>) -> u64 {
    objects.memory().taken_bytes().unwrap()
}

/// Ticks until all chunks were looked at often enough, and those that were held are not.
fn settle(objects: &Objects<Mapped>) {
    let rounds = objects.area().geometry().chunks.div_ceil(64) * 3 + 300;
    (0..rounds).for_each(|_| objects.tick().unwrap());
}

fn value(key: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    fill_value(key, 0, &mut value);
    value
}

fn read(objects: &Objects<Mapped>, key: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    objects.read(key, &mut value).unwrap().unwrap();
    value
}

/// A pod of 4 GiB took 4.1 GiB, with nothing in it.
#[test]
fn an_empty_pod_takes_little_however_large_it_is() {
    let place = pod(1 << 40, None);
    let objects = join(&place);
    let before = taken(&objects);
    assert!(before < 512 * MIB, "{before} bytes for nothing");
    objects.put(b"key", &value(1, 1000)).unwrap();
    assert!(taken(&objects) < before + 16 * MIB);
    assert!(check_value(1, &read(&objects, b"key")).is_ok());
    objects.leave().unwrap();
}

#[test]
fn memory_comes_with_objects_and_goes_with_them() {
    let place = pod(256 * MIB, None);
    let objects = join(&place);
    let before = taken(&objects);
    for key in 0..20_000u64 {
        objects.put(&key.to_le_bytes(), &value(key, 3000)).unwrap();
    }
    let filled = taken(&objects);
    assert!(filled >= before + 20_000 * 3000, "{before} and {filled}");
    assert!(filled < before + 20_000 * 3500, "{before} and {filled}");
    for key in 0..20_000u64 {
        assert!(objects.delete(&key.to_le_bytes()).unwrap());
    }
    settle(&objects);
    let after = taken(&objects);
    assert!(after < before + 4 * MIB, "{before}, {filled}, and {after} when all are gone");
    assert!(objects.stats().given_back > 0);
    objects.leave().unwrap();
}

/// A large chunk takes memory for what is in it.
#[test]
fn a_large_chunk_takes_little_for_a_small_object() {
    let place = pod(1024 * MIB, Some(64 * MIB));
    let objects = join(&place);
    let before = taken(&objects);
    objects.put(b"small", b"value").unwrap();
    objects.put(b"larger", &value(3, 5000)).unwrap();
    assert!(taken(&objects) <= before + 8 * MIB);
    let large = value(7, 16 << 20);
    objects.put(b"large", &large).unwrap();
    let view = objects.view(b"large").unwrap().unwrap();
    assert!(view.is_contiguous());
    assert!(matches!(view.bytes(), std::borrow::Cow::Borrowed(bytes) if bytes == &large[..]));
    view.end().unwrap();
    let census = census(&ObjectArea::first(objects.area().pod()).unwrap());
    assert_eq!(census.sizes.len(), 3);
    objects.leave().unwrap();
}

/// Sizes change all the time, in a pod that is reopened in between: each value is what was put, and
/// the pod takes not much more than what is in it.
#[test]
fn memory_follows_sizes_that_change() {
    let place = pod(256 * MIB, None);
    let mut random = SmallRng::seed_from_u64(57);
    let mut known = BTreeMap::<u64, usize>::new();
    for round in 0..6 {
        let objects = join(&place);
        for (key, &bytes) in &known {
            let found = read(&objects, &key.to_le_bytes());
            assert!(found.len() == bytes && check_value(*key, &found).is_ok(), "{key}");
        }
        let largest = [200, 2000, 20_000, 200_000, 1_000_000, 700][round];
        for _ in 0..2000 {
            let key = random.random_range(0..400u64);
            let bytes = random.random_range(64..largest);
            if random.random_range(0..4) == 0 {
                let there = known.remove(&key).is_some();
                assert_eq!(objects.delete(&key.to_le_bytes()).unwrap(), there);
            } else if known.values().sum::<usize>() + bytes < 100 << 20 {
                objects.put(&key.to_le_bytes(), &value(key, bytes)).unwrap();
                known.insert(key, bytes);
            }
            objects.tick().unwrap();
        }
        settle(&objects);
        let (taken, held) = (taken(&objects), known.values().sum::<usize>() as u64);
        // Slots of an eighth of a chunk and more are fractions of it; each size may have a chunk
        // that is not full.
        assert!(taken < 2 * held + 96 * MIB, "round {round}: {taken} bytes for {held}");
        objects.leave().unwrap();
    }
}
