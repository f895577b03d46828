//! Payment (clause 2.5.2).

use std::io::Write;

use tombolo_database::{Transaction, TxError};

use super::inputs::Payment;
use super::lookup::{self, replace, row_for_update};
use super::rows::{Customer, District, History, Warehouse};
use super::schema::{self, CustomerId};

/// The terminal's output for a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paid {
    /// The customer that has paid.
    pub customer: CustomerId,
    /// C_BALANCE, in cents.
    pub balance: i64,
}

pub(super) fn run<T: Transaction>(transaction: &mut T, input: &Payment) -> Result<Paid, TxError> {
    let Payment { warehouse, district, customer_warehouse, customer_district, amount, .. } = *input;
    let key = schema::warehouse(warehouse);
    let mut row = Warehouse::copy(row_for_update(transaction, schema::WAREHOUSE, &key)?)?;
    row.set_ytd(row.ytd() + amount);
    replace(transaction, schema::WAREHOUSE, &key, row.bytes())?;
    let warehouse_name = row.name();

    let key = schema::district(warehouse, district);
    let mut row = District::copy(row_for_update(transaction, schema::DISTRICT, &key)?)?;
    row.set_ytd(row.ytd() + amount);
    replace(transaction, schema::DISTRICT, &key, row.bytes())?;
    let district_name = row.name();

    let id = lookup::customer(transaction, customer_warehouse, customer_district, input.customer)?;
    let customer = pay(transaction, input, id)?;

    let mut row = History::zeroed();
    row.set_amount(amount);
    row.set_date(input.date);
    row.set_data(both_names(&warehouse_name, &district_name));
    let key = schema::history(warehouse, district, id, customer.payments());
    transaction.insert(schema::HISTORY, &key, row.bytes())?;
    Ok(Paid { customer: id, balance: customer.balance() })
}

fn pay<T: Transaction>(
    transaction: &mut T,
    input: &Payment,
    id: CustomerId,
) -> Result<Customer<[u8; Customer::BYTES]>, TxError> {
    let key = schema::customer(id.warehouse, id.district, id.number);
    let mut customer = Customer::copy(row_for_update(transaction, schema::CUSTOMER, &key)?)?;
    customer.set_balance(customer.balance() - input.amount);
    customer.set_ytd_payment(customer.ytd_payment() + input.amount);
    customer.set_payments(customer.payments() + 1);
    if customer.credit() == *b"BC" {
        customer.set_data(with_payment(&customer.data(), input, id));
    }
    replace(transaction, schema::CUSTOMER, &key, customer.bytes())?;
    Ok(customer)
}

/// C_DATA with the payment in front, cut off at its end.
fn with_payment(data: &[u8; 500], input: &Payment, id: CustomerId) -> [u8; 500] {
    let mut all = [0; 500];
    let mut rest = &mut all[..];
    let CustomerId { warehouse, district, number } = id;
    let Payment { warehouse: to_warehouse, district: to_district, amount, .. } = *input;
    let (warehouse, to_warehouse) = (warehouse + 1, to_warehouse + 1);
    let written = write!(
        rest,
        "{number} {district} {warehouse} {to_district} {to_warehouse} {}.{:02}|",
        amount / 100,
        amount % 100
    );
    written.expect("six numbers take less than 500 bytes");
    let left = rest.len();
    rest.copy_from_slice(&data[..left]);
    all
}

/// H_DATA: W_NAME and D_NAME, with four spaces between them.
fn both_names(warehouse: &[u8; 10], district: &[u8; 10]) -> [u8; 24] {
    let name = |name: &[u8; 10]| name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let mut data = [0; 24];
    let (first, second) = (name(warehouse), name(district));
    data[..first].copy_from_slice(&warehouse[..first]);
    data[first..first + 4].copy_from_slice(b"    ");
    data[first + 4..first + 4 + second].copy_from_slice(&district[..second]);
    data
}

#[cfg(test)]
mod tests {
    use super::super::inputs;
    use super::*;

    #[test]
    fn names_stand_apart() {
        let data = both_names(b"abcdef\0\0\0\0", b"0123456789");
        assert_eq!(&data, b"abcdef    0123456789\0\0\0\0");
        assert_eq!(&both_names(b"0123456789", b"0123456789"), b"0123456789    0123456789");
    }

    #[test]
    fn bad_credit_remembers_the_last_payments() {
        let input = Payment {
            warehouse: 0,
            district: 2,
            customer_warehouse: 1,
            customer_district: 3,
            customer: inputs::CustomerRef::Number(77),
            amount: 1205,
            date: 9,
        };
        let id = CustomerId { warehouse: 1, district: 3, number: 77 };
        let data = with_payment(&[b'x'; 500], &input, id);
        let front = b"77 3 2 2 1 12.05|";
        assert_eq!(&data[..front.len()], front);
        assert!(data[front.len()..].iter().all(|byte| *byte == b'x'));
    }
}
