//! Mistakes that a coherent machine never shows, and the simulator does.

use tombolo_memory::{FetchOp, LINE_BYTES, Lines, LnrAddr, Memory, ScrAddr, Site};
use tombolo_simulator::{Config, SimMemory, Simulation, find_failure};

const SITE: Site = Site::new("test");
const PLACE: LnrAddr = LnrAddr::new(1000);
const BYTES: u64 = 200;

/// Runs a writer and a reader on two hosts, under many seeds; what the first failure said.
fn failure_of(
    write: fn(&SimMemory, ScrAddr<u64>),
    read: fn(&SimMemory, ScrAddr<u64>),
) -> Option<String> {
    let flag = ScrAddr::<u64>::new(0);
    let run = |seed| {
        let mut simulation = Simulation::new(Config { hosts: 2, ..Config::default() }, seed);
        simulation.spawn(0, move |memory| write(&memory, flag));
        simulation.spawn(1, move |memory| read(&memory, flag));
        simulation.run().unwrap();
    };
    find_failure(0..200, run).map(|(_, why)| why)
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
        let place = memory.fetch(next, FetchOp::Add, 1);
        memory.store(mark(place), 1);
        memory.fetch(done, FetchOp::Add, 1);
    };
    let run = |seed| {
        let mut simulation = Simulation::new(Config { hosts: 2, ..Config::default() }, seed);
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
    assert!(find_failure(0..200, run).is_some());
}

/// An entry that somebody declares dead while its appender is paused; what two readers made of it, one
/// of them later.
fn a_hole_that_is_filled(by_compare_and_swap: bool) -> Option<String> {
    const ENTRY: u64 = 1;
    const DEAD: u64 = 2;
    let place = ScrAddr::<u64>::new(64);
    let fill = move |memory: &SimMemory, value| {
        if by_compare_and_swap {
            let _ = memory.compare_exchange(place, 0, value);
        } else if memory.load(place) == 0 {
            memory.store(place, value);
        }
    };
    let run = |seed| {
        let mut simulation = Simulation::new(Config { hosts: 2, ..Config::default() }, seed);
        simulation.spawn(0, move |memory| fill(&memory, ENTRY));
        simulation.spawn(1, move |memory| {
            fill(&memory, DEAD);
            let first = memory.load(place);
            (0..20).for_each(|_| memory.pause());
            assert_eq!(memory.load(place), first, "replicas diverge");
        });
        simulation.run().unwrap();
    };
    find_failure(0..200, run).map(|(_, why)| why)
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

#[test]
fn two_owners_of_one_line_are_caught() {
    let first_half = |memory: &SimMemory, _| memory.write(LnrAddr::new(0), &[1; 32]);
    let second_half = |memory: &SimMemory, _| memory.write(LnrAddr::new(32), &[2; 32]);
    let said = failure_of(first_half, second_half).expect("it is caught");
    assert!(said.contains("dirty"), "{said}");
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
    for &site in tombolo_simulator::SITES.iter().filter(|site| site.name().contains("fence")) {
        let config = || Config { hosts: 2, ..Config::default() }.without(site);
        let run = |seed| {
            let (mut simulation, flag) = (Simulation::new(config(), seed), ScrAddr::new(0));
            simulation.spawn(0, move |memory| write_and_announce(&memory, flag));
            simulation.spawn(1, move |memory| wait_and_read(&memory, flag));
            simulation.run().unwrap();
        };
        assert!(find_failure(0..200, run).is_some(), "nothing fails without {site:?}");
    }
}
