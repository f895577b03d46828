//! The figures: the runs of each, the rows shown, and the paper's statements.

use tombolo_disaggregated::{Choice, PageUse};
use tombolo_programs::ProgramName;
use tombolo_timing::Tier;

use super::{AdaptiveFigure, AdaptiveSettings, CHOICES, Measured, Run, choice_name};
use crate::figures::{Drawn, Sketch};

/// Hosts of the paper's runs: its four threads.
const HOSTS_OF_PAPER: usize = 4;
/// Far memory's latencies.
const FAR_NS: [u32; 5] = [200, 480, 753, 1300, 2000];
/// Where hosts are compared, and pages looked at: the paper's CXL+NUMA.
const FAR_OF_HOSTS_NS: u32 = 753;
const HOSTS_COMPARED: [usize; 4] = [2, 4, 8, 16];
/// Programs in figure 5, and whether the paper finds their shared pages written more than read.
const NPB: [(&str, bool); 8] = [
    ("bt", false),
    ("cg", false),
    ("is", false),
    ("lu", false),
    ("mg", false),
    ("sp", false),
    ("ep", true),
    ("ft", true),
];

pub(super) const TABLE_1: AdaptiveFigure =
    AdaptiveFigure { id: "table-1", runs: none, draw: table_1 };
pub(super) const FIGURE_3: AdaptiveFigure = AdaptiveFigure { id: "3", runs: none, draw: figure_3 };
pub(super) const FIGURE_4: AdaptiveFigure = AdaptiveFigure { id: "4", runs: none, draw: figure_4 };
pub(super) const FIGURE_5: AdaptiveFigure = AdaptiveFigure { id: "5", runs: npb, draw: figure_5 };
pub(super) const LATENCY: AdaptiveFigure =
    AdaptiveFigure { id: "latency", runs: by_latency, draw: latency };
pub(super) const HOSTS: AdaptiveFigure =
    AdaptiveFigure { id: "hosts", runs: by_hosts, draw: hosts };

fn none(_: &AdaptiveSettings) -> Vec<Run> {
    Vec::new()
}

fn all(hosts: &[usize], far_ns: &[u32]) -> Vec<Run> {
    let mut runs = Vec::new();
    for program in 0..ProgramName::ALL.len() {
        for choice in 0..CHOICES.len() {
            for &hosts in hosts {
                runs.extend(far_ns.iter().map(|&far_ns| Run { program, choice, hosts, far_ns }));
            }
        }
    }
    runs
}

fn by_latency(_: &AdaptiveSettings) -> Vec<Run> {
    all(&[HOSTS_OF_PAPER], &FAR_NS)
}

fn by_hosts(_: &AdaptiveSettings) -> Vec<Run> {
    all(&HOSTS_COMPARED, &[FAR_OF_HOSTS_NS])
}

/// A program of figure 5, where all memory is direct.
fn npb_run(name: &str) -> Option<Run> {
    let program = ProgramName::ALL.iter().position(|program| program.to_string() == name)?;
    Some(Run { program, choice: 0, hosts: HOSTS_OF_PAPER, far_ns: FAR_OF_HOSTS_NS })
}

fn npb(_: &AdaptiveSettings) -> Vec<Run> {
    NPB.iter().filter_map(|(name, _)| npb_run(name)).collect()
}

/// The time of accesses to so many lines of a page, one to `LINES`.
fn lines_ns(tier: &Tier, lines: u32) -> f64 {
    let further = f64::from(lines - 1) / f64::from(LINES - 1);
    tier.line_ns + further * (tier.page_ns - tier.line_ns)
}

const LINES: u32 = 64;
const SOME_LINES: [u32; 7] = [1, 2, 4, 8, 16, 32, LINES];

fn table_1(measured: &Measured<'_>) -> Drawn {
    let mut sketch = Sketch::new(
        "table-1",
        "Time to copy one page to local memory",
        "The paper's numbers, which are inputs of the profile, and what replication takes by the primitives of \
         this machine's user space: a fault, and the copy.",
        "tier",
        &["migrate_pages(), ns", "memcpy(), ns", "a fault in user space and memcpy(), ns"],
    );
    let fault = measured.settings.profile.paging.map_or(0.0, |paging| paging.fault_ns);
    for tier in &measured.settings.profile.tier {
        let ours = fault + tier.copy_ns;
        let values = [tier.migrate_ns, tier.copy_ns, ours];
        sketch.point("a page", "profile", tier.name.clone(), &values);
        sketch.says(format!("{}, replication, us", tier.name), "about 8 to 13 us", ours / 1000.0);
    }
    sketch.drawn
}

fn figure_3(measured: &Measured<'_>) -> Drawn {
    let mut sketch = Sketch::new(
        "3",
        "Direct access to 1 to 64 lines",
        "Inputs of the profile: the paper's table 1 by its figure 4 gives one line and 64 lines, and others lie \
         on a line between them.",
        "lines",
        &["latency, ns"],
    );
    let profile = &measured.settings.profile;
    for tier in &profile.tier {
        for lines in SOME_LINES {
            let ns = lines_ns(tier, lines);
            sketch.point("latency", &tier.name, lines.to_string(), &[ns]);
        }
    }
    if let Some(farthest) = profile.tier.last() {
        let ours = farthest.line_ns / profile.local.latency_ns;
        sketch.states(format!("{} over the profile's local memory", farthest.name), 4.0, ours);
    }
    sketch.drawn
}

