//! The consistency conditions of clause 3.3.2, and what they leave out: that no row is lost, that
//! indexes fit their tables, and that stocks have given what was ordered.
//!
//! Conditions 1 to 10 and 12 always hold. Condition 11 holds until the first Delivery. All are
//! checked for all rows, though clause 3.3.2.12 asks for some customers only.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Bound;

use tombolo_database::{Engine, TableId, TxError};

use super::population::Scale;
use super::rows::{Customer, District, History, Order, OrderLine, Stock, Warehouse};
use super::schema::{self, CustomerId, word_of};
use crate::walk::{EachPair, walk};

/// When a database is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After loading, before any transaction: condition 11, too.
    Loaded,
    /// At any time.
    Always,
}

/// A rule that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A condition of clause 3.3.2, 1 to 12.
    Condition(u8),
    /// The index of customers by name has all customers, and no others.
    NameIndex,
    /// The index of orders by customer has all orders, and no others.
    OrderIndex,
    /// S_YTD, S_ORDER_CNT and S_REMOTE_CNT are what order lines say of orders after loading.
    Stock,
    /// There are as many districts, customers, stocks and items as were loaded.
    Rows,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Condition(number) => write!(f, "condition {number}"),
            Self::NameIndex => f.write_str("index of names"),
            Self::OrderIndex => f.write_str("index of orders"),
            Self::Stock => f.write_str("stock"),
            Self::Rows => f.write_str("number of rows"),
        }
    }
}

/// A rule that does not hold, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// W_ID, from 0.
    pub warehouse: u32,
    /// D_ID, if it is about a district.
    pub district: Option<u8>,
    /// The values that were found.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in warehouse {}", self.rule, self.warehouse)?;
        if let Some(district) = self.district {
            write!(f, ", district {district}")?;
        }
        write!(f, ": {}", self.found)
    }
}

/// Violations of one rule in one warehouse that are returned. There may be more.
const MOST_OF_A_RULE: usize = 100;

/// Checks all rows. No transaction may change any meanwhile, since it takes many transactions to
/// read them. An empty list says that all holds.
///
/// # Errors
/// Those of the engine, after 1000 conflicts in a row too; that a row has not its layout.
pub fn check<E: Engine>(engine: &E, scale: &Scale, when: When) -> Result<Vec<Violation>, TxError> {
    Ok(combine([check_part(engine, scale, when, 0..scale.warehouses)?]))
}

/// The sums over some warehouses' rows. Hosts that each look at the warehouses which are at home
/// with them need not read each other's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The violations that these rows alone show.
    pub violations: Vec<Violation>,
    /// For each customer, by how much C_BALANCE exceeds what was delivered less H_AMOUNT, in cents.
    /// Its payments to other warehouses are not known here. So condition 10 holds if the sums over
    /// all parts are 0. Customers with 0 are left out.
    pub excess: Vec<(CustomerId, i64)>,
    /// For each stock, by how much its counts exceed those of order lines. Orders of other
    /// warehouses are not known here. Stocks with 0 are left out.
    pub stocks: Vec<(StockId, Taken)>,
}

/// An item in a warehouse's stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StockId {
    /// S_W_ID, from 0.
    pub warehouse: u32,
    /// S_I_ID.
    pub item: u32,
}

/// The quantities taken from a stock, or a difference of such counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// S_YTD.
    pub quantity: i64,
    /// S_ORDER_CNT.
    pub orders: i64,
    /// S_REMOTE_CNT.
    pub remote_orders: i64,
}

impl Taken {
    fn add(&mut self, more: Self, sign: i64) {
        self.quantity += sign * more.quantity;
        self.orders += sign * more.orders;
        self.remote_orders += sign * more.remote_orders;
    }
}

/// The sums that have to be 0 over all warehouses.
#[derive(Default)]
struct Excess {
    customers: HashMap<CustomerId, i64>,
    stocks: HashMap<StockId, Taken>,
}

