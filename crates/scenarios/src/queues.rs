//! Requests of several lines, and their replies: each request is taken once, as it was sent, and
//! its reply is its own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use tombolo_memory::{LnrAddr, Memory, ScrAddr};
use tombolo_shared_nothing::queue::{Queue, QueuePlaces, Slot};
use tombolo_simulator::{Config, SimMemory, Simulation, Trial};

const MESSAGE_BYTES: u64 = 192;

/// The tags of requests that were taken, and the number of busy threads.
#[derive(Default)]
struct Book {
    busy: Cell<usize>,
    taken: RefCell<BTreeSet<u64>>,
}

/// One worker.
struct Client<'a> {
    queue: &'a Queue<SimMemory>,
    memory: &'a SimMemory,
    book: &'a Book,
}

/// A message that shows when it is torn, or cut. Its length depends on its tag.
fn message(tag: u64) -> Vec<u8> {
    let words = 1 + tag % (MESSAGE_BYTES / 8);
    std::iter::repeat_n(tag.to_le_bytes(), words as usize).flatten().collect()
}

fn tag_of(bytes: &[u8]) -> u64 {
    let tag = u64::from_le_bytes(*bytes.first_chunk().expect("a message is not empty"));
    assert!(bytes == message(tag), "a torn message: {bytes:?}");
    tag
}

fn reply_to(tag: u64) -> u64 {
    tag * 5 + 1
}

impl Client<'_> {
    /// Replies to a request, if there is one, after a while.
    fn serve(&self) {
        let Some(taken) = self.queue.take(|taken| taken).unwrap() else {
            self.memory.pause();
            return;
        };
        let mut request = Vec::new();
        self.queue.read(taken, &mut request);
        let tag = tag_of(&request);
        assert!(self.book.taken.borrow_mut().insert(tag), "request {tag} was taken twice");
        (0..self.memory.random() % 4).for_each(|_| self.memory.pause());
        self.queue.reply(taken, &message(reply_to(tag)));
    }

    /// Asks, and answers others until the reply is there.
    fn ask(&self, slot: Slot, tag: u64) {
        let number = self.queue.send(slot, &message(tag));
        let mut reply = Vec::new();
        while !self.queue.receive(slot, number, &mut reply).unwrap() {
            self.serve();
        }
        assert_eq!(tag_of(&reply), reply_to(tag), "another request's reply");
        assert!(self.book.taken.borrow().contains(&tag), "a reply to what was not taken");
    }

    /// Sends `requests` to other hosts, and answers others until all have sent theirs.
    fn run(&self, from: u8, worker: u16, hosts: u8, requests: u64) {
        for number in 0..requests {
            let to = (u64::from(from) + 1 + self.memory.random() % (u64::from(hosts) - 1)) as u8;
            let slot = Slot { from, worker, to: to % hosts };
            let tag = (u64::from(from) * 8 + u64::from(worker)) * 100 + number;
            self.ask(slot, 7 * tag + self.memory.random() % 7);
        }
        self.book.busy.set(self.book.busy.get() - 1);
        while self.book.busy.get() > 0 {
            self.serve();
        }
    }
}

fn run(trial: &Trial, hosts: u8, workers: u16, requests: u64) {
    let (scr, lnr) = (ScrAddr::new(0), LnrAddr::new(0));
    let places = QueuePlaces { hosts, workers, message_bytes: MESSAGE_BYTES, scr, lnr };
    let config = Config {
        hosts: hosts.into(),
        scr_bytes: places.scr_bytes(),
        lnr_bytes: places.lnr_bytes(),
        ..Config::default()
    };
    let mut simulation = Simulation::new(config, trial);
    places.format(&simulation.memory(0));
    let book: Rc<Book> = Rc::default();
    book.busy.set(usize::from(hosts) * usize::from(workers));
    for host in 0..hosts {
        let queue = Rc::new(Queue::new(&simulation.memory(host.into()), places, host));
        for worker in 0..workers {
            let (queue, book) = (Rc::clone(&queue), Rc::clone(&book));
            simulation.spawn(host.into(), move |memory| {
                let client = Client { queue: &queue, memory: &memory, book: &book };
                client.run(host, worker, hosts, requests);
            });
        }
    }
    simulation.run().unwrap();
    let all = u64::from(hosts) * u64::from(workers) * requests;
    assert_eq!(book.taken.borrow().len() as u64, all, "requests were lost");
}

/// Two hosts ask each other twice.
pub(crate) fn two_hosts(trial: &Trial) {
    run(trial, 2, 1, 2);
}

/// Three hosts ask each other, with two workers each.
pub(crate) fn all_ask_each_other(trial: &Trial) {
    run(trial, 3, 2, 5);
}
