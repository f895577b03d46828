//! YCSB, SmallBank and the driver on the reference engine.

use std::cell::Cell;
use std::collections::BTreeMap;

use tombolo_database::{Engine, TableId, Transaction};
use tombolo_oltp::bank::{self, Bank, BankOptions};
use tombolo_oltp::smallbank::{self, SmallBank, SmallBankOptions};
use tombolo_oltp::tpcc::conditions::{self, When};
use tombolo_oltp::tpcc::{RemoteRates, Scale, Tpcc};
use tombolo_oltp::ycsb::{self, Ycsb, YcsbOptions};
use tombolo_oltp::{
    BackOff, Driver, DriverOptions, Reference, Seat, Stats, Step, Until, Workload, load,
};

fn loaded<W: Workload>(workload: &W) -> Reference {
    let engine = Reference::new(&workload.tables(), workload.partitions());
    load(workload, &engine, 0, 1).unwrap();
    engine
}

/// Runs two threads on `engine`, each with a worker.
fn run<W: Workload>(workload: &W, engine: &Reference, transactions: u64) -> Stats {
    let options = DriverOptions::new(Until::Transactions(transactions));
    let driver = &Driver::new(workload, engine, || 0, options);
    let parts = std::thread::scope(|scope| {
        let threads = [0, 1].map(|number| {
            scope.spawn(move || {
                let mut worker = driver.worker(&Seat::of(engine, number, 2));
                driver.run(&mut worker, |_| std::thread::yield_now()).unwrap();
                worker.stats().clone()
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    let [mut stats, more] = parts;
    stats.add(&more);
    stats
}

const YCSB: YcsbOptions =
    YcsbOptions { rows: 500, reads_percent: 50, cross_percent: 50, ..YcsbOptions::new(3) };

#[test]
fn ycsb_loses_no_update() {
    fn check(workload: &Ycsb, fields: i64) {
        let engine = loaded(workload);
        assert_eq!(ycsb::check(&engine, &YCSB, 0).unwrap(), [""; 0]);
        let stats = run(workload, &engine, 500);
        assert_eq!(ycsb::check(&engine, &YCSB, stats.effect).unwrap(), [""; 0]);
        let updates = stats.effect / fields;
        assert!((4500..5500).contains(&updates), "{updates} of 10,000 operations");
        assert_eq!(ycsb::check(&engine, &YCSB, stats.effect + 1).unwrap().len(), 1);
    }
    let (clean, published) = (Ycsb::new(YCSB, 3), Ycsb::as_published(YCSB, 3));
    check(&clean, 1);
    check(&published, 10);
    assert_ne!(clean.name(), published.name());
}

#[test]
fn ycsb_finds_torn_rows_and_lost_ones() {
    let engine = loaded(&Ycsb::new(YCSB, 3));
    let mut transaction = engine.begin(0);
    let key = 7_u32.to_be_bytes();
    let mut row = transaction.get(ycsb::TABLE, &key).unwrap().unwrap().to_vec();
    row[250] ^= 1;
    transaction.update(ycsb::TABLE, &key, &row).unwrap();
    transaction.delete(ycsb::TABLE, &8_u32.to_be_bytes()).unwrap();
    transaction.commit().unwrap();
    let found = ycsb::check(&engine, &YCSB, 0).unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("row 7, field 2"), "{found:?}");
}

#[test]
fn ycsb_chooses_rows_as_asked() {
    fn inputs(workload: &Ycsb) -> Vec<[u32; 10]> {
        let engine = Reference::new(&workload.tables(), workload.partitions());
        let mut worker = workload.worker(&Seat::of(&engine.as_host(1, 3), 0, 1));
        (0..5000).map(|_| workload.next(&mut worker).rows()).collect()
    }
    let options = YcsbOptions { rows: 3000, cross_percent: 30, ..YcsbOptions::new(3) };
    let clean = inputs(&Ycsb::new(options, 1));
    let published = inputs(&Ycsb::as_published(options, 1));
    for (rows, most_common_is_first) in [(&clean, false), (&published, true)] {
        let mut counts = BTreeMap::new();
        let mut cross = 0;
        for rows in rows {
            let mut distinct = rows.to_vec();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), 10);
            let partitions = rows.map(|row| row / 3000);
            assert!(partitions[..5].iter().all(|partition| *partition == 1), "home comes first");
            assert!(partitions[5..].iter().all(|partition| *partition == partitions[5]));
            cross += i32::from(partitions[5] != 1);
            rows[1..5].iter().for_each(|row| *counts.entry(row % 3000).or_insert(0) += 1);
        }
        assert!((1400..1600).contains(&cross), "{cross} of 5000 in two partitions");
        let most_common = counts.iter().max_by_key(|(_, count)| **count).unwrap();
        assert_eq!(*most_common.0 == 0, most_common_is_first, "{most_common:?}");
    }
    let first = |rows: &Vec<[u32; 10]>| rows.iter().map(|rows| rows[0] % 3000).max().unwrap();
    assert_eq!(first(&published), 149, "the first key is among the 150 hottest");
    assert!(first(&clean) > 1000);
}

#[test]
fn smallbank_keeps_its_money() {
    let options = SmallBankOptions {
        accounts: 50,
        hot_accounts: 5,
        cross_percent: 50,
        ..SmallBankOptions::new(3)
    };
    let workload = SmallBank::new(options, 9);
    let engine = loaded(&workload);
    assert_eq!(smallbank::check(&engine, &workload, 0).unwrap(), [""; 0]);
    let stats = run(&workload, &engine, 3000);
    assert_eq!(smallbank::check(&engine, &workload, stats.effect).unwrap(), [""; 0]);
    assert_ne!(stats.effect, 0);
    assert!(stats.kinds.iter().all(|kind| kind.commits > 100), "{:?}", stats.total());
    let rollbacks = |name| stats.kinds.iter().find(|kind| kind.name == name).unwrap().rollbacks;
    assert!(rollbacks("send-payment") > 0 && rollbacks("transact-savings") > 0);
    assert_eq!(rollbacks("amalgamate"), 0);

    let mut transaction = engine.begin(0);
    let mut row = smallbank::Balance::zeroed();
    row.set_cents(-1);
    transaction.update(smallbank::SAVINGS, &[0; 4], row.bytes()).unwrap();
    transaction.commit().unwrap();
    assert_eq!(smallbank::check(&engine, &workload, stats.effect).unwrap().len(), 2);
}

#[test]
fn readers_of_a_bank_see_all_its_money() {
    let options = BankOptions { partitions: 3, slots: 8, audits_percent: 40 };
    let workload = Bank::new(options, 2);
    let engine = loaded(&workload);
    let stats = run(&workload, &engine, 3000);
    assert_eq!(bank::check(&engine, &workload, stats.effect).unwrap(), [""; 0]);
    assert!(stats.kinds.iter().all(|kind| kind.commits > 500));
    assert_eq!(bank::check(&engine, &workload, 1).unwrap().len(), 1);
}

#[test]
fn tpcc_by_threads_keeps_its_conditions() {
    let scale = Scale::small(2);
    let workload = Tpcc::new(scale, RemoteRates::SPECIFICATION, 1);
    let engine = loaded(&workload);
    let stats = run(&workload, &engine, 500);
    assert_eq!(stats.total().commits + stats.total().rollbacks, 1000);
    assert_eq!(conditions::check(&engine, &scale, When::Always).unwrap(), []);
}

/// One row, so that all transactions meet.
fn contended() -> SmallBank {
    let options = SmallBankOptions { accounts: 2, hot_accounts: 1, ..SmallBankOptions::new(1) };
    SmallBank::new(options, 1)
}

#[test]
fn conflicts_are_tried_again_with_longer_waits_until_given_up() {
    let workload = contended();
    let engine = loaded(&workload).without_waiting();
    let mut other = engine.begin(1);
    other.get(TableId(0), &[0; 4]).unwrap();
    let options = DriverOptions {
        most_attempts: 20,
        back_off: BackOff { first_ns: 1000, most_ns: 16_000 },
        ..DriverOptions::new(Until::Transactions(2))
    };
    let driver = Driver::new(&workload, &engine, || 0, options);
    let mut worker = driver.worker(&Seat::of(&engine, 0, 1));
    for attempt in 1..20 {
        let step = driver.step(&mut worker).unwrap();
        let Step::Conflict { wait_ns } = step else { panic!("{step:?}") };
        assert!(wait_ns <= 1000 << (attempt - 1).min(4), "attempt {attempt} waits {wait_ns} ns");
    }
    assert_eq!(driver.step(&mut worker).unwrap(), Step::GivenUp);
    assert!(matches!(driver.step(&mut worker).unwrap(), Step::Conflict { .. }));
    other.abort();
    assert!(matches!(driver.step(&mut worker).unwrap(), Step::Committed(_) | Step::RolledBack));
    assert_eq!(driver.step(&mut worker).unwrap(), Step::Ended);
    let total = worker.stats().total();
    assert_eq!((total.given_up, total.aborts.lock, total.retries), (1, 21, 20));
    assert_eq!(total.aborts.total(), 21);
    assert_eq!(smallbank::check(&engine, &workload, worker.stats().effect).unwrap(), [""; 0]);
}

#[test]
fn threads_that_do_not_wait_lose_no_transaction() {
    let workload = contended();
    let engine = loaded(&workload).without_waiting();
    let stats = run(&workload, &engine, 2000);
    let total = stats.total();
    assert_eq!(total.commits + total.rollbacks + total.given_up, 4000);
    assert_eq!(total.retries, total.aborts.total() - total.given_up);
    assert_eq!(smallbank::check(&engine, &workload, stats.effect).unwrap(), [""; 0]);
}

#[test]
fn the_clock_ends_a_run_and_measures_it() {
    let workload = contended();
    let engine = loaded(&workload);
    let now = Cell::new(0);
    let clock = || {
        now.set(now.get() + 10_000_000);
        now.get()
    };
    let driver =
        Driver::new(&workload, &engine, clock, DriverOptions::new(Until::Time(2_000_000_000)));
    let mut worker = driver.worker(&Seat::of(&engine, 0, 1));
    let mut steps = 0;
    while driver.step(&mut worker).unwrap() != Step::Ended {
        steps += 1;
        if steps == 50 {
            worker.reset_stats(0);
        }
        assert!(steps < 1000);
    }
    let total = worker.stats().total();
    // A step looks at the clock when it begins and when it has committed.
    assert!((40..=60).contains(&total.commits), "{}", total.commits);
    // It once ended at 2 us, since a histogram that grows does not when values are to saturate.
    assert!(total.latency.max().abs_diff(10_000_000) < 10_000);
    assert!(total.durable_latency.max().abs_diff(20_000_000) < 20_000);
    assert_eq!(total.durable, total.commits);
}
