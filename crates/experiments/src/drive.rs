//! Putting a YCSB workload on a host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use tombolo_sharing::Error;
use tombolo_workloads::{
    FieldLengths, Inserts, Op, Operations, ValueLengths, Workload, check_value, fill_value,
};

/// Every so many operations, one is timed, and the clock is looked at.
const TIMED: u64 = 4;
const CLOCK: u64 = 64;

/// The longest latency that is told from longer ones, in nanoseconds.
const MAX_LATENCY_NS: u64 = 60_000_000_000;

/// The system that is driven: objects, or the key-value store.
pub trait Target {
    /// The time that has passed for who does all this.
    fn uptime(&self) -> Duration;

    /// Reads a value into a buffer; whether there is one.
    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// A key is wanted soon.
    fn prefetch(&self, key: &[u8]) {
        let _ = key;
    }

    /// Creates a value, or has it where it can be used.
    fn create(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, value)
    }

    /// Creates or replaces a value.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Replaces part of a value, if it can; else `false`.
    fn put_part(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<bool>;

    /// Whether an error says that there is no room left.
    fn is_full(&self, error: &anyhow::Error) -> bool {
        let error = error.downcast_ref();
        matches!(error, Some(Error::LnrFull { .. } | Error::IndexFull { .. }))
    }
}

/// The preparation of each record before operations begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// It comes to be.
    Create,
    /// It is written, though it is there.
    Write,
    /// It is written as soon as it is there.
    CreateAndWrite,
}

/// A host's part of a workload.
pub struct Driver<'a, T> {
    /// The system that is loaded.
    pub target: &'a T,
    /// The workload of all hosts.
    pub workload: &'a Workload,
    /// Decides the operations, unless the workload has a seed.
    pub seed: u64,
    /// Which host this is.
    pub host: u32,
    /// How many there are.
    pub hosts: u32,
    /// Check every value that is read.
    pub verify: bool,
    /// Values are zeros: only how many bytes they have counts.
    pub blank: bool,
    /// Once the pod is full, go on without inserts.
    pub until_full: bool,
    /// Operations done so far, by all threads of this host.
    pub done: &'a AtomicU64,
    /// Set when the threads are to end.
    pub stopping: &'a AtomicBool,
}

/// The operations that one thread has done.
pub struct Share {
    /// Its operations.
    pub operations: u64,
    latency_ns: Histogram<u64>,
}

impl Default for Share {
    fn default() -> Self {
        Self { operations: 0, latency_ns: histogram() }
    }
}

/// The result of a phase.
pub struct Phase {
    /// Operations of all threads.
    pub operations: u64,
    /// The time that the slowest of them took.
    pub elapsed: Duration,
    /// Latencies in nanoseconds, of one operation in four.
    pub latency_ns: Histogram<u64>,
}

impl<T: Target> Driver<'_, T> {
    pub(crate) fn threads(&self) -> u32 {
        self.workload.thread_count / self.hosts
    }

    /// Creates this host's share of the records.
    ///
    /// # Errors
    /// Those of the target.
    pub fn load(&self) -> Result<Phase>
    where
        T: Sync,
    {
        self.run_threads(|thread| self.load_share(thread, Load::Create))
    }

    /// Loads one thread's share of the records.
    ///
    /// # Errors
    /// Those of the target.
    pub fn load_share(&self, thread: u32, load: Load) -> Result<Share> {
        let mut worker = Worker::new(self, thread);
        let records = self.workload.records_of_thread(thread);
        for number in records.clone() {
            if self.is_stopping() {
                break;
            }
            if number + 1 < records.end {
                self.workload.key(number + 1, &mut worker.key);
                self.target.prefetch(&worker.key);
            }
            worker.timed(|worker| worker.load(number, load))?;
        }
        Ok(worker.finish())
    }

    /// Runs this host's share of the operations, or until time is up.
    ///
    /// # Errors
    /// Those of the target, or if a value is not what was written.
    pub fn run(&self) -> Result<Phase>
    where
        T: Sync,
    {
        let inserts = self.inserts();
        self.run_threads(|thread| {
            let limit = self.workload.operations_of_thread(thread).unwrap_or(u64::MAX);
            let operations = self.operations(thread, &inserts)?;
            self.run_share(thread, operations, limit, &inserts)
        })
    }

    /// The records that this host's threads insert.
    pub fn inserts(&self) -> Arc<Inserts> {
        Arc::new(Inserts::of_host(self.workload, self.host.into(), self.hosts.into()))
    }

    /// The operations of one thread.
    ///
    /// # Errors
    /// If the workload makes no sense.
    pub fn operations(&self, thread: u32, inserts: &Arc<Inserts>) -> Result<Operations> {
        let seed = self.workload.seed.unwrap_or(self.seed);
        Ok(Operations::new(self.workload, seed, thread, Arc::clone(inserts))?)
    }

    /// Runs up to `limit` of one thread's operations, or until time is up.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn run_share(
        &self,
        thread: u32,
        operations: impl Iterator<Item = Op>,
        limit: u64,
        inserts: &Inserts,
    ) -> Result<Share> {
        let mut worker = Worker::new(self, thread);
        let until = self.workload.max_execution_time.map(|limit| self.target.uptime() + limit);
        for operation in operations.take(usize::try_from(limit).unwrap_or(usize::MAX)) {
            let look = worker.count.is_multiple_of(CLOCK);
            if look && (self.is_stopping() || until.is_some_and(|u| self.target.uptime() >= u)) {
                break;
            }
            worker.timed(|worker| worker.perform(operation, inserts))?;
        }
        Ok(worker.finish())
    }

    fn verifies(&self) -> bool {
        self.verify || self.workload.data_integrity
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn run_threads(&self, body: impl Fn(u32) -> Result<Share> + Sync) -> Result<Phase>
    where
        T: Sync,
    {
        let started = Instant::now();
        let first = self.host * self.threads();
        let outcomes = std::thread::scope(|scope| {
            let body = &body;
            let threads: Vec<_> = (first..first + self.threads())
                .map(|thread| scope.spawn(move || body(thread)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no thread panics"))
                .collect::<Vec<_>>()
        });
        let mut phase =
            Phase { operations: 0, elapsed: started.elapsed(), latency_ns: histogram() };
        outcomes.into_iter().try_for_each(|outcome| phase.add(outcome?))?;
        Ok(phase)
    }
}

impl Phase {
    /// Adds what one thread has done.
    ///
    /// # Errors
    /// If latencies are out of bounds, which they are not.
    pub fn add(&mut self, share: Share) -> Result<()> {
        self.operations += share.operations;
        self.latency_ns.add(share.latency_ns).context("latencies are within bounds")
    }
}

/// Latencies in nanoseconds, none yet.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3).expect("these bounds are sound")
}

/// One thread's buffers and counts.
struct Worker<'a, T> {
    driver: &'a Driver<'a, T>,
    key: Vec<u8>,
    read: Vec<u8>,
    written: Vec<u8>,
    lengths: ValueLengths,
    /// Names the values this thread writes.
    version: u64,
    count: u64,
    latency_ns: Histogram<u64>,
    /// There was no room for an insert.
    full: bool,
}

