//! Why a history is not serializable.

use std::fmt::{self, Debug};
use std::hash::Hash;

use super::anomaly::{Anomaly, Cycle, Direct};
use super::facts::{Facts, Key, keys_of_operation};
use super::graph::{Edge, Kind};
use super::{Condition, Question};
use crate::transactions::{Operation, Outcome, Transaction};

/// How many operations of a transaction, and values of a list or a scan, an explanation shows.
const SHOWN: usize = 12;

/// The proof that a history is not serializable.
///
/// `Display` tells it as a short story: the transactions, named T1 and on, and why each has to come
/// before the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation<K, V> {
    /// The condition that the history does not meet.
    pub condition: Condition,
    /// The fault by name. With several cycles, one of them has this name, and none a milder one.
    pub anomaly: Anomaly,
    /// The transactions that it takes; the first is T1.
    pub transactions: Vec<Transaction<K, V>>,
    /// The keys that it is about.
    pub keys: Vec<K>,
    /// A sentence that tells the fault, if it needs no cycle.
    pub what: Option<String>,
    /// Each has to come before the next, and the last before the first. With several cycles, the
    /// order of some writes is not known, and each order closes one of them, or one like them.
    pub cycles: Vec<Vec<Step>>,
}

/// Why a transaction comes before another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The index of the first among the violation's transactions.
    pub from: usize,
    /// The index of the second.
    pub to: usize,
    /// In one word.
    pub dependency: Dependency,
    /// Whether it is one of several possibilities, each of which closes a cycle.
    pub assumed: bool,
    /// In one sentence.
    pub why: String,
}

/// How a transaction depends on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dependency {
    /// It wrote over what the other wrote.
    WriteWrite,
    /// It read what the other wrote.
    WriteRead,
    /// It wrote over what the other read.
    ReadWrite,
    /// It inserted or deleted a row in a range that the other scanned.
    ScanWrite,
    /// It came later in the same session.
    Session,
    /// It began after the other ended.
    RealTime,
}

