//! Is a history of transactions serializable?

mod accesses;
mod anomaly;
mod cycles;
mod doubtful;
mod facts;
mod graph;
mod lists;
mod rows;
mod solver;
mod violation;

use std::fmt::{self, Debug};
use std::hash::Hash;

use crate::transactions::History;
use crate::verdict;
use accesses::Accesses;
use anomaly::Direct;
use facts::Facts;
use graph::Graph;
use rows::Maybe;
use solver::Finding;

pub use anomaly::{Anomaly, Phenomenon};
pub use violation::{Dependency, Step, Violation};

/// Demands on the order of the transactions, beyond that it explains all reads.
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

/// The verdict of [`check`].
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
    /// There is no order unless transactions in doubt that accessed both lists and rows had
    /// effects, and there are too many of them.
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
