//! Keys that cannot be stored, far deadlines, parts of values, and room that expired values make.

use std::thread;
use std::time::Duration;

use tombolo_kv::{Change, DeadlineChange, Entry, Found, Stat, Store};
use tombolo_memory::Mapped;
use tombolo_objects::{Objects, Options};
use tombolo_pod::{PodSpec, open};
use tombolo_sharing::{CreateOptions, create};

struct Host {
    store: Store<Objects<Mapped>>,
    _folder: tempfile::TempDir,
}

fn host() -> Host {
    let folder = tempfile::tempdir().unwrap();
    let spec = PodSpec::path(folder.path().join("pod"));
    let (scr_bytes, lnr_bytes) = (Some(1 << 20), Some(16 << 20));
    create(&spec, CreateOptions { scr_bytes, lnr_bytes, ..Default::default() }).unwrap();
    Host { store: Store::join(open(&spec).unwrap(), Options::default()).unwrap(), _folder: folder }
}

/// A key of more than the longest length used to be an error for every operation, also for those
/// that only look, and for others of the same request.
#[test]
fn keys_that_cannot_be_stored_are_misses() {
    let Host { store, _folder } = host();
    let long = [b'k'; 2000];
    store.put(b"a", &Entry::lasting("1")).unwrap();
    assert_eq!(store.get(&long).unwrap(), None);
    assert_eq!(store.deadline(&long).unwrap(), None);
    assert_eq!(store.stat(&long).unwrap(), None);
    assert!(store.view(&long).unwrap().is_none());
    assert!(!store.delete(&long).unwrap());
    assert!(!store.update_deadline(&long, |_| DeadlineChange::Delete).unwrap());
    store.update(&long, |before| before.map_or(Change::Keep, Change::Put)).unwrap();
    assert!(store.update(&long, |_| Change::Put(Entry::default())).is_err());
    assert!(store.put(&long, &Entry::default()).is_err());
    let mut found = Vec::new();
    let keys: [&[u8]; 3] = [&long, b"a", &long];
    store.get_each(&keys, &mut Vec::new(), |value| found.push(value.map(<[u8]>::to_vec))).unwrap();
    assert_eq!(found, [None, Some(b"1".to_vec()), None]);
}

/// An empty key used to be refused.
#[test]
fn an_empty_key_is_a_key() {
    let Host { store, _folder } = host();
    let keys: [&[u8]; 4] = [b"", b"\xff\0kv", b"\xff\0kvx", b"x"];
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(store.get(key).unwrap(), None);
        store.put(key, &Entry::lasting(vec![number as u8])).unwrap();
    }
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(store.get(key).unwrap(), Some(Entry::lasting(vec![number as u8])));
        assert_eq!(store.stat(key).unwrap(), Some(Stat { value_bytes: 1, deadline_ms: None }));
    }
    let pairs: Vec<_> = keys.iter().map(|key| (*key, b"new")).collect();
    assert!(store.put_each(&pairs).iter().all(Result::is_ok));
    let mut values = Vec::new();
    let mut visit = |value: Option<&[u8]>| values.push(value.map(<[u8]>::to_vec));
    store.get_each(&keys, &mut Vec::new(), &mut visit).unwrap();
    assert_eq!(values, vec![Some(b"new".to_vec()); 4]);
    let (mut walked, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = store.scan(cursor, 10, |key| walked.push(key.to_vec())).unwrap();
        if cursor == 0 {
            break;
        }
    }
    walked.sort();
    walked.dedup();
    assert_eq!(walked, [&b""[..], b"x", b"\xff\0kv", b"\xff\0kvx"]);
    store.update(b"", |before| before.map_or(Change::Keep, |_| Change::Delete)).unwrap();
    assert!(!store.delete(b"").unwrap());
    store.clear().unwrap();
    assert_eq!(store.key_count().unwrap(), 0);
}

