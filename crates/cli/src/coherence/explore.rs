//! `tombolo coherence explore`: every order in which messages can arrive.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;
use tombolo_coherence::{
    BACK_INVALIDATION, BACK_INVALIDATION_AS_PUBLISHED, Fault, Filter, INVALIDATING, Limits,
    Protocol, SHARING, SHARING_AS_PUBLISHED, explore,
};
use tombolo_regions::{self as regions, Planted};

use super::run::FilterArg;
use crate::output::{self, Format, PROBLEMS, UNDECIDED, table};

pub(super) const ABOUT: &str = "\
Deliver the messages of the coherence protocols one by one, in every order, and check each state.

Hosts read, write and evict lines as they like. In each state that can be reached, one host may change \
a line or many may read it, whatever a host has is what was written last, no message is without its \
counterpart, and nobody waits for ever.

Several lines share nothing but the order in which messages arrive at a host. So one line is explored first, and then the states of several as numbers of states of one; of states that differ by nothing but the names of hosts and lines, one is visited.

The protocol regions keeps pages, and changes how they are kept: direct, owned in place, or replicated. \
Its steps are taken in every order, with --lines pages in one block, on a pod whose memory is coherent and on \
one whose memory is not; only a coherent one has direct pages.

With --faults, a mistake is planted in the protocol: one snoop is dropped, a host answers before it has \
written a line back, or a line is granted to one host though others keep it; with regions, a host answers or \
copies before it has revoked its mapping, a mode is published early, or a hand-over is dropped. Each has to be \
found; the shortest way to it is shown.

The exit code is 3 if a state is wrong, or a planted mistake was not found, and 4 if there were more \
states than --states.";

pub(super) const EXAMPLES: &str = "\
Examples:
  tombolo coherence explore
  tombolo coherence explore --protocol sha --hosts 2 --lines 2
  tombolo coherence explore --protocol inv --faults
  tombolo coherence explore --hosts 3 --lines 2
  tombolo coherence explore --protocol regions --hosts 2 --lines 2 --in-order";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tables {
    /// INV-CF.
    Inv,
    /// SHA-CF.
    Sha,
    /// CXL 3.0's back-invalidation.
    Bi,
    /// SHA-CF as SDM's paper tells it.
    ShaLiteral,
    /// CXL 3.0 as SDM's paper tells it.
    BiLiteral,
    /// Pages, and changes of how they are kept.
    Regions,
}

impl Tables {
    /// The tables of a protocol that keeps lines.
    fn of_lines(self) -> Option<&'static Protocol> {
        match self {
            Self::Inv => Some(&INVALIDATING),
            Self::Sha => Some(&SHARING),
            Self::Bi => Some(&BACK_INVALIDATION),
            Self::ShaLiteral => Some(&SHARING_AS_PUBLISHED),
            Self::BiLiteral => Some(&BACK_INVALIDATION_AS_PUBLISHED),
            Self::Regions => None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ExploreArgs {
    /// A protocol; may be given several times; all, unless given.
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    protocol: Vec<Tables>,
    /// The node's knowledge; both kinds, unless given.
    #[arg(long, value_enum)]
    filter: Option<FilterArg>,
    /// Hosts.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    hosts: u8,
    /// Lines.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=4))]
    lines: u8,
    /// Changes of mode under way at once, at most; for regions.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=8))]
    changes: u8,
    /// Single pages are replicated as probes, too; for regions.
    #[arg(long)]
    probes: bool,
    /// Each host's processor wants one line at a time, and waits for it.
    #[arg(long)]
    in_order: bool,
    /// States to be visited, at most: a kilobyte each of one line (10 million, in any case), some
    /// 20 bytes of several.
    #[arg(long, default_value_t = 500_000_000, value_name = "N")]
    states: usize,
    /// Plant mistakes, one at a time.
    #[arg(long)]
    faults: bool,
    /// How the result is written.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    results: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    protocol: &'static str,
    filter: &'static str,
    hosts: u8,
    lines: u8,
    /// The mistake that was planted.
    fault: Option<&'static str>,
    states: usize,
    /// Of states that differ by the names of hosts and lines, one.
    visited: usize,
    steps: usize,
    whole: bool,
    /// The fault of a state, and the steps that led to it.
    violation: Option<String>,
    way: Vec<String>,
}

impl ExploreArgs {
    /// A row with nothing explored yet.
    fn row(
        &self,
        protocol: &'static str,
        filter: &'static str,
        fault: Option<&'static str>,
    ) -> Row {
        Row {
            protocol,
            filter,
            hosts: self.hosts,
            lines: self.lines,
            fault,
            states: 0,
            visited: 0,
            steps: 0,
            whole: false,
            violation: None,
            way: Vec::new(),
        }
    }
}

impl Row {
    fn is_wrong(&self) -> bool {
        self.fault.is_some() != self.violation.is_some()
    }
}

fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::SnoopDropped => "snoop dropped",
        Fault::AnswerFirst => "answer before write-back",
        Fault::GrantAlone => "granted alone",
    }
}

