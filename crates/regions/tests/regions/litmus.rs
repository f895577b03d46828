//! Litmus tests among processes: the outcomes that x86-TSO forbids do not come about, in any mode,
//! and while modes change.
//!
//! Each test is run again and again at one place after the other. Hosts begin each batch together.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use tombolo_memory::FetchOp;
use tombolo_pod::PodSpec;
use tombolo_regions::{Mode, Regions, SharedRegion};

use crate::children::start;
use crate::hosts::pod;

const PAGE: usize = 4096;
const BLOCK: usize = 64 * PAGE;
/// Runs between two meetings.
const BATCH: usize = 64;
/// Locations of a test, at most.
const LOCATIONS: usize = 2;
/// Values that a host reads in a run, at most.
const REGISTERS: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(usize, u32),
    /// A store that is also a fence.
    Swap(usize, u32),
    Read(usize),
}
use Step::{Read, Swap, Write};

const X: usize = 0;
const Y: usize = 1;

struct Test {
    name: &'static str,
    hosts: &'static [&'static [Step]],
    /// By host and number what was read, and what stood in the locations at the end.
    forbidden: fn(&[[u32; REGISTERS]], [u32; LOCATIONS]) -> bool,
}

const TESTS: &[Test] = &[
    Test {
        name: "SB",
        hosts: &[&[Swap(X, 1), Read(Y)], &[Swap(Y, 1), Read(X)]],
        forbidden: |read, _| read[0][0] == 0 && read[1][0] == 0,
    },
    Test {
        name: "MP",
        hosts: &[&[Write(X, 1), Write(Y, 1)], &[Read(Y), Read(X)]],
        forbidden: |read, _| read[1] == [1, 0],
    },
    Test {
        name: "LB",
        hosts: &[&[Read(X), Write(Y, 1)], &[Read(Y), Write(X, 1)]],
        forbidden: |read, _| read[0][0] == 1 && read[1][0] == 1,
    },
    Test {
        name: "CoRR",
        hosts: &[&[Write(X, 1)], &[Read(X), Read(X)]],
        forbidden: |read, _| read[1] == [1, 0],
    },
    Test {
        name: "2+2W",
        hosts: &[&[Write(X, 1), Write(Y, 2)], &[Write(Y, 1), Write(X, 2)]],
        forbidden: |_, last| last == [1, 1],
    },
    Test {
        name: "WRC",
        hosts: &[&[Write(X, 1)], &[Read(X), Write(Y, 1)], &[Read(Y), Read(X)]],
        forbidden: |read, _| read[1][0] == 1 && read[2] == [1, 0],
    },
    Test {
        name: "IRIW",
        hosts: &[&[Write(X, 1)], &[Write(Y, 1)], &[Read(X), Read(Y)], &[Read(Y), Read(X)]],
        forbidden: |read, _| read[2] == [1, 0] && read[3] == [1, 0],
    },
];

/// Where the locations and the registers of a run are. Both locations are in one page for some
/// runs, and in two blocks for others.
#[derive(Clone, Copy)]
struct Layout {
    runs: usize,
}

impl Layout {
    fn bytes(self) -> usize {
        2 * self.half() + self.runs * 4 * REGISTERS * 4
    }

    /// Bytes of the part for each location: whole blocks.
    fn half(self) -> usize {
        (self.runs * 8).next_multiple_of(BLOCK)
    }

    fn location(self, run: usize, location: usize) -> usize {
        // Every other batch has both locations in one page.
        let together = (run / BATCH).is_multiple_of(2);
        if together { run * 8 + location * 4 } else { location * self.half() + run * 8 }
    }

    fn register(self, run: usize, host: usize, number: usize) -> usize {
        2 * self.half() + ((run * 4 + host) * REGISTERS + number) * 4
    }
}

fn test_of(name: &str) -> &'static Test {
    TESTS.iter().find(|test| test.name == name).unwrap()
}

