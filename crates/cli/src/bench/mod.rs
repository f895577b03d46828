//! `tombolo bench`: hosts as processes, each with some threads, driven through a load phase and a
//! run phase; or schemes in turn, to compare them.

pub(crate) mod comparison;
pub(crate) mod limit;
pub(crate) mod pages;
mod report;
pub(crate) mod resp;
mod shared;
mod simulated;
pub(crate) mod trace;
pub(crate) mod worker;

pub(crate) use report::us;

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use tombolo_baselines::{HcMetaOptions, Pace, Victims};
use tombolo_experiments::{PhaseResult, Sharing};
use tombolo_objects::{Locks, Options};
use tombolo_sharing::{CreateOptions, ObjectArea, create};
use tombolo_timing::Profile;
use tombolo_workloads::Workload;

use crate::bench::comparison::{Outcome, compare};
use crate::bench::report::{Report, Setting};
use crate::bench::worker::Event;
use crate::children::{Heard, HostProcess, hear_all, wait_for_all};
use crate::cli::{LocalArgs, OwnerArgs, OwnerVictims, Scheme, Sizes, YcsbArgs};
use crate::output;
use crate::place::Place;
use crate::stop::Stop;

/// LNR that a pod takes besides its objects, and SCR, unless given.
const SPARE_LNR: u64 = 64 << 20;
const DEFAULT_SCR: u64 = 64 << 20;

const BAR: &str = "{prefix} {bar:40} {human_pos} of {human_len}, {per_sec}, {eta} left";

pub(crate) fn run(args: &YcsbArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    let Some(schemes) = &args.schemes.compare else {
        let report = measure(args, args.schemes.scheme, false, &stop)?;
        return output::print(&report, args.format, Report::text);
    };
    // Where a pod was asked for, the last run has left one.
    let mut again = false;
    // In virtual time all rounds are the same.
    let rounds = if args.profile.is_some() { 1 } else { args.schemes.rounds };
    let outcome = compare(rounds, Scheme::Megalon, schemes, |scheme| {
        let report = measure(args, scheme, again, &stop);
        again = args.pod.is_some();
        report
    })?;
    output::print(&outcome, args.format, Outcome::text)
}

/// One run, in a pod of its own; `again` where there was one for the run before.
fn measure(args: &YcsbArgs, scheme: Scheme, again: bool, stop: &Stop) -> Result<Report> {
    if let Some(path) = &args.profile {
        return simulated::measure(args, scheme, &Profile::read(path)?);
    }
    let mut workload = args.workload.workload()?;
    let hosts = args.hosts.unwrap_or(2);
    let threads = args.threads.unwrap_or(workload.thread_count);
    workload.thread_count = threads * u32::from(hosts);
    workload.check()?;
    ensure!(
        workload.operation_count.is_some() || workload.max_execution_time.is_some(),
        "operationcount is 0, and there is no maxexecutiontime: this would run for ever; give one of them (-p operationcount=100000)"
    );
    let sizes = sizes(args, scheme, &workload);
    let place = Place::new(args.pod.as_ref(), "bench", sizes.total());
    let pod = create(&place.spec, CreateOptions { force: again, ..sizes.options_for(hosts) })?;
    let scr_fixed_bytes = ObjectArea::first(&pod)?.areas().records.offset();

    let mut processes = Hosts::start(args, scheme, &place, hosts, threads, stop)?;
    processes.phase("joining", 0, &[], |event| matches!(event, Event::Joined))?;
    let loaded = processes.phase("load", workload.insert_count, &["load"], Event::is_done)?;
    let operations = workload.operation_count.unwrap_or(0);
    let ran = processes.phase("run", operations, &["run"], Event::is_done)?;
    processes.leave()?;
    drop(pod);

    let loaded: Vec<PhaseResult> = loaded.into_iter().filter_map(Event::result).collect();
    let ran: Vec<PhaseResult> = ran.into_iter().filter_map(Event::result).collect();
    let setting = Setting {
        scheme,
        workload: args.workload.name(),
        world: "mapped",
        hosts,
        threads_per_host: threads,
        records: workload.record_count,
        scr_fixed_bytes,
        limit_ops_per_s: if args.no_limit { None } else { limit(&workload, place, args)? },
    };
    Report::new(setting, Some(&loaded), &ran, None)
}

/// The greatest rate of the workload on this machine; the pod is gone by then.
fn limit(workload: &Workload, place: Place, args: &YcsbArgs) -> Result<Option<f64>> {
    drop(place);
    limit::ops_per_s(workload, args.workload.seed)
}

