//! The trait of engines. Keys and rows are bytes here; [types](crate) are above.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use crate::TxError;

/// A table's number in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u16);

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a table's rows are divided into partitions. Each partition has a home host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioning {
    /// Each host has a copy of the whole table, which is read-only after loading.
    Replicated,
    /// A big-endian number in the first 4 bytes of the key, divided by `per_partition`. Rows of one
    /// partition lie together.
    Leading {
        /// How many successive numbers share a partition.
        per_partition: u32,
    },
}

/// The part of a table's schema that an engine has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// The longest key, in bytes.
    pub key_bytes: u16,
    /// The longest row, in bytes.
    pub row_bytes: u32,
    /// How its rows are divided.
    pub partitioning: Partitioning,
}

impl TableSpec {
    /// The partition of the row with `key`, out of `partitions`. Partition 0 for a replicated
    /// table, and for keys that are too short. Numbers beyond the last partition count as in the
    /// last one.
    pub fn partition_of(&self, key: &[u8], partitions: u32) -> u32 {
        match (self.partitioning, key.first_chunk()) {
            (Partitioning::Leading { per_partition }, Some(first)) => {
                let number = u32::from_be_bytes(*first) / per_partition.max(1);
                number.min(partitions.saturating_sub(1))
            }
            _ => 0,
        }
    }

    /// How many words [`to_words`](Self::to_words) are.
    pub const WORDS: usize = 2;

    /// The same as words: those of two tables differ if the tables do.
    pub fn to_words(&self) -> [u64; Self::WORDS] {
        let (kind, per_partition) = match self.partitioning {
            Partitioning::Replicated => (0, 0),
            Partitioning::Leading { per_partition } => (1, per_partition),
        };
        let lengths = u64::from(self.key_bytes) << 32 | u64::from(self.row_bytes);
        [kind << 48 | lengths, per_partition.into()]
    }

    /// Whether a key fits into the table, whose number is `table`.
    ///
    /// # Errors
    /// [`TxError::KeyLength`].
    pub fn check_key(&self, table: TableId, key: &[u8]) -> Result<(), TxError> {
        let (bytes, most) = (key.len(), usize::from(self.key_bytes));
        if (1..=most).contains(&bytes) {
            return Ok(());
        }
        Err(TxError::KeyLength { table, bytes, most })
    }

    /// Whether a row fits into the table, whose number is `table`.
    ///
    /// # Errors
    /// [`TxError::RowLength`].
    pub fn check_row(&self, table: TableId, row: &[u8]) -> Result<(), TxError> {
        let (bytes, most) = (row.len(), self.row_bytes as usize);
        if bytes <= most {
            return Ok(());
        }
        Err(TxError::RowLength { table, bytes, most })
    }
}

/// The order in which a scan meets rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The smallest key first.
    Forward,
    /// The greatest key first.
    Backward,
}

/// A stretch of keys.
pub type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Which rows a scan is to meet.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// The keys.
    pub range: Range<'a>,
    /// The order.
    pub direction: Direction,
    /// How many rows at most.
    pub limit: usize,
    /// Whether the rows will be changed: then they are locked for that at once.
    pub for_update: bool,
}

impl Scan<'_> {
    /// All rows, the smallest key first.
    pub const ALL: Self = Self {
        range: (Bound::Unbounded, Bound::Unbounded),
        direction: Direction::Forward,
        limit: usize::MAX,
        for_update: false,
    };
}

/// Takes key and row of one row, and says whether to go on.
pub type EachRow<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// At once. A transaction may be lost if hosts die.
    Memory,
    /// When its epoch is durable on all hosts.
    #[default]
    Epoch,
    /// As for `Epoch`, but the epoch ends at once.
    Immediate,
}

/// The outcome of a committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Commit {
    /// The epoch it committed in, or for a read-only transaction the greatest epoch that it has
    /// read from. It is durable when [`Engine::durable_epoch`] is at least this.
    pub epoch: u64,
}

/// Where a partition's rows are at home: the number of a host of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Home(pub u8);

/// Tables of rows, ordered by key, and transactions over them. One value for each host, shared by
/// its threads.
pub trait Engine {
    /// A transaction of one thread.
    type Transaction<'a>: Transaction
    where
        Self: 'a;

    /// Tables that there are: their numbers are `0..tables().len()`.
    fn tables(&self) -> &[TableSpec];

