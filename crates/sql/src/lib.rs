//! Floor 4: SQL over any engine of transactions.
//!
//! A [`SqlDatabase`] is a host's database; a [`Session`] runs one client's statements in it. Text
//! is parsed, then bound to a plan once, and the plan is run in a transaction of the engine.
//!
//! Invariants:
//! * All transactions are serializable, changes of tables included: the catalog is rows.
//! * A statement that is not understood in full is refused, and changes nothing.
//! * A statement outside of a transaction returns nothing before it is committed and durable.
//! * An entry of an index changes in the transaction that changes its row.
//! * Nothing here waits for a client, and nothing knows a protocol.
//!
//! Left out: protocols, statistics, cursors of SQL, views, sequences, foreign keys, triggers.

mod arithmetic;
mod binary;
mod bind;
mod call;
mod catalog;
mod control;
mod copy;
mod database;
mod datetime;
mod error;
mod eval;
mod exec;
mod explain;
mod expr;
mod functions;
mod key;
mod layout;
mod parse;
mod patterns;
mod plan;
mod row;
mod schema;
mod session;
mod settings;
mod store;
mod system;
mod text;
mod types;

pub use binary::{decode as decode_binary, encode as encode_binary};
pub use copy::{CopyPlan, CopyReader};
pub use database::{Settings, SqlDatabase};
pub use error::{Result, SqlError, state};
pub use layout::{MAX_PARTITIONS, table_names, tables};
pub use plan::OutputColumn;
pub use session::{Prepared, Response, Session, Statement, Status};
pub use settings::{Facts, REPORTED, SERVER_VERSION};
pub use text::{format as format_text, parse as parse_text};
pub use types::{DataType, Datum, Row};