pub(super) fn run(args: &ExploreArgs) -> Result<ExitCode> {
    let protocols =
        if args.protocol.is_empty() { Tables::value_variants() } else { &args.protocol };
    let filters = match args.filter {
        Some(filter) => vec![filter],
        None => FilterArg::value_variants().to_vec(),
    };
    let faults = if args.faults { Fault::ALL.map(Some).to_vec() } else { vec![None] };
    let mut results = Vec::new();
    for protocol in protocols {
        match protocol.of_lines() {
            Some(lines) => {
                for &filter in &filters {
                    results.extend(
                        faults.iter().map(|&fault| explore_one(args, lines, filter, fault)),
                    );
                }
            }
            None => results.extend(
                [true, false].into_iter().flat_map(|coherent| explore_regions(args, coherent)),
            ),
        }
    }
    let wrong = results.iter().any(Row::is_wrong);
    let undecided = results.iter().any(|row| row.violation.is_none() && !row.whole);
    output::print(&Report { results }, args.format, text)?;
    Ok(match (wrong, undecided) {
        (true, _) => ExitCode::from(PROBLEMS),
        (false, true) => ExitCode::from(UNDECIDED),
        (false, false) => ExitCode::SUCCESS,
    })
}

fn explore_one(
    args: &ExploreArgs,
    protocol: &'static Protocol,
    filter: FilterArg,
    fault: Option<Fault>,
) -> Row {
    let limits = Limits {
        hosts: args.hosts.into(),
        lines: args.lines.into(),
        filter: Filter::from(filter),
        in_order: args.in_order,
        states: args.states,
    };
    let mut row = args.row(protocol.name, filter.name(), fault.map(name));
    match explore(protocol, limits, fault) {
        Ok(explored) => {
            (row.states, row.visited) = (explored.states, explored.visited);
            (row.steps, row.whole) = (explored.steps, explored.whole);
        }
        Err(violation) => (row.violation, row.way) = (Some(violation.what), violation.steps),
    }
    row
}

/// Explores the protocol of regions, on pods whose memory is coherent or is not.
fn explore_regions(args: &ExploreArgs, coherent: bool) -> Vec<Row> {
    let limits = regions::Limits {
        hosts: args.hosts.into(),
        pages: args.lines.into(),
        block_pages: args.lines.into(),
        coherent,
        probes: args.probes,
        changes: args.changes.into(),
        in_order: args.in_order,
        states: args.states,
    };
    let planted = Planted::ALL.into_iter().filter(|planted| planted.applies(coherent));
    let planted = if args.faults { planted.map(Some).collect() } else { vec![None] };
    let memory = if coherent { "coherent" } else { "not coherent" };
    let explored = |planted: Option<Planted>| {
        let mut row = args.row("regions", memory, planted.map(Planted::name));
        match regions::explore(limits, planted) {
            Ok(explored) => {
                (row.states, row.visited) = (explored.states, explored.visited);
                (row.steps, row.whole) = (explored.steps, explored.whole);
            }
            Err(violation) => (row.violation, row.way) = (Some(violation.what), violation.steps),
        }
        row
    };
    planted.into_iter().map(explored).collect()
}

fn text(report: &Report) -> String {
    let mut rows =
        table(&["protocol", "node", "hosts", "lines", "states", "visited", "steps", "found"]);
    let mut ways = String::new();
    for row in &report.results {
        let found = match (&row.violation, row.fault, row.whole) {
            (Some(_), Some(fault), _) => format!("{fault}: found"),
            (Some(_), None, _) => "a violation".to_owned(),
            (None, _, true) => "all states are right".to_owned(),
            (None, _, false) => "no violation, but there are more states".to_owned(),
        };
        let (hosts, lines) = (row.hosts.to_string(), row.lines.to_string());
        let [states, visited, steps] =
            [row.states, row.visited, row.steps].map(|number| number.to_string());
        rows.add_row([row.protocol, row.filter, &hosts, &lines, &states, &visited, &steps, &found]);
        if let Some(violation) = &row.violation {
            let fault = row.fault.map(|fault| format!(", {fault}")).unwrap_or_default();
            ways += &format!("\n{}, {}{fault}: {violation}\n", row.protocol, row.filter);
            row.way.iter().for_each(|step| ways += &format!("  {step}\n"));
        }
    }
    format!("{rows}\n{ways}")
}
