//! Graphs: where they come from, and how they lie in simulated memory.

mod compressed;
mod edges;
mod files;
mod generate;
mod matrix_market;

pub(crate) use compressed::{Graph, WeightedEdge};
pub use edges::{EdgeList, MAX_VERTICES, MAX_WEIGHT};
pub(crate) use files::unpacked;

use std::sync::Arc;

/// Which graph a kernel works on.
#[derive(Clone, Debug, Default)]
pub enum GraphSource {
    /// Graph500's: 2^scale vertices, few of which have most edges (A = 0.57, B = C = 0.19), with
    /// random numbers; undirected.
    #[default]
    Kronecker,
    /// 2^scale vertices, each edge between any two of them; undirected.
    Uniform,
    /// A graph that somebody brings.
    Edges(Arc<EdgeList>),
}
