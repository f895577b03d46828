//! Objects in mapped memory: several hosts, each with its own mapping of one file and with several
//! threads. What this shows beyond the simulator is real sizes, real concurrency inside a host, and
//! the numbers a machine puts to the promises.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use tombolo_memory::Mapped;
use tombolo_objects::saved::{Existing, SavedError, SavedFile};
use tombolo_objects::{Change, Error, Objects, Options, Thresholds};
use tombolo_pod::{PodSpec, open};
use tombolo_sharing::{CreateOptions, ObjectArea, create};
use tombolo_verify::history::Recorder;
use tombolo_verify::linearizability::{Verdict, check};
use tombolo_verify::models::{KeyValue, Operation, Result as Answer};
use tombolo_workloads::{check_value, fill_value};

/// A host whose background work is done by a thread of its own.
struct Host {
    objects: Arc<Objects<Mapped>>,
    running: Arc<AtomicBool>,
    ticker: Option<thread::JoinHandle<()>>,
}

impl Host {
    fn join(spec: &PodSpec) -> Self {
        Self::join_with(spec, Options::default())
    }

    fn join_with(spec: &PodSpec, options: Options) -> Self {
        let objects = Arc::new(Objects::join(open(spec).unwrap(), options).unwrap());
        let running = Arc::new(AtomicBool::new(true));
        let (theirs, flag) = (objects.clone(), running.clone());
        let ticker = thread::spawn(move || {
            while flag.load(Ordering::Relaxed) {
                theirs.tick().unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        Self { objects, running, ticker: Some(ticker) }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.running.store(false, Ordering::Relaxed);
        self.ticker.take().unwrap().join().unwrap();
        if !thread::panicking() {
            self.objects.leave().unwrap();
        }
    }
}

struct Place {
    spec: PodSpec,
    _folder: tempfile::TempDir,
}

fn pod(lnr_mib: u64, records: Option<u64>) -> Place {
    sharded_pod(lnr_mib, records, 1)
}

fn sharded_pod(lnr_mib: u64, records: Option<u64>, log_shards: u64) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let spec = PodSpec::path(folder.path().join("pod"));
    let log_shards = Some(log_shards);
    let layout = tombolo_sharing::Options { records, log_shards, ..Default::default() };
    let options = CreateOptions {
        scr_bytes: Some(1 << 20),
        lnr_bytes: Some(lnr_mib << 20),
        layout,
        ..CreateOptions::default()
    };
    create(&spec, options).unwrap();
    Place { spec, _folder: folder }
}

/// A value that shows by itself which write made it, and whether it is whole.
fn value(tag: u64) -> Vec<u8> {
    let mut value = vec![0; [16, 24, 80, 560, 4800, 40_000][(tag % 6) as usize]];
    fill_value(0, tag, &mut value);
    value
}

fn tag(bytes: &[u8]) -> u64 {
    check_value(0, bytes).unwrap()
}

#[test]
fn concurrent_clients_see_one_copy() {
    one_copy_is_seen(&pod(64, Some(4)));
}

#[test]
fn concurrent_clients_see_one_copy_through_a_log_of_shards() {
    one_copy_is_seen(&sharded_pod(64, Some(4), 4));
}

fn one_copy_is_seen(place: &Place) {
    let hosts: Vec<Host> = (0..3).map(|_| Host::join(&place.spec)).collect();
    let recorder: Recorder<u64, Operation<u64>, Answer<u64>> = Recorder::new();
    let tags = AtomicU64::new(1);
    thread::scope(|scope| {
        for client in 0..6 {
            let (host, scribe, tags) = (&hosts[client % 3], recorder.client(client as u32), &tags);
            scope.spawn(move || {
                let mut dice = SmallRng::seed_from_u64(client as u64);
                for _ in 0..3000 {
                    let number = dice.random_range(0..8);
                    let fresh = tags.fetch_add(1, Ordering::Relaxed);
                    let (operation, answer) =
                        (dice.random_range(0..10), format!("key {number}").into_bytes());
                    perform(&host.objects, &scribe, number, &answer, operation, fresh);
                }
            });
        }
    });
    let verdict = check(&KeyValue::default(), &recorder.history(), 10_000_000);
    assert!(matches!(verdict, Verdict::Linearizable { .. }), "{verdict}");
}

fn perform(
    host: &Objects<Mapped>,
    scribe: &tombolo_verify::history::Client<u64, Operation<u64>, Answer<u64>>,
    number: u64,
    key: &[u8],
    choice: u32,
    fresh: u64,
) {
    match choice {
        0..5 => {
            let began = scribe.invoke(number, Operation::Get);
            let mut bytes = Vec::new();
            let found = host.read(key, &mut bytes).unwrap();
            scribe.returned(began, Answer::Value(found.map(|_| tag(&bytes))));
        }
        5..8 => {
            let began = scribe.invoke(number, Operation::Put(fresh));
            host.put(key, &value(fresh)).unwrap();
            scribe.returned(began, Answer::Done);
        }
        8 => {
            let began = scribe.invoke(number, Operation::Delete);
            let was_there = host.delete(key).unwrap();
            scribe.returned(began, Answer::Flag(was_there));
        }
        _ => {
            let began = scribe.invoke(number, Operation::Update(fresh));
            let mut before = None;
            host.update(key, |bytes| {
                before = bytes.map(tag);
                Change::Put(value(fresh))
            })
            .unwrap();
            scribe.returned(began, Answer::Value(before));
        }
    }
}

#[test]
fn values_and_keys_of_all_sizes() {
    let place = pod(128, None);
    let hosts = [Host::join(&place.spec), Host::join(&place.spec)];
    let mut dice = SmallRng::seed_from_u64(1);
    let mut read = Vec::new();
    for (round, bytes) in [1, 63, 64, 65, 1000, 4096, 70_000, 1 << 20, 16 << 20].iter().enumerate()
    {
        for key_bytes in [1, 40, 1024] {
            let key = vec![b'a' + round as u8; key_bytes];
            let mut value = vec![0; *bytes];
            dice.fill_bytes(&mut value);
            let (writer, reader) = (&hosts[round % 2].objects, &hosts[1 - round % 2].objects);
            writer.create(&key, &value).unwrap();
            assert!(reader.read(&key, &mut read).unwrap().is_some());
            assert!(read == value, "{bytes} bytes");
            let middle = bytes / 3;
            let patch = &value.iter().rev().take(bytes / 2 + 1).copied().collect::<Vec<_>>();
            if middle + patch.len() <= *bytes {
                reader.write_range(&key, middle as u64, patch).unwrap();
                value[middle..middle + patch.len()].copy_from_slice(patch);
                writer.read(&key, &mut read).unwrap();
                assert!(read == value, "part of {bytes} bytes");
            }
            writer.write(&key, b"now short").unwrap();
            reader.read(&key, &mut read).unwrap();
            assert_eq!(read, b"now short");
            assert!(reader.delete(&key).unwrap());
        }
    }
    assert_eq!(hosts[0].objects.object_count().unwrap(), 0);
    for key_bytes in [0, 1025] {
        let refused = hosts[0].objects.create(&vec![b'a'; key_bytes], b"x");
        assert!(matches!(refused, Err(Error::KeyLength { bytes }) if bytes == key_bytes));
    }
}

#[test]
fn a_value_is_written_in_two_parts() {
    let place = pod(8, None);
    let hosts = [Host::join(&place.spec), Host::join(&place.spec)];
    let [writer, reader] = hosts.each_ref().map(|host| &host.objects);
    // With the second key the first part is in two lines; the third does not fit into the first
    // line.
    for key in [5, 44, 100].map(|length| vec![b'k'; length]) {
        for length in [0, 4, 511, 512, 1000] {
            // The first of them may create the object, or move it; the last ones are written in its
            // slot.
            for round in 0..4_u8 {
                let (head, rest) = ([round; 8], vec![round + 1; length]);
                let version = writer.put_split(&key, &head, &rest).unwrap();
                let mut found = Vec::new();
                assert_eq!(reader.read(&key, &mut found).unwrap(), Some(version));
                assert_eq!(found, [head.as_slice(), &rest].concat());
            }
        }
    }
}

#[test]
fn a_value_is_read_in_two_parts() {
    let place = pod(8, None);
    let hosts = [Host::join(&place.spec), Host::join(&place.spec)];
    let [writer, reader] = hosts.each_ref().map(|host| &host.objects);
    // The longer key does not fit into the first line.
    for key in [b"short".to_vec(), vec![b'k'; 100]] {
        writer.put(&key, b"12345678rest").unwrap();
        // The second time the reader has no stale line.
        for _ in 0..2 {
            let (mut head, mut rest) = ([0; 8], b"what was here before".to_vec());
            let version = reader.read_split(&key, &mut head, &mut rest).unwrap();
            assert_eq!(version, reader.read(&key, &mut Vec::new()).unwrap());
            assert_eq!((&head, rest.as_slice()), (b"12345678", b"rest".as_slice()));
        }
        writer.put(&key, b"1234567").unwrap();
        for _ in 0..2 {
            let refused = reader.read_split(&key, &mut [0; 8], &mut Vec::new());
            let expected = Error::OutOfRange { offset: 0, end: 8, length: 7 };
            assert_eq!(refused.unwrap_err().to_string(), expected.to_string());
        }
    }
    assert_eq!(reader.read_split(b"missing", &mut [0; 8], &mut Vec::new()).unwrap(), None);
}

#[test]
fn a_full_pod_says_so_and_deletes_make_room() {
    room_comes_back(&pod(8, None));
}

#[test]
fn a_full_pod_says_so_and_deletes_make_room_for_all_shards() {
    room_comes_back(&sharded_pod(8, None, 4));
}

fn room_comes_back(place: &Place) {
    let hosts = [Host::join(&place.spec), Host::join(&place.spec)];
    let value = vec![7; 10_000];
    let key = |number: u64| number.to_le_bytes();
    let mut filled = Vec::new();
    for round in 0..3 {
        let mut made = 0;
        let error = loop {
            match hosts[made as usize % 2].objects.create(&key(made), &value) {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::LnrFull { .. }), "{error}");
        assert!(matches!(hosts[0].objects.stat(&key(made)), Ok(None)), "nothing half done");
        let mut read = Vec::new();
        for number in 0..made {
            hosts[round % 2].objects.read(&key(number), &mut read).unwrap().unwrap();
            assert_eq!(read, value);
        }
        for number in 0..made {
            assert!(hosts[(number as usize + round) % 2].objects.delete(&key(number)).unwrap());
        }
        filled.push(made);
        // Freed slots return to their owners when those apply the log.
        hosts.iter().for_each(|host| host.objects.tick().unwrap());
    }
    assert!(filled[0] > 500, "{filled:?}");
    assert!(filled[2] * 10 >= filled[0] * 9, "room came back: {filled:?}");
    let big = hosts[0].objects.create(b"big", &vec![0; 64 << 20]).unwrap_err();
    assert!(matches!(big, Error::TooLarge { .. }), "{big}");
}

#[test]
fn a_full_index_says_so_and_deletes_make_room() {
    let place = pod(16, None);
    let index =
        tombolo_objects::IndexLimits { segment_buckets: 1024, segments: 1, load_permille: 125 };
    let host = Host::join_with(&place.spec, Options { index, ..Options::default() });
    let mut made = 0u32;
    let error = loop {
        match host.objects.create(&made.to_le_bytes(), b"x") {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::IndexFull { objects } if objects == u64::from(made)), "{error}");
    assert!(host.objects.delete(&0u32.to_le_bytes()).unwrap());
    host.objects.create(b"another", b"x").unwrap();
    assert!(matches!(host.objects.create(b"one more", b"x"), Err(Error::IndexFull { .. })));
}

#[test]
fn more_objects_than_records() {
    records_change_hands(&pod(64, Some(50)), 50, Options::default());
}

#[test]
fn more_objects_than_records_of_which_nobody_knows_by_heart_whose_they_are() {
    let options = || Options { known_owners: 0, ..Options::default() };
    records_change_hands(&pod(64, Some(50)), 50, options());
    records_change_hands(&sharded_pod(64, Some(3_000), 4), 3_000, options());
}

/// Objects are written that have to share so many records; no write is lost.
fn records_change_hands(place: &Place, records: u64, options: Options) {
    const OBJECTS: u64 = 20_000;
    let hosts: Vec<Host> = (0..2).map(|_| Host::join_with(&place.spec, options.clone())).collect();
    let key = |number: u64| format!("user{number}").into_bytes();
    for number in 0..OBJECTS {
        hosts[number as usize % 2].objects.create(&key(number), &0u64.to_le_bytes()).unwrap();
    }
    let written = thread::scope(|scope| {
        let threads = [0usize, 1, 2, 3].map(|thread| {
            let (host, key) = (&hosts[thread % 2].objects, &key);
            scope.spawn(move || {
                let mut dice = SmallRng::seed_from_u64(thread as u64);
                for _ in 0..10_000 {
                    let number = dice.random_range(0..OBJECTS);
                    host.update(&key(number), |bytes| {
                        let before = u64::from_le_bytes(*bytes.unwrap().first_chunk().unwrap());
                        Change::Put((before + 1).to_le_bytes().to_vec())
                    })
                    .unwrap();
                }
                10_000
            })
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    });
    let mut read = Vec::new();
    let sum: u64 = (0..OBJECTS)
        .map(|number| {
            hosts[1].objects.read(&key(number), &mut read).unwrap().unwrap();
            u64::from_le_bytes(*read.first_chunk().unwrap())
        })
        .sum();
    assert_eq!(sum, written, "no update is lost");
    let used = hosts[0].objects.usage().records_used;
    assert!((records / 2..=records).contains(&used), "{used} records are used");
    assert!(hosts[0].objects.stats().reclaims > 0);
}

#[test]
fn a_walk_meets_every_object() {
    for log_shards in [1, 8] {
        walk(&sharded_pod(16, None, log_shards));
    }
}

fn walk(place: &Place) {
    let host = Host::join(&place.spec);
    for number in 0..5000u32 {
        host.objects.create(&number.to_le_bytes(), b"x").unwrap();
    }
    let mut met = std::collections::HashSet::new();
    let mut cursor = 0;
    loop {
        cursor = host.objects.scan(cursor, |key| _ = met.insert(key.to_vec())).unwrap();
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(met.len(), 5000);
    assert_eq!(host.objects.object_count().unwrap(), 5000);
    assert_eq!(host.objects.usage().objects, 5000);
}

/// Two hosts write, create and delete, one of them objects in its own memory, while a third saves
/// them.
#[test]
fn what_stays_is_saved_while_others_write() {
    let (place, other) = (sharded_pod(64, Some(16), 2), pod(64, None));
    let with_partition = Options {
        partition_bytes: 1 << 20,
        placement: Arc::new(Thresholds { copy_after: 2, move_after: 2 }),
        ..Options::default()
    };
    let hosts = [Host::join_with(&place.spec, with_partition), Host::join(&place.spec)];
    let staying = |n: u64| [b"stays", &n.to_le_bytes()[..]].concat();
    (0..2000).for_each(|n| _ = hosts[0].objects.create(&staying(n), &value(n)).unwrap());
    let (done, written) = (AtomicBool::new(false), AtomicU64::new(1));
    let mut files = Vec::new();
    thread::scope(|scope| {
        for (number, host) in hosts.iter().enumerate() {
            let (done, written) = (&done, &written);
            scope.spawn(move || {
                let mut dice = SmallRng::seed_from_u64(number as u64);
                while !done.load(Ordering::Relaxed) {
                    let n = dice.random_range(0..100) * 2 + number as u64;
                    let tag = written.fetch_add(1, Ordering::Relaxed);
                    for tag in [tag, tag + 6, tag + 12] {
                        host.objects.put(&staying(n), &value(tag)).unwrap();
                    }
                    let passing = n.to_le_bytes();
                    host.objects.put(&passing, &value(tag)).unwrap();
                    host.objects.delete(&[passing[0] ^ 2, 0, 0, 0, 0, 0, 0, 0]).unwrap();
                }
            });
        }
        let third = Host::join(&place.spec);
        for _ in 0..5 {
            let mut file = Vec::new();
            let contents = third.objects.save(&mut file, |_| true).unwrap();
            assert_eq!(contents.lost, 0);
            files.push(file);
        }
        done.store(true, Ordering::Relaxed);
    });
    let target = Host::join(&other.spec);
    for file in &files {
        let mut file = SavedFile::check(std::io::Cursor::new(file)).unwrap();
        let mut stayed = 0;
        file.visit(|key, value| {
            stayed += u64::from(key.starts_with(b"stays"));
            tag(value);
            Ok(())
        })
        .unwrap();
        assert_eq!(stayed, 2000);
        let all = file.contents().saved;
        let loaded = target.objects.load(&mut file, Existing::Replace, |_| true).unwrap();
        assert_eq!(loaded.loaded, all);
    }
    let mut file = SavedFile::check(std::io::Cursor::new(&files[4])).unwrap();
    let stopped =
        target.objects.load(&mut file, Existing::Keep, |passed| passed.objects < 10).unwrap_err();
    assert!(matches!(stopped.why, SavedError::Stopped));
    assert_eq!(
        (stopped.loaded.objects, stopped.missing.objects),
        (0, file.contents().saved.objects - 10)
    );
    let mut found = Vec::new();
    file.visit(|key, value| {
        target.objects.read(key, &mut found)?.expect("it was loaded");
        assert!(found == value, "the last file's value");
        Ok(())
    })
    .unwrap();
}

#[test]
fn objects_outlive_all_hosts_that_left() {
    for log_shards in [1, 2, 16] {
        leave_and_return(&sharded_pod(16, None, log_shards));
    }
}

fn leave_and_return(place: &Place) {
    {
        let host = Host::join(&place.spec);
        (0..1000u32)
            .for_each(|n| _ = host.objects.create(&n.to_le_bytes(), &value(n.into())).unwrap());
        (0..1000u32)
            .step_by(3)
            .for_each(|n| assert!(host.objects.delete(&n.to_le_bytes()).unwrap()));
    }
    let findings = tombolo_objects::check(&ObjectArea::first(&open(&place.spec).unwrap()).unwrap());
    assert_eq!((findings.objects, findings.key_bytes), (666, 4 * 666));
    assert_eq!(findings.problems, Vec::<String>::new());
    let host = Host::join(&place.spec);
    let mut read = Vec::new();
    for n in 0..1000u32 {
        let found = host.objects.read(&n.to_le_bytes(), &mut read).unwrap();
        assert_eq!(found.is_some(), n % 3 != 0);
        assert!(found.is_none() || read == value(n.into()));
    }
}

/// Large values are looked at where they lie, those that lie in several pieces, too, while others
/// write and delete them; what they leave is there again when nobody looks any more.
#[test]
fn views_stay_as_they_are() {
    let place = pod(8, None);
    let views = 2;
    let viewer = Host::join_with(&place.spec, Options { views, ..Options::default() });
    let writer = Host::join(&place.spec);
    for round in 0..40u8 {
        for bytes in [300, 30_000, 1_500_000] {
            writer.objects.put(b"key", &vec![round; bytes]).unwrap();
            let view = viewer.objects.view(b"key").unwrap().unwrap();
            writer.objects.put(b"key", &vec![!round; bytes]).unwrap();
            assert!(writer.objects.delete(b"key").unwrap());
            writer.objects.put(b"key", &vec![0x55; bytes]).unwrap();
            assert_eq!((view.len(), &*view.bytes()), (bytes as u64, &vec![round; bytes][..]));
            let again = viewer.objects.view(b"key").unwrap().unwrap();
            assert!(again.bytes().iter().all(|&byte| byte == 0x55));
            let third = viewer.objects.view(b"key").err();
            let refused = matches!(third, Some(Error::TooManyViews { most: 2 }));
            assert_eq!(refused, bytes > 4096, "small values are copied");
            view.end().unwrap();
        }
    }
    assert!(viewer.objects.view(b"other").unwrap().is_none());
}

#[test]
fn what_is_written_together_is_seen_as_if_it_were_not() {
    const KEYS: u64 = 24;
    let place = pod(64, Some(16));
    let hosts: Vec<Host> = (0..2).map(|_| Host::join(&place.spec)).collect();
    let recorder: Recorder<u64, Operation<u64>, Answer<u64>> = Recorder::new();
    let tags = AtomicU64::new(1);
    let (recorder, tags) = (&recorder, &tags);
    let name = |number: u64| format!("key {number}").into_bytes();
    thread::scope(|scope| {
        for client in 0..4_u32 {
            let host = &hosts[client as usize % 2].objects;
            scope.spawn(move || {
                let mut dice = SmallRng::seed_from_u64(client.into());
                let scribes: Vec<_> =
                    (0..20).map(|n| recorder.client(20 * client + n as u32)).collect();
                for _ in 0..300 {
                    // More than are locked together, some of them twice, of all sizes.
                    let writes: Vec<(u64, u64)> = (0..20)
                        .map(|_| (dice.random_range(0..KEYS), tags.fetch_add(1, Ordering::Relaxed)))
                        .collect();
                    let pairs: Vec<_> =
                        writes.iter().map(|&(number, tag)| (name(number), value(tag))).collect();
                    let invoke =
                        |(scribe, &(number, tag)): (
                            &tombolo_verify::history::Client<_, _, _>,
                            &_,
                        )| { scribe.invoke(number, Operation::Put(tag)) };
                    let began: Vec<_> = scribes.iter().zip(&writes).map(invoke).collect();
                    let outcomes = host.multi_put(&pairs);
                    assert_eq!(outcomes.len(), pairs.len());
                    for ((scribe, began), outcome) in scribes.iter().zip(began).zip(outcomes) {
                        outcome.unwrap();
                        scribe.returned(began, Answer::Done);
                    }
                    let number = dice.random_range(0..KEYS);
                    let (mut bytes, began) =
                        (Vec::new(), scribes[0].invoke(number, Operation::Get));
                    let found = host.read(&name(number), &mut bytes).unwrap();
                    scribes[0].returned(began, Answer::Value(found.map(|_| tag(&bytes))));
                }
            });
        }
    });
    let verdict = check(&KeyValue::default(), &recorder.history(), 100_000_000);
    assert!(matches!(verdict, Verdict::Linearizable { .. }), "{verdict}");
}

#[test]
fn of_what_is_written_together_each_has_its_own_outcome() {
    let place = pod(64, None);
    let host = Host::join(&place.spec);
    let too_long = vec![b'k'; tombolo_objects::MAX_KEY_BYTES + 1];
    for round in 0..2_u8 {
        // With a new one the log goes on behind where the one after that was found.
        let new = [b'c', round];
        let pairs = [&b"a"[..], &too_long, &new, b"b"].map(|key| (key, [round; 100]));
        let outcomes = host.objects.multi_put(&pairs);
        assert!(
            matches!(outcomes[..], [Ok(_), Err(Error::KeyLength { .. }), Ok(_), Ok(_)]),
            "{outcomes:?}"
        );
        for key in [&b"a"[..], &new, b"b"] {
            let mut found = Vec::new();
            host.objects.read(key, &mut found).unwrap();
            assert_eq!(found, [round; 100]);
        }
    }
    assert!(host.objects.multi_put::<&[u8], &[u8]>(&[]).is_empty());
}
