//! Why a history is not linearizable.

use std::fmt::{self, Debug};

use super::Model;
use super::search::{Finding, RecordOf, Search};
use super::timeline::{Bar, End, Timeline};
use crate::history::{Outcome, Record};

/// How many operations of each kind an explanation shows.
const SHOWN: usize = 12;

/// The proof that a key's operations have no legal order, at the first return that none explains.
/// Up to then they have one, so there a client was told something wrong. Operations that had not
/// returned by then may have taken effect; their later answers do not count.
///
/// `Display` explains it with a timeline: a row for each client, `|--n--|` an operation that
/// returned, `x` at the end of one that failed, `?` of one of unknown outcome, `>` of one that had
/// not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation<K, O, R> {
    /// The key.
    pub key: K,
    /// The longest order that is legal: its operations, those included that it needs and that
    /// nobody was told the outcome of by then.
    pub placed: Vec<Record<K, O, R>>,
    /// The state that `placed` leaves, as its `Debug` prints it.
    pub state: String,
    /// The completed operations of which one would have to be next, but none can be. Ordered by
    /// response: nothing that was invoked after the first responded could help.
    pub unplaced: Vec<Record<K, O, R>>,
    /// The operations of unknown outcome, and those that failed, which were invoked by then and are
    /// not among `placed`.
    pub bystanders: Vec<Record<K, O, R>>,
}

/// The explanation for `records`, of which at most `depth` completed operations can be placed. It
/// shows a later return than the first that no order explains if searches of fewer records run out
/// of their `budget`.
pub(super) fn explain<K: Clone, M: Model>(
    model: &M,
    records: &[&RecordOf<K, M>],
    depth: usize,
    budget: u64,
) -> Violation<K, M::Operation, M::Result> {
    let (early, depth) = first_unexplained(model, records, depth, budget);
    let records: Vec<_> = early.iter().collect();
    let mut search = Search::new(model, &records);
    search.replay(depth);
    let unplaced: Vec<_> = search.blocked().into_iter().cloned().collect();
    let deadline = unplaced.first().and_then(Record::responded_at);
    let failed = records.iter().copied().filter(|record| {
        matches!(record.outcome, Outcome::Failed { .. }) && Some(record.invoked_at) <= deadline
    });
    let mut bystanders: Vec<_> = search.unused().chain(failed).cloned().collect();
    bystanders.sort_by_key(|record| record.invoked_at);
    Violation {
        key: records[0].key.clone(),
        placed: search.path().cloned().collect(),
        state: format!("{:?}", search.state()),
        unplaced,
        bystanders,
    }
}

/// The known part of `records` at the first return that no order explains, and how many of the
/// operations that were completed by then can be placed; of all of them, `depth` can.
fn first_unexplained<K: Clone, M: Model>(
    model: &M,
    records: &[&RecordOf<K, M>],
    depth: usize,
    budget: u64,
) -> (Vec<RecordOf<K, M>>, usize) {
    let mut returns: Vec<_> = records.iter().filter(|record| record.result().is_some()).collect();
    returns.sort_by_key(|record| record.responded_at());
    let mut found = (records.iter().copied().cloned().collect(), depth);
    // A history that cannot be explained cannot be explained later either. Before `good` all can
    // be, or it takes too long.
    let (mut good, mut bad) = (0, returns.len() - 1);
    while good < bad {
        let middle = good.midpoint(bad);
        let early = known_at(records, returns[middle].responded_at());
        let finding = Search::new(model, &early.iter().collect::<Vec<_>>()).run(budget);
        if let Finding::Stuck { depth } = finding {
            found = (early, depth);
            bad = middle;
        } else {
            good = middle + 1;
        }
    }
    found
}

