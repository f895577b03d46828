//! Recovery from logs after hosts and disks have failed, compared with a model.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tombolo_database::log::{
    Change, CheckpointWriter, Directory, GroupCommit, GroupSettings, LogError, LogLayout, Logger,
    Recovered, SimulatedDisk, Storage, Worker, record_bytes, recover, recover_part, truncate,
};
use tombolo_database::{TableId, Version};
use tombolo_memory::{LnrAddr, ScrAddr};
use tombolo_simulator::{Config, SimMemory, Simulation, Trial};

const HOSTS: u8 = 3;
const WORKERS: u16 = 2;
const LAYOUT: LogLayout = LogLayout { hosts: HOSTS, workers: WORKERS, buffer_bytes: 4096 };
const PARTS: (ScrAddr<u64>, LnrAddr) = (ScrAddr::new(0), LnrAddr::new(0));

type Disk = Arc<SimulatedDisk>;
type Key = (u16, u8);
type Rows = BTreeMap<Key, (Version, Vec<u8>)>;

/// The changes of a transaction, by row.
type Changes = Vec<(Key, Version, Option<Vec<u8>>)>;

/// All that was ever committed, in order, with the epoch of each transaction.
#[derive(Clone, Default)]
struct Model {
    committed: Vec<(u64, Changes)>,
    /// Of rows that are there or were.
    versions: BTreeMap<Key, Version>,
    /// An epoch that clients were told is durable.
    acknowledged: u64,
}

impl Model {
    /// The rows when an epoch ended.
    fn rows(&self, epoch: u64) -> Rows {
        let mut rows = Rows::new();
        for (_, changes) in self.committed.iter().filter(|(committed, _)| *committed <= epoch) {
            for (key, version, row) in changes {
                match row {
                    Some(row) => _ = rows.insert(*key, (*version, row.clone())),
                    None => _ = rows.remove(key),
                }
            }
        }
        rows
    }

    fn check(&self, recovered: &Recovered) {
        let found = recovered.rows.iter().map(|row| {
            assert_eq!(row.partition, u32::from(row.key[0]) % 4);
            ((row.table.0, row.key[0]), (row.version, row.row.to_vec()))
        });
        let found: Rows = found.collect();
        assert_eq!(found, self.rows(recovered.durable), "at the end of {}", recovered.durable);
        assert!(recovered.durable >= self.acknowledged, "{recovered:?} {}", self.acknowledged);
        let newest = self.committed.iter().map(|(epoch, _)| *epoch).max();
        assert!(recovered.next > recovered.durable && newest.is_none() || recovered.next > 0);
    }

    /// Forgets what was not recovered.
    fn cut(&mut self, recovered: &Recovered) {
        self.committed.retain(|(epoch, _)| *epoch <= recovered.durable);
        self.versions.clear();
        let committed = self.committed.iter().flat_map(|(_, changes)| changes);
        self.versions.extend(committed.map(|(key, version, _)| (*key, *version)));
    }
}

struct Host {
    group: Arc<GroupCommit<SimMemory>>,
    workers: Vec<Worker<SimMemory>>,
    logger: Logger<SimMemory, Disk>,
}

/// A database from one recovery to the next.
struct Session {
    simulation: Simulation,
    disk: Disk,
    hosts: Vec<Option<Host>>,
    model: Model,
}

impl Session {
    fn new(disk: Disk, model: Model, first: u64) -> Self {
        let config = Config { hosts: usize::from(HOSTS), ..Config::default() };
        let simulation = Simulation::new(config, &Trial::new(1));
        GroupCommit::format(&simulation.memory(0), LAYOUT, PARTS.0, PARTS.1, first);
        let hosts = (0..HOSTS).map(|_| None).collect();
        Self { simulation, disk, hosts, model }
    }

    fn group(&self, host: u8) -> Arc<GroupCommit<SimMemory>> {
        let settings =
            GroupSettings { epoch: Duration::ZERO, patience: Duration::ZERO, file_bytes: 4096 };
        let memory = self.simulation.memory(usize::from(host));
        GroupCommit::new(memory, LAYOUT, PARTS, host, settings)
    }

