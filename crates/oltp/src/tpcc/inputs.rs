//! Inputs of transactions (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1 and 2.8.1).

use super::load::LOADED;
use super::population::{Constants, MOST_LINES, Scale};
use super::schema::CustomerId;
use crate::{Random, Seat};

/// How a transaction names a customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustomerRef {
    /// By C_ID.
    Number(u32),
    /// By C_LAST: the number of the last name.
    LastName(u16),
}

/// An ordered item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// OL_I_ID.
    pub item: u32,
    /// OL_SUPPLY_W_ID, from 0.
    pub supplier: u32,
    /// OL_QUANTITY.
    pub quantity: u8,
}

/// Input of a New-Order transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// W_ID, from 0.
    pub warehouse: u32,
    /// D_ID.
    pub district: u8,
    /// C_ID.
    pub customer: u32,
    /// O_ENTRY_D.
    pub date: u64,
    lines: [Line; MOST_LINES],
    count: u8,
    /// Whether the last item does not exist, so that the transaction has to be rolled back.
    pub rolls_back: bool,
}

impl NewOrder {
    /// An order of `lines`, all of which exist.
    ///
    /// # Panics
    /// If there are more than 15 lines.
    pub fn new(warehouse: u32, district: u8, customer: u32, date: u64, lines: &[Line]) -> Self {
        let mut all = [Line::default(); MOST_LINES];
        all[..lines.len()].copy_from_slice(lines);
        let count = lines.len() as u8;
        Self { warehouse, district, customer, date, lines: all, count, rolls_back: false }
    }

    /// The ordered items.
    pub fn lines(&self) -> &[Line] {
        &self.lines[..usize::from(self.count)]
    }
}

/// Input of a Payment transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payment {
    /// W_ID, from 0.
    pub warehouse: u32,
    /// D_ID.
    pub district: u8,
    /// C_W_ID, from 0.
    pub customer_warehouse: u32,
    /// C_D_ID.
    pub customer_district: u8,
    /// The customer that pays.
    pub customer: CustomerRef,
    /// H_AMOUNT, in cents.
    pub amount: i64,
    /// H_DATE.
    pub date: u64,
}

/// Input of an Order-Status transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatus {
    /// W_ID, from 0.
    pub warehouse: u32,
    /// D_ID.
    pub district: u8,
    /// The customer that asks.
    pub customer: CustomerRef,
}

/// Input of a Delivery transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// W_ID, from 0.
    pub warehouse: u32,
    /// D_ID, for those that deliver in one district.
    pub district: u8,
    /// O_CARRIER_ID.
    pub carrier: u8,
    /// OL_DELIVERY_D.
    pub date: u64,
}

/// Input of a Stock-Level transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevel {
    /// W_ID, from 0.
    pub warehouse: u32,
    /// D_ID.
    pub district: u8,
    /// Quantities below it are counted.
    pub threshold: i32,
}

/// Input of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Of New-Order.
    NewOrder(NewOrder),
    /// Of Payment.
    Payment(Payment),
    /// Of Order-Status.
    OrderStatus(OrderStatus),
    /// Of Delivery.
    Delivery(Delivery),
    /// Of Stock-Level.
    StockLevel(StockLevel),
}

/// Names of the transactions, in the order of [`kind`].
pub(super) const KINDS: [&str; 5] =
    ["new-order", "payment", "order-status", "delivery", "stock-level"];

/// The number of a transaction's name.
pub(super) fn kind(input: &Input) -> usize {
    match input {
        Input::NewOrder(_) => 0,
        Input::Payment(_) => 1,
        Input::OrderStatus(_) => 2,
        Input::Delivery(_) => 3,
        Input::StockLevel(_) => 4,
    }
}

/// Which items come from other warehouses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RemoteItems {
    /// Each item with this probability.
    Each(f64),
    /// The first item alone, in this percentage of all orders.
    First(u32),
}

/// The rules for drawing inputs that differ between variants of TPC-C.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputRules {
    pub(super) remote_items: RemoteItems,
    pub(super) remote_payments_percent: u32,
    /// Whether payments of another warehouse's customers may name them.
    pub(super) remote_payments_by_name: bool,
    /// H_AMOUNT, from the least to the greatest.
    pub(super) payment: (i64, i64),
}

