//! `tombolo coherence record`: a trace of what a program does to memory.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use tombolo_disaggregated::{Config, Protocol, System};
use tombolo_programs::{Program, ProgramName, Recorder};

use super::run::{InputArgs, program};

use crate::output;

pub(super) const ABOUT: &str = "\
Write a binary trace of what a program does to memory (docs/traces.md), for `tombolo coherence run \
--trace` and for other simulators.

The program runs on the system of SDM's paper, with four hosts; records are in the order in which its \
threads come to them there.";

pub(super) const EXAMPLES: &str = "\
Examples:
  tombolo coherence record --workload bfs --threads 8 --out bfs.trace
  tombolo coherence run --trace bfs.trace --compare";

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The program.
    #[arg(long, value_parser = program, value_name = "NAME")]
    workload: ProgramName,
    #[command(flatten)]
    input: InputArgs,
    /// Threads.
    #[arg(long, default_value_t = 32, value_name = "N")]
    threads: usize,
    /// Where the trace goes.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(super) fn run(args: &RecordArgs) -> Result<()> {
    let system: System =
        System::new(&Config { threads: args.threads, ..Config::paper(Protocol::Sha, 4) })?;
    let parameters = args.input.parameters()?;
    let program = Program::new(args.workload, &parameters, args.threads)?;
    let shown = args.out.display();
    let cannot = || format!("cannot write {shown}");
    let file = File::create(&args.out).with_context(cannot)?;
    let recorder = Recorder::new(BufWriter::new(file), args.threads as u32)?;
    system.run_program(&program, |thread, core| recorder.processor(thread as u32, core));
    program.verify()?;
    let (records, writer) = recorder.finish().with_context(cannot)?;
    writer.into_inner().map_err(std::io::IntoInnerError::into_error).with_context(cannot)?;
    output::say(format!(
        "{shown}: {records} accesses of {} threads of {}\n",
        args.threads, args.workload
    ))?;
    Ok(())
}
