//! Connected components, by the algorithm of Shiloach and Vishkin (1982): each vertex has a label;
//! edges make the larger of two labels point to the smaller, and labels are shortened, until no
//! edge has two.

use crate::Processor;
use crate::array::Array;
use crate::graph::Graph;
use crate::program::{Kernel, Setup};
use crate::team::Member;

/// Vertices a thread takes at a time.
const PIECE: usize = 256;

pub(crate) struct Cc {
    graph: Graph,
    labels: Array<u32>,
    rounds: u32,
}

impl Cc {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let graph = Graph::new(setup);
        let labels = setup.layout.filled("labels", graph.vertices, u32::MAX);
        Self { graph, labels, rounds: setup.rounds }
    }

    /// Whether this thread has changed a label.
    fn hook<P: Processor>(&self, me: &Member<P>) -> bool {
        let (p, labels) = (&me.processor, &self.labels);
        let mut changed = false;
        me.each_piece(self.graph.vertices, PIECE, |piece| {
            for vertex in piece {
                for edge in self.graph.out.row(p, vertex) {
                    let to = self.graph.out.neighbour(p, edge) as usize;
                    let (mine, other) = (labels.get(p, vertex), labels.get(p, to));
                    p.works(4);
                    let (low, high) = (mine.min(other), mine.max(other));
                    if low == high {
                        continue;
                    }
                    p.depends();
                    // Only a label that points to itself may be made to point elsewhere.
                    if labels.get(p, high as usize) == high {
                        changed = true;
                        labels.set(p, high as usize, low);
                    }
                }
            }
        });
        changed
    }

    /// Makes labels point to where they lead in the end.
    fn shorten<P: Processor>(&self, me: &Member<P>) {
        let (p, labels) = (&me.processor, &self.labels);
        me.each_piece(self.graph.vertices, PIECE, |piece| {
            for vertex in piece {
                let mut label = labels.follow(p, vertex);
                loop {
                    let next = labels.follow(p, label as usize);
                    p.works(2);
                    if next == label {
                        break;
                    }
                    labels.set(p, vertex, next);
                    label = next;
                }
            }
        });
    }
}

impl Kernel for Cc {
    fn run<P: Processor>(&self, me: &Member<P>) {
        for _ in 0..self.rounds {
            for vertex in me.share(self.graph.vertices) {
                self.labels.set(&me.processor, vertex, vertex as u32);
            }
            me.barrier();
            loop {
                let changed = me.count(self.hook(me).into()) > 0;
                self.shorten(me);
                me.barrier();
                if !changed {
                    break;
                }
            }
        }
    }

    fn verify(&self) -> Result<(), String> {
        let roots = components(&self.graph);
        // A component's label is its smallest vertex.
        let mut smallest = vec![u32::MAX; roots.len()];
        for (vertex, &root) in roots.iter().enumerate() {
            let smallest = &mut smallest[root];
            *smallest = (*smallest).min(vertex as u32);
        }
        for (vertex, &root) in roots.iter().enumerate() {
            let (label, right) = (self.labels.peek(vertex), smallest[root]);
            if label != right {
                return Err(format!("vertex {vertex} has the label {label} instead of {right}"));
            }
        }
        Ok(())
    }
}

/// A vertex of its component for each vertex, by disjoint sets.
fn components(graph: &Graph) -> Vec<usize> {
    fn root(parents: &mut [usize], mut vertex: usize) -> usize {
        while parents[vertex] != vertex {
            parents[vertex] = parents[parents[vertex]];
            vertex = parents[vertex];
        }
        vertex
    }
    let mut parents: Vec<usize> = (0..graph.vertices).collect();
    for vertex in 0..graph.vertices {
        for to in graph.out.peek(vertex) {
            let (from, to) = (root(&mut parents, vertex), root(&mut parents, to as usize));
            parents[from] = to;
        }
    }
    (0..graph.vertices).map(|vertex| root(&mut parents, vertex)).collect()
}
