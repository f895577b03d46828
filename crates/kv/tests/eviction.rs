//! Eviction in mapped memory, over several mappings of one file.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tombolo_kv::{Entry, Error, EvictionPolicy, EvictionReason, Removal, Store};
use tombolo_memory::Mapped;
use tombolo_objects::{Objects, Options};
use tombolo_pod::{PodSpec, open};
use tombolo_sharing::{CreateOptions, create};

type Host = Store<Objects<Mapped>>;

struct Pod {
    hosts: Vec<Host>,
    _folder: tempfile::TempDir,
}

impl Pod {
    fn new(hosts: usize, mebibytes: u64, policy: EvictionPolicy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let spec = PodSpec::path(folder.path().join("pod"));
        let mut options = CreateOptions::sized(mebibytes << 20);
        options.scr_bytes = Some(1 << 20);
        options.layout.eviction = policy;
        create(&spec, options).unwrap();
        let mut joined: Vec<Host> = Vec::new();
        for _ in 0..hosts {
            let new = thread::scope(|scope| {
                let join = || Store::join(open(&spec).unwrap(), Options::default()).unwrap();
                let joining = scope.spawn(join);
                while !joining.is_finished() {
                    joined.iter().for_each(|host| host.tick().unwrap());
                }
                joining.join().unwrap()
            });
            joined.push(new);
        }
        Self { hosts: joined, _folder: folder }
    }

    /// Runs `body` while a thread of each host does its background work.
    fn ticking(&self, body: impl FnOnce(&[Host])) {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for host in &self.hosts {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        // The next operation meets an error of the log, too.
                        let _ = host.tick();
                        thread::park_timeout(Duration::from_millis(1));
                    }
                });
            }
            // Also after a panic.
            let _ended = Ended(&done);
            body(&self.hosts);
        });
    }

    /// Looks up each key of a trace, and puts those that are missed, a host after the other. How
    /// many were found.
    fn replay(&self, keys: &[u32], value_bytes: usize) -> usize {
        let mut hits = 0;
        self.ticking(|hosts| {
            for (host, key) in hosts.iter().cycle().zip(keys) {
                let name = key.to_string();
                match host.get(name.as_bytes()).unwrap() {
                    Some(entry) => {
                        assert_eq!(entry.value, value(*key, value_bytes), "of another key");
                        hits += 1;
                    }
                    None => host.put(name.as_bytes(), &lasting(*key, value_bytes)).unwrap(),
                }
            }
        });
        hits
    }

    fn evicted(&self) -> u64 {
        self.hosts.iter().map(Host::evicted_values).sum()
    }
}

struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn value(key: u32, bytes: usize) -> Vec<u8> {
    key.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

fn lasting(key: u32, bytes: usize) -> Entry {
    Entry::lasting(value(key, bytes))
}

/// Numbers as good as random.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 33
    }

    /// A number below `end`, small ones more often: about as in a Zipf distribution.
    fn skewed(&mut self, end: u32) -> u32 {
        let unit = (self.next() as f64 + 1.0) / f64::from(1 << 31);
        (f64::from(end).powf(unit) - 1.0) as u32
    }
}

/// Keys by popularity, with runs of new ones, which are used once.
fn trace(length: usize) -> Vec<u32> {
    let mut dice = Dice(7);
    (0..length as u32)
        .map(|at| if at % 3 == 0 { 1_000_000 + at } else { dice.skewed(20_000) })
        .collect()
}

/// How many of these an exact order by last use finds, which holds so many keys.
fn exact_lru(keys: &[u32], held: usize) -> usize {
    let (mut last, mut order, mut hits) = (HashMap::new(), BTreeMap::new(), 0);
    for (now, &key) in keys.iter().enumerate() {
        if let Some(before) = last.insert(key, now) {
            order.remove(&before);
            hits += 1;
        } else if last.len() > held {
            let (_, oldest) = order.pop_first().unwrap();
            last.remove(&oldest);
        }
        order.insert(now, key);
    }
    hits
}

