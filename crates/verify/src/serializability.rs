//! Is a history of transactions serializable?

mod accesses;
mod anomaly;
mod cycles;
mod facts;
mod graph;
mod lists;
mod rows;
mod solver;
mod violation;

use std::fmt::{self, Debug};
use std::hash::Hash;

use crate::transactions::{History, Operation, Transaction};
use crate::verdict;
use accesses::Accesses;
use anomaly::Direct;
use facts::Facts;
use graph::{Graph, Kind};
use rows::{Access, Maybe, Row, Version, Want};
use solver::Finding;

pub use anomaly::{Anomaly, Phenomenon};
pub use violation::{Dependency, Step, Violation};

/// How many transactions in doubt that accessed lists, too, are tried with and without effects.
const MOST_TRIED: usize = 6;

/// What is asked for, beyond that some order of the transactions explains all reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// Nothing.
    Serializable,
    /// That the order keeps the order of each session.
    StrongSession,
    /// That the order keeps real time: what was known to have committed before another began comes
    /// first.
    Strict,
}

/// What [`check`] found.
pub type Verdict<K, V> = verdict::Verdict<Serial, Violation<K, V>, Doubt>;

/// A serial order that explains all reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serial {
    /// The condition that it keeps.
    pub condition: Condition,
    /// The transactions, by their index in the history. Those that are not in it had no effect.
    pub order: Vec<usize>,
}

/// Why it is undecided whether a history is serializable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// Two transactions wrote the same value, so that a read of it does not name its writer.
    #[error(
        "value {value} of key {key} was written twice; give each write of a key a value of its own"
    )]
    WrittenTwice {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// A key was used as a list and as a row.
    #[error("key {key} is both a list and a row; name lists and rows differently")]
    ListAndRow {
        /// The key.
        key: String,
    },
    /// The search for an order took too long.
    #[error(
        "no serial order was found within a budget of {budget}; raise it, or read rows before \
         writing them"
    )]
    OutOfBudget {
        /// How many edges and accesses it could visit.
        budget: u64,
    },
    /// There is no order unless transactions in doubt that accessed both lists and rows had effects,
    /// and there are too many of them.
    #[error(
        "no serial order without the {count} transactions of unknown outcome that accessed lists \
         and rows; access lists and rows in different transactions"
    )]
    InDoubt {
        /// How many there are.
        count: usize,
    },
}

/// Checks whether `history` is serializable under `condition`, visiting at most about `budget`
/// edges and accesses in a search for an order of writes that reads do not tell.
///
/// Histories whose reads tell the order need no search: those of lists, and those in which each
/// transaction reads a row before it writes it and no row is deleted. A transaction takes up to a
/// kilobyte of memory. Blocks until it is done.
pub fn check<K, V>(history: &History<K, V>, condition: Condition, budget: u64) -> Verdict<K, V>
where
    K: Ord + Clone + Debug,
    V: Eq + Hash + Clone + Debug,
{
    let facts = match Facts::new(history.transactions()) {
        Ok(facts) => facts,
        Err(doubt) => return Verdict::Undecided(doubt),
    };
    let mut counted = facts.committed();
    facts.add_observed(&mut counted);
    let question = Question { facts: &facts, condition, budget };
    match question.answer(&counted) {
        Answer::Undone(violation) => question.answer_with_doubtful(counted, violation),
        answer => answer.into_verdict(),
    }
}

struct Question<'a, 'h, K, V> {
    facts: &'a Facts<'h, K, V>,
    condition: Condition,
    budget: u64,
}

enum Answer<K, V> {
    Serial(Serial),
    /// Not serializable, whichever transactions in doubt had effects.
    Violation(Violation<K, V>),
    /// Not serializable, unless transactions in doubt that accessed lists, too, had effects.
    Undone(Violation<K, V>),
    Undecided(Doubt),
}

impl<K, V> Answer<K, V> {
    fn into_verdict(self) -> Verdict<K, V> {
        match self {
            Self::Serial(serial) => Verdict::Passed(serial),
            Self::Violation(violation) | Self::Undone(violation) => {
                Verdict::Violation(Box::new(violation))
            }
            Self::Undecided(doubt) => Verdict::Undecided(doubt),
        }
    }
}

