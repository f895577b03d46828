//! The store in mapped memory, over two mappings of one file.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tombolo_kv::{Change, Entry, Error, Removal, Store, Transaction};
use tombolo_memory::Mapped;
use tombolo_objects::{IndexLimits, Objects, Options};
use tombolo_pod::{PodSpec, open};
use tombolo_sharing::{CreateOptions, create};

struct Hosts {
    stores: [Store<Objects<Mapped>>; 2],
    _folder: tempfile::TempDir,
}

fn two_hosts() -> Hosts {
    let folder = tempfile::tempdir().unwrap();
    let spec = PodSpec::path(folder.path().join("pod"));
    let (scr_bytes, lnr_bytes) = (Some(1 << 20), Some(16 << 20));
    create(&spec, CreateOptions { scr_bytes, lnr_bytes, ..Default::default() }).unwrap();
    let first = Store::join(open(&spec).unwrap(), Options::default()).unwrap();
    let second = thread::scope(|scope| {
        let joining =
            scope.spawn(|| Store::join(open(&spec).unwrap(), Options::default()).unwrap());
        while !joining.is_finished() {
            first.tick().unwrap();
        }
        joining.join().unwrap()
    });
    Hosts { stores: [first, second], _folder: folder }
}

/// Runs `body` while a thread does the background work of `store`.
fn ticking(store: &Store<Objects<Mapped>>, body: impl FnOnce()) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.tick().unwrap();
                thread::yield_now();
            }
        });
        body();
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_one_puts_the_other_gets() {
    let hosts = two_hosts();
    let [first, second] = &hosts.stores;
    for bytes in [0, 1, 100, 1 << 20] {
        let entry = Entry::lasting(vec![7; bytes]);
        first.put(b"key", &entry).unwrap();
        assert_eq!(second.get(b"key").unwrap(), Some(entry));
    }
    assert_eq!(second.key_count().unwrap(), 1);
    assert!(second.delete(b"key").unwrap());
    assert!(!first.delete(b"key").unwrap());
    assert_eq!(first.get(b"key").unwrap(), None);
}

#[test]
fn what_is_put_together_lasts() {
    let hosts = two_hosts();
    let [first, second] = &hosts.stores;
    let passing = Entry { value: b"old".to_vec(), deadline_ms: Some(first.now_ms() + 3_600_000) };
    first.put(b"1", &passing).unwrap();
    let pairs: Vec<_> = (0..40).map(|n: u32| (n.to_string(), vec![7; n as usize])).collect();
    for _ in 0..2 {
        assert!(first.put_each(&pairs).iter().all(Result::is_ok));
        for (key, value) in &pairs {
            let found = second.get(key.as_bytes()).unwrap();
            assert_eq!(found, Some(Entry::lasting(value.clone())));
        }
    }
    assert_eq!(second.key_count().unwrap(), 40);
}

#[test]
fn room_that_is_there_is_used_again() {
    let hosts = two_hosts();
    let [first, second] = &hosts.stores;
    let long = Entry { value: vec![7; 3000], deadline_ms: Some(first.now_ms() + 3_600_000) };
    first.put(b"long", &long).unwrap();
    first.put(b"short", &Entry::lasting("short")).unwrap();
    let mut entry = Entry::default();
    assert!(second.get_into(b"long", &mut entry).unwrap());
    assert_eq!(entry, long);
    let room = entry.value.as_ptr();
    assert!(!second.get_into(b"none", &mut entry).unwrap());
    for _ in 0..3 {
        assert!(second.get_into(b"short", &mut entry).unwrap());
        assert_eq!(entry, Entry::lasting("short"));
        assert!(second.get_into(b"long", &mut entry).unwrap());
        assert_eq!((&entry, entry.value.as_ptr()), (&long, room));
    }
}

#[test]
fn a_passed_deadline_is_as_good_as_a_delete() {
    let hosts = two_hosts();
    let [first, second] = &hosts.stores;
    let entry =
        |wait_ms: u64| Entry { value: b"v".to_vec(), deadline_ms: Some(first.now_ms() + wait_ms) };
    first.put(b"later", &entry(100_000)).unwrap();
    assert!(second.get(b"later").unwrap().is_some());
    for key in [b"a", b"b", b"c"] {
        first.put(key, &entry(5)).unwrap();
    }
    thread::sleep(Duration::from_millis(10));
    assert_eq!(second.get(b"a").unwrap(), None);
    assert!(!second.delete(b"b").unwrap());
    second
        .update(b"c", |before| {
            assert_eq!(before, None);
            Change::Put(Entry::lasting("again"))
        })
        .unwrap();
    assert_eq!(first.get(b"c").unwrap(), Some(Entry::lasting("again")));
}

