//! Hosts that come and leave at once: whose seats are whose, and which host opens and closes an
//! area.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use tombolo_memory::{Memory, Process};
use tombolo_pod::{Area, Enrolment, Leave, Phase, Pod, PodError, Seat, SeatState, Stay};
use tombolo_simulator::{Deaths, Kills, SimMemory, Simulation, Trial};
use tombolo_verify::models::Operation;

use crate::log::{self, area_of};
use crate::objects::contents;
use crate::operations::perform;
use crate::world::{Setup, World, join};

/// A host that wants a seat has one before that, if others leave theirs or are dead.
const LONG: Duration = Duration::from_secs(300);

/// The facts of all hosts.
#[derive(Default)]
struct SeatBook {
    stays: BTreeSet<u32>,
    /// The process that may be storing something as the host in a seat: from when it has joined
    /// until it leaves, or knows that it is out.
    storing: BTreeMap<u8, Process>,
    /// Which stay is ready as which host.
    ready: BTreeMap<u8, u32>,
    openings: u32,
    /// The stay that is opening or closing the area, and so has it alone.
    alone: Option<Stay>,
}

fn pause_a_little(memory: &SimMemory) {
    (0..memory.random() % 4).for_each(|_| memory.pause());
}

/// A host joins, is ready after a while, and leaves; it waits for who is still joining, or does
/// not. Whether it was in the pod, or is to come again.
fn visit(
    pod: &Pod<SimMemory>,
    book: &RefCell<SeatBook>,
    manners: Manners,
) -> Result<bool, PodError> {
    let (memory, area) = (pod.memory(), &area_of(pod));
    let seat = pod.join()?;
    let stay = seat.incarnation();
    assert!(book.borrow_mut().stays.insert(stay), "one number for two stays");
    let before = book.borrow_mut().storing.insert(seat.host(), memory.process());
    let over = before.is_none_or(|process| memory.has_ended(process));
    assert!(over, "a host has a seat in which another one may still be storing something");
    let (mut enrolment, first) = match area.enrol(&seat) {
        Ok(enrolled) => enrolled,
        Err(error) => {
            leave_pod(pod, book, &seat);
            return Err(error);
        }
    };
    let opens = first || manners.opens_anew && finds_nobody(area, &mut enrolment);
    if opens {
        bury(book, area);
        let mut book = book.borrow_mut();
        assert!(book.ready.is_empty() && book.alone.is_none(), "two open the pod");
        (book.openings, book.alone) = (book.openings + 1, Some(seat.stay()));
    }
    let in_order = !opens || put_in_order(area);
    let opening = book.borrow().openings;
    pause_a_little(memory);
    let named = || pod.process_of(seat.stay()) == Some(memory.process());
    assert!(named() || !seat.holds(memory), "a host has a seat, and its process cannot be told");
    if opens {
        book.borrow_mut().alone = None;
    }
    if !in_order || enrolment.is_overtaken(memory) {
        give_up(pod, book, &seat, &enrolment);
        return Ok(false);
    }
    if let Err(expelled) = enrolment.ready(memory) {
        assert!(matches!(expelled, PodError::Expelled { .. }), "{expelled}");
        give_up(pod, book, &seat, &enrolment);
        return Ok(true);
    }
    bury(book, area);
    book.borrow_mut().enter(&seat, opening);
    pause_a_little(memory);
    assert!(named(), "another host has written over a host's name");
    assert_eq!(book.borrow_mut().ready.remove(&seat.host()), Some(stay));
    while !leave(&enrolment, area, book, manners.waits) {
        memory.pause();
    }
    leave_pod(pod, book, &seat);
    Ok(true)
}

const WAITS: Manners = Manners { waits: true, opens_anew: false };

/// How a host visits.
#[derive(Clone, Copy)]
struct Manners {
    /// Whether it waits for those who are joining when it is the last.
    waits: bool,
    /// Whether it looks for somebody who is ready when it has joined, and opens the pod anew if
    /// there is none.
    opens_anew: bool,
}

/// Looks for a host that is ready, for a while; whether there is none, and this one opens the pod
/// anew.
fn finds_nobody(area: &Area<SimMemory>, enrolment: &mut Enrolment) -> bool {
    let memory = area.memory();
    for _ in 0..20 {
        area.fence_ended();
        if enrolment.opens_anew(memory) {
            return true;
        }
        let members = area.membership();
        if members.hosts().any(|host| members.is_ready(host)) {
            break;
        }
        memory.pause();
    }
    false
}

