//! Several tenants in one pod: hosts that run one of them, or another, or both, in one seat.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use tombolo_host::Host;
use tombolo_memory::Memory;
use tombolo_objects::Objects;
use tombolo_pod::SeatState;
use tombolo_pod::{Enrolment, Leave, MailSlots, Mailbox, PAYLOAD_BYTES, Pod, PodError, Reply};
use tombolo_sharing::{AreaOptions, Options, plan_areas};
use tombolo_simulator::{Config, Deaths, Kills, SimMemory, Simulation, Trial};

use crate::operations::{tag, value};
use crate::world::{Busy, formatted, options};

/// Areas for objects.
const AREAS: usize = 2;

/// A pod with two areas for objects.
fn pod(trial: &Trial, (hosts, seats): (usize, u8), kills: Option<Kills>) -> Simulation {
    let config = Config {
        kills,
        hosts,
        scr_bytes: 24 << 10,
        lnr_bytes: 256 << 10,
        max_steps: 600_000,
        ..Config::default()
    };
    let layout = Options {
        writes: Some(4),
        hosts: Some(seats),
        ring_entries: Some(8),
        segment_entries: Some(16),
        chunk_bytes: Some(1024),
        records: Some(4),
        mail_slots: Some(2),
        counter_bits: Some(3),
        ..Options::default()
    };
    let areas = [AreaOptions { layout, ..AreaOptions::default() }; AREAS];
    let layout = plan_areas(config.scr_bytes, config.lnr_bytes, &areas).unwrap();
    formatted(trial, config, &layout)
}

/// The last write of each host in each area, and how many threads are not through.
#[derive(Default)]
struct TenantBook {
    written: RefCell<BTreeMap<(usize, usize), u64>>,
    busy: Rc<Cell<usize>>,
}

/// A host's place in the pod, which the thread of its first tenant takes.
type SharedHost = Rc<OnceCell<Arc<Host<SimMemory>>>>;

fn in_pod(host: &SharedHost, memory: &SimMemory, first: bool) -> Arc<Host<SimMemory>> {
    if first {
        let joined = Host::join(Pod::open(memory.clone()).unwrap()).unwrap();
        return Arc::clone(host.get_or_init(|| joined));
    }
    loop {
        match host.get() {
            Some(host) => return Arc::clone(host),
            None => memory.pause(),
        }
    }
}

fn attach(host: &Arc<Host<SimMemory>>, area: usize) -> Objects<SimMemory> {
    let area = host.pod().areas().nth(area).unwrap();
    Objects::attach(host, area, options().into()).unwrap()
}

fn tag_of(area: usize, number: usize, round: u64) -> u64 {
    1000 * area as u64 + 100 * number as u64 + 7 * round + 7
}

/// A host runs the tenant of an area: it changes its own object often, as all change one that is
/// for all, and goes on with the background work until all are through.
fn run_tenant(
    book: &Rc<TenantBook>,
    number: usize,
    area: usize,
    objects: &Objects<SimMemory>,
    rounds: u64,
) {
    let memory = objects.memory();
    let key = number.to_string();
    for round in 0..rounds {
        let new = tag_of(area, number, round);
        // A create and a delete are events: more of them than the log has room for.
        objects.delete(key.as_bytes()).unwrap();
        objects.put(key.as_bytes(), &value(new)).unwrap();
        book.written.borrow_mut().insert((area, number), new);
        objects.put(b"all", &value(new)).unwrap();
        let mut found = Vec::new();
        match objects.read(b"all", &mut found) {
            // A host that has died may have been writing it.
            Err(error) if error.is_loss() && memory.deaths() > 0 => memory.note("a value was lost"),
            read => {
                read.unwrap();
                assert_eq!(tag(&found) / 1000, area as u64, "an object of another area");
            }
        }
        objects.tick().unwrap();
        memory.pause();
    }
}

