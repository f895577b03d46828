//! What a host does in the background, and what it does to make room.

pub(crate) mod compact;
mod reclaim;
mod tick;
pub(crate) mod write_back;
