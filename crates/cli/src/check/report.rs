//! The outcome of a check.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use tombolo_memory::Site;
use tombolo_scenarios::campaign::Tally;
use tombolo_scenarios::{Failure, Hunted, SCENARIOS, sites};
use tombolo_simulator::Death;

use super::args::NOBODY;
use crate::output::{PROBLEMS, UNDECIDED, pairs};

/// The result of a campaign.
#[derive(Serialize)]
pub(super) struct Report {
    scenarios: usize,
    schedules: u64,
    schedules_per_s: f64,
    seconds: f64,
    /// Where hosts died, and what became of their dirty lines: how many different ones.
    crash_points: usize,
    /// Steps of the protocols at which hosts died.
    deadly_sites: usize,
    /// Deaths that were aimed at steps, if that was asked for.
    deaths: Option<AimedDeaths>,
    histories_checked: u64,
    undecided: u64,
    sites: usize,
    sites_crossed: usize,
    /// Steps that no schedule has come to, if all scenarios were run to meet them.
    missed_steps: Vec<&'static str>,
    /// Steps that no crate has in its list, so that no mutant leaves them out.
    unlisted_steps: Vec<&'static str>,
    /// Steps of the protocols that made a difference, and how often.
    mattered: BTreeMap<&'static str, u64>,
    /// Rare things that happened, and how often.
    noted: BTreeMap<&'static str, u64>,
    /// At most this share of such schedules fails, with a confidence of 95 %: the rule of three.
    failing_share_at_most: Option<f64>,
    /// Whether it was stopped before its end.
    stopped: bool,
    failures: Vec<ReportedFailure>,
    mutants: Option<Mutants>,
}

/// Deaths that were aimed.
#[derive(Serialize)]
struct AimedDeaths {
    aimed: u64,
    died: u64,
    /// Steps that hosts which may die have come to.
    steps: usize,
    /// Steps to which no such host has come, if all scenarios were run.
    spared: Vec<&'static str>,
    /// Of the dirty lines that there were at one of these steps, this never became, and that step's
    /// name.
    missed: Vec<(&'static str, &'static str)>,
}

#[derive(Serialize)]
struct ReportedFailure {
    scenario: &'static str,
    seed: u64,
    /// How a host was to die, for `--aim`.
    aim: Option<String>,
    what: String,
    /// The least that the adversary has to do, as far as it was found.
    schedule: Vec<String>,
    #[serde(skip)]
    text: String,
}

/// The fate of the mutants.
#[derive(Serialize)]
pub(super) struct Mutants {
    total: usize,
    killed: usize,
    /// Those of which that is known: fewer than all if the hunt was stopped.
    looked_at: usize,
    survivors: Vec<String>,
    seconds: f64,
    /// The most schedules that one took.
    most_schedules: u64,
    kills: Vec<Kill>,
}

#[derive(Serialize)]
struct Kill {
    mutant: String,
    scenario: &'static str,
    seed: u64,
    schedules: u64,
    what: String,
}

impl Mutants {
    /// The fates of `total` mutants, each of which was hunted for `bound` schedules from each start
    /// unless it was found, or the hunt was stopped.
    pub(super) fn new(hunted: &[Hunted], total: usize, bound: u64, elapsed: Duration) -> Self {
        let survived = |hunted: &&Hunted| {
            let mut starts = hunted.kills.iter().zip(&hunted.schedules);
            starts.any(|(kill, &schedules)| kill.is_none() && schedules >= bound)
        };
        let survivors: Vec<String> =
            hunted.iter().filter(survived).map(|hunted| hunted.mutant.to_string()).collect();
        let killed = hunted.iter().filter(|hunted| hunted.is_killed()).count();
        let kills = hunted.iter().flat_map(|hunted| {
            hunted.kills.iter().zip(&hunted.schedules).filter_map(|(kill, &schedules)| {
                let (scenario, seed, what) = kill.as_ref()?;
                let what = what.lines().next().unwrap_or_default().to_owned();
                let mutant = hunted.mutant.to_string();
                Some(Kill { mutant, scenario, seed: *seed, schedules, what })
            })
        });
        Self {
            total,
            killed,
            looked_at: killed + survivors.len(),
            survivors,
            seconds: elapsed.as_secs_f64(),
            most_schedules: hunted
                .iter()
                .flat_map(|hunted| &hunted.schedules)
                .copied()
                .max()
                .unwrap_or(0),
            kills: kills.collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = pairs(&[
            ("mutants killed", format!("{} of {}", self.killed, self.looked_at)),
            ("mutants not looked at", (self.total - self.looked_at).to_string()),
            ("most schedules for one", self.most_schedules.to_string()),
            ("time for mutants", format!("{:.1} s", self.seconds)),
        ]);
        for survivor in &self.survivors {
            let _ = writeln!(text, "\nsurvivor: nothing fails without {survivor}");
        }
        text
    }
}

impl AimedDeaths {
    fn new(tally: &Tally, extent: Extent) -> Self {
        let missed = tally.missed_deaths().into_iter();
        Self {
            aimed: tally.aims,
            died: tally.hits,
            steps: tally.targets.len(),
            spared: if extent.whole { names(tally.spared_steps()) } else { Vec::new() },
            missed: missed.map(|(site, fate)| (site.name(), fate.name())).collect(),
        }
    }