fn tick_while_busy(book: &TenantBook, objects: &Objects<SimMemory>) {
    while book.busy.get() > 0 {
        objects.tick().unwrap();
        objects.memory().pause();
    }
}

/// The contents of each area once all hosts have left.
fn check_at_rest(simulation: &Simulation, book: &TenantBook) {
    for area in 0..AREAS {
        let host = Host::join(Pod::open(simulation.memory(0)).unwrap()).unwrap();
        let objects = attach(&host, area);
        for (&(of, number), &expected) in &*book.written.borrow() {
            let mut found = Vec::new();
            if of == area {
                objects.read(number.to_string().as_bytes(), &mut found).unwrap();
                assert_eq!(tag(&found), expected, "what host {number} wrote in area {area}");
            }
        }
        let others = objects.object_count().unwrap();
        let expected =
            book.written.borrow().keys().filter(|(of, _)| *of == area).count() as u64 + 1;
        assert_eq!(others, expected, "objects of area {area}");
        objects.leave().unwrap();
        assert!(host.pod().stays_in(SeatState::Seated).next().is_none(), "a seat is taken");
    }
}

/// One host runs both tenants in one seat, two others one each: no log waits for a host that does
/// not follow it, and what is in one area is not in the other.
pub(crate) fn two_tenants(trial: &Trial) {
    let mut simulation = pod(trial, (3, 3), None);
    let book = Rc::<TenantBook>::default();
    for (number, areas) in [vec![0, 1], vec![0], vec![1]].into_iter().enumerate() {
        let (shared, left) = (SharedHost::default(), Rc::new(Cell::new(areas.len())));
        for (nth, area) in areas.into_iter().enumerate() {
            let (book, shared, left) = (Rc::clone(&book), Rc::clone(&shared), Rc::clone(&left));
            let busy = Busy::new(&book.busy);
            simulation.spawn(number, move |memory| {
                let host = in_pod(&shared, &memory, nth == 0);
                let objects = attach(&host, area);
                run_tenant(&book, number, area, &objects, 4);
                drop(busy);
                tick_while_busy(&book, &objects);
                objects.leave().unwrap();
                left.set(left.get() - 1);
                let last = left.get() == 0;
                assert!(!last || !host.seat().holds(&memory), "the last tenant has left");
            });
        }
    }
    simulation.run().unwrap();
    check_at_rest(&simulation, &book);
}

/// A host that runs both tenants dies. Each of two others clears up in the area in which it takes
/// part. A fourth one takes the dead host's seat, since there is no other, and takes part in an
/// area when the dead host is cleared up after there; unless it dies, too.
pub(crate) fn a_host_of_two_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 3], one_in: 1, deaths: Deaths::InTurn });
    let mut simulation = pod(trial, (4, 3), kills);
    let book = Rc::<TenantBook>::default();
    let shared = SharedHost::default();
    let (first, there) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for area in 0..AREAS {
        let (book, shared, first) = (Rc::clone(&book), Rc::clone(&shared), Rc::clone(&first));
        simulation.spawn(0, move |memory| {
            let host = in_pod(&shared, &memory, area == 0);
            let objects = attach(&host, area);
            for round in 0..6 {
                objects.put(b"all", &value(tag_of(area, 0, round))).unwrap();
                objects.put(b"0", &value(tag_of(area, 0, round))).unwrap();
                objects.tick().unwrap();
            }
            first.set(first.get() + 1);
            while first.get() < AREAS || book.busy.get() > 0 {
                objects.tick().unwrap();
                memory.pause();
            }
            objects.leave().unwrap();
        });
    }
    for area in 0..AREAS {
        let (book, there) = (Rc::clone(&book), Rc::clone(&there));
        let busy = Busy::new(&book.busy);
        simulation.spawn(1 + area, move |memory| {
            let host = Host::join(Pod::open(memory).unwrap()).unwrap();
            let objects = attach(&host, area);
            there.set(there.get() + 1);
            run_tenant(&book, 1 + area, area, &objects, 2);
            drop(busy);
            tick_while_busy(&book, &objects);
            objects.leave().unwrap();
        });
    }
    let (late, busy) = (Rc::clone(&book), Busy::new(&book.busy));
    simulation.spawn(3, move |memory| {
        // Until the others have their seats, there is one for each of them.
        while there.get() < AREAS || memory.deaths() == 0 && first.get() < AREAS {
            memory.pause();
        }
        if memory.deaths() > 0 {
            let host = loop {
                match Host::join(Pod::open(memory.clone()).unwrap()) {
                    Ok(host) => break host,
                    Err(PodError::Full { .. }) => memory.pause(),
                    Err(error) => panic!("{error}"),
                }
            };
            let area = (memory.random() % AREAS as u64) as usize;
            let objects = attach(&host, area);
            run_tenant(&late, 3, area, &objects, 1);
            objects.leave().unwrap();
        }
        drop(busy);
    });
    simulation.run().unwrap();
}

