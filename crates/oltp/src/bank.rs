//! Transfers between accounts that come and go. All money together stays the same, and each reader
//! of all accounts checks that it sees so much.
//!
//! A few accounts are in everyone's way. So a transaction that sees half of another one, or that
//! misses a row which comes or goes in the range of its scan, finds too much money or too little.
//! The workload needs no history for that, and finds what [`check`] cannot: wrong reads.
//!
//! The effect of a transaction is 1 if it has seen a wrong sum, and 0 otherwise. Only effects of
//! committed transactions count, since an engine may let transactions that will not commit see
//! anything. So the effects of all workers together must be 0.

use std::ops::{Bound, ControlFlow};

use tombolo_database::{Direction, Engine, Scan, TableId, TableSpec, Transaction, TxError};

use crate::row::row;
use crate::walk::walk;
use crate::workload::table;
use crate::{Outcome, Random, Seat, Workload};

/// The accounts.
pub const ACCOUNTS: TableId = TableId(0);

/// The balance of an account when it is loaded.
const LOADED: i64 = 100;

row! {
    /// A row of an account.
    BankAccount {
        /// How much there is.
        cents, set_cents: i64;
    }
}

/// How many accounts there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankOptions {
    /// Partitions of the table.
    pub partitions: u32,
    /// Accounts that a partition can have, at least 2. Half of them are loaded.
    pub slots: u32,
    /// Of 100 transactions, those that read all accounts.
    pub audits_percent: u32,
}

/// A few accounts, all of which are read again and again.
#[derive(Clone, Debug)]
pub struct Bank {
    options: BankOptions,
    seed: u64,
}

/// How all accounts are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audit {
    /// By a scan from the smallest key.
    Forward,
    /// By a scan from the greatest key.
    Backward,
    /// By a scan that locks the rows as if they were to be changed.
    ForUpdate,
    /// Key by key, those without an account too.
    ByKey,
}

/// The input of one transaction. Accounts are numbered over all partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BankInput {
    /// Moves a cent, if both accounts are there and there is one.
    Transfer {
        /// The account that has less.
        from: u32,
        /// The account that has more.
        to: u32,
    },
    /// Opens an account with half of what another one has, if that is there and the first is not.
    Open {
        /// The account that has half.
        from: u32,
        /// The new account.
        to: u32,
    },
    /// Closes an account and moves what it has, if both are there.
    Close {
        /// The account that is closed.
        from: u32,
        /// The account that has more.
        to: u32,
    },
    /// Reads all accounts.
    Audit(Audit),
}

/// A worker of [`Bank`].
#[derive(Clone, Debug)]
pub struct BankWorker {
    random: Random,
    partitions: Vec<u32>,
}

impl Bank {
    /// The workload; `seed` decides on all choices.
    ///
    /// # Panics
    /// If a partition cannot have 2 accounts.
    pub fn new(options: BankOptions, seed: u64) -> Self {
        assert!(options.slots >= 2, "transfers need two accounts");
        Self { options, seed }
    }

    fn all(&self) -> std::ops::Range<u32> {
        0..self.options.partitions * self.options.slots
    }

    /// Every other account is there at first.
    fn is_loaded(account: u32) -> bool {
        account.is_multiple_of(2)
    }

    fn total(&self) -> i64 {
        self.all().filter(|account| Self::is_loaded(*account)).count() as i64 * LOADED
    }

    fn audit<T: Transaction>(&self, transaction: &mut T, how: Audit) -> Result<i64, TxError> {
        if how == Audit::ByKey {
            return self
                .all()
                .try_fold(0, |sum, account| Ok(sum + balance(transaction, account)?.unwrap_or(0)));
        }
        let (mut sum, mut misshapen) = (0, None);
        let scan = Scan {
            range: (Bound::Unbounded, Bound::Unbounded),
            direction: match how {
                Audit::Backward => Direction::Backward,
                _ => Direction::Forward,
            },
            limit: usize::MAX,
            for_update: how == Audit::ForUpdate,
        };
        transaction.scan(ACCOUNTS, scan, &mut |_, row| match BankAccount::view(row) {
            Ok(account) => {
                sum += account.cents();
                ControlFlow::Continue(())
            }
            Err(error) => {
                misshapen = Some(error);
                ControlFlow::Break(())
            }
        })?;
        misshapen.map_or(Ok(sum), Err)
    }
}

impl Workload for Bank {
    type Worker = BankWorker;
    type Input = BankInput;