#[test]
fn what_memory_errors_have_taken_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pod");
    let spec = PodSpec::path(&path);
    let (scr_bytes, lnr_bytes) = (Some(1 << 20), Some(16 << 20));
    create(&spec, CreateOptions { scr_bytes, lnr_bytes, ..Default::default() }).unwrap();
    let store: Store<Objects<Mapped>> =
        Store::join(open(&spec).unwrap(), Options::default()).unwrap();
    let keys: Vec<[u8; 4]> = (0..4000_u32).map(u32::to_le_bytes).collect();
    let entry = |key: &[u8; 4]| Entry::lasting(key.repeat(250));
    keys.iter().for_each(|key| store.put(key, &entry(key)).unwrap());
    // From here on the kernel answers with SIGBUS where its end was.
    let bytes = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes / 4).unwrap();

    let mut missed = 0;
    let each = |keys: &[[u8; 4]], missed: &mut u64| {
        let (mut items, mut found) = (Vec::new(), Vec::new());
        store.get_each(keys, &mut items, |value| found.push(value.map(<[u8]>::to_vec))).unwrap();
        for (key, value) in keys.iter().zip(found) {
            assert!(value.is_none() || value == Some(entry(key).value), "what is there is whole");
            *missed += u64::from(value.is_none());
        }
    };
    // Some by themselves, some together, some without looking.
    for key in &keys[..1000] {
        let found = store.get(key).unwrap();
        assert!(found.is_none() || found == Some(entry(key)), "what is there is whole");
        missed += u64::from(found.is_none());
    }
    keys[1000..2000].chunks(20).for_each(|keys| each(keys, &mut missed));
    for key in &keys[2000..2500] {
        missed += u64::from(!store.delete(key).unwrap());
    }
    // A transaction that writes what it has not read does not stop at what is lost.
    for keys in keys[2500..3000].chunks(2) {
        let put =
            |tx: &mut Transaction<'_, _>| keys.iter().try_for_each(|key| tx.put(key, entry(key)));
        match store.transaction(put) {
            Ok(()) | Err(Error::Objects(tombolo_sharing::Error::LnrFull { .. })) => {}
            Err(error) => panic!("{error}"),
        }
    }
    for key in &keys[3000..] {
        store.update(key, |before| before.map_or(Change::Keep, Change::Put)).unwrap();
    }
    assert!(missed > 0 && missed < 3000, "{missed} of 3000");
    assert!(store.objects().stats().poisoned >= missed);
    assert!(store.objects().usage().lnr_poisoned_bytes > 0);
    keys.chunks(20).for_each(|keys| each(keys, &mut missed));
}

#[test]
fn expired_values_give_their_room_back_without_being_asked_for() {
    let hosts = two_hosts();
    let [first, second] = &hosts.stores;
    let told = Arc::new(Mutex::new(Vec::new()));
    for store in [first, second] {
        let told = told.clone();
        store.on_removal(Arc::new(move |removal, key| {
            told.lock().unwrap().push((removal, key.to_vec()));
        }));
    }
    ticking(second, || {
        for number in 0..1000_u32 {
            let entry = Entry { value: vec![1; 100], deadline_ms: Some(first.now_ms() + 5) };
            first.put(&number.to_le_bytes(), &entry).unwrap();
        }
        first.put(b"lasting", &Entry::lasting("x")).unwrap();
        first.objects().put(b"no value", b"an object that no store put").unwrap();
        while first.key_count().unwrap() > 2 {
            thread::yield_now();
        }
    });
    let told = told.lock().unwrap();
    assert!(told.iter().all(|(removal, _)| *removal == Removal::Expired));
    let keys: BTreeSet<_> = told.iter().map(|(_, key)| key).collect();
    assert_eq!((told.len(), keys.len()), (1000, 1000), "each key, by the host that has removed it");
    assert_eq!(first.get(b"lasting").unwrap(), Some(Entry::lasting("x")));
    assert!(matches!(first.get(b"no value"), Err(Error::NotAValue)));
    first.objects().put(b"no value", b"short").unwrap();
    assert!(matches!(first.get(b"no value"), Err(Error::NotAValue)));
}

