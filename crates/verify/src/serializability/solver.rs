//! Finding an order of transactions in which each read of a row meets the version that it saw.
//!
//! The order starts near the order of time. Where a read meets a wrong version, one of few things
//! must hold in *every* good order: the read comes before the write that it met, or a right version
//! comes between the two. Each is assumed in turn. An assumption is some edges more; the order is
//! repaired locally (Pearce and Kelly's algorithm), or the edges close a cycle and refute it. When
//! all are refuted, the search goes back to the latest assumption that a refutation rests on.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::anomaly::Cycle;
use super::graph::{Edge, Graph, Kind};
use super::rows::{Access, Row, Version, Want};

/// How many refutations a contradiction keeps.
const KEPT: usize = 8;

pub(super) enum Finding {
    /// All nodes in a good order.
    Order(Vec<usize>),
    /// There is no good order: each assumption closes a cycle. Some of these cycles.
    Contradiction(Vec<Cycle>),
    OutOfBudget,
}

/// Searches for an order, visiting at most about `budget` edges and accesses. `order` is one that
/// the edges of `graph` allow.
pub(super) fn solve(graph: &mut Graph, rows: &[Row], order: Vec<usize>, budget: u64) -> Finding {
    let mut rows_of = vec![Vec::new(); graph.nodes()];
    for (at, row) in rows.iter().enumerate() {
        row.accesses.iter().for_each(|access| rows_of[access.transaction].push(at));
    }
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &node)| places[node] = place);
    let mut solver = Solver {
        graph,
        rows,
        rows_of,
        places,
        queue: (0..rows.len()).collect(),
        is_queued: vec![true; rows.len()],
        frames: Vec::new(),
        left: budget,
    };
    solver.run(order)
}

struct Solver<'a> {
    graph: &'a mut Graph,
    rows: &'a [Row],
    /// The rows that a node accesses.
    rows_of: Vec<Vec<usize>>,
    /// Where each node is in the order.
    places: Vec<usize>,
    /// The rows whose reads may meet wrong versions: those of nodes that moved.
    queue: VecDeque<usize>,
    is_queued: Vec<bool>,
    frames: Vec<Frame>,
    left: u64,
}

type Assumption = Vec<(usize, usize, Kind)>;

/// A read that met a wrong version, and what can be assumed about it.
struct Frame {
    /// What is not refuted; the likeliest is last.
    alternatives: Vec<Assumption>,
    /// How many edges there were before.
    edges: usize,
    /// The frames that refutations rest on.
    blamed: BTreeSet<usize>,
    refutations: Vec<Cycle>,
}

