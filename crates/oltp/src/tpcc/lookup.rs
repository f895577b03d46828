//! Rows that have to be there, and customers by last name.

use std::ops::ControlFlow;

use tombolo_database::{Direction, Range, Scan, TableId, Transaction, TxError};

use super::inputs::{CustomerRef, id};
use super::population::last_name;
use super::rows::OrderLine;
use super::schema::{self, CustomerId, between, word_of};
use crate::workload::missing;

/// The row with `key`.
pub(super) fn row<'t, T: Transaction>(
    transaction: &'t mut T,
    table: TableId,
    key: &[u8],
) -> Result<&'t [u8], TxError> {
    transaction.get(table, key)?.ok_or_else(|| missing(table, key))
}

/// The row with `key`, which will be changed.
pub(super) fn row_for_update<'t, T: Transaction>(
    transaction: &'t mut T,
    table: TableId,
    key: &[u8],
) -> Result<&'t [u8], TxError> {
    transaction.get_for_update(table, key)?.ok_or_else(|| missing(table, key))
}

/// Replaces the row with `key`, which was read before.
pub(super) fn replace<T: Transaction>(
    transaction: &mut T,
    table: TableId,
    key: &[u8],
    row: &[u8],
) -> Result<(), TxError> {
    match transaction.update(table, key, row)? {
        true => Ok(()),
        false => Err(missing(table, key)),
    }
}

/// The first key of a stretch in one direction, if there is one.
pub(super) fn first_key<T: Transaction, const N: usize>(
    transaction: &mut T,
    table: TableId,
    range: Range<'_>,
    direction: Direction,
    for_update: bool,
) -> Result<Option<[u8; N]>, TxError> {
    let mut found = None;
    let scan = Scan { range, direction, limit: 1, for_update };
    transaction.scan(table, scan, &mut |key, _| {
        found = key.first_chunk().copied();
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Calls `each` with key and row of the order lines of a stretch, in order.
pub(super) fn lines<T: Transaction>(
    transaction: &mut T,
    range: Range<'_>,
    for_update: bool,
    mut each: impl FnMut(&[u8], OrderLine<&[u8]>),
) -> Result<(), TxError> {
    let mut misshapen = None;
    let scan = Scan { range, direction: Direction::Forward, limit: usize::MAX, for_update };
    transaction.scan(schema::ORDER_LINE, scan, &mut |key, row| match OrderLine::view(row) {
        Ok(line) => {
            each(key, line);
            ControlFlow::Continue(())
        }
        Err(error) => {
            misshapen = Some(error);
            ControlFlow::Break(())
        }
    })?;
    misshapen.map_or(Ok(()), Err)
}

/// The customer that `customer` names in a district.
pub(super) fn customer<T: Transaction>(
    transaction: &mut T,
    warehouse: u32,
    district: u8,
    customer: CustomerRef,
) -> Result<CustomerId, TxError> {
    match customer {
        CustomerRef::Number(number) => Ok(id(warehouse, district, number)),
        CustomerRef::LastName(number) => {
            by_name(transaction, warehouse, district, last_name(number))
        }
    }
}

/// The one in the middle of all customers with a last name, in the order of their first names: of
/// `n` the one at `n / 2`, rounded up (clause 2.5.2.2).
fn by_name<T: Transaction>(
    transaction: &mut T,
    warehouse: u32,
    district: u8,
    last: [u8; 16],
) -> Result<CustomerId, TxError> {
    let low = schema::customer_name(id(warehouse, district, 0), last, [0; 16]);
    let high = schema::customer_name(id(warehouse, district, u32::MAX), last, [0xff; 16]);
    let scan = Scan {
        range: between(&low, &high),
        direction: Direction::Forward,
        limit: usize::MAX,
        for_update: false,
    };
    let mut numbers = Vec::new();
    transaction.scan(schema::CUSTOMER_NAME, scan, &mut |key, _| {
        numbers.push(word_of(key, 37));
        ControlFlow::Continue(())
    })?;
    match middle(&numbers) {
        Some(number) => Ok(id(warehouse, district, number)),
        None => Err(missing(schema::CUSTOMER_NAME, &low)),
    }
}

/// The one at `n / 2`, rounded up, counted from 1.
pub(super) fn middle<T: Copy>(list: &[T]) -> Option<T> {
    list.get(list.len().div_ceil(2).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::middle;

    #[test]
    fn the_middle_is_rounded_up_and_counted_from_one() {
        assert_eq!(middle::<u8>(&[]), None);
        assert_eq!(middle(&[1]), Some(1));
        assert_eq!(middle(&[1, 2]), Some(1));
        assert_eq!(middle(&[1, 2, 3]), Some(2));
        assert_eq!(middle(&[1, 2, 3, 4]), Some(2));
        assert_eq!(middle(&[1, 2, 3, 4, 5]), Some(3));
    }
}
