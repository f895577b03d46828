//! Hosts die at every step that they come to, whatever becomes of their dirty lines.
//!
//! Runs in which hosts are spared tell which steps those come to that may die, and under which
//! seeds. Then each step is taken as an aim, with each fate of dirty lines, some times over: first
//! when most lines are dirty, each of them alone, too, and then under other seeds, at other times,
//! and some operations later.

use std::collections::BTreeMap;
use std::ops::Range;

use tombolo_memory::Site;
use tombolo_simulator::{Aim, Crossings, Death, Fate, Trial, catch};

use crate::campaign::{Conditions, Control, Tally, in_parallel};
use crate::failure::explain;
use crate::registry::sites;
use crate::{Kind, Scenario};

/// Operations that a host still makes after it has come to its step: fewer than this.
const OPERATIONS: u64 = 8;

/// The runs in which hosts come to a step.
type Occasions = BTreeMap<Site, Vec<(u64, Crossings)>>;

/// Has hosts die in the scenarios in which they may: at each step, with each fate of their dirty
/// lines, `times` times. Which steps there are, and when, is learnt under `seeds`.
pub fn aim(
    scenarios: &[Scenario],
    seeds: &Range<u64>,
    times: u64,
    conditions: &Conditions,
    control: &Control,
) -> Tally {
    let deadly: Vec<&Scenario> =
        scenarios.iter().filter(|scenario| scenario.kind == Kind::Crash).collect();
    in_parallel(&deadly, conditions, control, |scenario, tally| {
        let mut campaign = Campaign { scenario, conditions, control, tally };
        let occasions = campaign.learn(seeds);
        campaign.aim_at_each(&occasions, times);
    })
}

struct Campaign<'a> {
    scenario: &'a Scenario,
    conditions: &'a Conditions,
    control: &'a Control,
    tally: &'a mut Tally,
}

impl Campaign<'_> {
    fn learn(&mut self, seeds: &Range<u64>) -> Occasions {
        let mut occasions = Occasions::new();
        let trial = self.conditions.trial(0).with_death(Death::Spared);
        for seed in seeds.clone() {
            if self.is_over() {
                break;
            }
            self.run(&trial.with_seed(seed));
            for (site, crossings) in std::mem::take(&mut trial.observed().crossings) {
                occasions.entry(site).or_default().push((seed, crossings));
                let most = self.tally.targets.entry(site).or_default();
                *most = crossings.most_dirty.max(*most);
            }
        }
        self.tally.absorb(&trial, 0);
        occasions
    }

    fn aim_at_each(&mut self, occasions: &Occasions, times: u64) {
        let trial = self.conditions.trial(0);
        for (&site, occasions) in occasions {
            let chosen =
                (1..times).flat_map(|n| Fate::ALL.map(|fate| choose(site, fate, n, occasions)));
            for (seed, aim) in when_dirtiest(site, occasions).into_iter().chain(chosen) {
                if self.is_over() {
                    break;
                }
                self.run(&trial.with_seed(seed).with_death(Death::Aimed(aim)));
                self.tally.aims += 1;
            }
        }
        self.tally.absorb(&trial, 0);
    }

    fn run(&mut self, trial: &Trial) {
        self.control.ran(1);
        self.tally.schedules += 1;
        if let Err(what) = catch(|| (self.scenario.run)(trial)) {
            self.tally.failures.push(explain(self.scenario, trial, what));
        }
    }

    fn is_over(&self) -> bool {
        self.control.is_stopped() || self.tally.failures.len() >= self.conditions.failures
    }
}

/// Unless somebody takes aim already, a host dies when it has come to a step up to `crossings`
/// times, and made fewer than `operations` more: the seed decides.
pub(crate) fn aimed_at(trial: &Trial, step: &str, crossings: u64, operations: u64) -> Trial {
    if trial.death != Death::AtRandom {
        return trial.clone();
    }
    let site = sites().find(|site| site.name() == step).expect("there is such a step");
    let (crossing, dice) = (1 + (trial.seed % crossings) as u32, trial.seed / crossings);
    let fate = Fate::ALL[(dice / operations) as usize % Fate::ALL.len()];
    let operations = (dice % operations) as u32;
    trial.with_death(Death::Aimed(Aim { site, crossing, operations, fate, line: None }))
}

/// Deaths at a step when most lines are dirty there, with each fate, and with each line where it is
/// that of one: under which seed, and when.
fn when_dirtiest(site: Site, occasions: &[(u64, Crossings)]) -> Vec<(u64, Aim)> {
    let dirtiest = occasions.iter().rev().max_by_key(|(_, crossings)| crossings.most_dirty);
    let &(seed, Crossings { dirtiest, most_dirty, .. }) = dirtiest.expect("hosts have come there");
    let lines = |fate| match fate {
        Fate::One | Fate::AllButOne => (0..most_dirty.max(1)).map(Some).collect(),
        Fate::Lost | Fate::Written | Fate::Some => vec![None],
    };
    let aim = |fate, line| Aim { site, crossing: dirtiest, operations: 0, fate, line };
    let with = |fate| lines(fate).into_iter().map(move |line| (seed, aim(fate, line)));
    Fate::ALL.into_iter().flat_map(with).collect()
}

/// The `n`-th of other deaths at a step with a fate: under which seed, and when.
fn choose(site: Site, fate: Fate, n: u64, occasions: &[(u64, Crossings)]) -> (u64, Aim) {
    // Spread over the seeds, and different for each fate.
    let dice = (n * Fate::ALL.len() as u64 + fate as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let (seed, crossings) = occasions[dice as usize % occasions.len()];
    let crossing = 1 + (dice >> 10) as u32 % crossings.times;
    let operations = ((dice >> 20) % OPERATIONS) as u32;
    (seed, Aim { site, crossing, operations, fate, line: None })
}