/// Draws the inputs of one worker.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    random: Random,
    scale: Scale,
    constants: Constants,
    rules: InputRules,
    warehouses: Vec<u32>,
    date: u64,
}

impl Inputs {
    pub(super) fn new(
        seed: u64,
        scale: Scale,
        constants: Constants,
        rules: InputRules,
        seat: &Seat,
    ) -> Self {
        let warehouses = seat.own_partitions();
        Self { random: seat.random(seed), scale, constants, rules, warehouses, date: LOADED }
    }

    /// The next transaction, by the shares of clause 5.2.3: 45, 43, 4, 4 and 4 %.
    pub(super) fn draw(&mut self) -> Input {
        self.date += 1;
        let warehouse = *self.random.choose(&self.warehouses);
        let district = self.district();
        match self.random.below(100) {
            ..45 => Input::NewOrder(self.new_order(warehouse, district)),
            45..88 => Input::Payment(self.payment(warehouse, district)),
            88..92 => {
                let customer = self.customer(true);
                Input::OrderStatus(OrderStatus { warehouse, district, customer })
            }
            92..96 => {
                let carrier = self.random.within(1, 10) as u8;
                Input::Delivery(Delivery { warehouse, district, carrier, date: self.date })
            }
            _ => {
                let threshold = self.random.within(10, 20) as i32;
                Input::StockLevel(StockLevel { warehouse, district, threshold })
            }
        }
    }

    fn new_order(&mut self, warehouse: u32, district: u8) -> NewOrder {
        let customer = self.constants.customer(&mut self.random, &self.scale);
        let count = self.random.within(5, MOST_LINES as u64) as u8;
        let rolls_back = self.random.percent(1);
        let mut order = NewOrder::new(warehouse, district, customer, self.date, &[]);
        (order.count, order.rolls_back) = (count, rolls_back);
        for (number, line) in order.lines[..usize::from(count)].iter_mut().enumerate() {
            let supplier = match self.is_remote(number) {
                true => self.another_warehouse(warehouse),
                false => warehouse,
            };
            let item = self.constants.item(&mut self.random, &self.scale);
            *line = Line { item, supplier, quantity: self.random.within(1, 10) as u8 };
        }
        if rolls_back {
            order.lines[usize::from(count) - 1].item = self.scale.items + 1;
        }
        order
    }

    fn is_remote(&mut self, line: usize) -> bool {
        match self.rules.remote_items {
            RemoteItems::Each(probability) => self.random.unit() < probability,
            RemoteItems::First(percent) => line == 0 && self.random.percent(percent),
        }
    }

    fn payment(&mut self, warehouse: u32, district: u8) -> Payment {
        let remote = self.random.percent(self.rules.remote_payments_percent);
        let (customer_warehouse, customer_district) = match remote {
            true => (self.another_warehouse(warehouse), self.district()),
            false => (warehouse, district),
        };
        let by_name = customer_warehouse == warehouse || self.rules.remote_payments_by_name;
        let (least, most) = self.rules.payment;
        Payment {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: self.customer(by_name),
            amount: self.random.within(least as u64, most as u64) as i64,
            date: self.date,
        }
    }

    /// By last name in 60 % of all cases, where that is allowed.
    fn customer(&mut self, by_name: bool) -> CustomerRef {
        match self.random.percent(60) && by_name {
            true => CustomerRef::LastName(self.constants.last_name(&mut self.random, &self.scale)),
            false => CustomerRef::Number(self.constants.customer(&mut self.random, &self.scale)),
        }
    }

    fn district(&mut self) -> u8 {
        self.random.within(1, u64::from(self.scale.districts)) as u8
    }

    /// Any other warehouse; the same one if there is no other.
    fn another_warehouse(&mut self, warehouse: u32) -> u32 {
        match self.scale.warehouses {
            1 => warehouse,
            all => self.random.other_than(warehouse, all),
        }
    }
}

/// The customer that a transaction has found.
pub(super) fn id(warehouse: u32, district: u8, number: u32) -> CustomerId {
    CustomerId { warehouse, district, number }
}
