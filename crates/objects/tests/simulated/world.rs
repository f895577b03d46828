//! A small pod in which rare things are common: a log of 8 entries, 3-bit counters, two records,
//! tiny chunks, an index that splits at once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tombolo_memory::Memory;
use tombolo_objects::{Error, IndexLimits, Maintenance, Objects, Options};
use tombolo_pod::{Geometry, Pod};
use tombolo_simulator::{Config, SimMemory, Simulation};
use tombolo_verify::history::{Client, Recorder};
use tombolo_verify::linearizability::{Verdict, check};
use tombolo_verify::models::{KeyValue, Operation, Result as Answer};

pub(crate) type Host = Rc<Objects<SimMemory>>;
pub(crate) type Log = Recorder<String, Operation<u64>, Answer<u64>>;
pub(crate) type Scribe = Client<String, Operation<u64>, Answer<u64>>;

/// LNR with some 50 chunks of 1 KiB, and with 7.
pub(crate) const ROOMY: u64 = 128 << 10;
pub(crate) const SCARCE: u64 = (77 + 7) << 10;

pub(crate) fn config() -> Config {
    Config { hosts: 3, lnr_bytes: ROOMY, max_steps: 400_000, ..Config::default() }
}

pub(crate) fn geometry(memory: &SimMemory, records: u64) -> Geometry {
    let options = tombolo_pod::Options {
        ring_entries: Some(8),
        segment_entries: Some(8),
        chunk_bytes: Some(1024),
        records: Some(records),
        counter_bits: Some(3),
    };
    Geometry::plan(memory.scr_bytes(), memory.lnr_bytes(), options).unwrap()
}

pub(crate) fn options() -> Options {
    Options {
        index: IndexLimits { segment_buckets: 2, segments: 64 },
        maintenance: Maintenance { watermark_percent: 60, reclaim_batch: 1 },
        small_lines: 4,
    }
}

pub(crate) fn join(memory: SimMemory) -> Host {
    Rc::new(Objects::join(Pod::open(memory).unwrap(), options()).unwrap())
}

/// A pod with some hosts in it, whose threads are counted and whose background work is done until
/// all of them are through.
pub(crate) struct World {
    pub(crate) simulation: Simulation,
    pub(crate) hosts: Vec<Host>,
    pub(crate) log: Rc<Log>,
    busy: Rc<Cell<usize>>,
}

impl World {
    /// The first of `hosts` hosts opens the pod and hands its replica to the others.
    pub(crate) fn new(config: Config, seed: u64, hosts: usize, records: u64) -> Self {
        let mut simulation = Simulation::new(config, seed);
        let memory = simulation.memory(0);
        Pod::format(memory.clone(), geometry(&memory, records)).unwrap();
        let joined: Rc<RefCell<BTreeMap<usize, Host>>> = Rc::default();
        for number in 0..hosts {
            let joined = Rc::clone(&joined);
            simulation.spawn(number, move |memory| {
                while number > 0 && joined.borrow().is_empty() {
                    memory.pause();
                }
                let host = join(memory.clone());
                joined.borrow_mut().insert(number, Rc::clone(&host));
                while joined.borrow().len() < hosts {
                    host.tick().unwrap();
                    memory.pause();
                }
            });
        }
        simulation.run().unwrap();
        let hosts = joined.borrow().values().cloned().collect();
        Self { simulation, hosts, log: Rc::default(), busy: Rc::default() }
    }

    /// Adds a client thread to `host`.
    pub(crate) fn client(
        &mut self,
        host: usize,
        body: impl FnOnce(&Objects<SimMemory>, &Scribe) + 'static,
    ) {
        let (objects, busy) = (Rc::clone(&self.hosts[host]), Rc::clone(&self.busy));
        let scribe = self.log.client(busy.get() as u32);
        busy.set(busy.get() + 1);
        self.simulation.spawn(host, move |_| {
            body(&objects, &scribe);
            busy.set(busy.get() - 1);
        });
    }

    /// Adds a thread to `host` that is no client.
    pub(crate) fn thread(&mut self, host: usize, body: impl FnOnce(SimMemory) + 'static) {
        let busy = Rc::clone(&self.busy);
        busy.set(busy.get() + 1);
        self.simulation.spawn(host, move |memory| {
            body(memory);
            busy.set(busy.get() - 1);
        });
    }

    /// Runs everything to its end, and checks what clients saw and that replicas agree. Returns the
    /// number of steps.
    pub(crate) fn finish(mut self) -> u64 {
        for (number, host) in self.hosts.iter().enumerate() {
            let (host, busy) = (Rc::clone(host), Rc::clone(&self.busy));
            self.simulation.spawn(number, move |memory| {
                while busy.get() > 0 {
                    host.tick().unwrap();
                    (0..memory.random() % 32).for_each(|_| memory.pause());
                }
                host.tick().unwrap();
            });
        }
        self.simulation.run().unwrap();
        self.check_history();
        self.check_replicas();
        self.simulation.steps()
    }