impl Excess {
    fn drop_zeros(&mut self) {
        self.customers.retain(|_, cents| *cents != 0);
        self.stocks.retain(|_, taken| *taken != Taken::default());
    }

    fn of_stock(&mut self, warehouse: u32, item: u32) -> &mut Taken {
        self.stocks.entry(StockId { warehouse, item }).or_default()
    }
}

/// Checks the rows of some warehouses. All parts together are checked by [`combine`].
///
/// # Errors
/// As of [`check`].
pub fn check_part<E: Engine>(
    engine: &E,
    scale: &Scale,
    when: When,
    warehouses: impl IntoIterator<Item = u32>,
) -> Result<Part, TxError> {
    let mut found = Found::default();
    let mut items = 0;
    walk(engine, schema::ITEM, (Bound::Unbounded, Bound::Unbounded), &mut |_, _| {
        items += 1;
        Ok(())
    })?;
    found.count("items", items, scale.items as usize);
    for warehouse in warehouses {
        found.warehouse = warehouse;
        let rows = WarehouseRows::read(engine, warehouse, scale, &mut found.excess)?;
        rows.check_sums(&mut found);
        rows.check_counts(&mut found, scale);
        for (number, district) in &rows.districts {
            found.district = Some(*number);
            district.check_orders(&mut found);
            district.check_lines(&mut found);
            district.check_customers(&mut found, warehouse, *number);
            district.check_indexes(&mut found);
            if when == When::Loaded {
                district.check_first_orders(&mut found, scale);
            }
        }
        found.excess.drop_zeros();
    }
    let Excess { customers, stocks } = found.excess;
    let mut excess: Vec<(CustomerId, i64)> = customers.into_iter().collect();
    excess.sort_unstable();
    let mut stocks: Vec<(StockId, Taken)> = stocks.into_iter().collect();
    stocks.sort_unstable_by_key(|(stock, _)| *stock);
    Ok(Part { violations: found.violations, excess, stocks })
}

/// All violations, given the parts of all warehouses.
pub fn combine(parts: impl IntoIterator<Item = Part>) -> Vec<Violation> {
    let mut found = Found::default();
    let mut customers: BTreeMap<CustomerId, i64> = BTreeMap::new();
    let mut stocks: BTreeMap<StockId, Taken> = BTreeMap::new();
    for part in parts {
        found.violations.extend(part.violations);
        for (customer, cents) in part.excess {
            *customers.entry(customer).or_default() += cents;
        }
        for (stock, taken) in part.stocks {
            stocks.entry(stock).or_default().add(taken, 1);
        }
    }
    for (customer, cents) in customers.into_iter().filter(|(_, cents)| *cents != 0) {
        (found.warehouse, found.district) = (customer.warehouse, Some(customer.district));
        found.add(Rule::Condition(10), || {
            let number = customer.number;
            format!("customer {number} has {cents} cents more than were delivered less H_AMOUNT")
        });
    }
    for (stock, taken) in stocks.into_iter().filter(|(_, taken)| *taken != Taken::default()) {
        (found.warehouse, found.district) = (stock.warehouse, None);
        found.add(Rule::Stock, || {
            let item = stock.item;
            format!("the stock of item {item} exceeds its order lines by {taken:?}")
        });
    }
    found.violations
}

#[derive(Default)]
struct Found {
    violations: Vec<Violation>,
    counts: HashMap<(u32, Rule), usize>,
    excess: Excess,
    warehouse: u32,
    district: Option<u8>,
}

impl Found {
    fn add(&mut self, rule: Rule, found: impl FnOnce() -> String) {
        let count = self.counts.entry((self.warehouse, rule)).or_default();
        *count += 1;
        if *count <= MOST_OF_A_RULE {
            let (warehouse, district) = (self.warehouse, self.district);
            self.violations.push(Violation { rule, warehouse, district, found: found() });
        }
    }

    fn count(&mut self, what: &str, count: usize, expected: usize) {
        if count != expected {
            self.add(Rule::Rows, || format!("{count} {what} instead of {expected}"));
        }
    }

