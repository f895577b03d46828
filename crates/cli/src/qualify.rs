//! `tombolo qualify`.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, getpid, kill_process};
use serde::Serialize;
use tombolo::{Pod, PodSpec};
use tombolo_memory::{Lines, LnrAddr, Mapped, Memory, WriteBack};
use tombolo_pod::{Qualification, TriedPlace, Verdict, tried_memory};
use tombolo_qualify::{
    AfterDeath, Effort, Evidence, Histogram, LineBytes, Options, Report, SITES, WAYS, WIDTHS, Way,
    host_name, qualify,
};

use crate::cli::{DyingWriterArgs, QualifyArgs};
use crate::output::{self, PROBLEMS, pairs};

/// How often a host looks whether the memory is there.
const LOOK: Duration = Duration::from_millis(50);

/// Changes by width.
#[derive(Serialize)]
struct ByWidth {
    bits: u32,
    lost_fetch_adds: u64,
    lost_compare_and_swaps: u64,
    lost_stores: u64,
}

/// A way to write back.
#[derive(Serialize)]
struct Tried {
    name: &'static str,
    works: bool,
}

/// Times that a line took to be seen.
#[derive(Serialize)]
struct Bucket {
    below_ns: u64,
    count: u16,
}

/// The findings, for programs.
#[derive(Serialize)]
struct Found {
    spec: String,
    hosts: u8,
    verdict: String,
    /// Whether a pod whose SCR is the memory's own words may be here.
    allows_hardware_scr: bool,
    lines: u64,
    stale_lines: u64,
    late_lines: u64,
    torn_lines: u64,
    lost_lines: u64,
    stored_lines: u64,
    unseen_lines: u64,
    words: u64,
    stale_words: u64,
    torn_words: u64,
    /// Changes of each width and kind.
    changes: u64,
    widths: Vec<ByWidth>,
    ordered_looks: u64,
    out_of_order: u64,
    write_back: Vec<Tried>,
    line_outlives_writer: Option<bool>,
    clocks_differ_ms: u64,
    visible_p50_ns: u64,
    visible_p99_ns: u64,
    visible_max_ns: u64,
    visible: Vec<Bucket>,
    load_ns: u64,
    compare_and_swap_ns: u64,
    write_back_ns: u64,
    read_afresh_ns: u64,
    write_back_bytes_s: u64,
    read_afresh_bytes_s: u64,
}

impl Found {
    fn new(spec: &PodSpec, hosts: u8, report: &Report) -> Self {
        let Report { verdict, evidence } = report;
        let Evidence { costs, .. } = evidence;
        let width = |(at, &bits): (usize, &u32)| ByWidth {
            bits,
            lost_fetch_adds: evidence.lost_adds[at],
            lost_compare_and_swaps: evidence.lost_replaces[at],
            lost_stores: evidence.lost_stores[at],
        };
        let way = |(at, &name): (usize, &&'static str)| {
            let bit = 1 << at;
            let works = evidence.ways_failed & bit == 0;
            (evidence.ways_tried & bit != 0).then_some(Tried { name, works })
        };
        let bucket =
            |(at, &count): (usize, &u16)| Bucket { below_ns: Histogram::below_ns(at), count };
        Self {
            spec: spec.to_string(),
            hosts,
            verdict: verdict.to_string(),
            allows_hardware_scr: verdict.allows_hardware_scr(),
            lines: evidence.lines,
            stale_lines: evidence.stale_lines,
            late_lines: evidence.late_lines,
            torn_lines: evidence.torn_lines,
            lost_lines: evidence.lost_lines,
            stored_lines: evidence.stored_lines,
            unseen_lines: evidence.unseen_lines,
            words: evidence.words,
            stale_words: evidence.stale_words,
            torn_words: evidence.torn_words,
            changes: evidence.changes,
            widths: WIDTHS.iter().enumerate().map(width).collect(),
            ordered_looks: evidence.looks,
            out_of_order: evidence.out_of_order,
            write_back: WAYS.iter().enumerate().filter_map(way).collect(),
            line_outlives_writer: match evidence.after_death {
                AfterDeath::Untried => None,
                survived => Some(survived == AfterDeath::Survived),
            },
            clocks_differ_ms: evidence.clocks_differ_ms,
            visible_p50_ns: evidence.visible_ns[0],
            visible_p99_ns: evidence.visible_ns[1],
            visible_max_ns: evidence.visible_ns[2],
            visible: evidence.visible.0.iter().enumerate().map(bucket).collect(),
            load_ns: costs.load_ns,
            compare_and_swap_ns: costs.replace_ns,
            write_back_ns: costs.clean_ns,
            read_afresh_ns: costs.read_ns,
            write_back_bytes_s: costs.clean_bytes_s,
            read_afresh_bytes_s: costs.read_bytes_s,
        }
    }