/// A request that names its area, and shows when it is torn.
fn payload(area: usize, tag: u64) -> [u8; PAYLOAD_BYTES] {
    let mut payload = [0; PAYLOAD_BYTES];
    let word = (tag << 8 | area as u64).to_le_bytes();
    payload.chunks_mut(8).for_each(|at| at.copy_from_slice(&word));
    payload
}

/// Two hosts ask a third one for something in both areas, through the slots that all of a host's
/// tenants share. Each of its tenants answers what is about its own area.
pub(crate) fn mail_of_tenants(trial: &Trial) {
    const REQUESTS: u64 = 3;
    let mut simulation = pod(trial, (3, 3), None);
    let busy = Rc::new(Cell::new(0));
    let join = |number: usize| {
        let pod = Pod::open(simulation.memory(number)).unwrap();
        let seat = pod.join().unwrap();
        let mail = MailSlots::new(&pod, &seat);
        let enrol = |area: usize| -> (Enrolment, Mailbox<SimMemory>) {
            let area = pod.areas().nth(area).unwrap();
            let (enrolment, _) = area.enrol(&seat).unwrap();
            enrolment.ready(pod.memory()).unwrap();
            (enrolment, Mailbox::new(&area, &seat, Arc::clone(&mail)))
        };
        [0, 1].map(|area| Rc::new(enrol(area)))
    };
    let [server, one, other] = [0, 1, 2].map(join);
    let to = server[0].0.host();
    for (area, tenant) in server.iter().enumerate() {
        let (tenant, busy) = (Rc::clone(tenant), Rc::clone(&busy));
        simulation.spawn(0, move |memory| {
            let (enrolment, mailbox) = &*tenant;
            let mut served = 0;
            while busy.get() > 0 || served == 0 {
                if let Some(request) = mailbox.next() {
                    let word = u64::from_le_bytes(*request.payload.first_chunk().unwrap());
                    assert_eq!(word & 0xff, area as u64, "a request about another area");
                    assert!(request.payload == payload(area, word >> 8), "a torn request");
                    mailbox.answer(&request, word >> 8);
                    served += 1;
                }
                memory.pause();
            }
            assert!(enrolment.leave(&memory, false) != Leave::Wait);
        });
    }
    for (number, asker) in [(1, one), (2, other)] {
        for (area, tenant) in asker.into_iter().enumerate() {
            let busy = Busy::new(&busy);
            simulation.spawn(number, move |memory| {
                for tag in 1..=REQUESTS {
                    let mut ticket = loop {
                        match tenant.1.try_post(to, &payload(area, tag)) {
                            Some(ticket) => break ticket,
                            None => memory.pause(),
                        }
                    };
                    loop {
                        match ticket.reply() {
                            Reply::Waiting => memory.pause(),
                            Reply::Gone => panic!("the host has not left"),
                            Reply::Answered(answer) => break assert_eq!(answer, tag),
                        }
                    }
                }
                drop(busy);
            });
        }
    }
    simulation.run().unwrap();
}
