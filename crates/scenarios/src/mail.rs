//! Requests and answers: each request is taken once at most, as it was made, and its answer is its
//! own.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use tombolo_memory::Memory;
use tombolo_pod::{
    Enrolment, Leave, MailSlots, Mailbox, PAYLOAD_BYTES, Pod, Reply, Request, Seat, Ticket,
};
use tombolo_simulator::{SimMemory, Trial};

use crate::log::{HOSTS, area_of, pod};

/// A host that has a seat and a mailbox, and nothing else.
struct MailHost {
    pod: Pod<SimMemory>,
    seat: Seat,
    enrolment: Enrolment,
    mailbox: Mailbox<SimMemory>,
    book: Rc<MailBook>,
}

/// The facts of each request, by its tag.
#[derive(Default)]
struct MailBook {
    /// All stays there have been.
    stays: RefCell<BTreeSet<u32>>,
    /// Which stay it was for.
    meant: RefCell<BTreeMap<u64, u32>>,
    /// Which stays took it.
    taken: RefCell<BTreeMap<u64, Vec<u32>>>,
    answered: RefCell<Vec<u64>>,
}

impl MailBook {
    /// The host that takes a request is the one it was for, and takes it once.
    fn check(&self) {
        let (meant, taken) = (self.meant.borrow(), self.taken.borrow());
        for (tag, stays) in taken.iter() {
            assert_eq!(stays, &[meant[tag]], "request {tag} was taken by the wrong stays");
        }
        for tag in self.answered.borrow().iter() {
            assert!(taken.contains_key(tag), "{tag} was answered, though nobody took it");
        }
    }
}

fn join(memory: SimMemory, book: &Rc<MailBook>) -> Rc<MailHost> {
    let pod = Pod::open(memory).unwrap();
    let (seat, area) = (pod.join().unwrap(), area_of(&pod));
    assert!(book.stays.borrow_mut().insert(seat.incarnation()), "one number for two stays");
    let (enrolment, _) = area.enrol(&seat).unwrap();
    enrolment.ready(pod.memory()).unwrap();
    let mailbox = Mailbox::new(&area, &seat, MailSlots::new(&pod, &seat));
    Rc::new(MailHost { pod, seat, enrolment, mailbox, book: Rc::clone(book) })
}

/// A request that shows when it is torn.
fn payload(tag: u64) -> [u8; PAYLOAD_BYTES] {
    let mut payload = [0; PAYLOAD_BYTES];
    payload.chunks_mut(8).for_each(|word| word.copy_from_slice(&tag.to_le_bytes()));
    payload
}

/// The tag of a request, which is whole.
fn tag_of(request: &Request) -> u64 {
    let tag = u64::from_le_bytes(*request.payload.first_chunk().unwrap());
    assert!(request.payload == payload(tag), "torn: {:?}", request.payload);
    tag
}

fn reply_to(tag: u64) -> u64 {
    tag * 3 + 1
}

impl MailHost {
    fn memory(&self) -> &SimMemory {
        self.pod.memory()
    }

    fn post(&self, to: u8, tag: u64) -> Option<Ticket<'_, SimMemory>> {
        let ticket = self.mailbox.try_post(to, &payload(tag))?;
        self.book.meant.borrow_mut().insert(tag, ticket.incarnation());
        Some(ticket)
    }

    /// Asks, and waits for the answer for as long as `patience` says; whether it came.
    fn ask(&self, to: u8, tag: u64, patience: Option<u64>) -> bool {
        let mut ticket = loop {
            match self.post(to, tag) {
                Some(ticket) => break ticket,
                None => self.memory().pause(),
            }
        };
        for waited in 0.. {
            match ticket.reply() {
                Reply::Waiting if patience.is_some_and(|patience| waited >= patience) => break,
                Reply::Waiting => self.memory().pause(),
                Reply::Gone => break,
                Reply::Answered(answer) => {
                    assert_eq!(answer, reply_to(tag), "another request's answer");
                    self.book.answered.borrow_mut().push(tag);
                    return true;
                }
            }
        }
        false
    }

    /// Answers a request, if there is one, after a while.
    fn serve(&self) -> bool {
        let Some(request) = self.mailbox.next() else { return false };
        let tag = tag_of(&request);
        self.book.taken.borrow_mut().entry(tag).or_default().push(self.seat.incarnation());
        (0..self.memory().random() % 4).for_each(|_| self.memory().pause());
        self.mailbox.answer(&request, reply_to(tag));
        true
    }

    fn serve_while(&self, busy: &Cell<usize>) {
        while busy.get() > 0 {
            if !self.serve() {
                self.memory().pause();
            }
        }
    }
}

