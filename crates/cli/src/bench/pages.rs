//! `tombolo bench pagecache`: hosts that are processes read and write pages of one file.

use std::fs::File;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use tombolo::{Geometry, format_size};
use tombolo_baselines::HcMeta;
use tombolo_experiments::{Demand, Lab, Load, PhaseResult, Setup, Sharing, histogram};
use tombolo_memory::Mapped;
use tombolo_mount::Files;
use tombolo_objects::{Locks, Objects};
use tombolo_pagecache::{
    ByRecord, Counts, FileId, InHeader, KEY_BYTES, Options, OptionsOf, PAGE_BYTES, PageCache, Pages,
};
use tombolo_sharing::{CreateOptions, ObjectArea, create};
use tombolo_sharing::{Scheme as _, Stats};
use tombolo_timing::Profile;
use tombolo_workloads::{InsertOrder, Proportions, ScrambledZipfian, Workload};

use super::comparison::{Compared, Outcome, compare};
use super::hcmeta_options;
use super::report::{Latency, churn_cost};
use crate::children::{HostProcess, tell, wait_for_all};
use crate::cli::{PageLoad, PageWorkerArgs, PagesArgs, Scheme, Sizes};
use crate::output::{self, pairs};
use crate::place::Place;
use crate::pod::LATCHES;
use crate::stop::Stop;

/// LNR that a pod takes besides its pages, and SCR, unless given.
const SPARE_LNR: u64 = 64 << 20;
const DEFAULT_SCR: u64 = 64 << 20;

/// The events that a host tells.
#[derive(Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    Joined,
    Done(Ran),
}

/// The result of a run on one host.
#[derive(Default, Serialize, Deserialize)]
struct Ran {
    operations: u64,
    elapsed_ns: u64,
    latencies: Vec<(u64, u64)>,
    admitted: u64,
    evicted: u64,
    written_back: u64,
    churn: u64,
    churn_ns: u64,
}

impl Ran {
    /// The same of a simulated host, but for what it did with pages.
    fn simulated(phase: &PhaseResult) -> Self {
        Self {
            operations: phase.operations,
            elapsed_ns: phase.elapsed_ns,
            latencies: phase.latencies.clone(),
            churn: phase.stats.churn,
            churn_ns: phase.stats.churn_ns,
            ..Self::default()
        }
    }
}

/// The result, over all hosts.
#[derive(Clone, Serialize)]
struct Report {
    scheme: &'static str,
    world: &'static str,
    hosts: u8,
    threads_per_host: u32,
    file_bytes: u64,
    lnr_bytes: u64,
    scr_bytes: u64,
    read_percent: u8,
    zipf: f64,
    operations: u64,
    ops_per_s: f64,
    latency_ns: Latency,
    admitted_per_op: f64,
    evicted_per_op: f64,
    written_back_per_op: f64,
    churn_per_op: f64,
    /// Of an operation that churned, what that took; nothing, if none did.
    churn_us: Option<f64>,
}

#[derive(Serialize)]
struct Reports {
    results: Vec<Report>,
}

/// A file that is there for as long as a benchmark runs.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(crate) fn run(args: &PagesArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    if let Some(path) = &args.profile {
        let profile = Profile::read(path)?;
        return print(args, 1, |scheme| simulate(args, scheme, &profile));
    }
    let scratch = Scratch(
        args.folder
            .clone()
            .unwrap_or_else(std::env::temp_dir)
            .join(format!("tombolo-bench-{}.pages", std::process::id())),
    );
    fill(&scratch.0, args.load.file_size)
        .with_context(|| format!("cannot write {:?}", scratch.0))?;
    // Where a pod was asked for, the last run has left one.
    let mut again = false;
    print(args, args.schemes.rounds, |scheme| {
        let report = measure(args, scheme, &scratch, again, &stop);
        again = args.pod.is_some();
        report
    })
}

