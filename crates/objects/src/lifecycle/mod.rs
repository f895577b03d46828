//! Coming and going: joining, leaving, opening a pod in which nobody is, and what can be done with
//! one at rest.

pub(crate) mod join;
mod leave;
pub(crate) mod offline;
pub(crate) mod open;
mod rebuild;
pub(crate) mod salvage;
mod unblock;
