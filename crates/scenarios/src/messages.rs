//! Messages to all hosts that listen: each is received as it was sent, once and in order, or the
//! receiver learns that it has missed some.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tombolo_host::Host;
use tombolo_memory::Memory;
use tombolo_messages::{KIND, MAX_TOPICS, Messages, Received, Shape, VERSION};
use tombolo_pod::{AreaRequest, Layout, LogOptions, Pod, PodOptions};
use tombolo_simulator::{Config, Deaths, Kills, SimMemory, Simulation, Trial};

use crate::world::Busy;

/// A ring of four lines, so that a slow receiver misses messages.
const RING_BYTES: u64 = 256;
const TOPIC: u8 = 1;
/// Hosts listen to this one for a while.
const OTHER_TOPIC: u8 = 2;

fn pod(trial: &Trial, hosts: usize, ring_bytes: u64, kills: Option<Kills>) -> Simulation {
    let config = Config {
        hosts,
        scr_bytes: 16 << 10,
        lnr_bytes: 32 << 10,
        max_steps: 600_000,
        kills,
        ..Config::default()
    };
    let shape = Shape { ring_bytes: Some(ring_bytes) };
    let request = AreaRequest {
        kind: KIND,
        version: VERSION,
        scr_bytes: None,
        lnr_bytes: Some(8 << 10),
        log: LogOptions { shards: Some(0), ..LogOptions::default() },
        plan: &|budget| shape.plan(budget),
        on_demand: None,
    };
    let options = PodOptions { hosts: Some(hosts as u8), mail_slots: Some(2) };
    let layout = Layout::plan(config.scr_bytes, config.lnr_bytes, options, &[request]).unwrap();
    let simulation = Simulation::new(config, trial);
    Pod::format(simulation.memory(0), &layout).unwrap();
    simulation
}

fn join(memory: SimMemory) -> Messages<SimMemory> {
    let host = Host::join(Pod::open(memory).unwrap()).unwrap();
    let area = host.pod().areas().next().unwrap();
    Messages::join(&host, area).unwrap()
}

/// The messages that hosts have sent, and those to come.
#[derive(Default)]
struct Book {
    /// Hosts that do not listen yet.
    deaf: Rc<Cell<usize>>,
    /// Hosts that have something left to send.
    busy: Rc<Cell<usize>>,
    /// Hosts that still take part.
    there: Rc<Cell<usize>>,
    /// Messages that each host has sent, by its number.
    sent: RefCell<BTreeMap<u8, u64>>,
    /// Each host's next message of each other one, or none if some are missing.
    got: RefCell<BTreeMap<(u8, u8), Option<u64>>>,
    /// Hosts that have learned that another one is not what it was.
    told: RefCell<Vec<u8>>,
}

/// A message that shows when it is torn, or cut.
fn message(number: u64) -> Vec<u8> {
    std::iter::repeat_n(number.to_le_bytes(), 1 + number as usize % 4).flatten().collect()
}

impl Book {
    fn receive(&self, messages: &Messages<SimMemory>) {
        let own = messages.number();
        messages.receive(|received| match received {
            Received::Message { from, topic, payload } => {
                assert!(from != own, "a host got its own message");
                assert_eq!(topic, TOPIC, "a message of a topic that no host sends to");
                let number = u64::from_le_bytes(*payload.first_chunk().unwrap());
                assert!(payload == message(number), "a torn message: {payload:?}");
                assert!(number < self.sent.borrow()[&from], "a message that was not sent");
                let mut got = self.got.borrow_mut();
                let next = got.entry((own, from)).or_insert(Some(0));
                assert!(next.is_none_or(|next| number == next), "after {next:?} came {number}");
                *next = Some(number + 1);
            }
            Received::Missed { from } => {
                messages.memory().note("messages were missed");
                self.got.borrow_mut().insert((own, from), None);
            }
            Received::Turnover { .. } => self.told.borrow_mut().push(own),
            Received::Damaged { from } => panic!("host {from}'s ring is damaged"),
        });
    }

    fn send(&self, messages: &Messages<SimMemory>, count: u64) {
        for number in 0..count {
            // Before: what is sent may be received at once.
            self.sent.borrow_mut().insert(messages.number(), number + 1);
            messages.send(TOPIC, &message(number)).unwrap();
            (0..messages.memory().random() % 3).for_each(|_| messages.memory().pause());
        }
    }

    /// All that was sent before is received now.
    fn check(&self, messages: &Messages<SimMemory>) {
        let (own, got, deaths) = (messages.number(), self.got.borrow(), messages.memory().deaths());
        for (&from, &sent) in self.sent.borrow().iter().filter(|(from, _)| **from != own) {
            let next = got.get(&(own, from)).copied().unwrap_or(Some(0));
            // A host that has died may have been sending the last one. The end of the one before
            // may not have left its processor yet: a store, until the next read-modify-write.
            let unseen = if deaths > 0 { 2 } else { 0 };
            let is_all = next.is_none_or(|next| next <= sent && next + unseen >= sent);
            assert!(is_all, "host {own} got {next:?} of {sent} messages of host {from}");
        }
    }
}

