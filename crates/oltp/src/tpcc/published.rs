//! TPC-C as the published source of Tigon has it, which is lighter than the specification.

use std::collections::HashMap;

use tombolo_database::{Engine, TableSpec, Transaction, TxError};

use super::conditions::Rule;
use super::inputs::{self, CustomerRef, Delivery, Input, InputRules, Inputs, RemoteItems};
use super::load::Loader;
use super::lookup::middle;
use super::population::{Constants, MOST_LINES, Scale, dollars};
use super::schema::CustomerId;
use super::{delivery, new_order, order_status, payment, schema, stock_level};
use crate::{Outcome, Seat, Workload};

/// W_YTD of a warehouse when it is loaded. It is a tenth of what its customers have paid.
const WAREHOUSE_YTD: i64 = dollars(30_000);

/// TPC-C as published with Tigon, to be compared with its figures. It is not TPC-C.
///
/// It leaves out, or does otherwise than [`Tpcc`](super::Tpcc):
///
/// * Delivery does one district of ten. It locks the lines of the order, but dates none of them.
///   C_BALANCE grows by the amounts of lines in the worker's memory: those of its last New-Order.
/// * New-Order does not enter orders into the index by customer. So Order-Status sees orders that
///   were loaded.
/// * H_AMOUNT is always 1.00.
/// * There is no table of customers' names. Each host has a map of them in its own memory.
/// * Payments of other warehouses' customers never name them.
/// * Of the 5 to 15 items of an order, the first alone may come from another warehouse.
/// * The 1 % of New-Orders that roll back do so before they read or lock anything.
/// * W_YTD begins at 30,000.00, though the customers have paid ten times as much.
///
/// So of the rules that [`conditions`](super::conditions) checks only those hold of which
/// [`holds`](Self::holds) says so.
#[derive(Clone, Debug)]
pub struct TpccAsPublished {
    seed: u64,
    scale: Scale,
    constants: Constants,
    rules: InputRules,
}

impl TpccAsPublished {
    /// The workload: of 100 New-Orders `orders_percent`, and of 100 Payments `payments_percent`,
    /// have to do with another warehouse. `seed` decides on all rows and all choices.
    pub fn new(scale: Scale, orders_percent: u32, payments_percent: u32, seed: u64) -> Self {
        let rules = InputRules {
            remote_items: RemoteItems::First(orders_percent),
            remote_payments_percent: payments_percent,
            remote_payments_by_name: false,
            payment: (dollars(1), dollars(1)),
        };
        Self { seed, scale, constants: Constants::new(seed), rules }
    }

    /// Whether a rule holds: the consistency conditions 1 to 6, and 11 after loading; that stocks
    /// have given what was ordered, and that no row is lost.
    pub fn holds(rule: Rule) -> bool {
        matches!(rule, Rule::Condition(1..=6 | 11) | Rule::Stock | Rule::Rows)
    }

    /// How many rows there are.
    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    fn loader(&self) -> Loader<'_> {
        Loader {
            scale: &self.scale,
            seed: self.seed,
            constants: &self.constants,
            district_ytd: WAREHOUSE_YTD / i64::from(self.scale.districts),
            names: false,
        }
    }

    /// For each last name of a district, the customer in the middle of those that have it.
    fn names_of(&self, warehouse: u32, district: u8) -> HashMap<u16, u32> {
        let mut all: HashMap<u16, Vec<([u8; 16], u32)>> = HashMap::new();
        for number in 1..=self.scale.customers {
            let id = CustomerId { warehouse, district, number };
            let (last, first) = self.constants.names(self.seed, &self.scale, id);
            all.entry(last).or_default().push((first, number));
        }
        let middle_of = |(last, mut customers): (u16, Vec<_>)| {
            customers.sort_unstable();
            middle(&customers).map(|(_, number)| (last, number))
        };
        all.into_iter().filter_map(middle_of).collect()
    }
}

/// A worker of [`TpccAsPublished`].
#[derive(Clone, Debug)]
pub struct PublishedWorker {
    inputs: Inputs,
    /// Customers by warehouse, district and last name.
    names: HashMap<(u32, u8), HashMap<u16, u32>>,
    /// Amounts of order lines: those of the last New-Order, and behind them older ones.
    amounts: [i64; MOST_LINES],
}