/// One host's part in all runs.
pub(crate) fn play(spec: &PodSpec, name: &str, host: usize) {
    let regions = Regions::join(spec).unwrap();
    let region = regions.open(name).unwrap();
    let test = test_of(name);
    let layout = Layout { runs: region.bytes().load::<u64>(region.len() - 8) as usize };
    for batch in 0..layout.runs / BATCH {
        region.meet(test.hosts.len() as u64).unwrap();
        for run in batch * BATCH..(batch + 1) * BATCH {
            one_run(&region, layout, run, host, test.hosts[host]);
        }
    }
    region.meet(test.hosts.len() as u64).unwrap();
}

fn one_run(region: &SharedRegion, layout: Layout, run: usize, host: usize, steps: &[Step]) {
    let bytes = region.bytes();
    let (mut read, mut count) = ([0; REGISTERS], 0);
    for step in steps {
        match *step {
            Write(location, value) => bytes.store(layout.location(run, location), value),
            Swap(location, value) => {
                bytes.fetch(layout.location(run, location), FetchOp::Swap, value);
            }
            Read(location) => {
                read[count] = bytes.load::<u32>(layout.location(run, location));
                count += 1;
            }
        }
    }
    for (number, value) in read.into_iter().enumerate() {
        bytes.store(layout.register(run, host, number), value);
    }
}

/// Plays a test with a process for each host, and changes modes meanwhile if `switches`.
fn run(test: &Test, modes: [Mode; 2], switches: bool, runs: usize) {
    let Some((_folder, spec)) = pod(true) else { return };
    let regions = Regions::join(&spec).unwrap();
    let layout = Layout { runs };
    let bytes = layout.bytes().next_multiple_of(8) + 8;
    regions.create(test.name, bytes as u64, modes[0]).unwrap();
    let region = regions.open(test.name).unwrap();
    // The last word tells the players how many runs there are.
    region.bytes().store(region.len() - 8, runs as u64);
    region.set_mode(layout.half()..2 * layout.half(), modes[1]).unwrap();
    let players: Vec<_> = (0..test.hosts.len())
        .map(|host| start(&spec, &["litmus", test.name, &host.to_string()]))
        .collect();
    let (done, ended) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let region = &region;
        scope.spawn(move || {
            let mut modes = Mode::ALL.into_iter().cycle();
            let pause = Duration::from_millis(2);
            while switches && ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let mode = modes.next().unwrap();
                region.set_mode(0..layout.half(), mode).unwrap();
                region.set_mode(layout.half()..2 * layout.half(), modes.next().unwrap()).unwrap();
                modes.next();
                modes.next();
            }
        });
        players.into_iter().for_each(crate::children::Player::ends);
        drop(done);
    });
    let mut outcomes = std::collections::BTreeSet::new();
    for run in 0..runs {
        let value = |at| region.bytes().load::<u32>(at);
        let read: Vec<[u32; REGISTERS]> = (0..test.hosts.len())
            .map(|host| std::array::from_fn(|n| value(layout.register(run, host, n))))
            .collect();
        let last = std::array::from_fn(|location| value(layout.location(run, location)));
        let (name, switched) = (test.name, if switches { ", modes changed" } else { "" });
        assert!(!(test.forbidden)(&read, last), "{name}: {read:?}, {last:?}; {modes:?}{switched}");
        outcomes.insert((read, last));
    }
    // A test in which hosts never meet shows one outcome.
    eprintln!("{}: {} outcomes in {runs} runs", test.name, outcomes.len());
}

/// Pairs of modes of the two locations.
const PAIRS: [[Mode; 2]; 4] = [
    [Mode::Owned, Mode::Owned],
    [Mode::Replicated, Mode::Replicated],
    [Mode::Owned, Mode::Replicated],
    [Mode::Direct, Mode::Replicated],
];

#[test]
fn no_forbidden_outcome() {
    for (nth, test) in TESTS.iter().enumerate() {
        run(test, PAIRS[nth % PAIRS.len()], false, 2048);
    }
}

#[test]
fn no_forbidden_outcome_while_modes_change() {
    for (nth, test) in TESTS.iter().enumerate() {
        run(test, PAIRS[(nth + 1) % PAIRS.len()], true, 2048);
    }
}

#[test]
#[ignore = "takes an hour"]
fn no_forbidden_outcome_in_a_million_runs() {
    for test in TESTS {
        for pair in PAIRS {
            for switches in [false, true] {
                (0..8).for_each(|_| run(test, pair, switches, 1 << 14));
            }
        }
    }
}
