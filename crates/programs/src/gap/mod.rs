//! The kernels of the GAP benchmark, from its definition (arXiv 1508.03619), with the algorithms of
//! its reference code.

mod bc;
mod bfs;
mod cc;
mod pr;
mod queue;
mod sssp;
mod tc;

pub(crate) use bc::Bc;
pub(crate) use bfs::Bfs;
pub(crate) use cc::Cc;
pub(crate) use pr::Pr;
pub(crate) use sssp::Sssp;
pub(crate) use tc::Tc;
