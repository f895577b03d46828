//! `tombolo db soak`: hosts of a database are killed, and what was acknowledged has to be there
//! afterwards.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Serialize;
use tombolo::PodSpec;
use tombolo_database::log::Recovered;

use super::host::{Event, Orders, Task};
use super::hosts::{Hosts, temporary};
use super::ledger::{Ledger, Ledgered};
use super::setting::{Built, Chosen, Setting};
use super::store::{Store, misshapen, violations};
use crate::children::HostProcess;
use crate::cli::DbSoakArgs;
use crate::output::{self, PROBLEMS, pairs};
use crate::stop::Stop;

/// How long hosts run before a death: at random up to this, once a transaction was durable.
const LIFE: Duration = Duration::from_millis(600);

/// How long hosts may take to have a durable transaction, and to notice that another has died.
const PATIENCE: Duration = Duration::from_secs(30);

/// After so many recoveries one writes a checkpoint, and removes older logs.
const LIVES_A_CHECKPOINT: u32 = 4;

/// Hosts that come later are of another life, since their transactions need other numbers.
const LATER: u32 = 1 << 19;

/// Milliseconds between checkpoints of a running database.
const CHECKPOINT_MS: u64 = 100;

const SCR: u64 = 32 << 20;

/// Bytes that pod and logs may take.
const ROOM: u64 = 2 << 30;

/// The outcome of a soak.
#[derive(Default, Serialize)]
struct Report {
    engine: &'static str,
    seed: u64,
    hosts: u8,
    workers: u16,
    /// Deaths of one host, of all hosts at once, and processes that were killed.
    deaths_of_one: u32,
    deaths_of_all: u32,
    killed: u32,
    recoveries: u32,
    checkpoints: u32,
    /// Checkpoints that were written while transactions ran.
    running_checkpoints: u32,
    /// Transactions that were told to be durable.
    acknowledged: u64,
    /// Transactions that are there in the end.
    found: u64,
    rows: u64,
    /// The longest time until a host that was left knew of a death, where all stop.
    noticed_ms: u64,
    /// Hosts that went on after a death of another one.
    went_on: u32,
    /// Hosts that came in the place of dead ones.
    came_later: u32,
    /// The longest time in which such a host told of no durable transaction: of 99 %, and of all.
    paused_p99_ms: u64,
    paused_ms: u64,
    recovery_ms: u64,
    seconds: f64,
    failures: Vec<String>,
}

impl Report {
    /// The reaction of hosts that were left.
    fn reaction(&self) -> String {
        match self.went_on {
            0 => format!("by the others within {} ms", self.noticed_ms),
            hosts => format!(
                "{hosts} hosts, and {} came later; nothing became durable for {} ms at most, \
                 99 % within {} ms",
                self.came_later, self.paused_ms, self.paused_p99_ms
            ),
        }
    }

    fn text(&self) -> String {
        let text = pairs(&[
            ("engine", self.engine.to_owned()),
            ("hosts", format!("{} with {} workers each", self.hosts, self.workers)),
            (
                "deaths",
                format!(
                    "{} of one host, {} of all; {} processes killed",
                    self.deaths_of_one, self.deaths_of_all, self.killed
                ),
            ),
            (if self.went_on > 0 { "went on" } else { "noticed" }, self.reaction()),
            (
                "recoveries",
                format!(
                    "{} from the logs alone, {} with a checkpoint; up to {} ms",
                    self.recoveries, self.checkpoints, self.recovery_ms
                ),
            ),
            ("checkpoints", format!("{} while transactions ran", self.running_checkpoints)),
            ("acknowledged", format!("{} transactions as durable", self.acknowledged)),
            ("found", format!("{} transactions, {} rows", self.found, self.rows)),
            ("took", format!("{:.1} s", self.seconds)),
            ("failures", self.failures.len().to_string()),
        ]);
        text + &self.failures.iter().map(|what| format!("failed: {what}\n")).collect::<String>()
    }
}

