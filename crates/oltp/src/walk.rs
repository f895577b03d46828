//! All rows of a stretch, read by many short transactions.

use std::ops::{Bound, ControlFlow};

use tombolo_database::{Direction, Engine, Range, Scan, TableId, Transaction, TxError};

/// Rows that one transaction reads.
const PAGE_ROWS: usize = 500;
/// Conflicts in a row after which a page is given up.
const MOST_CONFLICTS: u32 = 1000;

/// Takes key and row of one row.
pub(crate) type EachPair<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), TxError> + 'a;

type Page = Vec<(Vec<u8>, Vec<u8>)>;

/// Calls `each` with the rows of a stretch, in order. Takes a transaction for each page of rows, so
/// that none holds many locks. All is of one state only if no row changes meanwhile.
///
/// # Errors
/// Those of `each` and of the engine, after 1000 conflicts in a row too.
pub(crate) fn walk<E: Engine>(
    engine: &E,
    table: TableId,
    range: Range<'_>,
    each: &mut EachPair<'_>,
) -> Result<(), TxError> {
    let (first, high) = range;
    let mut low = first.map(<[u8]>::to_vec);
    // Each page but the last is full, and begins behind the one before.
    loop {
        let page = read_page(engine, table, (low.as_ref().map(Vec::as_slice), high))?;
        for (key, row) in &page {
            each(key, row)?;
        }
        match page.into_iter().nth(PAGE_ROWS - 1) {
            Some((last, _)) => low = Bound::Excluded(last),
            None => return Ok(()),
        }
    }
}

fn read_page<E: Engine>(engine: &E, table: TableId, range: Range<'_>) -> Result<Page, TxError> {
    let attempt = || {
        let mut page = Vec::with_capacity(PAGE_ROWS);
        let mut transaction = engine.begin(0);
        let scan =
            Scan { range, direction: Direction::Forward, limit: PAGE_ROWS, for_update: false };
        transaction.scan(table, scan, &mut |key, row| {
            page.push((key.to_vec(), row.to_vec()));
            ControlFlow::Continue(())
        })?;
        transaction.commit()?;
        Ok(page)
    };
    let mut last = attempt();
    for _ in 0..MOST_CONFLICTS {
        match last {
            Err(TxError::Conflict(_)) => {
                engine.tick()?;
                last = attempt();
            }
            done => return done,
        }
    }
    last
}
