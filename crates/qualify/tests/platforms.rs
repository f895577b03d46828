//! Platforms that are planted in the simulator: the verdict is right, and never better than the
//! truth.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tombolo_memory::{LINE_BYTES, Lines, LnrAddr, Memory};
use tombolo_pod::{Flaw, Verdict};
use tombolo_qualify::{
    Effort, Error, LINES, LineBytes, Options, Report, SCR_BYTES, SITES, Way, qualify,
};
use tombolo_simulator::{Config, Platform, SimMemory, Simulation, Trial};

fn effort() -> Effort {
    Effort {
        rounds: 16,
        invalidated: 64,
        looks: 8,
        changes: 12,
        repetitions: 2,
        ordered: 12,
        times: 4,
        meet_within: Duration::from_secs(500),
        answer_within: Duration::from_secs(5000),
    }
}

fn write_and_clean(memory: &SimMemory, line: u64, bytes: &LineBytes) {
    memory.write(LnrAddr::of_line(line), bytes);
    memory.clean(SITES[0], Lines::new(line, 1));
}

/// The findings of each of `hosts` hosts about a platform.
fn found(
    platform: Platform,
    hosts: usize,
    one_memory: bool,
    trial: &Trial,
) -> Vec<Result<Report, Error>> {
    let lnr_bytes = LINES * LINE_BYTES;
    let max_steps = 20_000_000;
    let scr_bytes = SCR_BYTES;
    let config = Config { hosts, scr_bytes, lnr_bytes, platform, max_steps, ..Config::default() };
    let mut simulation = Simulation::new(config, trial);
    let reports: Rc<RefCell<BTreeMap<usize, Result<Report, Error>>>> = Rc::default();
    for host in 0..hosts {
        let reports = Rc::clone(&reports);
        simulation.spawn(host, move |memory| {
            let ways = [Way { number: 7, write: &write_and_clean }];
            let dying = |_: &SimMemory, _: u64, _: &LineBytes| Err("nobody dies here".to_owned());
            let options = Options {
                host,
                hosts,
                one_memory,
                effort: effort(),
                ways: &ways,
                dying: Some(&dying),
                progress: &|_, _, _| (),
            };
            let report = qualify(&memory, &options);
            reports.borrow_mut().insert(host, report);
        });
    }
    simulation.run().unwrap();
    let reports = std::mem::take(&mut *reports.borrow_mut());
    reports.into_values().collect()
}

/// A platform, and the verdicts that it allows.
struct Planted {
    name: &'static str,
    platform: Platform,
    one_memory: bool,
    /// Verdicts that are right.
    right: fn(Verdict) -> bool,
    /// Whether it may come to no verdict: hosts may not even find each other.
    may_fail: bool,
}

fn planted() -> Vec<Planted> {
    let usual = Platform::default();
    vec![
        Planted {
            name: "words coherent, lines not",
            platform: usual,
            one_memory: false,
            right: |verdict| verdict == Verdict::CoherentWithAtomics,
            may_fail: false,
        },
        Planted {
            name: "coherent",
            platform: Platform { coherent_lines: true, ..usual },
            one_memory: true,
            right: |verdict| verdict == Verdict::CoherentWithAtomics,
            may_fail: false,
        },
        Planted {
            name: "no atomics",
            platform: Platform { coherent_lines: true, atomics: false, ..usual },
            one_memory: true,
            right: |verdict| verdict == Verdict::CoherentWithoutAtomics,
            may_fail: false,
        },
        Planted {
            name: "no narrow stores",
            platform: Platform { coherent_lines: true, narrow_stores: false, ..usual },
            one_memory: true,
            right: |verdict| verdict == Verdict::CoherentWithoutAtomics,
            may_fail: false,
        },
        Planted {
            name: "incoherent",
            platform: Platform { coherent_words: false, ..usual },
            one_memory: true,
            right: |verdict| verdict == Verdict::WriteBackWorks,
            may_fail: false,
        },
        Planted {
            name: "words incoherent, lines coherent",
            platform: Platform { coherent_words: false, coherent_lines: true, ..usual },
            one_memory: false,
            right: |verdict| verdict == Verdict::WriteBackWorks,
            may_fail: false,
        },
        Planted {
            name: "torn lines",
            platform: Platform { torn: 3, ..usual },
            one_memory: false,
            right: |verdict| matches!(verdict, Verdict::Unfit(Flaw::Torn | Flaw::NotVisible)),
            may_fail: true,
        },
        Planted {
            name: "lost write-backs",
            platform: Platform { lost: 3, ..usual },
            one_memory: false,
            right: |verdict| verdict == Verdict::Unfit(Flaw::NotVisible),
            may_fail: true,
        },
        Planted {
            name: "stale for ever",
            platform: Platform { stuck: 1, ..usual },
            one_memory: false,
            right: |verdict| matches!(verdict, Verdict::Unfit(_)),
            may_fail: true,
        },
        Planted {
            name: "invalidates that fail at times",
            platform: Platform { stuck: 4, ..usual },
            one_memory: false,
            right: |verdict| matches!(verdict, Verdict::Unfit(_)),
            may_fail: true,
        },
        Planted {
            name: "cleans without fences",
            platform: Platform { fences: false, ..usual },
            one_memory: false,
            right: |verdict| matches!(verdict, Verdict::Unfit(_)),
            may_fail: true,
        },
    ]
}

/// Rules about lines are for protocols; a platform that is tried may break them.
fn run(planted: &Planted, seed: u64) -> Vec<Result<Report, Error>> {
    found(planted.platform, 2, planted.one_memory, &Trial::new(seed).unsanitized())
}

fn check(seeds: std::ops::Range<u64>) {
    for planted in planted() {
        for seed in seeds.clone() {
            let name = planted.name;
            for found in run(&planted, seed) {
                match found {
                    Ok(report) => {
                        assert!((planted.right)(report.verdict), "{name}, seed {seed}: {report:?}")
                    }
                    Err(error) => assert!(planted.may_fail, "{name}, seed {seed}: {error}"),
                }
            }
        }
    }
}

#[test]
fn the_verdict_is_right_on_each_planted_platform() {
    check(0..12);
}

#[test]
#[ignore = "takes an hour: the night runs it"]
fn the_verdict_is_never_better_than_the_truth_in_many_schedules() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    check(0..seeds.unwrap_or(100_000));
}
