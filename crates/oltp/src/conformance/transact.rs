//! Transactions that are run until they commit, and shorthands for scans.

use std::ops::{Bound, ControlFlow};

use tombolo_database::{Direction, Engine, Scan, TableId, Transaction, TxError};

/// Conflicts in a row after which a check fails. No other transaction runs, so only moves of rows
/// between hosts are in the way.
const MOST_CONFLICTS: u32 = 10_000;

/// How a transaction is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Commit,
    Abort,
    /// It is dropped.
    Drop,
}

/// Runs `attempt` on new transactions until it meets no conflict, and answers other hosts between
/// them.
fn retry<E: Engine, R>(
    engine: &E,
    mut attempt: impl FnMut(E::Transaction<'_>) -> Result<R, TxError>,
) -> R {
    for _ in 0..MOST_CONFLICTS {
        match attempt(engine.begin(0)) {
            Ok(result) => return result,
            Err(error) if error.is_conflict() => engine.tick().expect("the hosts are alive"),
            Err(error) => panic!("a transaction failed: {error}"),
        }
    }
    panic!("a transaction that runs alone met {MOST_CONFLICTS} conflicts in a row")
}

/// Runs `body` as a transaction that ends as asked.
pub(super) fn transact<E: Engine, R>(
    engine: &E,
    end: End,
    mut body: impl FnMut(&mut E::Transaction<'_>) -> Result<R, TxError>,
) -> R {
    retry(engine, |mut transaction| {
        let result = body(&mut transaction)?;
        match end {
            End::Commit => {
                transaction.commit()?;
            }
            End::Abort => transaction.abort(),
            End::Drop => drop(transaction),
        }
        Ok(result)
    })
}

/// Commits what `body` does, and returns the epoch.
pub(super) fn epoch_of<E: Engine>(
    engine: &E,
    mut body: impl FnMut(&mut E::Transaction<'_>) -> Result<(), TxError>,
) -> u64 {
    retry(engine, |mut transaction| {
        body(&mut transaction)?;
        Ok(transaction.commit()?.epoch)
    })
}

/// Commits what `body` does.
pub(super) fn commit<E: Engine, R>(
    engine: &E,
    body: impl FnMut(&mut E::Transaction<'_>) -> Result<R, TxError>,
) -> R {
    transact(engine, End::Commit, body)
}

/// A stretch of keys that owns its bounds.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    pub(super) low: Bound<Vec<u8>>,
    pub(super) high: Bound<Vec<u8>>,
}

impl Stretch {
    pub(super) fn all() -> Self {
        Self { low: Bound::Unbounded, high: Bound::Unbounded }
    }

    pub(super) fn range(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.low.as_ref().map(Vec::as_slice), self.high.as_ref().map(Vec::as_slice))
    }
}

pub(super) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The rows that a scan meets, the last one being that after which it breaks off.
pub(super) fn met<T: Transaction>(
    transaction: &mut T,
    table: TableId,
    scan: Scan<'_>,
    break_after: usize,
) -> Result<Pairs, TxError> {
    let mut rows = Pairs::new();
    transaction.scan(table, scan, &mut |key, row| {
        rows.push((key.to_vec(), row.to_vec()));
        match rows.len() == break_after {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    Ok(rows)
}

/// All rows of a stretch, smallest key first.
pub(super) fn rows_of<T: Transaction>(
    transaction: &mut T,
    table: TableId,
    stretch: &Stretch,
    direction: Direction,
) -> Result<Pairs, TxError> {
    let range = stretch.range();
    let scan = Scan { range, direction, limit: usize::MAX, for_update: false };
    met(transaction, table, scan, usize::MAX)
}
