//! Order-Status (clause 2.6.2).

use tombolo_database::{Direction, Transaction, TxError};

use super::inputs::OrderStatus;
use super::lookup::{self, first_key, row};
use super::rows::{Customer, Order};
use super::schema::{self, CustomerId, between, word_of};

/// The terminal's output for a customer's last order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The customer that asks.
    pub customer: CustomerId,
    /// C_BALANCE, in cents.
    pub balance: i64,
    /// O_ID of the last order.
    pub order: u32,
    /// O_CARRIER_ID, 0 if it is not delivered.
    pub carrier: u8,
    /// How many lines it has.
    pub lines: u8,
    /// The sum of their amounts, in cents.
    pub amount: i64,
}

/// `None` if the customer has not ordered anything.
pub(super) fn run<T: Transaction>(
    transaction: &mut T,
    input: &OrderStatus,
) -> Result<Option<Status>, TxError> {
    let OrderStatus { warehouse, district, .. } = *input;
    let customer = lookup::customer(transaction, warehouse, district, input.customer)?;
    let key = schema::customer(warehouse, district, customer.number);
    let balance = Customer::view(row(transaction, schema::CUSTOMER, &key)?)?.balance();

    let low = schema::customer_order(customer, 0);
    let high = schema::customer_order(customer, u32::MAX);
    let range = between(&low, &high);
    let last: Option<[u8; 13]> =
        first_key(transaction, schema::CUSTOMER_ORDER, range, Direction::Backward, false)?;
    let Some(order) = last.map(|key| word_of(&key, 9)) else { return Ok(None) };

    let key = schema::order(warehouse, district, order);
    let carrier = Order::view(row(transaction, schema::ORDER, &key)?)?.carrier();
    let (mut lines, mut amount) = (0, 0);
    let (low, high) = schema::lines_of(warehouse, district, order);
    lookup::lines(transaction, between(&low, &high), false, |_, line| {
        lines += 1;
        amount += line.amount();
    })?;
    Ok(Some(Status { customer, balance, order, carrier, lines, amount }))
}
