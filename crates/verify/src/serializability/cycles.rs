//! Finding the cycle that says most about what is wrong.
//!
//! Of all cycles, those of the worst phenomenon are looked for first, without the order of time and
//! then with it, and of these the shortest. How long that may take is bounded. If it takes longer,
//! a cycle is found all the same, but a shorter or a worse one may exist.

use std::collections::{HashMap, VecDeque};

use super::anomaly::Cycle;
use super::graph::{Edge, Graph, Kind};

/// How many edges are looked at for a shorter cycle, once there is one.
const EFFORT: u64 = 20_000_000;

/// A cycle of `graph`, which has one.
pub(super) fn worst(graph: &Graph) -> Cycle {
    let mut search = Search { graph, effort: EFFORT };
    let is_by_time = |kind| matches!(kind, Kind::Session | Kind::RealTime);
    let found = [false, true].into_iter().find_map(|by_time| {
        let allows = |kind| by_time || !is_by_time(kind);
        let ww = |kind| matches!(kind, Kind::Ww(_));
        let rw_of_items = |kind| matches!(kind, Kind::Rw { in_range: false, .. });
        let rw = |kind| matches!(kind, Kind::Rw { .. });
        let but = |not: fn(Kind) -> bool| move |kind| allows(kind) && !not(kind);
        search
            .shortest(&|kind| allows(kind) && (ww(kind) || is_by_time(kind)))
            .or_else(|| search.shortest(&but(rw)))
            .or_else(|| search.shortest_with_one(&rw_of_items, &but(rw)))
            .or_else(|| {
                search.shortest(&move |kind| allows(kind) && (!rw(kind) || rw_of_items(kind)))
            })
            .or_else(|| search.shortest_with_one(&rw, &but(rw)))
            .or_else(|| search.shortest(&allows))
    });
    Cycle::new(graph, found.expect("the graph has a cycle"))
}

struct Search<'a> {
    graph: &'a Graph,
    effort: u64,
}

type Allows<'a> = &'a dyn Fn(Kind) -> bool;

impl Search<'_> {
    /// A short cycle of edges that are allowed.
    fn shortest(&mut self, allows: Allows) -> Option<Vec<Edge>> {
        let components = components(self.graph, allows);
        let is_inner = |edge: &Edge| {
            allows(edge.kind)
                && components[edge.from].is_some()
                && components[edge.from] == components[edge.to]
        };
        let mut best: Option<Vec<Edge>> = None;
        for node in (0..self.graph.nodes()).filter(|&node| components[node].is_some()) {
            if self.is_good_enough(best.as_ref()) {
                break;
            }
            let limit = best.as_ref().map(|best| self.length(best));
            if let Some(cycle) = self.path(node, node, &is_inner, limit) {
                best = Some(cycle);
            }
        }
        best
    }

    /// A short cycle of edges that are allowed and one that is special.
    fn shortest_with_one(&mut self, special: Allows, allows: Allows) -> Option<Vec<Edge>> {
        let components = components(self.graph, &|kind| allows(kind) || special(kind));
        let in_one = |edge: &Edge| {
            components[edge.from].is_some() && components[edge.from] == components[edge.to]
        };
        let is_inner = |edge: &Edge| allows(edge.kind) && in_one(edge);
        let mut best: Option<Vec<Edge>> = None;
        for edge in self.graph.edges.iter().filter(|edge| special(edge.kind) && in_one(edge)) {
            if self.effort == 0 || self.is_good_enough(best.as_ref()) {
                break;
            }
            let limit = best.as_ref().map(|best| self.length(best) - 1);
            if let Some(mut path) = self.path(edge.to, edge.from, &is_inner, limit) {
                path.push(*edge);
                best = Some(path);
            }
        }
        best
    }

    fn is_good_enough(&self, best: Option<&Vec<Edge>>) -> bool {
        best.is_some_and(|best| self.effort == 0 || self.length(best) == 2)
    }

    fn length(&self, path: &[Edge]) -> usize {
        path.iter().filter(|edge| !self.graph.is_moment(edge.from)).count()
    }

    /// The shortest path of at least one edge, if it is shorter than `limit`. Edges from moments
    /// are free. Without a limit it is found, whatever the effort.
    fn path(
        &mut self,
        from: usize,
        to: usize,
        is_inner: &dyn Fn(&Edge) -> bool,
        limit: Option<usize>,
    ) -> Option<Vec<Edge>> {
        let mut came_by: HashMap<usize, (usize, Edge)> = HashMap::new();
        let mut queue = VecDeque::from([(0, from)]);
        while let Some((length, node)) = queue.pop_front() {
            if node == to && length > 0 {
                return Some(trace(&came_by, from, to));
            }
            let is_stale = came_by.get(&node).is_some_and(|(best, _)| *best < length);
            let next = length + usize::from(!self.graph.is_moment(node));
            if is_stale || limit.is_some_and(|limit| next >= limit || self.effort == 0) {
                continue;
            }
            for edge in self.graph.leaving(node).filter(|edge| is_inner(edge)) {
                self.effort = self.effort.saturating_sub(1);
                if came_by.get(&edge.to).is_none_or(|(best, _)| next < *best) {
                    came_by.insert(edge.to, (next, *edge));
                    if next == length {
                        queue.push_front((next, edge.to));
                    } else {
                        queue.push_back((next, edge.to));
                    }
                }
            }
        }
        None
    }
}

