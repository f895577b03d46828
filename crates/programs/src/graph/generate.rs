//! Synthetic graphs.

use crate::EdgeList;
use crate::random::Random;

/// Streams of random numbers.
const EDGES: u64 = 1;
const NAMES: u64 = 2;

/// A uniform random graph of 2^scale vertices.
pub(crate) fn uniform(scale: u32, edge_factor: u32, seed: u64) -> EdgeList {
    let mut random = Random::new(seed, EDGES);
    let vertices = 1 << scale;
    let end = || random.below(vertices) as u32;
    let mut end = end;
    let edges = (0..vertices * edge_factor as usize).map(|_| (end(), end())).collect();
    EdgeList::generated(vertices, edges)
}

/// A Kronecker graph of 2^scale vertices, as Graph500 defines it.
pub(crate) fn kronecker(scale: u32, edge_factor: u32, seed: u64) -> EdgeList {
    let mut random = Random::new(seed, EDGES);
    let vertices = 1 << scale;
    let mut names: Vec<u32> = (0..vertices as u32).collect();
    Random::new(seed, NAMES).shuffle(&mut names);
    let edges = (0..vertices * edge_factor as usize)
        .map(|_| {
            let (from, to) = quadrant_by_quadrant(&mut random, scale);
            (names[from], names[to])
        })
        .collect();
    EdgeList::generated(vertices, edges)
}

/// An edge: for each bit, one of the matrix's quadrants.
fn quadrant_by_quadrant(random: &mut Random, scale: u32) -> (usize, usize) {
    const A: f64 = 0.57;
    const B: f64 = 0.19;
    const C: f64 = 0.19;
    (0..scale).fold((0, 0), |(from, to), _| {
        let point = random.unit();
        let below = point >= A + B;
        let right = if below { point >= A + B + C } else { point >= A };
        (2 * from + usize::from(below), 2 * to + usize::from(right))
    })
}
