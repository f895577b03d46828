//! The log alone: replicas agree, and nothing is lost.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use tombolo_log::{Fences, Replica};
use tombolo_memory::Memory;
use tombolo_pod::{Area, Pod};
use tombolo_sharing::{Options, plan_layout};
use tombolo_simulator::{Config, Kills, SimMemory, Simulation, Trial};

use crate::append::{Append, History, check_agreement};
use crate::world::formatted;

pub(crate) type LogHost = Rc<Replica<SimMemory, History>>;

pub(crate) const HOSTS: usize = 3;

/// A pod for three hosts with a ring of 8 entries; segments shorter or longer than it.
pub(crate) fn pod(trial: &Trial, kills: Option<Kills>) -> Simulation {
    pod_for(trial, HOSTS, kills)
}

/// The same, for so many hosts.
pub(crate) fn pod_for(trial: &Trial, hosts: usize, kills: Option<Kills>) -> Simulation {
    pod_with(trial, (hosts, hosts), kills)
}

/// The same, with another number of seats.
pub(crate) fn pod_with(
    trial: &Trial,
    (hosts, seats): (usize, usize),
    kills: Option<Kills>,
) -> Simulation {
    let config = Config {
        kills,
        hosts,
        scr_bytes: 12 << 10,
        lnr_bytes: 128 << 10,
        max_steps: 200_000,
        ..Config::default()
    };
    let options = Options {
        writes: Some(2),
        hosts: Some(seats as u8),
        ring_entries: Some(8),
        segment_entries: Some(if trial.seed.is_multiple_of(2) { 4 } else { 16 }),
        chunk_bytes: Some(1024),
        records: Some(2),
        mail_slots: Some(2),
        ..Options::default()
    };
    let layout = plan_layout(config.scr_bytes, config.lnr_bytes, options).unwrap();
    formatted(trial, config, &layout)
}

/// The area of such a pod.
pub(crate) fn area_of(pod: &Pod<SimMemory>) -> Area<SimMemory> {
    pod.areas().next().expect("it has one")
}

pub(crate) fn join(memory: SimMemory) -> LogHost {
    let pod = Pod::open(memory).unwrap();
    let area = area_of(&pod);
    let (enrolment, _) = area.enrol(&pod.join().unwrap()).unwrap();
    enrolment.ready(pod.memory()).unwrap();
    let position = Replica::<_, History>::announce(&area, &enrolment, 0);
    Rc::new(Replica::new(
        area,
        &enrolment,
        0,
        (position, Fences::default()),
        History::default(),
        (),
    ))
}

