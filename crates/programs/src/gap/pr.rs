//! PageRank: each vertex pulls what its neighbours had in the iteration before (Jacobi), until
//! scores change by less than a tolerance in sum.

use std::cell::Cell;

use crate::Processor;
use crate::array::Array;
use crate::graph::Graph;
use crate::program::{Kernel, Setup};
use crate::team::Member;

const DAMPING: f32 = 0.85;
const TOLERANCE: f64 = 1e-4;
/// Vertices a thread takes at a time.
const PIECE: usize = 256;
/// By how much the sum of all scores' differences from the oracle's may differ, which computes in
/// `f64`.
const PRECISION: f64 = 1e-4;

pub(crate) struct Pr {
    graph: Graph,
    scores: Array<f32>,
    /// The contribution of each vertex to each of its neighbours.
    contributions: Array<f32>,
    most_iterations: u32,
    /// Iterations that were done.
    iterations: Cell<u32>,
}

impl Pr {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let graph = Graph::new(setup);
        let (vertices, layout) = (graph.vertices, &mut setup.layout);
        Self {
            scores: layout.filled("scores", vertices, 1.0 / vertices as f32),
            contributions: layout.filled("contributions", vertices, 0.0),
            graph,
            most_iterations: setup.rounds,
            iterations: Cell::new(0),
        }
    }

    fn contribute<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        for vertex in me.share(self.graph.vertices) {
            let degree = self.graph.out.row(p, vertex).len().max(1);
            let score = self.scores.get(p, vertex);
            p.works(2);
            self.contributions.set(p, vertex, score / degree as f32);
        }
    }

    /// How much this thread's scores have changed.
    fn pull<P: Processor>(&self, me: &Member<P>) -> f64 {
        let p = &me.processor;
        let base = (1.0 - DAMPING) / self.graph.vertices as f32;
        let mut change = 0.0;
        me.each_piece(self.graph.vertices, PIECE, |piece| {
            for vertex in piece {
                let mut sum = 0.0;
                for edge in self.graph.into.row(p, vertex) {
                    let from = self.graph.into.neighbour(p, edge) as usize;
                    sum += self.contributions.get(p, from);
                    p.works(2);
                }
                let (old, new) = (self.scores.get(p, vertex), base + DAMPING * sum);
                self.scores.set(p, vertex, new);
                change += f64::from((new - old).abs());
                p.works(4);
            }
        });
        change
    }

    fn oracle(&self) -> Vec<f64> {
        let (graph, damping) = (&self.graph, f64::from(DAMPING));
        let vertices = graph.vertices;
        let mut scores = vec![1.0 / vertices as f64; vertices];
        for _ in 0..self.iterations.get() {
            let mut next = vec![(1.0 - damping) / vertices as f64; vertices];
            for (vertex, score) in scores.iter().enumerate() {
                let share = damping * score / graph.out.peek_degree(vertex).max(1) as f64;
                graph.out.peek(vertex).for_each(|to| next[to as usize] += share);
            }
            scores = next;
        }
        scores
    }
}

impl Kernel for Pr {
    fn run<P: Processor>(&self, me: &Member<P>) {
        for iteration in 1..=self.most_iterations {
            self.contribute(me);
            me.barrier();
            let mine = self.pull(me);
            self.iterations.set(iteration);
            if me.sum(mine) < TOLERANCE {
                break;
            }
        }
    }

    fn verify(&self) -> Result<(), String> {
        if self.iterations.get() == 0 {
            return Err("no iteration was done".to_owned());
        }
        let oracle = self.oracle();
        let off: f64 = (self.scores.values().zip(&oracle))
            .map(|(score, right)| (f64::from(score) - right).abs())
            .sum();
        if off.is_nan() || off > PRECISION {
            return Err(format!("scores are off by {off:e} in sum, more than {PRECISION:e}"));
        }
        Ok(())
    }
}
