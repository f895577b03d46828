//! `tombolo up`.

mod status;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tombolo::{ObjectArea, PodSpec, format_size};

use self::status::{Display, Status};
use crate::children::{HostProcess, wait_for_all};
use crate::cli::{Sizes, UpArgs};
use crate::place::Place;
use crate::stop::Stop;

const DEFAULT_SIZE: u64 = 1 << 30;
const DEFAULT_SCR: u64 = 64 << 20;

/// Records of the load, at most; each takes about 1300 bytes of LNR.
const LOAD_RECORDS: u64 = 100_000;
const LOAD_RECORD_BYTES: u64 = 1300;

/// How long hosts may take to join.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &UpArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    let ports = ports(args)?;
    let sizes = Sizes {
        size: args.sizes.size.or(args.pod.is_none().then_some(DEFAULT_SIZE)),
        scr: args.sizes.scr.or(args.pod.is_none().then_some(DEFAULT_SCR)),
        ..args.sizes
    };
    let place = Place::new(args.pod.as_ref(), "up", sizes.total());
    let pod = tombolo_sharing::create(&place.spec, sizes.options_for(args.hosts))?;
    println!(
        "pod {} in {}: {} for objects, {} coherent, {} coherence records",
        pod.identity().uuid,
        place.spec,
        format_size(pod.layout().lnr_bytes),
        format_size(pod.layout().scr_bytes),
        ObjectArea::first(&pod)?.geometry().records,
    );
    let lnr_bytes = pod.layout().lnr_bytes;
    let mut hosts = Vec::new();
    for (number, &port) in ports.iter().enumerate() {
        hosts.push(Host::start(args, &place.spec, number, port, lnr_bytes)?);
    }
    for host in &mut hosts {
        host.wait_until_ready(&stop)?;
    }
    println!("{} hosts, each serves every key: redis-cli -p {}", hosts.len(), ports[0]);
    let outcome = watch(&mut hosts, args, &stop);
    hosts.iter_mut().for_each(|host| host.process.ask_to_leave());
    let left = wait_for_all(hosts.iter_mut().map(|host| &mut host.process));
    drop(pod);
    outcome?;
    left?;
    println!("all hosts have left{}", if args.pod.is_none() { "; the pod is removed" } else { "" });
    Ok(())
}

fn ports(args: &UpArgs) -> Result<Vec<u16>> {
    let last = args.port.checked_add(u16::from(args.hosts) - 1);
    let last = last.filter(|_| args.port > 0).with_context(|| {
        format!("--port {} leaves no ports for {} hosts; choose another", args.port, args.hosts)
    })?;
    Ok((args.port..=last).collect())
}

struct Host {
    process: HostProcess,
    port: u16,
}

impl Host {
    fn start(
        args: &UpArgs,
        pod: &PodSpec,
        number: usize,
        port: u16,
        lnr_bytes: u64,
    ) -> Result<Self> {
        let mut words: Vec<String> = vec![
            "serve".into(),
            "--with-parent".into(),
            format!("--pod={pod}"),
            format!("--listen=127.0.0.1:{port}"),
            "--workers=2".into(),
        ];
        words.extend(args.local.words());
        if let Some(load) = &args.load {
            let records = LOAD_RECORDS.min(lnr_bytes / 2 / LOAD_RECORD_BYTES).max(1);
            words.extend([
                format!("--load={load}"),
                format!("--load-records={records}"),
                format!("--load-host={number}"),
                format!("--load-hosts={}", args.hosts),
            ]);
        }
        let process = HostProcess::start(
            format!("host {number} (port {port})"),
            &words,
            args.requirepass.as_deref(),
        )?;
        Ok(Self { process, port })
    }

    /// It says so on its first line.
    fn wait_until_ready(&mut self, stop: &Stop) -> Result<()> {
        let started = Instant::now();
        while self.process.line(Duration::from_millis(20))?.is_none() {
            if stop.within(Duration::ZERO) {
                bail!("stopped before all hosts were ready");
            }
            if started.elapsed() > PATIENCE {
                bail!("the host at port {} does not start", self.port);
            }
        }
        Ok(())
    }
}

/// Shows how the hosts are doing until it is time to stop.
fn watch(hosts: &mut [Host], args: &UpArgs, stop: &Stop) -> Result<()> {
    let started = Instant::now();
    let end = args.seconds.map(Duration::from_secs);
    let ports: Vec<u16> = hosts.iter().map(|host| host.port).collect();
    let mut status = Status::new(&ports, args.requirepass.clone())?;
    let display = Display::new();
    loop {
        let step = Duration::from_secs(1);
        let left = end.map_or(step, |end| end.saturating_sub(started.elapsed()));
        if left.is_zero() || stop.within(step.min(left)) {
            break;
        }
        for host in hosts.iter_mut() {
            if !host.process.is_running() {
                bail!("the host at port {} has died; its last words are above", host.port);
            }
        }
        display.show(&format!("{:.0} s: {}", started.elapsed().as_secs_f64(), status.next()?));
    }
    display.end();
    println!("{} operations in {:.1} s", status.operations(), started.elapsed().as_secs_f64());
    Ok(())
}
