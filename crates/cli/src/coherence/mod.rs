//! `tombolo coherence`: protocols that keep memory nodes coherent, run and explored.

mod areas;
mod explore;
mod record;
mod run;

pub(crate) use run::read_graph;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum CoherenceCommand {
    /// Run a program, or a trace, on hosts whose data lie in memory nodes.
    #[command(long_about = run::ABOUT, after_help = run::EXAMPLES)]
    Run(Box<run::RunArgs>),
    /// Write a trace of what a program does to memory.
    #[command(long_about = record::ABOUT, after_help = record::EXAMPLES)]
    Record(record::RecordArgs),
    /// Deliver the messages of the protocols in every order, and check each state.
    #[command(long_about = explore::ABOUT, after_help = explore::EXAMPLES)]
    Explore(explore::ExploreArgs),
}

pub(crate) fn run(command: &CoherenceCommand) -> Result<std::process::ExitCode> {
    match command {
        CoherenceCommand::Run(args) => run::run(args).map(|()| std::process::ExitCode::SUCCESS),
        CoherenceCommand::Record(args) => {
            record::run(args).map(|()| std::process::ExitCode::SUCCESS)
        }
        CoherenceCommand::Explore(args) => explore::run(args),
    }
}
