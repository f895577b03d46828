//! How a host runs transactions: for a benchmark, or until it dies.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tombolo_database::Home;
use tombolo_database::hosts::{CheckpointError, PodEngine};
use tombolo_oltp::{BackOff, Driver, DriverOptions, Seat, Step, Until, Worker};

use super::conditions::Checked;
use super::host::{Event, Member};
use super::ledger::Ledgered;
use super::ran::{Ran, Used};
use super::setting::Built;
use crate::children::tell;

const PROGRESS: Duration = Duration::from_millis(200);

/// How often a thread looks whether it is time for something.
const SHORT_SLEEP: Duration = Duration::from_millis(5);

/// Waits below this are not worth a sleep.
const SHORT_WAIT_NS: u64 = 20_000;

/// How often a soak's host tells which transactions are durable.
const ACKNOWLEDGE: Duration = Duration::from_millis(5);

/// How long a host that is left waits for what it has committed to become durable.
const LAST_WAIT: Duration = Duration::from_secs(5);

impl<W: Checked, E: PodEngine> Member<'_, W, E> {
    fn options(&self, until: Until) -> DriverOptions {
        let back_off = match self.orders.published_waits {
            true => BackOff::AS_PUBLISHED,
            false => BackOff::default(),
        };
        DriverOptions {
            durable: self.store.is_some(),
            back_off,
            seed: self.orders.seed,
            ..DriverOptions::new(until)
        }
    }

    pub(super) fn run(
        &self,
        warm_up_ns: u64,
        time_ns: u64,
        transactions: Option<u64>,
    ) -> Result<Ran> {
        self.done.store(0, Ordering::Relaxed);
        let started = Instant::now();
        let clock = || started.elapsed().as_nanos() as u64;
        let end = if transactions.is_some() { u64::MAX } else { warm_up_ns + time_ns };
        let workers = u32::from(self.orders.workers);
        let running = AtomicU64::new(u64::from(workers));
        let run = |number: u32| -> Result<(tombolo_oltp::Stats, [u64; 3])> {
            let driver =
                Driver::new(self.workload, self.engine, clock, self.options(Until::Time(end)));
            let mut worker = driver.worker(&Seat::of(self.engine, number, workers));
            while clock() < warm_up_ns {
                self.step(&driver, &mut worker)?;
            }
            let begun = clock();
            worker.reset_stats(begun);
            let mut ended = 0;
            while ended < transactions.unwrap_or(u64::MAX) && clock() < end {
                ended += u64::from(self.step(&driver, &mut worker)?);
            }
            let measured = clock();
            // The last transactions become durable.
            let last = Driver::new(self.workload, self.engine, clock, self.options(Until::Time(0)));
            last.run(&mut worker, wait)?;
            Ok((worker.stats().clone(), [begun, measured, clock()]))
        };
        let (before, results, checkpoints) = thread::scope(|scope| -> Result<_> {
            let threads: Vec<_> = (0..workers)
                .map(|number| {
                    let (run, running) = (&run, &running);
                    scope.spawn(move || {
                        let ran = run(number);
                        if let Err(error) = &ran {
                            self.fail(format!("{error:#}"));
                        }
                        running.fetch_sub(1, Ordering::Relaxed);
                        ran
                    })
                })
                .collect();
            let goes_on = || running.load(Ordering::Relaxed) > 0;
            let checkpointing = scope.spawn(move || {
                let written = self.checkpoints(goes_on, || Ok(()));
                if let Err(error) = &written {
                    self.fail(format!("{error:#}"));
                }
                written
            });
            thread::sleep(Duration::from_nanos(warm_up_ns));
            let before = self.used();
            let mut told = Instant::now();
            while running.load(Ordering::Relaxed) > 0 {
                thread::sleep(Duration::from_millis(2));
                if told.elapsed() > PROGRESS {
                    told = Instant::now();
                    tell(&Event::Progress { done: self.done.load(Ordering::Relaxed) })?;
                }
            }
            let results: Result<Vec<_>> = threads
                .into_iter()
                .map(|thread| thread.join().expect("no worker panics"))
                .collect();
            let checkpoints = checkpointing.join().expect("checkpoints do not panic")?;
            Ok((before, results?, checkpoints))
        })?;
        Ok(Ran {
            checkpoints,
            scr_by_table: self.engine.scr_by_table(),
            ..Ran::new(&results, before, self.used())
        })
    }

    fn used(&self) -> Used {
        Used { engine: self.engine.engine_metrics(), log: self.attendant.log_metrics() }
    }

    /// Has checkpoints written, if this is the first host, as long as `goes_on` says: how many.
    fn checkpoints(
        &self,
        goes_on: impl Fn() -> bool,
        mut written: impl FnMut() -> Result<()>,
    ) -> Result<u64> {
        let is_first = self.engine.home().0 == Home(0);
        let (Some(every), Some(store), true) = (self.orders.checkpoint_ms, self.store, is_first)
        else {
            return Ok(0);
        };
        let catalog = self.orders.setting.encode()?;
        let (mut count, mut since) = (0, Instant::now());
        while goes_on() && !self.has_ended() {
            thread::sleep(SHORT_SLEEP);
            if since.elapsed() < Duration::from_millis(every) {
                continue;
            }
            match self.attendant.checkpoint(store.directory(), &catalog) {
                Ok(_) => {
                    count += 1;
                    written()?;
                }
                // The attendant says why.
                Err(_) if self.attendant.has_failed() => {}
                Err(CheckpointError::Tx(_) | CheckpointError::Busy) if E::AFTER_DEATH.goes_on() => {
                }
                Err(error) => bail!(error),
            }
            since = Instant::now();
        }
        Ok(count)
    }

    /// One attempt; whether a transaction has ended by it.
    fn step<C: Fn() -> u64>(
        &self,
        driver: &Driver<'_, W, E, C>,
        worker: &mut Worker<W>,
    ) -> Result<bool> {
        if self.has_ended() {
            bail!("it ends in the middle of a run");
        }
        match driver.step(worker)? {
            Step::Committed(_) | Step::RolledBack | Step::GivenUp => {
                self.done.fetch_add(1, Ordering::Relaxed);
                return Ok(true);
            }
            Step::Conflict { wait_ns } | Step::Waiting { wait_ns } => wait(wait_ns),
            Step::Ended => {}
        }
        Ok(false)
    }

    /// Runs transactions until this host is told to leave, or a host dies and all stop.
    pub(super) fn soak(&self) -> Result<()> {
        let Built::Ledger(workload) = &self.orders.workload.build() else {
            bail!("only a database with a ledger can be soaked");
        };
        let workers = u32::from(self.orders.workers);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..workers)
                .map(|number| scope.spawn(move || self.soak_worker(workload, number, workers)))
                .collect();
            let checkpointed = self.checkpoints(|| true, || tell(&Event::Checkpointed));
            if let Err(error) = &checkpointed {
                self.fail(format!("{error:#}"));
            }
            threads.into_iter().try_for_each(|thread| thread.join().expect("no worker panics"))
        })
    }

    fn soak_worker(&self, workload: &Ledgered, number: u32, workers: u32) -> Result<()> {
        let started = Instant::now();
        let clock = || started.elapsed().as_nanos() as u64;
        let mut options = self.options(Until::Time(u64::MAX));
        options.durable = false;
        let driver = Driver::new(workload, self.engine, clock, options);
        let mut worker = driver.worker(&Seat::of(self.engine, number, workers));
        let mut waiting: VecDeque<(u64, u64)> = VecDeque::new();
        let mut told = Instant::now();
        while !self.has_ended() {
            match driver.step(&mut worker)? {
                Step::Committed(commit) => {
                    waiting.push_back((commit.epoch, workload.current(number as usize)));
                }
                Step::Conflict { wait_ns } | Step::Waiting { wait_ns } => wait(wait_ns),
                Step::RolledBack | Step::GivenUp | Step::Ended => {}
            }
            if told.elapsed() > ACKNOWLEDGE {
                told = Instant::now();
                self.acknowledge(&mut waiting)?;
            }
        }
        // Another host has died: what it and this one have committed is not lost.
        let since = Instant::now();
        while !waiting.is_empty() && self.attendant.can_log() && since.elapsed() < LAST_WAIT {
            thread::sleep(ACKNOWLEDGE);
            self.acknowledge(&mut waiting)?;
        }
        Ok(())
    }

    /// Tells which of the transactions that wait for their epochs are durable.
    fn acknowledge(&self, waiting: &mut VecDeque<(u64, u64)>) -> Result<()> {
        let durable = self.engine.durable_epoch();
        let mut numbers = Vec::new();
        while let Some((_, number)) = waiting.pop_front_if(|(epoch, _)| *epoch <= durable) {
            numbers.push(number);
        }
        if numbers.is_empty() {
            return Ok(());
        }
        tell(&Event::Durable { numbers })
    }
}

/// Waits for so many nanoseconds. Other threads run meanwhile.
fn wait(wait_ns: u64) {
    if wait_ns < SHORT_WAIT_NS {
        thread::yield_now();
    } else {
        thread::sleep(Duration::from_nanos(wait_ns));
    }
}
