//! Figures of the micro-benchmarks.

use tombolo_tiers::load::Hottest;
use tombolo_tiers::{Counters, Policy};

use super::run::{Platform, Program, Run, Size};
use super::{Measured, NomadFigure, Phase, above, below, judge, policies, within};
use crate::figures::{Drawn, Sketch};

pub(super) const FIGURE_1: NomadFigure = NomadFigure { id: "1", runs: runs_1, draw: figure_1 };
pub(super) const FIGURE_2: NomadFigure = NomadFigure { id: "2", runs: runs_2, draw: figure_2 };
pub(super) const FIGURE_7: NomadFigure = NomadFigure { id: "7", runs: runs_7, draw: figure_7 };
pub(super) const FIGURE_8: NomadFigure = NomadFigure { id: "8", runs: runs_8, draw: figure_8 };
pub(super) const FIGURE_9: NomadFigure = NomadFigure { id: "9", runs: runs_9, draw: figure_9 };
pub(super) const FIGURE_10: NomadFigure = NomadFigure { id: "10", runs: runs_10, draw: figure_10 };

const PLACEMENTS: [(Hottest, &str); 2] =
    [(Hottest::Anywhere, "random"), (Hottest::First, "frequency-opt")];
const WORKING_SETS: [u32; 2] = [10, 24];
const BLOCKS: [u32; 3] = [10, 13, 27];
const DIRECTIONS: [(bool, &str); 2] = [(false, "read"), (true, "write")];

fn runs_1() -> Vec<Run> {
    let mut runs = Vec::new();
    for gib in WORKING_SETS {
        for (hottest, _) in PLACEMENTS {
            let program = Program::Motivation { gib, hottest };
            let run = |policy| Run { platform: Platform::A, policy, program };
            runs.extend([Policy::None, Policy::Tpp, Policy::BreakEven].map(run));
        }
    }
    runs
}

fn figure_1(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        "1",
        "Bandwidth while TPP moves pages, and after that",
        "Platform A, reads. TPP in progress is taken until half of the first round's promotions are made. \
         10 GiB are filled before; with 24 GiB both do not fit, and 4.2 GiB are.",
        "working set and placement",
        &["bandwidth, GB/s"],
    );
    sketch.drawn.bars = true;
    for gib in WORKING_SETS {
        for (hottest, placement) in PLACEMENTS {
            let at =
                |policy| measured.at(Platform::A, policy, Program::Motivation { gib, hottest });
            let tpp = at(Policy::Tpp);
            let bandwidths = [
                ("TPP in progress", tpp.first.busiest_gb_per_s),
                ("TPP stable", tpp.last.gb_per_s()),
                ("no migration", at(Policy::None).last.gb_per_s()),
                ("break-even stable", at(Policy::BreakEven).last.gb_per_s()),
            ];
            let place = format!("{gib} GB, {placement}");
            for (curve, value) in bandwidths {
                sketch.point("platform A", curve, place.clone(), &[value]);
            }
            let [in_progress, stable, none] = [0, 1, 2].map(|curve| bandwidths[curve].1);
            let name = |what| format!("{place}: {what}");
            judge(
                &mut sketch,
                name("no migration over TPP in progress"),
                "consistently and substantially better",
                none / in_progress,
                above(
                    1.2,
                    "The uses that fault are too few among hot pages that lie in fast memory.",
                ),
            );
            if gib == 10 {
                let says = "more than an order of magnitude";
                let why =
                    "A promotion costs 17 faults and a migration, 22 us; the paper's took longer.";
                let ours = stable / in_progress;
                judge(
                    &mut sketch,
                    name("TPP stable over in progress"),
                    says,
                    ours,
                    above(10.0, why),
                );
            } else {
                let says = "TPP never reaches a stable state";
                let why = "The working set exceeds the fast tier by less than the paper's.";
                let ours = stable / none;
                judge(
                    &mut sketch,
                    name("TPP stable over no migration"),
                    says,
                    ours,
                    below(1.0, why),
                );
            }
            if gib == 10 && hottest == Hottest::Anywhere {
                let says = "wide gap between TPP stable and no migration";
                let why = "The model has no caches, which serve the hottest pages in both cases.";
                let ours = stable / none;
                judge(
                    &mut sketch,
                    name("TPP stable over no migration"),
                    says,
                    ours,
                    above(1.5, why),
                );
            }
        }
    }
    sketch.drawn
}

const SMALL_READ: Program =
    Program::Micro { size: Size::Small, hottest: Hottest::Anywhere, is_write: false };

fn runs_2() -> Vec<Run> {
    let run = |policy| Run { platform: Platform::A, policy, program: SMALL_READ };
    vec![run(Policy::Tpp), run(Policy::Nomad)]
}