#[test]
fn a_full_pod_takes_new_values() {
    for policy in EvictionPolicy::ALL {
        let pod = Pod::new(1, 4, policy);
        let (host, told) = (&pod.hosts[0], Arc::new(AtomicU64::new(0)));
        let counts = told.clone();
        host.on_removal(Arc::new(move |removal, _| {
            assert_eq!(removal, Removal::Evicted);
            counts.fetch_add(1, Ordering::Relaxed);
        }));
        let mut refused = 0;
        for key in 0..20_000 {
            let deadline_ms = Some(host.now_ms() + 3_600_000 + u64::from(key));
            let entry = Entry { deadline_ms, ..lasting(key, 1000) };
            match host.put(&key.to_le_bytes(), &entry) {
                Ok(()) => assert_eq!(host.get(&key.to_le_bytes()).unwrap(), Some(entry)),
                Err(Error::Objects(tombolo_sharing::Error::LnrFull { .. })) => refused += 1,
                Err(error) => panic!("{policy}: {error}"),
            }
        }
        let (left, evicted) = (host.key_count().unwrap(), host.evicted_values());
        if policy == EvictionPolicy::NoEviction {
            assert!(refused > 10_000 && evicted == 0, "{refused} {evicted}");
        } else {
            assert_eq!((refused, left + evicted), (0, 20_000), "{policy}");
            assert!(left > 2_000, "{policy}: {left} are left");
        }
        let area = host.objects().area();
        assert_eq!(area.evicted().iter().sum::<u64>(), evicted);
        assert_eq!(told.load(Ordering::Relaxed), evicted, "the hook is told of each one");
    }
}

#[test]
fn hits_are_close_to_those_of_an_exact_order() {
    let keys = trace(60_000);
    for hosts in [1, 2, 4] {
        let pod = Pod::new(hosts, 4, EvictionPolicy::AllKeysLru);
        let hits = pod.replay(&keys, 1000) as f64 / keys.len() as f64;
        let usage = pod.hosts[0].objects().usage();
        let held = usage.lnr_bytes / (usage.lnr_used_bytes / usage.objects);
        let exact = exact_lru(&keys, held as usize) as f64 / keys.len() as f64;
        assert!(exact > 0.2, "{exact}");
        assert!(hits > exact - 0.03, "{hosts} hosts: {hits:.4} of requests, exactly {exact:.4}");
    }
}

/// A host that only reads keeps others from evicting what it uses.
#[test]
fn what_other_hosts_read_stays() {
    for policy in [EvictionPolicy::AllKeysLru, EvictionPolicy::AllKeysLfu] {
        Pod::new(2, 4, policy).ticking(|hosts| {
            let [writer, reader] = hosts else { unreachable!() };
            let name = |key: u32| key.to_string().into_bytes();
            (0..100).for_each(|key| writer.put(&name(key), &lasting(key, 1000)).unwrap());
            for key in 1000_u32..21_000 {
                writer.put(&name(key), &lasting(key, 1000)).unwrap();
                if key % 10 == 0 {
                    // It applies the log, and tells what it has read.
                    reader.tick().unwrap();
                }
                if key % 100 == 0 {
                    let gone = |key: &u32| reader.get(&name(*key)).unwrap().is_none();
                    let gone = (0..50).filter(gone).count();
                    assert_eq!(gone, 0, "{policy}: are gone when {key} was put");
                }
            }
            let gone = |key: &u32| writer.get(&name(*key)).unwrap().is_none();
            let gone = (50..100).filter(gone).count();
            // A key that shares its cell of the table with one that is used stays.
            assert!(gone >= 45, "{policy}: {gone} of 50 that were not used are gone");
        });
    }
}

#[test]
fn only_values_with_deadlines_go_and_the_earliest_first() {
    let pod = Pod::new(1, 4, EvictionPolicy::VolatileTtl);
    let host = &pod.hosts[0];
    let now_ms = host.now_ms();
    for key in 0_u32..1000 {
        host.put(&key.to_le_bytes(), &lasting(key, 1000)).unwrap();
    }
    for key in 1000_u32..20_000 {
        // Every other one a day later than the rest.
        let later_ms = 3_600_000 + u64::from(key % 2) * 86_400_000;
        let entry = Entry { deadline_ms: Some(now_ms + later_ms), ..lasting(key, 1000) };
        host.put(&key.to_le_bytes(), &entry).unwrap();
    }
    let is_there = |key: &u32| host.get(&key.to_le_bytes()).unwrap().is_some();
    assert_eq!((0..1000).filter(is_there).count(), 1000, "these have no deadline");
    let [sooner, later] =
        [0, 1].map(|odd| (1000..20_000).filter(|key| key % 2 == odd).filter(is_there).count());
    assert!(later > 4 * sooner, "{sooner} early ones are left, {later} late ones");
    // Nothing is left that may go.
    host.clear().unwrap();
    let refused = (0_u32..10_000).find_map(|key| {
        host.put(&key.to_le_bytes(), &lasting(key, 1000)).err().map(|error| error.to_string())
    });
    assert!(refused.unwrap().contains("full"), "values without deadlines do not go");
}