/// The edges by which a search went from `from` to `to`.
fn trace(came_by: &HashMap<usize, (usize, Edge)>, from: usize, to: usize) -> Vec<Edge> {
    let mut path = vec![came_by[&to].1];
    while path[path.len() - 1].from != from {
        path.push(came_by[&path[path.len() - 1].from].1);
    }
    path.reverse();
    path
}

/// For each node on a cycle of edges that are allowed, the number of its strongly connected
/// component. Tarjan's algorithm, with a stack of its own.
fn components(graph: &Graph, allows: Allows) -> Vec<Option<usize>> {
    const UNMET: usize = usize::MAX;
    let count = graph.nodes();
    let (mut met, mut low) = (vec![UNMET; count], vec![UNMET; count]);
    let mut component = vec![None; count];
    let mut is_open = vec![false; count];
    let (mut open, mut clock, mut components) = (Vec::new(), 0, 0);
    for root in 0..count {
        let mut calls = Vec::new();
        if met[root] == UNMET {
            calls.push((root, graph.leaving(root)));
        }
        while let Some((node, edges)) = calls.last_mut() {
            let node = *node;
            if met[node] == UNMET {
                (met[node], low[node]) = (clock, clock);
                clock += 1;
                open.push(node);
                is_open[node] = true;
            }
            match edges.find(|edge| allows(edge.kind)) {
                Some(edge) if met[edge.to] == UNMET => {
                    calls.push((edge.to, graph.leaving(edge.to)))
                }
                Some(edge) if is_open[edge.to] => low[node] = low[node].min(met[edge.to]),
                Some(_) => {}
                None => {
                    calls.pop();
                    if let Some((caller, _)) = calls.last() {
                        low[*caller] = low[*caller].min(low[node]);
                    }
                    if low[node] == met[node] {
                        let start = open.iter().rposition(|&other| other == node).unwrap_or(0);
                        let members = open.split_off(start);
                        for &member in &members {
                            is_open[member] = false;
                            component[member] = (members.len() > 1).then_some(components);
                        }
                        components += 1;
                    }
                }
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transactions::{Outcome, Transaction};

    fn graph(count: usize, edges: &[(usize, usize, Kind)]) -> Graph {
        let transaction = |at| Transaction::<u8, u8> {
            session: 0,
            begun_at: at as u64,
            outcome: Outcome::Committed { at: at as u64 },
            operations: Vec::new(),
        };
        let mut graph = Graph::new(&(0..count).map(transaction).collect::<Vec<_>>());
        edges.iter().for_each(|&(from, to, kind)| graph.add(from, to, kind));
        graph
    }

    const WW: Kind = Kind::Ww(0);
    const WR: Kind = Kind::Wr(0);
    const RW: Kind = Kind::Rw { key: 0, in_range: false };

    fn nodes(graph: &Graph) -> Vec<usize> {
        worst(graph).0.iter().map(|edge| edge.from).collect()
    }

    #[test]
    fn finds_components() {
        let edges = [(0, 1, WW), (1, 2, WW), (2, 1, WR), (2, 3, WW), (3, 4, WW), (4, 3, WW)];
        let graph = graph(6, &edges);
        let components = components(&graph, &|_| true);
        assert_eq!((components[0], components[5]), (None, None));
        assert!(components[1].is_some() && components[1] == components[2]);
        assert!(components[3].is_some() && components[3] == components[4]);
        assert_ne!(components[1], components[3]);
        assert!(super::components(&graph, &|kind| kind == WR).iter().all(Option::is_none));
    }

    #[test]
    fn prefers_the_worse_to_the_shorter_and_the_shorter_to_the_longer() {
        let long = [(0, 1, WW), (1, 2, WW), (2, 0, WW)];
        let short = [(3, 4, RW), (4, 3, WR)];
        assert_eq!(nodes(&graph(5, &[&short[..], &long].concat())), [0, 1, 2]);
        assert_eq!(nodes(&graph(5, &[&[(1, 0, WW)], &long[..]].concat())), [0, 1]);
        let two = [(0, 1, RW), (1, 0, RW)];
        assert_eq!(nodes(&graph(5, &[&two[..], &short].concat())), [4, 3]);
    }
}
