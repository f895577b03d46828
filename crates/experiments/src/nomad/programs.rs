//! Figures of programs: Redis, PageRank and Liblinear.

use tombolo_tiers::Policy;

use super::run::{Case, Platform, Program, Run};
use super::{Check, Measured, NomadFigure, above, below, judge, policies, within};
use crate::figures::{Drawn, Sketch};

pub(super) const FIGURE_11: NomadFigure = NomadFigure { id: "11", runs: runs_11, draw: figure_11 };
pub(super) const FIGURE_12: NomadFigure = NomadFigure { id: "12", runs: runs_12, draw: figure_12 };
pub(super) const FIGURE_13: NomadFigure = NomadFigure { id: "13", runs: runs_13, draw: figure_13 };
pub(super) const FIGURE_14: NomadFigure = NomadFigure { id: "14", runs: runs_14, draw: figure_14 };
pub(super) const FIGURE_15: NomadFigure = NomadFigure { id: "15", runs: runs_15, draw: figure_15 };
pub(super) const FIGURE_16: NomadFigure = NomadFigure { id: "16", runs: runs_16, draw: figure_16 };

/// Platforms with a large slow tier.
pub(super) const LARGE: [Platform; 2] = [Platform::C, Platform::D];
const CASES: [(Case, &str); 3] =
    [(Case::One, "case 1"), (Case::Two, "case 2"), (Case::Three, "case 3")];
const LARGE_CASES: [(Case, &str); 2] = [(Case::Thrashing, "thrashing"), (Case::Normal, "normal")];

fn runs(platforms: &[Platform], programs: &[Program]) -> Vec<Run> {
    let mut runs = Vec::new();
    for &platform in platforms {
        for &program in programs {
            let all = policies(platform, true).into_iter();
            runs.extend(all.map(|policy| Run { platform, policy, program }));
        }
    }
    runs
}

fn runs_11() -> Vec<Run> {
    runs(&Platform::ALL, &CASES.map(|(case, _)| Program::Redis { case }))
}

fn runs_12() -> Vec<Run> {
    runs(&Platform::ALL, &[Program::PageRank { is_large: false }])
}

fn runs_13() -> Vec<Run> {
    runs(&Platform::ALL, &[Program::Liblinear { is_large: false }])
}

fn runs_14() -> Vec<Run> {
    runs(&LARGE, &LARGE_CASES.map(|(case, _)| Program::Redis { case }))
}

fn runs_15() -> Vec<Run> {
    runs(&LARGE, &[Program::PageRank { is_large: true }])
}

fn runs_16() -> Vec<Run> {
    runs(&LARGE, &[Program::Liblinear { is_large: true }])
}

/// Speed of one policy over that of another.
fn over(
    measured: &Measured,
    platform: Platform,
    program: Program,
    one: Policy,
    other: Policy,
) -> f64 {
    let seconds = |policy| measured.at(platform, policy, program).first.seconds;
    seconds(other) / seconds(one)
}

fn redis(measured: &Measured, platforms: &[Platform], cases: &[(Case, &str)], sketch: &mut Sketch) {
    sketch.drawn.bars = true;
    for &platform in platforms {
        for &(case, name) in cases {
            let program = Program::Redis { case };
            for policy in policies(platform, true) {
                let round = &measured.at(platform, policy, program).first;
                // An operation uses two pages.
                let operations = round.counters.accesses as f64 / 2.0;
                let thousands = round.counters.promotions as f64 / measured.factor / 1000.0;
                let values = [operations / round.seconds / 1000.0, thousands];
                let panel = format!("platform {}", platform.name());
                sketch.point(&panel, policy.name(), name.into(), &values);
            }
        }
    }
}

const REDIS_SHOWN: [&str; 2] =
    ["thousand operations a second", "promotions, thousands at full scale"];