impl<'a, T: Target> Worker<'a, T> {
    fn new(driver: &'a Driver<'a, T>, thread: u32) -> Self {
        Self {
            driver,
            key: Vec::new(),
            read: Vec::new(),
            written: Vec::new(),
            lengths: ValueLengths::new(driver.workload),
            version: u64::from(thread) << 40,
            count: 0,
            latency_ns: histogram(),
            full: false,
        }
    }

    fn timed(&mut self, operation: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.count.is_multiple_of(TIMED) {
            let started = self.driver.target.uptime();
            operation(self)?;
            let took = self.driver.target.uptime() - started;
            self.latency_ns.saturating_record(took.as_nanos() as u64);
        } else {
            operation(self)?;
        }
        self.count += 1;
        if self.count.is_multiple_of(CLOCK) {
            self.driver.done.fetch_add(CLOCK, Ordering::Relaxed);
        }
        Ok(())
    }

    fn finish(self) -> Share {
        self.driver.done.fetch_add(self.count % CLOCK, Ordering::Relaxed);
        Share { operations: self.count, latency_ns: self.latency_ns }
    }

    fn perform(&mut self, operation: Op, inserts: &Inserts) -> Result<()> {
        match operation {
            Op::Read { key } => self.read(key),
            Op::Update { key } => self.update(key),
            Op::Insert { key } => self.insert(key, inserts),
            Op::ReadModifyWrite { key } => {
                self.read(key)?;
                self.update(key)
            }
            Op::Scan { .. } => bail!("objects have no order to scan in"),
        }
    }

    fn read(&mut self, number: u64) -> Result<()> {
        self.driver.workload.key(number, &mut self.key);
        if !self.driver.target.read(&self.key, &mut self.read)? {
            bail!("record {number} is not there: {}", String::from_utf8_lossy(&self.key));
        }
        if self.driver.verifies() {
            check_value(number, &self.read)?;
        }
        Ok(())
    }

    fn insert(&mut self, number: u64, inserts: &Inserts) -> Result<()> {
        if self.full {
            return self.update(number % self.driver.workload.record_count);
        }
        match self.put(number) {
            Err(error) if self.driver.until_full && self.driver.target.is_full(&error) => {
                self.full = true;
            }
            done => {
                done?;
                inserts.acknowledge(number);
            }
        }
        Ok(())
    }

    fn load(&mut self, number: u64, load: Load) -> Result<()> {
        if load != Load::Write {
            self.put_by(number, T::create)?;
        }
        if load == Load::Create { Ok(()) } else { self.put(number) }
    }

    fn put(&mut self, number: u64) -> Result<()> {
        self.put_by(number, T::put)
    }

    fn put_by(
        &mut self,
        number: u64,
        put: impl FnOnce(&T, &[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.driver.workload.key(number, &mut self.key);
        self.version += 1;
        self.written.resize(self.lengths.of(number, self.version) as usize, 0);
        self.fill(number);
        put(self.driver.target, &self.key, &self.written)
    }

    fn fill(&mut self, number: u64) {
        if !self.driver.blank {
            fill_value(number, self.version, &mut self.written);
        }
    }

    /// Replaces one field, or all of them if the workload says so, values are verified, or fields
    /// have no fixed place.
    fn update(&mut self, number: u64) -> Result<()> {
        let workload = self.driver.workload;
        let in_place = workload.field_lengths == FieldLengths::Constant;
        if workload.write_all_fields || self.driver.verifies() || !in_place {
            return self.put(number);
        }
        workload.key(number, &mut self.key);
        self.version += 1;
        let length = workload.field_length_bytes as usize;
        self.written.resize(length, 0);
        self.fill(number);
        let offset = self.version % workload.field_count * workload.field_length_bytes;
        if self.driver.target.put_part(&self.key, offset, &self.written)? {
            return Ok(());
        }
        self.put(number)
    }
}
