//! TPC-C on the reference engine, at a hundredth of its size.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use tombolo_database::{Direction, Engine, Scan, TableId, Transaction};
use tombolo_oltp::tpcc::conditions::{self, Rule, When};
use tombolo_oltp::tpcc::rows::{
    Customer, District, History, Item, Order, OrderLine, Stock, Warehouse,
};
use tombolo_oltp::tpcc::{
    self, Input, Line, NewOrder, RemoteRates, Scale, Tpcc, TpccAsPublished, schema,
};
use tombolo_oltp::{
    Driver, DriverOptions, Outcome, Reference, Seat, Stats, Step, Until, Workload, load,
};

const SCALE: Scale = Scale::small(3);

fn full() -> Tpcc {
    Tpcc::new(SCALE, RemoteRates::SPECIFICATION, 7)
}

fn loaded<W: Workload>(workload: &W) -> Reference {
    let engine = Reference::new(&workload.tables(), workload.partitions());
    for share in 0..2 {
        load(workload, &engine, share, 2).unwrap();
    }
    engine
}

/// Runs workers of three hosts in turn.
fn run<W: Workload>(workload: &W, engine: &Reference, transactions: u64) -> Stats {
    let hosts: Vec<Reference> = (0..3).map(|home| engine.as_host(home, 3)).collect();
    let options = DriverOptions::new(Until::Transactions(transactions));
    let mut workers = Vec::new();
    for host in &hosts {
        let driver = Driver::new(workload, host, || 0, options);
        for worker in 0..2 {
            workers.push((host, driver.worker(&Seat::of(host, worker, 2))));
        }
    }
    let mut all_ended = false;
    while !all_ended {
        all_ended = true;
        for (host, worker) in &mut workers {
            let step = Driver::new(workload, *host, || 0, options).step(worker).unwrap();
            all_ended &= step == Step::Ended;
        }
    }
    let mut stats = workers[0].1.stats().clone();
    workers[1..].iter().for_each(|(_, worker)| stats.add(worker.stats()));
    stats
}

fn rows(engine: &Reference, table: TableId) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut transaction = engine.begin(0);
    let scan = Scan {
        range: (Bound::Unbounded, Bound::Unbounded),
        direction: Direction::Forward,
        limit: usize::MAX,
        for_update: false,
    };
    let mut each = |key: &[u8], row: &[u8]| {
        rows.push((key.to_vec(), row.to_vec()));
        ControlFlow::Continue(())
    };
    transaction.scan(table, scan, &mut each).unwrap();
    rows
}

fn row(engine: &Reference, table: TableId, key: &[u8]) -> Vec<u8> {
    engine.begin(0).get(table, key).unwrap().expect("the row is there").to_vec()
}

