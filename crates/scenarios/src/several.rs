//! Transactions over several objects, of hosts that die or are fenced: all that is committed is a
//! serial history, in real time.

use std::cell::Cell;
use std::rc::Rc;

use tombolo_memory::Memory;
use tombolo_objects::{Error, Objects, Reads, Writes};
use tombolo_simulator::{Deaths, Kills, SimMemory, Trial};
use tombolo_verify::serializability::{Condition, check};
use tombolo_verify::transactions::{Operation, Recorder, Session};

use crate::aims::aimed_at;
use crate::crash::{expect_no_help, living_or_joined, read_and_leave, width_for_fences};
use crate::objects::colliding_keys;
use crate::operations::{tag, value};
use crate::world::{Host, Setup, World, is_out, try_join};

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// Transactions that a client tries.
const TRANSACTIONS: u64 = 4;

/// How often one is tried that met others' changes.
const TRIES: u32 = 4;

/// Steps that a check of a history may take.
const BUDGET: u64 = 2_000_000;

type Step = Operation<String, u64>;

/// All that clients did.
#[derive(Clone, Default)]
struct Book {
    recorder: Rc<Recorder<String, u64>>,
    tags: Rc<Cell<u64>>,
    sessions: Rc<Cell<u32>>,
}

impl Book {
    fn session(&self) -> Session<String, u64> {
        self.sessions.set(self.sessions.get() + 1);
        self.recorder.session(self.sessions.get())
    }

    fn fresh(&self) -> u64 {
        self.tags.set(self.tags.get() + 1);
        self.tags.get()
    }

    fn check(&self) {
        let verdict = check(&self.recorder.history(), Condition::Strict, BUDGET);
        assert!(verdict.passed(), "{verdict}");
    }
}

/// The reads and changes of a transaction.
#[derive(Default)]
struct Draft {
    reads: Reads,
    writes: Writes,
    steps: Vec<Step>,
}

/// A client of one host.
struct Client<'a> {
    host: &'a Objects<SimMemory>,
    book: &'a Book,
    session: Session<String, u64>,
}

impl<'a> Client<'a> {
    fn new(host: &'a Objects<SimMemory>, book: &'a Book) -> Self {
        Self { host, book, session: book.session() }
    }

    fn below(&self, end: u64) -> u64 {
        self.host.memory().random() % end
    }

    /// Runs transactions; whether the host is still in the pod.
    fn run(&self) -> bool {
        (0..TRANSACTIONS).all(|_| {
            let (kind, first) = (self.below(8), self.below(KEYS.len() as u64) as usize);
            (0..TRIES).find_map(|_| self.attempt(kind, first)).unwrap_or(true)
        })
    }

    /// Tries a transaction; `None` if it is to be tried again, and otherwise whether the host is
    /// still in the pod.
    fn attempt(&self, kind: u64, first: usize) -> Option<bool> {
        let attempt = self.session.begin();
        let mut draft = Draft::default();
        let drafted = match kind {
            0 => KEYS.iter().try_for_each(|key| self.read(key, &mut draft)),
            _ => self.some_steps(kind, first, &mut draft),
        };
        draft.steps.iter().for_each(|step| self.session.note(&attempt, step.clone()));
        let ended = match drafted {
            Ok(()) => self.host.transact(&draft.reads, &draft.writes, &|| true),
            Err(error) => {
                self.session.aborted(attempt);
                return self.failed(error, first);
            }
        };
        self.host.memory().answered();
        match ended {
            Ok(true) => {
                self.session.committed(attempt);
                Some(true)
            }
            Ok(false) => {
                self.session.aborted(attempt);
                (0..self.below(20)).for_each(|_| self.host.memory().pause());
                None
            }
            Err(error) if error.is_fenced() => {
                self.session.unknown(attempt);
                Some(false)
            }
            Err(error) => {
                self.session.aborted(attempt);
                self.failed(error, first)
            }
        }
    }

    /// Nothing was done.
    fn failed(&self, error: Error, first: usize) -> Option<bool> {
        match error {
            error if error.is_fenced() => Some(false),
            Error::LnrFull { .. } => {
                self.host.memory().note("no room in LNR");
                Some(true)
            }
            error if error.is_loss() => self.forget(first),
            error => panic!("{error}"),
        }
    }