    /// Partitions of each table that is not replicated.
    fn partitions(&self) -> u32;

    /// This host's number, and the number of hosts.
    fn home(&self) -> (Home, u8);

    /// The host at which `partition` is at home.
    fn home_of(&self, partition: u32) -> Home;

    /// Begins a transaction as worker `worker` of this host. A worker runs one transaction at a
    /// time.
    fn begin(&self, worker: usize) -> Self::Transaction<'_>;

    /// Loads a row without a transaction, while none runs. The row's partition is at home here, or
    /// its table is replicated.
    ///
    /// # Errors
    /// [`TxError::Duplicate`], or that the row does not fit.
    fn load(&self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError>;

    /// Answers other hosts' requests and does the host's background work. To be called every
    /// millisecond by a thread that runs no transaction. Does not block.
    ///
    /// # Errors
    /// That a host has died, or memory is damaged: then no transaction succeeds any more.
    fn tick(&self) -> Result<(), TxError>;

    /// Ends `epoch` at once if it is the current one, so that it is durable soon. Does not block.
    /// An engine without a log need do nothing.
    fn end_epoch(&self, epoch: u64) {
        let _ = epoch;
    }

    /// The greatest epoch all of whose transactions are durable on all hosts.
    fn durable_epoch(&self) -> u64;
}

impl<E: Engine> Engine for Arc<E> {
    type Transaction<'a>
        = E::Transaction<'a>
    where
        Self: 'a;

    fn tables(&self) -> &[TableSpec] {
        (**self).tables()
    }

    fn partitions(&self) -> u32 {
        (**self).partitions()
    }

    fn home(&self) -> (Home, u8) {
        (**self).home()
    }

    fn home_of(&self, partition: u32) -> Home {
        (**self).home_of(partition)
    }

    fn begin(&self, worker: usize) -> Self::Transaction<'_> {
        (**self).begin(worker)
    }

    fn load(&self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        (**self).load(table, key, row)
    }

    fn tick(&self) -> Result<(), TxError> {
        (**self).tick()
    }

    fn end_epoch(&self, epoch: u64) {
        (**self).end_epoch(epoch);
    }

    fn durable_epoch(&self) -> u64 {
        (**self).durable_epoch()
    }
}

/// Reads and changes rows. All reads are of one serializable state, if the commit succeeds.
///
/// A transaction that is dropped is aborted. After an error that [is a
/// conflict](TxError::is_conflict) nothing but abort is left; a commit then fails with the same
/// error.
pub trait Transaction {
    /// The row with `key`, with this transaction's own changes; it may be read again later at no
    /// risk.
    ///
    /// # Errors
    /// A conflict; that there is no such table, or the key does not fit.
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError>;

    /// As [`get`](Self::get) of a row that this transaction will change.
    ///
    /// # Errors
    /// As of `get`.
    fn get_for_update(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError>;

    /// Replaces the row with `key`. Whether there was one; nothing is changed otherwise.
    ///
    /// # Errors
    /// As of `get`; that the row does not fit.
    fn update(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<bool, TxError>;

    /// Adds a row.
    ///
    /// # Errors
    /// [`TxError::Duplicate`] if there is one with this key, after which the transaction can go on;
    /// as of `update`.
    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError>;

    /// Deletes the row with `key`. Whether there was one.
    ///
    /// # Errors
    /// As of `get`.
    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxError>;

    /// Calls `each` with key and row of the rows that `scan` asks for, with this transaction's own
    /// changes, until it breaks. No row comes or goes in the part of the range that was met, before
    /// this transaction ends.
    ///
    /// # Errors
    /// As of `get`.
    fn scan(
        &mut self,
        table: TableId,
        scan: Scan<'_>,
        each: &mut EachRow<'_>,
    ) -> Result<(), TxError>;

    /// Looks whether all that was read is still of one state. An engine may find that out at the
    /// commit alone: then whatever is told of a transaction before, such as an error that its rows
    /// have led to, is to be validated first. Others have nothing to do.
    ///
    /// # Errors
    /// A conflict, if not.
    fn validate(&mut self) -> Result<(), TxError> {
        Ok(())
    }

    /// Commits. When it returns others see the changes; they are durable when the commit's epoch
    /// is.
    ///
    /// # Errors
    /// A conflict, or that memory is full: nothing has happened then.
    fn commit(self) -> Result<Commit, TxError>;

    /// Gives up all changes.
    fn abort(self);
}