    fn name(&self) -> &'static str {
        "bank"
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["transfer", "open", "close", "audit"]
    }

    fn tables(&self) -> Vec<TableSpec> {
        vec![table(4, BankAccount::BYTES, self.options.slots)]
    }

    fn partitions(&self) -> u32 {
        self.options.partitions
    }

    fn load_replicated<E: Engine>(&self, _: &E) -> Result<(), TxError> {
        Ok(())
    }

    fn load_partition<E: Engine>(&self, engine: &E, partition: u32) -> Result<(), TxError> {
        let first = partition * self.options.slots;
        let mut row = BankAccount::zeroed();
        row.set_cents(LOADED);
        let mut loaded = (first..first + self.options.slots).filter(|n| Self::is_loaded(*n));
        loaded.try_for_each(|account| engine.load(ACCOUNTS, &account.to_be_bytes(), row.bytes()))
    }

    fn worker(&self, seat: &Seat) -> BankWorker {
        BankWorker { random: seat.random(self.seed), partitions: seat.own_partitions() }
    }

    fn next(&self, worker: &mut BankWorker) -> BankInput {
        let random = &mut worker.random;
        if random.percent(self.options.audits_percent) {
            let ways = [Audit::Forward, Audit::Backward, Audit::ForUpdate, Audit::ByKey];
            return BankInput::Audit(*random.choose(&ways));
        }
        let partition = *random.choose(&worker.partitions);
        let near = partition * self.options.slots + random.below(self.options.slots.into()) as u32;
        let far = random.other_than(near, self.all().end);
        let (from, to) = if random.percent(50) { (near, far) } else { (far, near) };
        match random.below(3) {
            0 => BankInput::Transfer { from, to },
            1 => BankInput::Open { from, to },
            _ => BankInput::Close { from, to },
        }
    }

    fn kind(&self, input: &BankInput) -> usize {
        match input {
            BankInput::Transfer { .. } => 0,
            BankInput::Open { .. } => 1,
            BankInput::Close { .. } => 2,
            BankInput::Audit(_) => 3,
        }
    }

    fn run<T: Transaction>(
        &self,
        _: &mut BankWorker,
        input: &BankInput,
        transaction: &mut T,
    ) -> Result<Outcome, TxError> {
        match *input {
            BankInput::Transfer { from, to } => transfer(transaction, from, to)?,
            BankInput::Open { from, to } => open(transaction, from, to)?,
            BankInput::Close { from, to } => close(transaction, from, to)?,
            BankInput::Audit(how) => {
                let is_wrong = self.audit(transaction, how)? != self.total();
                return Ok(Outcome::Commit { effect: is_wrong.into() });
            }
        }
        Ok(Outcome::COMMIT)
    }
}

fn transfer<T: Transaction>(transaction: &mut T, from: u32, to: u32) -> Result<(), TxError> {
    let (less, more) = (balance(transaction, from)?, balance(transaction, to)?);
    if let (Some(less @ 1..), Some(more)) = (less, more) {
        set(transaction, from, less - 1)?;
        set(transaction, to, more + 1)?;
    }
    Ok(())
}

fn open<T: Transaction>(transaction: &mut T, from: u32, to: u32) -> Result<(), TxError> {
    let Some(all) = balance_for_update(transaction, from)? else { return Ok(()) };
    let mut row = BankAccount::zeroed();
    row.set_cents(all / 2);
    match transaction.insert(ACCOUNTS, &to.to_be_bytes(), row.bytes()) {
        Ok(()) => set(transaction, from, all - all / 2),
        Err(TxError::Duplicate { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn close<T: Transaction>(transaction: &mut T, from: u32, to: u32) -> Result<(), TxError> {
    let less = balance_for_update(transaction, from)?;
    let more = balance_for_update(transaction, to)?;
    if let (Some(all), Some(more)) = (less, more) {
        set(transaction, to, more + all)?;
        transaction.delete(ACCOUNTS, &from.to_be_bytes())?;
    }
    Ok(())
}

fn balance<T: Transaction>(transaction: &mut T, account: u32) -> Result<Option<i64>, TxError> {
    cents(transaction.get(ACCOUNTS, &account.to_be_bytes())?)
}

fn balance_for_update<T: Transaction>(
    transaction: &mut T,
    account: u32,
) -> Result<Option<i64>, TxError> {
    cents(transaction.get_for_update(ACCOUNTS, &account.to_be_bytes())?)
}

fn cents(row: Option<&[u8]>) -> Result<Option<i64>, TxError> {
    row.map(|row| Ok(BankAccount::view(row)?.cents())).transpose()
}

fn set<T: Transaction>(transaction: &mut T, account: u32, cents: i64) -> Result<(), TxError> {
    let mut row = BankAccount::zeroed();
    row.set_cents(cents);
    transaction.update(ACCOUNTS, &account.to_be_bytes(), row.bytes()).map(drop)
}

/// Checks that all money is there, and that no account has less than nothing, given the effects of
/// all transactions that have committed. No transaction may run meanwhile. An empty list says that
/// all holds.
///
/// # Errors
/// Those of the engine, after 1000 conflicts in a row too; that a row has not its layout.
pub fn check<E: Engine>(engine: &E, workload: &Bank, effect: i64) -> Result<Vec<String>, TxError> {
    let (mut total, mut found) = (0, Vec::new());
    walk(engine, ACCOUNTS, (Bound::Unbounded, Bound::Unbounded), &mut |key, row| {
        let cents = BankAccount::view(row)?.cents();
        total += cents;
        if cents < 0 {
            found.push(format!("the account with key {key:02x?} has {cents} cents"));
        }
        Ok(())
    })?;
    let expected = workload.total();
    if total != expected {
        found.push(format!("all accounts together have {total} cents instead of {expected}"));
    }
    if effect != 0 {
        found.push(format!("{effect} transactions have seen a wrong sum, and have committed"));
    }
    Ok(found)
}
