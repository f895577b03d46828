//! `tombolo check`: the scenarios, in the simulator.

pub(crate) mod args;
mod report;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use tombolo_scenarios::campaign::{self, Conditions, Control, Tally};
use tombolo_scenarios::{Kind, SCENARIOS, Scenario, aim, explain, hunt, mutants, unshortened};
use tombolo_simulator::{Trial, catch};

use self::args::CheckArgs;
use self::report::{Extent, Mutants, Report};
use crate::output;
use crate::stop::Stop;

/// Seeds of each scenario, unless something else is asked for.
const SEEDS: u64 = 1_000;

/// Seeds of each scenario that tell to which steps hosts come that may die.
const LEARNT: u64 = 500;

/// How far the seeds from which mutants are hunted lie apart.
const STRIDE: u64 = 1_000_000;

/// Seeds of each scenario that tell which steps end with a fence.
const PROBE: u64 = 20;

/// How often the bar is redrawn.
const FRAME: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode> {
    if args.list {
        output::say(report::list())?;
        return Ok(ExitCode::SUCCESS);
    }
    let scenarios = chosen(args);
    let conditions = conditions(args);
    if let Some(seed) = args.replay {
        let trial = conditions.trial(seed).with_death(args.aim.unwrap_or_default());
        return replay(&scenarios, &trial, args.events);
    }
    let control = watched()?;
    let started = Instant::now();
    let mut tally = Tally::default();
    if let Some(seeds) = seeds(args) {
        let range = args.start..args.start.saturating_add(seeds);
        tally = campaign::run(&scenarios, range, &conditions, &control);
    }
    if let Some(times) = args.deaths.filter(|_| tally.failures.is_empty()) {
        let learnt = args.start..args.start.saturating_add(LEARNT);
        tally.merge(aim(&scenarios, &learnt, times, &conditions, &control));
    }
    if let Some(preemptions) = args.exhaustive.filter(|_| tally.failures.is_empty()) {
        let short: Vec<Scenario> =
            scenarios.iter().filter(|scenario| scenario.kind == Kind::Short).copied().collect();
        let preemptions = usize::from(preemptions);
        tally.merge(campaign::exhaust(&short, preemptions, args.start, &conditions, &control));
    }
    let elapsed = started.elapsed();
    let hunt = args.mutants && tally.failures.is_empty();
    let mutants = hunt.then(|| hunt_mutants(args, &scenarios, &conditions, &control));
    let extent = Extent {
        scenarios: scenarios.len(),
        whole: args.scenario.is_empty() && args.without.is_none(),
        seeds: seeds(args).is_some(),
        stopped: control.is_stopped(),
    };
    control.stop();
    let report = Report::new(extent, &tally, elapsed, mutants);
    output::print(&report, args.format, Report::text)?;
    Ok(ExitCode::from(report.exit_code()))
}

fn chosen(args: &CheckArgs) -> Vec<Scenario> {
    if args.scenario.is_empty() {
        return SCENARIOS.to_vec();
    }
    args.scenario.iter().flat_map(|chosen| chosen.0.iter().copied()).collect()
}

fn conditions(args: &CheckArgs) -> Conditions {
    let default = Conditions::default();
    Conditions {
        adversary: args.strategy.adversary(),
        hosts: args.hosts.map(usize::from),
        without: args.without,
        sanitize: !args.unsanitized,
        jobs: args.jobs.map_or(default.jobs, usize::from),
        ..default
    }
}

fn seeds(args: &CheckArgs) -> Option<u64> {
    let something_else = args.deaths.is_some() || args.exhaustive.is_some() || args.mutants;
    args.seeds.or((!something_else).then_some(SEEDS))
}

/// A campaign's control that Ctrl-C stops, and whose progress the terminal shows.
fn watched() -> Result<Arc<Control>> {
    let control = Arc::new(Control::default());
    let (shared, stop) = (Arc::clone(&control), Stop::on_signals()?);
    std::thread::spawn(move || {
        let bar = spinner();
        let started = Instant::now();
        while !shared.is_stopped() {
            if stop.within(FRAME) {
                shared.stop();
            }
            let count = shared.schedules();
            let rate = count as f64 / started.elapsed().as_secs_f64();
            let rate = HumanCount(rate as u64);
            bar.set_message(format!("{} schedules, {rate} per second", HumanCount(count)));
            bar.tick();
        }
        bar.finish_and_clear();
    });
    Ok(control)
}

fn spinner() -> ProgressBar {
    use std::io::IsTerminal;
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    ProgressBar::new_spinner().with_style(style.expect("the template is sound"))
}

fn hunt_mutants(
    args: &CheckArgs,
    scenarios: &[Scenario],
    conditions: &Conditions,
    control: &Control,
) -> Mutants {
    let started = Instant::now();
    let probe = campaign::run(scenarios, 0..PROBE, conditions, control).coverage;
    let all = mutants(&probe);
    let starts: Vec<u64> = (0..args.hunts).map(|n| args.start + n * STRIDE).collect();
    let found = hunt(scenarios, &all, &starts, args.bound, conditions, control);
    Mutants::new(&found, all.len(), args.bound, started.elapsed())
}

/// Runs one seed again, on this thread: a debugger can be attached.
fn replay(scenarios: &[Scenario], trial: &Trial, events: Option<usize>) -> Result<ExitCode> {
    let [scenario] = scenarios else {
        bail!("--replay takes one --scenario; see `tombolo check --list`");
    };
    match catch(|| (scenario.run)(trial)) {
        Ok(()) => {
            output::say(format!("{}, seed {}: nothing failed\n", scenario.name, trial.seed))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(what) => {
            let explain = if events.is_some() { unshortened } else { explain };
            let failure = explain(scenario, trial, what);
            output::say(report::failure(&failure, events.unwrap_or(report::EVENTS)))?;
            Ok(ExitCode::from(output::PROBLEMS))
        }
    }
}