fn violations(engine: &Reference, when: When) -> Vec<String> {
    let found = conditions::check(engine, &SCALE, when).unwrap();
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn a_loaded_database_has_all_rows_and_all_conditions_hold() {
    let engine = loaded(&full());
    let districts = SCALE.warehouses as usize * usize::from(SCALE.districts);
    let customers = districts * SCALE.customers as usize;
    let count = |table| rows(&engine, table).len();
    assert_eq!(count(schema::WAREHOUSE), SCALE.warehouses as usize);
    assert_eq!(count(schema::DISTRICT), districts);
    for table in [
        schema::CUSTOMER,
        schema::CUSTOMER_NAME,
        schema::HISTORY,
        schema::ORDER,
        schema::CUSTOMER_ORDER,
    ] {
        assert_eq!(count(table), customers, "{}", schema::NAMES[usize::from(table.0)]);
    }
    assert_eq!(count(schema::NEW_ORDER), districts * SCALE.new_orders as usize);
    assert_eq!(count(schema::ITEM), SCALE.items as usize);
    assert_eq!(count(schema::STOCK), (SCALE.items * SCALE.warehouses) as usize);
    let lines = count(schema::ORDER_LINE);
    assert!((customers * 5..=customers * 15).contains(&lines));
    assert_eq!(violations(&engine, When::Loaded), [""; 0]);

    let larger = Scale { items: SCALE.items + 1, ..SCALE };
    let found = conditions::check(&engine, &larger, When::Loaded).unwrap();
    assert_eq!(found[0].to_string(), "number of rows in warehouse 0: 1000 items instead of 1001");
    assert_eq!(found.len(), 1 + SCALE.warehouses as usize, "stocks are missing, too");
}

#[test]
fn loaded_rows_are_within_the_clauses_limits() {
    let engine = loaded(&full());
    for (_, row) in rows(&engine, schema::ITEM) {
        let item = Item::view(&row).unwrap();
        assert!((100..=10_000).contains(&item.price()));
        assert!((1..=10_000).contains(&item.image()));
    }
    for (_, row) in rows(&engine, schema::STOCK) {
        let stock = Stock::view(&row).unwrap();
        assert!((10..=100).contains(&stock.quantity()));
        assert_eq!((stock.ytd(), stock.orders(), stock.remote_orders()), (0, 0, 0));
    }
    let mut bad = 0;
    for (_, row) in rows(&engine, schema::CUSTOMER) {
        let customer = Customer::view(&row).unwrap();
        bad += i32::from(customer.credit() == *b"BC");
        assert!(customer.discount() <= 5000 && customer.middle() == *b"OE");
        assert_eq!((customer.balance(), customer.ytd_payment()), (-1000, 1000));
    }
    assert!((50..130).contains(&bad), "{bad} of 900 customers have bad credit");
    let orders = rows(&engine, schema::ORDER);
    let first_district = &orders[..SCALE.customers as usize];
    let ordered: BTreeSet<u32> =
        first_district.iter().map(|(_, row)| Order::view(row).unwrap().customer()).collect();
    assert!(ordered.into_iter().eq(1..=SCALE.customers), "each customer has ordered once");
    for (key, row) in rows(&engine, schema::ORDER_LINE) {
        let line = OrderLine::view(&row).unwrap();
        let number = u32::from_be_bytes(*key[5..].first_chunk().unwrap());
        let delivered = number <= SCALE.customers - SCALE.new_orders;
        assert_eq!(line.delivered() != 0, delivered);
        assert_eq!(line.amount() == 0, delivered);
    }
}

#[test]
fn all_conditions_hold_after_a_run_and_the_mix_is_the_clauses() {
    let workload = full();
    let engine = loaded(&workload);
    let stats = run(&workload, &engine, 1000);
    assert_eq!(violations(&engine, When::Always), [""; 0]);
    let total = stats.total();
    assert_eq!(total.commits + total.rollbacks, 6000);
    assert_eq!((total.durable, total.given_up), (total.commits, 0));
    let shares: Vec<u64> =
        stats.kinds.iter().map(|kind| (kind.commits + kind.rollbacks) / 60).collect();
    for (share, expected) in shares.iter().zip([45, 43, 4, 4, 4]) {
        assert!(share.abs_diff(expected) <= 2, "{shares:?}");
    }
    assert!((10..60).contains(&total.rollbacks), "{} of 2700 orders", total.rollbacks);
    assert_eq!(total.rollbacks, stats.kinds[0].rollbacks);
    assert!(violations(&engine, When::Loaded).iter().all(|text| text.contains("condition 11")));
}

#[test]
fn all_conditions_hold_when_most_transactions_are_remote() {
    let workload = Tpcc::new(SCALE, RemoteRates::of_transactions(60, 90), 8);
    let engine = loaded(&workload);
    run(&workload, &engine, 300);
    assert_eq!(violations(&engine, When::Always), [""; 0]);
    let part =
        |warehouse| conditions::check_part(&engine, &SCALE, When::Always, [warehouse]).unwrap();
    let parts: Vec<_> = (0..SCALE.warehouses).map(part).collect();
    assert!(parts.iter().all(|part| !part.excess.is_empty()), "payments go to other warehouses");
    assert_eq!(conditions::combine(parts.clone()), []);
    let missing = conditions::combine(parts[1..].to_vec());
    let rules: BTreeSet<Rule> = missing.iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, BTreeSet::from([Rule::Condition(10), Rule::Stock]), "a part is missing");
    let remote = rows(&engine, schema::ORDER_LINE).into_iter().filter(|(key, row)| {
        let home = u32::from_be_bytes(*key.first_chunk().unwrap());
        OrderLine::view(row).unwrap().supplier() != home
    });
    assert!(remote.count() > 300, "items come from other warehouses");
}

#[test]
fn one_seed_gives_one_database() {
    let dump = |seed| {
        let workload = Tpcc::new(SCALE, RemoteRates::SPECIFICATION, seed);
        let engine = loaded(&workload);
        run(&workload, &engine, 50);
        (0..schema::NAMES.len())
            .map(|table| rows(&engine, TableId(table as u16)))
            .collect::<Vec<_>>()
    };
    assert_eq!(dump(3), dump(3));
    assert_ne!(dump(3), dump(4));
}

