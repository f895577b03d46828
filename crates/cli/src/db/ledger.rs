//! TPC-C with a ledger: each transaction also writes its number into two partitions.
//!
//! The rows of a number after recovery say whether the transaction is there, and whether it
//! is whole. They also say what the transaction has found in two registers, and that it has left
//! its number in the first one. So the rows of all numbers are a history, which must be
//! serializable.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_database::{Engine, Partitioning, TableId, TableSpec, Transaction, TxError};
use tombolo_oltp::tpcc::rows::District;
use tombolo_oltp::tpcc::{Input, RemoteRates, Scale, Tpcc, TpccWorker, schema};
use tombolo_oltp::{Outcome, Seat, Workload};
use tombolo_verify::serializability::{Condition, check};
use tombolo_verify::transactions::{
    self as verify, History, Operation, Outcome as TransactionOutcome,
};

/// The table of numbers.
pub(crate) const LEDGER: TableId = TableId(11);

/// The table of registers.
const REGISTERS: TableId = TableId(12);

/// Key: the partition (4 bytes), and the number (8). Row: the kind of transaction, and for each of
/// two registers its partition (4), its place there (4), and the number that was found (8).
const KEY_BYTES: usize = 12;
const ROW_BYTES: usize = 1 + 2 * FOUND_BYTES;
const FOUND_BYTES: usize = 16;

/// Registers of each partition.
const REGISTERS_EACH: u32 = 8;

/// Edges and accesses that the check of a history may visit.
const BUDGET: u64 = 1 << 32;

/// A register: its partition, and its place there.
type Register = (u32, u32);

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
    registers: [Register; 2],
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

fn register_key((partition, place): Register) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&partition.to_be_bytes());
    key[4..].copy_from_slice(&place.to_be_bytes());
    key
}

/// Reads two registers, and leaves a number in the first: what was found, as a ledger's row has it.
fn use_registers<T: Transaction>(
    transaction: &mut T,
    input: &Numbered,
    row: &mut Vec<u8>,
) -> Result<(), TxError> {
    for register in input.registers {
        let found = transaction.get(REGISTERS, &register_key(register))?;
        row.extend(register.0.to_le_bytes());
        row.extend(register.1.to_le_bytes());
        row.extend(found.unwrap_or(&[0; 8]));
    }
    let [first, _] = input.registers;
    transaction.update(REGISTERS, &register_key(first), &input.number.to_le_bytes())?;
    Ok(())
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
            row_bytes: ROW_BYTES as u32,
            partitioning: Partitioning::Leading { per_partition: 1 },
        });
        tables.push(TableSpec {
            key_bytes: 8,
            row_bytes: 8,
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
        self.tpcc.load_partition(engine, partition)?;
        let keys = (0..REGISTERS_EACH).map(|place| register_key((partition, place)));
        keys.into_iter().try_for_each(|key| engine.load(REGISTERS, &key, &[0; 8]))
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
        let places = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = |bits: u32| (places >> bits) as u32 % REGISTERS_EACH;
        let registers = [(first, place(32)), (second, place(48))];
        Numbered { input, number, partitions: [first, second], registers }
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
            let mut row = vec![self.kind(input) as u8];
            use_registers(transaction, input, &mut row)?;
            for partition in input.partitions {
                transaction.insert(LEDGER, &key(partition, input.number), &row)?;
            }
        }
        Ok(outcome)
    }
}

/// The transactions that a recovered database's ledger records.
#[derive(Default)]
pub(crate) struct Ledger {
    /// For each number its kind, and how many rows have it.
    found: HashMap<u64, (u8, u32)>,
    orders: u64,
    payments: u64,
    /// For each number, the registers that its transaction has read, with their values.
    reads: HashMap<u64, Vec<(Register, u64)>>,
}

/// A word of a ledger's row.
fn word<const N: usize>(row: &[u8], at: usize) -> [u8; N] {
    row.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// The registers that a transaction has read, with their values, as a ledger's row records them.
fn reads_in(row: &[u8]) -> Vec<(Register, u64)> {
    let register = |at: usize| {
        let (partition, place) = (word(row, at), word(row, at + 4));
        let register = (u32::from_le_bytes(partition), u32::from_le_bytes(place));
        (register, u64::from_le_bytes(word(row, at + 8)))
    };
    [1, 1 + FOUND_BYTES].map(register).to_vec()
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
                self.reads.entry(number).or_insert_with(|| reads_in(row));
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

    /// The transactions' reads and writes of registers. A session is a worker in one life of its
    /// host, and numbers count its transactions.
    fn history(&self) -> History<Register, u64> {
        let mut sessions: HashMap<u64, u32> = HashMap::new();
        let transaction = |(&number, reads): (&u64, &Vec<(Register, u64)>)| {
            let next = sessions.len() as u32;
            let session = *sessions.entry(number >> SEQUENCE_BITS).or_insert(next);
            let at = number & ((1 << SEQUENCE_BITS) - 1);
            let read = |&(key, value): &(Register, u64)| Operation::Read {
                key,
                value: (value != 0).then_some(value),
            };
            let (key, _) = reads[0];
            let write = Operation::Write { key, value: number };
            let operations = reads.iter().map(read).chain([write]).collect();
            let outcome = TransactionOutcome::Committed { at };
            verify::Transaction { session, begun_at: at, outcome, operations }
        };
        let transactions = self.reads.iter().map(transaction).collect();
        History::new(transactions).expect("each ends when it begins")
    }

    /// Faults of the database, given the numbers of the transactions that were acknowledged as
    /// durable.
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
        let verdict = check(&self.history(), Condition::StrongSession, BUDGET);
        if !verdict.passed() {
            wrong.push(format!("the history of registers: {verdict}"));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A ledger whose rows say what transactions have found in two registers.
    fn ledger(rows: &[(u64, [u64; 2])]) -> Ledger {
        let mut ledger = Ledger::default();
        for &(number, [first, second]) in rows {
            // The first register of each is the one that it leaves its number in.
            let registers = if number % 2 == 0 { [(0, 1), (1, 1)] } else { [(1, 1), (0, 1)] };
            let reads = [(registers[0], first), (registers[1], second)].to_vec();
            ledger.reads.insert(number, reads);
        }
        ledger
    }

    fn passes(rows: &[(u64, [u64; 2])]) -> bool {
        check(&ledger(rows).history(), Condition::StrongSession, BUDGET).passed()
    }

    #[test]
    fn a_history_of_registers_is_judged() {
        let (a, b) = (2, 1 << SEQUENCE_BITS | 1);
        assert!(passes(&[(a, [0, 0]), (b, [0, a])]), "one after the other");
        assert!(!passes(&[(a, [0, 0]), (b, [0, 0])]), "write skew");
        assert!(!passes(&[(a, [0, 0]), (4, [0, 0])]), "a lost update");
        assert!(!passes(&[(a, [0, b])]), "what was read is lost");
    }

    #[test]
    fn a_row_says_what_was_found() {
        let mut row = vec![3];
        for (partition, place, value) in [(7_u32, 5_u32, 11_u64), (8, 0, 0)] {
            row.extend(partition.to_le_bytes());
            row.extend(place.to_le_bytes());
            row.extend(value.to_le_bytes());
        }
        assert_eq!(row.len(), ROW_BYTES);
        assert_eq!(reads_in(&row), [((7, 5), 11), ((8, 0), 0)]);
    }
}
