//! Members come and go, as embedders use them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tombolo::{CreateOptions, Entry, Error, Objects, PodError, Store};
use tombolo_memory::in_child;

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

/// The pod of which [`a_process_that_is_killed`] is a host.
const POD: &str = "TOMBOLO_TEST_POD";

/// A host in a process of its own, which the test below starts. It does nothing otherwise.
#[test]
fn a_process_that_is_killed() {
    let Ok(spec) = std::env::var(POD) else { return };
    let host = Objects::join(&spec).unwrap();
    host.put(b"killed", b"value").unwrap();
    println!("\nready");
    thread::sleep(Duration::from_secs(600));
}

/// The documentation said that the pod has to be created anew then.
#[test]
fn a_pod_outlives_processes_that_are_killed() {
    let place = pod();
    let kill_one = || {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_that_is_killed", "--nocapture"])
            .env(POD, &place.spec)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let ready = lines.map_while(Result::ok).any(|line| line == "ready");
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(ready, "it has joined");
    };
    let mut value = Vec::new();
    {
        let survivor = Objects::join(&place.spec).unwrap();
        kill_one();
        assert!(survivor.read(b"killed", &mut value).unwrap().is_some());
        survivor.put(b"killed", b"by another").unwrap();
    }
    kill_one();
    let next = Objects::join(&place.spec).unwrap();
    assert!(next.read(b"killed", &mut value).unwrap().is_some());
    assert_eq!(value, b"value");
    next.put(b"killed", b"by the next").unwrap();
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

/// A child of `fork()` took itself for its parent's host: entries of both were in one segment of
/// the log, which then was full for ever.
#[test]
fn a_child_of_fork_has_no_place_in_the_pod() {
    let place = pod();
    let parent = Store::join(&place.spec).unwrap();
    let put = |store: &Store, n: u32| {
        store.put(&(n % 1000).to_le_bytes(), &Entry::lasting(n.to_le_bytes().to_vec()))
    };
    (0..1000).for_each(|n| put(&parent, n).unwrap());
    let is_told = |error: &dyn std::fmt::Display| error.to_string().contains("was forked from");
    for round in 0..3 {
        let fine = in_child(|| {
            let key = 7u32.to_le_bytes();
            let mut told = (0..100).all(|n| put(&parent, n).is_err_and(|error| is_told(&error)));
            told &= parent.get(&key).is_err_and(|error| is_told(&error));
            told &= parent.delete(&key).is_err_and(|error| is_told(&error));
            told &=
                parent.put(b"new", &Entry::lasting(vec![1])).is_err_and(|error| is_told(&error));
            told &= parent.key_count().is_err_and(|error| is_told(&error));
            // It may be a host itself.
            let own = Store::join(&place.spec).unwrap();
            let value = own.get(&key).unwrap().unwrap().value;
            own.put(b"child", &Entry::lasting(value)).unwrap();
            own.leave().unwrap();
            told
        });
        assert!(fine.unwrap(), "in round {round}");
        // More than the log has room for.
        for n in 0..20_000 {
            put(&parent, n).unwrap();
            parent.delete(&(n % 1000).to_le_bytes()).unwrap();
        }
        (0..1000).for_each(|n| put(&parent, n).unwrap());
        assert_eq!(parent.get(b"child").unwrap().unwrap().value, 7u32.to_le_bytes());
    }
}

#[test]
fn a_child_of_fork_may_drop_what_it_has_of_its_parent() {
    let place = pod();
    let parent = Store::join(&place.spec).unwrap();
    parent.put(b"key", &Entry::lasting(vec![1])).unwrap();
    let mut held = Some(parent);
    let fine = in_child(|| {
        let left = held.take().unwrap().leave();
        left.is_err_and(|error| error.to_string().contains("was forked from"))
    });
    assert!(fine.unwrap());
    let parent = held.unwrap();
    assert_eq!(parent.get(b"key").unwrap().unwrap().value, [1]);
    // Of its lock nothing is left with children that live on.
    let pod = tombolo::open(&place.spec).unwrap();
    let stay = pod.stay_of(parent.objects().seat().host());
    assert!(pod.is_seated(stay) && !pod.has_ended(stay));
    parent.leave().unwrap();
}
