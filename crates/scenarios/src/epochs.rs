//! Epochs and the log of transactions: what was acknowledged as durable is recovered, whole, with
//! all that it depends on, whichever hosts and whatever power fails.
//!
//! A transaction writes two rows under locks of the scenario's own, which no host has to clear up.
//! Files lie on a simulated disk. Now and then power is cut for a copy of that disk, and it is
//! recovered.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tombolo_database::log::{
    Change, GroupCommit, GroupSettings, LogError, LogLayout, Logger, SimulatedDisk, Storage,
    Worker, record_bytes, recover,
};
use tombolo_database::{Durability, TableId, TxError, Version};
use tombolo_memory::{LnrAddr, Memory, ScrAddr};
use tombolo_simulator::{Config, Deaths, Kills, SimMemory, Simulation, Trial};

use crate::world::Busy;

const HOSTS: usize = 3;
const WORKERS: u16 = 2;
/// Keys that all workers write; besides, each has a key of its own.
const SHARED_KEYS: u8 = 2;
const TABLE: TableId = TableId(0);
/// Room for two records of a buffer.
const LAYOUT: LogLayout = LogLayout { hosts: HOSTS as u8, workers: WORKERS, buffer_bytes: 256 };
const PARTS: (ScrAddr<u64>, LnrAddr) = (ScrAddr::new(64), LnrAddr::new(64));

type Group = Arc<GroupCommit<SimMemory>>;
type SimLogger = Logger<SimMemory, PacedDisk>;

/// The disk as a host has it: other threads may run between any two operations, and a host that is
/// dead does nothing.
#[derive(Clone)]
pub(crate) struct PacedDisk {
    pub(crate) disk: Arc<SimulatedDisk>,
    pub(crate) memory: SimMemory,
}

impl PacedDisk {
    fn disk(&self) -> io::Result<&SimulatedDisk> {
        // A thread whose host is dead ends here.
        self.memory.step();
        if self.memory.is_gone() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(&self.disk) }
    }
}

impl Storage for PacedDisk {
    fn create(&self, file: &str) -> io::Result<()> {
        self.disk()?.create(file)
    }

    fn append(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        self.disk()?.append(file, bytes)
    }

    fn sync(&self, file: &str) -> io::Result<()> {
        self.disk()?.sync(file)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk()?.list()
    }

    fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        self.disk()?.read(file)
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        self.disk()?.remove(file)
    }
}

/// A transaction that commits.
struct Committed {
    host: usize,
    epoch: u64,
    changes: Vec<(u8, Version)>,
    /// Whether its record is where other hosts find it.
    is_logged: Cell<bool>,
    /// Whether its worker was told that it is durable.
    is_acknowledged: Cell<bool>,
}

/// The actions of all hosts, as an onlooker knows them.
#[derive(Default)]
struct Book {
    committed: RefCell<Vec<Rc<Committed>>>,
    versions: RefCell<BTreeMap<u8, Version>>,
    locked: RefCell<BTreeSet<u8>>,
    /// Hosts whose logs were closed while they lived.
    fenced: RefCell<BTreeSet<usize>>,
}

/// Locks on keys, which end with their transaction, or with its host.
struct Locks {
    book: Rc<Book>,
    keys: Vec<u8>,
}

impl Drop for Locks {
    fn drop(&mut self) {
        let mut locked = self.book.locked.borrow_mut();
        self.keys.iter().for_each(|key| _ = locked.remove(key));
    }
}

impl Book {
    fn lock(self: &Rc<Self>, memory: &SimMemory, keys: Vec<u8>) -> Locks {
        while keys.iter().any(|key| self.locked.borrow().contains(key)) {
            memory.pause();
        }
        self.locked.borrow_mut().extend(&keys);
        Locks { book: Rc::clone(self), keys }
    }

    /// Notes a transaction that commits in `epoch`, and gives its rows versions.
    fn note(&self, host: usize, epoch: u64, keys: &[u8]) -> Rc<Committed> {
        let mut versions = self.versions.borrow_mut();
        let changes = keys.iter().map(|&key| {
            let version = versions.entry(key).or_default();
            assert!(version.epoch() <= epoch, "an epoch came back: {epoch} after {version:?}");
            *version = version.next(epoch).expect("rows change a few times");
            (key, *version)
        });
        let (is_logged, is_acknowledged) = (Cell::new(false), Cell::new(false));
        let changes = changes.collect();
        let noted = Rc::new(Committed { host, epoch, changes, is_logged, is_acknowledged });
        self.committed.borrow_mut().push(Rc::clone(&noted));
        noted
    }