#[test]
fn hosts_and_threads_that_load_at_once_load_the_same() {
    let workload = full();
    let tables = |engine: &Reference| {
        (0..schema::NAMES.len())
            .map(|table| rows(engine, TableId(table as u16)))
            .collect::<Vec<_>>()
    };
    let engine = Reference::new(&workload.tables(), workload.partitions());
    std::thread::scope(|scope| {
        for (host, share) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let host = engine.as_host(host, 2);
            scope.spawn(move || load(&full(), &host, share, 2).unwrap());
        }
    });
    assert_eq!(tables(&engine), tables(&loaded(&workload)));
}

#[test]
fn new_order_enters_an_order_and_takes_it_from_the_stock() {
    let workload = full();
    let engine = loaded(&workload);
    let stock_of = |supplier, item| row(&engine, schema::STOCK, &schema::stock(supplier, item));
    let lines =
        [(1, 0, 4), (2, 2, 10)].map(|(item, supplier, quantity)| Line { item, supplier, quantity });
    let before = lines.map(|line| Stock::copy(&stock_of(line.supplier, line.item)).unwrap());
    let input = NewOrder::new(0, 3, 5, 77, &lines);
    let mut transaction = engine.begin(0);
    let placed = workload.new_order(&mut transaction, &input).unwrap().unwrap();
    transaction.commit().unwrap();

    let number = SCALE.customers + 1;
    assert_eq!(placed.order, number);
    let key = schema::order(0, 3, number);
    let bytes = row(&engine, schema::ORDER, &key);
    let order = Order::view(&bytes).unwrap();
    assert_eq!((order.customer(), order.entered(), order.carrier()), (5, 77, 0));
    assert_eq!((order.lines(), order.all_local()), (2, 0));
    assert_eq!(row(&engine, schema::NEW_ORDER, &key), b"");
    let mut sum = 0;
    for (index, line) in lines.iter().enumerate() {
        let bytes = row(&engine, schema::ITEM, &schema::item(line.item));
        let amount = Item::view(&bytes).unwrap().price() * i64::from(line.quantity);
        let key = schema::order_line(0, 3, number, index as u8 + 1);
        let bytes = row(&engine, schema::ORDER_LINE, &key);
        let ordered = OrderLine::view(&bytes).unwrap();
        assert_eq!((ordered.item(), ordered.supplier()), (line.item, line.supplier));
        assert_eq!((ordered.amount(), ordered.delivered()), (amount, 0));
        sum += amount;
        let bytes = stock_of(line.supplier, line.item);
        let (now, before) = (Stock::view(&bytes).unwrap(), &before[index]);
        assert_eq!(ordered.info(), before.districts()[48..72]);
        let left = before.quantity() - i32::from(line.quantity);
        assert_eq!(now.quantity(), if left < 10 { left + 91 } else { left });
        assert_eq!((now.ytd(), now.orders()), (u64::from(line.quantity), 1));
        assert_eq!(now.remote_orders(), u32::from(line.supplier != 0));
    }
    let bytes = row(&engine, schema::CUSTOMER, &schema::customer(0, 3, 5));
    let discount = i64::from(Customer::view(&bytes).unwrap().discount());
    let bytes = row(&engine, schema::WAREHOUSE, &schema::warehouse(0));
    let tax = i64::from(Warehouse::view(&bytes).unwrap().tax());
    let bytes = row(&engine, schema::DISTRICT, &schema::district(0, 3));
    let district = District::view(&bytes).unwrap();
    let tax = tax + i64::from(district.tax());
    assert_eq!(district.next_order(), number + 1);
    let exact = sum * (10_000 - discount) * (10_000 + tax);
    assert!((placed.total * 100_000_000).abs_diff(exact) <= 50_000_000);
    assert_eq!(violations(&engine, When::Always), [""; 0]);
}

#[test]
fn an_order_of_an_unknown_item_is_tried_and_leaves_nothing() {
    let workload = full();
    let engine = loaded(&workload);
    let before: Vec<_> = (0..11).map(|table| rows(&engine, TableId(table))).collect();
    let mut worker = workload.worker(&Seat::of(&engine, 0, 1));
    let rolls_back = std::iter::repeat_with(|| workload.next(&mut worker))
        .find(|input| matches!(input, Input::NewOrder(order) if order.rolls_back));
    let input = rolls_back.unwrap();
    let Input::NewOrder(order) = input else { unreachable!() };
    assert_eq!(order.lines().last().unwrap().item, SCALE.items + 1);

    let mut transaction = engine.begin(0);
    let outcome = workload.run(&mut worker, &input, &mut transaction).unwrap();
    assert_eq!(outcome, Outcome::RollBack);
    let key = schema::district(order.warehouse, order.district);
    let bytes = transaction.get(schema::DISTRICT, &key).unwrap().unwrap();
    let next = District::view(bytes).unwrap().next_order();
    assert_eq!(next, SCALE.customers + 2, "all was done before, under locks");
    transaction.abort();
    let after: Vec<_> = (0..11).map(|table| rows(&engine, TableId(table))).collect();
    assert_eq!(before, after);
}

