//! Arguments of `tombolo check`.

use clap::{Args, ValueEnum};
use tombolo_memory::Site;
use tombolo_scenarios::{Kind, PENDING, SCENARIOS, Scenario};
use tombolo_simulator::{Adversary, Aim, Death, Fate, Mutant};

use crate::output::Format;

/// An aim at nobody.
pub(super) const NOBODY: &str = "nobody";

pub(crate) const ABOUT: &str = "\
Run the protocols in a simulator whose caches really are incoherent, and check what hosts see.

Every scenario is a few hosts in a pod in which rare things are common. An adversary, drawn from a \
seed, switches threads, evicts and prefetches cache lines, delays what no fence orders, tears \
copies, sends threads to sleep and kills hosts. What clients saw is checked for linearizability, \
and every write, publication and use of a cache line against the rules about whose it is.

With --mutants, each flush, fence, lock, check and log event is left out in turn, and some run has \
to fail: a check that cannot fail proves nothing. With --exhaustive K, all schedules of the short \
scenarios with up to K preemptions are run, and no seed is needed. With --deaths N, hosts die at each \
step they come to, N times for each thing that may become of their dirty lines.

A failure is shown with its seed, the least that the adversary has to do for it, and what hosts did. \
The exit code is 3 if anything failed or a mutant survived. It is 4 if nothing failed but something \
was left unchecked: the checker's budget did not suffice for a history, no schedule of all scenarios \
came to some step, a step is in no crate's list, or no host died at a step in one of the ways in \
which it could.";

pub(crate) const EXAMPLES: &str = "\
Examples:
  tombolo check
  tombolo check --seeds 6000 --deaths 20 --exhaustive 3 --mutants
  tombolo check --scenario write-and-read --strategy pct --seeds 1000000
  tombolo check --without objects.read.seen-counter
  tombolo check --scenario two-writers --without objects.read.seen-counter --replay 0
  tombolo check --scenario writer-dies --replay 7 --aim objects.write.clean:1+0:one
  tombolo check --list";

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Schedules of each scenario; 1000, unless --deaths, --exhaustive or --mutants is asked for.
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u64>,
    /// The first seed.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) start: u64,
    /// Hosts, in the scenarios that leave their number open.
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u8).range(2..=8))]
    pub(crate) hosts: Option<u8>,
    /// A scenario, or all that are `short`, `long`, or have a host die (`crash`). May be given
    /// several times; all, unless given.
    #[arg(long, value_name = "NAME", value_parser = scenarios)]
    pub(crate) scenario: Vec<Chosen>,
    /// How it is decided what happens when.
    #[arg(long, value_enum, default_value_t = Strategy::Mixed)]
    pub(crate) strategy: Strategy,
    /// Run every schedule of the short scenarios with up to K preemptions, with four kinds of
    /// caches.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u8).range(0..=5))]
    pub(crate) exhaustive: Option<u8>,
    /// Have hosts die at each step they come to, in the scenarios in which they may: N times with
    /// all of their dirty lines lost, all written back, one, all but one, and some of them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) deaths: Option<u64>,
    /// Leave out one step at a time; each has to be missed, from each of some seeds.
    #[arg(long)]
    pub(crate) mutants: bool,
    /// Seeds from each of which the absence of a step has to be noticed.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) hunts: u64,
    /// Schedules within which the absence of a step has to be noticed.
    #[arg(long, value_name = "N", default_value_t = 60_000)]
    pub(crate) bound: u64,
    /// Leave out one step, or `:fence` for its fence only.
    #[arg(long, value_name = "SITE", value_parser = mutant)]
    pub(crate) without: Option<Mutant>,
    /// Do not count a broken rule about cache lines as a failure, only what clients see.
    #[arg(long)]
    pub(crate) unsanitized: bool,
    /// Run one seed of one scenario again, on this very thread, and show what hosts did.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "deaths", "exhaustive", "mutants"])]
    pub(crate) replay: Option<u64>,
    /// With --replay: a host dies when it, or one of those that may die, has come to SITE for the
    /// N-th time, and made K more operations; FATE is lost, written, one, all-but-one or some of
    /// its dirty lines (`one:3`: the fourth). Or `nobody` dies.
    #[arg(long, value_name = "SITE:N+K:FATE", value_parser = death, requires = "replay")]
    pub(crate) aim: Option<Death>,
    /// With --replay: show a failure as it was, without the time that it takes to shorten its
    /// schedule, and so many of its last events.
    #[arg(long, value_name = "N", requires = "replay")]
    pub(crate) events: Option<usize>,
    /// Threads; as many as there are processors, unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Show the scenarios and the steps that can be left out, and do nothing.
    #[arg(long)]
    pub(crate) list: bool,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// How it is decided what happens when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strategy {
    /// One of the others, as the seed says.
    Mixed,
    /// At random, at rates that differ from seed to seed.
    Walk,
    /// Random priorities that change at a few points.
    Pct,
    /// Where a host touches what another has touched just before.
    Aimed,
}

impl Strategy {
    pub(crate) fn adversary(self) -> Adversary {
        match self {
            Self::Mixed => Adversary::Mixed,
            Self::Walk => Adversary::Walk,
            Self::Pct => Adversary::Priority,
            Self::Aimed => Adversary::Aimed,
        }
    }
}

/// Scenarios that one name stands for.
#[derive(Clone, Debug)]
pub(crate) struct Chosen(pub(crate) Vec<Scenario>);

fn scenarios(name: &str) -> Result<Chosen, String> {
    let of_kind = |kind| SCENARIOS.iter().filter(move |s| s.kind == kind).copied().collect();
    let chosen: Vec<Scenario> = match name {
        "short" => of_kind(Kind::Short),
        "long" => of_kind(Kind::Long),
        "crash" => of_kind(Kind::Crash),
        name => SCENARIOS
            .iter()
            .chain(PENDING)
            .filter(|scenario| scenario.name == name)
            .copied()
            .collect(),
    };
    if chosen.is_empty() {
        return Err("there is no such scenario; see `tombolo check --list`".to_owned());
    }
    Ok(Chosen(chosen))
}

fn mutant(text: &str) -> Result<Mutant, String> {
    let (name, is_fence) = text.strip_suffix(":fence").map_or((text, false), |name| (name, true));
    let site = site(name)?;
    Ok(if is_fence { Mutant::Fence(site) } else { Mutant::Step(site) })
}

fn site(name: &str) -> Result<Site, String> {
    let site = tombolo_scenarios::sites().find(|site| site.name() == name);
    site.ok_or_else(|| "there is no such step; see `tombolo check --list`".to_owned())
}

fn death(text: &str) -> Result<Death, String> {
    if text == NOBODY {
        return Ok(Death::Spared);
    }
    let parts = || {
        let (name, rest) = text.split_once(':')?;
        let (when, fate) = rest.split_once(':')?;
        let (crossing, operations) = when.split_once('+')?;
        let (fate, line) = fate.split_once(':').map_or((fate, None), |(fate, of)| (fate, Some(of)));
        let fate = Fate::ALL.into_iter().find(|known| known.name() == fate)?;
        let line = line.map(str::parse).transpose().ok()?;
        Some((name, crossing.parse().ok()?, operations.parse().ok()?, (fate, line)))
    };
    let wanted = "this is not of the form SITE:N+K:FATE, as in objects.write.clean:1+0:lost";
    let (name, crossing, operations, (fate, line)) = parts().ok_or(wanted)?;
    Ok(Death::Aimed(Aim { site: site(name)?, crossing, operations, fate, line }))
}
