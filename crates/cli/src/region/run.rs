//! `tombolo region run`: a program as several processes.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tombolo_programs::Program;
use tombolo_regions::{BlockStats, Mode, RegionError, Regions, Shape, create_pod};

use super::worker::{Event, RegionProcessor, parameters};
use super::{RunArgs, commands, stat};
use crate::children::HostProcess;
use crate::output::{PROBLEMS, pairs, print};
use crate::place::Place;
use crate::stop::Stop;

const NAME: &str = "program";
/// How long hosts may take to find out that one of them has died.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Serialize)]
struct Ran {
    program: String,
    hosts: u8,
    mode: &'static str,
    bytes: u64,
    /// Of the slowest host; none if they have not ended.
    seconds: Option<f64>,
    /// Whether the result is what the oracle says; none if there is no result.
    right: Option<bool>,
    /// The messages of hosts that have not ended well.
    failures: Vec<String>,
    faults: u64,
    hand_overs: u64,
    changes: u64,
    lost_pages: u64,
    map: Vec<String>,
}

pub(super) fn run(args: &RunArgs) -> Result<ExitCode> {
    if args.mode == Mode::Direct && args.not_coherent {
        return Err(RegionError::NotCoherent.into());
    }
    let parameters = parameters(args.scale, args.rounds, args.seed);
    let program: Program<RegionProcessor> =
        Program::new(args.program, &parameters, args.hosts.into())?;
    let last = program.regions().last().context("the program has no arrays")?;
    let bytes = last.address + last.bytes;
    let place = Place::new(None, "region", 2 * bytes);
    let shape = Shape { coherent: !args.not_coherent, ..Shape::default() };
    let hosts = args.hosts.saturating_add(1).min(64);
    create_pod(&place.spec, commands::sizes(bytes), hosts, shape)?;
    let regions = Regions::join(&place.spec)?;
    regions.create(NAME, bytes, args.mode)?;
    let mut workers =
        (0..args.hosts).map(|thread| start(args, &place, thread)).collect::<Result<Vec<_>>>()?;
    let events = hear(args, &mut workers)?;
    let blocks = regions.blocks(NAME)?;
    let ran = report(args, bytes, &events, &blocks);
    print(&ran, args.format, text)?;
    let is_wrong = ran.right == Some(false) || (args.kill.is_none() && !ran.failures.is_empty());
    Ok(if is_wrong { ExitCode::from(PROBLEMS) } else { ExitCode::SUCCESS })
}

fn start(args: &RunArgs, place: &Place, thread: u8) -> Result<HostProcess> {
    let mut words = vec![
        "region-worker".to_owned(),
        place.spec.to_string(),
        NAME.to_owned(),
        args.program.to_string(),
    ];
    let options = [
        ("--hosts", u64::from(args.hosts)),
        ("--thread", thread.into()),
        ("--scale", args.scale.into()),
        ("--rounds", args.rounds.into()),
        ("--seed", args.seed),
    ];
    words.extend(options.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]));
    if let (Some(pause), 0) = (args.switch, thread) {
        words.extend(["--switch".to_owned(), pause.to_string()]);
    }
    if !args.not_coherent {
        words.push("--coherent".to_owned());
    }
    HostProcess::start(format!("host {thread}"), &words, None)
}

/// Each host's last event, or how the host ended.
fn hear(args: &RunArgs, workers: &mut [HostProcess]) -> Result<Vec<Result<Event>>> {
    let stop = Stop::on_signals()?;
    let started = Instant::now();
    let mut victim = args.kill.map(Duration::from_millis);
    let mut killed_at = None;
    let mut events: Vec<Option<Result<Event>>> = workers.iter().map(|_| None).collect();
    while events.iter().any(Option::is_none) {
        if stop.within(Duration::ZERO) {
            bail!("stopped");
        }
        if victim.is_some_and(|after| started.elapsed() >= after) {
            victim = None;
            killed_at = Some(Instant::now());
            workers.last_mut().context("there is a host")?.kill()?;
        }
        if killed_at.is_some_and(|at: Instant| at.elapsed() > PATIENCE) {
            bail!("hosts have not found out within {} s that one has died", PATIENCE.as_secs());
        }
        for (worker, event) in workers.iter_mut().zip(&mut events) {
            if event.is_some() {
                continue;
            }
            match worker.line(Duration::from_millis(5)) {
                Ok(None) => {}
                Ok(Some(line)) => {
                    *event = Some(serde_json::from_str(&line).map_err(Into::into));
                }
                Err(ended) => *event = Some(Err(ended)),
            }
        }
    }
    Ok(events.into_iter().flatten().collect())
}

fn report(args: &RunArgs, bytes: u64, events: &[Result<Event>], blocks: &[BlockStats]) -> Ran {
    let (mut seconds, mut right, mut failures) = (Some(0.0_f64), None, Vec::new());
    for (number, event) in events.iter().enumerate() {
        match event {
            Ok(Event::Done { seconds: took, problem }) => {
                seconds = seconds.map(|most| most.max(*took));
                if number == 0 {
                    right = Some(problem.is_none());
                }
                failures.extend(problem.iter().cloned());
            }
            Ok(Event::Failed { what }) => failures.push(format!("host {number}: {what}")),
            Err(error) => failures.push(format!("{error:#}")),
        }
        if !matches!(event, Ok(Event::Done { .. })) {
            seconds = None;
        }
    }
    let sum = |of: fn(&BlockStats) -> u64| blocks.iter().map(of).sum();
    Ran {
        program: args.program.to_string(),
        hosts: args.hosts,
        mode: args.mode.name(),
        bytes,
        seconds,
        right,
        failures,
        faults: sum(|block| block.faults),
        hand_overs: sum(|block| block.hand_overs),
        changes: sum(|block| block.changes),
        lost_pages: sum(|block| block.lost),
        map: stat::map(blocks),
    }
}

fn text(ran: &Ran) -> String {
    let right = match ran.right {
        Some(true) => "as the oracle says",
        Some(false) => "WRONG",
        None => "none",
    };
    let seconds = ran.seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.3}"));
    let mut text = pairs(&[
        ("program", ran.program.clone()),
        ("hosts", ran.hosts.to_string()),
        ("mode at first", ran.mode.to_owned()),
        ("bytes", ran.bytes.to_string()),
        ("seconds", seconds),
        ("result", right.to_owned()),
        ("faults", ran.faults.to_string()),
        ("hand-overs", ran.hand_overs.to_string()),
        ("changes", ran.changes.to_string()),
        ("lost pages", ran.lost_pages.to_string()),
    ]);
    for failure in &ran.failures {
        text.push_str(failure);
        text.push('\n');
    }
    for row in &ran.map {
        text.push_str(row);
        text.push('\n');
    }
    text
}
