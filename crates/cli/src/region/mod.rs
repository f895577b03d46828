//! `tombolo region`: memory that processes share by pages.

mod commands;
mod run;
mod stat;
mod worker;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use tombolo_pod::PodSpec;
use tombolo_programs::ProgramName;
use tombolo_regions::Mode;

use crate::cli::size;
use crate::output::Format;

pub(crate) use worker::run as work;

const CREATE: &str = "\
Create a region of zeros in a pod, and the pod if there is none.

Processes of several hosts open a region by its name, and load and store in it. Its pages are kept coherent in \
blocks of 64: owned in place (one writer or many readers of the pod's own page), replicated (a replica for each \
host), or direct (by the hardware). Direct pages are refused unless the pod was created with --coherent. Pages \
can be owned or direct if the pod is a file in shared memory, and replicated anywhere.";

const CREATE_EXAMPLES: &str = "\
Examples:
  tombolo region create /dev/shm/pod table --bytes 64MiB
  tombolo region create /dev/shm/pod counters --bytes 1MiB --mode replicated";

const RUN: &str = "\
Run a program as several processes that share a region, and check its result.

Each process is a host, and runs one of the program's threads. All arrays lie in the region. The result is \
compared with what an oracle computes. With --switch, a host changes the modes of all blocks again and again \
meanwhile. With --kill, one host is killed after that time: the others end, and say so.

Exit code 3 if a result is wrong.";

const RUN_EXAMPLES: &str = "\
Examples:
  tombolo region run pr --hosts 4 --scale 9
  tombolo region run is --mode replicated --switch 5
  tombolo region run cg --kill 300";

#[derive(Debug, Subcommand)]
pub(crate) enum RegionCommand {
    /// Create a region, and its pod if there is none.
    #[command(long_about = CREATE, after_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// Run a program as several processes that share a region, and check its result.
    #[command(long_about = RUN, after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Show what has become of a region's blocks: modes, faults, hand-overs, changes.
    Stat(StatArgs),
    /// List the regions of a pod.
    List(ListArgs),
    /// Remove a region that no host uses.
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The pod: a file in shared memory, or a device.
    spec: PodSpec,
    /// The region's name, of up to 32 bytes.
    name: String,
    /// Bytes of the region.
    #[arg(long, value_parser = size, value_name = "SIZE")]
    bytes: u64,
    /// How its blocks are kept at first: owned, replicated or direct.
    #[arg(long, value_parser = mode, default_value = "owned", value_name = "MODE")]
    mode: Mode,
    /// A new pod's bytes for pages; room for four such regions, unless given.
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pod_bytes: Option<u64>,
    /// Hosts that may be in a new pod at once, up to 64.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=64), value_name = "N")]
    hosts: u8,
    /// The hardware keeps all memory of a new pod coherent among hosts, so pages may be direct.
    /// Processes of one machine may say so.
    #[arg(long)]
    coherent: bool,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The program, such as pr, cg or canneal; `tombolo coherence run --help` lists them.
    program: ProgramName,
    /// Processes, each of which is a host with one thread.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64), value_name = "N")]
    hosts: u8,
    /// How all blocks are kept at first: owned, replicated or direct.
    #[arg(long, value_parser = mode, default_value = "owned", value_name = "MODE")]
    mode: Mode,
    /// Change the modes of all blocks, each in turn, every so many milliseconds.
    #[arg(long, value_name = "MS")]
    switch: Option<u64>,
    /// Kill a host after so many milliseconds.
    #[arg(long, value_name = "MS")]
    kill: Option<u64>,
    /// The hardware does not keep the pod's memory coherent: no page may be direct.
    #[arg(long)]
    not_coherent: bool,
    /// The size of the program's input, as a power of two; 9, unless given.
    #[arg(long, default_value_t = 9, value_name = "N")]
    scale: u32,
    /// How often the program does its work.
    #[arg(long, default_value_t = 1, value_name = "N")]
    rounds: u32,
    /// Determines inputs.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    /// The pod.
    spec: PodSpec,
    /// The region.
    name: String,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Show it again every so many seconds, and what has happened since, until Ctrl-C.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    watch: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The pod.
    spec: PodSpec,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The pod.
    spec: PodSpec,
    /// The region.
    name: String,
}

/// One host of `region run`.
#[derive(Debug, Args)]
pub(crate) struct RegionWorkerArgs {
    spec: PodSpec,
    name: String,
    program: ProgramName,
    #[arg(long)]
    hosts: u8,
    #[arg(long)]
    thread: u8,
    #[arg(long)]
    scale: u32,
    #[arg(long)]
    rounds: u32,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    switch: Option<u64>,
    #[arg(long)]
    coherent: bool,
}

fn mode(text: &str) -> Result<Mode, String> {
    let known = Mode::ALL.into_iter().find(|mode| mode.name() == text);
    known.ok_or_else(|| format!("{text} is none of direct, owned and replicated"))
}

pub(crate) fn run(command: &RegionCommand) -> Result<ExitCode> {
    match command {
        RegionCommand::Create(args) => commands::create(args)?,
        RegionCommand::Run(args) => return run::run(args),
        RegionCommand::Stat(args) => stat::run(args)?,
        RegionCommand::List(args) => commands::list(args)?,
        RegionCommand::Remove(args) => commands::remove(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