/// Measures one scheme, or several in so many rounds, and prints what that came to.
fn print(
    args: &PagesArgs,
    rounds: u32,
    mut measure: impl FnMut(Scheme) -> Result<Report>,
) -> Result<()> {
    let Some(schemes) = &args.schemes.compare else {
        let report = measure(args.schemes.scheme)?;
        return output::print(&Reports { results: vec![report] }, args.format, |reports| {
            reports.results.iter().map(Report::text).collect()
        });
    };
    output::print(&compare(rounds, Scheme::Megalon, schemes, measure)?, args.format, Outcome::text)
}

/// One run in virtual time.
fn simulate(args: &PagesArgs, scheme: Scheme, profile: &Profile) -> Result<Report> {
    let load = &args.load;
    let (hosts, threads) = (u32::from(args.hosts), load.threads);
    let mut options = sizes(args, scheme).options_for(args.hosts);
    options.layout.latches = Some(LATCHES);
    let pages = (load.file_size / PAGE_BYTES).max(1);
    let mut lab = Lab::create(Setup {
        profile: profile.clone(),
        hosts,
        sharing: sharing(args, scheme),
        scr_bytes: options.scr_bytes.unwrap_or(DEFAULT_SCR),
        lnr_bytes: options.lnr_bytes.context("the size of LNR is not known")?.next_multiple_of(64),
        layout: options.layout,
        seed: load.seed,
        verify: false,
        pages: Some(pages),
    })?;
    let workload = workload(load, pages)?;
    lab.load(&workload, threads, Load::Create)?;
    lab.demand(&Demand { workload, threads, shared: None })?;
    lab.run(args.operations)?;
    let ran = lab.run(args.operations)?;
    let mut hosts: Vec<Ran> = ran.hosts.iter().map(Ran::simulated).collect();
    if let Some(first) = hosts.first_mut() {
        // All hosts' together.
        let Counts { admitted, evicted, written_back, .. } = ran.pages;
        *first = Ran { admitted, evicted, written_back, ..std::mem::take(first) };
    }
    Report::new(args, "simulated", scheme, lab.geometry(), &hosts)
}

/// How hosts share pages under a scheme.
fn sharing(args: &PagesArgs, scheme: Scheme) -> Sharing {
    let megalon =
        |locks| Sharing::Megalon(tombolo_objects::Options { locks, ..Default::default() });
    match scheme {
        Scheme::Megalon => megalon(Locks::Records),
        Scheme::AllLog => megalon(Locks::Log),
        Scheme::HcMeta | Scheme::HcMetaLocal | Scheme::HcMetaUnlimited => {
            let key_bytes = KEY_BYTES as u64;
            Sharing::HcMeta(hcmeta_options(scheme, args.hosts, key_bytes, args.schemes.owners))
        }
    }
}

/// Whole pages of a file, read and written.
fn workload(load: &PageLoad, pages: u64) -> Result<Workload> {
    let stock = Workload::stock('c')?;
    let read = f64::from(load.read_percent) / 100.0;
    Ok(Workload {
        record_count: pages,
        insert_count: pages,
        field_count: 1,
        field_length_bytes: PAGE_BYTES,
        proportions: Proportions { read, update: 1.0 - read, ..stock.proportions },
        zipfian_theta: load.zipf,
        insert_order: InsertOrder::Ordered,
        ..stock
    })
}

