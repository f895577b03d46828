//! Shortest paths by delta stepping (Meyer and Sanders, 2003), as the GAP reference does it: a
//! vertex whose distance has changed goes into a bin of its thread, one for each range of
//! distances; all threads' smallest bins make the next frontier; a thread empties its small bins
//! alone.
//!
//! Bins lie in a log of each thread's own, whose addresses go round. A real program's allocator
//! might do otherwise; that is not known.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::Processor;
use crate::array::Array;
use crate::graph::{Graph, WeightedEdge};
use crate::program::{Kernel, Setup};
use crate::team::Member;

const UNREACHED: u64 = u64::MAX;
const NO_BIN: u64 = u64::MAX;
/// Vertices a thread takes at a time.
const PIECE: usize = 64;
/// Bins with fewer entries are not worth being shared.
const SMALL_BIN: usize = 1000;
/// Entries of a thread's log, at least.
const LEAST_LOG: usize = 1024;

pub(crate) struct Sssp {
    graph: Graph<WeightedEdge>,
    sources: Vec<usize>,
    delta: u64,
    distances: Array<u64>,
    frontier: Array<u32>,
    /// The bin that makes the frontier, of even and of odd steps.
    bins: Array<u64>,
    /// How long the frontier is, of even and of odd steps.
    tails: Array<u64>,
    /// All threads' bins.
    logs: Array<u32>,
}

impl Sssp {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let graph = Graph::weighted(setup);
        let sources = graph.sources(setup.parameters.seed, setup.rounds);
        let edges = graph.out.edges();
        let layout = &mut setup.layout;
        let log = (2 * edges / setup.threads).max(LEAST_LOG);
        Self {
            delta: delta(&graph),
            distances: layout.filled("distances", graph.vertices, UNREACHED),
            frontier: layout.filled("frontier", edges + 1, 0),
            bins: layout.padded("next bins", std::iter::repeat_n(NO_BIN, 2)),
            tails: layout.padded("lengths of frontiers", std::iter::repeat_n(0, 2)),
            logs: layout.filled("bins", setup.threads * log, 0),
            graph,
            sources,
        }
    }

    fn search<P: Processor>(&self, me: &Member<P>, source: usize) {
        let p = &me.processor;
        for vertex in me.share(self.graph.vertices) {
            self.distances.set(p, vertex, UNREACHED);
        }
        me.barrier();
        if me.leads() {
            self.begin(p, source);
        }
        me.barrier();
        let mut bins = Bins::new(me, &self.logs);
        for step in 0.. {
            let (now, next) = (step % 2, (step + 1) % 2);
            let bin = self.bins.get(p, now);
            if bin == NO_BIN {
                break;
            }
            self.take_frontier(me, now, bin, &mut bins);
            self.take_small_bins(p, bin, &mut bins);
            if let Some(least) = bins.least() {
                lower(p, &self.bins, next, least);
            }
            me.barrier();
            let bin = self.bins.get(p, next);
            // Nobody lowers this one before the barrier below.
            if me.leads() {
                self.bins.set(p, now, NO_BIN);
                self.tails.set(p, now, 0);
            }
            self.give_frontier(p, next, bin, &mut bins);
            me.barrier();
        }
    }

    fn begin<P: Processor>(&self, p: &P, source: usize) {
        self.distances.set(p, source, 0);
        self.frontier.set(p, 0, source as u32);
        self.bins.set(p, 0, 0);
        self.bins.set(p, 1, NO_BIN);
        self.tails.set(p, 0, 1);
        self.tails.set(p, 1, 0);
    }

    fn take_frontier<P: Processor>(
        &self,
        me: &Member<P>,
        now: usize,
        bin: u64,
        bins: &mut Bins<P>,
    ) {
        let p = &me.processor;
        let length = (self.tails.follow(p, now) as usize).min(self.frontier.len());
        me.each_piece(length, PIECE, |piece| {
            for place in piece {
                let vertex = self.frontier.follow(p, place) as usize;
                // Else it was nearer, and has been taken in an earlier bin.
                if self.distances.get(p, vertex) >= bin * self.delta {
                    self.relax(p, vertex, bins);
                }
            }
        });
    }

    fn take_small_bins<P: Processor>(&self, p: &P, bin: u64, bins: &mut Bins<P>) {
        while let Some(entries) = bins.take_if(bin, |entries| entries.len() < SMALL_BIN) {
            for entry in entries {
                let vertex = bins.get(entry) as usize;
                self.relax(p, vertex, bins);
            }
        }
    }

    fn relax<P: Processor>(&self, p: &P, vertex: usize, bins: &mut Bins<P>) {
        let distance = self.distances.get(p, vertex);
        for edge in self.graph.out.row(p, vertex) {
            let WeightedEdge { to, weight } = self.graph.out.neighbour(p, edge);
            let new = distance + u64::from(weight);
            p.works(3);
            if lower(p, &self.distances, to as usize, new) {
                p.works(2);
                bins.push(new / self.delta, to);
            }
        }
    }

    /// Moves a bin into the frontier, as far as there is room; the rest stays.
    fn give_frontier<P: Processor>(&self, p: &P, next: usize, bin: u64, bins: &mut Bins<P>) {
        let Some(mut entries) = bins.take_if(bin, |_| true) else { return };
        let add = |tail| tail + entries.len() as u64;
        let start = self.tails.update(p, next, add) as usize;
        let room = self.frontier.len().saturating_sub(start);
        let rest = entries.split_off(entries.len().min(room));
        for (index, entry) in entries.into_iter().enumerate() {
            self.frontier.set(p, start + index, bins.get(entry));
        }
        bins.put_back(bin, rest);
    }

    /// Distances by Dijkstra's algorithm.
    fn oracle(&self, source: usize) -> Vec<u64> {
        use std::cmp::Reverse;
        let mut distances = vec![UNREACHED; self.graph.vertices];
        distances[source] = 0;
        let mut heap = std::collections::BinaryHeap::from([Reverse((0, source))]);
        while let Some(Reverse((distance, vertex))) = heap.pop() {
            if distance > distances[vertex] {
                continue;
            }
            for edge in self.graph.out.peek(vertex) {
                let (to, new) = (edge.to as usize, distance + u64::from(edge.weight));
                if new < distances[to] {
                    distances[to] = new;
                    heap.push(Reverse((new, to)));
                }
            }
        }
        distances
    }
}

