//! Typed tables over an engine's bytes.
//!
//! Invariants:
//! * Keys of one table sort as the values of their columns do, and are equal only if all of those
//!   are.
//! * No key of a table begins another one of it.
//! * A catalog that reads back is the one that was written, or is refused.

mod catalog;
mod check;
mod error;
mod plan;
mod table;
mod value;

pub use catalog::Catalog;
pub use error::SchemaError;
pub use plan::DatabasePlan;
pub use table::{Column, Index, KeyPart, Table};
pub use value::{ColumnType, Value};