/// One run, in a pod of its own; `again` where there was one for the run before.
fn measure(
    args: &PagesArgs,
    scheme: Scheme,
    scratch: &Scratch,
    again: bool,
    stop: &Stop,
) -> Result<Report> {
    let load = &args.load;
    let sizes = sizes(args, scheme);
    let place = Place::new(args.pod.as_ref(), "bench", sizes.total());
    let mut options = CreateOptions { force: again, ..sizes.options_for(args.hosts) };
    options.layout.latches = Some(LATCHES);
    let pod = create(&place.spec, options)?;
    let start = |host: u8| {
        let mut words = vec![
            "page-worker".to_owned(),
            format!("--pod={}", place.spec),
            format!("--host={host}"),
            format!("--hosts={}", args.hosts),
            format!("--scheme={}", scheme.name()),
            format!("--file={}", scratch.0.display()),
            format!("--threads={}", load.threads),
            format!("--seconds={}", load.seconds),
            format!("--warm-up={}", load.warm_up),
            format!("--read-percent={}", load.read_percent),
            format!("--zipf={}", load.zipf),
            format!("--file-size={}", load.file_size),
            format!("--seed={}", load.seed),
        ];
        words.extend(args.schemes.owners.words());
        HostProcess::start(format!("host {host}"), &words, None)
    };
    let mut hosts = (0..args.hosts).map(start).collect::<Result<Vec<_>>>()?;
    events(&mut hosts, stop)?;
    hosts.iter_mut().try_for_each(|host| host.tell("run"))?;
    let ran: Vec<Ran> = events(&mut hosts, stop)?
        .into_iter()
        .filter_map(|event| if let Event::Done(ran) = event { Some(ran) } else { None })
        .collect();
    hosts.iter_mut().try_for_each(|host| host.tell("leave"))?;
    wait_for_all(&mut hosts)?;
    Report::new(args, "mapped", scheme, ObjectArea::first(&pod)?.geometry(), &ran)
}

/// The sizes given, or such as the file needs.
fn sizes(args: &PagesArgs, scheme: Scheme) -> Sizes {
    let file = args.load.file_size;
    let given = args.pod.is_some();
    let scr = args.sizes.scr.or((!given).then_some(DEFAULT_SCR));
    // So much that hardly a set of the index is ever full.
    let unlimited = file / PAGE_BYTES * (KEY_BYTES as u64 + 16) * 4 + DEFAULT_SCR;
    Sizes {
        // A page takes 5 KiB, its slot.
        size: args.sizes.size.or((!given).then_some(file / 4 * 5 + SPARE_LNR)),
        scr: if scheme == Scheme::HcMetaUnlimited { Some(unlimited) } else { scr },
        ..args.sizes
    }
}

/// A file of so many bytes, no two pages alike.
fn fill(path: &Path, bytes: u64) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::with_capacity(1 << 20, File::create(path)?);
    (0..bytes / PAGE_BYTES)
        .try_for_each(|page| file.write_all(&page.to_le_bytes().repeat(PAGE_BYTES as usize / 8)))?;
    file.flush()
}

/// The next event of every host.
fn events(hosts: &mut [HostProcess], stop: &Stop) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for host in hosts {
        let line = loop {
            if stop.within(Duration::ZERO) {
                bail!("stopped");
            }
            if let Some(line) = host.line(Duration::from_millis(50))? {
                break line;
            }
        };
        events.push(serde_json::from_str(&line).with_context(|| format!("a host says {line:?}"))?);
    }
    Ok(events)
}

impl Report {
    fn new(
        args: &PagesArgs,
        world: &'static str,
        scheme: Scheme,
        pod: &Geometry,
        ran: &[Ran],
    ) -> Result<Self> {
        let operations: u64 = ran.iter().map(|host| host.operations).sum();
        let slowest = ran.iter().map(|host| host.elapsed_ns).max().unwrap_or(0);
        let per_op = |count: fn(&Ran) -> u64| {
            ran.iter().map(count).sum::<u64>() as f64 / operations.max(1) as f64
        };
        let mut latencies = histogram();
        for &(value, count) in ran.iter().flat_map(|host| &host.latencies) {
            latencies.record_n(value, count).context("a latency is out of bounds")?;
        }
        Ok(Self {
            scheme: scheme.name(),
            world,
            hosts: args.hosts,
            threads_per_host: args.load.threads,
            file_bytes: args.load.file_size,
            lnr_bytes: pod.lnr.end(),
            scr_bytes: pod.scr.end(),
            read_percent: args.load.read_percent,
            zipf: args.load.zipf,
            operations,
            ops_per_s: operations as f64 / (slowest.max(1) as f64 / 1e9),
            latency_ns: Latency::of(&latencies),
            admitted_per_op: per_op(|host| host.admitted),
            evicted_per_op: per_op(|host| host.evicted),
            written_back_per_op: per_op(|host| host.written_back),
            churn_per_op: per_op(|host| host.churn),
            churn_us: churn_us(ran),
        })
    }

