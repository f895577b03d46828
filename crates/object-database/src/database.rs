//! One host of a database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_database::hosts::Homes;
use tombolo_database::log::{GroupCommit, GroupSettings, Worker};
use tombolo_database::{
    Engine, Home, OrderedKey, Partitioning, Replica, TableId, TableSpec, TxError, Version,
    key_width,
};
use tombolo_memory::{HostMutex, Memory};
use tombolo_objects::Objects;
use tombolo_sharing::Error;

use crate::failure::of_objects;
use crate::layout::Shape;
use crate::leaf::LeafId;
use crate::transaction::Tx;

/// How a host takes part in a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// The tables, the same on all hosts.
    pub tables: Vec<TableSpec>,
    /// How transactions commit.
    pub commit: GroupSettings,
    /// Whether transactions are logged. Then each host needs a
    /// [logger](tombolo_database::log::Logger) for its [log](ObjectDatabase::log): transactions
    /// wait when their buffers are full.
    pub is_logged: bool,
    /// The epoch that the database begins with: 1, or what recovery says.
    pub first_epoch: u64,
    /// How the host takes part in the objects that rows and leaves are.
    pub objects: tombolo_objects::Options,
    /// Bytes of keys after which this host splits a leaf. A change of a leaf writes all of it, and
    /// meets transactions that have changed or scanned it.
    pub leaf_bytes: usize,
}

impl Options {
    /// The usual ones, with these tables, and without a log.
    pub fn new(tables: Vec<TableSpec>) -> Self {
        Self {
            tables,
            commit: GroupSettings::default(),
            is_logged: false,
            first_epoch: 1,
            objects: tombolo_objects::Options::default(),
            leaf_bytes: 1 << 10,
        }
    }
}

/// A database, as one host runs transactions on it.
pub struct ObjectDatabase<M: Memory> {
    pub(crate) objects: Objects<M>,
    pub(crate) homes: Homes<M>,
    pub(crate) group: Arc<GroupCommit<M>>,
    /// The log of each worker.
    pub(crate) workers: Vec<HostMutex<M, Worker<M>>>,
    pub(crate) is_logged: bool,
    pub(crate) leaf_bytes: usize,
    pub(crate) specs: Vec<TableSpec>,
    tables: Vec<Table<M>>,
    shape: Shape,
    /// Leaves that this host has made.
    leaves_made: AtomicU64,
    /// Whether it has come after all others had.
    pub(crate) is_late: bool,
}

/// A table, as one host has it.
pub(crate) enum Table<M: Memory> {
    /// A copy of the whole table. Its rows are objects as well, for hosts that come later.
    Replicated(Replica<M>, Shared<M>),
    /// Rows and leaves are objects.
    Shared(Shared<M>),
}

/// A table whose rows are objects.
pub(crate) struct Shared<M: Memory> {
    /// Words of its keys.
    pub(crate) width: usize,
    /// The leaves that this host knows of, by the first key that each is for.
    leaves: HostMutex<M, BTreeMap<OrderedKey, LeafId>>,
}

/// Whether a leaf is wanted that is for a key, or one for keys before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    At,
    Before,
}

impl<M: Memory> Shared<M> {
    fn new(width: usize) -> Self {
        let leaves = BTreeMap::from([(OrderedKey::from_words(&[0]), LeafId::FIRST)]);
        Self { width, leaves: HostMutex::<M, _>::new(leaves) }
    }

    /// The last leaf known that may be to the left of what is wanted, or it. No key is smaller than
    /// the first leaf's.
    pub(crate) fn known(&self, key: &OrderedKey, side: Side) -> (OrderedKey, LeafId) {
        let leaves = self.leaves.lock();
        let mut before = match side {
            Side::At => leaves.range(..=key),
            Side::Before => leaves.range(..key),
        };
        let found = before.next_back().map(|(low, leaf)| (*low, *leaf));
        found.unwrap_or((OrderedKey::from_words(&[0]), LeafId::FIRST))
    }

    pub(crate) fn learn(&self, low: OrderedKey, leaf: LeafId) {
        self.leaves.lock().insert(low, leaf);
    }