impl<'h, K, V> Question<'_, 'h, K, V>
where
    K: Ord + Clone + Debug,
    V: Eq + Hash + Clone + Debug,
{
    /// The answer if those in `counted` had effects, and of the others in doubt at most those that
    /// accessed rows alone.
    fn answer(&self, counted: &[bool]) -> Answer<K, V> {
        let (mut graph, mut rows) = match self.dependencies(counted, &self.maybe(counted)) {
            Ok(dependencies) => dependencies,
            Err(direct) => return Answer::Violation(Violation::direct(self, &direct)),
        };
        let dormant = self.add_dormant(counted, &mut graph, &mut rows);
        let both: Vec<_> = counted.iter().zip(&dormant).map(|(a, b)| *a || *b).collect();
        graph.add_order(self.condition, self.facts.transactions, &both);
        let order = graph.order();
        if order.len() < graph.nodes() {
            let cycle = cycles::worst(&graph);
            return Answer::Violation(Violation::cycles(self, &[cycle]));
        }
        match solver::solve(&mut graph, &rows, &dormant, order, self.budget) {
            Finding::Order(mut order) => {
                order.retain(|&node| both.get(node).is_some_and(|&both| both));
                Answer::Serial(Serial { condition: self.condition, order })
            }
            Finding::Contradiction(cycles, key, transaction) if cycles.is_empty() => {
                let what = "T1 deleted the row, which no transaction can have written".to_owned();
                let (phenomenon, transactions) = (Phenomenon::Garbage, vec![transaction]);
                let direct = Direct { phenomenon, transactions, key, what };
                Answer::Undone(Violation::direct(self, &direct))
            }
            Finding::Contradiction(cycles, ..) => Answer::Undone(Violation::cycles(self, &cycles)),
            Finding::OutOfBudget => Answer::Undecided(Doubt::OutOfBudget { budget: self.budget }),
        }
    }

    /// Adds the accesses of the transactions in doubt that could help and accessed rows alone, and
    /// returns which these are.
    fn add_dormant(&self, counted: &[bool], graph: &mut Graph, rows: &mut [Row]) -> Vec<bool> {
        let mut dormant = vec![false; counted.len()];
        let helpful = self.helpful(counted).into_iter();
        helpful.filter(|&index| !self.has_lists(index)).for_each(|index| dormant[index] = true);
        // Each round but the last takes one away.
        let added = loop {
            match self.rows_of(&dormant, counted) {
                Ok(added) => break added,
                Err(impossible) => dormant[impossible] = false,
            }
        };
        for row in rows {
            let Ok(at) = added.binary_search_by_key(&row.key, |(key, _)| *key) else { continue };
            for access in &added[at].1 {
                for want in &access.wants {
                    if let Version::Of(writer) = want.version {
                        graph.add(writer, access.transaction, Kind::Wr(row.key));
                    }
                }
            }
            row.add(added[at].1.clone());
        }
        dormant
    }

    /// The accesses of the transactions in `dormant`, by key.
    ///
    /// # Errors
    ///
    /// One of them that cannot have had effects.
    fn rows_of(
        &self,
        dormant: &[bool],
        counted: &[bool],
    ) -> Result<Vec<(usize, Vec<Access>)>, usize> {
        let culprit = |direct: Direct| direct.transactions[0];
        let accesses = Accesses::of(self.facts, dormant).map_err(culprit)?;
        let mut rows = Vec::new();
        for (key, accesses) in accesses.rows.iter().enumerate() {
            let row = Row::new(self.facts, key, accesses).map_err(culprit)?;
            if !row.accesses.is_empty() {
                rows.push((key, row.accesses));
            }
        }
        self.unfounded(dormant, counted, &rows).map_or(Ok(rows), Err)
    }

    /// A transaction in `dormant` that read a value of one that cannot have come before it: one that
    /// is left out, or that in turn depends on it.
    fn unfounded(
        &self,
        dormant: &[bool],
        counted: &[bool],
        rows: &[(usize, Vec<Access>)],
    ) -> Option<usize> {
        let mut founded = counted.to_vec();
        loop {
            let mut next = counted.to_vec();
            (0..next.len()).filter(|&index| dormant[index]).for_each(|index| next[index] = true);
            for access in rows.iter().flat_map(|(_, accesses)| accesses) {
                let is_founded = |want: &Want| match want.version {
                    Version::Of(writer) => founded[writer],
                    Version::Any { .. } => true,
                };
                next[access.transaction] &= access.wants.iter().all(is_founded);
            }
            if next == founded {
                return (0..next.len()).find(|&index| dormant[index] && !founded[index]);
            }
            founded = next;
        }
    }

    fn has_lists(&self, index: usize) -> bool {
        let is_list = |operation: &Operation<K, V>| {
            matches!(operation, Operation::Append { .. } | Operation::ReadList { .. })
        };
        self.facts.transactions[index].operations.iter().any(is_list)
    }

    fn dependencies(
        &self,
        counted: &[bool],
        maybe: &[Maybe],
    ) -> Result<(Graph, Vec<rows::Row>), Direct> {
        let facts = self.facts;
        let accesses = Accesses::of(facts, counted)?;
        let mut graph = Graph::new(facts.transactions);
        let mut rows = Vec::new();
        for key in facts.keys() {
            if facts.is_list(key) {
                lists::add_dependencies(facts, key, &accesses.lists[key], &mut graph)?;
            } else {
                let accesses = &accesses.rows[key];
                rows.push(rows::add_dependencies(facts, key, accesses, maybe[key], &mut graph)?);
            }
        }
        Ok((graph, rows))
    }

    /// What the transactions in doubt that are not counted may have left, by key.
    fn maybe(&self, counted: &[bool]) -> Vec<Maybe> {
        let mut maybe = vec![Maybe::default(); self.facts.keys().len()];
        for index in self.doubtful(counted) {
            for (key, present) in self.writes(&self.facts.transactions[index]) {
                maybe[key].add(present);
            }
        }
        maybe
    }

    fn doubtful(&self, counted: &[bool]) -> Vec<usize> {
        let transactions = self.facts.transactions;
        let is_open = |&index: &usize| !counted[index] && transactions[index].is_in_doubt();
        (0..transactions.len()).filter(is_open).collect()
    }

    /// The rows that the transaction wrote, and whether it left them present.
    fn writes(&self, transaction: &'h Transaction<K, V>) -> Vec<(usize, bool)> {
        let write = |operation: &'h Operation<K, V>| match operation {
            Operation::Write { key, .. } | Operation::Insert { key, .. } => Some((key, true)),
            Operation::Delete { key } => Some((key, false)),
            _ => None,
        };
        let writes = transaction.operations.iter().filter_map(write);
        writes.map(|(key, present)| (self.facts.key(key), present)).collect()
    }

    /// The answer when there is a violation without the transactions in doubt that accessed lists,
    /// too, and that no value proves: it stands if it stands with any of them.
    fn answer_with_doubtful(&self, counted: Vec<bool>, found: Violation<K, V>) -> Verdict<K, V> {
        let mut doubtful = self.helpful(&counted);
        doubtful.retain(|&index| self.has_lists(index));
        if doubtful.len() > MOST_TRIED {
            return Verdict::Undecided(Doubt::InDoubt { count: doubtful.len() });
        }
        let mut undecided = None;
        for chosen in 1..1_usize << doubtful.len() {
            let mut counted = counted.clone();
            let bits = (0..doubtful.len()).filter(|bit| chosen & (1 << bit) != 0);
            bits.for_each(|bit| counted[doubtful[bit]] = true);
            self.facts.add_observed(&mut counted);
            match self.answer(&counted) {
                Answer::Serial(serial) => return Verdict::Passed(serial),
                Answer::Undecided(doubt) => undecided = Some(doubt),
                Answer::Violation(_) | Answer::Undone(_) => {}
            }
        }
        match undecided {
            Some(doubt) => Verdict::Undecided(doubt),
            None => Verdict::Violation(Box::new(found)),
        }
    }

    /// The transactions in doubt whose effects could explain that some row was absent or present
    /// for those that are counted, or for others of them, and those whose values they read.
    fn helpful(&self, counted: &[bool]) -> Vec<usize> {
        let mut wanted = vec![Maybe::default(); self.facts.keys().len()];
        let all = (0..counted.len()).filter(|&index| counted[index]);
        all.for_each(|index| self.add_wants(index, &mut wanted));
        let doubtful = self.doubtful(counted);
        let mut helpful = vec![false; counted.len()];
        loop {
            let before = helpful.clone();
            for &index in &doubtful {
                let mut writes = self.writes(&self.facts.transactions[index]).into_iter();
                helpful[index] |= writes.any(|(key, present)| wanted[key].has(present));
            }
            self.facts.add_observed(&mut helpful);
            let more = doubtful.iter().filter(|&&index| helpful[index] && !before[index]);
            let more: Vec<_> = more.copied().collect();
            if more.is_empty() {
                return doubtful.into_iter().filter(|&index| helpful[index]).collect();
            }
            more.into_iter().for_each(|index| self.add_wants(index, &mut wanted));
        }
    }

    /// Adds the rows that the transaction found absent, or present without their values.
    fn add_wants(&self, index: usize, wanted: &mut [Maybe]) {
        for operation in &self.facts.transactions[index].operations {
            match operation {
                Operation::Read { key, value: None } | Operation::Insert { key, .. } => {
                    wanted[self.facts.key(key)].add(false);
                }
                Operation::Delete { key } => wanted[self.facts.key(key)].add(true),
                Operation::Scan { from, to, .. } => {
                    let range = self.facts.between(from, to);
                    wanted[range].iter_mut().for_each(|wanted| wanted.add(false));
                }
                _ => {}
            }
        }
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} transactions)", self.condition, self.order.len())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serializable => "serializable",
            Self::StrongSession => "strong session serializable",
            Self::Strict => "strictly serializable",
        })
    }
}
