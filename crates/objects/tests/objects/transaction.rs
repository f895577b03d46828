//! Transactions over several objects, in mapped memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tombolo_memory::Mapped;
use tombolo_objects::{Error, Objects, Options, Reads, Version, Writes};
use tombolo_pod::{PodSpec, open};
use tombolo_sharing::{CreateOptions, KeyHasher, create};

struct Hosts {
    hosts: Vec<Objects<Mapped>>,
    _folder: tempfile::TempDir,
}

fn hosts(count: usize) -> Hosts {
    let folder = tempfile::tempdir().unwrap();
    let spec = PodSpec::path(folder.path().join("pod"));
    let (scr_bytes, lnr_bytes) = (Some(1 << 20), Some(16 << 20));
    create(&spec, CreateOptions { scr_bytes, lnr_bytes, ..Default::default() }).unwrap();
    let mut hosts: Vec<Objects<Mapped>> = Vec::new();
    for _ in 0..count {
        let joined = thread::scope(|scope| {
            let join = || Objects::join(open(&spec).unwrap(), Options::default()).unwrap();
            let joining = scope.spawn(join);
            while !joining.is_finished() {
                hosts.iter().for_each(|host| host.tick().unwrap());
            }
            joining.join().unwrap()
        });
        hosts.push(joined);
    }
    Hosts { hosts, _folder: folder }
}

fn get(host: &Objects<Mapped>, key: &str) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    host.read(key.as_bytes(), &mut value).unwrap().map(|_| value)
}

fn version(host: &Objects<Mapped>, key: &str) -> Option<Version> {
    host.stat(key.as_bytes()).unwrap().map(|(_, version)| version)
}

fn writes(changes: &[(&str, Option<&[u8]>)]) -> Writes {
    let write = |&(key, value): &(&str, Option<&[u8]>)| {
        (key.as_bytes().to_vec(), value.map(<[u8]>::to_vec))
    };
    changes.iter().map(write).collect()
}

fn reads(host: &Objects<Mapped>, keys: &[&str]) -> Reads {
    keys.iter().map(|key| (key.as_bytes().to_vec(), version(host, key))).collect()
}

#[test]
fn all_changes_are_there_for_all_hosts_or_none() {
    let Hosts { hosts, _folder } = hosts(2);
    let (first, second) = (&hosts[0], &hosts[1]);
    let long = vec![7; 100_000];
    for key in ["a", "b", "gone"] {
        first.put(key.as_bytes(), b"old").unwrap();
    }
    let seen = reads(first, &["a", "gone", "none"]);
    let changes =
        writes(&[("a", Some(b"new")), ("b", Some(&long)), ("gone", None), ("fresh", Some(b"f"))]);
    assert!(first.transact(&seen, &changes, &|| true).unwrap());
    for host in [first, second] {
        assert_eq!(get(host, "a").unwrap(), b"new");
        assert_eq!(get(host, "b").unwrap(), long);
        assert_eq!(get(host, "gone"), None);
        assert_eq!(get(host, "fresh").unwrap(), b"f");
        assert_eq!(host.object_count().unwrap(), 3);
    }
    // The read values are out of date now: nothing changes, and nothing is left over.
    let before = (first.usage(), second.unowned_records());
    for seen in [reads(first, &["gone"]), Reads::from([(b"none".to_vec(), version(first, "a"))])] {
        let again = writes(&[("a", Some(b"wrong")), ("other", Some(b"wrong")), ("b", None)]);
        second.put(b"gone", b"back").unwrap();
        assert!(!second.transact(&seen, &again, &|| true).unwrap());
        second.delete(b"gone").unwrap();
    }
    assert!(!first.transact(&Reads::new(), &changes, &|| false).unwrap());
    assert_eq!(get(second, "a").unwrap(), b"new");
    assert_eq!(get(second, "other"), None);
    first.object_count().unwrap();
    let after = (first.usage(), second.unowned_records());
    assert_eq!(
        (before.0.objects, before.0.lnr_used_bytes, before.1),
        (after.0.objects, after.0.lnr_used_bytes, after.1)
    );
}

#[test]
fn one_object_changes_at_the_version_that_was_read() {
    let Hosts { hosts, _folder } = hosts(1);
    let host = &hosts[0];
    let absent = reads(host, &["a"]);
    let put = writes(&[("a", Some(b"1"))]);
    assert!(host.transact(&absent, &put, &|| true).unwrap());
    assert!(!host.transact(&absent, &put, &|| true).unwrap());
    let seen = reads(host, &["a"]);
    assert!(host.transact(&seen, &writes(&[("a", Some(b"2"))]), &|| true).unwrap());
    assert!(!host.transact(&seen, &writes(&[("a", None)]), &|| true).unwrap());
    assert!(host.transact(&Reads::new(), &writes(&[("a", None)]), &|| true).unwrap());
    assert_eq!(get(host, "a"), None);
}

