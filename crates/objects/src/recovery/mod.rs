//! Going on without hosts that have died, or are taken for dead.

mod absent;
mod clear;
pub(crate) mod fence;
pub(crate) mod locks;
mod lost;
mod partition;
mod transactions;
