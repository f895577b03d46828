//! Mistakes that a coherent machine never shows, and the simulator does.

use tombolo_memory::{FetchOp, LINE_BYTES, Lines, LnrAddr, Memory, ScrAddr, Site};
use tombolo_simulator::{
    Config, Deaths, Kills, Mutant, SimMemory, Simulation, Trial, find_failure,
};

const SITE: Site = Site::new("test");
const PLACE: LnrAddr = LnrAddr::new(1000);
const BYTES: u64 = 200;

/// Runs a writer and a reader on two hosts, under many seeds; what the first failure said.
fn failure_of(
    write: fn(&SimMemory, ScrAddr<u64>),
    read: fn(&SimMemory, ScrAddr<u64>),
) -> Option<String> {
    let flag = ScrAddr::<u64>::new(0);
    let run = |trial: &Trial| {
        let mut simulation = Simulation::new(Config::default(), trial);
        simulation.spawn(0, move |memory| write(&memory, flag));
        simulation.spawn(1, move |memory| read(&memory, flag));
        simulation.run().unwrap();
    };
    find_failure(&unruled(), 0..200, run).map(|(_, why)| why)
}

/// A trial without rules about lines: only values that hosts read show a fault.
fn unruled() -> Trial {
    Trial::new(0).unsanitized()
}

fn lines() -> Lines {
    Lines::covering(PLACE, BYTES)
}

fn write_and_announce(memory: &SimMemory, flag: ScrAddr<u64>) {
    memory.write(PLACE, &[7; BYTES as usize]);
    memory.publish(SITE, [lines()], |memory| memory.store(flag, 1));
}

fn wait_and_read(memory: &SimMemory, flag: ScrAddr<u64>) {
    // The line is cached from before.
    memory.read(PLACE, &mut [0; BYTES as usize]);
    while memory.load(flag) == 0 {
        memory.pause();
    }
    memory.consume(SITE, |_| ((), Some(lines())));
    check(memory);
}

fn check(memory: &SimMemory) {
    let mut bytes = [0; BYTES as usize];
    memory.read(PLACE, &mut bytes);
    assert_eq!(bytes, [7; BYTES as usize], "stale");
}

#[test]
fn publish_and_consume_are_enough() {
    assert_eq!(failure_of(write_and_announce, wait_and_read), None);
}

#[test]
fn announcing_before_cleaning_shows() {
    let hasty = |memory: &SimMemory, flag| {
        memory.write(PLACE, &[7; BYTES as usize]);
        memory.store(flag, 1);
        memory.clean(SITE, lines());
    };
    assert!(failure_of(hasty, wait_and_read).is_some());
}

#[test]
fn invalidating_before_looking_shows() {
    let hasty = |memory: &SimMemory, flag| {
        memory.read(PLACE, &mut [0; BYTES as usize]);
        memory.invalidate(SITE, lines());
        while memory.load(flag) == 0 {
            memory.pause();
        }
        check(memory);
    };
    assert!(failure_of(write_and_announce, hasty).is_some());
}

#[test]
fn a_mark_that_arrives_before_its_bytes_shows() {
    // Bytes over two lines, whose last one is to tell that all are there.
    let marked = |memory: &SimMemory, _| {
        memory.write(PLACE, &[7; BYTES as usize]);
        memory.clean(SITE, lines());
    };
    let wait_for_mark = |memory: &SimMemory, _| {
        let mut mark = [0];
        for _ in 0..1000 {
            memory.invalidate(SITE, lines());
            memory.read(PLACE.plus(BYTES - 1), &mut mark);
            if mark == [7] {
                memory.invalidate(SITE, lines());
                return check(memory);
            }
            memory.pause();
        }
    };
    assert!(failure_of(marked, wait_for_mark).is_some());
}

#[test]
fn a_reserved_place_that_is_not_filled_hides_later_ones() {
    // The place of host 0 and its mark, then those of host 1; what host 1 has completed counts.
    let (next, done) = (ScrAddr::<u64>::new(64), ScrAddr::<u64>::new(128));
    let mark = |place| ScrAddr::<u64>::new(192).element(place);
    let append = move |memory: &SimMemory| {
        let place = memory.fetch(SITE, next, FetchOp::Add, 1);
        memory.store(mark(place), 1);
        memory.fetch(SITE, done, FetchOp::Add, 1);
    };
    let run = |trial: &Trial| {
        let mut simulation = Simulation::new(Config::default(), trial);
        simulation.spawn(0, move |memory| append(&memory));
        simulation.spawn(1, move |memory| {
            append(&memory);
            // A reader that stops at the first place without a mark.
            let completed = memory.load(done);
            let read = (0..2).take_while(|&place| memory.load(mark(place)) == 1).count() as u64;
            assert!(read >= completed, "{completed} entries were complete, {read} were read");
        });
        simulation.run().unwrap();
    };
    assert!(find_failure(&unruled(), 0..200, run).is_some());
}

