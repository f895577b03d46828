//! Objects as other crates use them: on mapped memory, with memory that fails, and in damaged pods.

mod damage;
mod demand;
mod fragmentation;
mod mapped;
mod poison;
mod transaction;