    /// Whether a death did not come as it was aimed, or none was aimed where one could be.
    fn is_incomplete(&self) -> bool {
        self.died < self.aimed || !self.spared.is_empty() || !self.missed.is_empty()
    }

    fn rows(&self) -> [(&'static str, String); 3] {
        [
            ("deaths aimed", self.aimed.to_string()),
            ("deaths that came so", self.died.to_string()),
            ("steps aimed at", self.steps.to_string()),
        ]
    }
}

/// How much was to be run.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// How many scenarios.
    pub(super) scenarios: usize,
    /// Whether these are all, with nothing left out of the protocols.
    pub(super) whole: bool,
    /// Whether they were run under seeds.
    pub(super) seeds: bool,
    /// Whether it was stopped before its end.
    pub(super) stopped: bool,
}

fn names(steps: Vec<Site>) -> Vec<&'static str> {
    steps.into_iter().map(|step| step.name()).collect()
}

impl Report {
    pub(super) fn new(
        extent: Extent,
        tally: &Tally,
        elapsed: Duration,
        mutants: Option<Mutants>,
    ) -> Self {
        let crossed = tally.coverage.sites();
        let mattered = crossed.iter().filter(|(_, crossed)| crossed.mattered > 0);
        let clean = tally.failures.is_empty() && tally.schedules > 0;
        let meets_all = extent.whole && extent.seeds;
        Self {
            scenarios: extent.scenarios,
            schedules: tally.schedules,
            schedules_per_s: tally.schedules as f64 / elapsed.as_secs_f64().max(1e-9),
            seconds: elapsed.as_secs_f64(),
            crash_points: tally.coverage.crash_points().len(),
            deadly_sites: tally.coverage.deadly_sites().len(),
            deaths: (tally.aims > 0).then(|| AimedDeaths::new(tally, extent)),
            histories_checked: tally.histories,
            undecided: tally.undecided,
            sites: sites().count(),
            sites_crossed: crossed.len(),
            missed_steps: if meets_all { names(tally.missed_steps()) } else { Vec::new() },
            unlisted_steps: names(tally.unlisted_steps()),
            mattered: mattered.map(|(site, crossed)| (site.name(), crossed.mattered)).collect(),
            noted: tally.coverage.notes().clone(),
            failing_share_at_most: clean.then(|| 3.0 / tally.schedules as f64),
            stopped: extent.stopped,
            failures: tally.failures.iter().map(ReportedFailure::new).collect(),
            mutants,
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if self.schedules > 0 {
            let mut rows = vec![
                ("scenarios", self.scenarios.to_string()),
                ("schedules", self.schedules.to_string()),
                ("rate", format!("{:.0} per second", self.schedules_per_s)),
                ("histories checked", self.histories_checked.to_string()),
                ("histories undecided", self.undecided.to_string()),
                ("steps met", format!("{} of {}", self.sites_crossed, self.sites)),
                ("steps that mattered", self.mattered.len().to_string()),
                ("points of death", self.crash_points.to_string()),
                ("steps at which hosts died", self.deadly_sites.to_string()),
            ];
            rows.extend(self.deaths.iter().flat_map(AimedDeaths::rows));
            text += &pairs(&rows);
            for site in &self.missed_steps {
                let _ = writeln!(text, "no schedule came to {site}: more --seeds may");
            }
            for site in &self.unlisted_steps {
                let _ = writeln!(text, "{site} is in no crate's list of steps");
            }
            for site in self.deaths.iter().flat_map(|deaths| &deaths.spared) {
                let _ = writeln!(text, "no host that may die came to {site}");
            }
            for (site, fate) in self.deaths.iter().flat_map(|deaths| &deaths.missed) {
                let _ = writeln!(text, "no host died at {site}, its dirty lines {fate}");
            }
            for (what, times) in &self.noted {
                let _ = writeln!(text, "{what}: {times} times");
            }
        }
        if let Some(mutants) = &self.mutants {
            text += &mutants.text();
        }
        self.failures.iter().for_each(|failure| text += &failure.text);
        if let Some(share) = self.failing_share_at_most {
            let _ =
                writeln!(text, "no failures: at most {share:.1e} of such schedules fail (95 %)");
        }
        if self.stopped {
            text += "stopped before the end\n";
        }
        text
    }

    /// The command's exit code.
    pub(super) fn exit_code(&self) -> u8 {
        let survived = self.mutants.as_ref().is_some_and(|mutants| !mutants.survivors.is_empty());
        if !self.failures.is_empty() || survived {
            return PROBLEMS;
        }
        let incomplete = !self.missed_steps.is_empty()
            || !self.unlisted_steps.is_empty()
            || self.deaths.as_ref().is_some_and(AimedDeaths::is_incomplete);
        // A run that was stopped has missed most of them.
        if self.undecided > 0 || (incomplete && !self.stopped) { UNDECIDED } else { 0 }
    }
}

impl ReportedFailure {
    fn new(failure: &Failure) -> Self {
        Self {
            scenario: failure.scenario,
            seed: failure.seed,
            aim: aim_of(failure),
            what: failure.what.clone(),
            schedule: actions(failure),
            text: self::failure(failure, EVENTS),
        }
    }
}

/// How a host was to die, unless at random.
fn aim_of(failure: &Failure) -> Option<String> {
    match failure.death {
        Death::AtRandom => None,
        Death::Aimed(aim) => Some(aim.to_string()),
        Death::Spared => Some(NOBODY.to_owned()),
    }
}

/// The adversary's actions, for people.
fn actions(failure: &Failure) -> Vec<String> {
    let line = |(turn, action): &(tombolo_simulator::Turn, _)| {
        format!("thread {}, decision {}: {action}", turn.thread, turn.decision)
    };
    failure.schedule.actions.iter().map(line).collect()
}

/// Actions of a schedule that are shown.
const SHOWN: usize = 40;

/// Events that a failure's timeline shows, if nobody says how many.
pub(super) const EVENTS: usize = 60;

/// A failure, for people, with the last `events` of what hosts did.
pub(super) fn failure(failure: &Failure, events: usize) -> String {
    let actions = actions(failure);
    let aim = aim_of(failure).map_or_else(String::new, |aim| format!(", --aim {aim}"));
    let mut text =
        format!("\n{}, seed {}{aim}: {}\n", failure.scenario, failure.seed, failure.what);
    if let Some(caches) = failure.caches {
        let _ = writeln!(text, "\nenumerated, with caches that are {caches}");
    }
    let _ = writeln!(text, "\nwhat the adversary has to do ({} actions):", actions.len());
    for action in actions.iter().take(SHOWN) {
        let _ = writeln!(text, "  {action}");
    }
    let _ = writeln!(text, "\nwhat hosts did:\n{}", failure.timeline.render(events));
    text
}

/// Scenarios and steps, for people.
pub(super) fn list() -> String {
    let mut text = "scenarios\n".to_owned();
    for scenario in SCENARIOS {
        let kind = format!("{:?}", scenario.kind).to_lowercase();
        let _ = writeln!(text, "  {:24} {kind}", scenario.name);
    }
    text += "\nsteps that can be left out\n";
    for site in sites() {
        let _ = writeln!(text, "  {}", site.name());
    }
    text
}

#[cfg(test)]
mod tests {
    use tombolo_simulator::Fate;

