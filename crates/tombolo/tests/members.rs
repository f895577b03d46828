//! Members come and go, as embedders use them.

use std::thread;
use std::time::Duration;

use tombolo::{CreateOptions, Entry, Error, Objects, PodError, Store};

struct Place {
    spec: String,
    _folder: tempfile::TempDir,
}

fn pod() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("pod").to_str().unwrap().to_owned();
    let (scr_bytes, lnr_bytes) = (Some(1 << 20), Some(32 << 20));
    tombolo::create(&spec, CreateOptions { scr_bytes, lnr_bytes, ..Default::default() }).unwrap();
    Place { spec, _folder: folder }
}

#[test]
fn objects_outlive_the_members_that_made_them() {
    let place = pod();
    {
        let first = Objects::join(&place.spec).unwrap();
        first.put(b"key", b"value").unwrap();
        let second = Objects::join(&place.spec).unwrap();
        first.leave().unwrap();
        second.put(b"other", b"too").unwrap();
    }
    let later = Objects::join(&place.spec).unwrap();
    let mut value = Vec::new();
    assert!(later.read(b"key", &mut value).unwrap().is_some());
    assert_eq!(value, b"value");
    assert_eq!(later.object_count().unwrap(), 2);
}

#[test]
fn sixteen_hosts_and_no_more() {
    let place = pod();
    let mut hosts: Vec<Store> = (0..16).map(|_| Store::join(&place.spec).unwrap()).collect();
    let error = Objects::join(&place.spec).err().unwrap();
    assert!(matches!(error, Error::Pod(PodError::Full { hosts: 16, .. })), "{error}");
    for (number, host) in hosts.iter().enumerate() {
        host.put(b"key", &Entry::lasting(vec![number as u8])).unwrap();
        for other in &hosts {
            assert_eq!(other.get(b"key").unwrap().unwrap().value, [number as u8]);
        }
    }
    drop(hosts.pop());
    Objects::join(&place.spec).unwrap();
}

#[test]
fn hosts_that_come_and_go_all_the_time() {
    let place = pod();
    let steady = Store::join(&place.spec).unwrap();
    thread::scope(|scope| {
        for thread in 0..3u8 {
            let spec = &place.spec;
            scope.spawn(move || {
                for round in 0..20u8 {
                    let host = Store::join(spec).unwrap();
                    host.put(&[thread], &Entry::lasting([round])).unwrap();
                    host.leave().unwrap();
                }
            });
        }
    });
    for thread in 0..3 {
        assert_eq!(steady.get(&[thread]).unwrap(), Some(Entry::lasting([19])));
    }
}

#[test]
fn a_member_does_its_background_work_alone() {
    let place = pod();
    let (first, second) = (Store::join(&place.spec).unwrap(), Store::join(&place.spec).unwrap());
    let deadline_ms = Some(first.now_ms() + 1);
    for number in 0..5000_u32 {
        first.put(&number.to_le_bytes(), &Entry { value: vec![1], deadline_ms }).unwrap();
    }
    while second.key_count().unwrap() > 0 {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_is_no_pod_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nothing");
    let error = Objects::join(path.to_str().unwrap()).err().unwrap();
    assert!(error.to_string().contains("create it first"), "{error}");
}
