//! TPC-C's tables and their keys.
//!
//! Warehouses are numbered from 0 in keys: W_ID - 1 is the number of the partition. All other
//! numbers are the specification's, from 1.

use std::ops::Bound;

use tombolo_database::{Partitioning, Range, TableId, TableSpec};

use super::rows::{Customer, District, History, Item, Order, OrderLine, Stock, Warehouse};
use crate::workload::table;

/// WAREHOUSE, by W_ID.
pub const WAREHOUSE: TableId = TableId(0);
/// DISTRICT, by D_W_ID and D_ID.
pub const DISTRICT: TableId = TableId(1);
/// CUSTOMER, by C_W_ID, C_D_ID and C_ID.
pub const CUSTOMER: TableId = TableId(2);
/// HISTORY, which has no key in the specification. See [`history`].
pub const HISTORY: TableId = TableId(3);
/// NEW-ORDER, by NO_W_ID, NO_D_ID and NO_O_ID. Its rows are empty.
pub const NEW_ORDER: TableId = TableId(4);
/// ORDER, by O_W_ID, O_D_ID and O_ID.
pub const ORDER: TableId = TableId(5);
/// ORDER-LINE, by OL_W_ID, OL_D_ID, OL_O_ID and OL_NUMBER.
pub const ORDER_LINE: TableId = TableId(6);
/// ITEM, by I_ID. Each host has a copy.
pub const ITEM: TableId = TableId(7);
/// STOCK, by S_W_ID and S_I_ID.
pub const STOCK: TableId = TableId(8);
/// Index of ORDER by customer and O_ID. Its rows are empty.
pub const CUSTOMER_ORDER: TableId = TableId(9);
/// Index of CUSTOMER by C_LAST, C_FIRST and C_ID. Its rows are empty.
pub const CUSTOMER_NAME: TableId = TableId(10);

/// Names of the tables, by their numbers.
pub const NAMES: [&str; 11] = [
    "warehouse",
    "district",
    "customer",
    "history",
    "new_order",
    "order",
    "order_line",
    "item",
    "stock",
    "customer_order",
    "customer_name",
];

/// All tables, in the order of their numbers.
pub(super) fn tables() -> Vec<TableSpec> {
    let item = TableSpec { partitioning: Partitioning::Replicated, ..table(4, Item::BYTES, 1) };
    vec![
        table(4, Warehouse::BYTES, 1),
        table(5, District::BYTES, 1),
        table(9, Customer::BYTES, 1),
        table(18, History::BYTES, 1),
        table(9, 0, 1),
        table(9, Order::BYTES, 1),
        table(10, OrderLine::BYTES, 1),
        item,
        table(8, Stock::BYTES, 1),
        table(13, 0, 1),
        table(41, 0, 1),
    ]
}

/// Puts parts of a key one behind the other, so that keys sort as their parts do.
struct Parts<const N: usize> {
    key: [u8; N],
    filled: usize,
}

impl<const N: usize> Parts<N> {
    fn of(warehouse: u32) -> Self {
        Self { key: [0; N], filled: 0 }.word(warehouse)
    }

    #[inline]
    fn bytes<const BYTES: usize>(mut self, bytes: [u8; BYTES]) -> Self {
        self.key[self.filled..self.filled + BYTES].copy_from_slice(&bytes);
        self.filled += BYTES;
        self
    }

    #[inline]
    fn byte(self, byte: u8) -> Self {
        self.bytes([byte])
    }

    #[inline]
    fn word(self, word: u32) -> Self {
        self.bytes(word.to_be_bytes())
    }

    #[inline]
    fn key(self) -> [u8; N] {
        debug_assert_eq!(self.filled, N, "a key is filled to its end");
        self.key
    }
}

/// The key of a warehouse.
pub fn warehouse(warehouse: u32) -> [u8; 4] {
    warehouse.to_be_bytes()
}

/// The key of a district.
pub fn district(warehouse: u32, district: u8) -> [u8; 5] {
    Parts::of(warehouse).byte(district).key()
}

/// The key of a customer.
pub fn customer(warehouse: u32, district: u8, customer: u32) -> [u8; 9] {
    numbered(warehouse, district, customer)
}

