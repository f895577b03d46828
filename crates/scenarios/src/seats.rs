//! Hosts that come and leave at once: whose seats are whose, and who opens and closes the pod.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tombolo_memory::Memory;
use tombolo_pod::{Leave, Phase, Pod, PodError, Seat, Stay};
use tombolo_simulator::{Deaths, Kills, SimMemory, Simulation, Trial};
use tombolo_verify::models::Operation;

use crate::log;
use crate::objects::contents;
use crate::operations::perform;
use crate::world::{Setup, World, join};

/// What is known of all hosts.
#[derive(Default)]
struct Book {
    stays: BTreeSet<u32>,
    /// Which stay has which seat, and a replica.
    ready: BTreeMap<u8, u32>,
    openings: u32,
    /// The stay that is opening or closing the pod, and so has it alone.
    alone: Option<Stay>,
}

fn pause_a_little(memory: &SimMemory) {
    (0..memory.random() % 4).for_each(|_| memory.pause());
}

/// A host joins, is ready after a while, and leaves; it waits for who is still joining, or does not.
fn visit(pod: &Pod<SimMemory>, book: &RefCell<Book>, waits: bool) -> Result<(), PodError> {
    let memory = pod.memory();
    let (seat, first) = pod.join()?;
    let stay = seat.incarnation();
    assert!(book.borrow_mut().stays.insert(stay), "one number for two stays");
    if first {
        bury(book, pod);
        let mut book = book.borrow_mut();
        assert!(book.ready.is_empty() && book.alone.is_none(), "two open the pod");
        (book.openings, book.alone) = (book.openings + 1, Some(stay_in(&seat)));
    }
    let opening = book.borrow().openings;
    pause_a_little(memory);
    if first {
        book.borrow_mut().alone = None;
    }
    if let Err(expelled) = seat.ready(memory) {
        assert!(matches!(expelled, PodError::Expelled { .. }), "{expelled}");
        seat.give_up(memory);
        return Ok(());
    }
    bury(book, pod);
    book.borrow_mut().enter(&seat, opening);
    pause_a_little(memory);
    assert_eq!(book.borrow_mut().ready.remove(&seat.host()), Some(stay));
    while !leave(&seat, pod, book, waits) {
        memory.pause();
    }
    Ok(())
}

impl Book {
    /// A host that joined after so many openings is ready.
    fn enter(&mut self, seat: &Seat, opening: u32) {
        assert!(self.alone.is_none(), "a host is ready while another opens or closes the pod");
        assert_eq!(self.openings, opening, "a host is ready in a pod that it did not join");
        let before = self.ready.insert(seat.host(), seat.incarnation());
        assert!(before.is_none(), "one seat for two hosts");
    }
}

/// Whoever has died, and was fenced, is nowhere any more.
fn bury(book: &RefCell<Book>, pod: &Pod<SimMemory>) {
    let known = |book: &Book| -> Vec<Stay> {
        let ready = book.ready.iter().map(|(&host, &number)| Stay { host, number });
        ready.chain(book.alone).collect()
    };
    let stays = known(&book.borrow());
    let dead: Vec<Stay> = stays.into_iter().filter(|&stay| pod.is_fenced(stay)).collect();
    let mut book = book.borrow_mut();
    book.ready.retain(|&host, &mut number| !dead.contains(&Stay { host, number }));
    book.alone = book.alone.filter(|stay| !dead.contains(stay));
}

fn stay_in(seat: &Seat) -> Stay {
    Stay { host: seat.host(), number: seat.incarnation() }
}

/// Tries to leave; whether the host has left.
fn leave(seat: &Seat, pod: &Pod<SimMemory>, book: &RefCell<Book>, waits: bool) -> bool {
    let memory = pod.memory();
    match seat.leave(memory, waits) {
        Leave::Left => true,
        Leave::Wait => false,
        Leave::Close => {
            bury(book, pod);
            assert!(book.borrow().ready.is_empty(), "a host closes a pod that others are in");
            book.borrow_mut().alone = Some(stay_in(seat));
            pause_a_little(memory);
            book.borrow_mut().alone = None;
            seat.closed(memory);
            true
        }
    }
}

