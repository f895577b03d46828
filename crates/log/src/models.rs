//! The state that threads of one host share, under the model checker (`--cfg loom`).
//!
//! A model is as small as it can be and still go wrong: each ordering of this crate is taken out in
//! turn, and one of them must notice. Entries of the log are tags. The state is the sets of those
//! applied and those that had an effect, at which readers look without a lock, as at an index.

use std::rc::Rc;

use tombolo_memory::{LINE_BYTES, Lines, Memory};
use tombolo_model::HostMemory;
use tombolo_model::loom::sync::atomic::{AtomicU64, Ordering};
use tombolo_model::loom::thread;
use tombolo_pod::{
    Area, AreaRequest, Budget, Enrolment, Kind, Layout, LogOptions, PARAMETERS, Pod, PodOptions,
};

use crate::entry::Content;
use crate::ring::Ring;
use crate::segment::{Outcome, Segment, segment_start};
use crate::{Entry, Fences, PAYLOAD_BYTES, Replica, State, sites};

const RING: u64 = 8;
const SEGMENT: u64 = 4;

/// The log's first position.
const START: u64 = RING;

/// Adds a tag, a power of two; one that `wants_none` only to the empty set.
#[derive(Clone, Copy)]
struct Tag {
    tag: u64,
    wants_none: bool,
}

impl Entry for Tag {
    fn encode(&self) -> [u8; PAYLOAD_BYTES] {
        let mut payload = [0; PAYLOAD_BYTES];
        payload[..8].copy_from_slice(&self.tag.to_le_bytes());
        payload[8] = self.wants_none.into();
        payload
    }

    fn decode(payload: &[u8; PAYLOAD_BYTES]) -> Option<Self> {
        let tag = u64::from_le_bytes(*payload.first_chunk()?);
        Some(Self { tag, wants_none: payload[8] != 0 })
    }
}

#[derive(Default)]
struct Tags {
    applied: AtomicU64,
    taken: AtomicU64,
}

