//! Is a history linearizable?

mod events;
mod search;
mod timeline;
mod violation;

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::hash::Hash;

use crate::history::{History, Outcome, Record};
use search::{Finding, Search};

pub use violation::Violation;

/// The sequential behaviour of one key.
pub trait Model {
    /// All that one key remembers. Equal states behave alike.
    type State: Clone + Debug + Eq + Hash;
    /// The requests of clients.
    type Operation: Clone + Debug;
    /// The results for clients.
    type Result: Clone + Debug;

    /// The state of every key at first.
    fn initial(&self) -> Self::State;

    /// The state after `operation` on `state`, or `None` if it cannot have had `result` there.
    ///
    /// Without a `result`, which is the case of operations of unknown outcome, the state that
    /// `operation` leaves whatever it returned.
    fn step(
        &self,
        state: &Self::State,
        operation: &Self::Operation,
        result: Option<&Self::Result>,
    ) -> Option<Self::State>;

    /// Whether `operation` with `result` leaves *every* state in which it is possible as it was.
    ///
    /// Saying so makes the search faster; saying so wrongly makes it wrong.
    fn reads_only(&self, operation: &Self::Operation, result: &Self::Result) -> bool {
        let _ = (operation, result);
        false
    }
}

/// The answer to the question. `explored` counts placed operations, those taken back included.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict<K, O, R> {
    /// Every key's operations have an order that real time and the model allow.
    Linearizable {
        /// Configurations visited.
        explored: u64,
    },
    /// Some key's operations have none.
    Violation(Box<Violation<K, O, R>>),
    /// The budget ran out on some keys, and the others are linearizable. Not a pass.
    Undecided {
        /// Configurations visited.
        explored: u64,
        /// The keys whose budget ran out.
        keys: Vec<K>,
    },
}

/// Checks `history` against `model`, key by key, visiting at most about `budget_per_key`
/// configurations for each.
///
/// A key with n operations needs a budget of n to pass. A configuration takes some 200 bytes of
/// memory plus the state's, until the key is done.
///
/// Keys are searched in the order of their first invocation, and the first violation is reported.
/// It takes precedence over keys whose budget ran out.
pub fn check<K, M>(
    model: &M,
    history: &History<K, M::Operation, M::Result>,
    budget_per_key: u64,
) -> Verdict<K, M::Operation, M::Result>
where
    K: Clone + Eq + Hash,
    M: Model,
{
    let mut explored = 0;
    let mut undecided = Vec::new();
    for records in partition(history) {
        let mut search = Search::new(model, &records);
        let finding = search.run(budget_per_key);
        explored += search.explored();
        match finding {
            Finding::Linearizable => {}
            Finding::Exhausted => undecided.push(records[0].key.clone()),
            Finding::Stuck { depth } => {
                let why = violation::explain(model, &records, depth, budget_per_key);
                return Verdict::Violation(Box::new(why));
            }
        }
    }
    if undecided.is_empty() {
        Verdict::Linearizable { explored }
    } else {
        Verdict::Undecided { explored, keys: undecided }
    }
}

/// The records of each key: a history is linearizable exactly if each key's part is.
fn partition<K: Eq + Hash, O, R>(history: &History<K, O, R>) -> Vec<Vec<&Record<K, O, R>>> {
    let mut parts: Vec<Vec<_>> = Vec::new();
    let mut part_of: HashMap<&K, usize> = HashMap::new();
    for record in history.records() {
        let part = *part_of.entry(&record.key).or_insert(parts.len());
        if part == parts.len() {
            parts.push(Vec::new());
        }
        parts[part].push(record);
    }
    parts
}

/// Whether the record may have had an effect that nobody was told of.
fn is_in_doubt<K, O, R>(record: &Record<K, O, R>) -> bool {
    matches!(record.outcome, Outcome::Unknown { .. } | Outcome::Pending)
}

impl<K, O, R> Verdict<K, O, R> {
    /// Whether the history is proven linearizable.
    #[must_use]
    pub fn is_linearizable(&self) -> bool {
        matches!(self, Self::Linearizable { .. })
    }

    /// The violation, if the history is proven not to be linearizable.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation<K, O, R>> {
        match self {
            Self::Violation(violation) => Some(violation),
            _ => None,
        }
    }
}

impl<K: Debug, O: Debug, R: Debug> fmt::Display for Verdict<K, O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linearizable { explored } => {
                write!(f, "linearizable ({explored} configurations explored)")
            }
            Self::Violation(violation) => write!(f, "{violation}"),
            Self::Undecided { explored, keys } => write!(
                f,
                "undecided ({explored} configurations explored): the budget ran out on {} keys, \
                 {:?} the first of them; raise it, or have fewer clients write one key together",
                keys.len(),
                keys[0],
            ),
        }
    }
}