    fn check_history(&self) {
        let verdict = check(&KeyValue::default(), &self.log.history(), 1_000_000);
        assert!(matches!(verdict, Verdict::Linearizable { .. }), "{verdict}");
    }

    fn check_replicas(&self) {
        for host in &self.hosts {
            host.tick().unwrap();
        }
        let first = self.hosts[0].usage();
        for host in &self.hosts {
            let usage = host.usage();
            assert_eq!(usage.objects, first.objects, "replicas agree on the objects");
            assert_eq!(usage.lnr_used_bytes, first.lnr_used_bytes, "and on their space");
            assert!(usage.records_used <= usage.records);
        }
    }
}

/// A value that tells which write made it, of a length that differs from write to write, and that
/// shows when it is torn.
pub(crate) fn value(tag: u64) -> Vec<u8> {
    let words = [1, 3, 9, 20, 2, 60, 200][(tag % 7) as usize];
    tag.to_le_bytes().repeat(words)
}

/// The tag of a value, which is whole.
pub(crate) fn tag(bytes: &[u8]) -> u64 {
    let tag = u64::from_le_bytes(*bytes.first_chunk().expect("a value has at least a word"));
    assert!(bytes == value(tag), "torn: not the {} bytes that write {tag} made", value(tag).len());
    tag
}

/// One operation on an object, recorded. Errors that say "no room" count as not done.
pub(crate) fn perform(
    host: &Objects<SimMemory>,
    scribe: &Scribe,
    key: &str,
    operation: Operation<u64>,
) {
    let name = key.as_bytes();
    let began = scribe.invoke(key.to_owned(), operation.clone());
    let answer = match operation {
        Operation::Get => {
            let mut bytes = Vec::new();
            let found = host.read(name, &mut bytes).unwrap();
            Ok(Answer::Value(found.map(|_| tag(&bytes))))
        }
        Operation::Put(tag) => host.put(name, &value(tag)).map(|_| Answer::Done),
        Operation::Create(tag) => flag(host.create(name, &value(tag)).map(|_| ())),
        Operation::Replace(tag) => flag(host.write(name, &value(tag)).map(|_| ())),
        Operation::Delete => host.delete(name).map(Answer::Flag),
        Operation::CompareAndSwap { expected, new } => {
            flag(compare_and_swap(host, name, expected, new))
        }
        Operation::Update(new) => update(host, name, new),
        Operation::Append(_) => unreachable!("not a thing objects do"),
    };
    match answer {
        Ok(answer) => scribe.returned(began, answer),
        Err(Error::LnrFull { .. }) => scribe.failed(began),
        Err(error) => panic!("{error}"),
    }
}

fn flag(outcome: Result<(), Error>) -> Result<Answer<u64>, Error> {
    match outcome {
        Ok(()) => Ok(Answer::Flag(true)),
        Err(Error::Exists | Error::NotFound | Error::Changed) => Ok(Answer::Flag(false)),
        Err(error) => Err(error),
    }
}

/// Compares values by way of versions: writes if the version read with the expected value stands.
fn compare_and_swap(
    host: &Objects<SimMemory>,
    key: &[u8],
    expected: u64,
    new: u64,
) -> Result<(), Error> {
    let mut bytes = Vec::new();
    let version = host.read(key, &mut bytes)?.ok_or(Error::NotFound)?;
    if tag(&bytes) != expected {
        return Err(Error::Changed);
    }
    host.compare_and_swap(key, version, &value(new)).map(|_| ())
}

fn update(host: &Objects<SimMemory>, key: &[u8], new: u64) -> Result<Answer<u64>, Error> {
    let mut before = None;
    host.update(key, |bytes| {
        before = bytes.map(tag);
        tombolo_objects::Change::Put(value(new))
    })?;
    Ok(Answer::Value(before))
}

/// A random operation; every write has a tag of its own.
pub(crate) fn some_operation(dice: u64, tags: &Cell<u64>) -> Operation<u64> {
    let fresh = || {
        tags.set(tags.get() + 1);
        tags.get()
    };
    match dice % 16 {
        0..7 => Operation::Get,
        7..10 => Operation::Put(fresh()),
        10 => Operation::Create(fresh()),
        11 => Operation::Replace(fresh()),
        12 | 13 => Operation::Delete,
        14 => Operation::Update(fresh()),
        _ => Operation::CompareAndSwap { expected: tags.get(), new: fresh() },
    }
}
