//! `tombolo soak`: hosts that are processes do random operations on few objects, and what they saw
//! is checked for linearizability.
//!
//! They work in rounds. After each all are quiet, and every host reads every key: that belongs to
//! the round's history, and is what the next one begins with. So histories stay short, and nothing
//! between them goes unchecked.
//!
//! Hosts may be killed and stopped at random moments. The operations of their clients are then in
//! doubt: it was done, or not, or has torn the object, until the process has ended or has answered
//! again.

mod adversary;
mod checker;
mod client;
mod clock;
mod doubts;
mod host;
mod hosts;
mod journal;
mod model;
mod pauses;
mod record;
mod report;
mod value;
pub(crate) mod worker;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use indicatif::ProgressBar;
use tombolo::{Objects, PodSpec};
use tombolo_memory::Mapped;
use tombolo_pod::Phase;
use tombolo_sharing::{ObjectArea, create};

use self::checker::{Checker, Round};
use self::hosts::{Happened, Hosts, Worked};
use self::model::Held;
use self::record::Did;
use self::report::{Failure, Report};
use self::value::LONGEST;
use self::worker::InUse;
use crate::cli::{Sizes, SoakArgs};
use crate::output;
use crate::place::Place;
use crate::stop::Stop;

/// How long a round's operations last.
const ROUND: Duration = Duration::from_millis(25);

/// So that even the shortest soak has a host leave and come back.
const LEAST_ROUNDS: u64 = 4;

/// A pod in which rare things are common: LNR for each host to hold chunks of all sizes and for
/// some of the longest values of each key, and a log and counters that wrap around all the time.
const LNR_PER_HOST: u64 = 1 << 20;
const SCR: u64 = 64 << 10;
const COUNTER_BITS: u32 = 4;

pub(crate) fn run(args: &SoakArgs) -> Result<ExitCode> {
    let kills = args.kill_every.is_some() || args.kills.is_some() || args.stop_every.is_some();
    ensure!(
        args.hosts > 1 || !kills,
        "one host alone cannot die or be stopped: there have to be others that go on; give more --hosts"
    );
    let stop = Stop::on_signals()?;
    let sizes = sizes(args);
    let place = Place::new(args.pod.as_ref(), "soak", sizes.total());
    let mut options = sizes.options_for(args.hosts);
    options.layout.counter_bits = Some(COUNTER_BITS);
    let spec = place.spec.clone().trusted(args.trust_me);
    let pod = create(&spec, options)?;
    let mut soak = Soak::new(args);
    let started = Instant::now();
    let area = ObjectArea::first(&pod)?;
    let outcome = soak.run(&place.spec, &area, &stop);
    let elapsed = started.elapsed();
    let report = soak.report(&area, elapsed, outcome);
    output::print(&report, args.format, Report::text)?;
    Ok(ExitCode::from(report.exit_code()))
}

/// The sizes given, or such as make everything scarce.
fn sizes(args: &SoakArgs) -> Sizes {
    let scarce = |bytes| args.pod.is_none().then_some(bytes);
    let lnr = LNR_PER_HOST * u64::from(args.hosts) + 2 * LONGEST as u64 * u64::from(args.keys);
    Sizes {
        size: args.sizes.size.or(scarce(lnr)),
        scr: args.sizes.scr.or(scarce(SCR)),
        records: args.sizes.records.or(Some(u64::from(args.keys / 2).max(1))),
        ..args.sizes
    }
}

/// Once all hosts have left, the pod has to hold what they read last, and nothing besides.
fn check_at_rest(area: &ObjectArea<Mapped>, values: &[Held], in_use: InUse) -> Result<()> {
    if area.membership().phase() != Phase::Closed {
        bail!("all hosts have left, but the pod is not closed");
    }
    let findings = tombolo_objects::check(area);
    if let Some(problem) = findings.problems.first() {
        bail!("the pod is damaged once all hosts have left: {problem}");
    }
    let expected = values.iter().filter(|held| matches!(held, Held::Value(_))).count() as u64;
    if findings.objects != expected {
        bail!(
            "the pod holds {} objects once all hosts have left, not {expected}",
            findings.objects
        );
    }
    let objects = Objects::join_pod(area.pod().clone(), tombolo::Options::default())
        .context("cannot open the pod again")?;
    let reopened = InUse::of(&objects);
    objects.leave()?;
    if !in_use.is_left(reopened) {
        bail!("before all hosts left there was in use {in_use:?}, and there are now {reopened:?}");
    }
    Ok(())
}

struct Soak<'a> {
    args: &'a SoakArgs,
    checker: Checker,
    /// The value of each key after the last round.
    values: Vec<Held>,
    totals: Totals,
}

/// The counters so far.
#[derive(Default)]
struct Totals {
    rounds: u64,
    operations: u64,
    without_room: u64,
    told_lost: u64,
    happened: Happened,
    /// In the end, before all hosts left.
    in_use: Option<InUse>,
}

