//! Each consistency condition finds what breaks it, and says where.

use std::collections::BTreeSet;

use tombolo_database::{Engine, TableId, Transaction};
use tombolo_oltp::tpcc::conditions::{self, Rule, When};
use tombolo_oltp::tpcc::rows::{Customer, District, History, Order, OrderLine, Stock, Warehouse};
use tombolo_oltp::tpcc::schema::{self, CustomerId};
use tombolo_oltp::tpcc::{RemoteRates, Scale, Tpcc};
use tombolo_oltp::{Reference, ReferenceTransaction, Workload, load};

const SCALE: Scale = Scale { districts: 2, items: 10, ..Scale::small(2) };
/// A district, a customer of it, and its first order that is not delivered.
const PLACE: (u32, u8) = (1, 2);
const CUSTOMER: u32 = 4;
const NEW: u32 = SCALE.customers - SCALE.new_orders + 1;

/// Breaks something in a loaded database, and returns the rules that are reported then.
fn broken(plant: impl FnOnce(&mut ReferenceTransaction<'_>)) -> BTreeSet<Rule> {
    let workload = Tpcc::new(SCALE, RemoteRates::SPECIFICATION, 5);
    let engine = Reference::new(&workload.tables(), workload.partitions());
    load(&workload, &engine, 0, 1).unwrap();
    assert_eq!(conditions::check(&engine, &SCALE, When::Loaded).unwrap(), []);
    let mut transaction = engine.begin(0);
    plant(&mut transaction);
    transaction.commit().unwrap();
    let found = conditions::check(&engine, &SCALE, When::Loaded).unwrap();
    for violation in &found {
        assert_eq!(violation.warehouse, PLACE.0, "{violation}");
        assert!(violation.district.is_none_or(|district| district == PLACE.1), "{violation}");
    }
    found.into_iter().map(|violation| violation.rule).collect()
}

fn conditions(numbers: impl IntoIterator<Item = u8>) -> BTreeSet<Rule> {
    numbers.into_iter().map(Rule::Condition).collect()
}

/// Changes a row by `change`.
fn change<const N: usize>(
    transaction: &mut ReferenceTransaction<'_>,
    table: TableId,
    key: &[u8],
    change: impl FnOnce(&[u8]) -> [u8; N],
) {
    let row = change(transaction.get(table, key).unwrap().expect("the row is there"));
    assert!(transaction.update(table, key, &row).unwrap());
}

/// Changes fields of a row of a type.
macro_rules! edit {
    ($transaction:expr, $table:expr, $key:expr, $row:ident, |$name:ident| $change:expr) => {
        change($transaction, $table, $key, |bytes| -> [u8; $row::BYTES] {
            let mut $name = $row::copy(bytes).unwrap();
            $change;
            $name.bytes().try_into().unwrap()
        })
    };
}

fn order_key(order: u32) -> [u8; 9] {
    schema::order(PLACE.0, PLACE.1, order)
}

fn line_key(order: u32, line: u8) -> [u8; 10] {
    schema::order_line(PLACE.0, PLACE.1, order, line)
}

fn payment(amount: i64) -> History<[u8; History::BYTES]> {
    let mut row = History::zeroed();
    row.set_amount(amount);
    row
}

#[test]
fn condition_1_the_warehouse_has_what_its_districts_have() {
    // Money that only the warehouse has got is missing in HISTORY, too.
    let found = broken(|t| {
        let key = schema::warehouse(PLACE.0);
        edit!(t, schema::WAREHOUSE, &key, Warehouse, |row| row.set_ytd(row.ytd() + 1));
    });
    assert_eq!(found, conditions([1, 8]));
}

#[test]
fn condition_2_the_next_order_follows_the_last_one() {
    let found = broken(|t| {
        let key = schema::district(PLACE.0, PLACE.1);
        edit!(t, schema::DISTRICT, &key, District, |row| row.set_next_order(row.next_order() + 1));
    });
    assert_eq!(found, conditions([2]));
}

#[test]
fn condition_3_new_orders_have_no_holes() {
    // The order that is no longer new has no carrier.
    let found = broken(|t| assert!(t.delete(schema::NEW_ORDER, &order_key(NEW + 1)).unwrap()));
    assert_eq!(found, conditions([3, 5, 11]));
}

#[test]
fn conditions_4_and_6_orders_have_as_many_lines_as_they_say() {
    let found = broken(|t| assert!(t.delete(schema::ORDER_LINE, &line_key(1, 1)).unwrap()));
    assert_eq!(found, conditions([4, 6]));
    let found = broken(|t| {
        let mut row = OrderLine::zeroed();
        row.set_supplier(PLACE.0);
        t.insert(schema::ORDER_LINE, &line_key(999, 1), row.bytes()).unwrap();
    });
    let expected = BTreeSet::from([Rule::Condition(4), Rule::Stock]);
    assert_eq!(found, expected, "a line of no order, for which nothing was taken");
    // Two orders whose errors make up for each other.
    let found = broken(|t| {
        for (order, more) in [(1, 1), (2, -1)] {
            let key = order_key(order);
            edit!(t, schema::ORDER, &key, Order, |row| {
                row.set_lines(row.lines().checked_add_signed(more).unwrap())
            });
        }
    });
    assert_eq!(found, conditions([6]));
}

#[test]
fn condition_5_orders_are_new_exactly_if_they_have_no_carrier() {
    // A date goes with a carrier.
    let found =
        broken(|t| edit!(t, schema::ORDER, &order_key(NEW), Order, |row| row.set_carrier(3)));
    assert_eq!(found, conditions([5, 7]));
    let found = broken(|t| edit!(t, schema::ORDER, &order_key(1), Order, |row| row.set_carrier(0)));
    assert_eq!(found, conditions([5, 7]));
}

#[test]
fn condition_7_lines_are_dated_exactly_if_their_order_has_a_carrier() {
    // The amounts of orders that were loaded as delivered are 0.
    let found = broken(|t| {
        edit!(t, schema::ORDER_LINE, &line_key(1, 2), OrderLine, |row| row.set_delivered(0));
    });
    assert_eq!(found, conditions([7]));
    let found = broken(|t| {
        edit!(t, schema::ORDER_LINE, &line_key(NEW, 1), OrderLine, |row| row.set_delivered(9));
    });
    assert_eq!(found, conditions([7, 10, 12]));
}

#[test]
fn conditions_8_to_10_payments_are_remembered() {
    let payer = CustomerId { warehouse: PLACE.0, district: PLACE.1, number: CUSTOMER };
    let found = broken(|t| {
        let key = schema::history(PLACE.0, PLACE.1, payer, 2);
        t.insert(schema::HISTORY, &key, payment(5).bytes()).unwrap();
    });
    assert_eq!(found, conditions([8, 9, 10]));
    let found = broken(|t| {
        let key = schema::history(PLACE.0, PLACE.1, payer, 1);
        assert!(t.delete(schema::HISTORY, &key).unwrap());
    });
    assert_eq!(found, conditions([8, 9, 10]));
}

#[test]
fn condition_9_payments_are_remembered_by_district() {
    // The payment to one district is noted for another: the warehouse's sums fit.
    let payer = CustomerId { warehouse: PLACE.0, district: PLACE.1, number: CUSTOMER };
    let found = broken(|t| {
        let key = schema::history(PLACE.0, PLACE.1, payer, 1);
        assert!(t.delete(schema::HISTORY, &key).unwrap());
        let key = schema::history(PLACE.0, PLACE.1 + 1, payer, 1);
        t.insert(schema::HISTORY, &key, payment(1000).bytes()).unwrap();
    });
    assert_eq!(found, conditions([9]));
}

#[test]
fn condition_10_payments_are_remembered_by_customer() {
    // Another customer is said to have paid: all other sums fit.
    let id = |number| CustomerId { warehouse: PLACE.0, district: PLACE.1, number };
    let found = broken(|t| {
        let key = schema::history(PLACE.0, PLACE.1, id(CUSTOMER), 1);
        assert!(t.delete(schema::HISTORY, &key).unwrap());
        let key = schema::history(PLACE.0, PLACE.1, id(CUSTOMER + 1), 2);
        t.insert(schema::HISTORY, &key, payment(1000).bytes()).unwrap();
    });
    assert_eq!(found, conditions([10]));
}

#[test]
fn conditions_10_and_12_balances_fit_deliveries_and_payments() {
    let key = schema::customer(PLACE.0, PLACE.1, CUSTOMER);
    let found = broken(|t| {
        edit!(t, schema::CUSTOMER, &key, Customer, |row| row.set_balance(row.balance() + 1));
    });
    assert_eq!(found, conditions([10, 12]));
    let found = broken(|t| {
        edit!(t, schema::CUSTOMER, &key, Customer, |row| {
            row.set_ytd_payment(row.ytd_payment() + 1)
        });
    });
    assert_eq!(found, conditions([12]));
}

#[test]
fn condition_11_thirty_percent_of_the_loaded_orders_are_new() {
    // The oldest order is delivered as it should be, but for the customer's money.
    let mut amount = 0;
    let found = broken(|t| {
        assert!(t.delete(schema::NEW_ORDER, &order_key(NEW)).unwrap());
        let mut customer = 0;
        edit!(t, schema::ORDER, &order_key(NEW), Order, |row| {
            row.set_carrier(1);
            customer = row.customer();
        });
        for line in 1..=15 {
            let key = line_key(NEW, line);
            if t.get(schema::ORDER_LINE, &key).unwrap().is_some() {
                edit!(t, schema::ORDER_LINE, &key, OrderLine, |row| {
                    row.set_delivered(2);
                    amount += row.amount();
                });
            }
        }
        let key = schema::customer(PLACE.0, PLACE.1, customer);
        edit!(t, schema::CUSTOMER, &key, Customer, |row| row.set_balance(row.balance() + amount));
    });
    assert_eq!(found, conditions([11]));
}

#[test]
fn indexes_have_what_their_tables_have() {
    let id = CustomerId { warehouse: PLACE.0, district: PLACE.1, number: CUSTOMER };
    let found = broken(|t| {
        let key = schema::customer_order(id, 999);
        t.insert(schema::CUSTOMER_ORDER, &key, &[]).unwrap();
    });
    assert_eq!(found, BTreeSet::from([Rule::OrderIndex]));
    let found = broken(|t| {
        let key = schema::customer(PLACE.0, PLACE.1, CUSTOMER);
        edit!(t, schema::CUSTOMER, &key, Customer, |row| row.set_first([b'x'; 16]));
    });
    assert_eq!(found, BTreeSet::from([Rule::NameIndex]));
}

#[test]
fn stocks_have_given_what_was_ordered() {
    // A lost update of a stock, which no condition of the clause sees.
    let key = schema::stock(PLACE.0, 5);
    let found = broken(|t| edit!(t, schema::STOCK, &key, Stock, |row| row.set_ytd(3)));
    assert_eq!(found, BTreeSet::from([Rule::Stock]));
    let found = broken(|t| edit!(t, schema::STOCK, &key, Stock, |row| row.set_remote_orders(1)));
    assert_eq!(found, BTreeSet::from([Rule::Stock]));
}

#[test]
fn lost_rows_are_found() {
    let lost = |table, key: &[u8]| broken(|t| assert!(t.delete(table, key).unwrap()));
    let found = lost(schema::DISTRICT, &schema::district(PLACE.0, PLACE.1));
    assert_eq!(found, conditions([1, 2, 9]));
    let found = lost(schema::WAREHOUSE, &schema::warehouse(PLACE.0));
    assert_eq!(found, conditions([1, 8]));
    let found = lost(schema::STOCK, &schema::stock(PLACE.0, 9));
    assert_eq!(found, BTreeSet::from([Rule::Rows]));
    let found = lost(schema::CUSTOMER, &schema::customer(PLACE.0, PLACE.1, CUSTOMER));
    let expected = [Rule::Condition(10), Rule::NameIndex, Rule::Rows];
    assert_eq!(found, BTreeSet::from(expected), "its payment is there");
}
