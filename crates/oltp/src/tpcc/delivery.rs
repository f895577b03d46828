//! Delivery (clause 2.7.4).

use tombolo_database::{Direction, Transaction, TxError};

use super::inputs::Delivery;
use super::lookup::{self, first_key, replace, row_for_update};
use super::population::MOST_LINES;
use super::rows::{Customer, Order, OrderLine};
use super::schema::{self, between, word_of};

type LineRow = OrderLine<[u8; OrderLine::BYTES]>;

/// Delivers the oldest new order of each district, all in one transaction. Returns how many there
/// were: a district without new orders is left out.
pub(super) fn run<T: Transaction>(
    transaction: &mut T,
    input: &Delivery,
    districts: u8,
) -> Result<u8, TxError> {
    let mut delivered = 0;
    for district in 1..=districts {
        let Some(order) = take_oldest(transaction, input.warehouse, district)? else { continue };
        let customer = set_carrier(transaction, input, district, order)?;
        let mut sum = 0;
        for (key, mut line) in lines(transaction, input.warehouse, district, order)? {
            sum += line.amount();
            line.set_delivered(input.date);
            replace(transaction, schema::ORDER_LINE, &key, line.bytes())?;
        }
        charge(transaction, input.warehouse, district, customer, sum)?;
        delivered += 1;
    }
    Ok(delivered)
}

/// Deletes the oldest new order of a district, and returns its number.
pub(super) fn take_oldest<T: Transaction>(
    transaction: &mut T,
    warehouse: u32,
    district: u8,
) -> Result<Option<u32>, TxError> {
    let low = schema::order(warehouse, district, 0);
    let high = schema::order(warehouse, district, u32::MAX);
    let range = between(&low, &high);
    let oldest: Option<[u8; 9]> =
        first_key(transaction, schema::NEW_ORDER, range, Direction::Forward, true)?;
    let Some(key) = oldest else { return Ok(None) };
    transaction.delete(schema::NEW_ORDER, &key)?;
    Ok(Some(word_of(&key, 5)))
}

/// Returns the customer that has ordered.
pub(super) fn set_carrier<T: Transaction>(
    transaction: &mut T,
    input: &Delivery,
    district: u8,
    order: u32,
) -> Result<u32, TxError> {
    let key = schema::order(input.warehouse, district, order);
    let mut row = Order::copy(row_for_update(transaction, schema::ORDER, &key)?)?;
    row.set_carrier(input.carrier);
    replace(transaction, schema::ORDER, &key, row.bytes())?;
    Ok(row.customer())
}

/// The lines of an order, locked.
pub(super) fn lines<T: Transaction>(
    transaction: &mut T,
    warehouse: u32,
    district: u8,
    order: u32,
) -> Result<Vec<([u8; 10], LineRow)>, TxError> {
    let mut lines = Vec::with_capacity(MOST_LINES);
    let (low, high) = schema::lines_of(warehouse, district, order);
    lookup::lines(transaction, between(&low, &high), true, |key, line| {
        lines.push((schema::order_line(warehouse, district, order, key[9]), line.to_owned()));
    })?;
    Ok(lines)
}

/// Adds what was delivered to the customer's balance.
pub(super) fn charge<T: Transaction>(
    transaction: &mut T,
    warehouse: u32,
    district: u8,
    customer: u32,
    sum: i64,
) -> Result<(), TxError> {
    let key = schema::customer(warehouse, district, customer);
    let mut row = Customer::copy(row_for_update(transaction, schema::CUSTOMER, &key)?)?;
    row.set_balance(row.balance() + sum);
    row.set_deliveries(row.deliveries() + 1);
    replace(transaction, schema::CUSTOMER, &key, row.bytes())
}