pub(crate) fn run(args: &DbSoakArgs) -> Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let folder = temporary("db-soak", ROOM)?;
    let log = args.log.clone().unwrap_or_else(|| folder.path().join("log"));
    let workload = Chosen::Ledger {
        warehouses: args.warehouses.max(args.hosts.into()),
        hosts: args.hosts,
        life: 0,
        seed: args.seed,
    };
    let setting = Setting { rows: workload, hosts: args.hosts, workers: args.workers };
    Store::at_rest(&log)?.populate(&setting)?;
    let pod = folder.path().join("pod");
    let mut soak = Soak {
        args,
        setting,
        log,
        pod,
        random: ChaCha8Rng::seed_from_u64(args.seed),
        acknowledged: HashSet::new(),
        pauses_ms: Vec::new(),
        report: Report {
            engine: args.engine.name(),
            seed: args.seed,
            hosts: args.hosts,
            workers: args.workers,
            ..Report::default()
        },
    };
    if args.plant_loss {
        soak.acknowledged.insert(u64::MAX);
    }
    let started = Instant::now();
    let bar =
        output::progress("soaking", args.kills.into(), "{prefix} {bar:40} {pos} of {len} deaths");
    for life in 1..=args.kills {
        if stop.within(Duration::ZERO) || !soak.report.failures.is_empty() {
            break;
        }
        soak.live(life, &stop).with_context(|| format!("in life {life}"))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    soak.recover(0)?;
    soak.sum_up();
    soak.report.seconds = started.elapsed().as_secs_f64();
    soak.report.acknowledged = soak.acknowledged.len() as u64;
    output::print(&soak.report, args.format, Report::text)?;
    let well = soak.report.failures.is_empty();
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::from(PROBLEMS) })
}

struct Soak<'a> {
    args: &'a DbSoakArgs,
    setting: Setting,
    log: std::path::PathBuf,
    pod: std::path::PathBuf,
    random: ChaCha8Rng,
    /// The numbers of transactions that a host has told to be durable.
    acknowledged: HashSet<u64>,
    /// Of each host that went on after a death.
    pauses_ms: Vec<u64>,
    report: Report,
}