fn figure_11(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        "11",
        "Redis with YCSB's workload A",
        "Case 1: 6 M records and 8 M operations, 13 GB, all in slow memory first. Case 2: 10 M and 12 M, 24 \
         GB, likewise. Case 3: the same, fast memory first.",
        "case",
        &REDIS_SHOWN,
    );
    redis(measured, &Platform::ALL, &CASES, &mut sketch);
    for platform in Platform::ALL {
        for (case, name) in CASES {
            let program = Program::Redis { case };
            let ratio = |one, other| over(measured, platform, program, one, other);
            let name = |what: &str| format!("{}, {name}: {what}", platform.name());
            let why = "Few operations fault here, so that both differ by less than what their moves take.";
            let ours = ratio(Policy::Nomad, Policy::Tpp);
            judge(&mut sketch, name("NOMAD over TPP"), "superior", ours, above(1.0, why));
            let why = "Hot records are used often enough that their promotions pay within the run.";
            let ours = ratio(Policy::Nomad, Policy::None);
            let says = "no migration is better";
            judge(&mut sketch, name("NOMAD over no migration"), says, ours, below(1.0, why));
            if platform.has_memtis() {
                let ours = ratio(Policy::Nomad, Policy::MEMTIS);
                let (says, check) = if case == Case::One {
                    let why =
                        "Faults on a third of the operations cost more than they gain in 8 M.";
                    ("NOMAD is better", above(1.0, why))
                } else {
                    ("Memtis is better", below(1.0, why))
                };
                judge(&mut sketch, name("NOMAD over Memtis"), says, ours, check);
            }
        }
    }
    sketch.drawn
}

fn figure_14(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        "14",
        "Redis with 36.5 GB",
        "20 M records and 30 M operations, in slow memory first (thrashing), or in fast memory first (normal).",
        "case",
        &REDIS_SHOWN,
    );
    redis(measured, &LARGE, &LARGE_CASES, &mut sketch);
    for platform in LARGE {
        for (case, name) in LARGE_CASES {
            let program = Program::Redis { case };
            let ratio = |one, other| over(measured, platform, program, one, other);
            let name = |what: &str| format!("{}, {name}: {what}", platform.name());
            let why = "Few operations fault here, so that both differ by less than what their moves take.";
            let ours = ratio(Policy::Nomad, Policy::Tpp);
            judge(&mut sketch, name("NOMAD over TPP"), "better", ours, above(1.0, why));
            if platform.has_memtis() {
                let why =
                    "Hot records are used often enough that their promotions pay within the run.";
                let ours = ratio(Policy::Nomad, Policy::MEMTIS);
                let says = "Memtis is better";
                judge(&mut sketch, name("NOMAD over Memtis"), says, ours, below(1.0, why));
            }
        }
        let seconds =
            |case| measured.at(platform, Policy::Nomad, Program::Redis { case }).first.seconds;
        let why = "One run is too short for placements to converge.";
        let name = format!("{}, NOMAD: thrashing over normal", platform.name());
        let ours = seconds(Case::Normal) / seconds(Case::Thrashing);
        judge(&mut sketch, name, "not substantially different", ours, within(0.8, 1.25, why));
    }
    sketch.drawn
}

/// Judges how fast one policy is over another.
fn judge_over(
    (sketch, measured): (&mut Sketch, &Measured),
    (platform, program): (Platform, Program),
    (one, other): (Policy, Policy),
    says: &'static str,
    check: Check,
) {
    let ours = over(measured, platform, program, one, other);
    let name = format!("{}: {} over {}", platform.name(), short(one), short(other));
    judge(sketch, name, says, ours, check);
}

/// The name of a policy, without the kind of Memtis.
fn short(policy: Policy) -> &'static str {
    if let Policy::Memtis { .. } = policy { "Memtis" } else { policy.name() }
}

/// Speeds of all policies, over that of the slowest.
fn speeds(measured: &Measured, platforms: &[Platform], program: Program, sketch: &mut Sketch) {
    sketch.drawn.bars = true;
    for &platform in platforms {
        let all = policies(platform, true);
        let seconds = |policy| measured.at(platform, policy, program).first.seconds;
        let slowest = all.iter().map(|&policy| seconds(policy)).fold(0.0, f64::max);
        for policy in all {
            let counters = &measured.at(platform, policy, program).first.counters;
            let thousands = |count: u64| count as f64 / measured.factor / 1000.0;
            let values = [
                slowest / seconds(policy),
                thousands(counters.promotions),
                thousands(counters.aborts),
            ];
            sketch.point("speed", policy.name(), platform.name().into(), &values);
        }
    }
}