/// Deadlines of more than 48 bits used to be cut to those.
#[test]
fn deadlines_may_be_far() {
    let Host { store, _folder } = host();
    let far = Some(9_223_372_036_854_770_000);
    for value in [vec![], vec![7; 10], vec![7; 100_000]] {
        let stat = |deadline_ms| Some(Stat { value_bytes: value.len() as u64, deadline_ms });
        let entry = Entry { value: value.clone(), deadline_ms: far };
        store.put(b"k", &entry).unwrap();
        assert_eq!(store.get(b"k").unwrap().as_ref(), Some(&entry));
        assert_eq!(store.stat(b"k").unwrap(), stat(far));
        assert_eq!(store.deadline(b"k").unwrap(), Some(far));
        assert_eq!(store.view(b"k").unwrap().unwrap().bytes(), value);
        store
            .get_each(&[b"k"], &mut Vec::new(), |found| assert_eq!(found, Some(&value[..])))
            .unwrap();
        assert_eq!(store.get_range(b"k", |bytes| 0..bytes).unwrap().as_ref(), Some(&value));
        for deadline in [None, far, Some(1 << 47), far, None] {
            assert!(store.update_deadline(b"k", |_| DeadlineChange::Set(deadline)).unwrap());
            assert_eq!(store.stat(b"k").unwrap(), stat(deadline));
        }
        assert_eq!(store.get(b"k").unwrap(), Some(Entry::lasting(value)));
    }
}

#[test]
fn parts_are_read_and_changed() {
    let Host { store, _folder } = host();
    let stat = |value_bytes, deadline_ms| Some(Stat { value_bytes, deadline_ms });
    assert_eq!(store.get_range(b"k", |_| 0..1).unwrap(), None);
    assert_eq!(store.set_range(b"k", 0, b"x").unwrap(), None);
    for bytes in [10, 100_000_u64] {
        store.put(b"k", &Entry::lasting(vec![b'.'; bytes as usize])).unwrap();
        assert_eq!(store.set_range(b"k", bytes - 3, b"abc").unwrap(), Some(bytes));
        assert_eq!(store.set_range(b"k", bytes - 2, b"abc").unwrap(), None);
        let part = store.get_range(b"k", |length| length - 4..length).unwrap();
        assert_eq!(part.as_deref(), Some(&b".abc"[..]));
        let later = Some(store.now_ms() + 100_000);
        assert!(store.update_deadline(b"k", |_| DeadlineChange::Set(later)).unwrap());
        assert_eq!(store.stat(b"k").unwrap(), stat(bytes, later));
        let keep = |deadline| {
            assert_eq!(deadline, later);
            DeadlineChange::Keep
        };
        assert!(store.update_deadline(b"k", keep).unwrap());
        let mut found = Vec::new();
        store
            .get_each_within(&[&b"k"[..], b"none"], 1000, &mut Vec::new(), |value| {
                found.push(matches!(value, Found::Longer));
            })
            .unwrap();
        assert_eq!(found, [bytes > 1000, false]);
        assert!(store.update_deadline(b"k", |_| DeadlineChange::Delete).unwrap());
        assert_eq!(store.stat(b"k").unwrap(), None);
    }
    let soon = Entry { value: b"v".to_vec(), deadline_ms: Some(store.now_ms() + 5) };
    store.put(b"k", &soon).unwrap();
    thread::sleep(Duration::from_millis(10));
    assert!(!store.update_deadline(b"k", |_| DeadlineChange::Set(None)).unwrap());
    assert_eq!(store.set_range(b"k", 0, b"x").unwrap(), None);
}

/// Values that had expired among many lasting ones stayed until a pod was full.
#[test]
fn expired_values_make_room() {
    let Host { store, _folder } = host();
    let lasting = Entry::lasting(vec![1; 500]);
    (0..10_000).for_each(|n: u32| store.put(format!("lasting{n}").as_bytes(), &lasting).unwrap());
    // Four times what there is room for, and nobody ticks.
    for n in 0..40_000_u32 {
        let deadline_ms = Some(store.now_ms() + 1);
        let value = vec![2; 1000];
        store.put(format!("passing{n}").as_bytes(), &Entry { value, deadline_ms }).unwrap();
    }
    thread::sleep(Duration::from_millis(5));
    for _ in 0..10_000 {
        store.tick().unwrap();
    }
    assert_eq!(store.key_count().unwrap(), 10_000);
    assert_eq!(store.get(b"lasting9999").unwrap(), Some(lasting));
}

#[test]
fn the_room_there_is_is_known() {
    let Host { store, _folder } = host();
    let empty = store.room();
    assert!(empty > 8 << 20, "{empty}");
    store.put(b"k", &Entry::lasting(vec![7; 4 << 20])).unwrap();
    thread::sleep(Duration::from_millis(100));
    let left = store.room();
    assert!(left <= empty - (4 << 20), "{left} of {empty}");
}