#[test]
fn a_view_is_not_evicted() {
    for policy in EvictionPolicy::ALL.into_iter().filter(|policy| !policy.is_volatile()).skip(1) {
        let pod = Pod::new(2, 8, policy);
        pod.ticking(|hosts| {
            let [writer, viewer] = hosts else { unreachable!() };
            writer.put(b"viewed", &lasting(1, 100_000)).unwrap();
            let view = viewer.view(b"viewed").unwrap().unwrap();
            for key in 0_u32..2_000 {
                writer.put(&key.to_le_bytes(), &lasting(key, 30_000)).unwrap();
                viewer.tick().unwrap();
            }
            assert_eq!(view.bytes(), value(1, 100_000), "{policy}");
            let found = writer.get(b"viewed").unwrap();
            assert!(found.is_some(), "{policy}: it was evicted while viewed");
            view.end().unwrap();
        });
        assert!(pod.evicted() > 1_000);
    }
}

#[test]
fn a_limit_holds_and_changes_at_run_time() {
    let pod = Pod::new(2, 16, EvictionPolicy::NoEviction);
    pod.ticking(|hosts| {
        let [first, second] = hosts else { unreachable!() };
        let put = |host: &Host, key: u32| host.put(&key.to_le_bytes(), &lasting(key, 1000));
        first.set_byte_limit(Some(2 << 20));
        assert_eq!(second.byte_limit(), Some(2 << 20));
        let refused = (0..10_000).find_map(|key| put(second, key).err()).unwrap();
        let full = matches!(refused, Error::Objects(tombolo_sharing::Error::LnrFull { .. }));
        assert!(full, "{refused}");
        second.set_eviction_policy(EvictionPolicy::AllKeysRandom);
        for key in 10_000..20_000 {
            put(&hosts[key as usize % 2], key).unwrap();
            assert!(first.objects().used_bytes() <= (2 << 20) + 2048);
        }
    });
    let area = pod.hosts[0].objects().area();
    assert_eq!(area.evicted()[EvictionReason::Room as usize], 0);
    assert_eq!(area.evicted().iter().sum::<u64>(), pod.evicted());
    assert!(pod.evicted() > 9_000);
}

#[test]
fn objects_that_are_no_values_stay() {
    let pod = Pod::new(1, 4, EvictionPolicy::AllKeysRandom);
    let host = &pod.hosts[0];
    for number in 0_u32..500 {
        host.objects().create(format!("object {number}").as_bytes(), &[0; 500]).unwrap();
    }
    for key in 0_u32..10_000 {
        host.put(&key.to_le_bytes(), &lasting(key, 1000)).unwrap();
    }
    for number in 0_u32..500 {
        assert!(host.objects().stat(format!("object {number}").as_bytes()).unwrap().is_some());
    }
}

/// Values of 1 KiB and of many chunks take turns, for longer than the pod has room: each is taken,
/// and reads as it was put. `EVICTION_ROUNDS` makes it longer: a million take hours.
#[test]
fn a_full_pod_of_mixed_sizes_goes_on() {
    for policy in [EvictionPolicy::AllKeysLru, EvictionPolicy::AllKeysRandom] {
        let pod = Pod::new(2, 48, policy);
        let mut dice = Dice(3);
        let rounds = std::env::var("EVICTION_ROUNDS").ok();
        let rounds: u32 = rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(1_200);
        let sizes = [1 << 10, 1 << 10, 1 << 10, 30 << 10, 300 << 10, 4 << 20];
        let bytes = |key: u32| sizes[key as usize * 7 % sizes.len()];
        pod.ticking(|hosts| {
            for key in 0..rounds {
                let [putting, getting] = [key, key + 1].map(|key| &hosts[key as usize % 2]);
                let put = putting.put(&key.to_le_bytes(), &lasting(key, bytes(key)));
                put.unwrap_or_else(|error| {
                    let usage = hosts[0].objects().usage();
                    panic!("{policy}: {key}: {error}: {usage:?}")
                });
                let other = key.saturating_sub((dice.next() % 64) as u32);
                if let Some(entry) = getting.get(&other.to_le_bytes()).unwrap() {
                    assert!(entry.value == value(other, bytes(other)), "{policy}: {other}");
                }
            }
        });
        assert!(pod.evicted() > 500, "{policy}: {} were evicted", pod.evicted());
    }
}