/// The records of operations invoked by `time`, as they were then: those that return later are
/// pending.
fn known_at<K: Clone, O: Clone, R: Clone>(
    records: &[&Record<K, O, R>],
    time: Option<u64>,
) -> Vec<Record<K, O, R>> {
    let invoked = records.iter().filter(|record| Some(record.invoked_at) <= time);
    invoked
        .map(|&record| {
            let returned = record.responded_at() <= time || record.result().is_none();
            let outcome = if returned { record.outcome.clone() } else { Outcome::Pending };
            Record {
                key: record.key.clone(),
                operation: record.operation.clone(),
                outcome,
                ..*record
            }
        })
        .collect()
}

/// A record, its label in the timeline, and whether to draw it in bold.
struct Line<'a, K, O, R> {
    record: &'a Record<K, O, R>,
    label: String,
    bold: bool,
}

impl<K, O, R> Violation<K, O, R> {
    fn placed_lines(&self) -> Vec<Line<'_, K, O, R>> {
        lines(&self.placed, "", false)
    }

    fn unplaced_lines(&self) -> Vec<Line<'_, K, O, R>> {
        let mut shown = lines(&self.unplaced, "!", true);
        shown.truncate(SHOWN);
        shown
    }

    fn bystander_lines(&self) -> Vec<Line<'_, K, O, R>> {
        lines(&self.bystanders, "~", false)
    }

    fn timeline(&self) -> Timeline {
        let bars = [self.placed_lines(), self.unplaced_lines(), self.bystander_lines()]
            .into_iter()
            .flatten()
            .map(|line| Bar {
                client: line.record.client,
                label: line.label,
                bold: line.bold,
                start: line.record.invoked_at,
                end: end(line.record),
            })
            .collect();
        Timeline { bars }
    }
}

/// The last of `records`, numbered from 1 after `prefix`.
fn lines<'a, K, O, R>(
    records: &'a [Record<K, O, R>],
    prefix: &str,
    bold: bool,
) -> Vec<Line<'a, K, O, R>> {
    records
        .iter()
        .enumerate()
        .map(|(index, record)| Line { record, label: format!("{prefix}{}", index + 1), bold })
        .skip(records.len().saturating_sub(SHOWN))
        .collect()
}

fn end<K, O, R>(record: &Record<K, O, R>) -> End {
    match record.outcome {
        Outcome::Returned { at, .. } => End::Marked(at, '|'),
        Outcome::Failed { at } => End::Marked(at, 'x'),
        Outcome::Unknown { at } => End::Marked(at, '?'),
        Outcome::Pending => End::Never,
    }
}

impl<K: Debug, O: Debug, R: Debug> fmt::Display for Violation<K, O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "key {:?} is not linearizable", self.key)?;
        writeln!(f, "\n{}", self.timeline())?;
        self.list(f, "in this order", self.placed.len(), &self.placed_lines())?;
        writeln!(f, "which leaves {}", self.state)?;
        self.list(f, "none can be next", self.unplaced.len(), &self.unplaced_lines())?;
        self.list(f, "not counted", self.bystanders.len(), &self.bystander_lines())
    }
}

impl<K, O: Debug, R: Debug> Violation<K, O, R> {
    fn list(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        total: usize,
        lines: &[Line<'_, K, O, R>],
    ) -> fmt::Result {
        if lines.is_empty() {
            return Ok(());
        }
        if lines.len() < total {
            writeln!(f, "{title} ({} of {total} shown):", lines.len())?;
        } else {
            writeln!(f, "{title}:")?;
        }
        for Line { record, label, .. } in lines {
            write!(f, "{label:>6}  client {}  {:?} ", record.client, record.operation)?;
            match &record.outcome {
                Outcome::Returned { result, .. } => write!(f, "-> {result:?}")?,
                Outcome::Failed { .. } => write!(f, "failed")?,
                Outcome::Unknown { .. } => write!(f, "with unknown outcome")?,
                Outcome::Pending => write!(f, "had not returned")?,
            }
            match record.responded_at() {
                Some(at) => writeln!(f, "  [{}, {at}]", record.invoked_at)?,
                None => writeln!(f, "  [{}, ..]", record.invoked_at)?,
            }
        }
        Ok(())
    }
}
