//! Errors of schemas, and of values for them.

/// Why a schema or a value was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A name is empty, too long, or used twice.
    #[error("`{name}` cannot be the name of {of}: {why}")]
    Name {
        /// The name.
        name: String,
        /// Of what.
        of: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// There is no such table.
    #[error("there is no table `{0}`")]
    NoTable(String),
    /// There is no such column.
    #[error("table `{table}` has no column `{column}`")]
    NoColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// There is no such index.
    #[error("table `{table}` has no index `{index}`")]
    NoIndex {
        /// The table.
        table: String,
        /// The index.
        index: String,
    },
    /// A primary key has no columns, or one that may be null.
    #[error("the primary key of table `{table}` {why}")]
    PrimaryKey {
        /// The table.
        table: String,
        /// The fault.
        why: &'static str,
    },
    /// The table's keys or rows would be too long.
    #[error("{what} of table `{table}` may have {bytes} bytes, more than {most}; use less text")]
    TooLong {
        /// Keys or rows.
        what: &'static str,
        /// The table.
        table: String,
        /// How many there may be.
        bytes: usize,
        /// How many there can be.
        most: usize,
    },
    /// A row has another number of values than its table has columns, or a key than its columns.
    #[error("{found} values for {expected} columns of table `{table}`")]
    Count {
        /// The table.
        table: String,
        /// Values that were given.
        found: usize,
        /// Columns.
        expected: usize,
    },
    /// A value cannot stand in its column.
    #[error("{value} cannot stand in column `{column}` of table `{table}`, which holds {kind}")]
    Value {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The type of the column's values.
        kind: String,
        /// The value.
        value: String,
    },
    /// The type of rows does not have the table's columns.
    #[error("rows of table `{table}` are not of this type: {why}")]
    RowType {
        /// The table.
        table: String,
        /// How they differ.
        why: String,
    },
    /// The catalog is too large for the room that there is.
    #[error("the catalog has {bytes} bytes, more than the {most} that there is room for")]
    CatalogSize {
        /// Its bytes.
        bytes: usize,
        /// The most there can be.
        most: usize,
    },
    /// The catalog was written by another version.
    #[error("the catalog has version {found}, and this program knows {known}; use its program")]
    CatalogVersion {
        /// The version that was found.
        found: u32,
        /// The version that this program knows.
        known: u32,
    },
    /// Bytes are not what they should be.
    #[error("a key, a row or the catalog is damaged; recover the database")]
    Damaged,
}