/// An entry that somebody declares dead while its appender is paused; what two readers made of it,
/// one of them later.
fn a_hole_that_is_filled(by_compare_and_swap: bool) -> Option<String> {
    const ENTRY: u64 = 1;
    const DEAD: u64 = 2;
    let place = ScrAddr::<u64>::new(64);
    let fill = move |memory: &SimMemory, value| {
        if by_compare_and_swap {
            let _ = memory.compare_exchange(SITE, place, 0, value);
        } else if memory.load(place) == 0 {
            memory.store(place, value);
        }
    };
    let run = |trial: &Trial| {
        let mut simulation = Simulation::new(Config::default(), trial);
        simulation.spawn(0, move |memory| fill(&memory, ENTRY));
        simulation.spawn(1, move |memory| {
            fill(&memory, DEAD);
            let first = memory.load(place);
            (0..20).for_each(|_| memory.pause());
            assert_eq!(memory.load(place), first, "replicas diverge");
        });
        simulation.run().unwrap();
    };
    find_failure(&unruled(), 0..200, run).map(|(_, why)| why)
}

#[test]
fn a_paused_appender_that_overwrites_shows() {
    assert!(a_hole_that_is_filled(false).is_some());
    assert_eq!(a_hole_that_is_filled(true), None);
}

#[test]
fn a_flush_that_rounds_the_length_only_shows() {
    let careless = |memory: &SimMemory, flag| {
        memory.write(PLACE, &[7; BYTES as usize]);
        let lines = Lines::new(PLACE.line(), BYTES / LINE_BYTES);
        memory.publish(SITE, [lines], |memory| memory.store(flag, 1));
    };
    assert!(failure_of(careless, wait_and_read).is_some());
}

/// The report about a host, once others and it have done something to a line.
fn reported(scene: impl Fn(&SimMemory, &SimMemory) + Copy + 'static) -> String {
    let run = |trial: &Trial| {
        let mut simulation = Simulation::new(Config::default(), trial);
        let other = simulation.memory(1);
        simulation.spawn(0, move |memory| scene(&memory, &other));
        simulation.run().unwrap();
    };
    find_failure(&Trial::new(0), 0..50, run).expect("it is reported").1
}

const LINE: Lines = Lines::new(3, 1);
const START: LnrAddr = LnrAddr::of_line(3);

#[test]
fn a_host_that_writes_what_is_not_its_own_is_reported() {
    let said = reported(|host, _| host.write(START, &[1]));
    assert!(said.contains("written by a host whose it is not"), "{said}");
    assert!(said.contains("incoherence.rs"), "{said}");
}

#[test]
fn two_owners_of_one_line_are_reported() {
    let said = reported(|host, other| {
        host.takes(LINE);
        other.takes(LINE);
    });
    assert!(said.contains("taken while it is another's"), "{said}");
}

#[test]
fn a_line_that_is_dirty_in_two_caches_is_reported() {
    let said = reported(|host, other| {
        host.takes(LINE);
        host.write(START, &[1; 32]);
        other.write(START.plus(32), &[2; 32]);
    });
    assert!(said.contains("dirty in another cache") || said.contains("not"), "{said}");
}

#[test]
fn a_line_that_is_given_away_dirty_is_reported() {
    let said = reported(|host, _| {
        host.takes(LINE);
        host.write(START, &[1; 64]);
        host.gives(LINE, 64);
    });
    assert!(said.contains("given away while it is dirty"), "{said}");
}

#[test]
fn a_line_that_is_given_away_with_older_bytes_is_reported() {
    let said = reported(|host, other| {
        host.read(START, &mut [0]);
        other.takes(LINE);
        other.write(START, &[1; 64]);
        other.publish(SITE, [LINE], |other| other.gives(LINE, 64));
        host.takes(LINE);
        host.write(START, &[2; 8]);
        host.publish(SITE, [LINE], |host| host.gives(LINE, 64));
    });
    assert!(said.contains("older bytes"), "{said}");
}

#[test]
fn what_is_read_from_a_stale_cache_is_reported_when_it_counts() {
    let said = reported(|host, other| {
        host.read(START, &mut [0]);
        other.takes(LINE);
        other.write(START, &[1; 64]);
        other.publish(SITE, [LINE], |other| other.gives(LINE, 64));
        let since = host.moment();
        host.read(START, &mut [0]);
        host.relies_on(START, 1, since);
    });
    assert!(said.contains("read from a stale cache"), "{said}");
    assert!(said.contains("made stale by host 1"), "{said}");
}

