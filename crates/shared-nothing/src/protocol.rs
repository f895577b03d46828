//! The two ways in which transactions are kept apart.

use tombolo_pod::Kind;

/// How transactions are kept apart.
pub trait Protocol: Send + Sync + 'static {
    /// The kind of area that holds such a database.
    const KIND: Kind;

    /// Whether rows are locked when they are read, and gaps with them. Otherwise what was read is
    /// leased when the transaction commits.
    const LOCKS_READS: bool;
}

/// Two-phase locking without waiting, and next-key locks.
#[derive(Clone, Copy, Debug)]
pub struct TwoPhaseLocking;

/// Logical leases: a transaction commits at a logical time at which all that it has read is valid.
/// Rows that are to be written are locked.
#[derive(Clone, Copy, Debug)]
pub struct LogicalLeases;

impl Protocol for TwoPhaseLocking {
    const KIND: Kind = Kind::new("ds2pl");
    const LOCKS_READS: bool = true;
}

impl Protocol for LogicalLeases {
    const KIND: Kind = Kind::new("sundial");
    const LOCKS_READS: bool = false;
}