/// Keys that have one hash in this pod: 32 bits of it tell objects apart.
fn keys_with_one_hash(host: &Objects<Mapped>) -> [String; 2] {
    let hasher = KeyHasher::of(host.pod());
    let mut seen = HashMap::new();
    for number in 0.. {
        let key = format!("k{number}");
        let hash = hasher.hash(key.as_bytes()).unwrap() as u32;
        if let Some(other) = seen.insert(hash, key.clone()) {
            return [other, key];
        }
    }
    unreachable!("keys are more than hashes")
}

/// An object that a transaction has locked was in the way of another of its keys with the same
/// hash, for good: a transaction of 100,000 keys could not commit.
#[test]
fn keys_with_one_hash_change_in_one_transaction() {
    let Hosts { hosts, _folder } = hosts(1);
    let host = &hosts[0];
    let [one, other] = keys_with_one_hash(host);
    let both = [&one[..], &other];
    let put = |value| writes(&both.map(|key| (key, Some(value))));
    let values = || both.map(|key| get(host, key));
    let some = |value: &[u8]| Some(value.to_vec());
    assert!(host.transact(&reads(host, &both), &put(b"new"), &|| true).unwrap());
    assert_eq!(values(), [some(b"new"), some(b"new")]);
    assert!(host.transact(&reads(host, &both), &put(b"again"), &|| true).unwrap());
    assert_eq!(values(), [some(b"again"), some(b"again")]);
    // One changes and a third object, and the other is read.
    for changed in both {
        let changes = writes(&[(changed, Some(b"read beside")), ("third", Some(b"3"))]);
        assert!(host.transact(&reads(host, &both), &changes, &|| true).unwrap());
    }
    for gone in both {
        let seen = reads(host, &both);
        let changes = writes(&[(gone, None), ("third", Some(b"4"))]);
        assert!(host.transact(&seen, &changes, &|| true).unwrap());
        assert_eq!(get(host, gone), None);
        assert!(host.transact(&reads(host, &both), &put(b"back"), &|| true).unwrap());
        assert_eq!(values(), [some(b"back"), some(b"back")]);
    }
}

#[test]
fn notes_of_transactions_are_nobodys_keys() {
    let Hosts { hosts, _folder } = hosts(1);
    let key = b"\xff\0kv\xff\0tx1";
    assert!(matches!(hosts[0].create(key, b""), Err(Error::ReservedKey)));
    let changes = Writes::from([(key.to_vec(), Some(Vec::new()))]);
    assert!(matches!(
        hosts[0].transact(&Reads::new(), &changes, &|| true),
        Err(Error::ReservedKey)
    ));
}

/// Money moves between accounts, from several hosts and threads. None comes and none goes.
#[test]
fn the_sum_of_all_accounts_stays() {
    const ACCOUNTS: u64 = 6;
    const SUM: u64 = ACCOUNTS * 100;
    let Hosts { hosts, _folder } = hosts(3);
    let key = |account: u64| format!("account {account}");
    for account in 0..ACCOUNTS {
        hosts[0].put(key(account).as_bytes(), &100u64.to_le_bytes()).unwrap();
    }
    let read = |host: &Objects<Mapped>, seen: &mut Reads, account: u64| {
        let (key, mut value) = (key(account), Vec::new());
        let version = host.read(key.as_bytes(), &mut value).unwrap();
        seen.insert(key.into_bytes(), version);
        value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    let moved = |host: &Objects<Mapped>, from: u64, to: u64| {
        let mut seen = Reads::new();
        let (left, right) = (read(host, &mut seen, from), read(host, &mut seen, to));
        let amount = left.min(7);
        // An account without money is no object.
        let value = |sum: u64| (sum > 0).then(|| sum.to_le_bytes().to_vec());
        let changes = Writes::from([
            (key(from).into_bytes(), value(left - amount)),
            (key(to).into_bytes(), value(right + amount)),
        ]);
        host.transact(&seen, &changes, &|| true).unwrap()
    };
    let sum = |host: &Objects<Mapped>| {
        let mut seen = Reads::new();
        let sum: u64 = (0..ACCOUNTS).map(|account| read(host, &mut seen, account)).sum();
        host.transact(&seen, &Writes::new(), &|| true).unwrap().then_some(sum)
    };
    let over = AtomicBool::new(false);
    let done: u64 = thread::scope(|scope| {
        for host in &hosts {
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    host.tick().unwrap();
                    thread::yield_now();
                }
            });
        }
        let threads: Vec<_> = (0..6u64)
            .map(|number| {
                let (host, moved, sum) = (&hosts[number as usize % 3], &moved, &sum);
                scope.spawn(move || {
                    let mut done = 0;
                    for step in 0..400u64 {
                        let from = (step * 7 + number) % ACCOUNTS;
                        let to = (from + 1 + step % (ACCOUNTS - 1)) % ACCOUNTS;
                        done += u64::from(moved(host, from, to));
                        assert!(sum(host).is_none_or(|sum| sum == SUM));
                    }
                    done
                })
            })
            .collect();
        let done: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        done.into_iter().map(|done| done.unwrap()).sum()
    });
    assert!(done > 0);
    hosts.iter().for_each(|host| assert_eq!(sum(host), Some(SUM)));
    assert_eq!(hosts[0].unowned_records(), 0);
}
