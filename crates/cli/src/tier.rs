//! `tombolo tier`: pages of one process in two tiers of memory.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;
use tombolo_tiering::Severity;

use crate::output::{Format, PROBLEMS, pairs, print};

pub(crate) const CHECK: &str = "\
Say why pages would not move between two tiers of memory on this machine.

It looks at the kernel (userfaultfd with UFFDIO_MOVE, WP_ASYNC and PAGEMAP_SCAN), at the rights of \
this process, and at the machine's NUMA nodes. Each obstacle is a sentence that says what to do. It \
ends with exit code 3 if there is an obstacle.";

#[derive(Debug, Subcommand)]
pub(crate) enum TierCommand {
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

#[derive(Serialize)]
struct Found {
    topic: &'static str,
    severity: &'static str,
    text: String,
}

pub(crate) fn run(command: &TierCommand) -> Result<ExitCode> {
    match command {
        TierCommand::Check(args) => check(args),
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