const SPEEDS: [&str; 3] = [
    "speed over the slowest",
    "promotions, thousands at full scale",
    "aborts, thousands at full scale",
];

fn figure_12(measured: &Measured) -> Drawn {
    let program = Program::PageRank { is_large: false };
    let mut sketch = Sketch::new(
        "12",
        "PageRank",
        "A uniformly random graph, 22 GB, 32 threads, ten iterations.",
        "platform",
        &SPEEDS,
    );
    speeds(measured, &Platform::ALL, program, &mut sketch);
    for platform in Platform::ALL {
        for policy in [Policy::Tpp, Policy::Nomad] {
            let why = "A migration interrupts all 32 threads, and no cache shortens what they do otherwise.";
            let (says, pair) = ("negligible variance", (policy, Policy::None));
            judge_over(
                (&mut sketch, measured),
                (platform, program),
                pair,
                says,
                within(0.9, 1.1, why),
            );
        }
        if platform.has_memtis() {
            let why = "Samples cost the model's program less than the faults of the others.";
            let (says, pair) = ("the least efficient", (Policy::MEMTIS, Policy::Nomad));
            judge_over((&mut sketch, measured), (platform, program), pair, says, below(1.0, why));
        }
    }
    sketch.drawn
}

fn figure_13(measured: &Measured) -> Drawn {
    let program = Program::Liblinear { is_large: false };
    let mut sketch = Sketch::new(
        "13",
        "Liblinear",
        "10 GB, all in slow memory first, 16 threads, 20 passes.",
        "platform",
        &SPEEDS,
    );
    speeds(measured, &Platform::ALL, program, &mut sketch);
    for platform in Platform::ALL {
        let mut others = vec![Policy::None];
        others.extend(platform.has_memtis().then_some(Policy::MEMTIS));
        for policy in [Policy::Nomad, Policy::Tpp] {
            for &other in &others {
                let why = "Memtis promotes nearly as much there, since it samples stores to all of the instances' pages.";
                let (says, check) = ("1.2 to 2.5", within(1.2, 2.5, why));
                judge_over(
                    (&mut sketch, measured),
                    (platform, program),
                    (policy, other),
                    says,
                    check,
                );
            }
        }
    }
    sketch.drawn
}

fn figure_15(measured: &Measured) -> Drawn {
    let program = Program::PageRank { is_large: true };
    let mut sketch = Sketch::new(
        "15",
        "PageRank with 47 GB",
        "A uniformly random graph, 32 threads, ten iterations.",
        "platform",
        &SPEEDS,
    );
    speeds(measured, &LARGE, program, &mut sketch);
    for platform in LARGE {
        let why =
            "One scanner makes pages inaccessible for 32 threads, so that few of their uses fault.";
        let (pair, check) = ((Policy::Nomad, Policy::Tpp), within(1.5, 3.0, why));
        judge_over((&mut sketch, measured), (platform, program), pair, "2", check);
    }
    let why = "NOMAD's promotions of edges are in vain, and its interrupts cost all 32 threads.";
    let (pair, check) = ((Policy::Nomad, Policy::MEMTIS), within(1.0, 1.3, why));
    judge_over((&mut sketch, measured), (Platform::C, program), pair, "slightly better", check);
    sketch.drawn
}

fn figure_16(measured: &Measured) -> Drawn {
    let program = Program::Liblinear { is_large: true };
    let mut sketch = Sketch::new(
        "16",
        "Liblinear with 40 GB",
        "All in slow memory first, 16 threads, six passes.",
        "platform",
        &SPEEDS,
    );
    speeds(measured, &LARGE, program, &mut sketch);
    for platform in LARGE {
        let why =
            "One scanner makes pages inaccessible for 16 threads, so that few of their uses fault.";
        let (says, pair) = ("TPP declines significantly", (Policy::Nomad, Policy::Tpp));
        judge_over((&mut sketch, measured), (platform, program), pair, says, above(1.3, why));
        let why =
            "Passes over features that do not fit into fast memory gain nothing by promotions.";
        let (says, pair) = ("consistently high", (Policy::Nomad, Policy::None));
        judge_over((&mut sketch, measured), (platform, program), pair, says, above(0.95, why));
    }
    sketch.drawn
}
