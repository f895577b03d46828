//! Adaptive Coherence Management in virtual time: table 1 and figures 3 to 5 of the paper, and what
//! it lacks: all programs with one mode for all of their memory, and with modes that are chosen.
//!
//! Table 1 and figures 3 and 4 come from the profile, which has the paper's numbers, so they are
//! inputs. Programs run on the system of SDM's paper, on hosts whose data lie in a memory node. A
//! direct page is kept coherent by CXL 3.0's back-invalidations and a directory.

mod draw;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use tombolo_coherence::Filter;
use tombolo_disaggregated::{
    AreasConfig, Choice, Config, Core, PageUse, Protocol, Summary, System,
};
use tombolo_programs::{PAGE_BYTES, Parameters, Processor, Program, ProgramName};
use tombolo_regions::Mode;
use tombolo_timing::Profile;

use crate::figures::{Drawn, RunsDone, measure_each};

/// A figure.
#[derive(Clone, Copy)]
pub struct AdaptiveFigure {
    /// The name by which a user asks for it.
    pub id: &'static str,
    runs: fn(&AdaptiveSettings) -> Vec<Run>,
    draw: fn(&Measured<'_>) -> Drawn,
}

/// The figures there are.
pub const ADAPTIVE_FIGURES: [AdaptiveFigure; 6] =
    [draw::TABLE_1, draw::FIGURE_3, draw::FIGURE_4, draw::FIGURE_5, draw::LATENCY, draw::HOSTS];

/// How large, and by which lot.
#[derive(Clone, Debug)]
pub struct AdaptiveSettings {
    /// The machine.
    pub profile: Profile,
    /// How many powers of two programs are smaller than by default, or larger.
    pub scale: i32,
    /// How often programs do their work, in numbers of their own; the more often, the less it
    /// matters that a choice has to be found.
    pub rounds: u32,
    /// Decides inputs.
    pub seed: u64,
}

/// The paper's machine.
///
/// # Panics
/// Never: the profile is part of the program.
pub fn adaptive_test_bed() -> Profile {
    let text = include_str!("../../../../profiles/adaptive.toml");
    Profile::parse("profiles/adaptive.toml", text).expect("it is tested")
}

/// All ways to choose modes; the last one chooses.
pub const CHOICES: [Choice; 4] = [
    Choice::Static(Mode::Direct),
    Choice::Static(Mode::Owned),
    Choice::Static(Mode::Replicated),
    Choice::Adaptive,
];

/// The name of a way to choose modes.
pub fn choice_name(choice: Choice) -> &'static str {
    match choice {
        Choice::Static(mode) => mode.name(),
        Choice::Adaptive => "adaptive",
    }
}

/// Latency of a memory node itself, as in SDM's paper; the rest of a far access is the network.
const MEMORY_NS: f64 = 80.0;

/// How many pages the memory of a program has, from address 0 on.
pub fn pages_of<P: Processor>(program: &Program<P>) -> usize {
    let end = program.regions().last().map_or(0, |last| last.address + last.bytes);
    end.div_ceil(PAGE_BYTES) as usize
}

/// A system whose hosts keep the memory of a program coherent in one of several ways.
fn areas_config(
    profile: &Profile,
    choice: Choice,
    pages: usize,
    (hosts, threads): (usize, usize),
    far_ns: f64,
) -> Result<Config> {
    let areas = AreasConfig::of(profile, choice, pages, far_ns);
    let missing = || format!("the profile {} has no [paging] or no [[tier]]", profile.name);
    Ok(Config {
        threads,
        filter: Filter::Directory,
        network_ns: (far_ns - MEMORY_NS) / 2.0,
        memory_ns: MEMORY_NS,
        areas: Some(areas.with_context(missing)?),
        ..Config::paper(Protocol::Bi, hosts)
    })
}

/// A program with one way to choose modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    /// Its place in [`ProgramName::ALL`].
    program: usize,
    /// Its place in [`CHOICES`].
    choice: usize,
    hosts: usize,
    far_ns: u32,
}

/// The outcome of a run.
struct Outcome {
    summary: Summary,
    pages: Vec<PageUse>,
}

impl Run {
    fn name(&self) -> ProgramName {
        ProgramName::ALL[self.program]
    }

    fn measure(&self, settings: &AdaptiveSettings) -> Result<Outcome> {
        let name = self.name();
        let scale = i64::from(name.default_scale()) + i64::from(settings.scale);
        let scales = name.scales();
        let fits = (i64::from(*scales.start())..=i64::from(*scales.end())).contains(&scale);
        ensure!(fits, "at scale {} there is no {name}", settings.scale);
        let parameters = Parameters {
            scale: Some(scale as u32),
            rounds: Some(name.default_rounds() * settings.rounds),
            seed: settings.seed,
            ..Parameters::default()
        };
        // As many threads as in the paper, and one for each host at least.
        let threads = self.hosts.max(4);
        let program: Program<Core> = Program::new(name, &parameters, threads)?;
        let choice = CHOICES[self.choice];
        let far_ns = self.far_ns.into();
        let size = (self.hosts, threads);
        let pages = pages_of(&program);
        let config = areas_config(&settings.profile, choice, pages, size, far_ns)?;
        let system: System = System::new(&Config { seed: settings.seed, ..config })?;
        system.run_program(&program, |_, core| core);
        program.verify()?;
        Ok(Outcome { summary: system.summary(), pages: system.page_uses() })
    }
}

/// The outcome of each run.
struct Measured<'a> {
    settings: &'a AdaptiveSettings,
    runs: BTreeMap<Run, Outcome>,
}

impl Measured<'_> {
    fn at(&self, run: Run) -> &Outcome {
        &self.runs[&run]
    }

    fn seconds(&self, run: Run) -> f64 {
        self.at(run).summary.seconds
    }

    /// The time of a run over that of the best one whose mode is the same for all memory.
    fn over_best(&self, run: Run) -> f64 {
        let fixed = (0..CHOICES.len()).filter(|&choice| CHOICES[choice] != Choice::Adaptive);
        let times = fixed.map(|choice| self.seconds(Run { choice, ..run }));
        self.seconds(run) / times.fold(f64::INFINITY, f64::min)
    }
}

/// Draws figures, up to `jobs` runs at a time.
///
/// # Errors
/// A program whose result is wrong, or a scale at which there are none.
pub fn draw_adaptive(
    figures: &[AdaptiveFigure],
    settings: &AdaptiveSettings,
    jobs: usize,
    tell: &RunsDone<'_>,
) -> Result<Vec<Drawn>> {
    let runs = figures.iter().flat_map(|figure| (figure.runs)(settings)).collect();
    let measure = |run: &Run| run.measure(settings).with_context(|| run.name().to_string());
    let measured = Measured { settings, runs: measure_each(runs, jobs, tell, measure)? };
    Ok(figures.iter().map(|figure| (figure.draw)(&measured)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_inputs_are_the_papers() {
        let profile = adaptive_test_bed();
        let settings = AdaptiveSettings { profile, scale: 0, rounds: 1, seed: 1 };
        let figures = [draw::TABLE_1, draw::FIGURE_4];
        let drawn = draw_adaptive(&figures, &settings, 1, &|_, runs| assert_eq!(runs, 0)).unwrap();
        assert_eq!(drawn[1].rows.len(), 6);
        for row in &drawn[1].rows {
            assert!(row.error.is_some_and(|error| error.abs() < 0.01), "{row:?}");
        }
    }
}
