//! Finding an order of transactions in which each read of a row meets the version that it saw.
//!
//! The order starts near the order of time. Where a read meets a wrong version, one of few things
//! must hold in *every* good order: the read comes before the write that it met, or a right version
//! comes between the two. Each is assumed in turn. An assumption is some edges more; the order is
//! repaired locally (Pearce and Kelly's algorithm), or the edges close a cycle and refute it. When
//! all are refuted, the search goes back to the latest assumption that a refutation rests on.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

use super::anomaly::Cycle;
use super::facts::Key;
use super::graph::{Edge, Graph, Kind};
use super::rows::{Access, Row, Version, Want};

/// How many refutations a contradiction keeps.
const KEPT: usize = 8;

/// How far from a read, among the accesses of its row, a version is looked for at first.
const NEAR: usize = 16;

pub(super) enum Finding {
    /// All nodes that have effects in a good order.
    Order(Vec<usize>),
    /// There is no good order: each assumption closes a cycle. Some of these cycles, or if nothing
    /// could be assumed, the key and the transaction that deleted its row.
    Contradiction(Vec<Cycle>, Key, usize),
    OutOfBudget,
}

/// Searches for an order, visiting at most about `budget` edges and accesses. `order` is one that
/// the edges of `graph` allow.
///
/// Transactions in `dormant` have no effect unless that is assumed, too. All edges of theirs lead
/// to them, and from one another.
pub(super) fn solve(
    graph: &mut Graph,
    rows: &[Row],
    dormant: &[bool],
    order: Vec<usize>,
    budget: u64,
) -> Finding {
    let graph_nodes = graph.nodes();
    let mut rows_of = vec![Vec::new(); graph_nodes];
    for (at, row) in rows.iter().enumerate() {
        row.accesses.iter().for_each(|access| rows_of[access.transaction].push(at));
    }
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &node)| places[node] = place);
    let sorted = |row: &Row| {
        let mut sorted: Vec<_> = (0..row.accesses.len()).collect();
        sorted.sort_unstable_by_key(|&at| places[row.accesses[at].transaction]);
        sorted
    };
    let mut is_dormant = dormant.to_vec();
    is_dormant.resize(graph_nodes, false);
    let whole = |row| Reverse(Window { from: 0, until: usize::MAX, row });
    let mut solver = Solver {
        graph,
        rows,
        rows_of,
        sorted: rows.iter().map(sorted).collect(),
        places,
        windows: (0..rows.len()).map(whole).collect(),
        woken_at: vec![0; graph_nodes],
        is_dormant,
        awake: Vec::new(),
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
    /// The accesses of each row, in this order.
    sorted: Vec<Vec<usize>>,
    /// Where reads may meet wrong versions. The first is looked at first. So assumptions follow
    /// the order, and a refutation rests on late ones, which cost little to take back.
    windows: BinaryHeap<Reverse<Window>>,
    is_dormant: Vec<bool>,
    /// The frame that assumed that a node has effects; zero if none did.
    woken_at: Vec<usize>,
    /// The nodes that have effects because of frames, the latest last.
    awake: Vec<usize>,
    frames: Vec<Frame>,
    left: u64,
}

/// The accesses of a row from one place to another, and on to the next write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Window {
    from: usize,
    until: usize,
    row: usize,
}

/// One or two edges.
type Assumption = [Option<(usize, usize, Kind)>; 2];

/// A read that met a wrong version. In any good order it comes before the one that it met, or a
/// version that it wants is between them.
#[derive(Clone, Copy)]
struct Conflict {
    row: usize,
    reader: usize,
    want: Want,
    met: Option<usize>,
}

/// A conflict, and what can be assumed about it.
struct Frame {
    conflict: Conflict,
    /// Assumptions that are not refuted; the likeliest is last.
    alternatives: Vec<Assumption>,
    /// The versions among the alternatives, as long as there may be more of them.
    near: Option<Vec<usize>>,
    /// How many edges and nodes of assumptions there were before.
    edges: usize,
    awake: usize,
    /// The frames that refutations rest on.
    blamed: BTreeSet<usize>,
    refutations: Vec<Cycle>,
}

