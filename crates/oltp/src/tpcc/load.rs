//! The initial rows (clause 4.3.3.1), table by table, each in the order of its keys.

use tombolo_database::{Engine, TxError};

use super::population::{
    Constants, MOST_LINES, Scale, address, data, digits, dollars, last_name, letters,
};
use super::rows::{Customer, District, History, Item, Order, OrderLine, Stock, Warehouse};
use super::schema::{self, CustomerId};
use crate::Random;

/// The date of all that is loaded. Later dates are greater, and 0 is null.
pub(super) const LOADED: u64 = 1;

/// The payment of each customer when it is loaded.
const FIRST_PAYMENT: i64 = dollars(10);

/// Loads the rows of one warehouse after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loader<'a> {
    pub(super) scale: &'a Scale,
    pub(super) seed: u64,
    pub(super) constants: &'a Constants,
    /// D_YTD of each district. W_YTD is the sum.
    pub(super) district_ytd: i64,
    /// Whether there is a table of customers' names.
    pub(super) names: bool,
}

impl Loader<'_> {
    /// Loads ITEM, which is the same at each host.
    pub(super) fn items<E: Engine>(&self, engine: &E) -> Result<(), TxError> {
        let mut random = self.random(0, 0x17);
        for number in 1..=self.scale.items {
            let mut item = Item::zeroed();
            item.set_image(random.within(1, 10_000) as u32);
            item.set_name(letters(&mut random, 14));
            item.set_price(random.within(dollars(1) as u64, dollars(100) as u64) as i64);
            item.set_data(data(&mut random));
            engine.load(schema::ITEM, &schema::item(number), item.bytes())?;
        }
        Ok(())
    }

    /// Loads all rows of a warehouse.
    pub(super) fn warehouse<E: Engine>(&self, engine: &E, warehouse: u32) -> Result<(), TxError> {
        let mut random = self.random(warehouse, 0xaa);
        let mut row = Warehouse::zeroed();
        row.set_tax(random.within(0, 2000) as u16);
        row.set_ytd(self.district_ytd * i64::from(self.scale.districts));
        row.set_name(letters(&mut random, 6));
        row.set_address(address(&mut random));
        engine.load(schema::WAREHOUSE, &schema::warehouse(warehouse), row.bytes())?;
        self.stock(engine, warehouse)?;
        for district in 1..=self.scale.districts {
            self.district(engine, warehouse, district, &mut random)?;
            self.customers(engine, warehouse, district)?;
            self.orders(engine, warehouse, district)?;
        }
        Ok(())
    }

    fn stock<E: Engine>(&self, engine: &E, warehouse: u32) -> Result<(), TxError> {
        let mut random = self.random(warehouse, 0x57);
        for item in 1..=self.scale.items {
            let mut stock = Stock::zeroed();
            stock.set_quantity(random.within(10, 100) as i32);
            stock.set_districts(letters(&mut random, 240));
            stock.set_data(data(&mut random));
            engine.load(schema::STOCK, &schema::stock(warehouse, item), stock.bytes())?;
        }
        Ok(())
    }

    fn district<E: Engine>(
        &self,
        engine: &E,
        warehouse: u32,
        district: u8,
        random: &mut Random,
    ) -> Result<(), TxError> {
        let mut row = District::zeroed();
        row.set_tax(random.within(0, 2000) as u16);
        row.set_ytd(self.district_ytd);
        row.set_next_order(self.scale.customers + 1);
        row.set_name(letters(random, 6));
        row.set_address(address(random));
        engine.load(schema::DISTRICT, &schema::district(warehouse, district), row.bytes())
    }

    fn customers<E: Engine>(
        &self,
        engine: &E,
        warehouse: u32,
        district: u8,
    ) -> Result<(), TxError> {
        let mut random = self.random(warehouse, 0xc000 | u64::from(district));
        let mut names = Vec::new();
        for number in 1..=self.scale.customers {
            let id = CustomerId { warehouse, district, number };
            let (last, first) = self.constants.names(self.seed, self.scale, id);
            let customer = self.customer(&mut random, last_name(last), first);
            let key = schema::customer(warehouse, district, number);
            engine.load(schema::CUSTOMER, &key, customer.bytes())?;
            let mut payment = History::zeroed();
            payment.set_amount(FIRST_PAYMENT);
            payment.set_date(LOADED);
            payment.set_data(letters(&mut random, 12));
            let key = schema::history(warehouse, district, id, customer.payments());
            engine.load(schema::HISTORY, &key, payment.bytes())?;
            names.push(schema::customer_name(id, customer.last(), first));
        }
        names.sort_unstable();
        let mut names = names.iter().filter(|_| self.names);
        names.try_for_each(|key| engine.load(schema::CUSTOMER_NAME, key, &[]))
    }

    fn customer(
        &self,
        random: &mut Random,
        last: [u8; 16],
        first: [u8; 16],
    ) -> Customer<[u8; Customer::BYTES]> {
        let mut customer = Customer::zeroed();
        customer.set_last(last);
        customer.set_middle(*b"OE");
        customer.set_first(first);
        customer.set_address(address(random));
        customer.set_phone(digits(random));
        customer.set_since(LOADED);
        customer.set_credit(if random.percent(10) { *b"BC" } else { *b"GC" });
        customer.set_credit_limit(dollars(50_000));
        customer.set_discount(random.within(0, 5000) as u16);
        customer.set_balance(-FIRST_PAYMENT);
        customer.set_ytd_payment(FIRST_PAYMENT);
        customer.set_payments(1);
        customer.set_data(letters(random, 300));
        customer
    }

    fn orders<E: Engine>(&self, engine: &E, warehouse: u32, district: u8) -> Result<(), TxError> {
        let mut random = self.random(warehouse, 0x0d00 | u64::from(district));
        let mut customers: Vec<u32> = (1..=self.scale.customers).collect();
        random.shuffle(&mut customers);
        let mut by_customer = Vec::new();
        for (number, &customer) in (1..).zip(&customers) {
            let delivered = number < self.scale.first_new_order();
            let lines = random.within(5, MOST_LINES as u64) as u8;
            let mut order = Order::zeroed();
            order.set_customer(customer);
            order.set_entered(LOADED);
            order.set_carrier(if delivered { random.within(1, 10) as u8 } else { 0 });
            order.set_lines(lines);
            order.set_all_local(1);
            let key = schema::order(warehouse, district, number);
            engine.load(schema::ORDER, &key, order.bytes())?;
            if !delivered {
                engine.load(schema::NEW_ORDER, &key, &[])?;
            }
            for line in 1..=lines {
                let row = self.order_line(&mut random, warehouse, delivered);
                let key = schema::order_line(warehouse, district, number, line);
                engine.load(schema::ORDER_LINE, &key, row.bytes())?;
            }
            let id = CustomerId { warehouse, district, number: customer };
            by_customer.push(schema::customer_order(id, number));
        }
        by_customer.sort_unstable();
        by_customer.iter().try_for_each(|key| engine.load(schema::CUSTOMER_ORDER, key, &[]))
    }

    fn order_line(
        &self,
        random: &mut Random,
        warehouse: u32,
        delivered: bool,
    ) -> OrderLine<[u8; OrderLine::BYTES]> {
        let mut line = OrderLine::zeroed();
        line.set_item(random.within(1, u64::from(self.scale.items)) as u32);
        line.set_supplier(warehouse);
        line.set_delivered(if delivered { LOADED } else { 0 });
        line.set_quantity(5);
        line.set_amount(if delivered { 0 } else { random.within(1, 999_999) as i64 });
        line.set_info(letters(random, 24));
        line
    }

    fn random(&self, warehouse: u32, what: u64) -> Random {
        Random::new(self.seed, &[what, u64::from(warehouse)])
    }
}

/// D_YTD of a district whose customers have each paid once.
pub(super) fn paid_once(scale: &Scale) -> i64 {
    i64::from(scale.customers) * FIRST_PAYMENT
}
