//! `tombolo bench ycsb --profile`: the same benchmark in a pod in virtual time.

use std::time::Instant;

use anyhow::{Context, Result};
use tombolo_experiments::{Demand, Lab, Load, Setup};
use tombolo_timing::Profile;

use super::report::{Report, Setting, Simulated};
use crate::cli::{Scheme, YcsbArgs};

/// One run.
pub(crate) fn measure(args: &YcsbArgs, scheme: Scheme, profile: &Profile) -> Result<Report> {
    let started = Instant::now();
    let mut workload = args.workload.workload()?;
    let hosts = args.hosts.map_or(profile.pod.hosts, u32::from);
    let threads = args.threads.unwrap_or(profile.pod.cores);
    workload.thread_count = threads * hosts;
    let key_bytes = u64::from(workload.longest_key_bytes());
    let sizes = super::sizes(args, scheme, &workload).options_for(u8::try_from(hosts)?);
    let mut lab = Lab::create(Setup {
        profile: profile.clone(),
        hosts,
        sharing: super::sharing(scheme, &args.local, args.schemes.owners, hosts, key_bytes)?,
        scr_bytes: sizes.scr_bytes.unwrap_or(super::DEFAULT_SCR),
        lnr_bytes: sizes.lnr_bytes.context("the size of LNR is not known")?.next_multiple_of(64),
        layout: sizes.layout,
        seed: args.workload.seed,
        verify: args.workload.verify,
        pages: None,
    })?;
    let operations = workload.operation_count.unwrap_or(0);
    let warm_up = args.warm_up.unwrap_or(operations);
    lab.load(&workload, threads, Load::Create)?;
    lab.demand(&Demand { workload: workload.clone(), threads, shared: None })?;
    lab.run(warm_up)?;
    let ran = lab.run(operations)?;
    let setting = Setting {
        scheme,
        workload: args.workload.name(),
        world: "simulated",
        hosts: u8::try_from(hosts)?,
        threads_per_host: threads,
        records: workload.record_count,
        scr_fixed_bytes: lab.scr_fixed_bytes(),
        limit_ops_per_s: None,
    };
    let simulated = Simulated {
        profile: profile.name.clone(),
        wall_s: started.elapsed().as_secs_f64(),
        counts: ran.counts,
    };
    Report::new(setting, None, &ran.hosts, Some(simulated))
}
