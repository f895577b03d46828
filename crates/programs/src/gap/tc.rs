//! Triangles of the graph without directions: for each edge to a lower vertex, the vertices that
//! are lower still and next to both ends, found by merging two rows in order. Vertices are numbered
//! by degree beforehand, so that rows below a vertex are short.

use std::cmp::Ordering;

use crate::Processor;
use crate::array::Array;
use crate::graph::Graph;
use crate::program::{Kernel, Setup};
use crate::team::Member;

/// Vertices a thread takes at a time.
const PIECE: usize = 64;

pub(crate) struct Tc {
    graph: Graph,
    total: Array<u64>,
    rounds: u32,
}

impl Tc {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let graph = Graph::by_degree(setup);
        let total = setup.layout.filled("total", 1, u64::MAX);
        Self { graph, total, rounds: setup.rounds }
    }

    /// Triangles of which this thread has seen the highest vertex.
    fn count<P: Processor>(&self, me: &Member<P>) -> u64 {
        let (p, out) = (&me.processor, &self.graph.out);
        let mut triangles = 0;
        me.each_piece(self.graph.vertices, PIECE, |piece| {
            for high in piece {
                for edge in out.row(p, high) {
                    let middle = out.neighbour(p, edge) as usize;
                    if middle > high {
                        break;
                    }
                    triangles += self.common_below(p, high, middle);
                }
            }
        });
        triangles
    }

    /// How many neighbours of both are below the second.
    fn common_below<P: Processor>(&self, p: &P, high: usize, middle: usize) -> u64 {
        let out = &self.graph.out;
        let (mut of_high, mut of_middle) = (out.row(p, high), out.row(p, middle));
        let next = |row: &mut std::ops::Range<usize>| {
            p.works(3);
            let vertex = row.next().map(|place| out.neighbour(p, place) as usize);
            vertex.filter(|&vertex| vertex < middle)
        };
        let (mut a, mut b) = (next(&mut of_high), next(&mut of_middle));
        let mut common = 0;
        while let (Some(first), Some(second)) = (a, b) {
            let order = first.cmp(&second);
            common += u64::from(order == Ordering::Equal);
            if order != Ordering::Greater {
                a = next(&mut of_high);
            }
            if order != Ordering::Less {
                b = next(&mut of_middle);
            }
        }
        common
    }
}

impl Kernel for Tc {
    fn run<P: Processor>(&self, me: &Member<P>) {
        for _ in 0..self.rounds {
            let mine = self.count(me);
            let total = me.count(mine);
            if me.leads() {
                self.total.set(&me.processor, 0, total);
            }
        }
    }

    /// Counts by marking the neighbours of each vertex, and looking at theirs.
    fn verify(&self) -> Result<(), String> {
        let out = &self.graph.out;
        let mut marked_by = vec![usize::MAX; self.graph.vertices];
        let mut triangles = 0;
        for vertex in 0..self.graph.vertices {
            out.peek(vertex).for_each(|to| marked_by[to as usize] = vertex);
            for second in out.peek(vertex).filter(|&second| second as usize > vertex) {
                let third = out.peek(second as usize).filter(|&third| third > second);
                triangles += third.filter(|&third| marked_by[third as usize] == vertex).count();
            }
        }
        let found = self.total.peek(0);
        if found != triangles as u64 {
            return Err(format!("{found} triangles were counted; there are {triangles}"));
        }
        Ok(())
    }
}