/// Which hosts ask which.
struct Correspondence {
    /// Hosts that ask, and on how many threads each.
    askers: Range<usize>,
    clients: u64,
    requests: u64,
    /// Hosts that answer.
    servers: Range<usize>,
}

impl Correspondence {
    /// Every third request is given up on soon.
    fn run(self, trial: &Trial) {
        let mut simulation = pod(trial, None);
        let book = Rc::default();
        let hosts: Vec<_> = (0..HOSTS).map(|host| join(simulation.memory(host), &book)).collect();
        let busy = Rc::new(Cell::new(self.askers.len() * self.clients as usize));
        for number in self.askers.clone() {
            let servers = self.servers.clone().filter(|&server| server != number);
            let seats: Vec<_> = servers.map(|server| hosts[server].seat.host()).collect();
            for client in 0..self.clients {
                let (host, seats) = (Rc::clone(&hosts[number]), seats.clone());
                let busy = Rc::clone(&busy);
                let first = 100 * (self.clients * number as u64 + client);
                simulation.spawn(number, move |memory| {
                    for n in 0..self.requests {
                        let to = seats[memory.random() as usize % seats.len()];
                        let patience = (n % 3 == 1).then(|| memory.random() % 4);
                        let answered = host.ask(to, first + n, patience);
                        assert!(answered || patience.is_some(), "nobody has left");
                    }
                    busy.set(busy.get() - 1);
                });
            }
        }
        for number in self.servers {
            for _ in 0..2 {
                let (host, busy) = (Rc::clone(&hosts[number]), Rc::clone(&busy));
                simulation.spawn(number, move |_| host.serve_while(&busy));
            }
        }
        simulation.run().unwrap();
        book.check();
    }
}

/// Two hosts ask a third, which answers with two threads.
pub(crate) fn short_mail(trial: &Trial) {
    Correspondence { askers: 0..2, clients: 1, requests: 2, servers: 2..3 }.run(trial);
}

/// All hosts ask each other, with more threads than they have slots.
pub(crate) fn busy_mail(trial: &Trial) {
    Correspondence { askers: 0..HOSTS, clients: 3, requests: 6, servers: 0..HOSTS }.run(trial);
}

/// Hosts come and go in two seats while others ask the hosts that may be there; one that leaves
/// forgets what it has asked.
pub(crate) fn mail_for_the_last_one(trial: &Trial) {
    const STAYS: u64 = 3;
    let mut simulation = pod(trial, None);
    let book = Rc::default();
    let first = join(simulation.memory(0), &book);
    let busy = Rc::new(Cell::new(2));
    for number in 1..3 {
        let (book, busy, others) = (Rc::clone(&book), Rc::clone(&busy), first.seat.host());
        simulation.spawn(number, move |memory| {
            for n in 0..STAYS {
                let host = join(memory.clone(), &book);
                let tag = 1_000 + 100 * number as u64 + 10 * n;
                (0..memory.random() % 16).for_each(|_| _ = host.serve());
                assert!(host.ask(others, tag, None), "it has not left");
                std::mem::forget(host.post(others, tag + 1));
                (0..memory.random() % 16).for_each(|_| _ = host.serve());
                assert!(host.enrolment.leave(&memory, false) == Leave::Left);
                assert!(host.seat.leave(&memory));
            }
            busy.set(busy.get() - 1);
        });
    }
    for client in 0..2 {
        let (host, busy) = (Rc::clone(&first), Rc::clone(&busy));
        simulation.spawn(0, move |memory| {
            for tag in 100_000 * (client + 1).. {
                if busy.get() == 0 {
                    break;
                }
                host.ask(1 + (memory.random() % 2) as u8, tag, None);
                memory.pause();
            }
        });
    }
    let still = Rc::clone(&busy);
    simulation.spawn(0, move |_| first.serve_while(&still));
    simulation.run().unwrap();
    book.check();
}
