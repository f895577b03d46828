//! `tombolo coherence run --areas`: a program whose pages are kept coherent in one of several ways.

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tombolo_disaggregated::{
    AreaSummary, AreasConfig, Choice, Config, Core, Protocol, Summary, System,
};
use tombolo_experiments::adaptive::{CHOICES, adaptive_test_bed, choice_name, pages_of};
use tombolo_programs::{Program, ProgramName};
use tombolo_regions::Mode;
use tombolo_timing::Profile;

use super::run::RunArgs;
use crate::output::{self, table};

/// How modes are chosen, as it is written.
pub(super) fn choice(text: &str) -> Result<Choice, String> {
    let fixed = text.strip_prefix("static:");
    let mode = fixed.and_then(|name| Mode::ALL.into_iter().find(|mode| mode.name() == name));
    match (text, mode) {
        ("adaptive", _) => Ok(Choice::Adaptive),
        (_, Some(mode)) => Ok(Choice::Static(mode)),
        _ => Err(format!(
            "{text} is none of static:direct, static:owned, static:replicated and adaptive"
        )),
    }
}

/// The conditions of a run, and its outcome.
#[derive(Serialize)]
struct Report {
    /// How modes were chosen; the summary's `areas` says what came of it.
    choice: &'static str,
    workload: String,
    hosts: usize,
    threads: usize,
    far_ns: f64,
    coherent: bool,
    #[serde(flatten)]
    summary: Summary,
    /// The time over that of the best fixed mode, where all are run.
    #[serde(skip_serializing_if = "Option::is_none")]
    over_best: Option<f64>,
}

#[derive(Serialize)]
struct Reports {
    results: Vec<Report>,
}

pub(super) fn run(args: &RunArgs, choice: Choice, name: ProgramName) -> Result<()> {
    let profile = match &args.profile {
        Some(path) => Profile::read(path)?,
        None => adaptive_test_bed(),
    };
    let direct = Choice::Static(Mode::Direct);
    if args.not_coherent && choice == direct && !args.compare {
        bail!(
            "a direct page is kept coherent by the hardware, and these memory nodes do not do that; \
             choose static:owned, static:replicated or adaptive, or leave --not-coherent away"
        );
    }
    let all = CHOICES.into_iter().filter(|&choice| !args.not_coherent || choice != direct);
    let choices: Vec<Choice> = if args.compare { all.collect() } else { vec![choice] };
    let mut results = Vec::new();
    for choice in choices {
        results.push(run_one(args, &profile, choice, name)?);
    }
    if args.compare {
        let fixed = results.iter().filter(|run| run.choice != choice_name(Choice::Adaptive));
        let best = fixed.map(|run| run.summary.seconds).fold(f64::INFINITY, f64::min);
        results.iter_mut().for_each(|run| run.over_best = Some(run.summary.seconds / best));
    }
    output::print(&Reports { results }, args.format, text)
}

fn run_one(args: &RunArgs, profile: &Profile, choice: Choice, name: ProgramName) -> Result<Report> {
    let parameters = args.input.parameters()?;
    let program: Program<Core> = Program::new(name, &parameters, args.threads)?;
    let config = args.config(Protocol::Bi);
    let far_ns = 2.0 * config.network_ns + config.memory_ns;
    let areas = AreasConfig::of(profile, choice, pages_of(&program), far_ns);
    let missing = || format!("the profile {} has no [paging] or no [[tier]]", profile.name);
    let areas = AreasConfig { coherent: !args.not_coherent, ..areas.with_context(missing)? };
    let filter = tombolo_coherence::Filter::Directory;
    let system: System = System::new(&Config { areas: Some(areas), filter, ..config })?;
    system.run_program(&program, |_, core| core);
    program.verify()?;
    Ok(Report {
        choice: choice_name(choice),
        workload: name.to_string(),
        hosts: args.hosts,
        threads: args.threads,
        far_ns,
        coherent: !args.not_coherent,
        summary: system.summary(),
        over_best: None,
    })
}

fn text(reports: &Reports) -> String {
    let header = [
        "areas",
        "time, ms",
        "over best",
        "faults",
        "hand-overs",
        "copies",
        "changes",
        "probes",
        "blocks at the end",
        "areas",
    ];
    let mut rows = table(&header);
    for run in &reports.results {
        let Some(areas) = &run.summary.areas else { continue };
        let AreaSummary { faults, upgrades, hand_overs, page_copies, changes, probes, .. } = *areas;
        let blocks = areas.blocks.iter().map(|(mode, count)| format!("{count} {mode}"));
        rows.add_row([
            run.choice.to_owned(),
            format!("{:.3}", 1000.0 * run.summary.seconds),
            run.over_best.map_or(String::new(), |over| format!("{over:.3}")),
            (faults + upgrades).to_string(),
            hand_overs.to_string(),
            page_copies.to_string(),
            changes.to_string(),
            probes.to_string(),
            blocks.collect::<Vec<_>>().join(", "),
            areas.areas.to_string(),
        ]);
    }
    format!("{rows}\n")
}