    fn join(&mut self, host: u8) {
        if self.hosts[usize::from(host)].is_some() {
            return;
        }
        let group = self.group(host);
        let Ok(logger) = Logger::open(Arc::clone(&group), Arc::clone(&self.disk)) else { return };
        let workers = (0..WORKERS).map(|worker| group.worker(worker)).collect();
        self.hosts[usize::from(host)] = Some(Host { group, workers, logger });
    }

    fn any(&mut self) -> Option<&mut Host> {
        self.hosts.iter_mut().flatten().next()
    }

    /// Commits a transaction if the host is there and its buffer has room.
    fn commit(&mut self, host: u8, worker: u16, keys: &[(Key, u16)]) {
        let Some(host) = &mut self.hosts[usize::from(host)] else { return };
        let worker = &mut host.workers[usize::from(worker)];
        worker.begin();
        let bytes = record_bytes(keys.iter().map(|(_, size)| (1, usize::from(*size))));
        if worker.reserve(bytes, || Ok(())).is_ok() {
            let epoch = worker.commit_epoch();
            let tag = self.model.committed.len() as u8;
            let mut changes = Changes::new();
            for &(key, size) in keys {
                let before = self.model.versions.get(&key).copied().unwrap_or_default();
                let version = before.next(epoch).expect("rows change less often");
                self.model.versions.insert(key, version);
                let row = (!size.is_multiple_of(4)).then(|| vec![tag; usize::from(size)]);
                changes.push((key, version, row));
            }
            let logged = changes.iter().map(|((table, key), version, row)| Change {
                table: TableId(*table),
                partition: u32::from(*key) % 4,
                key: std::slice::from_ref(key),
                version: *version,
                row: row.as_deref(),
            });
            worker.append(epoch, logged);
            self.model.committed.push((epoch, changes));
        }
        worker.finish();
    }

    fn acknowledge(&mut self) {
        let Some(host) = self.any() else { return };
        let durable = host.group.durable_epoch();
        self.model.acknowledged = self.model.acknowledged.max(durable);
    }

    fn flush(&mut self, host: u8) {
        if let Some(host) = &mut self.hosts[usize::from(host)] {
            // An error is for later: nothing is acknowledged then.
            let _ = host.logger.flush();
        }
        self.acknowledge();
    }

    /// A host dies, and another one writes out what it has left.
    fn die(&mut self, host: u8) {
        if self.hosts.iter().flatten().count() > 1 && self.hosts[usize::from(host)].take().is_some()
        {
            let disk = Arc::clone(&self.disk);
            let drainer = self.any().expect("one is left");
            // It is tried until it succeeds.
            while drainer.logger.drain(host).is_err() {
                disk.set_room(None);
                disk.fail_to_sync(false);
            }
            self.acknowledge();
        }
    }

    fn leave(&mut self, host: u8) {
        if let Some(host) = self.hosts[usize::from(host)].take() {
            host.logger.leave().unwrap();
        }
        self.acknowledge();
    }