/// A host listens, sends messages when all listen, and receives until all are through.
fn take_part(memory: SimMemory, book: &Book, count: u64, guards: (Busy, Busy, Busy)) {
    let (deaf, busy, there) = guards;
    let messages = join(memory.clone());
    messages.listen(TOPIC);
    drop(deaf);
    while book.deaf.get() > 0 {
        messages.tick();
        memory.pause();
    }
    let all_live = memory.deaths() == 0;
    messages.listen(OTHER_TOPIC);
    book.send(&messages, count);
    messages.ignore(OTHER_TOPIC);
    drop(busy);
    while book.busy.get() > 0 {
        book.receive(&messages);
        memory.pause();
    }
    book.receive(&messages);
    book.check(&messages);
    if all_live {
        await_end(&messages, book);
    }
    drop(there);
    while book.there.get() > 0 {
        memory.pause();
    }
    messages.leave();
}

/// If a host has died, it is cleared up after, and its end is known.
fn await_end(messages: &Messages<SimMemory>, book: &Book) {
    let (memory, own) = (messages.memory(), messages.number());
    let is_told = || book.told.borrow().contains(&own);
    let is_through = || is_told() && !messages.is_heard(OTHER_TOPIC);
    let (mut turns, mut deaths) = (0, 0);
    while turns < 200 {
        if memory.deaths() == 0 || is_through() {
            return;
        }
        // Another death takes as long again.
        turns = if memory.deaths() == deaths { turns + 1 } else { 0 };
        deaths = memory.deaths();
        messages.tick();
        book.receive(messages);
        memory.pause();
    }
    panic!(
        "host {own} does not know that another one has died, or that one is not cleared up after"
    );
}

fn run(trial: &Trial, (hosts, count): (usize, u64), ring_bytes: u64, kills: Option<Kills>) {
    let mut simulation = pod(trial, hosts, ring_bytes, kills);
    let book = Rc::<Book>::default();
    for host in 0..hosts {
        let own = Rc::clone(&book);
        let guards = (Busy::new(&book.deaf), Busy::new(&book.busy), Busy::new(&book.there));
        simulation.spawn(host, move |memory| take_part(memory, &own, count, guards));
    }
    simulation.run().unwrap();
    check_at_rest(&simulation);
}

/// No host listens once all have left, or died, and the next one has come.
fn check_at_rest(simulation: &Simulation) {
    let messages = join(simulation.memory(0));
    for topic in 0..MAX_TOPICS {
        assert!(!messages.is_heard(topic), "a host that is not there listens to topic {topic}");
    }
    messages.leave();
}

/// Two hosts send each other more than their rings hold.
pub(crate) fn two_hosts(trial: &Trial) {
    run(trial, (2, 3), RING_BYTES, None);
}

/// Three hosts send to all others.
pub(crate) fn anything_goes(trial: &Trial) {
    run(trial, (3, 8), RING_BYTES, None);
}

/// No message is missed in a ring that holds all.
pub(crate) fn roomy(trial: &Trial) {
    run(trial, (3, 5), 2 << 10, None);
}

/// A host listens no longer while others send and listen: it costs them nothing then.
pub(crate) fn listeners_come_and_go(trial: &Trial) {
    let mut simulation = pod(trial, 2, RING_BYTES, None);
    let (listens, asks) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(true)));
    let (told, sender) = (Rc::clone(&listens), Rc::clone(&asks));
    simulation.spawn(0, move |memory| {
        let messages = join(memory.clone());
        for _ in 0..3 {
            messages.listen(TOPIC);
            told.set(true);
            while told.get() {
                memory.pause();
            }
            messages.ignore(TOPIC);
            sender.set(false);
            while !sender.get() {
                memory.pause();
            }
        }
        messages.leave();
    });
    simulation.spawn(1, move |memory| {
        let messages = join(memory.clone());
        // It listens to what the other does not: a topic is a word of its own.
        messages.listen(OTHER_TOPIC);
        for _ in 0..3 {
            while !listens.get() {
                memory.pause();
            }
            assert!(messages.is_heard(TOPIC) && !messages.is_heard(OTHER_TOPIC));
            listens.set(false);
            while asks.get() {
                memory.pause();
            }
            assert!(!messages.is_heard(TOPIC), "a host that listens no longer is sent messages");
            asks.set(true);
        }
        messages.leave();
    });
    simulation.run().unwrap();
}

/// A host dies at any step: others get what it had sent, and it listens no longer.
pub(crate) fn a_host_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1, 2], one_in: 1, deaths: Deaths::One });
    run(trial, (3, 4), RING_BYTES, kills);
}

/// A host dies, and then one that clears up after it.
pub(crate) fn two_die(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1], one_in: 1, deaths: Deaths::InTurn });
    run(trial, (3, 4), RING_BYTES, kills);
}

/// All hosts die: the next one begins anew.
pub(crate) fn all_die(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1], one_in: 1, deaths: Deaths::Together });
    run(trial, (2, 4), RING_BYTES, kills);
}
