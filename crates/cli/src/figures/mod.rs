//! `tombolo figures`: a paper's evaluation in virtual time.

mod adaptive;
mod drawing;
mod folder;
mod megalon;
mod nomad;
mod sdm;
mod spent;
mod tigon;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum FiguresCommand {
    /// The MEGALON paper's evaluation.
    #[command(long_about = megalon::ABOUT, after_help = megalon::EXAMPLES)]
    Megalon(megalon::MegalonArgs),
    /// The SDM paper's evaluation.
    #[command(long_about = sdm::ABOUT, after_help = sdm::EXAMPLES)]
    Sdm(sdm::SdmArgs),
    /// Adaptive Coherence Management.
    #[command(long_about = adaptive::ABOUT, after_help = adaptive::EXAMPLES)]
    Adaptive(adaptive::AdaptiveArgs),
    /// The NOMAD paper's evaluation.
    #[command(long_about = nomad::ABOUT, after_help = nomad::EXAMPLES)]
    Nomad(nomad::NomadArgs),
    /// The Tigon paper's evaluation.
    #[command(long_about = tigon::ABOUT, after_help = tigon::EXAMPLES)]
    Tigon(tigon::TigonArgs),
}

pub(crate) fn run(command: &FiguresCommand) -> Result<()> {
    match command {
        FiguresCommand::Megalon(args) => megalon::run(args),
        FiguresCommand::Sdm(args) => sdm::run(args),
        FiguresCommand::Adaptive(args) => adaptive::run(args),
        FiguresCommand::Nomad(args) => nomad::run(args),
        FiguresCommand::Tigon(args) => tigon::run(args),
    }
}