    /// A checkpoint of rows as they are now, which is good from an epoch that is over.
    fn checkpoint(&mut self, parts: usize) {
        let Some(host) = self.any() else { return };
        let epoch = host.group.settled_epoch();
        let Ok(mut writer) = CheckpointWriter::begin(Arc::clone(&self.disk), epoch) else { return };
        let rows = self.model.rows(u64::MAX);
        for part in 0..parts {
            let mut file = writer.part().unwrap();
            let of_part = rows.iter().filter(|((_, key), _)| usize::from(*key) % parts == part);
            for ((table, key), (version, row)) in of_part {
                file.row((TableId(*table), u32::from(*key) % 4), &[*key], *version, row).unwrap();
            }
            if part == 0 {
                writer.add_summary(file.finish().unwrap())
            } else {
                writer.add(file).unwrap()
            }
        }
        // Nothing has happened since the epoch of the last commit.
        let newest = self.model.committed.iter().map(|(epoch, _)| *epoch).max();
        let last = newest.unwrap_or(0).max(epoch);
        let durable = self.any().expect("it is there").group.durable_epoch();
        if last > durable {
            assert!(matches!(
                writer.finish(b"catalog", last, durable),
                Err(LogError::Early { .. })
            ));
        } else {
            writer.finish(b"catalog", last, durable).unwrap();
            self.acknowledge();
            truncate(&self.disk, 2).unwrap();
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Join(u8),
    Commit(u8, u16, Vec<(Key, u16)>),
    Advance(u8),
    Flush(u8),
    Die(u8),
    Leave(u8),
    Checkpoint(usize),
    FailToSync(bool),
    Room(Option<u64>),
}

fn step() -> impl Strategy<Value = Step> {
    let key = (0_u16..2, 0_u8..8);
    let keys = prop::collection::btree_map(key, 0_u16..300, 1..4);
    let keys = keys.prop_map(|keys| keys.into_iter().collect());
    prop_oneof![
        3 => (0..HOSTS).prop_map(Step::Join),
        12 => (0..HOSTS, 0..WORKERS, keys).prop_map(|(h, w, keys)| Step::Commit(h, w, keys)),
        6 => (0..HOSTS).prop_map(Step::Advance),
        9 => (0..HOSTS).prop_map(Step::Flush),
        1 => (0..HOSTS).prop_map(Step::Die),
        1 => (0..HOSTS).prop_map(Step::Leave),
        1 => (1_usize..4).prop_map(Step::Checkpoint),
        1 => prop::bool::weighted(0.3).prop_map(Step::FailToSync),
        1 => prop::option::weighted(0.3, 0_u64..2000).prop_map(Step::Room),
    ]
}

fn take(session: &mut Session, step: &Step) {
    match step {
        Step::Join(host) => session.join(*host),
        Step::Commit(host, worker, keys) => session.commit(*host, *worker, keys),
        Step::Advance(host) => {
            if let Some(host) = &session.hosts[usize::from(*host)] {
                host.group.advance_past(host.group.epoch());
            }
        }
        Step::Flush(host) => session.flush(*host),
        Step::Die(host) => session.die(*host),
        Step::Leave(host) => {
            session.disk.fail_to_sync(false);
            session.disk.set_room(None);
            session.leave(*host);
        }
        Step::Checkpoint(parts) => {
            session.disk.fail_to_sync(false);
            session.disk.set_room(None);
            session.checkpoint(*parts);
        }
        Step::FailToSync(fails) => session.disk.fail_to_sync(*fails),
        Step::Room(room) => session.disk.set_room(*room),
    }
}

/// Numbers that depend on a seed.
fn random(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Hosts commit, flush, die, leave and write checkpoints on disks that fail. Then all lose
    /// power, and go on with what was recovered, some times over.
    #[test]
    fn what_was_durable_is_recovered_and_nothing_in_part(
        rounds in prop::collection::vec((prop::collection::vec(step(), 1..60), any::<u64>()), 1..4)
    ) {
        let (mut disk, mut model, mut first) = (Disk::default(), Model::default(), 1);
        for (steps, seed) in rounds {
            let mut session = Session::new(disk, model, first);
            session.join((seed % u64::from(HOSTS)) as u8);
            steps.iter().for_each(|step| take(&mut session, step));
            let random = random(seed);
            disk = Arc::new(if seed.is_multiple_of(4) {
                session.disk.synchronised()
            } else {
                session.disk.after_power_loss(random)
            });
            model = session.model;
            let recovered = recover(&disk, 1 + (seed % 3) as usize).unwrap();
            model.check(&recovered);
            let halves = [0, 1].map(|half| recover_part(&disk, 2, |_, part| part % 2 == half).unwrap());
            let rows = halves.iter().flat_map(|half| half.rows.iter());
            prop_assert!(rows.clone().all(|row| recovered.rows.contains(row)));
            prop_assert_eq!(rows.count(), recovered.rows.len(), "each row is in one half");
            prop_assert!(halves.iter().all(|half| half.next == recovered.next));
            prop_assert!(recovered.next >= first);
            prop_assert_eq!(&recover(&disk, 1).unwrap(), &recovered, "once more, it is the same");
            recovered.close(&disk).unwrap();
            let again = recover(&disk, 1).unwrap();
            prop_assert_eq!((&again.rows, again.durable), (&recovered.rows, recovered.durable));
            model.cut(&recovered);
            first = recovered.next;
        }
    }
}

/// A database with two hosts that has run for a while, and what its files were at each
/// acknowledgement.
fn history() -> (Session, Vec<(u64, Disk)>) {
    let mut session = Session::new(Disk::default(), Model::default(), 1);
    session.join(0);
    session.join(1);
    let mut moments = Vec::new();
    for n in 0..6_u8 {
        for host in 0..2 {
            let keys = [((0, n % 3), 21), ((1, host), 30 + u16::from(n)), ((1, 2), 130)];
            session.commit(host, u16::from(n % 2), &keys);
        }
        let group = Arc::clone(&session.any().unwrap().group);
        group.advance_past(group.epoch());
        for host in 0..2 {
            session.flush(host);
            moments.push((session.model.acknowledged, Arc::new(session.disk.synchronised())));
        }
    }
    (session, moments)
}

#[test]
fn a_log_that_is_cut_at_any_byte_has_all_that_was_acknowledged_by_then() {
    let (session, moments) = history();
    let mut cuts = 0;
    for pair in moments.windows(2) {
        let (acknowledged, before) = (pair[0].0, &pair[0].1);
        let model = Model { acknowledged, ..session.model.clone() };
        for file in pair[1].1.list().unwrap() {
            let (from, to) = (before.read(&file).unwrap(), pair[1].1.read(&file).unwrap());
            for cut in from.len()..=to.len() {
                let disk = before.synchronised();
                disk.change(&file, |bytes| bytes.extend_from_slice(&to[from.len()..cut]));
                model.check(&recover(&disk, 1).unwrap());
                cuts += 1;
            }
        }
    }
    assert!(cuts > 5000, "{cuts}");
}

#[test]
fn a_file_that_is_cut_later_is_noticed_unless_nothing_is_missing() {
    let (session, _) = history();
    for file in session.disk.list().unwrap() {
        let bytes = session.disk.read(&file).unwrap().len();
        for cut in 0..bytes {
            let disk = session.disk.synchronised();
            disk.change(&file, |bytes| bytes.truncate(cut));
            match recover(&disk, 1) {
                // Of the last epochs nobody else knows.
                Ok(recovered) => {
                    Model { acknowledged: 0, ..session.model.clone() }.check(&recovered)
                }
                Err(LogError::Missing { .. }) => {}
                Err(other) => panic!("cut at {cut}: {other}"),
            }
        }
    }
}

#[test]
fn a_byte_that_changes_is_found_with_its_position() {
    let (mut session, _) = history();
    session.checkpoint(2);
    session.commit(0, 0, &[((0, 1), 50)]);
    let group = Arc::clone(&session.any().unwrap().group);
    group.advance_past(group.epoch());
    (0..2).for_each(|host| session.flush(host));
    let recovered = recover(&session.disk, 2).unwrap();
    assert_eq!(recovered.catalog, b"catalog");
    session.model.check(&recovered);
    recovered.close(&session.disk).unwrap();
    let files = session.disk.list().unwrap();
    assert_eq!(files.len(), 6, "a manifest, two parts, two logs, a closing: {files:?}");
    for damaged in files {
        for at in 0..session.disk.read(&damaged).unwrap().len() {
            let disk = session.disk.synchronised();
            disk.change(&damaged, |bytes| bytes[at] ^= 0x10);
            match recover(&disk, 1) {
                Err(LogError::Damaged { file, position, .. }) => {
                    assert_eq!((file, position), (damaged.clone(), at as u64 / 512 * 512));
                }
                other => panic!("byte {at} of {damaged} was changed: {other:?}"),
            }
        }
    }
}

#[test]
fn a_file_that_is_gone_is_missed() {
    let (mut session, _) = history();
    session.checkpoint(1);
    session.commit(1, 0, &[((0, 1), 50)]);
    let group = Arc::clone(&session.any().unwrap().group);
    group.advance_past(group.epoch());
    (0..2).for_each(|host| session.flush(host));
    for gone in session.disk.list().unwrap() {
        let disk = session.disk.synchronised();
        disk.remove(&gone).unwrap();
        match recover(&disk, 1) {
            Err(LogError::Missing { .. } | LogError::Storage { .. }) => {}
            // It looks as if the checkpoint was never finished, and the logs have everything.
            Ok(recovered) if gone == "checkpoint-0000000006" => session.model.check(&recovered),
            other => panic!("{gone} is gone: {other:?}"),
        }
    }
}

#[test]
fn truncation_keeps_what_recovery_needs() {
    let mut session = Session::new(Disk::default(), Model::default(), 1);
    (0..HOSTS).for_each(|host| session.join(host));
    let mut most = 0;
    for n in 0..200_u64 {
        session.commit((n % 3) as u8, 0, &[((0, (n % 8) as u8), 201)]);
        let group = Arc::clone(&session.any().unwrap().group);
        group.advance_past(group.epoch());
        (0..HOSTS).for_each(|host| session.flush(host));
        if n % 20 == 0 {
            session.checkpoint(2);
        }
        most = most.max(session.disk.list().unwrap().len());
        session.model.check(&recover(&session.disk, 2).unwrap());
    }
    assert!(most < 40, "{most} files");
}

#[test]
fn a_directory_does_not_keep_all_files_open() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Directory::open(folder.path()).unwrap();
    let names: Vec<String> = (0..40).map(|n| format!("f{n:02}")).collect();
    names.iter().for_each(|name| storage.create(name).unwrap());
    let own = |entry: std::fs::DirEntry| std::fs::read_link(entry.path()).ok();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| own(entry.unwrap()));
    let open = open.filter(|path| path.starts_with(folder.path())).count();
    assert!((1..=32).contains(&open), "{open} files are open");
    for name in &names {
        storage.append(name, name.as_bytes()).unwrap();
        storage.sync(name).unwrap();
    }
    assert_eq!(storage.list().unwrap(), names);
    assert!(names.iter().all(|name| storage.read(name).unwrap() == name.as_bytes()));
    storage.remove(&names[0]).unwrap();
    assert!(storage.append(&names[0], b"more").is_err());
}

#[test]
fn a_directory_of_a_file_system_holds_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Arc::new(Directory::open(folder.path().join("log")).unwrap());
    let session = Session::new(Disk::default(), Model::default(), 7);
    let group = session.group(0);
    let mut logger = Logger::open(Arc::clone(&group), Arc::clone(&storage)).unwrap();
    let mut worker = group.worker(0);
    let epoch = worker.commit_epoch();
    let (table, version) = (TableId(3), Version::first(epoch));
    worker.append(epoch, [Change { table, partition: 1, key: b"k", version, row: Some(b"r") }]);
    worker.finish();
    group.advance_past(epoch);
    logger.flush().unwrap();
    let mut writer = CheckpointWriter::begin(Arc::clone(&storage), 6).unwrap();
    let part = writer.part().unwrap();
    writer.add(part).unwrap();
    writer.finish(b"", 6, group.durable_epoch()).unwrap();
    let recovered = recover(&storage, 2).unwrap();
    assert_eq!((recovered.rows.len(), recovered.durable, recovered.next), (1, 7, 8));
    assert_eq!(*recovered.rows[0].row, *b"r");
    assert!(Storage::create(&storage, &storage.list().unwrap()[0]).is_err());
}
