//! Versions, views and rooms of a store that are kept, and what becomes of them when hosts end.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tombolo::{CreateOptions, Entry, Store, StoreError};

fn pod(bytes: u64) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pod");
    tombolo::create(&path, CreateOptions::sized(bytes)).unwrap();
    (folder, path)
}

#[test]
fn a_value_changes_only_from_the_version_that_was_seen() {
    let (_folder, path) = pod(16 << 20);
    let (one, other) = (Store::join(&path).unwrap(), Store::join(&path).unwrap());
    let first = one.add(b"key", &Entry::lasting("one")).unwrap().unwrap();
    assert!(other.add(b"key", &Entry::lasting("two")).unwrap().is_none());
    let second = other.put_if_version(b"key", first, &Entry::lasting("two")).unwrap().unwrap();
    assert!(one.put_if_version(b"key", first, &Entry::lasting("three")).unwrap().is_none());
    let (entry, version) = one.get_versioned(b"key").unwrap().unwrap();
    assert_eq!((&entry.value[..], version), (&b"two"[..], second));
    assert!(!one.delete_if_version(b"key", first).unwrap());
    assert!(one.delete_if_version(b"key", second).unwrap());
    assert!(one.put_if_version(b"key", second, &Entry::lasting("four")).unwrap().is_none());
    // An expired value is not there, and in nobody's way.
    one.put(b"old", &Entry { value: b"old".into(), deadline_ms: Some(1) }).unwrap();
    assert!(other.add(b"old", &Entry::lasting("new")).unwrap().is_some());
    assert_eq!(one.exist(&[b"old", b"key"]).unwrap(), [true, false]);
}

#[test]
fn a_view_keeps_its_host_and_shows_what_it_did() {
    let (_folder, path) = pod(64 << 20);
    let (one, other) = (Store::join(&path).unwrap(), Store::join(&path).unwrap());
    for bytes in [10, 100_000, 5 << 20] {
        one.put(b"key", &Entry::lasting(vec![1; bytes])).unwrap();
        let view = one.view_owned(b"key").unwrap().unwrap();
        other.put(b"key", &Entry::lasting(vec![2; bytes])).unwrap();
        let seen = std::thread::spawn(move || (view.len(), view.iter().all(|&byte| byte == 1)));
        assert_eq!(seen.join().unwrap(), (bytes, true));
    }
    let view = one.view_owned(b"key").unwrap().unwrap();
    assert_eq!(one.keepers(), 2);
    one.leave().unwrap();
    other.delete(b"key").unwrap();
    assert!(view.iter().all(|&byte| byte == 2));
    // The host leaves with its last view.
    view.end().unwrap();
    other.leave().unwrap();
    Store::join(&path).unwrap().leave().unwrap();
}

#[cfg(feature = "bytes")]
#[test]
fn a_view_turns_into_bytes() {
    let (_folder, path) = pod(16 << 20);
    let store = Store::join(&path).unwrap();
    store.put(b"key", &Entry::lasting(vec![7; 100_000])).unwrap();
    let view = store.view_owned(b"key").unwrap().unwrap();
    let place = view.as_ptr();
    let bytes = bytes::Bytes::from(view);
    assert!(bytes.as_ptr() == place && bytes.slice(50_000..).iter().all(|&byte| byte == 7));
    assert_eq!(store.keepers(), 2);
}

#[test]
fn a_room_is_a_value_once_it_is_published() {
    let (_folder, path) = pod(64 << 20);
    let (one, other) = (Store::join(&path).unwrap(), Store::join(&path).unwrap());
    for bytes in [0, 1, 1000, 300_000, 5 << 20] {
        let mut room = one.reserve_owned(b"key", bytes).unwrap();
        assert_eq!(room.len(), bytes);
        let value: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        match room.bytes_mut() {
            Some(into) if bytes < 300_000 => into.copy_from_slice(&value),
            _ => value.chunks(70_001).enumerate().for_each(|(part, piece)| {
                room.write(70_001 * part as u64, piece).unwrap();
            }),
        }
        assert!(room.write(bytes, b"behind").is_err());
        assert_eq!(other.get(b"key").unwrap(), None);
        let version = room.publish_new().unwrap().unwrap();
        let (entry, found) = other.get_versioned(b"key").unwrap().unwrap();
        assert!(entry.value == value && found == version, "{bytes} bytes");
        assert!(one.reserve_owned(b"key", bytes).unwrap().publish_new().unwrap().is_none());
        let mut room = other.reserve_owned(b"key", 3).unwrap();
        room.write(0, b"new").unwrap();
        room.publish().unwrap();
        assert_eq!(one.get(b"key").unwrap().unwrap().value, b"new");
        assert!(one.delete(b"key").unwrap());
    }
}