/// The key of an order, in NEW-ORDER as in ORDER.
pub fn order(warehouse: u32, district: u8, order: u32) -> [u8; 9] {
    numbered(warehouse, district, order)
}

fn numbered(warehouse: u32, district: u8, number: u32) -> [u8; 9] {
    Parts::of(warehouse).byte(district).word(number).key()
}

/// A customer, as payments name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomerId {
    /// C_W_ID, from 0.
    pub warehouse: u32,
    /// C_D_ID.
    pub district: u8,
    /// C_ID.
    pub number: u32,
}

/// The key of a payment of `payer` in a district. `payment` is C_PAYMENT_CNT after it, which makes
/// the key unique.
pub fn history(warehouse: u32, district: u8, payer: CustomerId, payment: u32) -> [u8; 18] {
    Parts::of(warehouse)
        .byte(district)
        .word(payer.warehouse)
        .byte(payer.district)
        .word(payer.number)
        .word(payment)
        .key()
}

/// The key of an order line.
pub fn order_line(warehouse: u32, district: u8, order: u32, line: u8) -> [u8; 10] {
    Parts::of(warehouse).byte(district).word(order).byte(line).key()
}

/// The least and the greatest key that a line of an order can have.
pub(super) fn lines_of(warehouse: u32, district: u8, order: u32) -> ([u8; 10], [u8; 10]) {
    let key = |line| order_line(warehouse, district, order, line);
    (key(0), key(u8::MAX))
}

/// The key of an item.
pub fn item(item: u32) -> [u8; 4] {
    item.to_be_bytes()
}

/// The key of an item in a warehouse's stock.
pub fn stock(warehouse: u32, item: u32) -> [u8; 8] {
    Parts::of(warehouse).word(item).key()
}

/// The key of an order in the index by customer.
pub fn customer_order(customer: CustomerId, order: u32) -> [u8; 13] {
    let CustomerId { warehouse, district, number } = customer;
    Parts::of(warehouse).byte(district).word(number).word(order).key()
}

/// The key of a customer in the index by name.
pub fn customer_name(customer: CustomerId, last: [u8; 16], first: [u8; 16]) -> [u8; 41] {
    let CustomerId { warehouse, district, number } = customer;
    Parts::of(warehouse).byte(district).bytes(last).bytes(first).word(number).key()
}

/// The number of 4 bytes at `at`.
pub(super) fn word_of(key: &[u8], at: usize) -> u32 {
    let bytes = key.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// From `low` to `high`, both included.
pub(super) fn between<'a>(low: &'a [u8], high: &'a [u8]) -> Range<'a> {
    (Bound::Included(low), Bound::Included(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_parts_and_fit_their_tables() {
        assert!(order(1, 2, 255) < order(1, 2, 256));
        assert!(order(1, 2, u32::MAX) < order(1, 3, 0));
        assert!(order_line(0, 10, 9, 15) < order_line(1, 1, 1, 1));
        let id = CustomerId { warehouse: 3, district: 4, number: 70_000 };
        let specs = tables();
        let fits = |table: TableId, key: &[u8]| {
            assert_eq!(usize::from(specs[usize::from(table.0)].key_bytes), key.len());
        };
        fits(WAREHOUSE, &warehouse(1));
        fits(DISTRICT, &district(1, 1));
        fits(CUSTOMER, &customer(1, 1, 1));
        fits(HISTORY, &history(1, 1, id, 1));
        fits(NEW_ORDER, &order(1, 1, 1));
        fits(ORDER, &order(1, 1, 1));
        fits(ORDER_LINE, &order_line(1, 1, 1, 1));
        fits(ITEM, &item(1));
        fits(STOCK, &stock(1, 1));
        fits(CUSTOMER_ORDER, &customer_order(id, 1));
        fits(CUSTOMER_NAME, &customer_name(id, [1; 16], [2; 16]));
        assert_eq!(word_of(&customer_name(id, [1; 16], [2; 16]), 37), 70_000);
        assert_eq!(specs.len(), NAMES.len());
    }

    #[test]
    fn all_rows_of_a_warehouse_are_in_its_partition() {
        for spec in tables().iter().filter(|spec| spec.partitioning != Partitioning::Replicated) {
            assert_eq!(spec.partition_of(&order(7, 1, 1), 24), 7);
        }
    }
}