impl Kernel for Sssp {
    fn run<P: Processor>(&self, me: &Member<P>) {
        for &source in &self.sources {
            self.search(me, source);
            me.barrier();
        }
    }

    fn verify(&self) -> Result<(), String> {
        let &source = self.sources.last().expect("there is a source");
        for (vertex, right) in self.oracle(source).into_iter().enumerate() {
            let distance = self.distances.peek(vertex);
            if distance != right {
                return Err(format!(
                    "vertex {vertex} is at distance {distance} from {source} instead of {right}"
                ));
            }
        }
        Ok(())
    }
}

/// An entry of a thread's log: where it lies.
type Entry = usize;

/// A thread's bins.
struct Bins<'a, P> {
    processor: &'a P,
    logs: &'a Array<u32>,
    start: usize,
    length: usize,
    /// Entries that were ever written.
    written: usize,
    /// Which entries, with their vertices: the log goes round while bins still hold old ones.
    bins: BTreeMap<u64, Vec<(Entry, u32)>>,
}

impl<'a, P: Processor> Bins<'a, P> {
    fn new(me: &'a Member<P>, logs: &'a Array<u32>) -> Self {
        let length = logs.len() / me.threads();
        let start = me.thread * length;
        Self { processor: &me.processor, logs, start, length, written: 0, bins: BTreeMap::new() }
    }

    fn push(&mut self, bin: u64, vertex: u32) {
        let entry = self.start + self.written % self.length;
        self.written += 1;
        self.logs.set(self.processor, entry, vertex);
        self.bins.entry(bin).or_default().push((entry, vertex));
    }

    fn get(&self, (entry, vertex): (Entry, u32)) -> u32 {
        self.logs.follow(self.processor, entry);
        vertex
    }

    fn take_if(
        &mut self,
        bin: u64,
        condition: impl Fn(&[(Entry, u32)]) -> bool,
    ) -> Option<Vec<(Entry, u32)>> {
        self.bins.get(&bin).filter(|entries| condition(entries))?;
        self.bins.remove(&bin)
    }

    fn put_back(&mut self, bin: u64, entries: Vec<(Entry, u32)>) {
        if !entries.is_empty() {
            self.bins.entry(bin).or_default().extend(entries);
        }
    }

    fn least(&self) -> Option<u64> {
        self.bins.keys().next().copied()
    }
}

/// Lowers a value to `new`; whether it was higher.
fn lower<P: Processor>(p: &P, values: &Array<u64>, index: usize, new: u64) -> bool {
    let mut old = values.get(p, index);
    while new < old {
        if values.compare_exchange(p, index, old, new) {
            return true;
        }
        old = values.get(p, index);
    }
    false
}

/// The largest weight divided by the average degree, as Meyer and Sanders propose.
fn delta(graph: &Graph<WeightedEdge>) -> u64 {
    let largest = Cell::new(1);
    for vertex in 0..graph.vertices {
        graph.out.peek(vertex).for_each(|edge| largest.set(largest.get().max(edge.weight)));
    }
    let degree = graph.out.edges() / graph.vertices;
    (u64::from(largest.get()) / degree.max(1) as u64).max(1)
}