    fn equal<T: PartialEq + fmt::Debug>(
        &mut self,
        condition: u8,
        what: fmt::Arguments<'_>,
        a: T,
        b: T,
    ) {
        if a != b {
            self.add(Rule::Condition(condition), || format!("{what}: {a:?} and {b:?}"));
        }
    }
}

/// The rows of one warehouse that the conditions are about.
#[derive(Default)]
struct WarehouseRows {
    /// W_YTD, if there is the warehouse.
    ytd: Option<i64>,
    /// Sums of H_AMOUNT by H_D_ID.
    paid: BTreeMap<u8, i64>,
    stocks: u32,
    districts: BTreeMap<u8, DistrictRows>,
}

#[derive(Default)]
struct DistrictRows {
    ytd: i64,
    next_order: u32,
    customers: BTreeMap<u32, CustomerRow>,
    orders: BTreeMap<u32, OrderRow>,
    new_orders: Vec<u32>,
    lines: BTreeMap<u32, Lines>,
    /// Keys of the index of names, if there is such a table.
    names: Option<Vec<Vec<u8>>>,
    by_customer: Vec<(u32, u32)>,
}

struct CustomerRow {
    balance: i64,
    ytd_payment: i64,
    /// Its key in the index of names.
    name: Vec<u8>,
}

struct OrderRow {
    customer: u32,
    lines: u8,
    delivered: bool,
}

/// Lines of one order.
#[derive(Default)]
struct Lines {
    all: u32,
    dated: u32,
    /// The sum of OL_AMOUNT of those that are dated.
    delivered: i64,
}

impl WarehouseRows {
    fn read<E: Engine>(
        engine: &E,
        warehouse: u32,
        scale: &Scale,
        excess: &mut Excess,
    ) -> Result<Self, TxError> {
        let mut rows = Self::default();
        each_row(engine, schema::WAREHOUSE, warehouse, &mut |_, row| {
            rows.ytd = Some(Warehouse::view(row)?.ytd());
            Ok(())
        })?;
        each_row(engine, schema::STOCK, warehouse, &mut |key, row| {
            let row = Stock::view(row)?;
            let (orders, remote_orders) = (row.orders().into(), row.remote_orders().into());
            let taken = Taken { quantity: row.ytd() as i64, orders, remote_orders };
            excess.of_stock(warehouse, word_of(key, 4)).add(taken, 1);
            rows.stocks += 1;
            Ok(())
        })?;
        each_row(engine, schema::HISTORY, warehouse, &mut |key, row| {
            let amount = History::view(row)?.amount();
            let (warehouse, district) = (word_of(key, 5), byte_of(key, 9));
            let payer = CustomerId { warehouse, district, number: word_of(key, 10) };
            *excess.customers.entry(payer).or_default() += amount;
            *rows.paid.entry(byte_of(key, 4)).or_default() += amount;
            Ok(())
        })?;
        let districts = &mut rows.districts;
        let mut of = |table, each: &mut EachOfDistrict<'_>| {
            each_row(engine, table, warehouse, &mut |key, row| {
                each(districts.entry(byte_of(key, 4)).or_default(), key, row)
            })
        };
        of(schema::DISTRICT, &mut DistrictRows::add_district)?;
        of(schema::CUSTOMER, &mut DistrictRows::add_customer)?;
        of(schema::ORDER, &mut DistrictRows::add_order)?;
        of(schema::ORDER_LINE, &mut |district, key, row| {
            let line = OrderLine::view(row)?;
            if word_of(key, 5) > scale.customers {
                let remote_orders = (line.supplier() != warehouse).into();
                let taken = Taken { quantity: line.quantity().into(), orders: 1, remote_orders };
                excess.of_stock(line.supplier(), line.item()).add(taken, -1);
            }
            district.add_line(key, line);
            Ok(())
        })?;
        of(schema::NEW_ORDER, &mut |district, key, _| {
            district.new_orders.push(word_of(key, 5));
            Ok(())
        })?;
        of(schema::CUSTOMER_ORDER, &mut |district, key, _| {
            district.by_customer.push((word_of(key, 5), word_of(key, 9)));
            Ok(())
        })?;
        if engine.tables().len() > usize::from(schema::CUSTOMER_NAME.0) {
            of(schema::CUSTOMER_NAME, &mut |district, key, _| {
                district.names.get_or_insert_default().push(key.to_vec());
                Ok(())
            })?;
            rows.districts.values_mut().for_each(|district| {
                district.names.get_or_insert_default();
            });
        }
        Ok(rows)
    }

    fn check_counts(&self, found: &mut Found, scale: &Scale) {
        found.district = None;
        let customers: usize =
            self.districts.values().map(|district| district.customers.len()).sum();
        let expected = scale.customers as usize * usize::from(scale.districts);
        let counts = [
            ("districts", self.districts.len(), scale.districts.into()),
            ("customers", customers, expected),
            ("stocks", self.stocks as usize, scale.items as usize),
        ];
        for (what, count, expected) in counts {
            found.count(what, count, expected);
        }
    }

    /// Conditions 1, 8 and 9.
    fn check_sums(&self, found: &mut Found) {
        found.district = None;
        let sum: i64 = self.districts.values().map(|district| district.ytd).sum();
        found.equal(1, format_args!("W_YTD and the sum of D_YTD"), self.ytd, Some(sum));
        let sum = self.paid.values().sum();
        found.equal(8, format_args!("W_YTD and the sum of H_AMOUNT"), self.ytd, Some(sum));
        for (number, district) in &self.districts {
            found.district = Some(*number);
            let paid = self.paid.get(number).copied().unwrap_or(0);
            found.equal(9, format_args!("D_YTD and the sum of H_AMOUNT"), district.ytd, paid);
        }
    }
}