/// A host that has joined leaves without having been ready.
fn give_up(pod: &Pod<SimMemory>, book: &RefCell<SeatBook>, seat: &Seat, enrolment: &Enrolment) {
    enrolment.give_up(pod.memory());
    area_of(pod).note_gone(seat.stay());
    leave_pod(pod, book, seat);
}

/// A host that takes part in nothing any more gives its seat back.
fn leave_pod(pod: &Pod<SimMemory>, book: &RefCell<SeatBook>, seat: &Seat) {
    book.borrow_mut().storing.remove(&seat.host());
    if !seat.leave(pod.memory()) {
        pod.note_gone(seat.stay());
    }
}

/// A host that opens a pod finds all in order that fenced hosts have left, if they are gone; else
/// it may not open it.
fn put_in_order(area: &Area<SimMemory>) -> bool {
    let gone = area.membership().fenced().all(|host| area.is_gone(area.stay_of(host)));
    if gone {
        area.release_fenced();
    }
    gone
}

impl SeatBook {
    /// A host that joined after so many openings is ready.
    fn enter(&mut self, seat: &Seat, opening: u32) {
        assert!(self.alone.is_none(), "a host is ready while another opens or closes the pod");
        assert_eq!(self.openings, opening, "a host is ready in a pod that it did not join");
        let before = self.ready.insert(seat.host(), seat.incarnation());
        assert!(before.is_none(), "one seat for two hosts");
    }
}

/// A host that has died, and was fenced, is nowhere any more. Its seat may be another's.
fn bury(book: &RefCell<SeatBook>, area: &Area<SimMemory>) {
    let known = |book: &SeatBook| -> Vec<Stay> {
        let ready = book.ready.iter().map(|(&host, &number)| Stay { host, number });
        ready.chain(book.alone).collect()
    };
    let stays = known(&book.borrow());
    let dead: Vec<Stay> = stays.into_iter().filter(|&stay| !area.is_member(stay)).collect();
    let mut book = book.borrow_mut();
    book.ready.retain(|&host, &mut number| !dead.contains(&Stay { host, number }));
    book.alone = book.alone.filter(|stay| !dead.contains(stay));
}

/// Tries to leave; whether the host has left.
fn leave(
    enrolment: &Enrolment,
    area: &Area<SimMemory>,
    book: &RefCell<SeatBook>,
    waits: bool,
) -> bool {
    let memory = area.memory();
    match enrolment.leave(memory, waits) {
        Leave::Left => true,
        Leave::Wait => false,
        Leave::Close => {
            bury(book, area);
            assert!(book.borrow().ready.is_empty(), "a host closes an area that others are in");
            book.borrow_mut().alone = Some(enrolment.stay());
            pause_a_little(memory);
            book.borrow_mut().alone = None;
            enrolment.closed(memory);
            true
        }
    }
}