    /// Whether a transaction may be missing: its host was not able to say that it has happened.
    fn is_doubtful(
        &self,
        one: &Committed,
        memory: &SimMemory,
        lives: &[Option<SimMemory>],
    ) -> bool {
        let is_dead = lives[one.host].as_ref().is_none_or(|host| memory.has_ended(host.process()));
        let is_fenced = self.fenced.borrow().contains(&one.host);
        !one.is_acknowledged.get() && (is_fenced || is_dead && !one.is_logged.get())
    }

    /// Recovers what `disk` has, and compares it with all that has happened.
    fn check(&self, disk: &SimulatedDisk, memory: &SimMemory, lives: &[Option<SimMemory>]) {
        let acknowledged = self.committed.borrow();
        let acknowledged = acknowledged.iter().filter(|one| one.is_acknowledged.get());
        let acknowledged = acknowledged.map(|one| one.epoch).max().unwrap_or(0);
        let recovered = recover(disk, 1).unwrap();
        let durable = recovered.durable;
        assert!(durable >= acknowledged, "{durable} was recovered, {acknowledged} was durable");
        let rows = recovered.rows.iter().map(|row| (row.key[0], row.version)).collect();
        let committed = self.committed.borrow();
        let counting = committed.iter().filter(|one| one.epoch <= durable);
        let (doubtful, sure): (Vec<_>, Vec<_>) =
            counting.partition(|one| self.is_doubtful(one, memory, lives));
        assert!(doubtful.len() < 12, "so many cases are not looked at");
        let fits = (0..1_u32 << doubtful.len()).any(|chosen| {
            let chosen = doubtful.iter().enumerate().filter(|(n, _)| chosen >> n & 1 == 1);
            let happened = chosen.map(|(_, one)| one).chain(&sure);
            newest(happened.flat_map(|one| &one.changes)) == rows
        });
        assert!(fits, "at the end of epoch {durable} there is {rows:?}");
    }
}

/// The newest version of each key.
fn newest<'a>(changes: impl Iterator<Item = &'a (u8, Version)>) -> BTreeMap<u8, Version> {
    let mut rows = BTreeMap::new();
    for &(key, version) in changes {
        let newest = rows.entry(key).or_insert(version);
        *newest = version.max(*newest);
    }
    rows
}

/// A host with a log.
struct Host {
    number: usize,
    group: Group,
    logger: RefCell<Option<SimLogger>>,
    /// Whether its workers may commit.
    has_begun: Cell<bool>,
    /// Whether its log was closed by another host.
    is_retired: Cell<bool>,
    /// Threads of it that use its log.
    busy: Rc<Cell<usize>>,
}

/// A pod whose hosts have logs.
struct World {
    simulation: Simulation,
    disk: Arc<SimulatedDisk>,
    book: Rc<Book>,
    hosts: Vec<Rc<Host>>,
    /// Threads whose transactions have not all been acknowledged.
    busy: Rc<Cell<usize>>,
}

impl World {
    fn new(trial: &Trial, kills: Option<Kills>) -> Self {
        let config = Config {
            kills,
            hosts: HOSTS,
            scr_bytes: 4 << 10,
            lnr_bytes: 4 << 10,
            max_steps: 200_000,
            ..Config::default()
        };
        let simulation = Simulation::new(config, trial);
        GroupCommit::format(&simulation.memory(0), LAYOUT, PARTS.0, PARTS.1, 1);
        simulation.memory(0).answered();
        let hosts = (0..HOSTS).map(|number| Rc::new(Host::new(&simulation, number))).collect();
        let (disk, book, busy) = (Arc::default(), Rc::default(), Rc::default());
        Self { simulation, disk, book, hosts, busy }
    }

