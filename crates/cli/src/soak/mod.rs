//! `tombolo soak`: hosts that are processes do random operations on few objects, and what they saw is
//! checked for linearizability.
//!
//! They work in rounds. After each all are quiet, and every host reads every key: that belongs to the
//! round's history, and is what the next one begins with. So histories stay short, and nothing between
//! them goes unchecked.

mod checker;
mod client;
mod clock;
mod hosts;
mod record;
mod report;
mod value;
pub(crate) mod worker;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use tombolo::Pod;
use tombolo_pod::{Phase, create};

use self::checker::{Checker, Round};
use self::hosts::Hosts;
use self::record::{Did, Record};
use self::report::{Failure, Report};
use self::value::{LONGEST, Value};
use crate::cli::{Sizes, SoakArgs};
use crate::output;
use crate::place::Place;
use crate::stop::Stop;

/// How long a round's operations last.
const ROUND: Duration = Duration::from_millis(25);

/// So that even the shortest soak has a host leave and come back.
const LEAST_ROUNDS: u64 = 4;

/// A pod in which rare things are common: LNR for each host to hold chunks of all sizes and for some
/// of the longest values of each key, and a log and counters that wrap around all the time.
const LNR_PER_HOST: u64 = 1 << 20;
const SCR: u64 = 64 << 10;
const COUNTER_BITS: u32 = 4;

pub(crate) fn run(args: &SoakArgs) -> Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let sizes = sizes(args);
    let place = Place::new(args.pod.as_ref(), "soak", sizes.total());
    let mut options = sizes.options_for(args.hosts);
    options.layout.counter_bits = Some(COUNTER_BITS);
    let pod = create(&place.spec, options)?;
    let mut soak = Soak::new(args);
    let started = Instant::now();
    let outcome = Hosts::start(args, &place.spec).and_then(|hosts| soak.run(hosts, &stop));
    let elapsed = started.elapsed();
    let at_rest = outcome.and_then(|()| check_at_rest(&pod, &soak.values));
    let report = soak.report(&pod, elapsed, at_rest);
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

/// Once all hosts have left, the pod has to hold what they read last.
fn check_at_rest(pod: &Pod, values: &[Option<Value>]) -> Result<()> {
    if pod.membership().phase() != Phase::Closed {
        bail!("all hosts have left, but the pod is not closed");
    }
    let findings = tombolo_objects::check(pod);
    if let Some(problem) = findings.problems.first() {
        bail!("the pod is damaged once all hosts have left: {problem}");
    }
    let expected = values.iter().flatten().count() as u64;
    if findings.objects != expected {
        bail!(
            "the pod holds {} objects once all hosts have left, not {expected}",
            findings.objects
        );
    }
    Ok(())
}

struct Soak<'a> {
    args: &'a SoakArgs,
    checker: Checker,
    /// What each key held after the last round.
    values: Vec<Option<Value>>,
    rounds: u64,
    operations: u64,
    without_room: u64,
    churn: u64,
    moves: u64,
    joins: u64,
}

impl<'a> Soak<'a> {
    fn new(args: &'a SoakArgs) -> Self {
        Self {
            args,
            checker: Checker::start(),
            values: vec![None; args.keys as usize],
            rounds: 0,
            operations: 0,
            without_room: 0,
            churn: 0,
            moves: 0,
            joins: 0,
        }
    }

    /// Runs rounds until time is up, it is told to stop, or something fails.
    fn run(&mut self, mut hosts: Hosts<'_>, stop: &Stop) -> Result<()> {
        let (started, time) = (Instant::now(), Duration::from_secs(self.args.seconds));
        let bar = progress(self.args.seconds);
        loop {
            if stop.within(Duration::ZERO) {
                break;
            }
            if started.elapsed() >= time && self.rounds >= LEAST_ROUNDS {
                break;
            }
            hosts.come_and_go(self.rounds)?;
            let round = self.round(&mut hosts)?;
            self.joins = hosts.joins;
            if !self.checker.submit(round) {
                break;
            }
            bar.set_position(started.elapsed().as_secs());
            bar.set_message(format!("{} operations in {} rounds", self.operations, self.rounds));
        }
        bar.finish_and_clear();
        hosts.gather()?;
        self.joins = hosts.joins;
        hosts.leave()
    }

    fn round(&mut self, hosts: &mut Hosts<'_>) -> Result<Round> {
        let start = clock::now();
        let worked = hosts.work(start, ROUND)?;
        let read = hosts.read_all(start)?;
        let number = self.rounds;
        self.rounds += 1;
        self.churn += worked.churn;
        self.moves += worked.moves;
        let without_room = |record: &&Record| matches!(record.did, Did::NoRoom(_));
        self.without_room += worked.records.iter().filter(without_room).count() as u64;
        let mut records = worked.records;
        let initial = self.values.clone();
        for record in read.records {
            if let Did::Read(value) = record.did {
                self.values[record.key as usize] = value;
            }
            records.push(record);
        }
        self.operations += records.len() as u64;
        Ok(Round { number, initial, records })
    }

    fn report(self, pod: &Pod, elapsed: Duration, outcome: Result<()>) -> Report {
        let checked = self.checker.finish();
        let mut failures = checked.failures;
        let failed = |error| Failure { round: self.rounds, key: None, what: format!("{error:#}") };
        failures.extend(outcome.err().map(failed));
        Report {
            seed: self.args.seed,
            seconds: elapsed.as_secs_f64(),
            hosts: self.args.hosts,
            threads_per_host: self.args.threads,
            keys: self.args.keys,
            coherence_records: pod.geometry().records,
            operations: self.operations,
            operations_per_s: self.operations as f64 / elapsed.as_secs_f64(),
            rounds: self.rounds,
            histories_checked: checked.linearizable,
            undecided: checked.undecided,
            joins: self.joins,
            churn: self.churn,
            moves: self.moves,
            without_room: self.without_room,
            failures,
        }
    }
}

fn progress(seconds: u64) -> ProgressBar {
    output::progress("soak", seconds, "{prefix} {bar:40} {pos} of {len} s, {msg}")
}
