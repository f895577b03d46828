//! Epochs and buffers, without anything that disturbs them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tombolo_database::log::{
    Change, GroupCommit, GroupSettings, LogError, LogLayout, Logger, SimulatedDisk, Storage,
    Worker, record_bytes,
};
use tombolo_database::{Durability, TableId, TxError, Version};
use tombolo_memory::{LnrAddr, Memory, ScrAddr};
use tombolo_simulator::{Config, SimMemory, Simulation, Trial};

type Group = Arc<GroupCommit<SimMemory>>;

const LAYOUT: LogLayout = LogLayout { hosts: 3, workers: 2, buffer_bytes: 512 };
const PARTS: (ScrAddr<u64>, LnrAddr) = (ScrAddr::new(64), LnrAddr::new(128));

struct Pod {
    simulation: Simulation,
    disk: Arc<SimulatedDisk>,
}

impl Pod {
    fn new() -> Self {
        let simulation = Simulation::new(Config { hosts: 3, ..Config::default() }, &Trial::new(1));
        GroupCommit::format(&simulation.memory(0), LAYOUT, PARTS.0, PARTS.1, 5);
        Self { simulation, disk: Arc::default() }
    }

    fn group(&self, host: u8) -> Group {
        let settings = GroupSettings {
            epoch: Duration::ZERO,
            patience: Duration::ZERO,
            ..GroupSettings::default()
        };
        let memory = self.simulation.memory(usize::from(host));
        GroupCommit::new(memory, LAYOUT, PARTS, host, settings)
    }

    fn logger(&self, group: &Group) -> Logger<SimMemory, Arc<SimulatedDisk>> {
        Logger::open(Arc::clone(group), Arc::clone(&self.disk)).unwrap()
    }
}

fn change(row: &[u8], epoch: u64) -> Change<'_> {
    let (table, version) = (TableId(0), Version::first(epoch));
    Change { table, partition: 0, key: b"key", version, row: Some(row) }
}

fn commit(worker: &mut Worker<SimMemory>, row: &[u8]) -> Result<u64, TxError> {
    worker.begin();
    let reserved = worker.reserve(record_bytes([(3, row.len())]), || Ok(()));
    let epoch = reserved.map(|()| {
        let epoch = worker.commit_epoch();
        worker.append(epoch, [change(row, epoch)]);
        epoch
    });
    worker.finish();
    epoch
}

#[test]
fn an_epoch_is_durable_when_all_hosts_have_passed_it() {
    let pod = Pod::new();
    let groups: Vec<Group> = (0..2).map(|host| pod.group(host)).collect();
    let mut loggers: Vec<_> = groups.iter().map(|group| pod.logger(group)).collect();
    assert_eq!((groups[0].session(), groups[0].durable_epoch()), (5, 4));
    let mut worker = groups[0].worker(1);
    assert_eq!(commit(&mut worker, b"row").unwrap(), 5);
    assert!(groups[0].tick(), "a transaction has committed in epoch 5");
    assert!(!groups[0].tick() && !groups[1].tick(), "nobody wants epoch 6 to end");
    assert!(loggers[0].tick().unwrap());
    assert_eq!(groups[1].durable_epoch(), 4);
    assert!(
        groups[0]
            .wait_durable(5, Durability::Epoch, || Ok(()))
            .is_err_and(|error| matches!(error, TxError::NoAnswer { host: 1, .. }))
    );
    assert!(loggers[1].tick().unwrap());
    assert_eq!(groups[1].durable_epoch(), 5);
    groups[0].wait_durable(5, Durability::Epoch, || Ok(())).unwrap();
    assert!(!loggers[0].tick().unwrap() && !loggers[1].tick().unwrap(), "an idle pod is idle");
}

#[test]
fn no_logger_passes_an_epoch_in_which_its_host_commits() {
    let pod = Pod::new();
    let group = pod.group(0);
    let mut logger = pod.logger(&group);
    let mut worker = group.worker(0);
    worker.begin();
    let epoch = worker.commit_epoch();
    group.advance_past(epoch);
    group.advance_past(epoch);
    assert_eq!(group.epoch(), epoch + 1, "an epoch ends once");
    logger.flush().unwrap();
    assert_eq!((group.durable_epoch(), group.settled_epoch()), (epoch - 1, epoch - 1));
    worker.append(epoch, [change(b"row", epoch)]);
    worker.finish();
    logger.flush().unwrap();
    assert_eq!((group.durable_epoch(), group.settled_epoch()), (epoch, epoch));
}

#[test]
fn the_oldest_transaction_of_all_hosts_is_known() {
    let pod = Pod::new();
    let (first, second) = (pod.group(0), pod.group(1));
    let mut worker = second.worker(1);
    assert_eq!((worker.begin(), first.oldest_active()), (5, 5));
    first.advance_past(5);
    assert_eq!(first.oldest_active(), 5);
    worker.finish();
    assert_eq!(first.oldest_active(), 6);
    worker.begin();
    first.advance_past(6);
    assert_eq!(first.oldest_active(), 6);
    drop(worker);
    assert_eq!(first.oldest_active(), 7, "a worker that is gone has no transaction");
}