impl Solver<'_> {
    fn run(&mut self, mut order: Vec<usize>) -> Finding {
        while let Some(Reverse(window)) = self.windows.pop() {
            let Some(conflict) = self.conflict(window) else { continue };
            let from = self.place(conflict.row, conflict.reader);
            self.windows.push(Reverse(Window { from, ..window }));
            if self.windows.peek().is_some_and(|Reverse(first)| first.from < from) {
                continue;
            }
            let frame = self.frame(conflict);
            self.frames.push(frame);
            if let Some(frame) = self.assume_next() {
                let row = &self.rows[frame.conflict.row];
                let reader = row.accesses[frame.conflict.reader].transaction;
                return Finding::Contradiction(frame.refutations, row.key, reader);
            }
            if self.left == 0 {
                return Finding::OutOfBudget;
            }
        }
        order.retain(|&node| !self.is_dormant[node]);
        order.sort_unstable_by_key(|&node| self.places[node]);
        Finding::Order(order)
    }

    fn place(&self, row: usize, access: usize) -> usize {
        self.places[self.rows[row].accesses[access].transaction]
    }

    fn spend(&mut self, effort: usize) {
        self.left = self.left.saturating_sub(effort as u64);
    }

    /// The first read of the window that meets a wrong version.
    fn conflict(&mut self, window: Window) -> Option<Conflict> {
        let (row, accesses) = (window.row, &self.rows[window.row].accesses);
        let sorted = &self.sorted[row];
        let start = sorted.partition_point(|&at| self.place(row, at) < window.from);
        let is_awake = |at: &usize| !self.is_dormant[accesses[*at].transaction];
        let is_write = |at: &usize| accesses[*at].leaves.is_some() && is_awake(at);
        let mut met = sorted[..start].iter().copied().rfind(is_write);
        let mut looked = 1;
        let mut conflict = None;
        for &reader in &sorted[start..] {
            looked += 1;
            if !is_awake(&reader) {
                continue;
            }
            let current = met.map(|met| &accesses[met]);
            let mut wants = accesses[reader].wants.iter();
            if let Some(&want) = wants.find(|want| !want.is_met_by(current)) {
                conflict = Some(Conflict { row, reader, want, met });
                break;
            }
            if is_write(&reader) {
                met = Some(reader);
                if self.place(row, reader) > window.until {
                    break;
                }
            }
        }
        self.spend(looked);
        conflict
    }

    /// The conflict, with the alternatives that are near.
    fn frame(&mut self, conflict: Conflict) -> Frame {
        let row = &self.rows[conflict.row];
        let near = match conflict.want.version {
            Version::Of(writer) => row.access_of(writer).into_iter().collect(),
            Version::Any { .. } => self.near(&conflict),
        };
        let mut alternatives: Vec<_> =
            near.iter().map(|&right| conflict.right_between(row, right)).collect();
        if let Some(met) = conflict.met {
            let (reader, met) = (&row.accesses[conflict.reader], &row.accesses[met]);
            let missed = row.missed(reader, met);
            alternatives.push([Some((reader.transaction, met.transaction, missed)), None]);
        }
        self.sort(&mut alternatives);
        Frame {
            conflict,
            alternatives,
            near: matches!(conflict.want.version, Version::Any { .. }).then_some(near),
            edges: self.graph.edges.len(),
            awake: self.awake.len(),
            blamed: self.wakers(row, &conflict),
            refutations: Vec::new(),
        }
    }

    /// The frames without which there would be no conflict.
    fn wakers(&self, row: &Row, conflict: &Conflict) -> BTreeSet<usize> {
        let both = [Some(conflict.reader), conflict.met].into_iter().flatten();
        let woken = both.map(|at| self.woken_at[row.accesses[at].transaction]);
        woken.filter(|&level| level > 0).collect()
    }

    /// The right versions near the read.
    fn near(&self, conflict: &Conflict) -> Vec<usize> {
        let row = &self.rows[conflict.row];
        let sorted = &self.sorted[conflict.row];
        let place = self.place(conflict.row, conflict.reader);
        let at = sorted.partition_point(|&at| self.place(conflict.row, at) < place);
        let around = at.saturating_sub(NEAR)..sorted.len().min(at + NEAR);
        let around = sorted[around].iter().copied();
        around.filter(|&right| conflict.is_right(row, right)).collect()
    }

    /// Adds the alternatives that are not near, once.
    fn add_far(&mut self) {
        let Some(frame) = self.frames.last_mut() else { return };
        let Some(mut near) = frame.near.take() else { return };
        near.sort_unstable();
        let conflict = frame.conflict;
        let row = &self.rows[conflict.row];
        let far = (0..row.accesses.len())
            .filter(|&right| near.binary_search(&right).is_err() && conflict.is_right(row, right));
        let mut alternatives: Vec<_> =
            far.map(|right| conflict.right_between(row, right)).collect();
        self.sort(&mut alternatives);
        self.spend(row.accesses.len());
        if let Some(frame) = self.frames.last_mut() {
            frame.alternatives = alternatives;
        }
    }

    fn sort(&self, alternatives: &mut [Assumption]) {
        alternatives.sort_by_cached_key(|edges| Reverse(self.unlikelihood(edges)));
    }

    /// By how much the edges contradict the order of time.
    fn unlikelihood(&self, edges: &Assumption) -> u64 {
        let times = &self.graph.times;
        let backwards = |&(from, to, _): &(usize, usize, _)| times[from].saturating_sub(times[to]);
        edges.iter().flatten().map(backwards).max().unwrap_or(0)
    }

    /// Makes the next assumption that is not refuted at once. If there is none, returns the frame
    /// that cannot be.
    fn assume_next(&mut self) -> Option<Frame> {
        while let Some(frame) = self.frames.last_mut() {
            let (edges, awake) = (frame.edges, frame.awake);
            if frame.alternatives.is_empty() {
                self.add_far();
            }
            let frame = self.frames.last_mut()?;
            match frame.alternatives.pop() {
                Some(assumption) => match self.assume(&assumption) {
                    Ok(()) => return None,
                    Err(cycle) => {
                        self.take_back(edges, awake);
                        self.refute(cycle);
                    }
                },
                None => {
                    if let Some(frame) = self.go_back() {
                        return Some(frame);
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
        let edges = assumption.iter().flatten();
        edges.clone().for_each(|&(from, to, _)| [from, to].into_iter().for_each(|n| self.wake(n)));
        edges.copied().try_for_each(|(from, to, kind)| self.add(Edge { from, to, kind, level }))
    }

    /// Has the node take effect. If it read values of others that are dormant, those are assumed
    /// to resolve its conflicts.
    fn wake(&mut self, node: usize) {
        if self.is_dormant[node] {
            self.is_dormant[node] = false;
            self.woken_at[node] = self.frames.len();
            self.awake.push(node);
            self.look_at(node);
        }
    }

    /// Takes assumptions back, up to these numbers of edges and nodes.
    fn take_back(&mut self, edges: usize, awake: usize) {
        self.graph.truncate(edges);
        for node in self.awake.split_off(awake) {
            self.is_dormant[node] = true;
            self.woken_at[node] = 0;
            self.look_at(node);
        }
    }

    /// Has the rows of a node be looked at again where it is.
    fn look_at(&mut self, node: usize) {
        let place = self.places[node];
        let window = |&row: &usize| Reverse(Window { from: place, until: place, row });
        self.windows.extend(self.rows_of[node].iter().map(window));
    }

    fn refute(&mut self, cycle: Cycle) {
        let level = self.frames.len();
        let frame = self.frames.last_mut().expect("an assumption was made for it");
        frame.blamed.extend(cycle.levels().filter(|&other| other < level));
        if frame.refutations.len() < KEPT {
            frame.refutations.push(cycle);
        }
    }

    /// Gives the last frame up, and goes back to the one that is to blame. If none is, returns it.
    fn go_back(&mut self) -> Option<Frame> {
        let frame = self.frames.pop()?;
        let Some(&level) = frame.blamed.last() else { return Some(frame) };
        self.frames.truncate(level);
        let blamed = self.frames.last_mut().expect("levels are numbers of frames");
        blamed.blamed.extend(frame.blamed.iter().filter(|&&other| other < level));
        let room = KEPT.saturating_sub(blamed.refutations.len());
        blamed.refutations.extend(frame.refutations.into_iter().take(room));
        let (edges, awake) = (blamed.edges, blamed.awake);
        self.take_back(edges, awake);
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
            if let Some(back) = self.graph.by_time(edge.to, edge.from) {
                return Err(Cycle(vec![edge, back]));
            }
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
        let (from, until) = (places[0], places[places.len() - 1]);
        let mut rows: Vec<_> =
            nodes.iter().flat_map(|&node| self.rows_of[node].iter().copied()).collect();
        rows.sort_unstable();
        rows.dedup();
        for (node, place) in nodes.into_iter().zip(places) {
            self.places[node] = place;
        }
        for row in rows {
            self.sort_again(Window { from, until, row });
            self.windows.push(Reverse(Window { from, until, row }));
        }
    }

    /// Sorts the accesses of a row again, after the nodes within the window have moved there.
    fn sort_again(&mut self, Window { from, until, row }: Window) {
        let accesses = &self.rows[row].accesses;
        let place = |at: &usize| self.places[accesses[*at].transaction];
        let sorted = &mut self.sorted[row];
        let start = sorted.partition_point(|at| place(at) < from);
        let end = sorted.partition_point(|at| place(at) <= until);
        sorted[start..end].sort_unstable_by_key(place);
    }
}

impl Conflict {
    /// Whether the read could meet what that access left.
    fn is_right(&self, row: &Row, right: usize) -> bool {
        let access = &row.accesses[right];
        right != self.reader && access.leaves.is_some() && self.want.is_met_by(Some(access))
    }

    /// That what `right` left is between the read and what it met.
    fn right_between(&self, row: &Row, right: usize) -> Assumption {
        let transaction = |at: usize| row.accesses[at].transaction;
        let right = transaction(right);
        let met = self.met.map(|met| (transaction(met), right, Kind::Ww(row.key)));
        [met, Some((right, transaction(self.reader), Kind::Wr(row.key)))]
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