    fn text(&self) -> String {
        let [mean, p50, p99] = self.latency_ns.cells();
        let per_op = |count: f64| format!("{count:.4} per operation");
        pairs(&[
            ("scheme", self.scheme.to_owned()),
            ("hosts", format!("{} with {} threads each", self.hosts, self.threads_per_host)),
            ("file", format_size(self.file_bytes)),
            ("pod", format_size(self.lnr_bytes)),
            ("reads", format!("{} %, Zipf {}", self.read_percent, self.zipf)),
            ("operations", self.operations.to_string()),
            ("throughput", format!("{:.0} pages/s", self.ops_per_s)),
            ("latency, mean", mean),
            ("latency, p50", p50),
            ("latency, p99", p99),
            ("pages admitted", per_op(self.admitted_per_op)),
            ("pages evicted", per_op(self.evicted_per_op)),
            ("pages written back", per_op(self.written_back_per_op)),
            ("churn", per_op(self.churn_per_op)),
            ("churn, mean cost", churn_cost(self.churn_us)),
        ])
    }
}

impl Compared for Report {
    const COLUMNS: &[&str] = &["churn/op", "churn costs", "admitted/op", "mean", "p50", "p99"];

    fn scheme(&self) -> &'static str {
        self.scheme
    }

    fn ops_per_s(&self) -> f64 {
        self.ops_per_s
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![
            format!("{:.4}", self.churn_per_op),
            churn_cost(self.churn_us),
            format!("{:.4}", self.admitted_per_op),
        ];
        cells.extend(self.latency_ns.cells());
        cells
    }
}

type Cache<P> = PageCache<P, Files>;

/// Microseconds that an operation that churns takes for it; nothing, if none did.
fn churn_us(hosts: &[Ran]) -> Option<f64> {
    let (churn, took) =
        hosts.iter().fold((0, 0), |(n, ns), host| (n + host.churn, ns + host.churn_ns));
    (churn > 0).then(|| took as f64 / churn as f64 / 1000.0)
}

/// Pages on mapped memory, used by several threads.
trait Shared:
    Pages<Scheme: tombolo_sharing::Scheme<Memory = Mapped, Options: Send + Sync>> + Send + Sync
{
}

impl<P> Shared for P where
    P: Pages<Scheme: tombolo_sharing::Scheme<Memory = Mapped, Options: Send + Sync>> + Send + Sync
{
}

/// One host of the benchmark.
pub(crate) fn work(args: &PageWorkerArgs) -> Result<()> {
    match args.scheme {
        Scheme::Megalon => take_part::<ByRecord<Mapped>>(args, Options::default()),
        Scheme::AllLog => {
            let mut options = Options::default();
            options.objects.locks = Locks::Log;
            take_part::<InHeader<Objects<Mapped>>>(args, options)
        }
        Scheme::HcMeta | Scheme::HcMetaLocal | Scheme::HcMetaUnlimited => {
            let key_bytes = KEY_BYTES as u64;
            let options = hcmeta_options(args.scheme, args.hosts, key_bytes, args.owners);
            take_part::<InHeader<HcMeta<Mapped>>>(args, Options::with(options))
        }
    }
}

fn take_part<P: Shared>(args: &PageWorkerArgs, options: Options<OptionsOf<P>>) -> Result<()> {
    let stop = Stop::on_signals()?;
    stop.with_parent()?;
    let files = Arc::new(Files::default());
    let file = files.share(&args.file).with_context(|| format!("cannot open {:?}", args.file))?;
    let cache = Cache::<P>::join(tombolo_pod::open(&args.pod)?, files, options)?;
    tell(&Event::Joined)?;
    let over = AtomicBool::new(false);
    let every = |time: Duration, work: fn(&Cache<P>) -> Result<(), tombolo_pagecache::Error>| {
        while !over.load(Ordering::Relaxed) {
            work(&cache)?;
            thread::sleep(time);
        }
        anyhow::Ok(())
    };
    thread::scope(|scope| {
        let ticking = scope.spawn(|| every(Duration::from_millis(1), Cache::<P>::tick));
        let tidying = scope.spawn(|| every(Duration::from_millis(10), Cache::<P>::tidy));
        let outcome = obey(args, &cache, file, &stop);
        over.store(true, Ordering::Relaxed);
        for thread in [ticking, tidying] {
            thread.join().expect("the background work does not panic")?;
        }
        outcome
    })?;
    Ok(cache.leave()?)
}

