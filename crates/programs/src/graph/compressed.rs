//! Compressed sparse rows, in simulated memory.

use std::ops::Range;
use std::sync::Arc;

use super::{EdgeList, GraphSource, generate};
use crate::Processor;
use crate::array::{Array, Layout};
use crate::element::{Element, element};
use crate::program::Setup;
use crate::random::{Random, mix};

/// The largest weight that is made up; the smallest is 1.
const MADE_UP_WEIGHTS: u64 = 255;
/// Stream of random numbers.
const SOURCES: u64 = 3;

/// An edge to a vertex, with its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WeightedEdge {
    pub(crate) to: u32,
    pub(crate) weight: u32,
}

element!(WeightedEdge { to: u32, weight: u32 });

/// The elements of a vertex's row.
pub(crate) trait Neighbour: Element + Ord {
    fn vertex(self) -> u32;
}

impl Neighbour for u32 {
    fn vertex(self) -> u32 {
        self
    }
}

impl Neighbour for WeightedEdge {
    fn vertex(self) -> u32 {
        self.to
    }
}

/// The edges that leave (or enter) each vertex: in order, without loops, no two to one vertex.
#[derive(Clone)]
pub(crate) struct Compressed<N> {
    offsets: Array<u64>,
    neighbours: Array<N>,
}

impl<N: Neighbour> Compressed<N> {
    fn new(layout: &mut Layout, names: [&'static str; 2], rows: Rows<N>) -> Self {
        Self {
            offsets: layout.array(names[0], rows.offsets),
            neighbours: layout.array(names[1], rows.neighbours),
        }
    }

    pub(crate) fn edges(&self) -> usize {
        self.neighbours.len()
    }

    /// Where the neighbours of a vertex are.
    #[inline]
    pub(crate) fn row<P: Processor>(&self, processor: &P, vertex: usize) -> Range<usize> {
        let start = self.offsets.follow(processor, vertex);
        start as usize..self.offsets.follow(processor, vertex + 1) as usize
    }

    #[inline]
    pub(crate) fn neighbour<P: Processor>(&self, processor: &P, place: usize) -> N {
        self.neighbours.follow(processor, place)
    }

    /// The neighbours of a vertex, for oracles.
    pub(crate) fn peek(&self, vertex: usize) -> impl Iterator<Item = N> + '_ {
        let row = self.offsets.peek(vertex) as usize..self.offsets.peek(vertex + 1) as usize;
        row.map(|place| self.neighbours.peek(place))
    }

    /// Whether there is an edge, for oracles.
    pub(crate) fn has(&self, vertex: usize, to: usize) -> bool {
        let (mut low, mut high) = (self.offsets.peek(vertex), self.offsets.peek(vertex + 1));
        while low < high {
            let middle = low.midpoint(high);
            if (self.neighbours.peek(middle as usize).vertex() as usize) < to {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low < self.offsets.peek(vertex + 1)
            && self.neighbours.peek(low as usize).vertex() as usize == to
    }

    /// How many neighbours a vertex has, for oracles.
    pub(crate) fn peek_degree(&self, vertex: usize) -> usize {
        (self.offsets.peek(vertex + 1) - self.offsets.peek(vertex)) as usize
    }
}

/// A graph in simulated memory.
pub(crate) struct Graph<N = u32> {
    pub(crate) vertices: usize,
    pub(crate) out: Compressed<N>,
    /// The same as `out`, if the graph is undirected.
    pub(crate) into: Compressed<N>,
}

impl Graph {
    /// The graph that the parameters ask for.
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let list = list(setup);
        let edges = || list.edges.iter().copied();
        Self::from_edges(&mut setup.layout, list.vertices, list.directed, edges)
    }

    /// A uniform random graph of 2^scale vertices.
    pub(crate) fn uniform(setup: &mut Setup, edge_factor: u32) -> Self {
        let list = generate::uniform(setup.scale, edge_factor, setup.parameters.seed);
        let edges = || list.edges.iter().copied();
        Self::from_edges(&mut setup.layout, list.vertices, list.directed, edges)
    }

    /// The graph that the parameters ask for, without directions, and with vertices of many edges
    /// first.
    pub(crate) fn by_degree(setup: &mut Setup) -> Self {
        let list = list(setup);
        let mut degrees = vec![0_u32; list.vertices];
        for &(from, to) in &list.edges {
            degrees[from as usize] += 1;
            degrees[to as usize] += 1;
        }
        let mut order: Vec<u32> = (0..list.vertices as u32).collect();
        order.sort_by_key(|&vertex| std::cmp::Reverse(degrees[vertex as usize]));
        let mut names = vec![0; list.vertices];
        for (name, &vertex) in order.iter().enumerate() {
            names[vertex as usize] = name as u32;
        }
        let edges =
            || list.edges.iter().map(|&(from, to)| (names[from as usize], names[to as usize]));
        Self::from_edges(&mut setup.layout, list.vertices, false, edges)
    }
}

impl Graph<WeightedEdge> {
    /// The graph that the parameters ask for; edges without weights get them by their ends'
    /// numbers.
    pub(crate) fn weighted(setup: &mut Setup) -> Self {
        let list = list(setup);
        let seed = setup.parameters.seed;
        let edges = || {
            list.edges.iter().enumerate().map(|(index, &(from, to))| {
                let made_up = || make_up(seed, list.directed, from, to);
                let weight = list.weights.as_ref().map_or_else(made_up, |weights| weights[index]);
                (from, WeightedEdge { to, weight })
            })
        };
        Self::from_edges(&mut setup.layout, list.vertices, list.directed, edges)
    }
}

/// An edge as it is seen from its other end.
pub(crate) trait Turn: Neighbour {
    fn turned(self, from: u32) -> (u32, Self);
}

impl Turn for u32 {
    fn turned(self, from: u32) -> (u32, Self) {
        (self, from)
    }
}

impl Turn for WeightedEdge {
    fn turned(self, from: u32) -> (u32, Self) {
        (self.to, Self { to: from, ..self })
    }
}

impl<N: Turn> Graph<N> {
    fn from_edges<I: Iterator<Item = (u32, N)>>(
        layout: &mut Layout,
        vertices: usize,
        directed: bool,
        edges: impl Fn() -> I,
    ) -> Self {
        let turned = || edges().map(|(from, to)| to.turned(from));
        if directed {
            let names = ["offsets of edges out", "edges out"];
            let out = Compressed::new(layout, names, Rows::new(vertices, &edges));
            let names = ["offsets of edges in", "edges in"];
            Self {
                vertices,
                out,
                into: Compressed::new(layout, names, Rows::new(vertices, turned)),
            }
        } else {
            let rows = Rows::new(vertices, || edges().chain(turned()));
            let out = Compressed::new(layout, ["offsets of edges", "edges"], rows);
            Self { vertices, into: out.clone(), out }
        }
    }

