//! SmallBank: six transactions over accounts with savings and a checking account each.
//!
//! As in the benchmark's original, a few accounts get most of the transactions. Here each partition
//! has its hot accounts, and a share of the transactions about two customers crosses partitions.
//! Amounts are in cents, and drawn at random. They are fixed numbers in the original.
//!
//! Invariants, which [`check`] checks while no transaction runs:
//! * All balances together are what they were at loading, and the effects of all commits.
//! * No savings are below zero.

use std::ops::Bound;

use tombolo_database::{Engine, TableId, TableSpec, Transaction, TxError};

use crate::row::row;
use crate::walk::walk;
use crate::workload::{missing, table};
use crate::{Outcome, Random, Seat, Workload};

/// Customers by number.
pub const ACCOUNT: TableId = TableId(0);
/// Balances of savings, by customer.
pub const SAVINGS: TableId = TableId(1);
/// Balances of checking accounts, by customer.
pub const CHECKING: TableId = TableId(2);

row! {
    /// A row of ACCOUNT.
    Account {
        /// The customer's name.
        name, set_name: [u8; 64];
    }
}

row! {
    /// A row of SAVINGS or CHECKING.
    Balance {
        /// The balance, in cents.
        cents, set_cents: i64;
    }
}

/// The size of the bank, and the choice of customers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallBankOptions {
    /// Partitions of the tables.
    pub partitions: u32,
    /// Customers of a partition, at least 2.
    pub accounts: u32,
    /// Customers of a partition that are chosen more often, at least 1.
    pub hot_accounts: u32,
    /// Of 100 choices, those among the hot ones.
    pub hot_percent: u32,
    /// Of 100 transactions about two customers, those whose second one is in another partition.
    pub cross_percent: u32,
}

impl SmallBankOptions {
    /// 100,000 customers a partition, 100 of which get 90 % of the choices.
    pub const fn new(partitions: u32) -> Self {
        Self { partitions, accounts: 100_000, hot_accounts: 100, hot_percent: 90, cross_percent: 0 }
    }
}

/// SmallBank. The effect of a transaction is what it adds to all balances, in cents.
#[derive(Clone, Debug)]
pub struct SmallBank {
    options: SmallBankOptions,
    seed: u64,
}

/// The input of one transaction. Customers are numbered over all partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallBankInput {
    /// Moves all money of one customer to the checking account of another.
    Amalgamate {
        /// The one that has nothing afterwards.
        from: u32,
        /// The one that has it.
        to: u32,
    },
    /// Reads both balances.
    Balance {
        /// The customer.
        customer: u32,
    },
    /// Adds to a checking account.
    DepositChecking {
        /// The customer.
        customer: u32,
        /// How much is added, in cents.
        cents: i64,
    },
    /// Moves money between checking accounts. It is rolled back if there is too little.
    SendPayment {
        /// The one that pays.
        from: u32,
        /// The one that is paid.
        to: u32,
        /// How much is moved, in cents.
        cents: i64,
    },
    /// Adds to savings, or takes from them. It is rolled back if they would be below zero.
    TransactSavings {
        /// The customer.
        customer: u32,
        /// How much is added, in cents.
        cents: i64,
    },
    /// Takes from a checking account, and a penalty if there is too little on both accounts.
    WriteCheck {
        /// The customer.
        customer: u32,
        /// How much is taken, in cents.
        cents: i64,
    },
}

/// The penalty of a check that is not covered, in cents.
const PENALTY: i64 = 100;

/// A worker of [`SmallBank`].
#[derive(Clone, Debug)]
pub struct SmallBankWorker {
    random: Random,
    partitions: Vec<u32>,
}

impl SmallBank {
    /// The workload; `seed` decides on all balances and all choices.
    ///
    /// # Panics
    /// If a partition has fewer than 2 customers, or no hot ones, or more hot ones than customers.
    pub fn new(options: SmallBankOptions, seed: u64) -> Self {
        let SmallBankOptions { accounts, hot_accounts, .. } = options;
        assert!(accounts >= 2, "transactions need two customers");
        assert!((1..=accounts).contains(&hot_accounts), "{hot_accounts} of {accounts} are hot");
        Self { options, seed }
    }

    /// Savings and checking account of a customer when it is loaded: 100.00 to 500.00 each.
    fn loaded(&self, customer: u32) -> [i64; 2] {
        let mut random = Random::new(self.seed, &[0xacc0, customer.into()]);
        [(); 2].map(|()| random.within(10_000, 50_000) as i64)
    }

    /// All balances together when they are loaded, in cents. Takes time in proportion to customers.
    pub fn loaded_total(&self) -> i64 {
        let customers = 0..self.options.partitions * self.options.accounts;
        customers.flat_map(|customer| self.loaded(customer)).sum()
    }

