//! `tombolo coherence run`: a program or a trace on compute nodes and memory nodes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use tombolo_coherence::Filter;
use tombolo_disaggregated::{
    Buffers, Choice, Config, Core, Equations, MOST_HOSTS, Protocol, Summary, System, Traffic,
};
use tombolo_programs::{EdgeList, GraphSource, Parameters, Program, ProgramName, Trace};
use tombolo_timing::Cache;

use super::areas;
use crate::output::{self, Format, table};

pub(super) const ABOUT: &str = "\
Run a program, or a trace, in virtual time on hosts whose data lie in memory nodes, kept coherent by a \
protocol.

Protocols: inv (INV-CF: a line is with one host at a time), sha (SDM's SHA-CF: hosts share lines that \
they read), sha-spec (the same, and access before permission), bi (CXL 3.0's back-invalidation). As SDM's \
paper tells them, with more messages: sha-literal and sha-literal-spec (a line is fetched, and then \
invalidated elsewhere before it is changed), bi-literal (each request invalidates the line elsewhere). And \
uncached (no host caches data). With --compare, all of them.

Programs are real, and their results are checked: GAP's kernels on Kronecker or uniform graphs or on a \
list of edges (lines of \"from to [weight]\"), and smaller relatives of PARSEC's and NAS' programs. A trace is \
what `valgrind --tool=lackey --trace-mem=yes` prints, or a binary file (docs/traces.md); its threads are \
dealt out to the hosts, and wait for each of their accesses.

With --areas, software keeps pages coherent where that pays, as Adaptive Coherence Management proposes: a \
block of 64 pages is direct (kept coherent by the hardware, line by line), owned (in place, by one writer or \
many readers) or replicated (in each host's own memory). Such a mode is the same for all blocks and never \
changes, or follows from what is seen of each block.

Unless told otherwise, the system is that of SDM's paper: 32 threads, caches of 32 KiB and 256 KiB \
per core and of 2 MiB per host, a network of 500 ns each way, and memory of 80 ns. Cores go on while \
they wait, as far as their buffers reach and until something depends on what they wait for.";

pub(super) const EXAMPLES: &str = "\
Examples:
  tombolo coherence run --workload bfs --compare
  tombolo coherence run --workload sssp --graph uniform --scale 16 --protocol sha --hosts 16
  tombolo coherence run --workload bfs --window 1 --ask-always --protocol sha-literal
  tombolo coherence run --workload cc --graph twitter.txt --network-ns 1000 --format json
  valgrind --tool=lackey --trace-mem=yes --log-file=ls.trace ls
  tombolo coherence run --trace ls.trace --protocol inv
  tombolo coherence run --trace drmemtrace.app.1234.dir --protocol sha
  tombolo coherence run --workload pr --areas adaptive --threads 4 --compare
  tombolo coherence run --workload mixed --areas static:owned --not-coherent";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FilterArg {
    /// Memory nodes ask all other hosts.
    Broadcast,
    /// They know who may have a line.
    Directory,
}

impl FilterArg {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Broadcast => "broadcast",
            Self::Directory => "directory",
        }
    }
}

impl From<FilterArg> for Filter {
    fn from(filter: FilterArg) -> Self {
        match filter {
            FilterArg::Broadcast => Self::Broadcast,
            FilterArg::Directory => Self::Directory,
        }
    }
}

fn protocol(name: &str) -> Result<Protocol, String> {
    let known = || Protocol::ALL.map(Protocol::name).join(", ");
    let found = Protocol::ALL.into_iter().find(|protocol| protocol.name() == name);
    found.ok_or_else(|| format!("there is no protocol {name}; there are {}", known()))
}

pub(super) fn program(name: &str) -> Result<ProgramName, String> {
    ProgramName::from_str(name).map_err(|error| {
        let known: Vec<String> = ProgramName::ALL.iter().map(ToString::to_string).collect();
        format!("{error}; there are {}", known.join(", "))
    })
}

fn share(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    found.ok_or_else(|| format!("{text} is not a number from 0 to 1"))
}