type EachOfDistrict<'a> = dyn FnMut(&mut DistrictRows, &[u8], &[u8]) -> Result<(), TxError> + 'a;

impl DistrictRows {
    fn add_district(&mut self, _: &[u8], row: &[u8]) -> Result<(), TxError> {
        let row = District::view(row)?;
        (self.ytd, self.next_order) = (row.ytd(), row.next_order());
        Ok(())
    }

    fn add_customer(&mut self, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        let row = Customer::view(row)?;
        let number = word_of(key, 5);
        let id = CustomerId { warehouse: word_of(key, 0), district: byte_of(key, 4), number };
        let name = schema::customer_name(id, row.last(), row.first()).to_vec();
        let (balance, ytd_payment) = (row.balance(), row.ytd_payment());
        self.customers.insert(number, CustomerRow { balance, ytd_payment, name });
        Ok(())
    }

    fn add_order(&mut self, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        let row = Order::view(row)?;
        let (customer, lines, delivered) = (row.customer(), row.lines(), row.carrier() != 0);
        self.orders.insert(word_of(key, 5), OrderRow { customer, lines, delivered });
        Ok(())
    }

    fn add_line(&mut self, key: &[u8], row: OrderLine<&[u8]>) {
        let lines = self.lines.entry(word_of(key, 5)).or_default();
        lines.all += 1;
        if row.delivered() != 0 {
            lines.dated += 1;
            lines.delivered += row.amount();
        }
    }

    /// Conditions 2, 3 and 5.
    fn check_orders(&self, found: &mut Found) {
        let newest = self.orders.keys().last().copied().unwrap_or(0);
        found.equal(
            2,
            format_args!("D_NEXT_O_ID - 1 and the greatest O_ID"),
            self.next_order.saturating_sub(1),
            newest,
        );
        if let (Some(first), Some(last)) = (self.new_orders.first(), self.new_orders.last()) {
            found.equal(
                2,
                format_args!("D_NEXT_O_ID - 1 and the greatest NO_O_ID"),
                self.next_order.saturating_sub(1),
                *last,
            );
            let (span, count) = (last - first + 1, self.new_orders.len() as u32);
            found.equal(3, format_args!("span and count of NO_O_ID"), span, count);
        }
        for (number, order) in &self.orders {
            let new = self.new_orders.binary_search(number).is_ok();
            if new == order.delivered {
                let is = if new { "in NEW-ORDER" } else { "not in NEW-ORDER" };
                let has = if order.delivered { "a carrier" } else { "no carrier" };
                found.add(Rule::Condition(5), || format!("order {number} has {has} and is {is}"));
            }
        }
    }

