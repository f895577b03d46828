//! TPC-C by the specification's rules.

use tombolo_database::{Engine, TableSpec, Transaction, TxError};

use super::inputs::{
    self, Delivery, Input, InputRules, Inputs, NewOrder, OrderStatus, Payment, RemoteItems,
    StockLevel,
};
use super::load::{Loader, paid_once};
use super::population::{Constants, Scale, dollars};
use super::{Paid, Placed, Status};
use super::{delivery, new_order, order_status, payment, schema, stock_level};
use crate::{Outcome, Seat, Workload};

/// How often other warehouses take part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemoteRates {
    /// The probability with which each ordered item comes from another warehouse.
    pub items: f64,
    /// Of 100 payments, those by customers of other warehouses.
    pub payments_percent: u32,
}

impl RemoteRates {
    /// The specification's: 1 % of the items, 15 % of the payments.
    pub const SPECIFICATION: Self = Self { items: 0.01, payments_percent: 15 };

    /// Rates at which `orders_percent` of all orders have an item from another warehouse.
    ///
    /// # Panics
    /// If a percentage is above 100.
    pub fn of_transactions(orders_percent: u32, payments_percent: u32) -> Self {
        assert!(orders_percent <= 100 && payments_percent <= 100, "percentages are at most 100");
        // The share of orders grows with the probability, so that it is found by halving.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..64 {
            let middle = f64::midpoint(low, high);
            match share_of_orders(middle) * 100.0 < f64::from(orders_percent) {
                true => low = middle,
                false => high = middle,
            }
        }
        let items = if orders_percent == 0 { 0.0 } else { high };
        Self { items, payments_percent }
    }
}

/// The share of orders with an item from another warehouse, if each item is one with `probability`.
fn share_of_orders(probability: f64) -> f64 {
    let local = |lines: i32| (0..lines).fold(1.0, |share, _| share * (1.0 - probability));
    (5..=15).map(|lines| 1.0 - local(lines)).sum::<f64>() / 11.0
}

/// TPC-C in full: all nine tables, two indexes, all five transactions.
///
/// It differs from a TPC-C that could be reported in what the [module](super) lists.
#[derive(Clone, Debug)]
pub struct Tpcc {
    seed: u64,
    scale: Scale,
    constants: Constants,
    rules: InputRules,
}

impl Tpcc {
    /// The workload; `seed` decides on all rows and all choices.
    pub fn new(scale: Scale, remote: RemoteRates, seed: u64) -> Self {
        let rules = InputRules {
            remote_items: RemoteItems::Each(remote.items),
            remote_payments_percent: remote.payments_percent,
            remote_payments_by_name: true,
            payment: (dollars(1), dollars(5000)),
        };
        Self { seed, scale, constants: Constants::new(seed), rules }
    }

    /// How many rows there are.
    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    /// New-Order. `None` if the order's last item does not exist: then all has been done but for
    /// that item, and the transaction has to be aborted.
    ///
    /// # Errors
    /// Those of the transaction; that a row is missing, or has not its layout. So with the others.
    pub fn new_order<T: Transaction>(
        &self,
        transaction: &mut T,
        input: &NewOrder,
    ) -> Result<Option<Placed>, TxError> {
        new_order::run(transaction, input, true)
    }

    /// Payment.
    ///
    /// # Errors
    /// As of [`new_order`](Self::new_order).
    pub fn payment<T: Transaction>(
        &self,
        transaction: &mut T,
        input: &Payment,
    ) -> Result<Paid, TxError> {
        payment::run(transaction, input)
    }

    /// Order-Status. `None` if the customer has not ordered anything.
    ///
    /// # Errors
    /// As of [`new_order`](Self::new_order).
    pub fn order_status<T: Transaction>(
        &self,
        transaction: &mut T,
        input: &OrderStatus,
    ) -> Result<Option<Status>, TxError> {
        order_status::run(transaction, input)
    }

    /// Delivery of all districts. Returns how many orders were delivered: a district without new
    /// orders is left out.
    ///
    /// # Errors
    /// As of [`new_order`](Self::new_order).
    pub fn delivery<T: Transaction>(
        &self,
        transaction: &mut T,
        input: &Delivery,
    ) -> Result<u8, TxError> {
        delivery::run(transaction, input, self.scale.districts)
    }

    /// Stock-Level. Returns how many of the items in the district's last 20 orders are low in
    /// stock.
    ///
    /// # Errors
    /// As of [`new_order`](Self::new_order).
    pub fn stock_level<T: Transaction>(
        &self,
        transaction: &mut T,
        input: &StockLevel,
    ) -> Result<usize, TxError> {
        stock_level::run(transaction, input)
    }

    fn loader(&self) -> Loader<'_> {
        Loader {
            scale: &self.scale,
            seed: self.seed,
            constants: &self.constants,
            district_ytd: paid_once(&self.scale),
            names: true,
        }
    }
}

/// A worker of [`Tpcc`].
#[derive(Clone, Debug)]
pub struct TpccWorker(Inputs);

impl Workload for Tpcc {
    type Worker = TpccWorker;
    type Input = Input;

    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn kinds(&self) -> &'static [&'static str] {
        &inputs::KINDS
    }

    fn tables(&self) -> Vec<TableSpec> {
        schema::tables()
    }

    fn partitions(&self) -> u32 {
        self.scale.warehouses
    }

    fn load_replicated<E: Engine>(&self, engine: &E) -> Result<(), TxError> {
        self.loader().items(engine)
    }

    fn load_partition<E: Engine>(&self, engine: &E, partition: u32) -> Result<(), TxError> {
        self.loader().warehouse(engine, partition)
    }

    fn worker(&self, seat: &Seat) -> TpccWorker {
        TpccWorker(Inputs::new(self.seed, self.scale, self.constants, self.rules, seat))
    }

    fn next(&self, worker: &mut TpccWorker) -> Input {
        worker.0.draw()
    }

    fn kind(&self, input: &Input) -> usize {
        inputs::kind(input)
    }

    fn run<T: Transaction>(
        &self,
        _: &mut TpccWorker,
        input: &Input,
        transaction: &mut T,
    ) -> Result<Outcome, TxError> {
        match input {
            Input::NewOrder(input) if self.new_order(transaction, input)?.is_none() => {
                return Ok(Outcome::RollBack);
            }
            Input::NewOrder(_) => {}
            Input::Payment(input) => drop(self.payment(transaction, input)?),
            Input::OrderStatus(input) => drop(self.order_status(transaction, input)?),
            Input::Delivery(input) => drop(self.delivery(transaction, input)?),
            Input::StockLevel(input) => drop(self.stock_level(transaction, input)?),
        }
        Ok(Outcome::COMMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_percent_of_the_items_is_about_a_tenth_of_the_orders() {
        let share = share_of_orders(RemoteRates::SPECIFICATION.items);
        assert!((0.09..0.10).contains(&share), "{share}");
        for percent in [0, 10, 60, 100] {
            let rates = RemoteRates::of_transactions(percent, 0);
            let share = share_of_orders(rates.items) * 100.0;
            assert!((share - f64::from(percent)).abs() < 1e-6, "{percent}: {rates:?}");
        }
    }
}