fn figure_2(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        "2",
        "Where the time goes while pages move",
        "Platform A, small working set, reads, first round. Shares of the program's core, of the core that \
         demotes, and, for NOMAD, of the one that promotes.",
        "share",
        &["share of time"],
    );
    sketch.drawn.bars = true;
    for policy in [Policy::Tpp, Policy::Nomad] {
        let round = &measured.at(Platform::A, policy, SMALL_READ).first;
        let all = round.seconds * 1e12;
        let Counters { user_ps, fault_ps, promotion_ps, promoter_ps, demoter_ps, .. } =
            round.counters;
        let shares = [
            ("program", user_ps),
            ("page faults", fault_ps),
            ("promotion", promotion_ps),
            ("promoting core", promoter_ps),
            ("demoting core", demoter_ps),
        ];
        for (x, ps) in shares {
            sketch.point("first round", policy.name(), x.into(), &[ps as f64 / all]);
        }
        if policy == Policy::Tpp {
            let why =
                "The program's own time counts for more: its pages are copied without caches.";
            let ours = (fault_ps + promotion_ps) as f64 / all;
            let name = "TPP: faults and promotion, share of the program's core".into();
            judge(&mut sketch, name, "a significant portion", ours, above(0.4, why));
            let why = "The demoter scans and copies more than the paper's.";
            let ours = demoter_ps as f64 / all;
            let name = "TPP: demotion, share of its core".into();
            judge(&mut sketch, name, "largely idle", ours, below(0.5, why));
        }
    }
    sketch.drawn
}

fn micro_runs(platform: Platform) -> Vec<Run> {
    let mut runs = Vec::new();
    for size in Size::ALL {
        for (hottest, _) in PLACEMENTS {
            for is_write in [false, true] {
                let program = Program::Micro { size, hottest, is_write };
                let all = policies(platform, true).into_iter();
                runs.extend(all.map(|policy| Run { platform, policy, program }));
            }
        }
    }
    runs
}

fn runs_7() -> Vec<Run> {
    micro_runs(Platform::A)
}

fn runs_8() -> Vec<Run> {
    micro_runs(Platform::C)
}

fn runs_9() -> Vec<Run> {
    micro_runs(Platform::D)
}

fn figure_7(measured: &Measured) -> Drawn {
    micro(measured, Platform::A, "7", "Bandwidth of the micro-benchmark on platform A")
}

fn figure_8(measured: &Measured) -> Drawn {
    micro(measured, Platform::C, "8", "Bandwidth of the micro-benchmark on platform C")
}

fn figure_9(measured: &Measured) -> Drawn {
    micro(measured, Platform::D, "9", "Bandwidth of the micro-benchmark on platform D")
}

fn micro(measured: &Measured, platform: Platform, id: &'static str, title: &'static str) -> Drawn {
    let mut sketch = Sketch::new(
        id,
        title,
        "One thread copies pages. Small, medium and large working sets, with hot pages anywhere (the paper's \
         text) and first (its scripts). In progress is the first round, stable the fourth.",
        "direction and phase",
        &["bandwidth, GB/s", "promotions, thousands at full scale", "share of uses in fast memory"],
    );
    sketch.drawn.bars = true;
    for size in Size::ALL {
        for (hottest, placement) in PLACEMENTS {
            let panel = format!("{}, {placement}", size.name());
            for policy in policies(platform, true) {
                for phase in Phase::BOTH {
                    for (is_write, direction) in DIRECTIONS {
                        let program = Program::Micro { size, hottest, is_write };
                        let round = phase.of(measured.at(platform, policy, program));
                        let counters = &round.counters;
                        let share = counters.fast_accesses as f64 / counters.accesses as f64;
                        let thousands = counters.promotions as f64 / measured.factor / 1000.0;
                        let x = format!("{direction}, {}", phase.name());
                        let values = [round.gb_per_s(), thousands, share];
                        sketch.point(&panel, policy.name(), x, &values);
                    }
                }
            }
        }
    }
    Statements { measured, platform, sketch: &mut sketch }.all();
    sketch.drawn
}

/// The paper's statements on figures 7 to 9.
struct Statements<'a> {
    measured: &'a Measured,
    platform: Platform,
    sketch: &'a mut Sketch,
}

