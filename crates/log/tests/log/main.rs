//! The shared log in both worlds.

mod history;
mod mapped;
mod simulated;
