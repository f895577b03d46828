//! The duties of every engine, as checks that any of them can be put through.
//!
//! Each check panics if the engine does not keep the trait's word. Transactions run one after
//! another; that concurrent ones are serializable is shown by histories, which is not done here.
//!
//! * [`check`] is all of it, for an engine of one host.
//! * [`check_hosts`] is all of it from each host of several, for rows of all homes. Others have to
//!   call [`Engine::tick`] meanwhile, where hosts answer each other in it.
//! * [`load`], [`check_loaded`], [`check_operations`] and [`RandomTransactions`] are its parts, for
//!   callers whose hosts take turns.

mod cases;
mod model;
mod scans;
mod transact;

use tombolo_database::{Engine, Partitioning, TableSpec};

pub use cases::{check_loaded, check_operations, load};
pub use model::RandomTransactions;

/// How many partitions the engine under test is to have.
pub const PARTITIONS: u32 = 6;

/// Random transactions that `check` runs.
const RANDOM_TRANSACTIONS: u64 = 2_000;

/// The tables that the engine under test is to have.
pub fn tables() -> Vec<TableSpec> {
    let leading = |per_partition| Partitioning::Leading { per_partition };
    let table =
        |key_bytes, row_bytes, partitioning| TableSpec { key_bytes, row_bytes, partitioning };
    vec![
        table(24, 120, leading(1)),
        table(16, 1000, leading(10)),
        table(8, 64, Partitioning::Replicated),
        table(4, 8, leading(100)),
    ]
}

/// All checks, on the engine that `make` makes of tables and the number of partitions.
///
/// # Panics
/// If the engine does not conform.
pub fn check<E: Engine>(make: impl FnOnce(&[TableSpec], u32) -> E) {
    check_hosts(&[make(&tables(), PARTITIONS)]);
}

/// All checks, from each of the hosts of one database, which has [`tables`] and [`PARTITIONS`] and
/// no rows. `engines` are its hosts in the order of their numbers.
///
/// # Panics
/// If the engine does not conform.
pub fn check_hosts<E: Engine>(engines: &[E]) {
    engines.iter().for_each(load);
    engines.iter().for_each(check_loaded);
    engines.iter().for_each(check_operations);
    let mut random = RandomTransactions::new(1);
    for turn in 0..RANDOM_TRANSACTIONS {
        random.step(&engines[turn as usize % engines.len()]);
    }
    for engine in engines {
        random.compare(engine);
    }
}