#[test]
fn payment_by_last_name_finds_the_customer_in_the_middle() {
    let workload = full();
    let engine = loaded(&workload);
    let bytes = rows(&engine, schema::CUSTOMER_NAME);
    // The names of small databases belong to one customer each: two more get the first one's.
    let mut transaction = engine.begin(0);
    let key = schema::customer(0, 1, 1);
    let name = Customer::copy(transaction.get(schema::CUSTOMER, &key).unwrap().unwrap()).unwrap();
    assert_eq!(&name.last()[..9], b"BARBARBAR");
    for (number, first) in [(2, [b'!'; 16]), (3, [b'~'; 16])] {
        let key = schema::customer(0, 1, number);
        let row = transaction.get(schema::CUSTOMER, &key).unwrap().unwrap();
        let mut customer = Customer::copy(row).unwrap();
        let id = schema::CustomerId { warehouse: 0, district: 1, number };
        let old = schema::customer_name(id, customer.last(), customer.first());
        assert!(transaction.delete(schema::CUSTOMER_NAME, &old).unwrap());
        customer.set_last(name.last());
        customer.set_first(first);
        transaction.update(schema::CUSTOMER, &key, customer.bytes()).unwrap();
        let new = schema::customer_name(id, name.last(), first);
        transaction.insert(schema::CUSTOMER_NAME, &new, &[]).unwrap();
    }
    let input = tpcc::Payment {
        warehouse: 2,
        district: 4,
        customer_warehouse: 0,
        customer_district: 1,
        customer: tpcc::CustomerRef::LastName(0),
        amount: 12_345,
        date: 9,
    };
    let paid = workload.payment(&mut transaction, &input).unwrap();
    transaction.commit().unwrap();
    assert_eq!(paid.customer.number, 1, "the second of three, by first name");
    assert_eq!(paid.balance, -1000 - 12_345);
    let key = schema::history(2, 4, paid.customer, 2);
    let history = row(&engine, schema::HISTORY, &key);
    let history = History::view(&history).unwrap();
    assert_eq!((history.amount(), history.date()), (12_345, 9));
    assert_eq!(violations(&engine, When::Always), [""; 0]);
    assert_eq!(rows(&engine, schema::CUSTOMER_NAME).len(), bytes.len());
}

#[test]
fn deliveries_go_on_until_no_order_is_left() {
    let workload = full();
    let engine = loaded(&workload);
    let mut delivered = Vec::new();
    for date in 0..u64::from(SCALE.new_orders) + 2 {
        let input = tpcc::Delivery { warehouse: 1, district: 1, carrier: 3, date: date + 2 };
        let mut transaction = engine.begin(0);
        delivered.push(workload.delivery(&mut transaction, &input).unwrap());
        transaction.commit().unwrap();
        assert_eq!(violations(&engine, When::Always), [""; 0]);
    }
    let mut expected = vec![10; SCALE.new_orders as usize];
    expected.extend([0, 0]);
    assert_eq!(delivered, expected);
}

#[test]
fn order_status_shows_the_last_order_of_a_customer() {
    let workload = full();
    let engine = loaded(&workload);
    let line = Line { item: 9, supplier: 0, quantity: 2 };
    let mut transaction = engine.begin(0);
    for date in [5, 6] {
        let input = NewOrder::new(0, 2, 8, date, &[line; 5]);
        workload.new_order(&mut transaction, &input).unwrap().unwrap();
    }
    let customer = tpcc::CustomerRef::Number(8);
    let input = tpcc::OrderStatus { warehouse: 0, district: 2, customer };
    let status = workload.order_status(&mut transaction, &input).unwrap().unwrap();
    assert_eq!(status.order, SCALE.customers + 2, "its own orders are seen, the last one first");
    assert_eq!((status.lines, status.carrier, status.balance), (5, 0, -1000));
}