impl Soak<'_> {
    /// Recovers the database from its directory, and checks it: the epoch to go on from. A
    /// checkpoint is written now and then.
    fn recover(&mut self, life: u32) -> Result<u64> {
        if self.pod.exists() {
            std::fs::remove_file(&self.pod).context("cannot remove the pod's file")?;
        }
        let store = Store::at_rest(&self.log)?;
        let started = Instant::now();
        let (setting, recovered) = store.read()?;
        self.report.recovery_ms = self.report.recovery_ms.max(started.elapsed().as_millis() as u64);
        self.report.recoveries += 1;
        self.check(&setting, &recovered).with_context(|| format!("checking life {life}"))?;
        recovered.close(store.directory())?;
        if life.is_multiple_of(LIVES_A_CHECKPOINT) {
            store.checkpoint(&recovered)?;
            self.report.checkpoints += 1;
        }
        Ok(recovered.next)
    }

    fn check(&mut self, setting: &Setting, recovered: &Recovered) -> Result<()> {
        let Built::Ledger(workload) = &setting.rows.build() else {
            bail!("{} is not the log of a soak; give an empty directory", self.log.display());
        };
        let failures = &mut self.report.failures;
        failures.extend(misshapen(setting, recovered));
        failures.extend(violations(setting, recovered)?.1);
        let ledger = ledger(recovered)?;
        failures.extend(ledger_failures(&ledger, workload, &self.acknowledged));
        (self.report.found, self.report.rows) =
            (ledger.transactions(), recovered.rows.len() as u64);
        Ok(())
    }

    /// Has hosts recover the database, run transactions, and die.
    fn live(&mut self, life: u32, stop: &Stop) -> Result<()> {
        let first_epoch = self.recover(life - 1)?;
        if !self.report.failures.is_empty() {
            return Ok(());
        }
        let spec = PodSpec::path(&self.pod);
        let sizes = (SCR, None, self.setting.row_bytes());
        let pod = self.args.engine.create_pod(&spec, &self.setting.shape(), sizes)?;
        let orders = self.orders(&spec, life, first_epoch);
        let mut hosts = Hosts::start(&orders, self.args.hosts, stop)?;
        hosts.rows("restoring", Task::Restore)?;
        hosts.rows("beginning the log", Task::Begin)?;
        for number in 0..hosts.processes.len() {
            self.begin(&mut hosts, number)?;
        }
        self.run_until_death(&mut hosts.processes)?;
        self.kill(&mut hosts, &self.orders(&spec, life + LATER, first_epoch))?;
        drop(pod);
        Ok(())
    }

    /// Has a host run transactions.
    fn begin(&mut self, hosts: &mut Hosts<'_>, number: usize) -> Result<()> {
        let host = &mut hosts.processes[number];
        let told = host.tell(&serde_json::to_string(&Task::Soak)?);
        if told.is_err() {
            // It may have said why it has ended.
            while let Ok(Some(line)) = host.line(PATIENCE) {
                if let Some(what) = self.take(&line)? {
                    bail!("host {number}: {what}");
                }
            }
        }
        told
    }

    /// The orders of hosts whose transactions have numbers of this life.
    fn orders(&self, spec: &PodSpec, life: u32, first_epoch: u64) -> Orders {
        let mut workload = self.setting.rows.clone();
        if let Chosen::Ledger { life: of_workload, .. } = &mut workload {
            *of_workload = life;
        }
        Orders {
            spec: spec.to_string(),
            engine: self.args.engine,
            workload,
            workers: self.args.workers,
            first_epoch,
            log: Some(self.log.clone()),
            seed: self.args.seed.wrapping_add(life.into()),
            published_waits: false,
            setting: self.setting.clone(),
            checkpoint_ms: Some(CHECKPOINT_MS),
        }
    }

    /// Takes what hosts tell, from the first durable transaction on for a random time.
    fn run_until_death(&mut self, hosts: &mut [HostProcess]) -> Result<()> {
        let started = Instant::now();
        let before = self.acknowledged.len();
        let mut end = None;
        while end.is_none_or(|end| Instant::now() < end) {
            for (number, host) in hosts.iter_mut().enumerate() {
                while let Some(line) = host.line(Duration::from_millis(1))? {
                    if let Some(what) = self.take(&line)? {
                        bail!("host {number}: {what}");
                    }
                }
            }
            if end.is_none() && self.acknowledged.len() > before {
                let life = self.random.next_u64() % LIFE.as_nanos() as u64;
                end = Some(Instant::now() + Duration::from_nanos(life));
            }
            if end.is_none() && started.elapsed() > PATIENCE {
                bail!("no transaction has become durable within {} s", PATIENCE.as_secs());
            }
        }
        Ok(())
    }

    /// Notes what a host tells; why it cannot go on, if it says so.
    fn take(&mut self, line: &str) -> Result<Option<String>> {
        match serde_json::from_str(line).with_context(|| format!("a host says {line:?}"))? {
            Event::Checkpointed => self.report.running_checkpoints += 1,
            Event::Durable { numbers } => self.acknowledged.extend(numbers),
            Event::Failed { what } => return Ok(Some(what)),
            Event::Progress { .. } => {}
            event => bail!("a host is not in step: {event:?}"),
        }
        Ok(None)
    }

    /// Kills one host, or all. The others have to notice, or to go on until they are killed, too;
    /// then another host may come, by these orders.
    fn kill(&mut self, hosts: &mut Hosts<'_>, late: &Orders) -> Result<()> {
        let one = self.random.next_u64() as usize % hosts.processes.len();
        let all = hosts.processes.len() == 1 || self.random.next_u64().is_multiple_of(3);
        *(if all { &mut self.report.deaths_of_all } else { &mut self.report.deaths_of_one }) += 1;
        let died = Instant::now();
        if all {
            return self.kill_some(&mut hosts.processes, |_| true);
        }
        self.kill_some(&mut hosts.processes, |host| host == one)?;
        if !self.args.engine.goes_on() {
            return self.await_notice(&mut hosts.processes, one, died);
        }
        self.report.went_on += hosts.processes.len() as u32 - 1;
        self.go_on(&mut hosts.processes, |host| host != one)?;
        if self.random.next_u64().is_multiple_of(2) {
            return self.kill_some(&mut hosts.processes, |host| host != one);
        }
        hosts.replace(one, late)?;
        self.begin(hosts, one)?;
        self.report.came_later += 1;
        self.go_on(&mut hosts.processes, |_| true)?;
        self.kill_some(&mut hosts.processes, |_| true)
    }

    /// Kills hosts. Their messages from before count.
    fn kill_some(
        &mut self,
        hosts: &mut [HostProcess],
        is_chosen: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let chosen = |(number, host)| is_chosen(number).then_some(host);
        let mut chosen: Vec<_> = hosts.iter_mut().enumerate().filter_map(chosen).collect();
        for host in &mut chosen {
            host.kill()?;
            self.report.killed += 1;
        }
        for host in chosen {
            while let Ok(Some(line)) = host.line(PATIENCE) {
                self.take(&line)?;
            }
        }
        Ok(())
    }

    /// Hosts that are there after a death go on for a random time. Their transactions become
    /// durable.
    fn go_on(&mut self, hosts: &mut [HostProcess], is_there: impl Fn(usize) -> bool) -> Result<()> {
        let since = Instant::now();
        let life = Duration::from_nanos(self.random.next_u64() % LIFE.as_nanos() as u64);
        let mut left: Vec<Survivor<'_>> = hosts
            .iter_mut()
            .enumerate()
            .filter_map(|(number, host)| is_there(number).then_some(Survivor::new(number, host)))
            .collect();
        while since.elapsed() < life || left.iter().any(|host| host.told < 2) {
            for survivor in &mut left {
                let number = survivor.number;
                while let Some(line) = survivor.process.line(Duration::from_millis(1))? {
                    let before = self.acknowledged.len();
                    if let Some(what) = self.take(&line)? {
                        bail!("host {number} does not go on after a death: {what}");
                    }
                    survivor.hear(self.acknowledged.len() > before);
                }
                if survivor.last.elapsed() > PATIENCE {
                    let waited = PATIENCE.as_secs();
                    bail!(
                        "host {number} has had no durable transaction for {waited} s after a death"
                    );
                }
            }
        }
        self.pauses_ms.extend(left.iter().map(|survivor| survivor.pause.as_millis() as u64));
        Ok(())
    }

    /// Waits until the hosts but `dead` say that it has died.
    fn await_notice(
        &mut self,
        hosts: &mut [HostProcess],
        dead: usize,
        died: Instant,
    ) -> Result<()> {
        for (number, host) in hosts.iter_mut().enumerate().filter(|(number, _)| *number != dead) {
            let mut told = None;
            loop {
                match host.line(Duration::from_millis(20)) {
                    Ok(Some(line)) => told = self.take(&line)?.or(told),
                    Ok(None) if died.elapsed() > PATIENCE => {
                        let waited = PATIENCE.as_secs();
                        bail!(
                            "host {number} has not noticed the death of host {dead} for {waited} s"
                        );
                    }
                    Ok(None) => {}
                    Err(_) => break,
                }
            }
            let noticed = died.elapsed().as_millis() as u64;
            self.report.noticed_ms = self.report.noticed_ms.max(noticed);
            match told {
                Some(what) if what.contains("has died") => {}
                told => {
                    let told = told.unwrap_or_else(|| "nothing".to_owned());
                    let what = format!("host {number} says of the death of host {dead}: {told}");
                    self.report.failures.push(what);
                }
            }
        }
        Ok(())
    }

    fn sum_up(&mut self) {
        self.pauses_ms.sort_unstable();
        let at = |part: f64| {
            let last = self.pauses_ms.len().checked_sub(1)?;
            self.pauses_ms.get((last as f64 * part).round() as usize).copied()
        };
        self.report.paused_p99_ms = at(0.99).unwrap_or(0);
        self.report.paused_ms = at(1.0).unwrap_or(0);
    }
}

/// A host that is left after a death.
struct Survivor<'a> {
    number: usize,
    process: &'a mut HostProcess,
    /// How often it has told of durable transactions.
    told: u32,
    last: Instant,
    /// The longest time between two times.
    pause: Duration,
}

impl<'a> Survivor<'a> {
    fn new(number: usize, process: &'a mut HostProcess) -> Self {
        Self { number, process, told: 0, last: Instant::now(), pause: Duration::ZERO }
    }

    fn hear(&mut self, is_durable: bool) {
        if is_durable {
            self.pause = self.pause.max(self.last.elapsed());
            self.last = Instant::now();
            self.told += 1;
        }
    }
}

fn ledger(recovered: &Recovered) -> Result<Ledger> {
    let mut ledger = Ledger::default();
    for row in &recovered.rows {
        ledger.row(row.table, &row.key, &row.row)?;
    }
    Ok(ledger)
}

fn ledger_failures(
    ledger: &Ledger,
    workload: &Ledgered,
    acknowledged: &HashSet<u64>,
) -> Vec<String> {
    const MOST: usize = 20;
    let mut failures = ledger.check(workload, acknowledged);
    failures.truncate(MOST);
    failures
}