    /// A value is lost with a host that changed it alone: as if somebody had deleted it.
    fn forget(&self, first: usize) -> Option<bool> {
        for key in KEYS.iter().cycle().skip(first).take(KEYS.len()) {
            let attempt = self.session.begin();
            match self.host.forget_lost(key.as_bytes()) {
                Ok(true) => {
                    self.session.note(&attempt, Operation::Delete { key: (*key).to_owned() });
                    self.session.committed(attempt);
                }
                Ok(false) => self.session.aborted(attempt),
                Err(error) if error.is_fenced() => {
                    self.session.note(&attempt, Operation::Delete { key: (*key).to_owned() });
                    self.session.unknown(attempt);
                    return Some(false);
                }
                Err(error) => panic!("{error}"),
            }
        }
        None
    }

    fn some_steps(&self, kind: u64, first: usize, draft: &mut Draft) -> Result<(), Error> {
        let keys = || KEYS.iter().cycle().skip(first);
        // One that is only read, and two or three that change; some of them are not read.
        for (number, key) in keys().take(3).enumerate() {
            if kind != 1 || number == 0 {
                self.read(key, draft)?;
            }
        }
        for key in keys().skip(1).take(1 + (kind as usize % 3)) {
            self.change(key, draft);
        }
        Ok(())
    }

    fn read(&self, key: &str, draft: &mut Draft) -> Result<(), Error> {
        let mut bytes = Vec::new();
        let version = self.host.read(key.as_bytes(), &mut bytes)?;
        draft.reads.insert(key.as_bytes().to_vec(), version);
        let value = version.map(|_| tag(&bytes));
        draft.steps.push(Operation::Read { key: key.to_owned(), value });
        Ok(())
    }

    fn change(&self, key: &str, draft: &mut Draft) {
        let name = key.as_bytes().to_vec();
        let there = matches!(draft.reads.get(&name), Some(Some(_)));
        let key = key.to_owned();
        if there && self.below(4) == 0 {
            draft.steps.push(Operation::Delete { key });
            draft.writes.insert(name, None);
        } else {
            let fresh = self.book.fresh();
            draft.steps.push(Operation::Write { key, value: fresh });
            draft.writes.insert(name, Some(value(fresh)));
        }
    }
}

fn setup(hosts: usize) -> Setup {
    let roomy = Setup::roomy(hosts);
    Setup { records: 8, writes: 8, chunks: 120, most_steps: 1_500_000, ..roomy }
}

fn begin(trial: &Trial, setup: &Setup) -> (World, Book) {
    let mut world = World::new(trial, setup);
    let book = Book::default();
    for number in 0..setup.joined {
        let clients = 1 + usize::from(number == 0);
        for _ in 0..clients {
            let book = book.clone();
            world.client(number, move |host, _| _ = Client::new(host, &book).run());
        }
    }
    (world, book)
}

fn end(mut world: World, book: &Book) {
    world.finish();
    let living = living_or_joined(&world);
    let listen = || living.iter().for_each(|host| _ = host.object_count().unwrap());
    living.iter().for_each(|host| look(host, book, &listen));
    book.check();
    read_and_leave(&mut world, &living, &[]);
}

/// The objects in the end. In between all hosts `listen`: the log has little room.
fn look(host: &Host, book: &Book, listen: &impl Fn()) {
    let client = Client::new(host, book);
    listen();
    client.forget(0);
    listen();
    assert_eq!(client.attempt(0, 0), Some(true), "nobody is in the way");
    listen();
    // It does not answer others from here on.
    host.move_out_all().unwrap();
    listen();
}

/// Three hosts change objects, several at a time.
pub(crate) fn anything_goes(trial: &Trial) {
    let (world, book) = begin(trial, &setup(3));
    end(world, &book);
}

/// Two keys with one hash in one transaction: neither is in the other's way.
pub(crate) fn keys_with_one_hash(trial: &Trial) {
    // Both need a record of the few that objects with this hash can have.
    let mut world = World::new(trial, &setup(2).plain());
    let (one, other) = colliding_keys(&world.hosts[0]);
    world.client(0, move |host, _| {
        let both = [one.as_bytes().to_vec(), other.as_bytes().to_vec()];
        for tag in 0..4 {
            let read = |key: &Vec<u8>| {
                let version = host.read(key, &mut Vec::new()).unwrap();
                (key.clone(), version)
            };
            let commits = || {
                let seen: Reads = both.iter().map(read).collect();
                // The first time both come, and then one of them stays as it is.
                let changed = both.iter().skip(usize::from(tag % 2 == 1));
                let changes = changed.map(|key| (key.clone(), Some(value(tag))));
                let third = (b"third".to_vec(), Some(value(tag)));
                host.transact(&seen, &changes.chain([third]).collect(), &|| true).unwrap()
            };
            // Background work may be in its way now and then.
            let wait = || (0..20).for_each(|_| host.memory().pause());
            let tried = || {
                commits() || {
                    wait();
                    false
                }
            };
            assert!((0..20).any(|_| tried()), "a transaction is in its own way");
        }
    });
    world.finish();
    let hosts = world.hosts.clone();
    read_and_leave(&mut world, &hosts, &[]);
}