#[test]
fn what_a_dead_host_had_in_its_caches_is_lost_or_written_or_both() {
    // Two lines, written and not cleaned; what memory holds once the host has died.
    let left = |seed: u64| {
        let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
        let mut simulation =
            Simulation::new(Config { kills, ..Config::default() }, &Trial::new(seed).unsanitized());
        simulation.spawn(0, |memory| {
            memory.write(LnrAddr::of_line(0), &[1; 128]);
            loop {
                memory.pause();
            }
        });
        simulation.run().unwrap();
        assert_eq!(simulation.deaths(0), 1);
        let mut bytes = [0; 128];
        simulation.memory(1).read(LnrAddr::of_line(0), &mut bytes);
        (bytes[0], bytes[64])
    };
    let outcomes: std::collections::BTreeSet<_> = (0..200).map(left).collect();
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
}

#[test]
fn a_host_that_died_starts_again_where_it_is_told_to() {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let flag = ScrAddr::<u64>::new(0);
    let mut simulation = Simulation::new(Config { kills, ..Config::default() }, &Trial::new(3));
    simulation.spawn(0, |memory| {
        loop {
            memory.pause();
        }
    });
    simulation.restarts(0, move |memory| memory.store(flag, 7));
    simulation.run().unwrap();
    assert_eq!(simulation.memory(1).load(flag), 7);
}

#[test]
fn a_store_may_be_seen_later_but_not_past_another() {
    // Each host says that it is there, and looks whether the other is: without a fence between,
    // neither may see the other; with a read-modify-write, one does.
    let both_miss = |fenced: bool| {
        let run = move |trial: &Trial| {
            let missed = std::rc::Rc::new(std::cell::Cell::new(0));
            let mut simulation = Simulation::new(Config::default(), trial);
            for host in 0..2 {
                let missed = std::rc::Rc::clone(&missed);
                simulation.spawn(host, move |memory| {
                    let word = |host: usize| ScrAddr::<u64>::new(64 * host as u64);
                    if fenced {
                        memory.fetch(SITE, word(host), FetchOp::Swap, 1);
                    } else {
                        memory.store(word(host), 1);
                    }
                    missed.set(missed.get() + u64::from(memory.load(word(1 - host)) == 0));
                    // A thread that has ended holds nothing back.
                    memory.step();
                });
            }
            simulation.run().unwrap();
            assert!(missed.get() < 2);
        };
        find_failure(&Trial::new(0), 0..500, run).is_some()
    };
    assert!(both_miss(false));
    assert!(!both_miss(true));
}

#[test]
fn a_partial_write_over_stale_lines_shows() {
    let stale = |memory: &SimMemory, flag| {
        // Cached before the other host changed it, and not dropped since.
        memory.read(PLACE, &mut [0; 8]);
        while memory.load(flag) == 0 {
            memory.pause();
        }
        memory.write(PLACE.plus(8), &[7; 8]);
        memory.publish(SITE, [lines()], |_| ());
        memory.consume(SITE, |_| ((), Some(lines())));
        check(memory);
    };
    assert!(failure_of(write_and_announce, stale).is_some());
}

#[test]
fn what_is_left_dirty_comes_back_later() {
    let forgetful = |memory: &SimMemory, flag: ScrAddr<u64>| {
        // Given up, but not cleaned.
        memory.write(PLACE, &[1; 8]);
        memory.store(flag, 1);
        while memory.load(flag) == 1 {
            memory.pause();
        }
    };
    let successor = |memory: &SimMemory, flag: ScrAddr<u64>| {
        while memory.load(flag) == 0 {
            memory.pause();
        }
        memory.consume(SITE, |_| ((), Some(lines())));
        memory.write(PLACE, &[7; BYTES as usize]);
        memory.publish(SITE, [lines()], |memory| memory.store(flag, 2));
        (0..100).for_each(|_| memory.pause());
        memory.consume(SITE, |_| ((), Some(lines())));
        check(memory);
    };
    assert!(failure_of(forgetful, successor).is_some());
}

#[test]
fn fences_are_needed() {
    let run = |trial: &Trial| {
        let (mut simulation, flag) = (Simulation::new(Config::default(), trial), ScrAddr::new(0));
        simulation.spawn(0, move |memory| write_and_announce(&memory, flag));
        simulation.spawn(1, move |memory| wait_and_read(&memory, flag));
        simulation.run().unwrap();
    };
    let unfenced = unruled().leaving_out(Mutant::Fence(SITE));
    assert!(find_failure(&unfenced, 0..200, run).is_some());
}