impl PublishedWorker {
    fn number(&self, warehouse: u32, district: u8, customer: CustomerRef) -> CustomerRef {
        match customer {
            CustomerRef::LastName(last) => {
                let names = &self.names[&(warehouse, district)];
                CustomerRef::Number(names[&last])
            }
            number @ CustomerRef::Number(_) => number,
        }
    }
}

impl Workload for TpccAsPublished {
    type Worker = PublishedWorker;
    type Input = Input;

    fn name(&self) -> &'static str {
        "tpcc-as-published"
    }

    fn kinds(&self) -> &'static [&'static str] {
        &inputs::KINDS
    }

    fn tables(&self) -> Vec<TableSpec> {
        let mut tables = schema::tables();
        tables.truncate(usize::from(schema::CUSTOMER_NAME.0));
        tables
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

    fn worker(&self, seat: &Seat) -> PublishedWorker {
        let inputs = Inputs::new(self.seed, self.scale, self.constants, self.rules, seat);
        let own = seat.own_partitions();
        let districts = (1..=self.scale.districts)
            .flat_map(|district| own.iter().map(move |warehouse| (*warehouse, district)));
        let names = districts.map(|place| (place, self.names_of(place.0, place.1))).collect();
        PublishedWorker { inputs, names, amounts: [0; MOST_LINES] }
    }

    fn next(&self, worker: &mut PublishedWorker) -> Input {
        let mut input = worker.inputs.draw();
        match &mut input {
            Input::Payment(payment) => {
                let (warehouse, district) = (payment.customer_warehouse, payment.customer_district);
                payment.customer = worker.number(warehouse, district, payment.customer);
            }
            Input::OrderStatus(status) => {
                status.customer = worker.number(status.warehouse, status.district, status.customer);
            }
            Input::NewOrder(_) | Input::Delivery(_) | Input::StockLevel(_) => {}
        }
        input
    }

    fn kind(&self, input: &Input) -> usize {
        inputs::kind(input)
    }

    fn run<T: Transaction>(
        &self,
        worker: &mut PublishedWorker,
        input: &Input,
        transaction: &mut T,
    ) -> Result<Outcome, TxError> {
        match input {
            Input::NewOrder(input) if input.rolls_back => return Ok(Outcome::RollBack),
            Input::NewOrder(input) => {
                if let Some(placed) = new_order::run(transaction, input, false)? {
                    let lines = input.lines().len();
                    worker.amounts[..lines].copy_from_slice(&placed.amounts[..lines]);
                }
            }
            Input::Payment(input) => drop(payment::run(transaction, input)?),
            Input::OrderStatus(input) => drop(order_status::run(transaction, input)?),
            Input::Delivery(input) => deliver(worker, input, transaction)?,
            Input::StockLevel(input) => drop(stock_level::run(transaction, input)?),
        }
        Ok(Outcome::COMMIT)
    }
}

/// Delivers the oldest new order of one district, if there is one.
fn deliver<T: Transaction>(
    worker: &PublishedWorker,
    input: &Delivery,
    transaction: &mut T,
) -> Result<(), TxError> {
    let Delivery { warehouse, district, .. } = *input;
    let Some(order) = delivery::take_oldest(transaction, warehouse, district)? else {
        return Ok(());
    };
    let customer = delivery::set_carrier(transaction, input, district, order)?;
    let lines = delivery::lines(transaction, warehouse, district, order)?.len();
    let sum = worker.amounts[..lines.min(MOST_LINES)].iter().sum();
    delivery::charge(transaction, warehouse, district, customer, sum)
}

#[cfg(test)]
mod tests {
    use super::super::lookup;
    use super::super::{RemoteRates, Tpcc};
    use super::*;
    use crate::Reference;

    #[test]
    fn the_map_of_names_finds_the_same_customers_as_the_table() {
        // So many customers that most names have several.
        let scale = Scale { customers: 2500, districts: 2, items: 10, ..Scale::small(1) };
        let full = Tpcc::new(scale, RemoteRates::SPECIFICATION, 4);
        let engine = Reference::new(&full.tables(), 1);
        crate::load(&full, &engine, 0, 1).unwrap();
        let names = TpccAsPublished::new(scale, 0, 0, 4).names_of(0, 2);
        assert_eq!(names.len(), 1000);
        let mut transaction = engine.begin(0);
        for (last, number) in names {
            let last = CustomerRef::LastName(last);
            let found = lookup::customer(&mut transaction, 0, 2, last).unwrap();
            assert_eq!(found, CustomerId { warehouse: 0, district: 2, number });
        }
    }
}