    fn text(&self) -> String {
        let of = |count: u64, all: u64| format!("{count} of {all}");
        let mut rows = vec![
            ("verdict", self.verdict.clone()),
            ("in", self.spec.clone()),
            ("hosts", self.hosts.to_string()),
            ("lines written back that were lost", of(self.lost_lines, self.lines)),
            ("  torn", of(self.torn_lines, self.lines)),
            ("  late", of(self.late_lines, self.lines)),
            ("  stale, unless invalidated", of(self.stale_lines, self.lines)),
            ("  seen in the wrong order", of(self.out_of_order, self.ordered_looks)),
            ("lines only stored that were not seen", of(self.unseen_lines, self.stored_lines)),
            ("words that were stale", of(self.stale_words, self.words)),
            ("  torn", self.torn_words.to_string()),
        ];
        let lost = |count: fn(&ByWidth) -> u64| {
            let by_width =
                self.widths.iter().map(|width| format!("{} bits {}", width.bits, count(width)));
            format!("{} (each of {})", by_width.collect::<Vec<_>>().join(", "), self.changes)
        };
        rows.push(("lost fetch-and-adds", lost(|width| width.lost_fetch_adds)));
        rows.push(("lost compare-and-swaps", lost(|width| width.lost_compare_and_swaps)));
        rows.push(("lost stores", lost(|width| width.lost_stores)));
        let ways = self
            .write_back
            .iter()
            .map(|way| format!("{} {}", way.name, if way.works { "works" } else { "FAILS" }));
        rows.push(("write-back", ways.collect::<Vec<_>>().join(", ")));
        let outlives = match self.line_outlives_writer {
            None => "not tried",
            Some(true) => "yes",
            Some(false) => "NO",
        };
        rows.push(("a line outlives its writer", outlives.to_owned()));
        rows.push(("clocks differ by", format!("{} ms at most", self.clocks_differ_ms)));
        rows.push((
            "a line is seen after",
            format!(
                "{} ns (median), {} ns (99 %), {} ns (longest)",
                self.visible_p50_ns, self.visible_p99_ns, self.visible_max_ns
            ),
        ));
        let megabytes = |bytes: u64| format!("{} MB/s", bytes / 1_000_000);
        rows.push(("a load of a word takes", format!("{} ns", self.load_ns)));
        rows.push(("a compare-and-swap", format!("{} ns", self.compare_and_swap_ns)));
        rows.push(("a line written back", format!("{} ns", self.write_back_ns)));
        rows.push(("a line read afresh", format!("{} ns", self.read_afresh_ns)));
        rows.push(("lines written back", megabytes(self.write_back_bytes_s)));
        rows.push(("lines read afresh", megabytes(self.read_afresh_bytes_s)));
        pairs(&rows) + &self.histogram()
    }

    /// How long lines took to be seen, as bars.
    fn histogram(&self) -> String {
        let most = self.visible.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1);
        let bar = |bucket: &Bucket| {
            let length = usize::from(bucket.count) * 40 / usize::from(most);
            format!("  < {:>9} ns {:>6} {}\n", bucket.below_ns, bucket.count, "#".repeat(length))
        };
        self.visible.iter().filter(|bucket| bucket.count > 0).map(bar).collect()
    }
}

/// The other host of a pair; it ends with this one.
struct Other(Child);