    use super::*;

    const WHOLE: Extent = Extent { scenarios: 1, whole: true, seeds: true, stopped: false };

    fn code(extent: Extent, tally: &Tally) -> u8 {
        Report::new(extent, tally, Duration::from_secs(1), None).exit_code()
    }

    /// A tally of deaths at one step, where a host had a dirty line.
    fn one_step() -> Tally {
        let site = sites().next().unwrap();
        Tally { schedules: 9, aims: 2, hits: 2, targets: [(site, 1)].into(), ..Tally::default() }
    }

    /// It exited with 0, and a script that ran it took that for a pass.
    #[test]
    fn steps_that_were_missed_are_no_pass() {
        let tally = Tally { schedules: 9, ..Tally::default() };
        assert_eq!(code(WHOLE, &tally), UNDECIDED);
        let report = Report::new(WHOLE, &tally, Duration::from_secs(1), None);
        assert_eq!(report.missed_steps.len(), sites().count());
        assert!(report.text().contains(&format!("no schedule came to {}", report.missed_steps[0])));
        assert_eq!(code(Extent { whole: false, ..WHOLE }, &tally), 0, "some scenarios meet some");
        assert_eq!(code(Extent { seeds: false, ..WHOLE }, &tally), 0, "no step was looked for");
        assert_eq!(code(Extent { stopped: true, ..WHOLE }, &tally), 0);
    }

    /// So did deaths that were missed, and steps at which none was aimed.
    #[test]
    fn deaths_that_were_missed_are_no_pass() {
        let some = Extent { whole: false, seeds: false, ..WHOLE };
        let tally = one_step();
        assert_eq!(tally.missed_deaths().len(), 2, "its line was not lost, and not written back");
        assert_eq!(code(some, &tally), UNDECIDED);
        let text = Report::new(some, &tally, Duration::from_secs(1), None).text();
        assert!(text.contains(Fate::Lost.name()), "{text}");
        assert_eq!(code(Extent { stopped: true, ..some }, &tally), 0);

        let without_targets = Tally { targets: [].into(), ..one_step() };
        assert_eq!(code(some, &without_targets), 0);
        assert_eq!(code(Extent { whole: true, ..some }, &without_targets), UNDECIDED);
        assert_eq!(code(some, &Tally { hits: 1, ..without_targets }), UNDECIDED);
    }
}
