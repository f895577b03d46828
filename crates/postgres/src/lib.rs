//! Floor 5: PostgreSQL's protocol, version 3.0, over sessions of [`tombolo_sql`].
//!
//! A [`Server`] has a thread for each connection: transactions of an engine stay on their thread,
//! and wait there. Messages are those of the crate `pgwire`.
//!
//! Invariants:
//! * A server without a password listens on loopback only.
//! * No length that a client claims is allocated for before its bytes are there.
//! * A client is told that a transaction is committed when it is durable, and not before.
//! * Rows that a transaction returns are sent when they are read, and those of a statement on its
//!   own when it is committed.
//!
//! Left out: encryption, replication, `LISTEN`, function calls, COPY in binary.

mod connection;
mod copy;
mod extended;
mod rows;
mod scram;
mod server;
mod startup;
mod wire;

pub use scram::Password;
pub use server::{Config, Server, ServerError};