    fn customer(&self, random: &mut Random, partition: u32) -> u32 {
        let SmallBankOptions { accounts, hot_accounts, hot_percent, .. } = self.options;
        let count = if random.percent(hot_percent) { hot_accounts } else { accounts };
        partition * accounts + random.below(count.into()) as u32
    }

    /// Another customer than `first`, perhaps of another partition.
    fn second(&self, random: &mut Random, partition: u32, first: u32) -> u32 {
        let SmallBankOptions { partitions, accounts, cross_percent, .. } = self.options;
        if partitions > 1 && random.percent(cross_percent) {
            let other = random.other_than(partition, partitions);
            return self.customer(random, other);
        }
        match self.customer(random, partition) {
            second if second == first => {
                let start = partition * accounts;
                start + (first - start + 1) % accounts
            }
            second => second,
        }
    }
}

impl Workload for SmallBank {
    type Worker = SmallBankWorker;
    type Input = SmallBankInput;

    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn kinds(&self) -> &'static [&'static str] {
        &[
            "amalgamate",
            "balance",
            "deposit-checking",
            "send-payment",
            "transact-savings",
            "write-check",
        ]
    }

    fn tables(&self) -> Vec<TableSpec> {
        let per_partition = self.options.accounts;
        vec![
            table(4, Account::BYTES, per_partition),
            table(4, Balance::BYTES, per_partition),
            table(4, Balance::BYTES, per_partition),
        ]
    }

    fn partitions(&self) -> u32 {
        self.options.partitions
    }

    fn load_replicated<E: Engine>(&self, _: &E) -> Result<(), TxError> {
        Ok(())
    }

    fn load_partition<E: Engine>(&self, engine: &E, partition: u32) -> Result<(), TxError> {
        let first = partition * self.options.accounts;
        for customer in first..first + self.options.accounts {
            let key = customer.to_be_bytes();
            let mut account = Account::zeroed();
            let mut name = [0; 64];
            let text = format!("customer {customer}");
            name[..text.len()].copy_from_slice(text.as_bytes());
            account.set_name(name);
            engine.load(ACCOUNT, &key, account.bytes())?;
            let mut balance = Balance::zeroed();
            for (table, cents) in [SAVINGS, CHECKING].into_iter().zip(self.loaded(customer)) {
                balance.set_cents(cents);
                engine.load(table, &key, balance.bytes())?;
            }
        }
        Ok(())
    }

    fn worker(&self, seat: &Seat) -> SmallBankWorker {
        SmallBankWorker { random: seat.random(self.seed), partitions: seat.own_partitions() }
    }

    fn next(&self, worker: &mut SmallBankWorker) -> SmallBankInput {
        let random = &mut worker.random;
        let partition = *random.choose(&worker.partitions);
        let customer = self.customer(random, partition);
        match random.below(100) {
            ..15 => {
                let to = self.second(random, partition, customer);
                SmallBankInput::Amalgamate { from: customer, to }
            }
            15..30 => SmallBankInput::Balance { customer },
            30..45 => {
                let cents = random.within(1, 10_000) as i64;
                SmallBankInput::DepositChecking { customer, cents }
            }
            45..70 => {
                let to = self.second(random, partition, customer);
                let cents = random.within(1, 10_000) as i64;
                SmallBankInput::SendPayment { from: customer, to, cents }
            }
            70..85 => {
                let cents = random.within(0, 40_000) as i64 - 20_000;
                SmallBankInput::TransactSavings { customer, cents }
            }
            _ => {
                let cents = random.within(1, 20_000) as i64;
                SmallBankInput::WriteCheck { customer, cents }
            }
        }
    }

    fn kind(&self, input: &SmallBankInput) -> usize {
        match input {
            SmallBankInput::Amalgamate { .. } => 0,
            SmallBankInput::Balance { .. } => 1,
            SmallBankInput::DepositChecking { .. } => 2,
            SmallBankInput::SendPayment { .. } => 3,
            SmallBankInput::TransactSavings { .. } => 4,
            SmallBankInput::WriteCheck { .. } => 5,
        }
    }

    fn run<T: Transaction>(
        &self,
        _: &mut SmallBankWorker,
        input: &SmallBankInput,
        transaction: &mut T,
    ) -> Result<Outcome, TxError> {
        match *input {
            SmallBankInput::Amalgamate { from, to } => amalgamate(transaction, from, to),
            SmallBankInput::Balance { customer } => balance(transaction, customer),
            SmallBankInput::DepositChecking { customer, cents } => {
                find(transaction, customer)?;
                add(transaction, CHECKING, customer, cents)?;
                Ok(Outcome::Commit { effect: cents })
            }
            SmallBankInput::SendPayment { from, to, cents } => {
                send_payment(transaction, from, to, cents)
            }
            SmallBankInput::TransactSavings { customer, cents } => {
                find(transaction, customer)?;
                match add(transaction, SAVINGS, customer, cents)? {
                    ..0 => Ok(Outcome::RollBack),
                    _ => Ok(Outcome::Commit { effect: cents }),
                }
            }
            SmallBankInput::WriteCheck { customer, cents } => {
                write_check(transaction, customer, cents)
            }
        }
    }
}