impl<K, V> Violation<K, V>
where
    K: Ord + Clone + Debug,
    V: Eq + Hash + Clone + Debug,
{
    pub(super) fn direct(question: &Question<'_, '_, K, V>, direct: &Direct) -> Self {
        let cast = direct.transactions.iter().map(|&at| question.facts.transactions[at].clone());
        Self {
            condition: question.condition,
            anomaly: direct.phenomenon.direct(),
            transactions: cast.collect(),
            keys: vec![question.facts.name(direct.key).clone()],
            what: Some(direct.what.clone()),
            cycles: Vec::new(),
        }
    }

    pub(super) fn cycles(question: &Question<'_, '_, K, V>, cycles: &[Cycle]) -> Self {
        let facts = question.facts;
        let writes = |transaction: usize, key: Key| {
            let operations = &facts.transactions[transaction].operations;
            operations.iter().any(|operation| is_write(operation, facts.name(key)))
        };
        let names = cycles.iter().map(|cycle| cycle.anomaly(writes));
        let anomaly = names.max_by_key(|anomaly| (anomaly.by_time, anomaly.phenomenon));
        let mut cast: Vec<usize> = Vec::new();
        for edge in cycles.iter().flat_map(|cycle| &cycle.0) {
            if !cast.contains(&edge.from) {
                cast.push(edge.from);
            }
        }
        let mut keys: Vec<_> =
            cycles.iter().flat_map(|cycle| &cycle.0).filter_map(|edge| edge.kind.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        let narrator = Narrator { facts, cast: &cast };
        Self {
            condition: question.condition,
            anomaly: anomaly.expect("there is a cycle"),
            transactions: cast.iter().map(|&at| facts.transactions[at].clone()).collect(),
            keys: keys.into_iter().map(|key| facts.name(key).clone()).collect(),
            what: None,
            cycles: cycles
                .iter()
                .map(|cycle| cycle.0.iter().map(|edge| narrator.step(edge)).collect())
                .collect(),
        }
    }
}

fn is_write<K: PartialEq, V>(operation: &Operation<K, V>, name: &K) -> bool {
    match operation {
        Operation::Append { key, .. }
        | Operation::Write { key, .. }
        | Operation::Insert { key, .. }
        | Operation::Delete { key } => key == name,
        _ => false,
    }
}

struct Narrator<'a, 'h, K, V> {
    facts: &'a Facts<'h, K, V>,
    /// The transactions that have names.
    cast: &'a [usize],
}

impl<K: Ord + Debug, V: Eq + Hash + Debug> Narrator<'_, '_, K, V> {
    fn step(&self, edge: &Edge) -> Step {
        let (from, to) = (self.number(edge.from), self.number(edge.to));
        let (a, b) = (format!("T{}", from + 1), format!("T{}", to + 1));
        let (dependency, why) = match edge.kind {
            Kind::Ww(key) => {
                let (first, second) = (self.write(edge.from, key), self.write(edge.to, key));
                let why = format!("{a} {first}, and then {b} {second}");
                (Dependency::WriteWrite, why)
            }
            Kind::Wr(key) => {
                let read = self.read(edge.to, key, Some(edge.from));
                let why = format!("{b} {read}, after {a} {}", self.write(edge.from, key));
                (Dependency::WriteRead, why)
            }
            Kind::Rw { key, in_range } => {
                let read = self.read(edge.from, key, None);
                let why = format!("{a} {read}, before {b} {}", self.write(edge.to, key));
                let dependency =
                    if in_range { Dependency::ScanWrite } else { Dependency::ReadWrite };
                (dependency, why)
            }
            Kind::Session => (Dependency::Session, format!("{a} ended before {b} in one session")),
            Kind::RealTime => (Dependency::RealTime, format!("{a} ended before {b} began")),
        };
        Step { from, to, dependency, assumed: edge.level > 0, why }
    }

    fn number(&self, transaction: usize) -> usize {
        let number = self.cast.iter().position(|&member| member == transaction);
        number.expect("all members of cycles are in the cast")
    }

    fn write(&self, transaction: usize, key: Key) -> String {
        let (operations, name) =
            (&self.facts.transactions[transaction].operations, self.facts.name(key));
        let last = operations.iter().rev().find(|operation| is_write(operation, name));
        last.map_or_else(|| format!("wrote {name:?}"), tell)
    }

    /// How the transaction read the key: the first read that met the version of `writer`, if there
    /// is one, or else the first read.
    fn read(&self, transaction: usize, key: Key, writer: Option<usize>) -> String {
        let operations = &self.facts.transactions[transaction].operations;
        let reads = || operations.iter().filter(|operation| self.is_read(operation, key));
        let met = reads().find(|read| writer.is_some() && self.meets(read, key) == writer);
        let name = self.facts.name(key);
        match met.or_else(|| reads().next()) {
            Some(Operation::Scan { found, .. }) => {
                let row = found.iter().find(|(found, _)| found == name);
                match row {
                    Some((_, value)) => format!("scanned, and found {name:?} as {value:?}"),
                    None => format!("scanned, and did not find {name:?}"),
                }
            }
            Some(Operation::Insert { .. }) => format!("inserted {name:?}, which was absent"),
            Some(Operation::Delete { .. }) => format!("deleted {name:?}, which was there"),
            Some(read) => tell(read),
            None => format!("read {name:?}"),
        }
    }

    fn is_read(&self, operation: &Operation<K, V>, key: Key) -> bool {
        let name = self.facts.name(key);
        match operation {
            Operation::ReadList { key, .. }
            | Operation::Read { key, .. }
            | Operation::Insert { key, .. }
            | Operation::Delete { key } => key == name,
            Operation::Scan { from, to, .. } => self.facts.between(from, to).contains(&key),
            Operation::Append { .. } | Operation::Write { .. } => false,
        }
    }

    /// The transaction whose version of the key was read.
    fn meets(&self, read: &Operation<K, V>, key: Key) -> Option<usize> {
        let value = match read {
            Operation::ReadList { list, .. } => list.last(),
            Operation::Read { value, .. } => value.as_ref(),
            Operation::Scan { found, .. } => {
                let name = self.facts.name(key);
                found.iter().find(|(found, _)| found == name).map(|(_, value)| value)
            }
            _ => None,
        };
        Some(self.facts.origin(key, value?)?.transaction)
    }
}

/// An operation in words.
fn tell<K: Debug, V: Debug>(operation: &Operation<K, V>) -> String {
    match operation {
        Operation::Append { key, value } => format!("appended {value:?} to {key:?}"),
        Operation::ReadList { key, list } => format!("read {key:?} as [{}]", ending(list)),
        Operation::Read { key, value: Some(value) } => format!("read {key:?} as {value:?}"),
        Operation::Read { key, value: None } => format!("read {key:?}, which was absent"),
        Operation::Write { key, value } => format!("wrote {value:?} to {key:?}"),
        Operation::Insert { key, value } => format!("inserted {key:?} as {value:?}"),
        Operation::Delete { key } => format!("deleted {key:?}"),
        Operation::Scan { from, to, found } => {
            let found: Vec<_> = found.iter().map(|(key, value)| Pair(key, value)).collect();
            format!("scanned from {from:?} to {to:?}, and found {{{}}}", ending(&found))
        }
    }
}

/// A row that was found.
struct Pair<'a, K, V>(&'a K, &'a V);

impl<K: Debug, V: Debug> Debug for Pair<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {:?}", self.0, self.1)
    }
}