/// Hosts that come so often each; the pod afterwards.
fn visits(
    mut simulation: Simulation,
    hosts: usize,
    times: u64,
    waits: fn(&SimMemory) -> bool,
) -> Pod<SimMemory> {
    let book: Rc<RefCell<Book>> = Rc::default();
    for number in 0..hosts {
        let book = Rc::clone(&book);
        let pod = Pod::open(simulation.memory(number)).unwrap();
        simulation.spawn(number, move |memory| {
            for _ in 0..times {
                match visit(&pod, &book, waits(&memory)) {
                    Ok(()) => {}
                    Err(PodError::Busy { .. }) if memory.deaths() > 0 => return,
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    simulation.run().unwrap();
    Pod::open(simulation.memory(0)).unwrap()
}

/// So many hosts come so often; all of them leave.
fn visit_and_leave(trial: &Trial, hosts: usize, times: u64, waits: fn(&SimMemory) -> bool) {
    let pod = visits(log::pod_for(trial, hosts, None), hosts, times, waits);
    let members = pod.membership();
    assert_eq!((members.phase(), members.count()), (Phase::Closed, 0), "somebody is still in");
    assert!(!pod.has_joining(), "somebody is still counted");
}

/// Two hosts come and leave, with a seat for each.
pub(crate) fn two_come_and_leave(trial: &Trial) {
    visit_and_leave(trial, 2, 1, |_| true);
}

/// Three hosts come and leave, with a seat for each.
pub(crate) fn come_and_leave(trial: &Trial) {
    visit_and_leave(trial, 3, 1, |_| true);
}

/// Whoever leaves last may not wait for those who are joining.
pub(crate) fn closed_under_others(trial: &Trial) {
    visit_and_leave(trial, 4, 3, |memory| memory.random().is_multiple_of(2));
}

/// More hosts than fit into a word that has two bits for each, with a phase and a count, all at once.
pub(crate) fn many_come_and_leave(trial: &Trial) {
    visit_and_leave(trial, 20, 2, |memory| !memory.random().is_multiple_of(4));
}

/// One of three hosts dies while they come and leave. Whoever looks finds nobody in the pod but that
/// host, if it had got so far and nobody has noticed, and what is counted is what is there.
pub(crate) fn a_member_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1, 2], one_in: 1, deaths: Deaths::One });
    let pod = visits(log::pod_for(trial, 3, kills), 3, 2, |_| false);
    let members = pod.membership();
    let joining = members.hosts().any(|host| !members.is_ready(host));
    assert!(members.count() <= 1, "{members:?}");
    assert_eq!(pod.has_joining(), joining, "{members:?}");
    let died = pod.memory().deaths() > 0;
    assert!(died || members.phase() == Phase::Closed, "{members:?}");
    assert!(died || members.count() == 0, "{members:?}");
}

/// Twenty hosts join one that stays, write a key each and one that is all hosts', and leave; every third
/// comes again, and finds what it has written.
pub(crate) fn many_hosts(trial: &Trial) {
    const HOSTS: usize = 20;
    let setup = Setup { hosts: HOSTS, records: 4, ..Setup::roomy(1).plain() };
    let mut world = World::new(trial, &setup);
    for number in 1..HOSTS {
        let scribe = world.scribe();
        world.thread(number, move |memory| {
            let (key, tag) = (format!("{number}"), 7 * number as u64);
            let host = join(memory.clone());
            perform(&*host, &scribe, &key, Operation::Create(tag));
            perform(&*host, &scribe, "all", Operation::Put(tag));
            host.leave().unwrap();
            if number.is_multiple_of(3) {
                let host = join(memory);
                perform(&*host, &scribe, &key, Operation::Get);
                perform(&*host, &scribe, "all", Operation::Put(tag + 1000 * 7));
                host.leave().unwrap();
            }
        });
    }
    let first = Rc::clone(&world.hosts[0]);
    world.finish();
    assert_eq!(first.pod().membership().count(), 1, "all who left are gone");
    for number in 1..HOSTS {
        let found = contents(&first, &[&number.to_string()]);
        assert_eq!(found, [Some(7 * number as u64)], "what host {number} wrote");
    }
}