fn obey<P: Shared>(
    args: &PageWorkerArgs,
    cache: &Cache<P>,
    file: FileId,
    stop: &Stop,
) -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        match line.context("cannot read what to do")?.as_str() {
            "run" => {
                // Other pages than are counted.
                drive(args, cache, file, args.load.warm_up, !args.load.seed, stop)?;
                tell(&Event::Done(run_here(args, cache, file, stop)?))?;
            }
            "leave" => return Ok(()),
            other => bail!("{other:?} means nothing to a worker"),
        }
    }
    Ok(())
}

fn run_here<P: Shared>(
    args: &PageWorkerArgs,
    cache: &Cache<P>,
    file: FileId,
    stop: &Stop,
) -> Result<Ran> {
    let (counts, stats, started) = (cache.counts(), cache.objects().stats(), Instant::now());
    let latencies = drive(args, cache, file, args.load.seconds, args.load.seed, stop)?;
    let (pages, Stats { churn, churn_ns, .. }) =
        (cache.counts().since(counts), cache.objects().stats().since(stats));
    Ok(Ran {
        operations: latencies.len(),
        elapsed_ns: started.elapsed().as_nanos() as u64,
        latencies: latencies
            .iter_recorded()
            .map(|value| (value.value_iterated_to(), value.count_at_value()))
            .collect(),
        admitted: pages.admitted,
        evicted: pages.evicted,
        written_back: pages.written_back,
        churn,
        churn_ns,
    })
}

/// Has this host's clients read and write for so many seconds; what their operations took.
fn drive<P: Shared>(
    args: &PageWorkerArgs,
    cache: &Cache<P>,
    file: FileId,
    seconds: u64,
    seed: u64,
    stop: &Stop,
) -> Result<Histogram<u64>> {
    let (over, load) = (AtomicBool::new(false), &args.load);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..load.threads)
            .map(|thread| {
                let seed = seed << 16 | u64::from(args.host) << 8 | u64::from(thread);
                let over = &over;
                scope.spawn(move || client(load, cache, file, seed, over))
            })
            .collect();
        stop.within(Duration::from_secs(seconds));
        over.store(true, Ordering::Relaxed);
        let mut all = histogram();
        for thread in threads {
            all.add(thread.join().expect("a client does not panic")?)?;
        }
        anyhow::Ok(all)
    })
}

/// Reads and writes whole pages until it is over.
fn client<P: Shared>(
    load: &PageLoad,
    cache: &Cache<P>,
    file: FileId,
    seed: u64,
    over: &AtomicBool,
) -> Result<Histogram<u64>> {
    let pages = (load.file_size / PAGE_BYTES).max(1);
    let zipfian = ScrambledZipfian::new(pages, load.zipf);
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mut latencies = histogram();
    let mut bytes = vec![0; PAGE_BYTES as usize];
    while !over.load(Ordering::Relaxed) {
        let page = zipfian.item((dice.next_u64() >> 11) as f64 / (1u64 << 53) as f64);
        let reads = dice.next_u64() % 100 < u64::from(load.read_percent);
        let started = Instant::now();
        if reads {
            let length = cache.read(file, page * PAGE_BYTES, &mut bytes)?;
            if length != bytes.len() {
                bail!("page {page} has {length} bytes");
            }
        } else {
            bytes[..8].copy_from_slice(&page.to_le_bytes());
            cache.write(file, page * PAGE_BYTES, &bytes)?;
        }
        latencies.saturating_record(started.elapsed().as_nanos() as u64);
    }
    Ok(latencies)
}