    /// Vertices to start from: random ones that have edges out, as long as there are any.
    pub(crate) fn sources(&self, seed: u64, count: u32) -> Vec<usize> {
        let mut random = Random::new(seed, SOURCES);
        let leaves = |vertex: &usize| self.out.peek_degree(*vertex) > 0;
        (0..count)
            .map(|_| {
                let start = random.below(self.vertices);
                (start..self.vertices).chain(0..start).find(leaves).unwrap_or(start)
            })
            .collect()
    }
}

/// The list that the parameters ask for.
fn list(setup: &Setup) -> Arc<EdgeList> {
    let parameters = setup.parameters;
    let (scale, factor, seed) = (setup.scale, parameters.edge_factor, parameters.seed);
    match &parameters.graph {
        GraphSource::Kronecker => Arc::new(generate::kronecker(scale, factor, seed)),
        GraphSource::Uniform => Arc::new(generate::uniform(scale, factor, seed)),
        GraphSource::Edges(list) => Arc::clone(list),
    }
}

/// A weight that an undirected edge has in both directions.
fn make_up(seed: u64, directed: bool, from: u32, to: u32) -> u32 {
    let (from, to) = if directed { (from, to) } else { (from.min(to), from.max(to)) };
    let word = mix(seed ^ mix(u64::from(from) << 32 | u64::from(to)));
    (word % MADE_UP_WEIGHTS) as u32 + 1
}

/// Compressed sparse rows on the way to simulated memory.
struct Rows<N> {
    offsets: Vec<u64>,
    neighbours: Vec<N>,
}

impl<N: Neighbour> Rows<N> {
    fn new<I: Iterator<Item = (u32, N)>>(vertices: usize, edges: impl Fn() -> I) -> Self {
        let edges = || edges().filter(|(from, to)| *from != to.vertex());
        let mut offsets = vec![0; vertices + 1];
        edges().for_each(|(from, _)| offsets[from as usize + 1] += 1);
        (0..vertices).for_each(|vertex| offsets[vertex + 1] += offsets[vertex]);

        let mut neighbours = Vec::new();
        if let Some((_, any)) = edges().next() {
            neighbours.resize(offsets[vertices] as usize, any);
        }
        let mut next = offsets.clone();
        for (from, to) in edges() {
            let place = &mut next[from as usize];
            neighbours[*place as usize] = to;
            *place += 1;
        }
        let mut rows = Self { offsets, neighbours };
        rows.sort_and_squeeze();
        rows
    }

    /// Of edges between the same vertices the smallest stays.
    fn sort_and_squeeze(&mut self) {
        let mut end = 0;
        let mut start = 0;
        for vertex in 0..self.offsets.len() - 1 {
            let row = start..self.offsets[vertex + 1] as usize;
            start = row.end;
            self.neighbours[row.clone()].sort_unstable();
            self.offsets[vertex] = end as u64;
            let first = end;
            for place in row {
                let neighbour = self.neighbours[place];
                if end == first || self.neighbours[end - 1].vertex() != neighbour.vertex() {
                    self.neighbours[end] = neighbour;
                    end += 1;
                }
            }
        }
        *self.offsets.last_mut().expect("one offset more than vertices") = end as u64;
        self.neighbours.truncate(end);
    }
}