impl Solver<'_> {
    fn run(&mut self, mut order: Vec<usize>) -> Finding {
        while let Some(row) = self.queue.pop_front() {
            self.is_queued[row] = false;
            let Some(alternatives) = self.conflict(row) else { continue };
            self.enqueue(row);
            self.frames.push(Frame {
                alternatives,
                edges: self.graph.edges.len(),
                blamed: BTreeSet::new(),
                refutations: Vec::new(),
            });
            if let Some(refutations) = self.assume_next() {
                return Finding::Contradiction(refutations);
            }
            if self.left == 0 {
                return Finding::OutOfBudget;
            }
        }
        order.sort_unstable_by_key(|&node| self.places[node]);
        Finding::Order(order)
    }

    fn enqueue(&mut self, row: usize) {
        if !self.is_queued[row] {
            self.is_queued[row] = true;
            self.queue.push_back(row);
        }
    }

    fn spend(&mut self, effort: usize) {
        self.left = self.left.saturating_sub(effort as u64);
    }

    /// What can be assumed about the first read of the row that meets a wrong version, if one does.
    fn conflict(&mut self, row: usize) -> Option<Vec<Assumption>> {
        let rows = self.rows;
        let row = &rows[row];
        self.spend(row.accesses.len());
        let mut accesses: Vec<_> = row.accesses.iter().collect();
        accesses.sort_unstable_by_key(|access| self.places[access.transaction]);
        let mut current: Option<&Access> = None;
        for access in accesses {
            if let Some(want) = access.wants.iter().find(|want| !want.is_met_by(current)) {
                return Some(self.alternatives(row, access, *want, current));
            }
            if access.leaves.is_some() {
                current = Some(access);
            }
        }
        None
    }

    /// In any good order, `reader` comes before `met`, or a version that it wants is between them.
    fn alternatives(
        &self,
        row: &Row,
        reader: &Access,
        want: Want,
        met: Option<&Access>,
    ) -> Vec<Assumption> {
        let mut alternatives = Vec::new();
        if let Some(met) = met {
            let missed = row.missed(reader, met);
            alternatives.push(vec![(reader.transaction, met.transaction, missed)]);
        }
        let is_right = |access: &&Access| {
            access.transaction != reader.transaction
                && access.leaves.is_some()
                && want.is_met_by(Some(access))
        };
        for right in row.accesses.iter().filter(is_right) {
            let mut edges = Vec::new();
            edges.extend(met.map(|met| (met.transaction, right.transaction, Kind::Ww(row.key))));
            edges.push((right.transaction, reader.transaction, Kind::Wr(row.key)));
            alternatives.push(edges);
        }
        alternatives.sort_by_cached_key(|edges| Reverse(self.unlikelihood(edges)));
        alternatives
    }

    /// By how much the edges contradict the order of time.
    fn unlikelihood(&self, edges: &Assumption) -> u64 {
        let times = &self.graph.times;
        let backwards = |&(from, to, _): &(usize, usize, _)| times[from].saturating_sub(times[to]);
        edges.iter().map(backwards).max().unwrap_or(0)
    }

    /// Makes the next assumption that is not refuted at once. If there is none, returns why.
    fn assume_next(&mut self) -> Option<Vec<Cycle>> {
        while let Some(frame) = self.frames.last_mut() {
            let edges = frame.edges;
            match frame.alternatives.pop() {
                Some(assumption) => match self.assume(&assumption) {
                    Ok(()) => return None,
                    Err(cycle) => {
                        self.graph.truncate(edges);
                        self.refute(cycle);
                    }
                },
                None => {
                    if let Some(refutations) = self.go_back() {
                        return Some(refutations);
                    }
                }
            }
        }
        None
    }

    /// # Errors
    ///
    /// The cycle that the assumption closes; some of its edges may have been added.
    fn assume(&mut self, assumption: &Assumption) -> Result<(), Cycle> {
        let level = self.frames.len();
        assumption.iter().try_for_each(|&(from, to, kind)| self.add(Edge { from, to, kind, level }))
    }

    fn refute(&mut self, cycle: Cycle) {
        let level = self.frames.len();
        let frame = self.frames.last_mut().expect("an assumption was made for it");
        frame.blamed.extend(cycle.levels().filter(|&other| other < level));
        if frame.refutations.len() < KEPT {
            frame.refutations.push(cycle);
        }
    }

    /// Gives the last frame up, and goes back to the one that is to blame. If none is, returns the
    /// refutations.
    fn go_back(&mut self) -> Option<Vec<Cycle>> {
        let frame = self.frames.pop()?;
        let Some(&level) = frame.blamed.last() else { return Some(frame.refutations) };
        self.frames.truncate(level);
        let blamed = self.frames.last_mut().expect("levels are numbers of frames");
        blamed.blamed.extend(frame.blamed.iter().filter(|&&other| other < level));
        let room = KEPT.saturating_sub(blamed.refutations.len());
        blamed.refutations.extend(frame.refutations.into_iter().take(room));
        self.graph.truncate(blamed.edges);
        None
    }

    /// Adds an edge and repairs the order.
    ///
    /// # Errors
    ///
    /// The cycle that it would close. Nothing has changed.
    fn add(&mut self, edge: Edge) -> Result<(), Cycle> {
        let (first, last) = (self.places[edge.to], self.places[edge.from]);
        if first <= last {
            let behind = self.behind(&edge, last)?;
            let before = self.before(edge.from, first);
            self.reorder(before, behind);
        }
        self.graph.push(edge);
        Ok(())
    }

    /// The nodes that come behind the edge's end, up to the place `last` of its start.
    fn behind(&mut self, edge: &Edge, last: usize) -> Result<Vec<usize>, Cycle> {
        let mut met = vec![edge.to];
        let mut came_by = HashMap::from([(edge.to, *edge)]);
        let mut at = 0;
        while at < met.len() && !came_by.contains_key(&edge.from) {
            let node = met[at];
            at += 1;
            for next in self.graph.leaving(node) {
                if self.places[next.to] <= last && !came_by.contains_key(&next.to) {
                    came_by.insert(next.to, *next);
                    met.push(next.to);
                }
            }
        }
        self.spend(met.len());
        if !came_by.contains_key(&edge.from) {
            return Ok(met);
        }
        let mut cycle = vec![came_by[&edge.from]];
        while cycle[cycle.len() - 1] != *edge {
            cycle.push(came_by[&cycle[cycle.len() - 1].from]);
        }
        cycle.reverse();
        Err(Cycle::new(self.graph, cycle))
    }

    /// The nodes that come before `node`, down to the place `first`.
    fn before(&mut self, node: usize, first: usize) -> Vec<usize> {
        let mut met = vec![node];
        let mut is_met = HashSet::from([node]);
        let mut at = 0;
        while at < met.len() {
            for next in self.graph.arriving(met[at]) {
                if self.places[next.from] >= first && is_met.insert(next.from) {
                    met.push(next.from);
                }
            }
            at += 1;
        }
        self.spend(met.len());
        met
    }

    /// Puts the nodes of `before` in front of those of `behind`, in the places that they have.
    fn reorder(&mut self, mut before: Vec<usize>, mut behind: Vec<usize>) {
        before.sort_unstable_by_key(|&node| self.places[node]);
        behind.sort_unstable_by_key(|&node| self.places[node]);
        let nodes = [before, behind].concat();
        let mut places: Vec<_> = nodes.iter().map(|&node| self.places[node]).collect();
        places.sort_unstable();
        for (node, place) in nodes.into_iter().zip(places) {
            self.places[node] = place;
            for at in 0..self.rows_of[node].len() {
                self.enqueue(self.rows_of[node][at]);
            }
        }
    }
}

impl Want {
    fn is_met_by(&self, current: Option<&Access>) -> bool {
        match self.version {
            Version::Of(writer) => current.is_some_and(|access| access.transaction == writer),
            Version::Any { present } => {
                current.and_then(|access| access.leaves).unwrap_or(false) == present
            }
        }
    }
}
