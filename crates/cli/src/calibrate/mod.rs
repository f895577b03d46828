//! `tombolo calibrate`: a profile of this machine, as if its processes were hosts of a pod.

mod machine;
mod steps;

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use tombolo_timing::Profile;

use crate::cli::CalibrateArgs;
use crate::output;

/// An entry of a profile: its name, its value, and where that comes from.
type Entry = (&'static str, f64, &'static str);

pub(crate) fn run(args: &CalibrateArgs) -> Result<()> {
    let cores =
        std::thread::available_parallelism().context("cannot count the processors")?.get() as u32;
    ensure!(
        args.hosts <= cores,
        "this machine has {cores} processors, too few for {} hosts; use --hosts {cores} or less",
        args.hosts
    );
    let bar = output::progress("calibrating", 0, "{prefix} {spinner} {msg}");
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar.set_message("caches and memory");
    let machine = machine::measure(args.hosts)?;
    let bare = text(args, cores, &machine, &steps::NONE);
    bar.set_message("steps of the code");
    let profile = Profile::parse("calibration", &bare)?;
    let steps = steps::measure(profile)?;
    bar.finish_and_clear();
    let text = text(args, cores, &machine, &steps);
    Profile::parse("calibration", &text)?;
    match &args.out {
        None => print!("{text}"),
        Some(path) => {
            std::fs::write(path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// The profile as TOML.
fn text(
    args: &CalibrateArgs,
    cores: u32,
    machine: &machine::Machine,
    steps: &[Entry; 5],
) -> String {
    let mut text = String::new();
    let quoted = |value: &str| format!("{value:?}");
    let _ = writeln!(text, "name = {}", quoted(&args.name));
    let _ = writeln!(
        text,
        "about = \"a machine of {cores} processors, {} of which are hosts that share its memory\"",
        args.hosts
    );
    let hosts = [
        ("hosts", f64::from(args.hosts), "as asked for"),
        ("cores", f64::from(cores / args.hosts), "processors, divided among the hosts"),
    ];
    section(&mut text, "[pod]", &hosts);
    section(&mut text, "[core]", &machine.core);
    section(&mut text, "[tlb]", &machine.tlb);
    for cache in &machine.caches {
        section(&mut text, "[[cache]]", cache);
    }
    section(&mut text, "[local]", &machine.local);
    section(&mut text, "[link]", &machine.local[1..]);
    section(&mut text, "[device]", &machine.local);
    section(&mut text, "[coherence]", &machine.coherence);
    section(&mut text, "[flush]", &machine.flush);
    section(&mut text, "[steps]", steps);
    text
}

fn section(text: &mut String, name: &str, entries: &[Entry]) {
    let _ = writeln!(text, "\n{name}");
    for (name, value, source) in entries {
        let value = format!("{name} = {}", (value * 100.0).round() / 100.0);
        let _ = writeln!(text, "{value:<28}# {source}");
    }
}

/// Runs `body` for each host at once, as hosts will: processors share caches and memory, and those of virtual
/// machines may even share a core. What the first host has found.
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