#[test]
fn long_values_go_and_come_with_and_without_views_and_rooms() {
    let (_folder, path) = pod(64 << 20);
    let options = tombolo::Options { views: 1, ..Default::default() };
    let store = Store::join_pod(tombolo::open(&path).unwrap(), options).unwrap();
    let values: Vec<Vec<u8>> = [5, 40_000, 300_000, 5 << 20]
        .into_iter()
        .map(|bytes: usize| (0..bytes).map(|at| (at % 253) as u8).collect())
        .collect();
    let keys = ["a", "b", "c", "d"];
    let pairs: Vec<_> = keys.iter().zip(&values).collect();
    for _ in 0..2 {
        assert!(store.put_many(&pairs).iter().all(Result::is_ok));
    }
    let check = || {
        let mut rooms: Vec<Vec<u8>> = values.iter().map(|value| vec![0; value.len() + 1]).collect();
        let mut buffers: Vec<&mut [u8]> = rooms.iter_mut().map(|room| &mut room[..]).collect();
        let found = store.get_many_to(&keys, &mut buffers).unwrap();
        for ((room, value), length) in rooms.iter().zip(&values).zip(found) {
            assert_eq!(length, Some(value.len() as u64));
            assert!(room.starts_with(value) && room.ends_with(&[0]));
        }
        assert_eq!(store.get_to(b"d", &mut [0; 40_000]).unwrap(), Some(5 << 20));
    };
    check();
    let view = store.view_owned(b"d").unwrap().unwrap();
    check();
    drop(view);
    let rooms: Vec<_> =
        std::iter::from_fn(|| store.reserve_owned(b"room", 10).ok()).take(100).collect();
    assert!(store.put_many(&pairs).iter().all(Result::is_ok));
    check();
    drop(rooms);
}

#[test]
fn rooms_are_few_and_leave_no_trace() {
    let (_folder, path) = pod(16 << 20);
    let store = Store::join(&path).unwrap();
    let before = store.objects().usage().lnr_used_bytes;
    let mut rooms = Vec::new();
    let most = loop {
        match store.reserve_owned(b"key", 1000) {
            Ok(room) => rooms.push(room),
            Err(StoreError::Objects(tombolo::Error::TooManyReservations { most })) => break most,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(rooms.len(), most as usize);
    store.put(b"another", &Entry::lasting("is put all the same")).unwrap();
    assert!(matches!(
        store.objects().leave(),
        Err(tombolo::Error::StillReserving { rooms }) if rooms == most
    ));
    rooms.clear();
    store.delete(b"another").unwrap();
    assert_eq!(store.objects().usage().lnr_used_bytes, before);
    assert!(store.reserve_owned(b"key", 1000).is_ok());
}

/// The room that a killed process had is free again: as often as there is room for once.
#[test]
fn room_of_a_killed_process_is_freed() {
    if let Ok(path) = std::env::var("TOMBOLO_TEST_ROOM") {
        let store = Store::join(&path).unwrap();
        let mut rooms = Vec::new();
        while let Ok(mut room) = store.reserve_owned(b"key", 4 << 20) {
            room.write(0, &[7; 1 << 20]).unwrap();
            rooms.push(room);
        }
        println!("{} rooms", rooms.len());
        std::thread::sleep(Duration::from_secs(600));
    }
    let (_folder, path) = pod(32 << 20);
    let store = Store::join(&path).unwrap();
    for _ in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "room_of_a_killed_process_is_freed", "--nocapture"])
            .env("TOMBOLO_TEST_ROOM", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines.find(|line| line.as_ref().unwrap().ends_with(" rooms")).unwrap().unwrap();
        let rooms: u32 =
            said.split(' ').next().unwrap().rsplit("... ").next().unwrap().parse().unwrap();
        assert!(rooms >= 4, "{said}");
        child.kill().unwrap();
        child.wait().unwrap();
        let since = Instant::now();
        let value = vec![1; 20 << 20];
        while store.put(b"large", &Entry::lasting(value.clone())).is_err() {
            assert!(since.elapsed() < Duration::from_secs(60), "the room is not freed");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(store.get(b"key").unwrap(), None);
        store.delete(b"large").unwrap();
    }
}
