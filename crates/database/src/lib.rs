//! Floor 3: what all transaction engines share.
//!
//! An [`Engine`] keeps rows of bytes in tables, ordered by key, and runs [`Transaction`]s over
//! them. The [log] makes them durable. A [schema] gives them types. A [`Database`] runs closures as
//! transactions over any engine, and keeps secondary indexes. [`hosts`] is how hosts come to a
//! database and leave it.
//!
//! Invariants:
//! * Committed transactions are serializable, ranges and absent keys included.
//! * A transaction that is not committed has changed nothing that others see.
//! * A transaction that is acknowledged as durable is recovered, with all that it depends on.
//! * A secondary index changes in the transaction that changes the row.
//!
//! Left out: how an engine keeps its rows.

mod bounds;
mod database;
mod engine;
mod error;
pub mod hosts;
mod local_rows;
mod locks;
pub mod log;
mod ordered_key;
mod ordered_map;
mod replica;
pub mod schema;
mod sites;
mod version;

pub use bounds::Bounds;
pub use database::{
    Clock, Database, DatabaseMetrics, DatabaseSettings, Decimal, Field, FieldType, Key, ReadTx,
    Row, RowRange, SystemClock, Table, Timestamp, Tx,
};
pub use engine::{
    Commit, Direction, Durability, EachRow, Engine, Home, Partitioning, Range, Scan, TableId,
    TableSpec, Transaction,
};
pub use error::{Conflict, TxError};
pub use local_rows::LocalRows;
pub use locks::{Locks, Mode};
pub use ordered_key::{MAX_KEY_BYTES, MAX_KEY_WORDS, OrderedKey, key_width};
pub use ordered_map::OrderedMap;
pub use replica::Replica;
pub use sites::ALL as SITES;
pub use version::{MAX_EPOCH, Version};