impl Tags {
    fn applied(&self) -> u64 {
        self.applied.load(Ordering::Relaxed)
    }

    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl State for Tags {
    type Entry = Tag;
    type Writer = ();

    fn apply(&self, (): &mut (), _: u64, entry: &Tag, _: bool) -> bool {
        let takes = !entry.wants_none || self.taken() == 0;
        self.applied.store(self.applied() | entry.tag, Ordering::Relaxed);
        if takes {
            self.taken.store(self.taken() | entry.tag, Ordering::Relaxed);
        }
        takes
    }
}

type Host = Rc<Replica<HostMemory, Tags>>;

/// An area in which `hosts` hosts take part, and whose log is ready to be shared.
fn area(hosts: u8) -> (Area<HostMemory>, Vec<Enrolment>) {
    let memory = HostMemory::new(8 << 10, 96 << 10);
    let request = AreaRequest {
        kind: Kind::new("tags"),
        version: 1,
        scr_bytes: None,
        lnr_bytes: None,
        log: LogOptions {
            shards: Some(1),
            ring_entries: Some(RING),
            segment_entries: Some(SEGMENT),
        },
        plan: &|_: Budget| Ok([0; PARAMETERS]),
        on_demand: None,
    };
    let options = PodOptions { hosts: Some(hosts), ..PodOptions::default() };
    let layout = Layout::plan(memory.scr_bytes(), memory.lnr_bytes(), options, &[request]).unwrap();
    let pod = Pod::format(memory, &layout).unwrap();
    let area = pod.areas().next().unwrap();
    let enrolments = (0..hosts).map(|_| enrol(&area)).collect();
    share_log(&area, hosts);
    (area, enrolments)
}

fn enrol(area: &Area<HostMemory>) -> Enrolment {
    let (enrolment, _) = area.enrol(&area.pod().join().unwrap()).unwrap();
    enrolment.ready(area.memory()).unwrap();
    Replica::<_, Tags>::announce(area, &enrolment, 0);
    enrolment
}

/// Low-water mark, ring and progress, and the segment of host 0, which alone commits.
fn share_log(area: &Area<HostMemory>, hosts: u8) {
    let log = area.log(0);
    let ring = (0..RING).map(|position| log.ring.element(position));
    let progress = (0..hosts).map(|host| log.applied.line(host.into()));
    let segment = Lines::covering(segment_start(area, 0, 0), SEGMENT * LINE_BYTES);
    area.memory().share(ring.chain(progress).chain([log.low_water_mark]), segment);
}

fn replica(area: &Area<HostMemory>, enrolment: &Enrolment) -> Host {
    Rc::new(Replica::new(
        area.clone(),
        enrolment,
        0,
        (START, Fences::default()),
        Tags::default(),
        (),
    ))
}

fn commit(host: &Host, tag: u64, wants_none: bool) -> thread::JoinHandle<bool> {
    let host = Rc::clone(host);
    thread::spawn(move || {
        let done = host.commit(&Tag { tag, wants_none }, &|| ()).unwrap();
        assert_eq!(host.state().taken() & tag != 0, done, "the outcome is that of the own entry");
        done
    })
}

/// Two threads commit, a third looks on: the state is as new as the tail that it loaded, and each
/// thread learns what became of its own entry.
fn two_commit_and_one_reads() {
    let (area, enrolments) = area(1);
    let host = replica(&area, &enrolments[0]);
    let (any, first) = (commit(&host, 1, false), commit(&host, 2, true));
    let tail = host.sync().unwrap();
    let applied = u64::from(host.state().applied().count_ones());
    assert!(applied >= tail - START, "the state is at least as new as the tail");
    assert!(any.join().unwrap());
    first.join().unwrap();
    assert_eq!((host.state().applied(), host.sync().unwrap(), host.lag()), (3, START + 2, 0));
}

/// The segment is full of what another host has yet to read; a commit waits for that.
fn a_commit_waits_for_a_slow_host() {
    let (area, enrolments) = area(2);
    let (host, slow) = (replica(&area, &enrolments[0]), replica(&area, &enrolments[1]));
    for number in 0..SEGMENT {
        assert!(host.commit(&Tag { tag: 1 << number, wants_none: false }, &|| ()).unwrap());
    }
    let waiting = commit(&host, 1 << SEGMENT, false);
    slow.sync().unwrap();
    assert_eq!(slow.state().taken() & 0xf, 0xf, "entries were there until they were read");
    waiting.join().unwrap();
}

/// Another host reads an entry and says so; one thread learns it, another reuses the place.
fn what_one_thread_learns_of_hosts_another_uses() {
    let (area, _) = area(2);
    let (ring, line) = (Rc::new(Ring::new(&area, 0)), segment_start(&area, 0, 0));
    ring.announce_applied(0, START + 1);
    let (other_host, memory) = (Ring::new(&area, 0), area.memory().clone());
    let other_host = thread::spawn(move || {
        memory.read(line, &mut [0; 64]);
        other_host.announce_applied(1, START + 1);
    });
    let learner = Rc::clone(&ring);
    let learner = thread::spawn(move || _ = learner.is_applied_by_all(START));
    if ring.is_applied_by_all(START) {
        area.memory().write(line, &[1; 64]);
    }
    other_host.join().unwrap();
    learner.join().unwrap();
}

/// An entry is applied here and its outcome learnt, while a thread asks for its place; another host
/// has not applied it.
fn a_place_is_free_when_all_have_applied() {
    let (area, enrolments) = area(2);
    let segment = Rc::new(Segment::new(&area, &enrolments[0], 0, START));
    segment.write(0, &Content::Event(Tag { tag: 1, wants_none: false }));
    let replayer = Rc::clone(&segment);
    let replayer = thread::spawn(move || replayer.settle(0, START, Outcome::Done));
    let (committer, memory) = (Rc::clone(&segment), area.memory().clone());
    let committer = thread::spawn(move || {
        while committer.take_outcome(0).is_none() {
            memory.pause();
        }
    });
    assert!(!segment.has_room(SEGMENT, &Ring::new(&area, 0)), "host 1 may still read the entry");
    replayer.join().unwrap();
    committer.join().unwrap();
}

tombolo_model::models! {
    a_place_is_free_when_all_have_applied,
    a_commit_waits_for_a_slow_host,
    what_one_thread_learns_of_hosts_another_uses,
    two_commit_and_one_reads,
}

#[test]
fn every_step_is_needed() {
    let sites = [sites::TAIL_SYNC, sites::SEGMENT_ROOM];
    let superfluous = [
        // The outcome, loaded before and stored after, orders it.
        "segment.rs: let applied = ring.is_applied_by_all(self.positions[slot].load(Ordering::Acquire));",
        // The thread that settles the entry has read it, which is after this.
        "segment.rs: self.outcomes[self.slot(number)].store(Outcome::Pending as u8, Ordering::Release);",
        // As the load of it.
        "segment.rs: self.positions[slot].store(position, Ordering::Release);",
    ];
    tombolo_model::every_step_is_needed(MODELS, &sites, &superfluous);
}
