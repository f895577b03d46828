//! Databases: benchmarks of transactions, and `tombolo db`.
//!
//! Hosts are processes of this program. Rows lie in their own memory, so what lasts of a database
//! is the directory of its log.

pub(crate) mod bench;
pub(crate) mod commands;
mod conditions;
mod engines;
mod hex;
pub(crate) mod host;
mod hosts;
mod ledger;
mod ran;
mod report;
mod run;
mod setting;
pub(crate) mod soak;
pub(crate) mod sql;
mod store;
mod tables;
