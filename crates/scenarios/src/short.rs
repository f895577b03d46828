//! Short histories: a few operations of two or three clients. They run fast, and all their
//! schedules with a few preemptions can be enumerated.

use std::cell::Cell;
use std::rc::Rc;

use tombolo_memory::Memory;
use tombolo_objects::Objects;
use tombolo_sharing::RecordWidth;
use tombolo_simulator::{SimMemory, Trial};
use tombolo_verify::models::Operation::{
    self, CompareAndSwap, Create, Delete, Get, Put, Replace, Update,
};

use crate::objects::colliding_keys;
use crate::operations::{self, ScriptedClient, perform, value};
use crate::world::{COPIES, ONE_COPY, PARTITION, Setup, World};

// Values are as long as their tags say, modulo 7: these take a line, two lines, and three.
const SHORT: u64 = 7;
const LONGER: u64 = 7 + 2;
const LONG: u64 = 7 + 3;
/// Half a chunk.
const LARGE: u64 = 7 + 5;

/// Objects are there that every host has read; then clients do what they are to do.
fn run(
    trial: &Trial,
    setup: &Setup,
    before: &[(&str, Operation<u64>)],
    clients: &[ScriptedClient<'_>],
) {
    let mut world = World::new(trial, setup);
    let scribe = world.scribe();
    for (key, operation) in before {
        perform(&*world.hosts[0], &scribe, key, operation.clone());
        for host in &world.hosts {
            perform(&**host, &scribe, key, Get);
        }
    }
    for &(host, operations) in clients {
        let operations: Vec<(String, Operation<u64>)> = operations
            .iter()
            .map(|(key, operation)| ((*key).to_owned(), operation.clone()))
            .collect();
        world.client(host, move |host, scribe| {
            for (key, operation) in operations {
                perform(host, scribe, &key, operation);
            }
        });
    }
    world.finish();
}

/// An object is written in place while another host reads it.
pub(crate) fn write_and_read(trial: &Trial) {
    run(
        trial,
        &Setup::small(2),
        &[("a", Create(LONGER))],
        &[(0, &[("a", Put(LONGER + 7)), ("a", Put(LONGER + 14))]), (1, &[("a", Get), ("a", Get)])],
    );
}

/// Three objects are read together, while one is written in place, one is deleted and its slot used
/// by another, and one comes to be.
pub(crate) fn read_together(trial: &Trial) {
    let mut world = World::new(trial, &Setup { chunks: 1, ..Setup::small(2) });
    let scribe = world.scribe();
    for (key, operation) in [("a", Create(LONGER)), ("b", Create(LONGER)), ("a", Put(LONGER + 7))] {
        perform(&*world.hosts[0], &scribe, key, operation);
        world.hosts.iter().for_each(|host| perform(&**host, &scribe, key, Get));
    }
    let scribes = [(); 3].map(|()| world.scribe());
    world.client(1, move |host, _| {
        (0..2).for_each(|_| operations::read_together(host, &scribes, &["a", "b", "c"]));
    });
    let writes = [
        ("a", Put(LONGER + 14)),
        ("b", Delete),
        ("c", Create(LONGER + 21)),
        ("a", Put(LONGER + 28)),
    ];
    world.client(0, move |host, scribe| {
        for (key, operation) in writes {
            perform(host, scribe, key, operation);
        }
    });
    world.finish();
}

/// A read-shared object is first written, and so gets a record, while another host reads it.
pub(crate) fn first_write(trial: &Trial) {
    let reads = [("a", Get), ("a", Get)];
    run(
        trial,
        &Setup::small(2),
        &[("a", Create(SHORT))],
        &[(0, &[("a", Put(2 * SHORT))]), (1, &reads), (1, &reads)],
    );
}

/// Two hosts write one object.
pub(crate) fn two_writers(trial: &Trial) {
    run(
        trial,
        &Setup::small(2),
        &[("a", Create(LONGER))],
        &[(0, &[("a", Put(LONGER + 7)), ("a", Get)]), (1, &[("a", Put(LONGER + 14)), ("a", Get)])],
    );
}

/// One key is created by two hosts at once, and read.
pub(crate) fn create_twice(trial: &Trial) {
    run(
        trial,
        &Setup::small(2),
        &[],
        &[(0, &[("a", Create(1)), ("a", Get)]), (1, &[("a", Create(2)), ("a", Get)])],
    );
}

/// An object is deleted, and another takes its slot, while a third client reads both.
pub(crate) fn slot_reuse(trial: &Trial) {
    run(
        trial,
        &Setup { chunks: 1, ..Setup::small(2) },
        &[("a", Create(SHORT))],
        &[
            (0, &[("a", Delete), ("b", Create(2 * SHORT)), ("a", Create(3 * SHORT))]),
            (1, &[("a", Get), ("b", Get), ("a", Get)]),
        ],
    );
}

/// A chunk is divided anew, into larger slots, while another thread of the host reads what comes
/// there.
pub(crate) fn other_size(trial: &Trial) {
    run(
        trial,
        &Setup { chunks: 1, ..Setup::small(2) },
        &[("a", Create(SHORT))],
        &[(0, &[("a", Delete), ("b", Create(LONG))]), (0, &[("b", Get), ("b", Get)])],
    );
}

/// An object with a record is deleted while another host reads and writes it.
pub(crate) fn delete_and_write(trial: &Trial) {
    run(
        trial,
        &Setup::small(2),
        &[("a", Create(SHORT))],
        &[
            (0, &[("a", Put(2 * SHORT)), ("a", Delete)]),
            (1, &[("a", Replace(3 * SHORT)), ("a", Get)]),
        ],
    );
}

/// A counter of three bits starts again at zero, and comes to where it was, while another host
/// reads.
pub(crate) fn wrap_around(trial: &Trial) {
    let write = |n: u64| ("a", Put(LONGER + n * 7));
    run(
        trial,
        &Setup::small(2),
        &[("a", Create(LONGER)), write(1)],
        &[(1, &[("a", Get), ("a", Get)]), (0, &[2, 3, 4, 5].map(write))],
    );
}

/// One word for wide and narrow records: an object's narrow counter comes round, and it gets a wide
/// record if no other has a part of the word.
pub(crate) fn mixed_records(trial: &Trial) {
    let setup = Setup { width: Some(RecordWidth::Auto), records: 8, ..Setup::small(2) };
    let write = |key, n: u64| (key, Put(LONGER + n * 7));
    run(
        trial,
        &setup,
        &[("a", Create(LONGER)), write("a", 1), ("b", Create(SHORT)), ("c", Create(SHORT))],
        &[
            (0, &[2, 3, 4, 5].map(|n| write("b", n))),
            (1, &[("c", Put(2 * SHORT)), ("b", Get), ("a", Put(3 * SHORT)), ("b", Get)]),
        ],
    );
}

/// A counter of three bits goes round several times while others read in two pieces, taking their
/// time.
pub(crate) fn many_wraps(trial: &Trial) {
    write_and_read_slowly(trial, RecordWidth::Bits32);
}

/// As [`many_wraps`], with records in two parts: the one with the lock comes round.
pub(crate) fn split_record(trial: &Trial) {
    write_and_read_slowly(trial, RecordWidth::Bits24);
}

fn write_and_read_slowly(trial: &Trial, width: RecordWidth) {
    const BYTES: usize = 72;
    let setup = Setup { ticking: true, width: Some(width), ..Setup::small(2) };
    let mut world = World::new(trial, &setup);
    world.hosts[0].create(b"a", &[0; BYTES]).unwrap();
    world.client(0, |host, _| {
        (1..16).for_each(|n| _ = host.write(b"a", &[n; BYTES]).unwrap());
    });
    for _ in 0..3 {
        world.client(1, |host, _| {
            let mut ends = [[0], [0]];
            for _ in 0..6 {
                let guard = host.read_start(b"a").unwrap();
                guard.read(0, &mut ends[0]).unwrap();
                (0..4).for_each(|_| host.memory().pause());
                guard.read(BYTES as u64 - 1, &mut ends[1]).unwrap();
                if guard.read_end().is_ok() {
                    assert_eq!(ends[0], ends[1], "torn");
                }
            }
        });
    }
    world.finish();
}

/// One record for two objects: writing one takes it from the other, which is read meanwhile.
pub(crate) fn one_record(trial: &Trial) {
    run(
        trial,
        &Setup { records: 1, ..Setup::small(2) },
        &[("a", Create(SHORT)), ("b", Create(2 * SHORT))],
        &[
            (0, &[("a", Put(3 * SHORT)), ("b", Put(4 * SHORT))]),
            (1, &[("a", Get), ("a", Put(5 * SHORT)), ("b", Get)]),
        ],
    );
}

/// A marked object is deleted, and its record goes to another one that is marked.
pub(crate) fn a_mark_changes_hands(trial: &Trial) {
    let setup = Setup { records: 1, latches: 1, ..Setup::small(2) };
    let mut world = World::new(trial, &setup);
    let (first, second) = (Rc::clone(&world.hosts[0]), Rc::clone(&world.hosts[1]));
    for key in [b"a", b"b"] {
        first.create(key, &value(SHORT)).unwrap();
    }
    first.write_start(b"a").unwrap().set_dirty(1);
    world.client(0, |host, _| assert!(host.delete(b"a").unwrap()));
    world.client(1, |host, _| host.write_start(b"b").unwrap().set_dirty(1));
    world.finish();
    assert!(second.write_dirty(b"b").unwrap().is_some(), "a dirty bit was lost");
}

/// An object outgrows its slot while another host reads it.
pub(crate) fn move_to_another_slot(trial: &Trial) {
    run(
        trial,
        &Setup::small(2),
        &[("a", Create(SHORT))],
        &[(0, &[("a", Put(LONG)), ("a", Put(2 * SHORT))]), (1, &[("a", Get), ("a", Get)])],
    );
}

/// An object of which a host has a copy is written by another; then its record goes to another
/// object.
pub(crate) fn copies(trial: &Trial) {
    run(
        trial,
        &Setup { records: 1, local: Some(COPIES), ..Setup::small(2) },
        &[("a", Create(SHORT)), ("b", Create(SHORT)), ("a", Put(2 * SHORT))],
        &[
            (0, &[("a", Put(3 * SHORT)), ("b", Put(4 * SHORT)), ("a", Put(5 * SHORT))]),
            (1, &[("a", Get), ("a", Get), ("b", Get), ("a", Get)]),
        ],
    );
}

/// A counter of three bits comes to where it was when a copy was made.
pub(crate) fn wrapped_copy(trial: &Trial) {
    let write = |n: u64| ("a", Put(LONGER + n * 7));
    run(
        trial,
        &Setup { local: Some(COPIES), ..Setup::small(2) },
        &[("a", Create(LONGER)), write(1)],
        &[(0, &[2, 3, 4, 5].map(write)), (1, &[("a", Get)])],
    );
}

/// Two threads of a host read two objects, and there is room for a copy of one.
pub(crate) fn one_copy(trial: &Trial) {
    run(
        trial,
        &Setup { local: Some(ONE_COPY), ..Setup::small(1) },
        &[("a", Create(SHORT)), ("b", Create(2 * SHORT))],
        &[(0, &[("a", Get), ("a", Get), ("a", Get)]), (0, &[("b", Get), ("b", Get)])],
    );
}

/// An object moves into the memory of the host that uses it, and comes back for another that reads
/// and writes it.
pub(crate) fn move_in(trial: &Trial) {
    let write = |n: u64| ("a", Put(n * 7));
    run(
        trial,
        &Setup { local: Some(PARTITION), backup: None, ticking: true, ..Setup::small(2) },
        &[("a", Create(SHORT))],
        &[(0, &[write(3), write(4), ("a", Get)]), (1, &[("a", Get), write(5), ("a", Get)])],
    );
}

/// Two hosts have an object each in their memory, and want the other's; nobody answers but who
/// waits.
pub(crate) fn swap_partitions(trial: &Trial) {
    let mut world =
        World::new(trial, &Setup { local: Some(PARTITION), backup: None, ..Setup::small(2) });
    let busy = Rc::new(Cell::new(2));
    for (host, [mine, theirs]) in [["a", "b"], ["b", "a"]].into_iter().enumerate() {
        let scribe = world.scribe();
        perform(&*world.hosts[host], &scribe, mine, Create(SHORT));
        let busy = Rc::clone(&busy);
        world.client(host, move |host, scribe| {
            (2..5).for_each(|n| perform(host, scribe, mine, Put(n * 7)));
            perform(host, scribe, theirs, Update(5 * 7));
            busy.set(busy.get() - 1);
            while busy.get() > 0 {
                host.tick().unwrap();
                host.memory().pause();
            }
        });
    }
    world.run();
}

/// A host leaves the pod that has had an object in its memory, which another host wants.
pub(crate) fn leave_with_partition(trial: &Trial) {
    let mut world =
        World::new(trial, &Setup { local: Some(PARTITION), backup: None, ..Setup::small(2) });
    world.client(0, |host, scribe| {
        perform(host, scribe, "a", Create(SHORT));
        (2..6).for_each(|n| perform(host, scribe, "a", Put(n * 7)));
        host.leave().unwrap();
    });
    world.client(1, |host, scribe| (0..3).for_each(|_| perform(host, scribe, "a", Get)));
    world.run();
}

/// An object in a host's memory leaves it for a larger slot, and one with the same hash takes its
/// slot, and its place there, while another thread looks for the first.
pub(crate) fn partition_of_another(trial: &Trial) {
    let mut world =
        World::new(trial, &Setup { local: Some(PARTITION), backup: None, ..Setup::small(1) });
    let (one, other) = colliding_keys(&world.hosts[0]);
    let reader = one.clone();
    // With these a chunk is full but for one slot.
    for other in ["b", "c", "d", "e"] {
        world.hosts[0].create(other.as_bytes(), &value(LONG)).unwrap();
    }
    world.client(0, move |host, scribe| {
        perform(host, scribe, &one, Create(LONG));
        (2..5).for_each(|n| perform(host, scribe, &one, Put(LONG + n * 7)));
        perform(host, scribe, &one, Put(LARGE));
        perform(host, scribe, &other, Create(LONG + 35));
        (6..9).for_each(|n| perform(host, scribe, &other, Put(LONG + n * 7)));
    });
    world.client(0, move |host, scribe| {
        (0..2).for_each(|_| perform(host, scribe, &reader, Get));
    });
    world.finish();
}

/// An object in a host's memory grows out of its slot, and is deleted, while another host reads it.
pub(crate) fn grow_in_partition(trial: &Trial) {
    let write = |n: u64| ("a", Put(n * 7));
    run(
        trial,
        &Setup { local: Some(PARTITION), backup: None, ticking: true, ..Setup::small(2) },
        &[("a", Create(SHORT))],
        &[
            (0, &[write(2), write(3), ("a", Put(LONG)), write(4), write(5), ("a", Delete)]),
            (1, &[("a", Get), ("a", Get)]),
        ],
    );
}

/// Two clients compare and swap, a third updates.
pub(crate) fn compare_and_swap(trial: &Trial) {
    let swap = |new: u64| CompareAndSwap { expected: SHORT, new };
    run(
        trial,
        &Setup::small(2),
        &[("a", Create(SHORT))],
        &[
            (0, &[("a", swap(2 * SHORT))]),
            (1, &[("a", swap(3 * SHORT))]),
            (1, &[("a", Update(4 * SHORT))]),
        ],
    );
}

/// There is room in LNR for less than is wanted.
pub(crate) fn no_room(trial: &Trial) {
    let large = |n: u64| 7 * n + 5;
    run(
        trial,
        &Setup { chunks: 1, ..Setup::small(2) },
        &[],
        &[
            (0, &[("a", Create(large(1))), ("a", Delete), ("c", Create(large(3)))]),
            (1, &[("b", Create(large(2))), ("b", Get), ("b", Delete)]),
        ],
    );
}

/// The log is full of what one host did, and another applies it in its own time.
pub(crate) fn full_log(trial: &Trial) {
    let mut world = World::new(trial, &Setup::small(2));
    let done = Rc::new(Cell::new(false));
    let finished = Rc::clone(&done);
    world.client(0, move |host, scribe| {
        for tag in 1..4 {
            perform(host, scribe, "a", Create(tag * SHORT));
            perform(host, scribe, "a", Delete);
            perform(host, scribe, "b", Create(tag * SHORT));
            perform(host, scribe, "b", Delete);
        }
        finished.set(true);
    });
    world.client(1, move |host, scribe| {
        while !done.get() {
            perform(host, scribe, "a", Get);
            host.memory().pause();
        }
    });
    world.finish();
}

/// Two threads on each of two hosts change halves of one object through guards.
pub(crate) fn partial_writes(trial: &Trial) {
    const HALF: u64 = 40;
    let mut world = World::new(trial, &Setup::small(2));
    world.hosts[0].create(b"halves", &[0; 2 * HALF as usize]).unwrap();
    for number in 0..3 {
        world.client(number % 2, move |host, _| add_to_half(host, number as u64 % 2 * HALF));
    }
    let (first, second) = (Rc::clone(&world.hosts[0]), Rc::clone(&world.hosts[1]));
    world.finish();
    for host in [first, second] {
        let mut bytes = Vec::new();
        host.read(b"halves", &mut bytes).unwrap();
        let halves = (bytes[0], bytes[HALF as usize]);
        assert_eq!(halves, (2, 1), "an update was lost");
    }
}

fn add_to_half(host: &Objects<SimMemory>, offset: u64) {
    let mut byte = [0];
    let mut guard = host.write_start(b"halves").unwrap();
    guard.read(offset, &mut byte).unwrap();
    guard.write(offset, &[byte[0] + 1]).unwrap();
    guard.write_end().unwrap();
    host.memory().answered();
}