#[test]
fn a_full_buffer_is_used_again_when_it_is_flushed() {
    let pod = Pod::new();
    let group = pod.group(0);
    let mut logger = pod.logger(&group);
    let mut worker = group.worker(0);
    for _ in 0..10 {
        while commit(&mut worker, &[7; 100]).is_ok() {}
        let full = commit(&mut worker, &[7; 100]);
        assert!(matches!(full, Err(TxError::Full { .. })), "{full:?}");
        assert!(logger.tick().unwrap(), "a buffer is more than half full");
    }
    let large = commit(&mut worker, &[7; 500]);
    assert!(matches!(large, Err(TxError::TooLarge { most: 512, .. })), "{large:?}");
    assert_eq!(logger.metrics().syncs, 11);
}

#[test]
fn a_dead_hosts_buffers_are_written_by_another() {
    let pod = Pod::new();
    let groups: Vec<Group> = (0..2).map(|host| pod.group(host)).collect();
    let mut first = pod.logger(&groups[0]);
    let mut second = pod.logger(&groups[1]);
    let mut worker = groups[1].worker(0);
    let epoch = commit(&mut worker, b"row").unwrap();
    worker.begin();
    worker.commit_epoch();
    groups[0].advance_past(epoch);
    first.flush().unwrap();
    assert_eq!(groups[0].durable_epoch(), epoch - 1);
    assert!(first.drain(1).unwrap());
    assert!(!first.drain(1).unwrap(), "there is nothing left to do");
    assert_eq!((groups[0].durable_epoch(), groups[0].oldest_active()), (epoch, epoch + 1));
    assert_eq!(groups[1].durable_epoch(), epoch - 1, "it cannot count on what it does not know");
    let refused = second.flush();
    assert!(matches!(refused, Err(LogError::Retired { host: 1 })), "{refused:?}");
}

/// A host that cleans up, and does not log yet itself, must not forget the log of a dead one.
#[test]
fn a_log_that_is_not_written_out_is_not_retired() {
    let pod = Pod::new();
    let groups: Vec<Group> = (0..2).map(|host| pod.group(host)).collect();
    let mut worker = groups[1].worker(0);
    worker.begin();
    assert!(groups[0].retire_unlogged(1), "it has logged nothing");
    assert_eq!(groups[0].oldest_active(), groups[0].epoch());
    let _second = pod.logger(&groups[1]);
    assert!(!groups[0].retire_unlogged(1), "it has a logger");
    let epoch = commit(&mut worker, b"row").unwrap();
    groups[0].advance_past(epoch);
    assert!(!groups[0].retire_unlogged(1));
    assert!(groups[0].durable_epoch() < epoch);
    assert!(pod.logger(&groups[0]).drain(1).unwrap());
    assert!(groups[0].retire_unlogged(1), "its log is written out");
}

#[test]
fn a_host_that_leaves_is_not_waited_for() {
    let pod = Pod::new();
    let groups: Vec<Group> = (0..2).map(|host| pod.group(host)).collect();
    let mut first = pod.logger(&groups[0]);
    let second = pod.logger(&groups[1]);
    second.leave().unwrap();
    groups[0].advance_past(5);
    first.flush().unwrap();
    assert_eq!(groups[0].durable_epoch(), 5);
    let again = pod.logger(&groups[1]);
    assert_eq!(groups[0].durable_epoch(), 5);
    drop(again);
}

#[test]
fn a_full_disk_stops_the_log_until_there_is_room() {
    let pod = Pod::new();
    let group = pod.group(0);
    let mut logger = pod.logger(&group);
    let mut worker = group.worker(0);
    let epoch = commit(&mut worker, b"row").unwrap();
    group.advance_past(epoch);
    pod.disk.set_room(Some(100));
    let refused = logger.flush();
    assert!(refused.is_err_and(|error| error.to_string().contains("could not write `log-")));
    assert_eq!(group.durable_epoch(), epoch - 1);
    (0..10).for_each(|_| assert!(logger.flush().is_err()));
    assert_eq!(pod.disk.list().unwrap().len(), 1, "a full disk is not filled with names");
    assert!(!logger.tick().unwrap(), "it waits a little");
    pod.disk.set_room(None);
    pod.disk.fail_to_sync(true);
    assert!(logger.flush().is_err());
    pod.disk.fail_to_sync(false);
    assert!(logger.flush().unwrap());
    assert_eq!(group.durable_epoch(), epoch);
}

/// A disk on which a sync takes time.
struct SlowDisk {
    disk: SimulatedDisk,
    memory: SimMemory,
}

impl SlowDisk {
    const SYNC: Duration = Duration::from_millis(5);
}

impl Storage for SlowDisk {
    fn create(&self, file: &str) -> io::Result<()> {
        self.disk.create(file)
    }

    fn append(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        self.disk.append(file, bytes)
    }

    fn sync(&self, file: &str) -> io::Result<()> {
        let since = self.memory.uptime();
        while self.memory.uptime() - since < Self::SYNC {
            self.memory.pause();
        }
        self.disk.sync(file)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        self.disk.read(file)
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        self.disk.remove(file)
    }
}

/// A benchmark said that synchronising took 0.00 us: the histogram did not grow, and cut all times
/// off.
#[test]
fn slow_syncs_are_told_as_slow() {
    let pod = Pod::new();
    let group = pod.group(0);
    let disk = SlowDisk { disk: SimulatedDisk::new(), memory: pod.simulation.memory(0) };
    let logger = Logger::open(Arc::clone(&group), disk).unwrap();
    let took = logger.metrics().sync_p99;
    assert!(took >= SlowDisk::SYNC * 99 / 100, "{took:?}");
}
