//! Stand-ins for programs of the PARSEC suite: programs of our own that do the same kind of work on
//! the same kind of data, and share it between threads in the same way. They are not PARSEC, and
//! their inputs are made up.

mod blackscholes;
mod bodytrack;
mod canneal;
mod compress;
mod dedup;
mod ferret;
mod fluidanimate;
mod raytrace;
mod streamcluster;
mod swaptions;
mod x264;

pub(crate) use blackscholes::Blackscholes;
pub(crate) use bodytrack::Bodytrack;
pub(crate) use canneal::Canneal;
pub(crate) use dedup::Dedup;
pub(crate) use ferret::Ferret;
pub(crate) use fluidanimate::Fluidanimate;
pub(crate) use raytrace::Raytrace;
pub(crate) use streamcluster::Streamcluster;
pub(crate) use swaptions::Swaptions;
pub(crate) use x264::X264;