/// A host dies at the end of a transaction, which another of its threads may have put into the log:
/// the objects are out before.
pub(crate) fn a_helped_host_dies(trial: &Trial) {
    let trial = &aimed_at(trial, "objects.transaction.note-first", 1, 100);
    let setup = Setup { hosts: 2, joined: 2, ..dying(&[0], Deaths::One) }.plain();
    let (mut world, book) = (World::new(trial, &setup), Book::default());
    let transactor = book.clone();
    world.client(0, move |host, _| _ = Client::new(host, &transactor).run());
    for key in ["x", "y"] {
        world.client(0, move |host, _| {
            for _ in 0..2 * TRANSACTIONS {
                host.create(key.as_bytes(), &value(1)).unwrap();
                host.delete(key.as_bytes()).unwrap();
            }
        });
    }
    end(world, &book);
}

fn dying(hosts: &[usize], deaths: Deaths) -> Setup {
    let kills = Some(Kills { hosts: hosts.to_vec(), one_in: 1, deaths });
    Setup { kills, ..setup(3) }
}

/// A host dies at any step: of each of its transactions all is there, or nothing.
pub(crate) fn a_host_dies(trial: &Trial) {
    let (world, book) = begin(trial, &dying(&[0, 1, 2], Deaths::One));
    end(world, &book);
}

/// A host dies, and then one of those that clear up after it.
pub(crate) fn two_die(trial: &Trial) {
    let (world, book) = begin(trial, &dying(&[0, 1], Deaths::InTurn));
    end(world, &book);
}

/// All die at once: the host that opens the pod ends their transactions.
pub(crate) fn all_die(trial: &Trial) {
    let (world, book) = begin(trial, &dying(&[0, 1, 2], Deaths::Together));
    end(world, &book);
}

/// Hosts open the pod one after the other, each when the last one is dead, and die in the middle of
/// transactions, or while they end those of the last one.
pub(crate) fn openers_die(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1, 2], one_in: 1, deaths: Deaths::InTurn });
    let mut world = World::new(trial, &Setup { joined: 0, kills, ..setup(4) });
    let (book, through) = (Book::default(), Rc::new(Cell::new(0)));
    for number in 0..3 {
        let (book, through) = (book.clone(), Rc::clone(&through));
        world.thread(number, move |memory| {
            let _through = Through(Rc::clone(&through));
            while through.get() < number {
                memory.pause();
            }
            match try_join(memory.clone()) {
                Ok(host) => {
                    Client::new(&host, &book).run();
                    host.leave().unwrap();
                }
                Err(error) => expect_no_help(&memory, &error),
            }
        });
    }
    world.finish();
    match try_join(world.simulation.memory(3)) {
        Ok(host) => {
            look(&host, &book, &|| ());
            book.check();
            read_and_leave(&mut world, &[host], &[]);
        }
        Err(error) => expect_no_help(&world.simulation.memory(3), &error),
    }
}

/// Counts a thread when it is through, or dead.
struct Through(Rc<Cell<usize>>);

impl Drop for Through {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

fn fencer(world: &mut World) {
    let (host, fenced) = (Rc::clone(&world.hosts[1]), Rc::clone(&world.fenced));
    world.thread(1, move |memory| {
        (0..memory.random() % 300).for_each(|_| memory.step());
        fenced.borrow_mut().push(0);
        host.fence(0).unwrap();
        memory.note("a host was fenced");
    });
}

/// A host is fenced that changes objects, and goes on for as long as it does not find out.
pub(crate) fn a_host_is_fenced(trial: &Trial) {
    fence_one(trial, setup(3));
}

/// A host is fenced, others go on with some of its objects, and then all die.
pub(crate) fn all_die_after_a_fence(trial: &Trial) {
    fence_one(trial, dying(&[0, 1, 2], Deaths::Together));
}

fn fence_one(trial: &Trial, setup: Setup) {
    let setup = Setup { width: width_for_fences(trial), ..setup };
    let (mut world, book) = begin(trial, &setup);
    fencer(&mut world);
    let victim = Rc::clone(&world.hosts[0]);
    world.run();
    if victim.memory().deaths() == 0 {
        assert!(is_out(victim.leave()), "a host that was fenced knows it");
    }
    end(world, &book);
}