    pub(crate) fn forget(&self, low: &OrderedKey, leaf: LeafId) {
        let mut leaves = self.leaves.lock();
        if leaf != LeafId::FIRST && leaves.get(low) == Some(&leaf) {
            leaves.remove(low);
        }
    }
}

impl<M: Memory> ObjectDatabase<M> {
    pub(crate) fn new(
        objects: Objects<M>,
        homes: Homes<M>,
        group: Arc<GroupCommit<M>>,
        shape: Shape,
        options: Options,
    ) -> Self {
        let table = |spec: &TableSpec| {
            let width = key_width(spec.key_bytes);
            match spec.partitioning {
                Partitioning::Replicated => {
                    Table::Replicated(Replica::new(width), Shared::new(width))
                }
                Partitioning::Leading { .. } => Table::Shared(Shared::new(width)),
            }
        };
        let workers = (0..shape.workers).map(|it| HostMutex::<M, _>::new(group.worker(it)));
        Self {
            workers: workers.collect(),
            tables: options.tables.iter().map(table).collect(),
            is_logged: options.is_logged,
            leaf_bytes: options.leaf_bytes,
            specs: options.tables,
            leaves_made: AtomicU64::new(0),
            is_late: false,
            objects,
            homes,
            group,
            shape,
        }
    }

    /// The memory that the database lies in.
    pub fn memory(&self) -> &M {
        self.homes.memory()
    }

    /// The objects that rows and leaves are.
    pub fn objects(&self) -> &Objects<M> {
        &self.objects
    }

    /// Epochs and the log, for this host's [logger](tombolo_database::log::Logger).
    pub fn log(&self) -> &Arc<GroupCommit<M>> {
        &self.group
    }

    /// The hosts of the database.
    pub fn homes(&self) -> &Homes<M> {
        &self.homes
    }

    pub(crate) fn table(&self, table: TableId) -> Result<(&Table<M>, &TableSpec), TxError> {
        let number = usize::from(table.0);
        let spec = self.specs.get(number).ok_or(TxError::NoTable { table })?;
        Ok((&self.tables[number], spec))
    }

    /// A table, as far as its rows are objects.
    pub(crate) fn shared(&self, table: TableId) -> &Shared<M> {
        match &self.tables[usize::from(table.0)] {
            Table::Shared(shared) | Table::Replicated(_, shared) => shared,
        }
    }

    /// The number of a leaf that no other one has. If another one did, the transaction that makes
    /// this one would have read that there is none, and meet a conflict.
    pub(crate) fn new_leaf(&self) -> LeafId {
        self.memory().step();
        let made = self.leaves_made.fetch_add(1, Ordering::Relaxed) + 1;
        LeafId(u64::from(self.homes.host().seat().incarnation()) << 40 | made)
    }

    /// The error of a transaction in which an operation on objects has failed.
    pub(crate) fn failed(&self, error: &Error) -> TxError {
        of_objects(self.homes.host().seat().host(), error)
    }
}

impl<M: Memory> Engine for ObjectDatabase<M> {
    type Transaction<'a> = Tx<'a, M>;

    fn tables(&self) -> &[TableSpec] {
        &self.specs
    }

    fn partitions(&self) -> u32 {
        self.shape.partitions
    }

    fn home(&self) -> (Home, u8) {
        (Home(self.homes.own()), self.shape.homes)
    }

    fn home_of(&self, partition: u32) -> Home {
        Home((partition % u32::from(self.shape.homes)) as u8)
    }

    fn begin(&self, worker: usize) -> Tx<'_, M> {
        Tx::new(self, worker)
    }

    fn load(&self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        self.load_version(table, key, Version::default(), row)
    }

    fn tick(&self) -> Result<(), TxError> {
        self.homes.beat()?;
        self.serve()?;
        self.group.tick();
        Ok(())
    }

    fn end_epoch(&self, epoch: u64) {
        self.group.advance_past(epoch);
    }

    fn durable_epoch(&self) -> u64 {
        self.group.durable_epoch()
    }
}