/// The last of `items`.
fn ending<T: Debug>(items: &[T]) -> String {
    let hidden = items.len().saturating_sub(SHOWN);
    let start = (hidden > 0).then(|| format!("{hidden} more"));
    let shown = items[hidden..].iter().map(|item| format!("{item:?}"));
    start.into_iter().chain(shown).collect::<Vec<_>>().join(", ")
}

impl<K: Ord + Debug, V: Debug> fmt::Display for Violation<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not {}: {}", self.condition, self.anomaly)?;
        for (at, transaction) in self.transactions.iter().enumerate() {
            writeln!(f)?;
            self.introduce(f, at, transaction)?;
        }
        if let Some(what) = &self.what {
            writeln!(f, "\nkey {:?}: {what}", self.keys[0])?;
        }
        if self.cycles.len() > 1 {
            writeln!(f, "\nreads do not tell the order of writes; each order closes a cycle")?;
        }
        for cycle in &self.cycles {
            writeln!(f)?;
            for step in cycle {
                let (from, to) = (step.from + 1, step.to + 1);
                let assumed = if step.assumed { "if " } else { "" };
                let dependency = step.dependency;
                writeln!(f, "T{from} before T{to} ({dependency}): {assumed}{}", step.why)?;
            }
        }
        Ok(())
    }
}

impl<K: Ord + Debug, V: Debug> Violation<K, V> {
    /// A transaction and its operations; if they are many, those on keys that matter.
    fn introduce(
        &self,
        f: &mut fmt::Formatter<'_>,
        at: usize,
        transaction: &Transaction<K, V>,
    ) -> fmt::Result {
        let Transaction { session, begun_at, outcome, operations } = transaction;
        write!(f, "T{}  session {session}  ", at + 1)?;
        match outcome {
            Outcome::Committed { at } => writeln!(f, "committed  [{begun_at}, {at}]")?,
            Outcome::Aborted { at } => writeln!(f, "aborted  [{begun_at}, {at}]")?,
            Outcome::Unknown { at } => writeln!(f, "of unknown outcome  [{begun_at}, {at}]")?,
            Outcome::Pending => writeln!(f, "did not end  [{begun_at}, ..]")?,
        }
        let matters = |operation: &&Operation<K, V>| {
            let is_scan = matches!(operation, Operation::Scan { .. });
            let of_few = operations.len() <= SHOWN;
            of_few
                || is_scan
                || keys_of_operation(operation).iter().any(|key| self.keys.contains(key))
        };
        let shown: Vec<_> = operations.iter().filter(matters).take(SHOWN).collect();
        for operation in &shown {
            writeln!(f, "      {}", tell(operation))?;
        }
        match operations.len() - shown.len() {
            0 => Ok(()),
            hidden => writeln!(f, "      and {hidden} more"),
        }
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteWrite => "ww",
            Self::WriteRead => "wr",
            Self::ReadWrite => "rw",
            Self::ScanWrite => "rw of a range",
            Self::Session => "session",
            Self::RealTime => "real time",
        })
    }
}