/// Two threads on each of two hosts commit, a third host only follows; all replicas end up with the
/// same history, which holds every entry that was said to be done, and no other.
pub(crate) fn concurrent_commits(trial: &Trial) {
    let mut simulation = pod(trial, None);
    let hosts: Vec<LogHost> = (0..HOSTS).map(|host| join(simulation.memory(host))).collect();
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
                if host.commit(&Append { tag, expected }, &|| ()).unwrap() {
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

/// A host sees all operations that another one committed before it looked. That holds even if
/// another of its threads applies the log meanwhile, and the log goes round.
pub(crate) fn reads_see_what_was_committed_before(trial: &Trial) {
    let mut simulation = pod(trial, None);
    let hosts: Vec<LogHost> = (0..2).map(|host| join(simulation.memory(host))).collect();
    let committed = Rc::new(RefCell::new(0));
    let (writer, noted) = (Rc::clone(&hosts[0]), Rc::clone(&committed));
    simulation.spawn(0, move |_| {
        for tag in 0..20 {
            writer.commit(&Append { tag, expected: None }, &|| ()).unwrap();
            writer.area().memory().answered();
            *noted.borrow_mut() = tag + 1;
        }
    });
    for _ in 0..2 {
        let (reader, noted) = (Rc::clone(&hosts[1]), Rc::clone(&committed));
        simulation.spawn(1, move |memory| {
            while *noted.borrow() < 20 {
                let before = *noted.borrow();
                reader.sync().unwrap();
                let found = reader.state().entries().len() as u64;
                assert!(found >= before, "a stale replica was used");
                memory.pause();
            }
        });
    }
    simulation.run().unwrap();
}

/// A host joins with a copy of another's replica, which may hold all that the log has room for.
pub(crate) fn joining_by_copy(trial: &Trial) {
    let mut simulation = pod(trial, None);
    let first = join(simulation.memory(0));
    let committer = Rc::clone(&first);
    simulation.spawn(0, move |_| {
        for tag in 0..40 {
            committer.commit(&Append { tag, expected: None }, &|| ()).unwrap();
        }
    });
    simulation.spawn(1, move |memory| {
        let pod = Pod::open(memory.clone()).unwrap();
        let area = area_of(&pod);
        let (enrolment, _) = area.enrol(&pod.join().unwrap()).unwrap();
        Replica::<_, History>::announce(&area, &enrolment, 0);
        (0..memory.random() % 200).for_each(|_| memory.pause());
        // The copy is not older than the position that this host has announced.
        first.sync().unwrap();
        let (position, entries) = first.paused(|position, _, state, _| (position, state.entries()));
        let second = Replica::new(
            area,
            &enrolment,
            0,
            (position, Fences::default()),
            History::of(entries),
            (),
        );
        enrolment.ready(&memory).unwrap();
        second.commit(&Append { tag: 99, expected: None }, &|| ()).unwrap();
        while second.state().entries().len() < 41 {
            second.sync().unwrap();
            first.sync().unwrap();
            memory.pause();
        }
        first.sync().unwrap();
        assert_eq!(second.state().entries(), first.state().entries(), "replicas agree");
    });
    simulation.run().unwrap();
}

/// A host joins while the log goes round, perhaps for the second time: it finds the log's end, and
/// what it said that it needs is kept, though somebody may have asked just before who is in the
/// pod, and hears only later how far all have got.
pub(crate) fn join_and_fill(trial: &Trial) {
    const ENTRIES: u64 = 12;
    let mut simulation = pod(trial, None);
    let hosts: Vec<LogHost> = (0..2).map(|host| join(simulation.memory(host))).collect();
    let committed = Rc::new(Cell::new(0));
    for (number, host) in hosts.iter().enumerate() {
        let (host, count) = (Rc::clone(host), Rc::clone(&committed));
        simulation.spawn(number, move |_| {
            for n in 0..ENTRIES {
                host.commit(&Append { tag: 100 * number as u64 + n, expected: None }, &|| ())
                    .unwrap();
                count.set(count.get() + 1);
            }
        });
    }
    for (number, host) in hosts.iter().enumerate() {
        let (host, count) = (Rc::clone(host), Rc::clone(&committed));
        simulation.spawn(number, move |memory| {
            while count.get() <= 2 * ENTRIES {
                host.sync().unwrap();
                memory.pause();
            }
            host.sync().unwrap();
        });
    }
    let joined = Rc::new(OnceCell::new());
    let late = Rc::clone(&joined);
    simulation.spawn(2, move |memory| {
        let pod = Pod::open(memory.clone()).unwrap();
        let waits = memory.random().is_multiple_of(4);
        let after = if waits { memory.random() % (2 * ENTRIES) } else { 0 };
        while committed.get() < after {
            memory.pause();
        }
        let area = area_of(&pod);
        let (enrolment, _) = area.enrol(&pod.join().unwrap()).unwrap();
        let position = Replica::<_, History>::announce(&area, &enrolment, 0);
        // As long as it takes to get a replica.
        (0..64).for_each(|_| memory.pause());
        let host = Replica::new(
            area,
            &enrolment,
            0,
            (position, Fences::default()),
            History::default(),
            (),
        );
        enrolment.ready(&memory).unwrap();
        host.commit(&Append { tag: 999, expected: None }, &|| ()).unwrap();
        committed.set(committed.get() + 1);
        while committed.get() <= 2 * ENTRIES {
            host.sync().unwrap();
            memory.pause();
        }
        host.sync().unwrap();
        late.set((position, host.state().entries())).unwrap();
    });
    simulation.run().unwrap();
    let (position, found) = joined.get().unwrap();
    for host in hosts {
        let mut all = host.state().entries();
        assert_eq!(all.len() as u64, 2 * ENTRIES + 1, "all that was committed, once");
        all.retain(|(at, _)| at >= position);
        assert_eq!(&all, found, "a host that joins has all from where it joined");
    }
}

/// More threads of a host commit at once than its segment has places, while another host is slow.
pub(crate) fn crowded_segment(trial: &Trial) {
    const THREADS: u64 = 7;
    let mut simulation = pod(&trial.with_seed(trial.seed & !1), None);
    let hosts: Vec<LogHost> = (0..2).map(|host| join(simulation.memory(host))).collect();
    let done = Rc::new(RefCell::new(Vec::new()));
    for thread in 0..THREADS {
        let (host, done) = (Rc::clone(&hosts[0]), Rc::clone(&done));
        simulation.spawn(0, move |_| {
            for tag in [10 * thread, 10 * thread + 1] {
                assert!(host.commit(&Append { tag, expected: None }, &|| ()).unwrap());
                done.borrow_mut().push(tag);
            }
        });
    }
    let (slow, count) = (Rc::clone(&hosts[1]), Rc::clone(&done));
    simulation.spawn(1, move |memory| {
        while (count.borrow().len() as u64) < 2 * THREADS {
            slow.sync().unwrap();
            memory.pause();
        }
        slow.sync().unwrap();
    });
    simulation.run().unwrap();
    let replicas: Vec<_> = hosts.iter().map(|host| host.state().entries()).collect();
    check_agreement(&replicas, done.borrow().clone());
}

/// Two hosts, one of them with two threads, commit an entry or two each.
pub(crate) fn short_commits(trial: &Trial) {
    let mut simulation = pod(trial, None);
    let hosts: Vec<LogHost> = (0..2).map(|host| join(simulation.memory(host))).collect();
    let done = Rc::new(RefCell::new(Vec::new()));
    for (tag, host) in [(1, 0), (2, 0), (3, 1)] {
        let (host, done) = (Rc::clone(&hosts[host]), Rc::clone(&done));
        simulation.spawn(host.area().memory().host(), move |memory| {
            let before = done.borrow().len();
            assert!(host.commit(&Append { tag, expected: None }, &|| ()).unwrap());
            memory.answered();
            let known = host.state().entries().len();
            assert!(known > before, "{known} entries are known, {before} were committed before");
            done.borrow_mut().push(tag);
        });
    }
    simulation.run().unwrap();
    hosts.iter().for_each(|host| _ = host.sync().unwrap());
    let replicas: Vec<_> = hosts.iter().map(|host| host.state().entries()).collect();
    check_agreement(&replicas, done.borrow().clone());
}

#[cfg(test)]
mod tests {
    use tombolo_simulator::catch;

    use super::*;

    /// A mistake that must show: a thread keeps the replica to itself, and waits for it to be
    /// brought up to date.
    fn syncing_what_is_held(trial: &Trial) {
        let mut simulation = pod(trial, None);
        let hosts: Vec<LogHost> = (0..2).map(|host| join(simulation.memory(host))).collect();
        hosts[0].commit(&Append { tag: 1, expected: None }, &|| ()).unwrap();
        let reader = Rc::clone(&hosts[1]);
        simulation.spawn(1, move |_| reader.paused(|_, _, _, _| _ = reader.sync().unwrap()));
        simulation.run().unwrap();
    }

    #[test]
    fn a_replica_that_is_held_while_it_is_synced_shows() {
        let found = catch(|| syncing_what_is_held(&Trial::new(0)));
        assert!(found.is_err_and(|why| why.contains("Stuck")));
    }
}
