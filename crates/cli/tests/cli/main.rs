//! The command `tombolo`, as people and scripts use it: real processes, real sockets.

mod bench;
mod check;
mod coherence;
mod commands;
mod db;
mod documents;
mod eviction;
mod figures;
mod hosts;
mod liveness;
mod messages;
mod mount;
mod operation;
mod poison;
mod qualify;
mod reference;
mod saved;
mod soak;
mod sql;
mod streams;
mod tier;
mod tombolo;
mod transactions;
mod troubles;
mod up;
