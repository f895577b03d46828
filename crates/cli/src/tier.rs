//! `tombolo tier`: pages of one process in two tiers of memory.

mod loading;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde::Serialize;
use tombolo_tiering::{Options, Policy, Severity, stats_of};

use crate::cli::size;
use crate::output::{Format, PROBLEMS, pairs, print, say};

pub(crate) const CHECK: &str = "\
Say why pages would not move between two tiers of memory on this machine.

It looks at the kernel (userfaultfd with UFFDIO_MOVE, WP_ASYNC and PAGEMAP_SCAN), at the rights of \
this process, and at the machine's NUMA nodes. Each obstacle is a sentence that says what to do. It \
ends with exit code 3 if there is an obstacle.";

const RUN: &str = "\
Run a program whose large anonymous mappings lie in two tiers of memory.

A library is loaded into the program, which replaces none of its functions: it finds mappings of \
4 MiB and more, whatever allocator made them, and is told by the kernel what becomes of them. Mappings \
come from the fast node while their pages fit into --fast, and then from the slow one. The policy \
moves pages while the program uses them.

The library is libtombolo_preload.so, which cargo build --release -p tombolo-preload builds. \
Without it the program does not run.

Without --slow both tiers are of node 0: all mechanisms work, and nothing becomes faster. A program \
whose pages cannot move runs as it would without this command, and one line says why: the kernel \
moves no pages, or the program is linked statically, is a 32-bit one, or runs with the rights of \
another user (setuid). A child of \
fork() that runs no other program has no tiers.";

const RUN_EXAMPLES: &str = "\
Examples:
  tombolo tier run --fast 4GiB --slow numa:1 -- redis-server --port 7000
  tombolo tier run --fast 64MiB --policy tpp -- python3 program.py
  tombolo tier stat 4242 --watch 1";

#[derive(Debug, Subcommand)]
pub(crate) enum TierCommand {
    /// Run a program whose memory lies in two tiers.
    #[command(long_about = RUN, after_help = RUN_EXAMPLES)]
    Run(TierRunArgs),
    /// Show what has become of the pages of a program that was started by `tier run`.
    Stat(TierStatArgs),
    /// Say why pages would not move between two tiers of memory on this machine.
    #[command(long_about = CHECK)]
    Check(TierCheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TierCheckArgs {
    /// How findings are written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct TierRunArgs {
    /// Bytes of fast memory that the program's large mappings may take.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    fast: Option<u64>,
    /// The node of slow memory, such as numa:1; node 0 is the fast one.
    #[arg(long, value_name = "numa:N", default_value = "numa:0", value_parser = node)]
    slow: u32,
    /// Which pages move: none, tpp, nomad or break-even.
    #[arg(long, value_name = "P", default_value_t = Policy::Nomad)]
    policy: Policy,
    /// The library that is loaded into the program. Without it the one is taken that lies beside
    /// this command, in lib beside it, or in lib beside its folder.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// The program, and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

fn node(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("numa:").and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("{text} is no node; name one, such as numa:1"))
}

#[derive(Debug, Args)]
pub(crate) struct TierStatArgs {
    /// The process.
    #[arg(value_name = "PID")]
    process: u32,
    /// How numbers are written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Show them again every so many seconds, until the process ends.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    watch: Option<u32>,
}

#[derive(Serialize)]
struct Found {
    topic: &'static str,
    severity: &'static str,
    text: String,
}

pub(crate) fn run(command: &TierCommand) -> Result<ExitCode> {
    match command {
        TierCommand::Check(args) => check(args),
        TierCommand::Run(args) => start(args),
        TierCommand::Stat(args) => stat(args).map(|()| ExitCode::SUCCESS),
    }
}

fn check(args: &TierCheckArgs) -> Result<ExitCode> {
    let findings = tombolo_tiering::check();
    let is_hindered = findings.iter().any(|finding| finding.severity == Severity::Obstacle);
    let found: Vec<Found> = findings
        .into_iter()
        .map(|finding| {
            let severity = match finding.severity {
                Severity::Fine => "fine",
                Severity::Note => "note",
                Severity::Obstacle => "obstacle",
            };
            Found { topic: finding.topic, severity, text: finding.text }
        })
        .collect();
    print(&found, args.format, |found| {
        let rows: Vec<_> = found
            .iter()
            .map(|found| (found.severity, format!("{}: {}", found.topic, found.text)))
            .collect();
        pairs(&rows)
    })?;
    Ok(if is_hindered { ExitCode::from(PROBLEMS) } else { ExitCode::SUCCESS })
}

/// Becomes the program.
fn start(args: &TierRunArgs) -> Result<ExitCode> {
    let (program, arguments) = args.program.split_first().context("name a program to run")?;
    let mut command = Command::new(program);
    command.args(arguments);
    let library = loading::library(args.library.as_deref())?;
    match can_have_tiers(Path::new(program)) {
        Ok(()) => {
            let options = Options {
                far_node: args.slow,
                near_bytes: args.fast.map_or(usize::MAX, |bytes| bytes as usize),
                policy: args.policy,
                ..Options::default()
            };
            if options.is_one_node() {
                eprintln!("tombolo: both tiers are of node 0, so nothing becomes faster");
            }
            command.env(Options::VARIABLE, options.to_string());
            command.env("LD_PRELOAD", loading::with_others(library));
        }
        Err(reason) => eprintln!("tombolo: this program runs without tiers: {reason:#}"),
    }
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", Path::new(program).display()))
}

/// Whether pages can move, and the library can be loaded into the program.
fn can_have_tiers(program: &Path) -> Result<()> {
    tombolo_tiering::probe()?;
    loading::check(program)
}

fn stat(args: &TierStatArgs) -> Result<()> {
    let process = args.process;
    let mut rows = stats_of(process).with_context(|| {
        format!("process {process} has no tiers; start it by tombolo tier run, and name its number")
    })?;
    loop {
        show(&rows, args.format)?;
        let Some(seconds) = args.watch else { return Ok(()) };
        thread::sleep(Duration::from_secs(u64::from(seconds)));
        let Some(next) = stats_of(process) else { return Ok(()) };
        if args.format == Format::Table {
            say("\n")?;
        }
        rows = next;
    }
}

fn show(rows: &[(String, u64)], format: Format) -> Result<()> {
    let all: BTreeMap<&str, u64> =
        rows.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    print(&all, format, |_| {
        let rows: Vec<_> =
            rows.iter().map(|(name, value)| (name.as_str(), value.to_string())).collect();
        pairs(&rows)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_named() {
        assert_eq!(node("numa:3"), Ok(3));
        assert!(node("3").unwrap_err().contains("numa:1"));
    }
}