    /// The host's log begins when a while has passed, and runs until no thread is busy; meanwhile
    /// the host closes the logs of those that have died.
    fn logger(&mut self, number: usize, patience: u64) {
        let (host, busy) = (Rc::clone(&self.hosts[number]), Rc::clone(&self.busy));
        let (disk, lives) = (Arc::clone(&self.disk), self.lives());
        let (book, own) = (Rc::clone(&self.book), Busy::new(&host.busy));
        self.simulation.spawn(number, move |memory| {
            let _own = own;
            (0..memory.random() % (patience + 1)).for_each(|_| memory.pause());
            let disk = PacedDisk { disk, memory: memory.clone() };
            *host.logger.borrow_mut() = Some(Logger::open(Arc::clone(&host.group), disk).unwrap());
            host.has_begun.set(true);
            let mut closed = BTreeSet::new();
            while busy.get() > 0 {
                host.group.tick();
                if !host.log() {
                    break;
                }
                for (other, life) in lives.iter().enumerate() {
                    let is_dead =
                        life.as_ref().is_some_and(|life| memory.has_ended(life.process()));
                    let is_fenced = other != number && book.fenced.borrow().contains(&other);
                    if (is_dead || is_fenced) && closed.insert(other) {
                        host.drain(other);
                    }
                }
                memory.pause();
            }
        });
    }

    /// The memories that hosts had when the scenario began: so it is known which have died.
    fn lives(&self) -> Vec<Option<SimMemory>> {
        (0..HOSTS).map(|host| Some(self.simulation.memory(host))).collect()
    }

    /// A worker commits some transactions, and waits until some of them are durable.
    fn worker(&mut self, number: usize, worker: u16, transactions: u64) {
        let (host, book) = (Rc::clone(&self.hosts[number]), Rc::clone(&self.book));
        let (disk, lives) = (Arc::clone(&self.disk), self.lives());
        let (busy, own) = (Busy::new(&self.busy), Busy::new(&host.busy));
        self.simulation.spawn(number, move |memory| {
            let _busy = (busy, own);
            while !host.has_begun.get() {
                memory.pause();
            }
            let mut log = host.group.worker(worker);
            for _ in 0..transactions {
                let dice = memory.random();
                let key = SHARED_KEYS + (number as u8) * WORKERS as u8 + worker as u8;
                let keys = vec![(dice % u64::from(SHARED_KEYS)) as u8, key];
                let Ok(one) = commit(&host, &book, &mut log, &memory, keys) else { break };
                let durability = match dice >> 32 & 3 {
                    0 => continue,
                    1 => Durability::Immediate,
                    _ => Durability::Epoch,
                };
                let waited = host.group.wait_durable(one.epoch, durability, || host.goes_on());
                if waited.is_err() {
                    break;
                }
                one.is_acknowledged.set(true);
                book.check(&disk.synchronised(), &memory, &lives);
            }
        });
    }

    /// Power is cut for a copy of the disk, some times.
    fn auditor(&mut self, number: usize) {
        let (busy, book, lives) = (Rc::clone(&self.busy), Rc::clone(&self.book), self.lives());
        let disk = Arc::clone(&self.disk);
        self.simulation.spawn(number, move |memory| {
            for _ in 0..4 {
                (0..memory.random() % 64).for_each(|_| memory.pause());
                if busy.get() == 0 {
                    break;
                }
                book.check(&disk.after_power_loss(|| memory.random()), &memory, &lives);
            }
        });
    }

    /// Runs everything to its end; then what living hosts have committed is durable soon.
    fn finish(mut self) {
        let lives = self.lives();
        self.simulation.run().unwrap();
        let lives: Vec<_> = lives
            .into_iter()
            .enumerate()
            .map(|(host, life)| life.filter(|_| self.simulation.deaths(host) == 0))
            .collect();
        let living = self.hosts.iter().filter(|host| lives[host.number].is_some());
        let living: Vec<_> = living.filter(|host| !host.is_retired.get()).cloned().collect();
        let Some(first) = living.first() else { return };
        for dead in (0..HOSTS).filter(|&host| lives[host].is_none()) {
            first.drain(dead);
        }
        let last = first.group.epoch();
        first.group.advance_past(last);
        living.iter().for_each(|host| assert!(host.flush()));
        assert_eq!(first.group.durable_epoch(), last, "no log waits for anything");
        let memory = self.simulation.memory(first.number);
        self.book.check(&self.disk.synchronised(), &memory, &lives);
    }
}

