//! Betweenness centrality from some sources, by Brandes' algorithm (2001): a search that counts
//! shortest paths and marks the edges on them, and back again, adding up what depends on each
//! vertex. Scores are relative to the largest.

use std::ops::Range;

use super::queue::Queue;
use crate::Processor;
use crate::array::Array;
use crate::graph::Graph;
use crate::program::{Kernel, Setup};
use crate::team::Member;

/// Vertices a thread takes at a time.
const PIECE: usize = 64;
/// By how much a score may differ from the oracle's, which computes in `f64`.
const PRECISION: f64 = 1e-4;

pub(crate) struct Bc {
    graph: Graph,
    sources: Vec<usize>,
    scores: Array<f32>,
    /// How many edges a vertex is from the source; less than zero if it was not seen yet.
    depths: Array<i32>,
    /// How many shortest paths lead to a vertex.
    paths: Array<f64>,
    /// The dependency of each vertex.
    deltas: Array<f32>,
    /// A bit for each edge: whether it is on a shortest path.
    on_path: Array<u64>,
    queue: Queue,
}

impl Bc {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let graph = Graph::new(setup);
        let sources = graph.sources(setup.parameters.seed, setup.rounds);
        let (vertices, layout) = (graph.vertices, &mut setup.layout);
        Self {
            scores: layout.filled("scores", vertices, f32::NAN),
            depths: layout.filled("depths", vertices, -1),
            paths: layout.filled("counts of paths", vertices, 0.0),
            deltas: layout.filled("dependencies", vertices, 0.0),
            on_path: layout.filled("edges on shortest paths", graph.out.edges().div_ceil(64), 0),
            queue: Queue::new(layout, setup.threads, vertices),
            graph,
            sources,
        }
    }

    fn begin<P: Processor>(&self, me: &Member<P>, source: usize) {
        let p = &me.processor;
        for vertex in me.share(self.graph.vertices) {
            self.depths.set(p, vertex, -1);
            self.paths.set(p, vertex, 0.0);
        }
        for word in me.share(self.on_path.len()) {
            self.on_path.set(p, word, 0);
        }
        me.barrier();
        if me.leads() {
            self.depths.set(p, source, 0);
            self.paths.set(p, source, 1.0);
            self.queue.reset(p, source);
        }
    }

    /// Where the vertices of each depth are in the queue.
    fn search<P: Processor>(&self, me: &Member<P>) -> Vec<Range<usize>> {
        let mut windows = Vec::new();
        let mut window = self.queue.slide(me, &(0..0));
        while !window.is_empty() {
            self.step(me, &window, windows.len() as i32 + 1);
            let next = self.queue.slide(me, &window);
            windows.push(std::mem::replace(&mut window, next));
        }
        windows
    }

    fn step<P: Processor>(&self, me: &Member<P>, window: &Range<usize>, depth: i32) {
        let p = &me.processor;
        let end = self.queue.end(me);
        me.each_piece(window.len(), PIECE, |piece| {
            for place in piece {
                let vertex = self.queue.get(p, window.start + place);
                for edge in self.graph.out.row(p, vertex) {
                    let to = self.graph.out.neighbour(p, edge) as usize;
                    p.works(3);
                    if self.depths.get(p, to) < 0 && self.depths.compare_exchange(p, to, -1, depth)
                    {
                        end.push(to);
                    }
                    if self.depths.get(p, to) == depth {
                        self.on_path.update(p, edge / 64, |word| word | 1 << (edge % 64));
                        let paths = self.paths.get(p, vertex);
                        self.paths.update(p, to, |sum| sum + paths);
                    }
                }
            }
        });
        end.flush();
    }

    fn go_back<P: Processor>(&self, me: &Member<P>, windows: &[Range<usize>]) {
        let p = &me.processor;
        for vertex in me.share(self.graph.vertices) {
            self.deltas.set(p, vertex, 0.0);
        }
        me.barrier();
        // Nothing depends on the last ones, and the source does not count.
        for window in windows.iter().skip(1).rev().skip(1) {
            me.each_piece(window.len(), PIECE, |piece| {
                for place in piece {
                    self.depend(p, self.queue.get(p, window.start + place));
                }
            });
            me.barrier();
        }
    }

    fn depend<P: Processor>(&self, p: &P, vertex: usize) {
        let mut delta = 0.0;
        for edge in self.graph.out.row(p, vertex) {
            p.works(3);
            if self.on_path.get(p, edge / 64) >> (edge % 64) & 1 == 0 {
                continue;
            }
            let to = self.graph.out.neighbour(p, edge) as usize;
            let ratio = self.paths.get(p, vertex) / self.paths.get(p, to);
            delta += ratio as f32 * (1.0 + self.deltas.get(p, to));
            p.works(4);
        }
        self.deltas.set(p, vertex, delta);
        let score = self.scores.get(p, vertex);
        self.scores.set(p, vertex, score + delta);
    }

    /// Makes scores relative to the largest.
    fn normalize<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        let share = || me.share(self.graph.vertices);
        let mine = share().fold(0.0, |most: f32, vertex| most.max(self.scores.get(p, vertex)));
        // The bits of numbers above zero are in the same order.
        let most = f32::from_bits(me.combine(mine.to_bits().into(), u64::max) as u32);
        if most > 0.0 {
            for vertex in share() {
                let score = self.scores.get(p, vertex);
                self.scores.set(p, vertex, score / most);
            }
        }
    }

    fn oracle(&self) -> Vec<f64> {
        let out = &self.graph.out;
        let vertices = self.graph.vertices;
        let mut scores = vec![0.0_f64; vertices];
        for &source in &self.sources {
            let (mut paths, mut depths) = (vec![0.0; vertices], vec![usize::MAX; vertices]);
            let (mut order, mut head) = (vec![source], 0);
            (paths[source], depths[source]) = (1.0, 0);
            while let Some(&vertex) = order.get(head) {
                head += 1;
                for to in out.peek(vertex).map(|to| to as usize) {
                    if depths[to] == usize::MAX {
                        depths[to] = depths[vertex] + 1;
                        order.push(to);
                    }
                    if depths[to] == depths[vertex] + 1 {
                        paths[to] += paths[vertex];
                    }
                }
            }
            let mut deltas = vec![0.0; vertices];
            for &vertex in order.iter().skip(1).rev() {
                for to in out.peek(vertex).map(|to| to as usize) {
                    if depths[to] == depths[vertex] + 1 {
                        deltas[vertex] += paths[vertex] / paths[to] * (1.0 + deltas[to]);
                    }
                }
                scores[vertex] += deltas[vertex];
            }
        }
        let most = scores.iter().copied().fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        scores.iter().map(|score| score / most).collect()
    }
}

impl Kernel for Bc {
    fn run<P: Processor>(&self, me: &Member<P>) {
        for vertex in me.share(self.graph.vertices) {
            self.scores.set(&me.processor, vertex, 0.0);
        }
        for &source in &self.sources {
            self.begin(me, source);
            let windows = self.search(me);
            self.go_back(me, &windows);
        }
        me.barrier();
        self.normalize(me);
    }

    fn verify(&self) -> Result<(), String> {
        for (vertex, right) in self.oracle().into_iter().enumerate() {
            let score = f64::from(self.scores.peek(vertex));
            let off = (score - right).abs();
            if off.is_nan() || off > PRECISION {
                return Err(format!("vertex {vertex} has the score {score} instead of {right}"));
            }
        }
        Ok(())
    }
}
