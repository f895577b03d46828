//! `tombolo calibrate`: a profile of this machine, as if its processes were hosts of a pod.

mod machine;
mod steps;

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use tombolo_timing::Profile;

use crate::cli::CalibrateArgs;
use crate::output;

/// An entry of a profile: its name, its value, and where that comes from.
type Entry = (&'static str, f64, &'static str);

/// A section of a profile.
struct Section {
    name: &'static str,
    entries: Vec<Entry>,
}

impl Section {
    fn new(name: &'static str, entries: impl Into<Vec<Entry>>) -> Self {
        Self { name, entries: entries.into() }
    }
}

const COHERENCE: &str = "[coherence]";

pub(crate) fn run(args: &CalibrateArgs) -> Result<()> {
    let cores =
        std::thread::available_parallelism().context("cannot count the processors")?.get() as u32;
    ensure!(
        args.hosts <= cores,
        "this machine has {cores} processors, too few for {} hosts; use --hosts {cores} or less",
        args.hosts
    );
    let bar =
        output::progress("calibrating", args.rounds.into(), "{prefix} {pos}/{len} {spinner} {msg}");
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    let mut rounds = Vec::new();
    for _ in 0..args.rounds {
        rounds.push(measure(args, cores, &bar)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let text = text(args, cores, &medians(&rounds));
    Profile::parse("calibration", &text)?;
    match &args.out {
        None => output::say(text)?,
        Some(path) => {
            std::fs::write(path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// The times of the machine, measured once.
fn measure(args: &CalibrateArgs, cores: u32, bar: &ProgressBar) -> Result<Vec<Section>> {
    bar.set_message("caches and memory");
    let machine = machine::measure(args.hosts)?;
    let mut sections = vec![
        Section::new("[core]", machine.core),
        Section::new("[tlb]", machine.tlb),
        Section::new("[local]", machine.local),
        Section::new("[link]", &machine.local[1..]),
        Section::new("[device]", machine.local),
        Section::new(COHERENCE, machine.coherence),
        Section::new("[flush]", machine.flush),
    ];
    sections.extend(machine.caches.into_iter().map(|cache| Section::new("[[cache]]", cache)));
    bar.set_message("steps of the code");
    sections.push(Section::new("[steps]", steps::NONE));
    let bare = Profile::parse("calibration", &text(args, cores, &sections))?;
    sections.pop();
    sections.push(Section::new("[steps]", steps::measure(bare)?));
    Ok(sections)
}

/// Of each entry the median of all rounds.
fn medians(rounds: &[Vec<Section>]) -> Vec<Section> {
    let median_of = |section: usize, entry: usize| {
        median(rounds.iter().map(|round| round[section].entries[entry].1).collect())
    };
    let sections = rounds[0].iter().enumerate().map(|(number, section)| {
        let entries = section.entries.iter().enumerate();
        let entries =
            entries.map(|(entry, &(name, _, source))| (name, median_of(number, entry), source));
        Section::new(section.name, entries.collect::<Vec<_>>())
    });
    sections.collect()
}

/// The profile as TOML.
fn text(args: &CalibrateArgs, cores: u32, sections: &[Section]) -> String {
    let mut text = String::new();
    let quoted = |value: &str| format!("{value:?}");
    let _ = writeln!(text, "name = {}", quoted(&args.name));
    let _ = writeln!(
        text,
        "about = \"a machine of {cores} processors, {} of which are hosts that share its memory; medians of {} rounds\"",
        args.hosts, args.rounds
    );
    let pod = [
        ("hosts", f64::from(args.hosts), "as asked for"),
        ("cores", f64::from(cores / args.hosts), "processors, divided among the hosts"),
    ];
    for section in [&Section::new("[pod]", pod)].into_iter().chain(sections) {
        let _ = writeln!(text, "\n{}", section.name);
        let mut line = |value: String, source: &str| _ = writeln!(text, "{value:<28}# {source}");
        for (name, value, source) in &section.entries {
            line(format!("{name} = {}", (value * 100.0).round() / 100.0), source);
        }
        if section.name == COHERENCE {
            line("lnr = true".into(), "processors of one machine see the same everywhere");
        }
    }
    text
}

/// Runs `body` for each host at once, as hosts will: processors share caches and memory, and those
/// of virtual machines may even share a core. The numbers are the first host's.
fn in_company<T: Send>(hosts: u32, body: impl Fn(u32) -> Result<T> + Sync) -> Result<T> {
    std::thread::scope(|scope| {
        let body = &body;
        let others: Vec<_> = (1..hosts).map(|host| scope.spawn(move || body(host))).collect();
        let found = body(0);
        for other in others {
            other.join().expect("measuring does not panic")?;
        }
        found
    })
}

/// The least: whatever else runs on the machine can only add to it.
fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// Half of them are smaller.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