/// One step of the walk finds twice as many keys as a tick is to look at.
#[test]
fn a_walk_that_finds_nothing_expired_keeps_its_pace() {
    let folder = tempfile::tempdir().unwrap();
    let spec = PodSpec::path(folder.path().join("pod"));
    let (scr_bytes, lnr_bytes) = (Some(1 << 20), Some(16 << 20));
    create(&spec, CreateOptions { scr_bytes, lnr_bytes, ..Default::default() }).unwrap();
    let index = IndexLimits { segment_buckets: 1024, ..Default::default() };
    let options = Options { index, ..Default::default() };
    let store: Store<Objects<Mapped>> = Store::join(open(&spec).unwrap(), options).unwrap();
    for number in 0..5000_u32 {
        store.put(&number.to_le_bytes(), &Entry::lasting("x")).unwrap();
    }
    let reads = || store.objects().stats().reads;
    let before = reads();
    (0..400).for_each(|_| store.tick().unwrap());
    let looked_at = reads() - before;
    assert!((400 * 4..=400 * 9).contains(&looked_at), "{looked_at} keys in 400 ticks");
}

#[test]
fn a_walk_shows_what_has_not_expired_and_clear_leaves_nothing() {
    let hosts = two_hosts();
    let [first, second] = &hosts.stores;
    ticking(second, || {
        for number in 0..300_u32 {
            let deadline_ms = (number % 3 == 0).then_some(1);
            let entry = Entry { value: vec![0; 10], deadline_ms };
            first.put(&number.to_le_bytes(), &entry).unwrap();
        }
        let mut keys = Vec::new();
        let mut cursor = 0;
        loop {
            cursor = first.scan(cursor, 10, |key| keys.push(key.to_vec())).unwrap();
            if cursor == 0 {
                break;
            }
        }
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 200);
        first.clear().unwrap();
    });
    assert_eq!(second.key_count().unwrap(), 0);
}

#[test]
fn a_view_stays_as_it_is() {
    let hosts = two_hosts();
    let [first, second] = &hosts.stores;
    for bytes in [1, 100, 100 << 10, 3 << 20] {
        first.put(b"key", &Entry::lasting(vec![7; bytes])).unwrap();
        let view = second.view(b"key").unwrap().unwrap();
        first.put(b"key", &Entry::lasting(vec![8; bytes])).unwrap();
        assert_eq!(second.get(b"key").unwrap(), Some(Entry::lasting(vec![8; bytes])));
        assert!(first.delete(b"key").unwrap());
        first.put(b"other", &Entry::lasting(vec![9; bytes])).unwrap();
        assert_eq!(*view.bytes(), vec![7; bytes]);
        if bytes > 4096 {
            let refused = second.leave().unwrap_err().to_string();
            assert!(refused.contains("still views 1 objects"), "{refused}");
        }
        view.end().unwrap();
    }
    assert!(second.view(b"key").unwrap().is_none());
    first.put(b"key", &Entry { value: vec![7; 100 << 10], deadline_ms: Some(1) }).unwrap();
    assert!(second.view(b"key").unwrap().is_none());
}

#[test]
fn a_transaction_sees_its_own_changes_and_others_see_all_or_none() {
    let hosts = two_hosts();
    let [first, second] = &hosts.stores;
    first.put(b"a", &Entry::lasting("1")).unwrap();
    first.put(b"b", &Entry::lasting("2")).unwrap();
    let moved = first.transaction(|tx| {
        let a = tx.get(b"a")?.unwrap();
        assert!(tx.delete(b"a")?);
        assert!(!tx.delete(b"a")?);
        tx.put(b"", a.clone())?;
        assert_eq!(tx.get(b"")?, Some(a));
        assert!(tx.expire(b"b", Some(u64::MAX))?);
        assert_eq!(second.get(b"a").unwrap().unwrap().value, b"1");
        Ok::<_, Error>(tx.get(b"a")?.is_none())
    });
    assert!(moved.unwrap());
    assert_eq!(second.get(b"a").unwrap(), None);
    assert_eq!(second.get(b"").unwrap(), Some(Entry::lasting("1")));
    assert_eq!(second.deadline(b"b").unwrap(), Some(Some(u64::MAX)));
    let refused = second.transaction(|tx| {
        tx.put(b"c", Entry::lasting("3"))?;
        tx.put(&[7; 2000], Entry::lasting("too long a key"))
    });
    assert!(matches!(refused, Err(Error::Objects(_))));
    assert_eq!(first.get(b"c").unwrap(), None);
}

