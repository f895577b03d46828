//! TPC-C with a ledger: each transaction also writes its number into two partitions.
//!
//! The rows of a number after recovery say whether the transaction is there, and whether it
//! is whole.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_database::{Engine, Partitioning, TableId, TableSpec, Transaction, TxError};
use tombolo_oltp::tpcc::rows::District;
use tombolo_oltp::tpcc::{Input, RemoteRates, Scale, Tpcc, TpccWorker, schema};
use tombolo_oltp::{Outcome, Seat, Workload};

/// The table of numbers.
pub(crate) const LEDGER: TableId = TableId(11);

/// Key: the partition (4 bytes), and the number (8). Row: the kind of transaction.
const KEY_BYTES: usize = 12;

/// Bits of a number that count a worker's transactions, and that number the worker, and the host.
const SEQUENCE_BITS: u32 = 28;
const WORKER_BITS: u32 = 8;
const HOST_BITS: u32 = 8;

/// Workers of a host at most.
const MOST_WORKERS: usize = 64;

/// TPC-C, each of whose transactions has a number.
pub(crate) struct Ledgered {
    tpcc: Tpcc,
    life: u64,
    /// The number of each worker's transaction.
    current: Vec<AtomicU64>,
}

/// A worker of [`Ledgered`].
pub(crate) struct LedgerWorker {
    tpcc: TpccWorker,
    worker: usize,
    next: u64,
    partitions: Vec<u32>,
}

/// A transaction and its number.
pub(crate) struct Numbered {
    input: Input,
    number: u64,
    partitions: [u32; 2],
}

impl Ledgered {
    pub(crate) fn new(warehouses: u32, life: u32, seed: u64) -> Self {
        let rates = RemoteRates::of_transactions(30, 30);
        // Each life has transactions of its own, on the rows of the first.
        let tpcc = Tpcc::new(Scale::small(warehouses), rates, seed);
        let current = (0..MOST_WORKERS).map(|_| AtomicU64::new(0)).collect();
        Self { tpcc, life: life.into(), current }
    }

    pub(crate) fn tpcc(&self) -> &Tpcc {
        &self.tpcc
    }

    /// The number of the transaction that a worker has begun last.
    pub(crate) fn current(&self, worker: usize) -> u64 {
        self.current[worker].load(Ordering::Relaxed)
    }
}

fn key(partition: u32, number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..4].copy_from_slice(&partition.to_be_bytes());
    key[4..].copy_from_slice(&number.to_be_bytes());
    key
}

impl Workload for Ledgered {
    type Worker = LedgerWorker;
    type Input = Numbered;

    fn name(&self) -> &'static str {
        "TPC-C with a ledger"
    }

    fn kinds(&self) -> &'static [&'static str] {
        self.tpcc.kinds()
    }

    fn tables(&self) -> Vec<TableSpec> {
        let mut tables = self.tpcc.tables();
        assert_eq!(tables.len(), usize::from(LEDGER.0), "the ledger comes last");
        tables.push(TableSpec {
            key_bytes: KEY_BYTES as u16,
            row_bytes: 1,
            partitioning: Partitioning::Leading { per_partition: 1 },
        });
        tables
    }

    fn partitions(&self) -> u32 {
        self.tpcc.partitions()
    }

    fn load_replicated<E: Engine>(&self, engine: &E) -> Result<(), TxError> {
        self.tpcc.load_replicated(engine)
    }

    fn load_partition<E: Engine>(&self, engine: &E, partition: u32) -> Result<(), TxError> {
        self.tpcc.load_partition(engine, partition)
    }

    fn worker(&self, seat: &Seat) -> LedgerWorker {
        let host = u64::from(seat.host) << (WORKER_BITS + SEQUENCE_BITS);
        let life = self.life << (HOST_BITS + WORKER_BITS + SEQUENCE_BITS);
        let mut tpcc = self.tpcc.worker(seat);
        // Other choices than in the lives before.
        for _ in 0..self.life % 1000 {
            self.tpcc.next(&mut tpcc);
        }
        LedgerWorker {
            tpcc,
            worker: seat.worker as usize,
            next: life | host | u64::from(seat.worker) << SEQUENCE_BITS,
            partitions: seat.own_partitions(),
        }
    }

    fn next(&self, worker: &mut LedgerWorker) -> Numbered {
        let number = worker.next;
        worker.next += 1;
        self.current[worker.worker].store(number, Ordering::Relaxed);
        let first = worker.partitions[number as usize % worker.partitions.len()];
        let second = (first + 1) % self.partitions();
        let input = self.tpcc.next(&mut worker.tpcc);
        Numbered { input, number, partitions: [first, second] }
    }

    fn kind(&self, input: &Numbered) -> usize {
        self.tpcc.kind(&input.input)
    }

    fn run<T: Transaction>(
        &self,
        worker: &mut LedgerWorker,
        input: &Numbered,
        transaction: &mut T,
    ) -> Result<Outcome, TxError> {
        let outcome = self.tpcc.run(&mut worker.tpcc, &input.input, transaction)?;
        if outcome != Outcome::RollBack {
            let kind = self.kind(input) as u8;
            for partition in input.partitions {
                transaction.insert(LEDGER, &key(partition, input.number), &[kind])?;
            }
        }
        Ok(outcome)
    }
}

/// What a recovered database's ledger says.
#[derive(Default)]
pub(crate) struct Ledger {
    /// For each number its kind, and how many rows have it.
    found: HashMap<u64, (u8, u32)>,
    orders: u64,
    payments: u64,
}

impl Ledger {
    /// Counts a row.
    pub(crate) fn row(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        match table {
            LEDGER => {
                let number = key[4..].try_into().map_or(0, u64::from_be_bytes);
                let (kind, count) = self.found.entry(number).or_default();
                *kind = row.first().copied().unwrap_or(u8::MAX);
                *count += 1;
            }
            schema::DISTRICT => self.orders += u64::from(District::view(row)?.next_order()),
            schema::HISTORY => self.payments += 1,
            _ => {}
        }
        Ok(())
    }

    /// How many transactions there are.
    pub(crate) fn transactions(&self) -> u64 {
        self.found.len() as u64
    }

    /// What is wrong, given the numbers of the transactions that were acknowledged as durable.
    pub(crate) fn check<'a>(
        &self,
        workload: &Ledgered,
        acknowledged: impl IntoIterator<Item = &'a u64>,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        for number in acknowledged {
            if !self.found.contains_key(number) {
                wrong.push(format!("transaction {number:#x} was durable, and is lost"));
            }
        }
        for (number, (_, rows)) in &self.found {
            if *rows != 2 {
                wrong.push(format!("transaction {number:#x} has {rows} rows of 2 in the ledger"));
            }
        }
        let scale = workload.tpcc().scale();
        let districts = u64::from(scale.warehouses) * u64::from(scale.districts);
        let customers = districts * u64::from(scale.customers);
        let of_kind = |name: &str| {
            let kind = workload.kinds().iter().position(|kind| *kind == name);
            self.found.values().filter(|(found, _)| Some(usize::from(*found)) == kind).count()
                as u64
        };
        for (name, before, now) in [
            ("new-order", districts * u64::from(scale.customers + 1), self.orders),
            ("payment", customers, self.payments),
        ] {
            let (ledger, rows) = (of_kind(name), now.saturating_sub(before));
            if ledger != rows {
                wrong.push(format!("the ledger has {ledger} of {name}, and the tables {rows}"));
            }
        }
        wrong
    }
}