fn amalgamate<T: Transaction>(transaction: &mut T, from: u32, to: u32) -> Result<Outcome, TxError> {
    find(transaction, from)?;
    find(transaction, to)?;
    let mut all = 0;
    for table in [SAVINGS, CHECKING] {
        all += take_all(transaction, table, from)?;
    }
    add(transaction, CHECKING, to, all)?;
    Ok(Outcome::COMMIT)
}

fn balance<T: Transaction>(transaction: &mut T, customer: u32) -> Result<Outcome, TxError> {
    find(transaction, customer)?;
    std::hint::black_box(both(transaction, customer)?);
    Ok(Outcome::COMMIT)
}

fn send_payment<T: Transaction>(
    transaction: &mut T,
    from: u32,
    to: u32,
    cents: i64,
) -> Result<Outcome, TxError> {
    find(transaction, from)?;
    find(transaction, to)?;
    if add(transaction, CHECKING, from, -cents)? < 0 {
        return Ok(Outcome::RollBack);
    }
    add(transaction, CHECKING, to, cents)?;
    Ok(Outcome::COMMIT)
}

fn write_check<T: Transaction>(
    transaction: &mut T,
    customer: u32,
    cents: i64,
) -> Result<Outcome, TxError> {
    find(transaction, customer)?;
    let covered = both(transaction, customer)? >= cents;
    let taken = if covered { cents } else { cents + PENALTY };
    add(transaction, CHECKING, customer, -taken)?;
    Ok(Outcome::Commit { effect: -taken })
}

/// Reads the customer's row, which has to be there.
fn find<T: Transaction>(transaction: &mut T, customer: u32) -> Result<(), TxError> {
    let key = customer.to_be_bytes();
    match transaction.get(ACCOUNT, &key)? {
        Some(row) => Account::view(row).map(drop),
        None => Err(missing(ACCOUNT, &key)),
    }
}

fn both<T: Transaction>(transaction: &mut T, customer: u32) -> Result<i64, TxError> {
    let key = customer.to_be_bytes();
    let mut of = |table| match transaction.get(table, &key)? {
        Some(row) => Ok(Balance::view(row)?.cents()),
        None => Err(missing(table, &key)),
    };
    Ok(of(SAVINGS)? + of(CHECKING)?)
}

/// Returns the new balance.
fn add<T: Transaction>(
    transaction: &mut T,
    table: TableId,
    customer: u32,
    cents: i64,
) -> Result<i64, TxError> {
    change(transaction, table, customer, |balance| balance + cents).map(|(_, new)| new)
}

/// Returns what there was.
fn take_all<T: Transaction>(
    transaction: &mut T,
    table: TableId,
    customer: u32,
) -> Result<i64, TxError> {
    change(transaction, table, customer, |_| 0).map(|(old, _)| old)
}

fn change<T: Transaction>(
    transaction: &mut T,
    table: TableId,
    customer: u32,
    new: impl FnOnce(i64) -> i64,
) -> Result<(i64, i64), TxError> {
    let key = customer.to_be_bytes();
    let row = transaction.get_for_update(table, &key)?.ok_or_else(|| missing(table, &key))?;
    let mut balance = Balance::copy(row)?;
    let old = balance.cents();
    balance.set_cents(new(old));
    transaction.update(table, &key, balance.bytes())?;
    Ok((old, balance.cents()))
}

/// Checks the invariants, given the effects of all transactions that have committed. No transaction
/// may run meanwhile. An empty list says that all holds.
///
/// # Errors
/// Those of the engine, after 1000 conflicts in a row too; that a row has not its layout.
pub fn check<E: Engine>(
    engine: &E,
    workload: &SmallBank,
    effect: i64,
) -> Result<Vec<String>, TxError> {
    let (mut total, mut found) = (0, Vec::new());
    for table in [SAVINGS, CHECKING] {
        walk(engine, table, (Bound::Unbounded, Bound::Unbounded), &mut |key, row| {
            let cents = Balance::view(row)?.cents();
            total += cents;
            if table == SAVINGS && cents < 0 {
                found.push(format!("savings with key {key:02x?} are {cents} cents"));
            }
            Ok(())
        })?;
    }
    let expected = workload.loaded_total() + effect;
    if total != expected {
        found.push(format!("all balances together are {total} cents instead of {expected}"));
    }
    Ok(found)
}