fn figure_4(measured: &Measured<'_>) -> Drawn {
    let mut sketch = Sketch::new(
        "4",
        "Accesses that cost as much as replication",
        "How often so many lines can be fetched in the time that replicating their page takes: by the paper's \
         migration, which is an input, and by a fault in user space and a copy.",
        "lines",
        &["accesses, by migrate_pages()", "accesses, by user space"],
    );
    let fault = measured.settings.profile.paging.map_or(0.0, |paging| paging.fault_ns);
    let stated = [(20.0, 9.0), (14.0, 7.0), (7.0, 4.0)];
    for (tier, (one, whole)) in measured.settings.profile.tier.iter().zip(stated) {
        let accesses = |ns: f64, lines| ns / lines_ns(tier, lines);
        for lines in SOME_LINES {
            let values = [tier.migrate_ns, fault + tier.copy_ns].map(|ns| accesses(ns, lines));
            sketch.point("break-even", &tier.name, lines.to_string(), &values);
        }
        for (lines, paper) in [(1, one), (LINES, whole)] {
            let quantity = format!("{}, {lines} lines, accesses", tier.name);
            sketch.states(quantity, paper, accesses(tier.migrate_ns, lines));
        }
    }
    sketch.drawn
}

/// Which tenth of read shares a page falls into, of those that several hosts use.
fn tenth(page: &PageUse) -> Option<usize> {
    let all = page.reads + page.writes;
    (page.hosts.count() > 1 && all > 0).then(|| (10 * page.reads / all).min(9) as usize)
}

fn figure_5(measured: &Measured<'_>) -> Drawn {
    let mut sketch = Sketch::new(
        "5",
        "Reads of shared pages",
        "Four threads on four hosts: how large a share of the pages that several of them use is read by so large \
         a share of its accesses.",
        "read",
        &["share of shared pages"],
    );
    for (name, writes) in NPB {
        let Some(run) = npb_run(name) else { continue };
        let mut pages = [0.0; 10];
        let tenths = measured.at(run).pages.iter().filter_map(tenth);
        tenths.for_each(|tenth| pages[tenth] += 1.0);
        let all = pages.iter().sum::<f64>().max(1.0);
        for (tenth, count) in pages.iter().enumerate() {
            let x = format!("{} %", 10 * tenth);
            sketch.point("shared pages", name, x, &[count / all]);
        }
        if writes {
            let written = pages[3..6].iter().sum::<f64>() / all;
            let says = "40 to 70 % writes in most shared pages";
            sketch.says(format!("{name}, pages with 40 to 70 % writes"), says, written);
        } else {
            let says = "at least 0.2";
            sketch.says(format!("{name}, pages with over 90 % reads"), says, pages[9] / all);
        }
    }
    sketch.drawn
}

/// The geometric mean of a choice's times over the best fixed ones, and the most of them.
fn regret(measured: &Measured<'_>, choice: usize, hosts: usize, far_ns: u32) -> (f64, f64) {
    let over = (0..ProgramName::ALL.len())
        .map(|program| measured.over_best(Run { program, choice, hosts, far_ns }));
    let over: Vec<f64> = over.collect();
    let mean = (over.iter().map(|over| over.ln()).sum::<f64>() / over.len() as f64).exp();
    (mean, over.into_iter().fold(0.0, f64::max))
}

/// All programs and choices on systems that differ.
fn compared(sketch: &mut Sketch, measured: &Measured<'_>, systems: &[(String, usize, u32)]) {
    for (panel, hosts, far_ns) in systems {
        let (hosts, far_ns) = (*hosts, *far_ns);
        for (choice, &chosen) in CHOICES.iter().enumerate() {
            for (program, name) in ProgramName::ALL.iter().enumerate() {
                let run = Run { program, choice, hosts, far_ns };
                let areas = measured.at(run).summary.areas.as_ref();
                let faults = areas.map_or(0, |areas| areas.faults + areas.upgrades);
                let changes = areas.map_or(0, |areas| areas.changes);
                let values = [
                    measured.over_best(run),
                    1000.0 * measured.seconds(run),
                    faults as f64,
                    changes as f64,
                ];
                sketch.point(panel, choice_name(chosen), name.to_string(), &values);
            }
            let (mean, most) = regret(measured, choice, hosts, far_ns);
            let name = choice_name(chosen);
            sketch.says(format!("{panel}, {name} over the best fixed mode, mean"), "-", mean);
            if chosen == Choice::Adaptive {
                sketch.says(format!("{panel}, {name} over the best fixed mode, most"), "-", most);
            }
        }
    }
}

const SHOWN: [&str; 4] = ["time over the best fixed mode", "time, ms", "faults", "changes of mode"];

fn latency(measured: &Measured<'_>) -> Drawn {
    let mut sketch = Sketch::new(
        "latency",
        "One mode for all memory, and modes that are chosen, by far memory's latency",
        "Four hosts. All programs, over the best mode of the three for each. Changes and probes are included.",
        "program",
        &SHOWN,
    );
    let systems = FAR_NS.map(|far_ns| (format!("{far_ns} ns"), HOSTS_OF_PAPER, far_ns));
    compared(&mut sketch, measured, &systems);
    sketch.drawn
}

fn hosts(measured: &Measured<'_>) -> Drawn {
    let mut sketch = Sketch::new(
        "hosts",
        "One mode for all memory, and modes that are chosen, by hosts",
        "Far memory as far as the paper's CXL+NUMA. All programs, over the best mode of the three for each. \
         Changes and probes are included.",
        "program",
        &SHOWN,
    );
    let systems = HOSTS_COMPARED.map(|hosts| (format!("{hosts} hosts"), hosts, FAR_OF_HOSTS_NS));
    compared(&mut sketch, measured, &systems);
    sketch.drawn
}
