//! Measures the steps of a database that a machine's profile states, on this machine: what they
//! take of a processor, with everything in the nearest cache.
//!
//! Each time is the least of many rounds. Simulated atomics are charged apart. So those of a step
//! are taken off here, with the time that the same loop finds for one.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tombolo_database::{Engine, Partitioning, TableId, TableSpec, Transaction};
use tombolo_memory::Mapped;
use tombolo_pod::{PodSpec, Sizes};
use tombolo_tigon::{Options, Shape, Tigon};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

const SMALL: TableId = TableId(0);
const LARGE: TableId = TableId(1);

/// Rows of each table: its index is one node, and three nodes high.
const ROWS: [u32; 2] = [40, 40_000];
const HEIGHTS: [f64; 2] = [1.0, 3.0];

/// Rows that are used of each table, and how far apart they are: so few that they stay in near
/// caches, and so many that no branch of a search is foreseen.
const USED: [(u32, u32); 2] = [(40, 1), (64, 625)];

/// Rows of a transaction.
const OPERATIONS: u32 = 10;
const ROUNDS: u32 = 200;
const EACH: u32 = 200;

/// Atomic steps: of the mutexes of a partition and of a row, which is locked and released.
const ATOMICS_OF_A_ROW: f64 = 3.0;
/// Of a worker's mutex and announcement, and what it puts back.
const ATOMICS_OF_A_TRANSACTION: f64 = 2.0;

fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let spec = PodSpec::path(directory.path().join("pod"));
    let table = TableSpec {
        key_bytes: 4,
        row_bytes: 100,
        partitioning: Partitioning::Leading { per_partition: u32::MAX },
    };
    let shape =
        Shape { homes: 1, partitions: 1, tables: 2, workers: 1, log_buffer_bytes: 256 << 20 };
    let sizes = Sizes { scr_bytes: Some(8 << 20), lnr_bytes: Some(512 << 20), ..Sizes::default() };
    let _created = Tigon::create(&spec, sizes, shape)?;
    let options = Options { is_logged: true, ..Options::new(vec![table; 2]) };
    let db = Tigon::open(&spec, options)?;
    for (table, rows) in [SMALL, LARGE].into_iter().zip(ROWS) {
        (0..rows).try_for_each(|row| db.load(table, &row.to_be_bytes(), &[1; 100]))?;
    }
    let dice = Cell::new(1);
    let db = (&db, &dice);
    let word = AtomicU64::new(0);
    let atomic = least(|| {
        let _ = word.compare_exchange(0, 0, Ordering::AcqRel, Ordering::Relaxed);
        Ok(())
    })?;
    let empty = least(|| run(db, 0, SMALL, false))?;
    let small = least(|| run(db, OPERATIONS, SMALL, false))?;
    let large = least(|| run(db, OPERATIONS, LARGE, false))?;
    let changed = least(|| run(db, OPERATIONS, SMALL, true))?;
    let count = f64::from(OPERATIONS);
    let node = (large - small) / count / (HEIGHTS[1] - HEIGHTS[0]);
    let row = (small - empty) / count - HEIGHTS[0] * node - ATOMICS_OF_A_ROW * atomic;
    println!("an atomic step takes {atomic:.1} ns\n\n[database]");
    println!("transaction_ns = {:.0}", empty - ATOMICS_OF_A_TRANSACTION * atomic);
    println!(
        "node_ns = {node:.0}\nrow_ns = {row:.0}\nchange_ns = {:.0}",
        (changed - small) / count
    );
    Ok(())
}

/// Runs a transaction on rows of a table, from one on that is drawn by lot.
fn run(
    (db, dice): (&Tigon<Mapped>, &Cell<u64>),
    operations: u32,
    table: TableId,
    changes: bool,
) -> Result<()> {
    let (used, apart) = USED[usize::from(table.0)];
    let lot = dice.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    dice.set(lot);
    let first = (lot >> 40) as u32;
    let mut transaction = db.begin(0);
    for operation in 0..operations {
        // Rows of a transaction differ: 7 divides neither number.
        let key = ((first + 7 * operation) % used * apart).to_be_bytes();
        match changes {
            true => _ = transaction.update(table, &key, &[2; 100])?,
            false => _ = std::hint::black_box(transaction.get(table, &key)?),
        }
    }
    transaction.commit()?;
    Ok(())
}

/// The time of something, in nanoseconds: the least of many rounds.
fn least(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut least = f64::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        (0..EACH).try_for_each(|_| work())?;
        least = least.min(started.elapsed().as_nanos() as f64 / f64::from(EACH));
    }
    Ok(least)
}
