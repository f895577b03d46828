//! The log in mapped memory: threads of two hosts, each host with its own mapping of one file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tombolo_database::log::{
    Change, Directory, GroupCommit, GroupSettings, LogLayout, Logger, record_bytes, recover,
};
use tombolo_database::{Durability, TableId, Version};
use tombolo_memory::{Backing, LnrAddr, Mapped, MemorySpec, ScrAddr, Window};

const LAYOUT: LogLayout = LogLayout { hosts: 2, workers: 2, buffer_bytes: 4096 };
const PARTS: (ScrAddr<u64>, LnrAddr) = (ScrAddr::new(0), LnrAddr::new(0));
const HALF: u64 = 64 << 10;
const TRANSACTIONS: u64 = 500;

fn map(spec: &MemorySpec) -> Mapped {
    let region = Arc::new(Backing::open(spec).unwrap().map(2 * HALF).unwrap());
    Mapped::new(Window::new(region.clone(), 0, HALF), Window::new(region, HALF, HALF))
}

/// Commits transactions of two rows each, in turns with an own one, and waits for the last.
fn commit_all(group: &Arc<GroupCommit<Mapped>>, number: u16) {
    let mut worker = group.worker(number);
    let mut versions = BTreeMap::<[u8; 3], Version>::new();
    let mut last = 0;
    for n in 0..TRANSACTIONS {
        let keys = [0, 1 + (n % 5) as u8].map(|key| [group.host(), number as u8, key]);
        let row = n.to_le_bytes();
        worker.begin();
        worker.reserve(record_bytes([(3, 8), (3, 8)]), || Ok(())).unwrap();
        last = worker.commit_epoch();
        let changes = keys.each_ref().map(|key| {
            let version = versions.entry(*key).or_default();
            *version = version.next(last).expect("it has not changed so often");
            Change { table: TableId(0), partition: 0, key, version: *version, row: Some(&row) }
        });
        worker.append(last, changes);
        worker.finish();
        if n % 100 == 0 {
            group.wait_durable(last, Durability::Immediate, || Ok(())).unwrap();
        }
    }
    group.wait_durable(last, Durability::Epoch, || Ok(())).unwrap();
}

#[test]
fn what_threads_of_two_hosts_log_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let spec = MemorySpec::path(folder.path().join("memory"));
    Backing::open_or_create(&spec).unwrap().0.reserve(2 * HALF).unwrap();
    let storage = Arc::new(Directory::open(folder.path().join("log")).unwrap());
    GroupCommit::format(&map(&spec), LAYOUT, PARTS.0, PARTS.1, 1);
    let settings = GroupSettings { patience: Duration::from_secs(60), ..GroupSettings::default() };
    let groups = [0, 1].map(|host| GroupCommit::new(map(&spec), LAYOUT, PARTS, host, settings));
    let loggers = groups
        .each_ref()
        .map(|group| Logger::open(Arc::clone(group), Arc::clone(&storage)).expect("there is room"));
    let committing = AtomicUsize::new(4);
    thread::scope(|scope| {
        for (group, mut logger) in groups.iter().zip(loggers) {
            let committing = &committing;
            scope.spawn(move || {
                while committing.load(Ordering::Acquire) > 0 {
                    group.tick();
                    logger.tick().unwrap();
                    thread::yield_now();
                }
                assert!(logger.metrics().syncs > 1);
                logger.leave().unwrap();
            });
            for number in 0..2 {
                scope.spawn(move || {
                    commit_all(group, number);
                    committing.fetch_sub(1, Ordering::Release);
                });
            }
        }
    });
    let recovered = recover(&storage, 2).unwrap();
    assert_eq!(recovered.rows.len(), 2 * 2 * 6);
    for row in recovered.rows {
        let n = u64::from_le_bytes((*row.row).try_into().unwrap());
        let expected = match row.key[2] {
            0 => TRANSACTIONS - 1,
            key => TRANSACTIONS - 6 + u64::from(key),
        };
        assert_eq!(n, expected, "{:?}", row.key);
    }
}
