//! The command `tombolo`.
//!
//! Exit codes: 0 if all went well, 1 if something went wrong, 2 if the command line is wrong, 3 if
//! `pod check` or `db check` found problems, `check` or a soak failures, `bench tpcc` violated conditions, 4 if these found none but could not decide all, 5 if
//! a host that serves was fenced.

#![deny(clippy::print_stdout)]

mod bench;
mod calibrate;
mod check;
mod children;
mod cli;
mod coherence;
mod config;
mod db;
mod figures;
mod files;
mod metrics;
mod mount;
mod output;
mod place;
mod pod;
mod saved;
mod serve;
mod served;
mod soak;
mod stop;
mod up;
mod workload;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::cli::{BenchCommand, Cli, Command, PodCommand};
use crate::output::NoOutput;

/// Indexes, and the tables of simulations, are large and looked up at random.
#[global_allocator]
static ALLOCATOR: tombolo_memory::HugePages = tombolo_memory::HugePages;

fn main() -> ExitCode {
    let parsed = match config::with_defaults_from_file() {
        Ok(command) => command.try_get_matches().and_then(|m| Cli::from_arg_matches(&m)),
        Err(error) => return fail(&error),
    };
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            if let Some(variable) = config::variable_of(&error) {
                eprintln!("That value comes from the environment variable {variable}.");
            }
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    match run(cli) {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Up(args) => up::run(&args)?,
        Command::Mount(args) => mount::run(&args)?,
        Command::Serve(args) => return serve::run(&args),
        Command::Pod(PodCommand::Create(args)) => pod::create(&args)?,
        Command::Pod(PodCommand::Info(args)) => pod::info(&args)?,
        Command::Pod(PodCommand::List(args)) => files::list(&args)?,
        Command::Pod(PodCommand::Remove(args)) => files::remove(&args)?,
        Command::Pod(PodCommand::Fence(args)) => pod::fence(&args)?,
        Command::Pod(PodCommand::Save(args)) => saved::save(&args)?,
        Command::Pod(PodCommand::Load(args)) => saved::load(&args)?,
        Command::Pod(PodCommand::Check(args)) => return pod::check(&args),
        Command::Bench(BenchCommand::Ycsb(args)) => bench::run(&args)?,
        Command::Bench(BenchCommand::Tpcc(args)) => return db::bench::tpcc(&args),
        Command::Bench(BenchCommand::YcsbTxn(args)) => return db::bench::ycsb(&args),
        Command::Bench(BenchCommand::Smallbank(args)) => return db::bench::smallbank(&args),
        Command::Bench(BenchCommand::Pagecache(args)) => bench::pages::run(&args)?,
        Command::Bench(BenchCommand::Resp(args)) => bench::resp::run(&args)?,
        Command::Bench(BenchCommand::Limit(args)) => bench::limit::run(&args)?,
        Command::Db(command) => return db::commands::run(&command),
        Command::Calibrate(args) => calibrate::run(&args)?,
        Command::Figures(command) => figures::run(&command)?,
        Command::Coherence(command) => return coherence::run(&command),
        Command::Check(args) => return check::run(&args),
        Command::Soak(args) => return soak::run(&args),
        Command::Worker(args) => bench::worker::run(&args)?,
        Command::PageWorker(args) => bench::pages::work(&args)?,
        Command::DbWorker(args) => return db::host::run(&args),
        Command::SoakWorker(args) => soak::worker::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn fail(error: &anyhow::Error) -> ExitCode {
    let closed = error.downcast_ref::<NoOutput>().is_some_and(NoOutput::is_closed);
    if closed {
        return ExitCode::SUCCESS;
    }
    if wants_json(std::env::args()) {
        eprintln!("{}", serde_json::json!({ "error": format!("{error:#}") }));
    } else {
        eprintln!("tombolo: {error:#}");
    }
    ExitCode::FAILURE
}

/// Whether a program reads what this one says.
fn wants_json(args: impl Iterator<Item = String>) -> bool {
    let args: Vec<String> = args.take_while(|arg| arg != "--").collect();
    let pairs = args.windows(2).any(|pair| pair == ["--format", "json"]);
    pairs || args.iter().any(|arg| arg == "--format=json")
}