/// A cache as it is written: `32KiB:8:1`.
fn cache(text: &str) -> Result<Cache, String> {
    let wrong =
        || format!("{text} is not a cache; write its size, ways and nanoseconds as 2MiB:16:40");
    let [size, ways, ns] = text.split(':').collect::<Vec<_>>()[..] else { return Err(wrong()) };
    let bytes = tombolo::parse_size(size).map_err(|error| error.to_string())?;
    let ways = ways.parse().ok().filter(|ways| (1..=64).contains(ways)).ok_or_else(wrong)?;
    let latency_ns = ns.parse().ok().filter(|ns| (0.0..=1e6).contains(ns)).ok_or_else(wrong)?;
    let lines = bytes / 64;
    if lines < u64::from(ways) {
        return Err(format!("{text} has fewer lines of 64 bytes than ways"));
    }
    Ok(Cache { kib: bytes as f64 / 1024.0, ways, latency_ns })
}

/// A program's input.
#[derive(Debug, Args)]
pub(super) struct InputArgs {
    /// The graph of a graph program: kronecker, uniform, or a file.
    #[arg(long, default_value = "kronecker", value_name = "GRAPH")]
    graph: String,
    /// The size of the program's input, as a power of two; the program's own, unless given.
    #[arg(long, value_name = "N")]
    scale: Option<u32>,
    /// How often the program does its work; its own number, unless given.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Edges per vertex of Kronecker and uniform graphs.
    #[arg(long, default_value_t = 16, value_name = "N")]
    edge_factor: u32,
    /// Determines inputs, and which pages are denied.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

impl InputArgs {
    pub(super) fn parameters(&self) -> Result<Parameters> {
        let graph = match self.graph.as_str() {
            "kronecker" => GraphSource::Kronecker,
            "uniform" => GraphSource::Uniform,
            file => GraphSource::Edges(Arc::new(read_graph(file.as_ref())?)),
        };
        let Self { scale, rounds, edge_factor, seed, .. } = *self;
        Ok(Parameters { scale, rounds, seed, graph, edge_factor })
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// How lines are kept coherent: inv, sha, sha-spec, bi, sha-literal, sha-literal-spec,
    /// bi-literal or uncached.
    #[arg(long, default_value = "sha", value_parser = protocol, value_name = "PROTOCOL")]
    protocol: Protocol,
    /// All protocols, one after the other, and how much faster each one is than inv.
    #[arg(long, conflicts_with = "protocol")]
    pub(super) compare: bool,
    /// How pages are kept coherent, in blocks of 64: static:direct, static:owned, static:replicated
    /// or adaptive. With --compare, all of these. The protocol of direct pages is bi, with a
    /// directory.
    #[arg(long, value_parser = areas::choice, value_name = "CHOICE", conflicts_with_all = ["protocol", "trace"])]
    pub(super) areas: Option<Choice>,
    /// Memory nodes do not keep lines coherent: no page may be direct.
    #[arg(long, requires = "areas")]
    pub(super) not_coherent: bool,
    /// A profile with the costs of paging, instead of profiles/adaptive.toml.
    #[arg(long, value_name = "FILE", requires = "areas")]
    pub(super) profile: Option<PathBuf>,
    /// The program.
    #[arg(long, value_parser = program, value_name = "NAME", required_unless_present = "trace")]
    pub(super) workload: Option<ProgramName>,
    /// A trace, instead of a program.
    #[arg(long, value_name = "FILE", conflicts_with_all = TRACE_CONFLICTS)]
    trace: Option<PathBuf>,
    #[command(flatten)]
    pub(super) input: InputArgs,
    /// Hosts, 1024 at most.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(super) hosts: usize,
    /// Threads of all hosts together, dealt out evenly, those in a row to one host. A trace has its
    /// own number.
    #[arg(long, default_value_t = 32, value_name = "N")]
    pub(super) threads: usize,
    /// Whom memory nodes ask about a line.
    #[arg(long, value_enum, default_value = "broadcast")]
    filter: FilterArg,
    /// The network's latency one way, in nanoseconds.
    #[arg(long, default_value_t = 500.0, value_name = "NS")]
    network_ns: f64,
    /// A memory node's own latency, in nanoseconds.
    #[arg(long, default_value_t = 80.0, value_name = "NS")]
    memory_ns: f64,
    /// The bandwidth of a memory node each way, in 10^9 bytes a second.
    #[arg(long, default_value_t = 64.0, value_name = "GB_PER_S")]
    node_gb_per_s: f64,
    /// Looking a line up in a host's coherence directory when the host is asked about it, in
    /// nanoseconds.
    #[arg(long, default_value_t = 0.0, value_name = "NS")]
    directory_ns: f64,
    /// Moving a line by DMA from a host's caches to its home agent, in nanoseconds.
    #[arg(long, default_value_t = 0.0, value_name = "NS")]
    dma_ns: f64,
    /// Instructions that a core may be ahead of a read that is under way (its reorder buffer); with
    /// 1, it waits for each read.
    #[arg(long, default_value_t = 192, value_name = "N")]
    window: usize,
    /// Writes of a core that may be under way.
    #[arg(long, default_value_t = 42, value_name = "N")]
    store_buffer: usize,
    /// Lines that a core may wait for at once.
    #[arg(long, default_value_t = 10, value_name = "N")]
    miss_buffers: usize,
    /// Memory nodes.
    #[arg(long, default_value_t = 1, value_name = "N")]
    nodes: usize,
    /// Bytes in a row that are in one memory node.
    #[arg(long, default_value = "4KiB", value_parser = tombolo::parse_size, value_name = "SIZE")]
    interleave: u64,
    /// A host's caches from the core outwards, each as SIZE:WAYS:NS, 2 to 8 of them. The last one
    /// is the system agent's, which the cores share.
    #[arg(long = "cache", value_parser = cache, value_name = "SIZE:WAYS:NS", conflicts_with = "agent_cache")]
    caches: Vec<Cache>,
    /// The size of the system agent's cache; 2MiB, unless given.
    #[arg(long, value_parser = tombolo::parse_size, value_name = "SIZE")]
    agent_cache: Option<u64>,
    /// Pages whose places a core knows (its TLB).
    #[arg(long, default_value_t = 1536, value_name = "N")]
    tlb_entries: usize,
    /// The time in which a core finds out another page's translation, in nanoseconds.
    #[arg(long, default_value_t = 80.0, value_name = "NS")]
    tlb_miss_ns: f64,
    /// Pages whose places in memory nodes a host remembers in its own memory; for others it asks.
    #[arg(long, default_value_t = 65_536, value_name = "N")]
    translations: usize,
    /// The time of looking a translation up there, in nanoseconds.
    #[arg(long, default_value_t = 80.0, value_name = "NS")]
    translation_ns: f64,
    /// Tables that a walk for a page's place in a memory node goes through.
    #[arg(long, default_value_t = 4, value_name = "N")]
    page_levels: u32,
    /// Each access waits for its permission, also one that a core's own caches serve: the paper's
    /// equation 1.
    #[arg(long)]
    ask_always: bool,
    /// Accesses of a host that may wait for their permission at once, under sha-spec.
    #[arg(long, default_value_t = 64, value_name = "N")]
    replay_entries: usize,
    /// The share of pages that each host may not read, drawn by lot. A program that tries is
    /// stopped; of a trace, the thread.
    #[arg(long, default_value_t = 0.0, value_parser = share, value_name = "SHARE")]
    deny_reads: f64,
    /// The share of pages that each host may not write.
    #[arg(long, default_value_t = 0.0, value_parser = share, value_name = "SHARE")]
    deny_writes: f64,
    /// How the result is written.
    #[arg(long, value_enum, default_value = "table")]
    pub(super) format: Format,
}

/// A run, and its outcome.
#[derive(Serialize)]
struct Report {
    protocol: &'static str,
    workload: String,
    hosts: usize,
    threads: usize,
    filter: &'static str,
    network_ns: f64,
    nodes: usize,
    #[serde(flatten)]
    summary: Summary,
    /// The program's result was compared with an oracle's.
    verified: bool,
}

/// Runs under several protocols.
#[derive(Serialize)]
struct Compared {
    results: Vec<Report>,
    /// By protocol, its instructions per cycle over those of inv.
    speedups: BTreeMap<&'static str, f64>,
    /// By protocol, its mean access time over that of inv.
    latencies: BTreeMap<&'static str, f64>,
}

/// The options that a trace decides itself, or does not have.
const TRACE_CONFLICTS: [&str; 8] =
    ["workload", "graph", "scale", "rounds", "threads", "window", "store_buffer", "miss_buffers"];

/// The program that is run.
enum Work<'a> {
    Program(ProgramName, Parameters),
    Trace(&'a Path),
}

pub(super) fn run(args: &RunArgs) -> Result<()> {
    if let (Some(choice), Some(name)) = (args.areas, args.workload) {
        return areas::run(args, choice, name);
    }
    let work = args.work()?;
    if !args.compare {
        let report = args.run_one(&work, args.protocol)?;
        return output::print(&report, args.format, text);
    }
    let bar = output::progress("protocols", Protocol::ALL.len() as u64, BAR);
    let mut results = Vec::new();
    for protocol in Protocol::ALL {
        bar.set_message(protocol.name());
        results.push(args.run_one(&work, protocol)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let against = |figure: fn(&Summary) -> f64| {
        let base = figure(&results[0].summary);
        results.iter().map(|run| (run.protocol, figure(&run.summary) / base)).collect()
    };
    let (speedups, latencies) = (against(|run| run.ipc), against(|run| run.amat_ns));
    output::print(&Compared { results, speedups, latencies }, args.format, compared)
}

const BAR: &str = "{prefix} {bar:40} {pos} of {len}, {elapsed} {msg}";

impl RunArgs {
    fn work(&self) -> Result<Work<'_>> {
        let Some(name) = self.workload else {
            return Ok(Work::Trace(self.trace.as_deref().context("name a workload or a trace")?));
        };
        Ok(Work::Program(name, self.input.parameters()?))
    }

    pub(super) fn config(&self, protocol: Protocol) -> Config {
        let mut config = Config {
            filter: self.filter.into(),
            threads: self.threads,
            buffers: Buffers {
                window: self.window,
                stores: self.store_buffer,
                misses: self.miss_buffers,
            },
            nodes: self.nodes,
            interleave_bytes: self.interleave,
            network_ns: self.network_ns,
            memory_ns: self.memory_ns,
            node_gb_per_s: self.node_gb_per_s,
            directory_ns: self.directory_ns,
            dma_ns: self.dma_ns,
            page_levels: self.page_levels,
            tlb_entries: self.tlb_entries,
            tlb_miss_ns: self.tlb_miss_ns,
            translations: self.translations,
            translation_ns: self.translation_ns,
            asks_always: self.ask_always,
            replay_entries: self.replay_entries,
            denied: (self.deny_reads, self.deny_writes),
            seed: self.input.seed,
            ..Config::paper(protocol, self.hosts)
        };
        if !self.caches.is_empty() {
            config.caches.clone_from(&self.caches);
        }
        if let (Some(agent), Some(bytes)) = (config.caches.last_mut(), self.agent_cache) {
            agent.kib = bytes as f64 / 1024.0;
        }
        config
    }

    fn run_one(&self, work: &Work<'_>, protocol: Protocol) -> Result<Report> {
        // Sets of hosts are as wide as they have to be.
        match self.hosts {
            ..=64 => self.run_on::<1>(work, protocol),
            _ => self.run_on::<{ MOST_HOSTS / 64 }>(work, protocol),
        }
    }

    fn run_on<const WORDS: usize>(&self, work: &Work<'_>, protocol: Protocol) -> Result<Report> {
        let config = self.config(protocol);
        let (system, workload, verified) = match work {
            Work::Program(name, parameters) => {
                let system: System<WORDS> = System::new(&config)?;
                let program: Program<Core<WORDS>> = Program::new(*name, parameters, self.threads)?;
                system.run_program(&program, |_, core| core);
                let whole = system.summary().isolated_threads == 0;
                if whole {
                    program.verify()?;
                }
                (system, name.to_string(), whole)
            }
            Work::Trace(path) => (replay(config, path)?, path.display().to_string(), false),
        };
        Ok(Report {
            protocol: protocol.name(),
            workload,
            hosts: self.hosts,
            threads: system.threads(),
            filter: self.filter.name(),
            network_ns: self.network_ns,
            nodes: self.nodes,
            summary: system.summary(),
            verified,
        })
    }
}

/// Reads a graph from a file.
///
/// # Errors
/// A file that cannot be read, or that is no graph.
pub(crate) fn read_graph(path: &Path) -> Result<EdgeList> {
    let shown = path.display();
    let file = File::open(path).with_context(|| {
        format!("cannot read the graph {shown}; it may be kronecker, uniform, or a file")
    })?;
    Ok(EdgeList::from_file(&shown.to_string(), BufReader::new(file))?)
}

/// A system that has done what a trace says.
fn replay<const WORDS: usize>(config: Config, path: &Path) -> Result<System<WORDS>> {
    let shown = path.display();
    let opened = Trace::open(path).with_context(|| format!("cannot read the trace {shown}"));
    let (trace, threads) = opened?;
    let config = Config { threads: threads as usize, ..config };
    let system = System::new(&config).with_context(|| shown.to_string())?;
    let bar = output::progress("records", u64::MAX, "{prefix} {pos}, {elapsed} {msg}");
    let mut done = 0;
    let records = trace.inspect(|_| {
        done += 1;
        if done % TOLD_EVERY == 0 {
            bar.set_position(done);
        }
    });
    let count = system.replay(records).with_context(|| shown.to_string())?;
    bar.finish_and_clear();
    if count == 0 {
        bail!(
            "{shown} has no accesses; is it what `valgrind --tool=lackey --trace-mem=yes` prints?"
        );
    }
    system.end();
    Ok(system)
}

/// Progress is told after so many records.
const TOLD_EVERY: u64 = 1 << 20;

fn text(report: &Report) -> String {
    let run = &report.summary;
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let list = |counts: &BTreeMap<&'static str, u64>| {
        let each = counts.iter().map(|(name, count)| format!("{name} {count}"));
        each.collect::<Vec<_>>().join(", ")
    };
    let served: Vec<String> = run.served.iter().map(u64::to_string).collect();
    output::pairs(&[
        ("protocol", format!("{}, {}", report.protocol, report.filter)),
        ("workload", report.workload.clone()),
        ("system", format!("{} hosts, {} threads", report.hosts, report.threads)),
        ("instructions per cycle", format!("{:.4}", run.ipc)),
        ("mean access time", format!("{:.1} ns", run.amat_ns)),
        ("by the paper's equations", equations(&run.equations)),
        ("with all messages", equations(&run.equations_all_messages)),
        ("virtual time", format!("{:.6} s", run.seconds)),
        ("accesses", run.accesses.to_string()),
        ("served by caches", served.join(", ")),
        ("transactions", format!("{} ({})", run.remote_reads, list(&run.primitives))),
        ("messages", list(&run.messages)),
        ("traffic", traffic(run)),
        ("TLB misses, page walks", format!("{}, {}", run.tlb_misses, run.walks)),
        ("lines shared", percent(run.shared_line_ratio)),
        ("accesses to shared lines", percent(run.shared_access_ratio)),
        ("mispeculations", run.mispeculations.to_string()),
        ("threads stopped", run.isolated_threads.to_string()),
        ("result", if report.verified { "right" } else { "not checked" }.to_owned()),
    ])
}

fn equations(found: &Equations) -> String {
    let Equations { permit_ns, caches_ns, remote_ns, amat_ns, ipc, .. } = found;
    format!(
        "{amat_ns:.1} ns (permission {permit_ns:.1}, caches {caches_ns:.1}, memory node {remote_ns:.1}), \
         {ipc:.4} instructions per cycle"
    )
}

fn traffic(run: &Summary) -> String {
    let each = run.traffic.iter().map(|(channel, Traffic { messages, bytes })| {
        format!("CXL.{channel} {messages} messages, {bytes} bytes")
    });
    each.collect::<Vec<_>>().join("; ")
}

fn compared(compared: &Compared) -> String {
    let header =
        ["protocol", "IPC", "over inv", "access, ns", "over inv", "transactions", "messages"];
    let mut rows = table(&header);
    for run in &compared.results {
        let summary = &run.summary;
        rows.add_row([
            run.protocol.to_owned(),
            format!("{:.4}", summary.ipc),
            format!("{:.2}", compared.speedups[run.protocol]),
            format!("{:.1}", summary.amat_ns),
            format!("{:.2}", compared.latencies[run.protocol]),
            summary.remote_reads.to_string(),
            summary.messages.values().sum::<u64>().to_string(),
        ]);
    }
    format!("{rows}\n")
}
