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
use graph::Graph;
use rows::Maybe;
use solver::Finding;

pub use anomaly::{Anomaly, Phenomenon};
pub use violation::{Dependency, Step, Violation};

/// How many transactions in doubt are tried with and without their effects.
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
    /// There is no order unless transactions in doubt had effects, and there are too many of them.
    #[error(
        "no serial order without the {count} transactions of unknown outcome that no value proves; \
         read rows before deleting them, so that there are fewer"
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
    let maybe = question.maybe(&counted);
    match question.answer(&counted, &maybe) {
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
    /// Not serializable, if transactions in doubt had no effects but for those that are counted.
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
    /// The answer if of the transactions in doubt only those in `counted` had effects; `maybe` has
    /// those that the others may have had, by key.
    fn answer(&self, counted: &[bool], maybe: &[Maybe]) -> Answer<K, V> {
        let (mut graph, rows) = match self.dependencies(counted, maybe) {
            Ok(dependencies) => dependencies,
            Err(direct) => {
                let violation = Violation::direct(self, &direct);
                return if direct.is_certain {
                    Answer::Violation(violation)
                } else {
                    Answer::Undone(violation)
                };
            }
        };
        graph.add_order(self.condition, self.facts.transactions, counted);
        let order = graph.order();
        if order.len() < graph.nodes() {
            let cycle = cycles::worst(&graph);
            return Answer::Violation(Violation::cycles(self, &[cycle]));
        }
        match solver::solve(&mut graph, &rows, order, self.budget) {
            Finding::Order(mut order) => {
                order.retain(|&node| counted.get(node).is_some_and(|&counted| counted));
                Answer::Serial(Serial { condition: self.condition, order })
            }
            Finding::Contradiction(cycles) => Answer::Undone(Violation::cycles(self, &cycles)),
            Finding::OutOfBudget => Answer::Undecided(Doubt::OutOfBudget { budget: self.budget }),
        }
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

    /// The answer when there is a violation without the transactions in doubt that no value proves:
    /// it stands if it stands with any of them.
    fn answer_with_doubtful(&self, counted: Vec<bool>, found: Violation<K, V>) -> Verdict<K, V> {
        let doubtful = self.helpful(&counted);
        if doubtful.len() > MOST_TRIED {
            return Verdict::Undecided(Doubt::InDoubt { count: doubtful.len() });
        }
        let mut undecided = None;
        let none = vec![Maybe::default(); self.facts.keys().len()];
        for chosen in 1..1_usize << doubtful.len() {
            let mut counted = counted.clone();
            let bits = (0..doubtful.len()).filter(|bit| chosen & (1 << bit) != 0);
            bits.for_each(|bit| counted[doubtful[bit]] = true);
            self.facts.add_observed(&mut counted);
            match self.answer(&counted, &none) {
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
    /// for those that are counted, or for others of them.
    fn helpful(&self, counted: &[bool]) -> Vec<usize> {
        let mut wanted = vec![Maybe::default(); self.facts.keys().len()];
        let all = (0..counted.len()).filter(|&index| counted[index]);
        all.for_each(|index| self.add_wants(index, &mut wanted));
        let mut others = self.doubtful(counted);
        let mut helpful = Vec::new();
        loop {
            let helps = |&mut index: &mut usize| {
                let mut writes = self.writes(&self.facts.transactions[index]).into_iter();
                writes.any(|(key, present)| wanted[key].has(present))
            };
            let more: Vec<_> = others.extract_if(.., helps).collect();
            if more.is_empty() {
                return helpful;
            }
            more.iter().for_each(|&index| self.add_wants(index, &mut wanted));
            helpful.extend(more);
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
