//! Breadth-first search: a parent for each vertex that can be reached. It goes top down from the
//! frontier, and, while much of the graph is in it, bottom up from the vertices not yet seen
//! (Beamer, Asanović and Patterson, 2012).

use std::ops::Range;

use super::queue::Queue;
use crate::Processor;
use crate::array::Array;
use crate::graph::Graph;
use crate::program::{Kernel, Setup};
use crate::team::Member;

/// It goes bottom up if the frontier has more than this part of the edges not yet looked at.
const ALPHA: u64 = 15;
/// It goes top down again if the frontier shrinks, and has less than this part of the vertices.
const BETA: u64 = 18;
/// Vertices a thread takes at a time.
const PIECE: usize = 64;
const PIECE_BOTTOM_UP: usize = 1024;

pub(crate) struct Bfs {
    graph: Graph,
    sources: Vec<usize>,
    /// A parent, or less than zero for a vertex not yet seen: as many edges as it has, but at least
    /// one.
    parents: Array<i32>,
    queue: Queue,
    /// Bitmaps of the frontier and the next one, which take turns.
    frontiers: [Array<u64>; 2],
}

impl Bfs {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let graph = Graph::new(setup);
        let sources = graph.sources(setup.parameters.seed, setup.rounds);
        let (vertices, layout) = (graph.vertices, &mut setup.layout);
        let mut bitmap = |name| layout.filled(name, vertices.div_ceil(64), 0);
        let frontiers = [bitmap("even frontiers"), bitmap("odd frontiers")];
        let parents = layout.filled("parents", vertices, -1);
        let queue = Queue::new(layout, setup.threads, vertices);
        Self { graph, sources, parents, queue, frontiers }
    }

    fn search<P: Processor>(&self, me: &Member<P>, source: usize) {
        let p = &me.processor;
        self.begin(me, source);
        let mut to_check = self.graph.out.edges() as u64;
        let mut scout = self.graph.out.row(p, source).len() as u64;
        let mut window = self.queue.slide(me, &(0..0));
        while !window.is_empty() {
            if scout > to_check / ALPHA {
                self.bottom_up(me, &window);
                scout = 1;
            } else {
                to_check = to_check.saturating_sub(scout);
                let mine = self.top_down(me, &window);
                scout = me.count(mine);
            }
            window = self.queue.slide(me, &window);
        }
    }

    fn begin<P: Processor>(&self, me: &Member<P>, source: usize) {
        let p = &me.processor;
        for vertex in me.share(self.graph.vertices) {
            let degree = self.graph.out.row(p, vertex).len() as i32;
            self.parents.set(p, vertex, -degree.max(1));
        }
        me.barrier();
        if me.leads() {
            self.parents.set(p, source, source as i32);
            self.queue.reset(p, source);
        }
    }

    /// Looks at all edges out of the frontier; how many leave the vertices this thread has found.
    fn top_down<P: Processor>(&self, me: &Member<P>, window: &Range<usize>) -> u64 {
        let p = &me.processor;
        let end = self.queue.end(me);
        let mut scout = 0;
        me.each_piece(window.len(), PIECE, |piece| {
            for place in piece {
                let vertex = self.queue.get(p, window.start + place);
                for edge in self.graph.out.row(p, vertex) {
                    let to = self.graph.out.neighbour(p, edge) as usize;
                    let parent = self.parents.get(p, to);
                    p.works(2);
                    if parent < 0 && self.parents.compare_exchange(p, to, parent, vertex as i32) {
                        end.push(to);
                        scout += u64::from(parent.unsigned_abs());
                    }
                }
            }
        });
        end.flush();
        scout
    }

    /// Goes bottom up until the frontier, which lies in the queue before and after, is small again.
    fn bottom_up<P: Processor>(&self, me: &Member<P>, window: &Range<usize>) {
        let p = &me.processor;
        let [mut frontier, mut next] = [&self.frontiers[0], &self.frontiers[1]];
        clear(me, frontier);
        me.barrier();
        for place in me.share(window.len()) {
            let vertex = self.queue.get(p, window.start + place);
            frontier.update(p, vertex / 64, |word| word | 1 << (vertex % 64));
        }
        let mut awake = window.len() as u64;
        loop {
            clear(me, next);
            me.barrier();
            let mine = self.look_up(me, frontier, next);
            let before = std::mem::replace(&mut awake, me.count(mine));
            (frontier, next) = (next, frontier);
            if awake < before && awake <= self.graph.vertices as u64 / BETA {
                break;
            }
        }
        let end = self.queue.end(me);
        for word in me.share(frontier.len()) {
            let mut bits = frontier.get(p, word);
            while bits != 0 {
                end.push(64 * word + bits.trailing_zeros() as usize);
                bits &= bits - 1;
                p.works(3);
            }
        }
        end.flush();
    }

    /// Finds parents in the frontier for vertices that have none; for how many this thread did.
    fn look_up<P: Processor>(
        &self,
        me: &Member<P>,
        frontier: &Array<u64>,
        next: &Array<u64>,
    ) -> u64 {
        let p = &me.processor;
        let mut awake = 0;
        me.each_piece(self.graph.vertices, PIECE_BOTTOM_UP, |piece| {
            for vertex in piece {
                if self.parents.get(p, vertex) >= 0 {
                    continue;
                }
                for edge in self.graph.into.row(p, vertex) {
                    let from = self.graph.into.neighbour(p, edge) as usize;
                    p.works(4);
                    if frontier.get(p, from / 64) >> (from % 64) & 1 == 1 {
                        self.parents.set(p, vertex, from as i32);
                        next.update(p, vertex / 64, |word| word | 1 << (vertex % 64));
                        awake += 1;
                        break;
                    }
                }
            }
        });
        awake
    }

    /// How far each vertex is from the source.
    fn depths(&self, source: usize) -> Vec<Option<u32>> {
        let mut depths = vec![None; self.graph.vertices];
        depths[source] = Some(0);
        let mut queue = vec![source];
        let mut head = 0;
        while let Some(&vertex) = queue.get(head) {
            head += 1;
            for to in self.graph.out.peek(vertex) {
                let to = to as usize;
                if depths[to].is_none() {
                    depths[to] = depths[vertex].map(|depth| depth + 1);
                    queue.push(to);
                }
            }
        }
        depths
    }
}

impl Kernel for Bfs {
    fn run<P: Processor>(&self, me: &Member<P>) {
        for &source in &self.sources {
            self.search(me, source);
            me.barrier();
        }
    }

    fn verify(&self) -> Result<(), String> {
        let &source = self.sources.last().expect("there is a source");
        let depths = self.depths(source);
        for (vertex, depth) in depths.iter().enumerate() {
            let parent = usize::try_from(self.parents.peek(vertex)).ok();
            let right = match (depth, parent) {
                (None, parent) => parent.is_none(),
                (Some(0), parent) => parent == Some(source),
                (Some(depth), Some(parent)) => {
                    depths[parent] == Some(depth - 1) && self.graph.out.has(parent, vertex)
                }
                (Some(_), None) => false,
            };
            if !right {
                return Err(format!(
                    "vertex {vertex}, {depth:?} edges from {source}, has the parent {parent:?}"
                ));
            }
        }
        Ok(())
    }
}

/// Clears this thread's part of a bitmap.
fn clear<P: Processor>(me: &Member<P>, bitmap: &Array<u64>) {
    for word in me.share(bitmap.len()) {
        bitmap.set(&me.processor, word, 0);
    }
}