#[test]
fn a_transaction_runs_again_when_others_were_in_the_way() {
    let hosts = two_hosts();
    let [first, second] = &hosts.stores;
    let mut runs = 0;
    let seen = first.transaction(|tx| {
        runs += 1;
        let seen = tx.get(b"seen")?;
        if runs < 3 {
            second.put(b"seen", &Entry::lasting(runs.to_string())).unwrap();
        }
        tx.put(b"copy", seen.clone().unwrap_or_default())?;
        tx.put(b"other", Entry::lasting("x"))?;
        Ok::<_, Error>(seen.map(|entry| entry.value))
    });
    assert_eq!((seen.unwrap(), runs), (Some(b"2".to_vec()), 3));
    assert_eq!(second.get(b"copy").unwrap(), Some(Entry::lasting("2")));
}

#[test]
fn a_watched_key_changes_when_it_is_put_removed_or_expires() {
    let hosts = two_hosts();
    let [first, second] = &hosts.stores;
    let soon = || Some(first.now_ms() + 40);
    let attempt = |watched: &[_]| {
        let put = |tx: &mut tombolo_kv::Transaction<'_, _>| tx.put(b"done", Entry::lasting("1"));
        first.transaction_if(watched, put).unwrap().is_some()
    };
    let watch = || [first.watch(b"a").unwrap()];
    let changes: [&dyn Fn(); 3] = [
        &|| second.put(b"a", &Entry::lasting("1")).unwrap(),
        &|| second.put(b"a", &Entry { value: b"1".to_vec(), deadline_ms: soon() }).unwrap(),
        &|| thread::sleep(Duration::from_millis(80)),
    ];
    for change in changes {
        assert!(attempt(&watch()));
        let watched = watch();
        change();
        assert!(!attempt(&watched));
    }
    // It was gone when it was watched, and is still, however often somebody removes it.
    let watched = watch();
    second.delete(b"a").unwrap();
    assert!(attempt(&watched));
}

/// A client that watched a key without a value read the one that it had for a while, and its
/// transaction was done: money came from nowhere.
#[test]
fn a_watched_key_without_a_value_has_changed_if_it_has_none_again() {
    let hosts = two_hosts();
    let [first, second] = &hosts.stores;
    let watched = [first.watch(b"a").unwrap()];
    second.put(b"a", &Entry::lasting("9")).unwrap();
    assert_eq!(first.get(b"a").unwrap(), Some(Entry::lasting("9")));
    second.delete(b"a").unwrap();
    assert!(first.has_changed(&watched).unwrap());
    let put = |tx: &mut tombolo_kv::Transaction<'_, _>| tx.put(b"a", Entry::lasting("10"));
    assert_eq!(first.transaction_if(&watched, put).unwrap(), None);
    assert_eq!(second.get(b"a").unwrap(), None);
    let watched = [first.watch(b"a").unwrap()];
    assert_eq!(first.transaction_if(&watched, put).unwrap(), Some(()));
}

/// A value that expires while a transaction runs has not been there.
#[test]
fn what_a_transaction_has_read_has_not_expired_by_its_end() {
    let hosts = two_hosts();
    let [first, _] = &hosts.stores;
    let deadline_ms = first.now_ms() + 40;
    let entry = Entry { value: b"1".to_vec(), deadline_ms: Some(deadline_ms) };
    first.put(b"a", &entry).unwrap();
    let mut runs = 0;
    let found = first.transaction(|tx| {
        runs += 1;
        let found = tx.get(b"a")?.is_some();
        while found && first.now_ms() < deadline_ms + 5 {
            thread::yield_now();
        }
        tx.put(b"b", Entry::lasting("b"))?;
        tx.put(b"c", Entry::lasting("c"))?;
        Ok::<_, Error>(found)
    });
    // One run, if the value expired before it began.
    assert!(!found.unwrap() && runs <= 2, "{runs} runs");
}
