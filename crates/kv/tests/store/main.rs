//! The store in both worlds.

mod mapped;
mod simulated;
