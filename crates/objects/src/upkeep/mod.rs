//! The work of a host in the background, and its work to make room.

pub(crate) mod compact;
mod reclaim;
mod tick;
pub(crate) mod write_back;