#[test]
fn stock_level_counts_items_that_are_low() {
    let workload = full();
    let engine = loaded(&workload);
    run(&workload, &engine, 100);
    for district in 1..=10 {
        let key = schema::district(1, district);
        let next = District::view(&row(&engine, schema::DISTRICT, &key)).unwrap().next_order();
        let mut low = BTreeSet::new();
        for (key, bytes) in rows(&engine, schema::ORDER_LINE) {
            let number = u32::from_be_bytes(*key[5..].first_chunk().unwrap());
            if key[..5] == schema::district(1, district) && number >= next - 20 {
                let item = OrderLine::view(&bytes).unwrap().item();
                let stock = row(&engine, schema::STOCK, &schema::stock(1, item));
                if Stock::view(&stock).unwrap().quantity() < 20 {
                    low.insert(item);
                }
            }
        }
        let input = tpcc::StockLevel { warehouse: 1, district, threshold: 20 };
        let found = workload.stock_level(&mut engine.begin(0), &input).unwrap();
        assert_eq!(found, low.len());
    }
}

#[test]
fn as_published_is_lighter_and_says_which_conditions_hold() {
    let workload = TpccAsPublished::new(SCALE, 10, 15, 7);
    assert_ne!(workload.name(), full().name());
    let engine = loaded(&workload);
    assert_eq!(engine.tables().len(), 10, "names are no table");
    let stats = run(&workload, &engine, 500);
    assert!(stats.kinds.iter().all(|kind| kind.commits > 0));
    let found = conditions::check(&engine, &SCALE, When::Always).unwrap();
    let broken: BTreeSet<Rule> = found.iter().map(|violation| violation.rule).collect();
    assert!(!broken.iter().any(|rule| TpccAsPublished::holds(*rule)), "{broken:?}");
    let expected = [7, 8, 9, 10, 12].map(Rule::Condition);
    assert!(expected.iter().all(|rule| broken.contains(rule)), "{broken:?}");
    assert!(broken.contains(&Rule::OrderIndex), "{broken:?}");
}

#[test]
fn as_published_a_rollback_takes_no_lock() {
    let workload = TpccAsPublished::new(SCALE, 0, 0, 7);
    let engine = loaded(&workload).without_waiting();
    let mut other = engine.begin(1);
    other.get(schema::WAREHOUSE, &schema::warehouse(0)).unwrap();
    let mut worker = workload.worker(&Seat::of(&engine, 0, 1));
    let mut count = 0;
    for _ in 0..1000 {
        let input = workload.next(&mut worker);
        let outcome = workload.run(&mut worker, &input, &mut engine.begin(0));
        match (input, outcome) {
            (Input::NewOrder(order), Ok(Outcome::RollBack)) if order.rolls_back => count += 1,
            (_, Err(error)) if error.is_conflict() => {}
            (input, outcome) => panic!("{input:?}: {outcome:?}"),
        }
    }
    assert!(count > 0);
}

#[test]
fn remote_transactions_are_as_many_as_asked_for() {
    let engine = Reference::new(&full().tables(), SCALE.warehouses);
    let seat = Seat::of(&engine, 0, 1);
    let shares = |workload: &dyn Fn() -> Input| {
        let (mut orders, mut payments, mut remote) = (0, 0, [0, 0, 0]);
        for _ in 0..20_000 {
            match workload() {
                Input::NewOrder(order) => {
                    let is_remote = |line: &Line| line.supplier != order.warehouse;
                    orders += 1;
                    remote[0] += i32::from(order.lines().iter().any(is_remote));
                    remote[2] += i32::from(order.lines()[1..].iter().any(is_remote));
                }
                Input::Payment(payment) => {
                    payments += 1;
                    remote[1] += i32::from(payment.customer_warehouse != payment.warehouse);
                }
                _ => {}
            }
        }
        [remote[0] * 100 / orders, remote[1] * 100 / payments, remote[2] * 100 / orders]
    };
    for (a, b) in [(0, 0), (10, 15), (60, 90)] {
        let full = Tpcc::new(SCALE, RemoteRates::of_transactions(a, b), 3);
        let worker = std::cell::RefCell::new(full.worker(&seat));
        let found = shares(&|| full.next(&mut worker.borrow_mut()));
        assert!((found[0] - a as i32).abs() <= 2 && (found[1] - b as i32).abs() <= 2, "{found:?}");
        assert!(a == 0 || found[2] > 0, "any item may be remote");

        let published = TpccAsPublished::new(SCALE, a, b, 3);
        let worker = std::cell::RefCell::new(published.worker(&seat));
        let found = shares(&|| published.next(&mut worker.borrow_mut()));
        assert!((found[0] - a as i32).abs() <= 2 && (found[1] - b as i32).abs() <= 2, "{found:?}");
        assert_eq!(found[2], 0, "the first item alone may be remote");
    }
}
