//! Stand-ins for programs of the PARSEC suite: programs of our own that do the same kind of work on
//! the same kind of data, and share it between threads in the same way. They are not PARSEC, and
//! their inputs are made up.

mod blackscholes;
mod canneal;
mod compress;
mod dedup;
mod fluidanimate;
mod raytrace;
mod streamcluster;
mod swaptions;

pub(crate) use blackscholes::Blackscholes;
pub(crate) use canneal::Canneal;
pub(crate) use dedup::Dedup;
pub(crate) use fluidanimate::Fluidanimate;
pub(crate) use raytrace::Raytrace;
pub(crate) use streamcluster::Streamcluster;
pub(crate) use swaptions::Swaptions;