/// How hosts take part under a scheme.
fn sharing(
    scheme: Scheme,
    local: &LocalArgs,
    owners: OwnerArgs,
    hosts: u32,
    key_bytes: u64,
) -> Result<Sharing> {
    Ok(match scheme {
        Scheme::Megalon => Sharing::Megalon(local.options()),
        Scheme::AllLog => Sharing::Megalon(Options { locks: Locks::Log, ..Options::default() }),
        Scheme::HcMeta | Scheme::HcMetaLocal | Scheme::HcMetaUnlimited => {
            let hosts = u8::try_from(hosts)?;
            Sharing::HcMeta(hcmeta_options(scheme, hosts, key_bytes, owners))
        }
    })
}

impl OwnerArgs {
    fn pace(self) -> Pace {
        let Self { owner_delay_us, owner_service_us, owner_sleep_us, .. } = self;
        let [delay, service, sleep] =
            [owner_delay_us, owner_service_us, owner_sleep_us].map(Duration::from_micros);
        Pace { delay, service, sleep }
    }

    fn victims(self) -> Victims {
        match self.owner_victims {
            OwnerVictims::NotUsed => Victims::NotUsed,
            OwnerVictims::LeastWritten => Victims::LeastWritten,
        }
    }

    /// The same, for a host's command line.
    fn words(self) -> [String; 4] {
        let victims = self.owner_victims.to_possible_value().expect("none is left out");
        [
            format!("--owner-delay-us={}", self.owner_delay_us),
            format!("--owner-service-us={}", self.owner_service_us),
            format!("--owner-sleep-us={}", self.owner_sleep_us),
            format!("--owner-victims={}", victims.get_name()),
        ]
    }
}

/// How each of so many hosts takes part under one of HCMeta's variants.
fn hcmeta_options(scheme: Scheme, hosts: u8, key_bytes: u64, owners: OwnerArgs) -> HcMetaOptions {
    HcMetaOptions {
        hosts,
        key_bytes,
        local: scheme == Scheme::HcMetaLocal,
        pace: owners.pace(),
        victims: owners.victims(),
        ..HcMetaOptions::default()
    }
}

/// The sizes given, or such as the workload needs.
fn sizes(args: &YcsbArgs, scheme: Scheme, workload: &Workload) -> Sizes {
    let records = workload.record_count + workload.operation_count.unwrap_or(0) / 4;
    let key = u64::from(workload.longest_key_bytes());
    let needed = records.saturating_mul(workload.value_bytes() + key + 64).saturating_mul(3) / 2;
    let given = args.pod.is_some();
    let scr = args.sizes.scr.or((!given).then_some(DEFAULT_SCR));
    // So much that hardly a set of the index is ever full.
    let unlimited = records.saturating_mul(key + 16).saturating_mul(4) + DEFAULT_SCR;
    Sizes {
        size: args.sizes.size.or((!given).then_some(needed + SPARE_LNR)),
        scr: if scheme == Scheme::HcMetaUnlimited { Some(unlimited) } else { scr },
        ..args.sizes
    }
}

struct Hosts<'a> {
    processes: Vec<HostProcess>,
    stop: &'a Stop,
}

impl<'a> Hosts<'a> {
    fn start(
        args: &YcsbArgs,
        scheme: Scheme,
        place: &Place,
        hosts: u8,
        threads: u32,
        stop: &'a Stop,
    ) -> Result<Self> {
        let start = |host: u8| {
            let mut words = vec![
                "worker".to_owned(),
                format!("--pod={}", place.spec),
                format!("--host={host}"),
                format!("--hosts={hosts}"),
                format!("--threads={threads}"),
                format!("--seed={}", args.workload.seed),
                format!("--scheme={}", scheme.name()),
            ];
            words.extend(args.local.words());
            words.extend(args.schemes.owners.words());
            words.extend(args.workload.verify.then(|| "--verify".to_owned()));
            words.extend(args.workload.files.iter().map(|file| format!("-P{file}")));
            words.extend(args.workload.properties.iter().map(|pair| format!("-p{pair}")));
            HostProcess::start(format!("host {host}"), &words, None)
        };
        let processes = (0..hosts).map(start).collect::<Result<_>>()?;
        Ok(Self { processes, stop })
    }

    /// Tells all hosts something, and waits for each one's event that `ends` the phase.
    fn phase(
        &mut self,
        name: &str,
        total: u64,
        told: &[&str],
        ends: fn(&Event) -> bool,
    ) -> Result<Vec<Event>> {
        for line in told {
            self.processes.iter_mut().try_for_each(|host| host.tell(line))?;
        }
        let bar = output::progress(name, total, BAR);
        hear_all(&mut self.processes, self.stop, name, &bar, |event| match event {
            Event::Progress { operations } => Heard::Progress(operations),
            event if ends(&event) => Heard::Through(event),
            event => Heard::Strange(event),
        })
    }

    fn leave(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(|host| host.tell("leave"))?;
        wait_for_all(&mut self.processes)
    }
}
