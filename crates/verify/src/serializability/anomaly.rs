//! The names of what can go wrong.

use std::fmt;

use super::facts::Key;
use super::graph::{Edge, Graph, Kind};

/// Faults of a history, by the names of Adya's thesis and of Elle. Of two, the smaller is the
/// worse: fewer databases allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phenomenon {
    /// A value that no transaction wrote.
    Garbage,
    /// A list with a value twice.
    Duplicate,
    /// Two reads of a list, neither of which the other one continues.
    IncompatibleOrder,
    /// A list whose values are not in the order in which their transaction appended them.
    Disorder,
    /// A transaction that does not find its own writes as they are, or finds those to come.
    Internal,
    /// Aborted read: a value of a transaction that aborted.
    G1a,
    /// Intermediate read: a value that its transaction wrote over before it committed.
    G1b,
    /// A cycle of writes over each other's writes.
    G0,
    /// A cycle of writes over each other's writes and reads of them.
    G1c,
    /// A cycle in which one transaction wrote over what another had read.
    GSingle,
    /// A cycle in which several did.
    G2Item,
    /// A cycle in which a transaction inserted or deleted a row in a range that another had
    /// scanned.
    G2,
}

/// A phenomenon, and what else it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Anomaly {
    /// The fault of the history.
    pub phenomenon: Phenomenon,
    /// Whether it takes the order of time: without it, the transactions could be serialized.
    pub by_time: bool,
    /// A name for its shape, if there is one, such as "write skew".
    pub alias: Option<&'static str>,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.phenomenon {
            Phenomenon::Garbage => "garbage read",
            Phenomenon::Duplicate => "duplicate",
            Phenomenon::IncompatibleOrder => "incompatible order",
            Phenomenon::Disorder => "disorder",
            Phenomenon::Internal => "internal inconsistency",
            Phenomenon::G1a => "G1a",
            Phenomenon::G1b => "G1b",
            Phenomenon::G0 => "G0",
            Phenomenon::G1c => "G1c",
            Phenomenon::GSingle => "G-single",
            Phenomenon::G2Item => "G2-item",
            Phenomenon::G2 => "G2",
        };
        write!(f, "{name}{}", if self.by_time { " by time" } else { "" })?;
        self.alias.map_or(Ok(()), |alias| write!(f, " ({alias})"))
    }
}

/// Something wrong that needs no cycle. In `what`, the first of `transactions` is T1.
pub(super) struct Direct {
    pub(super) phenomenon: Phenomenon,
    pub(super) transactions: Vec<usize>,
    pub(super) key: Key,
    pub(super) what: String,
}

impl Phenomenon {
    pub(super) fn direct(self) -> Anomaly {
        let alias = match self {
            Self::G1a => Some("aborted read"),
            Self::G1b => Some("intermediate read"),
            _ => None,
        };
        Anomaly { phenomenon: self, by_time: false, alias }
    }
}

/// A cycle of edges, each from where the one before leads to, without moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cycle(pub(super) Vec<Edge>);

impl Cycle {
    /// The cycle of `edges`, where ways over moments become one edge.
    pub(super) fn new(graph: &Graph, mut edges: Vec<Edge>) -> Self {
        let start = edges.iter().position(|edge| !graph.is_moment(edge.from)).unwrap_or(0);
        edges.rotate_left(start);
        let mut steps: Vec<Edge> = Vec::new();
        for edge in edges {
            match steps.last_mut() {
                Some(last) if graph.is_moment(last.to) => last.to = edge.to,
                _ => steps.push(edge),
            }
        }
        Self(steps)
    }

    /// Its name. `writes` tells whether a transaction wrote a key.
    pub(super) fn anomaly(&self, writes: impl Fn(usize, Key) -> bool) -> Anomaly {
        let count = |is: fn(Kind) -> bool| self.0.iter().filter(|edge| is(edge.kind)).count();
        let rws = count(|kind| matches!(kind, Kind::Rw { .. }));
        let in_range = count(|kind| matches!(kind, Kind::Rw { in_range: true, .. })) > 0;
        let phenomenon = match rws {
            _ if in_range => Phenomenon::G2,
            0 if count(|kind| matches!(kind, Kind::Wr(_))) > 0 => Phenomenon::G1c,
            0 => Phenomenon::G0,
            1 => Phenomenon::GSingle,
            // Whichever of the two wrote last wrote over what the other one wrote.
            _ if self.is_of_two_updates(&writes) => Phenomenon::GSingle,
            _ => Phenomenon::G2Item,
        };
        let by_time = count(|kind| matches!(kind, Kind::Session | Kind::RealTime)) > 0;
        let alias = if by_time { None } else { self.alias(phenomenon, &writes) };
        Anomaly { phenomenon, by_time, alias }
    }

    fn alias(
        &self,
        phenomenon: Phenomenon,
        writes: impl Fn(usize, Key) -> bool,
    ) -> Option<&'static str> {
        match phenomenon {
            Phenomenon::G2 => Some("phantom"),
            Phenomenon::G0 => Some("dirty write"),
            Phenomenon::G1c => Some("circular information flow"),
            _ if self.is_of_two_updates(writes) => Some("lost update"),
            Phenomenon::GSingle if self.key_of_two().is_some() => Some("non-repeatable read"),
            Phenomenon::GSingle if self.0.iter().any(|edge| matches!(edge.kind, Kind::Wr(_))) => {
                Some("read skew")
            }
            Phenomenon::G2Item if self.0.len() == 2 => Some("write skew"),
            Phenomenon::G2Item if self.is_long_fork() => Some("long fork"),
            _ => None,
        }
    }

    /// The key, if it is a cycle of two transactions over one key.
    fn key_of_two(&self) -> Option<Key> {
        match self.0.as_slice() {
            [a, b] if a.kind.key() == b.kind.key() => a.kind.key(),
            _ => None,
        }
    }

    fn is_of_two_updates(&self, writes: impl Fn(usize, Key) -> bool) -> bool {
        let key = self.key_of_two();
        key.is_some_and(|key| self.0.iter().all(|edge| writes(edge.from, key)))
    }

    /// Two transactions each read what one other wrote, and not what a second one wrote.
    fn is_long_fork(&self) -> bool {
        let is_wr = |edge: &Edge| matches!(edge.kind, Kind::Wr(_));
        let is_rw = |edge: &Edge| matches!(edge.kind, Kind::Rw { .. });
        let reads_and_misses =
            |pair: [&Edge; 2]| pair.iter().any(|e| is_wr(e)) && pair.iter().any(|e| is_rw(e));
        match self.0.as_slice() {
            [a, b, c, d] => {
                reads_and_misses([a, b]) && reads_and_misses([c, d]) && is_wr(a) == is_wr(c)
            }
            _ => false,
        }
    }

    /// The assumptions that it rests on.
    pub(super) fn levels(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|edge| edge.level).filter(|&level| level > 0)
    }
}
