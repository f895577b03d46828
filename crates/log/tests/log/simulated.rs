//! The log in the simulator: replicas agree, nothing is lost, and each remedy is needed.

use std::cell::RefCell;
use std::rc::Rc;

use tombolo_log::{Replica, SITES};
use tombolo_memory::{Memory, Site};
use tombolo_pod::{Geometry, Options, Pod};
use tombolo_simulator::{Config, SimMemory, Simulation, explore, find_failure};

use crate::history::{Append, History, check_agreement};

type Host = Rc<Replica<SimMemory, History>>;

const HOSTS: usize = 3;

/// A ring of 8 entries; segments shorter or longer than it.
fn format_pod(simulation: &Simulation, seed: u64) {
    let memory = simulation.memory(0);
    let options = Options {
        ring_entries: Some(8),
        segment_entries: Some(if seed.is_multiple_of(2) { 4 } else { 16 }),
        chunk_bytes: Some(1024),
        ..Options::default()
    };
    let geometry = Geometry::plan(memory.scr_bytes(), memory.lnr_bytes(), options).unwrap();
    Pod::format(memory, geometry).unwrap();
}

fn join(memory: SimMemory) -> Host {
    let pod = Pod::open(memory).unwrap();
    let (seat, _) = pod.join().unwrap();
    seat.ready(pod.memory());
    let position = Replica::<_, History>::announce(&pod, &seat);
    Rc::new(Replica::new(pod, &seat, position, History::default(), ()))
}

/// Two threads on each of two hosts commit, a third host only follows; all replicas end up with the same history, which holds
/// every entry that was said to be done, and no other.
fn concurrent_commits(config: Config, seed: u64) {
    let mut simulation = Simulation::new(config, seed);
    format_pod(&simulation, seed);
    let hosts: Vec<Host> = (0..HOSTS).map(|host| join(simulation.memory(host))).collect();
    let done = Rc::new(RefCell::new(Vec::new()));
    let running = Rc::new(RefCell::new(4));
    for thread in 0..4 {
        let (host, done) = (Rc::clone(&hosts[thread % 2]), Rc::clone(&done));
        let running = Rc::clone(&running);
        simulation.spawn(thread % 2, move |memory| {
            for n in 0..6 {
                let tag = (thread * 100 + n) as u64;
                let conditional = memory.random().is_multiple_of(2);
                host.sync().unwrap();
                let length = host.state().entries().len() as u64;
                let expected = conditional.then_some(length);
                if host.commit(&Append { tag, expected }).unwrap() {
                    assert!(
                        host.state().knows(tag),
                        "a committed entry is in the committer's replica"
                    );
                    done.borrow_mut().push(tag);
                }
            }
            *running.borrow_mut() -= 1;
        });
    }
    for (number, host) in hosts.iter().enumerate() {
        let (host, running) = (Rc::clone(host), Rc::clone(&running));
        simulation.spawn(number, move |memory| {
            while *running.borrow() > 0 {
                host.sync().unwrap();
                (0..memory.random() % 64).for_each(|_| memory.pause());
            }
            host.sync().unwrap();
        });
    }
    simulation.run().unwrap();

    let replicas: Vec<_> = hosts.iter().map(|host| host.state().entries()).collect();
    check_agreement(&replicas, done.borrow().clone());
}

/// What one host committed before another looked, the other sees.
fn reads_see_what_was_committed_before(config: Config, seed: u64) {
    let mut simulation = Simulation::new(config, seed);
    format_pod(&simulation, seed);
    let hosts: Vec<Host> = (0..2).map(|host| join(simulation.memory(host))).collect();
    let committed = Rc::new(RefCell::new(0));
    let (writer, noted) = (Rc::clone(&hosts[0]), Rc::clone(&committed));
    simulation.spawn(0, move |_| {
        for tag in 0..20 {
            writer.commit(&Append { tag, expected: None }).unwrap();
            *noted.borrow_mut() = tag + 1;
        }
    });
    let (reader, noted) = (Rc::clone(&hosts[1]), committed);
    simulation.spawn(1, move |memory| {
        while *noted.borrow() < 20 {
            let before = *noted.borrow();
            reader.sync().unwrap();
            assert!(reader.state().entries().len() as u64 >= before, "a stale replica was used");
            memory.pause();
        }
    });
    simulation.run().unwrap();
}

/// A host joins with a copy of another's replica, which may hold all that the log has room for.
fn joining_by_copy(config: Config, seed: u64) {
    let mut simulation = Simulation::new(config, seed);
    format_pod(&simulation, seed);
    let first = join(simulation.memory(0));
    let committer = Rc::clone(&first);
    simulation.spawn(0, move |_| {
        for tag in 0..40 {
            committer.commit(&Append { tag, expected: None }).unwrap();
        }
    });
    simulation.spawn(1, move |memory| {
        let pod = Pod::open(memory.clone()).unwrap();
        let (seat, _) = pod.join().unwrap();
        Replica::<_, History>::announce(&pod, &seat);
        (0..memory.random() % 200).for_each(|_| memory.pause());
        let (position, entries) = first.paused(|position, state, _| (position, state.entries()));
        let second = Replica::new(pod, &seat, position, History::of(entries), ());
        seat.ready(&memory);
        second.commit(&Append { tag: 99, expected: None }).unwrap();
        while second.state().entries().len() < 41 {
            second.sync().unwrap();
            first.sync().unwrap();
            memory.pause();
        }
        assert_eq!(second.state().entries(), first.state().entries(), "replicas agree");
    });
    simulation.run().unwrap();
}

/// What must not be done: a thread keeps the replica to itself, and waits for it to be brought up to
/// date.
fn syncing_what_is_held(config: Config, seed: u64) {
    let mut simulation = Simulation::new(config, seed);
    format_pod(&simulation, seed);
    let hosts: Vec<Host> = (0..2).map(|host| join(simulation.memory(host))).collect();
    hosts[0].commit(&Append { tag: 1, expected: None }).unwrap();
    let reader = Rc::clone(&hosts[1]);
    simulation.spawn(1, move |_| reader.paused(|_, _, _| _ = reader.sync().unwrap()));
    simulation.run().unwrap();
}

fn config() -> Config {
    Config { hosts: HOSTS, max_steps: 200_000, ..Config::default() }
}

#[test]
fn replicas_agree_and_nothing_is_lost() {
    explore(0..300, |seed| concurrent_commits(config(), seed));
}

#[test]
fn a_replica_is_at_least_as_new_as_its_sync() {
    explore(0..300, |seed| reads_see_what_was_committed_before(config(), seed));
}

#[test]
fn a_copy_of_a_replica_is_as_good() {
    explore(0..300, |seed| joining_by_copy(config(), seed));
}

#[test]
fn a_replica_that_is_held_while_it_is_synced_shows() {
    let config = || Config { max_steps: 20_000, ..config() };
    let found = find_failure(0..1, |seed| syncing_what_is_held(config(), seed));
    assert!(found.is_some_and(|(_, why)| why.contains("Stuck")));
}

#[test]
fn every_step_is_needed() {
    let fails = |site: Site| {
        let config = || config().without(site);
        find_failure(0..400, |seed| {
            concurrent_commits(config(), seed);
            reads_see_what_was_committed_before(config(), seed);
            joining_by_copy(config(), seed);
        })
    };
    for &site in SITES {
        assert!(fails(site).is_some(), "nothing fails without {site:?}");
    }
}