impl Statements<'_> {
    /// Bandwidth of one policy over that of another.
    fn over(&self, size: Size, is_write: bool, phase: Phase, one: Policy, other: Policy) -> f64 {
        let program = Program::Micro { size, hottest: Hottest::Anywhere, is_write };
        let of = |policy| phase.of(self.measured.at(self.platform, policy, program)).gb_per_s();
        of(one) / of(other)
    }

    fn all(&mut self) {
        use Phase::{InProgress, Stable};
        for (is_write, direction) in DIRECTIONS {
            for (size, phase) in [
                (Size::Small, InProgress),
                (Size::Medium, Stable),
                (Size::Large, InProgress),
                (Size::Large, Stable),
            ] {
                let ours = self.over(size, is_write, phase, Policy::Nomad, Policy::Tpp);
                let name =
                    format!("{}, {direction}, {}: NOMAD over TPP", size.name(), phase.name());
                let why = "Uses of slow pages cost NOMAD more than TPP's waiting on this platform.";
                judge(self.sketch, name, "consistently better", ours, above(1.0, why));
            }
            let ours = self.over(Size::Small, is_write, Stable, Policy::Nomad, Policy::Tpp);
            let name = format!("small, {direction}, stable: NOMAD over TPP");
            let why = "Some pages are still promoted in the fourth round.";
            judge(self.sketch, name, "similar", ours, within(0.9, 1.1, why));
            if self.platform.has_memtis() {
                self.memtis(is_write, direction);
            }
        }
        let most = DIRECTIONS.map(|(is_write, _)| {
            self.over(Size::Large, is_write, Stable, Policy::Nomad, Policy::Tpp)
        });
        let why =
            "TPP's 17 faults are all on the program's core here; the paper's faults took less.";
        let ours = most[0].max(most[1]);
        judge(self.sketch, "NOMAD over TPP, most".into(), "up to 6x", ours, within(3.0, 12.0, why));
    }

    fn memtis(&mut self, is_write: bool, direction: &str) {
        use Phase::{InProgress, Stable};
        let default = Policy::MEMTIS;
        let ours = self.over(Size::Small, is_write, Stable, default, Policy::Nomad);
        let name = format!("small, {direction}, stable: Memtis over NOMAD");
        let why = "Both tiers take writes at nearly one speed on this platform.";
        judge(self.sketch, name, "as low as 0.4", ours, within(0.2, 0.95, why));
        for policy in [Policy::Nomad, Policy::Tpp] {
            let ours = self.over(Size::Medium, is_write, InProgress, policy, default);
            let name = format!("medium, {direction}, in progress: {} over Memtis", policy.name());
            let why = "Reads of the far tier cost Memtis more than NOMAD's faults and aborts do.";
            judge(self.sketch, name, "generally lower", ours, below(1.0, why));
            let ours = self.over(Size::Large, is_write, Stable, policy, default);
            let name = format!("large, {direction}, stable: {} over Memtis", policy.name());
            let why = "Reads of the far tier are so slow there that promotions pay even then.";
            judge(self.sketch, name, "lower in almost all scenarios", ours, below(1.0, why));
        }
        let ours = self.over(Size::Medium, is_write, Stable, Policy::Nomad, default);
        let name = format!("medium, {direction}, stable: NOMAD over Memtis");
        if is_write {
            let why = "Writes to the far tier cost as much as promotions save.";
            judge(self.sketch, name, "comparable, or lower", ours, below(1.1, why));
        } else {
            let why = "Uses in fast memory gain less than faults cost.";
            judge(self.sketch, name, "substantially higher", ours, above(1.2, why));
        }
    }
}

fn runs_10() -> Vec<Run> {
    let platform = Platform::C;
    let blocks = BLOCKS.into_iter().map(|blocks| Program::Chase { blocks });
    let runs = blocks.flat_map(|program| {
        policies(platform, true).into_iter().map(move |policy| Run { platform, policy, program })
    });
    runs.collect()
}

fn figure_10(measured: &Measured) -> Drawn {
    let mut sketch = Sketch::new(
        "10",
        "Cycles to read a line in the pointer chase",
        "Platform C. Blocks of 1 GiB are visited by a Zipf distribution, and each line is waited for. The \
         second round of 30 visits.",
        "blocks",
        &["cycles", "promotions, thousands at full scale"],
    );
    let ghz = Platform::C.profile().tiers.map_or(0.0, |tiers| tiers.ghz);
    for blocks in BLOCKS {
        let cycles = |policy| {
            let round = &measured.at(Platform::C, policy, Program::Chase { blocks }).last;
            round.seconds * 1e9 * ghz / (round.counters.bytes / 64) as f64
        };
        for policy in policies(Platform::C, true) {
            let round = &measured.at(Platform::C, policy, Program::Chase { blocks }).last;
            let thousands = round.counters.promotions as f64 / measured.factor / 1000.0;
            let x = format!("{blocks}");
            sketch.point("platform C", policy.name(), x, &[cycles(policy), thousands]);
        }
        let (nomad, memtis) = (cycles(Policy::Nomad), cycles(Policy::MEMTIS));
        let name = |what: &str| format!("{blocks} blocks: {what}, cycles");
        if blocks == 27 {
            let why = "Memtis sees each miss here, and half of the hottest blocks lie in fast memory from the start.";
            let says = "close to slow memory, 1077";
            judge(&mut sketch, name("Memtis"), says, memtis, within(650.0, 1200.0, why));
        }
        let why = "Visits to cold blocks swap whole blocks, which costs more than it saves.";
        judge(&mut sketch, name("NOMAD"), "low", nomad, below(650.0, why));
        let ours = nomad / memtis;
        let says = "lower than Memtis";
        judge(&mut sketch, name("NOMAD over Memtis"), says, ours, below(1.0, why));
    }
    sketch.drawn
}