impl<'a> Soak<'a> {
    fn new(args: &'a SoakArgs) -> Self {
        let values = vec![Held::Nothing; args.keys as usize];
        Self { args, checker: Checker::start(), values, totals: Totals::default() }
    }

    /// Runs rounds until it is over, and looks at what is left.
    fn run(&mut self, spec: &PodSpec, area: &ObjectArea<Mapped>, stop: &Stop) -> Result<()> {
        let mut hosts = Hosts::start(self.args, spec, area)?;
        let outcome = self.run_rounds(&mut hosts, stop);
        self.totals.happened = std::mem::take(&mut hosts.happened);
        let in_use = outcome?;
        self.totals.in_use = Some(in_use);
        hosts.leave()?;
        check_at_rest(area, &self.values, in_use)
    }

    /// Runs rounds until time is up or enough hosts have died, it is told to stop, or something
    /// fails. Bytes in use then.
    fn run_rounds(&mut self, hosts: &mut Hosts<'_>, stop: &Stop) -> Result<InUse> {
        let (started, time) = (Instant::now(), Duration::from_secs(self.args.seconds));
        let bar = progress(self.args);
        loop {
            let (done, over) = match self.args.kills {
                Some(kills) => {
                    (hosts.happened.deaths.events(), hosts.happened.deaths.events() >= kills)
                }
                None => (started.elapsed().as_secs(), started.elapsed() >= time),
            };
            bar.set_position(done);
            let Totals { rounds, operations, .. } = self.totals;
            bar.set_message(format!("{operations} operations in {rounds} rounds"));
            if stop.within(Duration::ZERO) || over && rounds >= LEAST_ROUNDS {
                break;
            }
            hosts.come_and_go(rounds)?;
            if !self.round(hosts)? {
                break;
            }
        }
        bar.finish_and_clear();
        // Operations that were left in doubt are settled by a round of all.
        hosts.reassemble()?;
        self.round(hosts)?;
        // Some may have found out in it that they had been fenced.
        hosts.reassemble()?;
        hosts.settle()
    }

    /// One round; whether all is well so far.
    fn round(&mut self, hosts: &mut Hosts<'_>) -> Result<bool> {
        let Worked { start, records, doubts, values } = hosts.round(ROUND)?;
        let count =
            |did: fn(&Did) -> bool| records.iter().filter(|record| did(&record.did)).count() as u64;
        let totals = &mut self.totals;
        let number = totals.rounds;
        totals.rounds += 1;
        totals.operations += records.len() as u64;
        totals.without_room += count(|did| matches!(did, Did::NoRoom(_)));
        totals.told_lost += count(|did| matches!(did, Did::FoundLost));
        let initial = std::mem::replace(&mut self.values, values);
        Ok(self.checker.submit(Round { number, start, initial, records, doubts }))
    }

    fn report(self, area: &ObjectArea<Mapped>, elapsed: Duration, outcome: Result<()>) -> Report {
        let checked = self.checker.finish();
        let Totals { rounds, happened, .. } = self.totals;
        let mut failures = checked.failures;
        let failed = |error| Failure { round: rounds, key: None, what: format!("{error:#}") };
        failures.extend(outcome.err().map(failed));
        Report {
            seed: self.args.seed,
            seconds: elapsed.as_secs_f64(),
            hosts: self.args.hosts,
            threads_per_host: self.args.threads,
            keys: self.args.keys,
            coherence_records: area.geometry().records,
            operations: self.totals.operations,
            operations_per_s: self.totals.operations as f64 / elapsed.as_secs_f64(),
            rounds,
            histories_checked: checked.linearizable,
            undecided: checked.undecided,
            joins: happened.joins,
            churn: happened.counts.churn,
            moves: happened.counts.moves,
            without_room: self.totals.without_room,
            torn_writes: area.geometry().torn_writes.to_string(),
            partition_backup: area.geometry().partition_backup,
            deaths: happened.deaths.events(),
            stops: happened.stops.events(),
            fenced: happened.fenced,
            recoveries: happened.counts.recoveries,
            rescues: happened.counts.rescues,
            lost: happened.counts.lost,
            told_lost: self.totals.told_lost,
            pauses_after_deaths: happened.deaths.distribution(),
            pauses_after_stops: happened.stops.distribution(),
            in_use_in_the_end: self.totals.in_use,
            failures,
        }
    }
}

fn progress(args: &SoakArgs) -> ProgressBar {
    match args.kills {
        Some(kills) => {
            output::progress("soak", kills, "{prefix} {bar:40} {pos} of {len} deaths, {msg}")
        }
        None => output::progress("soak", args.seconds, "{prefix} {bar:40} {pos} of {len} s, {msg}"),
    }
}