    /// Conditions 4, 6 and 7.
    fn check_lines(&self, found: &mut Found) {
        let ordered = self.orders.values().map(|order| u32::from(order.lines)).sum();
        let lines: u32 = self.lines.values().map(|lines| lines.all).sum();
        found.equal(4, format_args!("the sum of O_OL_CNT and order lines"), ordered, lines);
        for (number, order) in &self.orders {
            let lines = self.lines.get(number).map_or(0, |lines| lines.all);
            found.equal(
                6,
                format_args!("order {number}, O_OL_CNT and order lines"),
                u32::from(order.lines),
                lines,
            );
        }
        for (number, lines) in &self.lines {
            let delivered = self.orders.get(number).is_some_and(|order| order.delivered);
            found.equal(
                7,
                format_args!("order {number}, lines with OL_DELIVERY_D and as O_CARRIER_ID says"),
                lines.dated,
                if delivered { lines.all } else { 0 },
            );
        }
    }

    /// Condition 12, and what condition 10 needs.
    fn check_customers(&self, found: &mut Found, warehouse: u32, district: u8) {
        let mut delivered: HashMap<u32, i64> = HashMap::new();
        for (number, order) in &self.orders {
            let sum = self.lines.get(number).map_or(0, |lines| lines.delivered);
            *delivered.entry(order.customer).or_default() += sum;
        }
        for (&number, customer) in &self.customers {
            let bought = delivered.get(&number).copied().unwrap_or(0);
            let id = CustomerId { warehouse, district, number };
            *found.excess.customers.entry(id).or_default() += customer.balance - bought;
            found.equal(
                12,
                format_args!("customer {number}, C_BALANCE + C_YTD_PAYMENT and what was delivered"),
                customer.balance + customer.ytd_payment,
                bought,
            );
        }
    }

    /// Condition 11, whose 2,100 follows from the scale.
    fn check_first_orders(&self, found: &mut Found, scale: &Scale) {
        let delivered = self.orders.len() - self.new_orders.len().min(self.orders.len());
        let expected = (scale.customers - scale.new_orders) as usize;
        found.equal(11, format_args!("rows of ORDER less those of NEW-ORDER"), delivered, expected);
    }

    fn check_indexes(&self, found: &mut Found) {
        let mut names: Vec<&[u8]> =
            self.customers.values().map(|customer| &customer.name[..]).collect();
        names.sort_unstable();
        if let Some(index) = self.names.as_ref().filter(|index| **index != names) {
            let (index, table) = (index.len(), names.len());
            found.add(Rule::NameIndex, || {
                format!("{index} entries that differ from the names of {table} customers")
            });
        }
        let orders = self.orders.iter().map(|(number, order)| (order.customer, *number));
        let mut orders: Vec<(u32, u32)> = orders.collect();
        orders.sort_unstable();
        if orders != self.by_customer {
            let (index, table) = (self.by_customer.len(), orders.len());
            found.add(Rule::OrderIndex, || {
                format!("{index} entries that differ from {table} orders")
            });
        }
    }
}

fn byte_of(key: &[u8], at: usize) -> u8 {
    key.get(at).copied().unwrap_or(0)
}

/// Calls `each` with all rows of a warehouse in a table.
fn each_row<E: Engine>(
    engine: &E,
    table: TableId,
    warehouse: u32,
    each: &mut EachPair<'_>,
) -> Result<(), TxError> {
    let (low, high) = (warehouse.to_be_bytes(), (warehouse + 1).to_be_bytes());
    walk(engine, table, (Bound::Included(&low), Bound::Excluded(&high)), each)
}