impl Host {
    fn new(simulation: &Simulation, number: usize) -> Self {
        let settings = GroupSettings {
            epoch: Duration::from_millis(1),
            patience: Duration::MAX,
            file_bytes: 2048,
        };
        let group =
            GroupCommit::new(simulation.memory(number), LAYOUT, PARTS, number as u8, settings);
        Self {
            number,
            group,
            logger: RefCell::default(),
            has_begun: Cell::default(),
            is_retired: Cell::default(),
            busy: Rc::default(),
        }
    }

    /// Writes what is to be written; whether the log goes on.
    fn log(&self) -> bool {
        self.with(SimLogger::tick)
    }

    fn flush(&self) -> bool {
        self.with(SimLogger::flush)
    }

    fn with(&self, action: impl FnOnce(&mut SimLogger) -> Result<bool, LogError>) -> bool {
        let mut logger = self.logger.borrow_mut();
        let Some(logger) = logger.as_mut() else { return true };
        match action(logger) {
            Ok(_) => true,
            Err(LogError::Retired { .. }) => {
                self.is_retired.set(true);
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Closes the log of another host.
    fn drain(&self, other: usize) {
        self.with(|logger| logger.drain(other as u8));
    }

    /// Fails once the log was closed by another host.
    fn goes_on(&self) -> Result<(), TxError> {
        if self.is_retired.get() {
            return Err(TxError::HostDied { host: self.number as u8 });
        }
        Ok(())
    }
}

fn commit(
    host: &Host,
    book: &Rc<Book>,
    log: &mut Worker<SimMemory>,
    memory: &SimMemory,
    keys: Vec<u8>,
) -> Result<Rc<Committed>, TxError> {
    log.begin();
    let locks = book.lock(memory, keys);
    let row = [host.number as u8; 8];
    let bytes = record_bytes(locks.keys.iter().map(|_| (1, row.len())));
    let reserved = log.reserve(bytes, || host.goes_on());
    let committed = reserved.map(|()| {
        let epoch = log.commit_epoch();
        let one = book.note(host.number, epoch, &locks.keys);
        let changes = one.changes.iter().map(|(key, version)| Change {
            table: TABLE,
            partition: 0,
            key: std::slice::from_ref(key),
            version: *version,
            row: Some(&row),
        });
        log.append(epoch, changes);
        // A lock in shared memory is released after the record became visible.
        memory.answered();
        one.is_logged.set(true);
        one
    });
    drop(locks);
    log.finish();
    committed
}

/// Three hosts commit; the log of one begins late.
pub(crate) fn group_commit(trial: &Trial) {
    let mut world = World::new(trial, None);
    for host in 0..HOSTS {
        for worker in 0..WORKERS {
            world.worker(host, worker, 3);
        }
        world.logger(host, if host == 2 { 64 } else { 0 });
    }
    world.auditor(0);
    world.finish();
}

/// Two workers of one host commit, and its logger passes epochs meanwhile.
pub(crate) fn one_log(trial: &Trial) {
    let mut world = World::new(trial, None);
    for worker in 0..WORKERS {
        world.worker(0, worker, 4);
    }
    world.logger(0, 0);
    world.auditor(0);
    // Another host ends epochs without being asked to.
    let (group, busy) = (Arc::clone(&world.hosts[1].group), Rc::clone(&world.busy));
    world.simulation.spawn(1, move |memory| {
        while busy.get() > 0 {
            group.advance_past(group.epoch());
            memory.pause();
        }
    });
    world.finish();
}

/// Hosts end one epoch at once: it ends once, and no epoch comes back.
pub(crate) fn epochs_end(trial: &Trial) {
    let mut world = World::new(trial, None);
    for host in 0..HOSTS {
        let group = Arc::clone(&world.hosts[host].group);
        world.simulation.spawn(host, move |memory| {
            let mut last = group.epoch();
            for _ in 0..4 {
                group.advance_past(last);
                memory.answered();
                let now = group.epoch();
                assert!(now > last, "epoch {now} came after {last}, which has ended");
                last = now;
            }
        });
    }
    world.simulation.run().unwrap();
}

/// The log of a host begins while those of others make epochs durable, and ends, and begins again.
pub(crate) fn late_log(trial: &Trial) {
    let mut world = World::new(trial, None);
    for host in 0..2 {
        world.worker(host, 0, 6);
        world.logger(host, 0);
    }
    let (group, busy) = (Arc::clone(&world.hosts[2].group), Rc::clone(&world.busy));
    let disk = Arc::clone(&world.disk);
    world.simulation.spawn(2, move |memory| {
        while busy.get() > 0 {
            let disk = PacedDisk { disk: Arc::clone(&disk), memory: memory.clone() };
            let logger = Logger::open(Arc::clone(&group), disk).unwrap();
            (0..memory.random() % 8).for_each(|_| memory.pause());
            logger.leave().unwrap();
            (0..memory.random() % 8).for_each(|_| memory.pause());
        }
    });
    world.auditor(2);
    world.finish();
}

fn dying(hosts: &[usize], deaths: Deaths) -> Option<Kills> {
    Some(Kills { hosts: hosts.to_vec(), one_in: 1, deaths })
}

fn with_deaths(trial: &Trial, kills: Option<Kills>) {
    let mut world = World::new(trial, kills);
    for host in 0..HOSTS {
        for worker in 0..WORKERS {
            world.worker(host, worker, 3);
        }
        world.logger(host, 8);
    }
    world.auditor(2);
    world.finish();
}

/// A host dies: the others write out what it has logged, and no epoch waits for it.
pub(crate) fn a_logging_host_dies(trial: &Trial) {
    with_deaths(trial, dying(&[1], Deaths::One));
}

/// So does one of those that write out what it has logged.
pub(crate) fn a_drainer_dies(trial: &Trial) {
    with_deaths(trial, dying(&[1, 0], Deaths::InTurn));
}

/// A host that lives is taken for dead: another closes its log. Transactions that it has been told
/// are durable are so, and no other host waits for it once it has ended.
pub(crate) fn a_logging_host_is_fenced(trial: &Trial) {
    let mut world = World::new(trial, None);
    for host in 0..2 {
        world.worker(host, 0, 2);
        world.logger(host, 0);
    }
    let (first, second) = (Rc::clone(&world.hosts[0]), Rc::clone(&world.hosts[1]));
    let (busy, book) = (Busy::new(&world.busy), Rc::clone(&world.book));
    world.simulation.spawn(0, move |memory| {
        let _busy = busy;
        while !first.has_begun.get() || !second.has_begun.get() {
            memory.pause();
        }
        (0..memory.random() % 64).for_each(|_| memory.pause());
        book.fenced.borrow_mut().insert(1);
        while second.busy.get() > 0 {
            // It learns that its log was closed when it has something to write.
            first.group.advance_past(first.group.epoch());
            memory.pause();
        }
        let mut log = first.group.worker(1);
        let one = commit(&first, &book, &mut log, &memory, vec![0]).unwrap();
        first.group.wait_durable(one.epoch, Durability::Epoch, || Ok(())).unwrap();
        one.is_acknowledged.set(true);
    });
    world.finish();
}

/// The content of a cell that is not in use.
const FREED: u64 = u64::MAX;

/// A host replaces a cell again and again, and frees the old one when no transaction can see it any
/// more.
pub(crate) fn freed_under_a_reader(trial: &Trial) {
    let mut world = World::new(trial, None);
    let end = PARTS.0.offset() + LAYOUT.scr_bytes();
    let current = ScrAddr::<u64>::new(end);
    let cell = move |number: u64| current.element(1 + number);
    world.simulation.memory(0).store(cell(0), 1);
    let writer = Arc::clone(&world.hosts[0].group);
    let reading = Rc::clone(&world.busy);
    for host in 1..HOSTS {
        let (group, busy) = (Arc::clone(&world.hosts[host].group), Busy::new(&world.busy));
        world.simulation.spawn(host, move |memory| {
            let _busy = busy;
            let mut log = group.worker(0);
            for _ in 0..4 {
                log.begin();
                let found = cell(memory.load(current));
                (0..memory.random() % 4).for_each(|_| memory.pause());
                assert_ne!(memory.load(found), FREED, "a cell was freed under its reader");
                log.finish();
            }
        });
    }
    world.simulation.spawn(0, move |memory| {
        for number in 0.. {
            if reading.get() == 0 {
                break;
            }
            let (old, new) = (number % 2, (number + 1) % 2);
            memory.store(cell(new), number + 2);
            memory.store(current, new);
            memory.answered();
            let retired = writer.epoch();
            writer.advance_past(retired);
            while writer.oldest_active() <= retired {
                memory.pause();
            }
            memory.store(cell(old), FREED);
        }
    });
    world.simulation.run().unwrap();
}
