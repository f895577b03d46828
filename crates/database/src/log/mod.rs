//! Epochs, and a value log of all hosts: SiloR's scheme, with the log's buffers in shared memory.
//!
//! The pod has an epoch, a word of SCR. A transaction reads it when it holds all its locks. So if
//! one transaction has seen another's changes, its epoch is not smaller. A worker puts the record
//! of a transaction into its buffer in LNR before it releases a lock. Each host's [`Logger`] writes
//! its workers' records to files. An epoch is durable when the loggers of all hosts have passed it.
//!
//! Invariants:
//! * A transaction's record is whole in shared memory before the word that publishes it.
//! * A logger passes an epoch only when no worker of its host can commit in it any more, and all
//!   that they have logged is on the disk.
//! * Bytes of a buffer are used again only when they are on the disk.
//! * Any host can write the log of a dead one to a file. So no committed transaction is lost with a
//!   host, and no epoch waits for a dead one.
//! * A transaction that begins is announced before it looks at anything shared. So structures know
//!   when nobody uses what they have taken out.
//! * The epoch never goes back, nor begins again at a value that a log has.
//!
//! A database begins with a checkpoint of epoch 0, and [formats](GroupCommit::format) its words
//! with epoch 1. The checkpoint has the catalog, and the rows that were loaded without a
//! transaction, since no log has those. After a recovery one host [closes](Recovered::close) what
//! was recovered. Then all hosts begin their logs, from [`Recovered::next`] on.
//!
//! Left out: locks on rows, and indexes: what recovery returns is loaded as rows are.

mod checkpoint;
mod disk;
mod epochs;
mod error;
mod file;
mod frames;
mod layout;
mod logger;
mod record;
mod recovery;
mod session;
mod storage;
mod worker;

pub use checkpoint::{CheckpointPart, CheckpointWriter, PartSummary};
pub use disk::SimulatedDisk;
pub use epochs::{GroupCommit, GroupSettings};
pub use error::LogError;
pub use layout::LogLayout;
pub use logger::{LogMetrics, Logger};
pub use record::{Change, record_bytes};
pub use recovery::{Recovered, RecoveredRow, catalog, recover, recover_part, truncate};
pub use storage::{Claim, Directory, Storage};
pub use worker::{LogPosition, Worker};

use error::During;
