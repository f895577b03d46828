//! Hosts that find out what they can do with their memory, on a platform that does what a pod
//! needs: they say so.

use std::time::Duration;

use tombolo_memory::{LINE_BYTES, Lines, LnrAddr, Memory, ScrAddr};
use tombolo_pod::{DETAILS, Qualification, RECORD_LINES, Verdict};
use tombolo_qualify::{Effort, LINES, LineBytes, Options, SCR_BYTES, SITES, Way, qualify};
use tombolo_simulator::{Config, Deaths, Kills, SimMemory, Simulation, Trial};

/// Few of all, and patience: time leaps while hosts wait for each other.
const EFFORT: Effort = Effort {
    rounds: 16,
    invalidated: 48,
    looks: 8,
    changes: 12,
    repetitions: 2,
    ordered: 12,
    times: 4,
    meet_within: Duration::from_secs(500),
    answer_within: Duration::from_secs(5000),
};

fn write_and_clean(memory: &SimMemory, line: u64, bytes: &LineBytes) {
    memory.write(LnrAddr::of_line(line), bytes);
    memory.clean(SITES[0], Lines::new(line, 1));
}

/// Two hosts come to the verdict that is true.
pub(crate) fn two_hosts(trial: &Trial) {
    let config = Config {
        scr_bytes: SCR_BYTES,
        lnr_bytes: LINES * LINE_BYTES,
        contended: vec![Lines::new(0, LINES)],
        max_steps: 20_000_000,
        ..Config::default()
    };
    let mut simulation = Simulation::new(config, trial);
    for host in 0..2 {
        simulation.spawn(host, move |memory| {
            let options = Options {
                host,
                hosts: 2,
                one_memory: false,
                effort: EFFORT,
                ways: &[Way { number: 7, write: &write_and_clean }],
                dying: None,
                progress: &|_, _, _| (),
            };
            let report = qualify(&memory, &options).unwrap();
            assert_eq!(report.verdict, Verdict::CoherentWithAtomics, "{:?}", report.evidence);
        });
    }
    simulation.run().unwrap();
}

/// A record that is announced is seen, by a host that has looked before.
pub(crate) fn record(trial: &Trial) {
    write_and_read(trial, None);
}

/// The same, while one of the two dies: a record that was cut off is none.
pub(crate) fn a_host_dies(trial: &Trial) {
    write_and_read(trial, Some(Kills { hosts: vec![0, 1], one_in: 1, deaths: Deaths::One }));
}

fn write_and_read(trial: &Trial, kills: Option<Kills>) {
    let lnr_bytes = RECORD_LINES * LINE_BYTES;
    let config = Config { scr_bytes: 64, lnr_bytes, kills, ..Config::default() };
    let mut simulation = Simulation::new(config, trial);
    let written = Qualification { verdict: Verdict::WriteBackWorks, details: [7; DETAILS] };
    let flag = ScrAddr::<u64>::new(0);
    simulation.spawn(0, move |memory| {
        written.write(&memory, 0);
        memory.store(flag, 1);
    });
    simulation.spawn(1, move |memory| {
        _ = Qualification::read(&memory, 0);
        while memory.load(flag) == 0 && memory.deaths() == 0 {
            memory.pause();
        }
        // (The flag first: a host may die between the two looks.)
        let announced = memory.load(flag) == 1;
        let read = Qualification::read(&memory, 0);
        assert!(read == Some(written) || !announced && read.is_none(), "{read:?} is stale");
    });
    simulation.run().unwrap();
}
