//! The command `tombolo`.
//!
//! Its exit codes are in docs/reference/exit-codes.md.

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
mod messages;
mod mount;
mod open_files;
mod operation;
mod output;
mod place;
mod pod;
mod qualify;
mod region;
mod saved;
mod serve;
mod served;
mod soak;
mod stop;
mod tier;
mod up;
mod workload;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::FromArgMatches;

use crate::cli::{BenchCommand, Cli, Command, PodCommand};
use crate::output::NoOutput;

/// Indexes, and the tables of simulations, are large and looked up at random.
#[global_allocator]
static ALLOCATOR: tombolo_memory::HugePages = tombolo_memory::HugePages;

fn main() -> ExitCode {
    tombolo_memory::on_memory_error(tombolo_memory::OnMemoryError::EndProcess);
    let parsed = match config::with_defaults_from_file() {
        Ok(command) => command.try_get_matches().and_then(|m| Cli::from_arg_matches(&m)),
        Err(error) => return fail(&error),
    };
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
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
        Command::Bench(BenchCommand::Trace(args)) => bench::trace::run(&args)?,
        Command::Bench(BenchCommand::Limit(args)) => bench::limit::run(&args)?,
        Command::Db(command) => return db::commands::run(&command),
        Command::Qualify(args) => return qualify::run(&args),
        Command::DyingWriter(args) => qualify::write_and_die(&args)?,
        Command::Sql(args) => db::sql::serve(&args)?,
        Command::Calibrate(args) => calibrate::run(&args)?,
        Command::Figures(command) => figures::run(&command)?,
        Command::Coherence(command) => return coherence::run(&command),
        Command::Check(args) => return check::run(&args),
        Command::Soak(args) => return soak::run(&args),
        Command::Tier(command) => return tier::run(&command),
        Command::Region(command) => return region::run(&command),
        Command::RegionWorker(args) => region::work(&args)?,
        Command::Worker(args) => bench::worker::run(&args)?,
        Command::PageWorker(args) => bench::pages::work(&args)?,
        Command::DbWorker(args) => return db::host::run(&args),
        Command::SoakWorker(args) => soak::worker::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what is wrong with the command line; or prints the help, or the version, that it asks for.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let text = error.render();
        let said = if std::io::stdout().is_terminal() {
            output::say(text.ansi())
        } else {
            output::say(text)
        };
        return match said {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        };
    }
    let variable = config::variable_of(error);
    let origin = variable
        .map(|variable| format!("That value comes from the environment variable {variable}.\n"));
    let origin = origin.unwrap_or_default();
    if wants_json(std::env::args()) {
        let text = format!("{}{origin}", error.render());
        eprintln!("{}", serde_json::json!({ "error": text.trim_end() }));
    } else {
        let _ = error.print();
        eprint!("{origin}");
    }
    ExitCode::from(error.exit_code() as u8)
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
