//! Floor 3: Tigon, a transactional database on a pod.
//!
//! Tables are divided into partitions, and each partition is at home on a host, in that host's own
//! memory. Rows that several hosts use are shared, and taken back when they are not: [`Tigon`]
//! keeps these *cross-host active tuples* in the pod. SCR holds all that needs atomic operations:
//! an index, and a word for each shared row. The rows lie in LNR, and software keeps them coherent.
//! So one host makes and commits all changes of a transaction, and there is no two-phase commit.
//! (*Tigon: A Distributed Database for a CXL Pod*.)
//!
//! Invariants:
//! * A row in LNR is read and written under its record's latch alone, and readers store nothing
//!   there.
//! * A row moves in or out only by its home, and out only when no transaction has locked it.
//! * Rows and gaps between rows stay as a transaction has found them until it ends.
//!
//! Left out: databases that go on when one of their hosts dies. They are recovered from their logs.

mod bulk;
mod cat;
mod engine;
mod index;
mod layout;
mod mapped;
mod member;
mod partition;
mod record;
mod request;
mod row;
mod scr_row;
mod sites;
mod tigon;
mod transaction;
mod usage;
mod variant;
mod victims;

pub use layout::{KIND, MAX_TABLES, MAX_WORKERS, Shape, VERSION};
pub use mapped::plan;
pub use record::MAX_HOMES;
pub use sites::ALL as SITES;
pub use tigon::{Moves, Options, Tigon};
pub use transaction::Tx;
pub use variant::{Coherence, Variant, Victims};
