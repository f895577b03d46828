//! All hosts of a database in one process, for tests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tombolo_database::Engine;

use crate::{Driver, DriverOptions, Seat, Stats, Until, Workload};

/// How often each host does its background work.
const TICK: Duration = Duration::from_micros(100);

/// Workers of each host that [`run`] uses.
pub const WORKERS: u32 = 2;

/// Has `hosts` hosts come at once, each by `open`. They are in the order of their homes.
///
/// # Panics
/// If one panics.
pub fn open_all<E: Engine + Send>(hosts: u8, open: impl Fn() -> E + Sync) -> Vec<E> {
    let mut opened: Vec<E> = thread::scope(|scope| {
        let opening: Vec<_> = (0..hosts).map(|_| scope.spawn(&open)).collect();
        opening.into_iter().map(|host| host.join().expect("a host opens")).collect()
    });
    opened.sort_by_key(|host| host.home().0.0);
    opened
}

/// Runs `work` while all hosts do their background work.
///
/// # Panics
/// If `work` panics, or a host cannot go on.
pub fn while_ticking<E: Engine + Sync, T>(hosts: &[E], work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for host in hosts {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    host.tick().expect("all hosts live");
                    thread::sleep(TICK);
                }
            });
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs `transactions` of each of two workers of each host: what each worker came to.
///
/// # Panics
/// If a worker fails.
pub fn run<W: Workload, E: Engine + Sync>(
    hosts: &[E],
    workload: &W,
    transactions: u64,
) -> Vec<Stats> {
    let started = Instant::now();
    let clock = || started.elapsed().as_nanos() as u64;
    thread::scope(|scope| {
        let workers = hosts.iter().flat_map(|host| (0..WORKERS).map(move |worker| (host, worker)));
        let run = |(host, number)| {
            scope.spawn(move || {
                let options = DriverOptions {
                    durable: false,
                    ..DriverOptions::new(Until::Transactions(transactions))
                };
                let driver = Driver::new(workload, host, clock, options);
                let mut worker = driver.worker(&Seat::of(host, number, WORKERS));
                let wait = |ns| thread::sleep(Duration::from_nanos(ns));
                driver.run(&mut worker, wait).expect("transactions end");
                worker.stats().clone()
            })
        };
        let running: Vec<_> = workers.map(run).collect();
        running.into_iter().map(|worker| worker.join().expect("a worker ends")).collect()
    })
}