impl Other {
    fn start(spec: &PodSpec, within: u64) -> Result<Self> {
        let within = within.to_string();
        let arguments = ["--host", "b", "--within", &within, "--format", "json"];
        let mut command = this_program()?;
        command.arg("qualify").arg(spec.to_string()).args(arguments).stdout(Stdio::null());
        Ok(Self(command.spawn().context("cannot start host b")?))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It has ended, unless this host gives up.
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline && matches!(self.0.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn this_program() -> Result<Command> {
    let mut command =
        Command::new(std::env::current_exe().context("cannot find this program's own file")?);
    command.stdin(Stdio::null());
    Ok(command)
}

pub(crate) fn run(args: &QualifyArgs) -> Result<ExitCode> {
    let host = args.host.unwrap_or(0);
    let (memory, _) = memory(args, host)?;
    let other = args.pair.then(|| Other::start(&args.spec, args.within)).transpose()?;
    let ways = ways();
    let bar = output::progress(
        &format!("host {}", host_name(host)),
        1,
        "{prefix} {bar:30} {pos} of {len} {msg}",
    );
    let options = Options {
        host,
        hosts: usize::from(args.hosts),
        one_memory: args.spec.lnr.is_none(),
        effort: Effort { meet_within: Duration::from_secs(args.within), ..Effort::default() },
        ways: &ways.iter().map(Tool::way).collect::<Vec<_>>(),
        dying: Some(&|_, line, bytes| die(&args.spec, line, bytes)),
        progress: &|name, number, of| {
            bar.set_length(of as u64);
            bar.set_position(number as u64);
            bar.set_message(name);
        },
    };
    let report = qualify(&memory, &options);
    bar.finish_and_clear();
    drop(other);
    let report = report?;
    let found = Found::new(&args.spec, args.hosts, &report);
    output::print(&found, args.format, Found::text)?;
    let unfit = matches!(report.verdict, Verdict::Unfit(_));
    Ok(if unfit { ExitCode::from(PROBLEMS) } else { ExitCode::SUCCESS })
}

/// The memory, which the first host creates if it is a file, and the others wait for.
fn memory(args: &QualifyArgs, host: usize) -> Result<(Mapped, TriedPlace)> {
    let started = Instant::now();
    loop {
        match tried_memory(&args.spec, host == 0) {
            Ok(found) => return Ok(found),
            Err(tombolo_pod::PodError::Memory(_))
                if host > 0 && started.elapsed() < Duration::from_secs(args.within) =>
            {
                thread::sleep(LOOK);
            }
            Err(error) => bail!(error),
        }
    }
}

/// Writes bytes to a line, and then writes the line back.
type WriteLine = dyn Fn(&Mapped, u64, &LineBytes);

/// A way to write back, as this processor has it.
struct Tool {
    number: usize,
    write: Box<WriteLine>,
}

impl Tool {
    fn way(&self) -> Way<'_, Mapped> {
        Way { number: self.number, write: &*self.write }
    }
}

fn ways() -> Vec<Tool> {
    let known = |way: WriteBack| WAYS.iter().position(|name| *name == way.name());
    let tool = |way: WriteBack| {
        let write = move |memory: &Mapped, line: u64, bytes: &LineBytes| {
            memory.write_line_by(way, line, bytes);
        };
        known(way).map(|number| Tool { number, write: Box::new(write) })
    };
    WriteBack::available().into_iter().filter_map(tool).collect()
}

/// Has another process write a line, and die.
fn die(spec: &PodSpec, line: u64, bytes: &LineBytes) -> Result<(), String> {
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = this_program().map_err(|error| error.to_string())?;
    command.arg("dying-writer").arg(spec.to_string()).arg(line.to_string()).arg(hexadecimal);
    let status = command.status().map_err(|error| error.to_string())?;
    let killed = status.signal() == Some(Signal::KILL.as_raw());
    if killed { Ok(()) } else { Err(format!("the writer ended with {status}")) }
}

/// The process that does so.
pub(crate) fn write_and_die(args: &DyingWriterArgs) -> Result<()> {
    let (memory, _) = tried_memory(&args.spec, false)?;
    let bytes: Vec<u8> = (0..args.bytes.len() / 2)
        .map(|at| u8::from_str_radix(args.bytes.get(2 * at..2 * at + 2).unwrap_or(""), 16))
        .collect::<Result<_, _>>()
        .context("the line is not in hexadecimal")?;
    memory.write(LnrAddr::of_line(args.line), &bytes);
    memory.clean(SITES[0], Lines::new(args.line, 1));
    kill_process(getpid(), Signal::KILL).context("cannot end this process")
}

/// The verdict on a pod's memory, for people.
pub(crate) fn known(pod: &Pod) -> Option<String> {
    pod.qualification().map(|found: Qualification| found.verdict.to_string())
}

/// The warning, once at the start, about a pod that hosts of other machines may have, and whose
/// memory nobody has qualified.
pub(crate) fn unqualified(spec: &PodSpec, pod: &Pod) -> Option<String> {
    let between_machines = spec.is_between_machines().unwrap_or(false);
    let unknown = between_machines && pod.qualification().is_none();
    unknown.then(|| {
        format!(
            "nobody has tried whether hosts of several machines can share {spec}: run `tombolo qualify {spec} --host a` on one, and `--host b` on another"
        )
    })
}
