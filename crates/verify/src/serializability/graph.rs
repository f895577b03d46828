//! Which transaction has to come before which, and why.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::Condition;
use super::facts::Key;
use crate::transactions::Transaction;

/// Transactions, by their index in the history, and behind them moments.
///
/// A moment stands between the transactions that had ended by then and those that began later. So
/// real-time order takes a number of edges that is linear in the number of transactions.
pub(super) struct Graph {
    pub(super) edges: Vec<Edge>,
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
    /// When a node is best placed in an order, if nothing else decides.
    pub(super) times: Vec<u64>,
    /// When each transaction ran, and in which session.
    spans: Vec<Span>,
    /// The order of time that was added.
    order: Option<Kind>,
}

struct Span {
    session: u32,
    begun_at: u64,
    committed_at: Option<u64>,
}

/// `from` comes before `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: Kind,
    /// Zero if it is known; otherwise the assumption that it is part of.
    pub(super) level: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ww(Key),
    Wr(Key),
    /// With `in_range`, a scan missed an insert or a delete.
    Rw {
        key: Key,
        in_range: bool,
    },
    Session,
    RealTime,
}

impl Kind {
    pub(super) fn key(self) -> Option<Key> {
        match self {
            Self::Ww(key) | Self::Wr(key) | Self::Rw { key, .. } => Some(key),
            Self::Session | Self::RealTime => None,
        }
    }
}

impl Graph {
    pub(super) fn new<K, V>(transactions: &[Transaction<K, V>]) -> Self {
        let count = transactions.len();
        let time = |t: &Transaction<K, V>| t.committed_at().unwrap_or(t.begun_at);
        let span = |t: &Transaction<K, V>| Span {
            session: t.session,
            begun_at: t.begun_at,
            committed_at: t.committed_at(),
        };
        Self {
            edges: Vec::new(),
            out: vec![Vec::new(); count],
            into: vec![Vec::new(); count],
            times: transactions.iter().map(time).collect(),
            spans: transactions.iter().map(span).collect(),
            order: None,
        }
    }

    pub(super) fn nodes(&self) -> usize {
        self.times.len()
    }

    pub(super) fn is_moment(&self, node: usize) -> bool {
        node >= self.spans.len()
    }

    /// Adds an edge that is known.
    pub(super) fn add(&mut self, from: usize, to: usize, kind: Kind) {
        self.push(Edge { from, to, kind, level: 0 });
    }

    pub(super) fn push(&mut self, edge: Edge) {
        self.out[edge.from].push(self.edges.len());
        self.into[edge.to].push(self.edges.len());
        self.edges.push(edge);
    }

    /// The edge from one transaction to another, if time orders them. It is one way over moments.
    pub(super) fn by_time(&self, from: usize, to: usize) -> Option<Edge> {
        let kind = self.order?;
        let (first, second) = (self.spans.get(from)?, self.spans.get(to)?);
        let is_one_group = kind == Kind::RealTime || first.session == second.session;
        let is_ordered = is_one_group && first.committed_at? < second.begun_at;
        is_ordered.then_some(Edge { from, to, kind, level: 0 })
    }

    /// Takes back the edges that were added last.
    pub(super) fn truncate(&mut self, count: usize) {
        while self.edges.len() > count
            && let Some(edge) = self.edges.pop()
        {
            self.out[edge.from].pop();
            self.into[edge.to].pop();
        }
    }

    pub(super) fn leaving(&self, node: usize) -> impl Iterator<Item = &Edge> {
        self.out[node].iter().map(|&edge| &self.edges[edge])
    }

    pub(super) fn arriving(&self, node: usize) -> impl Iterator<Item = &Edge> {
        self.into[node].iter().map(|&edge| &self.edges[edge])
    }

    /// Adds the order of time that `condition` asks for, among the transactions in `counted`.
    pub(super) fn add_order<K, V>(
        &mut self,
        condition: Condition,
        transactions: &[Transaction<K, V>],
        counted: &[bool],
    ) {
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let kind = match condition {
            Condition::Serializable => return,
            Condition::StrongSession => Kind::Session,
            Condition::Strict => Kind::RealTime,
        };
        self.order = Some(kind);
        for index in (0..transactions.len()).filter(|&index| counted[index]) {
            let group = if kind == Kind::Session { transactions[index].session } else { 0 };
            groups.entry(group).or_default().push(index);
        }
        for group in groups.values() {
            self.add_moments(transactions, group, kind);
        }
    }

    /// Adds a moment for each end of a committed transaction of `group`, which is ordered by begin.
    fn add_moments<K, V>(
        &mut self,
        transactions: &[Transaction<K, V>],
        group: &[usize],
        kind: Kind,
    ) {
        let mut ends: Vec<_> =
            group.iter().filter_map(|&t| Some((transactions[t].committed_at()?, t))).collect();
        ends.sort_unstable();
        let first = self.nodes();
        let mut passed = 0;
        for &transaction in group {
            while passed < ends.len() && ends[passed].0 < transactions[transaction].begun_at {
                let moment = self.add_node(ends[passed].0);
                if moment > first {
                    self.add(moment - 1, moment, kind);
                }
                self.add(ends[passed].1, moment, kind);
                passed += 1;
            }
            if passed > 0 {
                self.add(first + passed - 1, transaction, kind);
            }
        }
    }

    fn add_node(&mut self, time: u64) -> usize {
        self.out.push(Vec::new());
        self.into.push(Vec::new());
        self.times.push(time);
        self.times.len() - 1
    }

    /// The nodes in an order that all edges allow, as near to the order of times as can be. It
    /// lacks the nodes of cycles and those behind them.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut waits: Vec<_> = self.into.iter().map(Vec::len).collect();
        let free = (0..self.nodes()).filter(|&node| waits[node] == 0);
        let mut ready: BinaryHeap<_> = free.map(|node| Reverse((self.times[node], node))).collect();
        let mut order = Vec::with_capacity(self.nodes());
        while let Some(Reverse((_, node))) = ready.pop() {
            order.push(node);
            for edge in self.leaving(node) {
                waits[edge.to] -= 1;
                if waits[edge.to] == 0 {
                    ready.push(Reverse((self.times[edge.to], edge.to)));
                }
            }
        }
        order
    }
}
