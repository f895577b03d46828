//! The kernels of the GAP benchmark, from its definition (arXiv 1508.03619), with the algorithms of its
//! reference code.

mod bfs;
mod queue;

pub(crate) use bfs::Bfs;