/// Hosts that come so often each; the pod afterwards.
fn visits(
    mut simulation: Simulation,
    hosts: usize,
    times: u64,
    manners: fn(&SimMemory) -> Manners,
) -> Pod<SimMemory> {
    let book: Rc<RefCell<SeatBook>> = Rc::default();
    for number in 0..hosts {
        let book = Rc::clone(&book);
        let pod = Pod::open(simulation.memory(number)).unwrap();
        let scarce = (pod.layout().hosts as usize) < hosts;
        simulation.spawn(number, move |memory| {
            let mut left = times;
            while left > 0 {
                match visit(&pod, &book, manners(&memory)) {
                    Ok(visited) => left -= u64::from(visited),
                    Err(PodError::Full { .. }) if scarce && memory.uptime() < LONG => {
                        memory.pause()
                    }
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
fn visit_and_leave(trial: &Trial, hosts: usize, times: u64, manners: fn(&SimMemory) -> Manners) {
    let pod = visits(log::pod_for(trial, hosts, None), hosts, times, manners);
    let (area, free) = (area_of(&pod), pod.stays_in(SeatState::Free).count());
    let members = area.membership();
    assert_eq!((members.phase(), members.count()), (Phase::Closed, 0), "somebody is still in");
    assert!(!area.has_joining(), "somebody is still counted");
    assert_eq!(free as u64, pod.layout().hosts, "a seat is not free");
}

/// Two hosts come and leave, with a seat for each.
pub(crate) fn two_come_and_leave(trial: &Trial) {
    visit_and_leave(trial, 2, 1, |_| WAITS);
}

/// A host frees the only seat, whose host is gone, while two others want it: one of them has it at
/// most.
pub(crate) fn freed_while_taken(trial: &Trial) {
    let mut simulation = log::pod_with(trial, (3, 1), None);
    let pods = [0, 1, 2].map(|number| Pod::open(simulation.memory(number)).unwrap());
    let gone = pods[0].join().unwrap().stay();
    assert!(pods[0].fence(gone));
    pods[0].note_gone(gone);
    let seats = Rc::new(Cell::new(0));
    for (number, pod) in pods.into_iter().enumerate() {
        let seats = Rc::clone(&seats);
        simulation.spawn(number, move |_| {
            if number == 0 {
                pod.release(gone);
                return;
            }
            match pod.join() {
                Ok(_) => seats.set(seats.get() + 1),
                Err(PodError::Full { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        });
    }
    simulation.run().unwrap();
    assert!(seats.get() <= 1, "one seat for two hosts");
}

/// Three hosts come and leave, with a seat for each.
pub(crate) fn come_and_leave(trial: &Trial) {
    visit_and_leave(trial, 3, 1, |_| WAITS);
}

/// The last host to leave may not wait for those that are joining.
pub(crate) fn closed_under_others(trial: &Trial) {
    visit_and_leave(trial, 4, 3, |memory| Manners {
        waits: memory.random().is_multiple_of(2),
        ..WAITS
    });
}

/// More hosts than fit into a word that has two bits for each, with a phase and a count, all at
/// once.
pub(crate) fn many_come_and_leave(trial: &Trial) {
    visit_and_leave(trial, 20, 2, |memory| Manners {
        waits: !memory.random().is_multiple_of(4),
        ..WAITS
    });
}

/// One of three hosts dies while they come and leave. A host that looks finds no other one in the
/// pod but that, if it had got so far and nobody has noticed, and what is counted is what is there.
pub(crate) fn a_member_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1, 2], one_in: 1, deaths: Deaths::One });
    let pod = visits(log::pod_for(trial, 3, kills), 3, 2, |_| Manners { waits: false, ..WAITS });
    let area = area_of(&pod);
    let members = area.membership();
    let joining = members.hosts().any(|host| !members.is_ready(host));
    assert!(members.count() <= 1, "{members:?}");
    assert!(members.phase() != Phase::Closed || members.count() == 0, "nobody is in a closed pod");
    assert_eq!(area.has_joining(), joining, "{members:?}");
    let died = pod.memory().deaths() > 0;
    assert!(died || members.phase() == Phase::Closed, "{members:?}");
    assert!(died || members.count() == 0, "{members:?}");
}

/// Three hosts come and leave, with one seat or two, and one of them dies, perhaps when it has
/// claimed a seat and not taken it. The others get seats all the same.
pub(crate) fn a_claimer_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1, 2], one_in: 1, deaths: Deaths::One });
    let seats = 1 + trial.seed as usize % 2;
    visits(log::pod_with(trial, (3, seats), kills), 3, 2, |_| Manners { waits: false, ..WAITS });
}

/// Two of four hosts die while they come and leave. Those who have joined, and find nobody who is
/// ready, open the pod anew: one at a time, and who had joined before is not ready in it by what it
/// was told then.
pub(crate) fn opened_anew(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1], one_in: 1, deaths: Deaths::InTurn });
    let manners = |_: &SimMemory| Manners { waits: false, opens_anew: true };
    visits(log::pod_with(trial, (4, 6), kills), 4, 3, manners);
}

/// Twenty hosts join one that stays, write a key each and one that is all hosts', and leave; every
/// third comes again, and finds what it has written.
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
    assert_eq!(first.area().membership().count(), 1, "all who left are gone");
    for number in 1..HOSTS {
        let found = contents(&first, &[&number.to_string()]);
        assert_eq!(found, [Some(7 * number as u64)], "what host {number} wrote");
    }
}
