//! Floor 3: databases whose rows stay at home, to compare Tigon with.
//!
//! Each host keeps the rows of its partitions in its own memory. Another host asks for them by
//! messages through the pod's memory. So a transaction has a *branch* at each host whose rows it
//! uses, and commits in two phases. Two protocols keep transactions apart:
//!
//! * [`Ds2pl`] (DS2PL+): two-phase locking without waiting. A row is locked when it is read, and
//!   with it the gap before it. A scan locks the row behind it, too.
//! * [`Sundial`] (Sundial+): logical leases. A row that is to be written is locked when it is read.
//!   A transaction commits at the latest logical time at which what it has read was written, and
//!   after the leases of what it writes. Rows that it has read must be the same still, and are
//!   leased up to that time. **As published it does not prevent phantoms:** a scan, or a read of an
//!   absent key, does not keep others from inserting there. [`Options::gap_leases`] leases gaps,
//!   too, and prevents them.
//!
//! A commit goes like this. *Prepare* brings each branch its changes. The branch validates what it
//! has read, makes sure of room in its log, and keeps its log from passing the present epoch. When
//! all branches agree, the worker reads the epoch, logs its own changes, and makes them. *Write*
//! brings the epoch: each branch logs its changes in it, makes them, and releases its locks. A
//! branch that has changed nothing is *released*, which the worker does not wait for.
//!
//! Invariants:
//! * A branch that is prepared can commit, whatever comes.
//! * All branches of a transaction log in one epoch, and it is durable only when all have logged.
//!   So the epoch takes the place of the coordinator's commit record: recovery finds all of a
//!   transaction or nothing.
//! * A thread that answers a request waits for nothing but other threads' short locks.
//! * A worker that waits for replies answers requests meanwhile.
//!
//! Left out: databases that go on when one of their hosts dies. They are recovered from their logs
//! as they are. The buffers of a dead host are not written out: that would pass the epochs of
//! prepared branches.

mod branch;
mod engine;
mod layout;
mod mapped;
mod member;
mod message;
mod partition;
mod pods;
mod protocol;
pub mod queue;
mod sites;
mod tables;
mod transaction;

pub use engine::{Ds2pl, MessageCounts, Options, SharedNothing, Sundial};
pub use layout::{MAX_HOMES, MAX_TABLES, MAX_WORKERS, Shape, VERSION};
pub use mapped::plan;
pub use protocol::{LogicalLeases, Protocol, TwoPhaseLocking};
pub use sites::ALL as SITES;
pub use transaction::Tx;
