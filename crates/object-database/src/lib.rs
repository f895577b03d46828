//! Floor 4: a transactional database whose rows are objects of a pod.
//!
//! A row is an object, and any host runs any transaction on any row: no row has a home. A
//! transaction reads objects without storing anything in shared memory, and notes their versions.
//! Its changes wait in its host's own memory. The commit makes all of them at one instant, if then
//! nothing that was read has changed: [`Objects::transact`](tombolo_objects::Objects::transact).
//!
//! Each table has an index in the order of its keys: a B-link tree. Its leaves are objects, each
//! with the keys of a stretch and the number of the leaf on its right. Its inner nodes are in each
//! host's own memory, and may be out of date: then a walk takes a few steps to the right more. A
//! leaf is split, or removed when it is empty, in the transaction that changes its keys.
//! (Lehman and Yao, *Efficient Locking for Concurrent Operations on B-Trees*, 1981.)
//!
//! Invariants:
//! * A key is in the leaf for it exactly if there is a row with that key, at every instant.
//! * The leaves of a table cover all keys, each key once. A leaf's least key never changes.
//! * A transaction that has met no row in a range has read the leaves for that range. So nothing
//!   comes or goes in it before the transaction's commit.
//! * An epoch is chosen when all has been read: a transaction's epoch is no less than those of the
//!   transactions whose changes it has seen.
//! * A transaction may read rows of several states before its commit finds out. Nothing is told of
//!   it before it was [validated](tombolo_database::Transaction::validate).
//! * Versions of a key grow, also where its row was deleted: its leaf knows the greatest of those.
//!
//! * When a host dies, the others go on, and its committed transactions become durable. Each
//!   transaction writes its worker's marker, which tells how far the worker's log counts.
//! * Rows of replicated tables are in each host's own memory, and in the pod for hosts that come
//!   later. No transaction changes them.

mod database;
mod engine;
mod failure;
mod index;
mod layout;
mod leaf;
mod mapped;
mod marker;
mod member;
mod names;
mod rows;
mod sites;
mod transaction;

pub use database::{ObjectDatabase, Options};
pub use layout::{KIND, MAX_HOMES, MAX_TABLES, MAX_WORKERS, Shape, VERSION, area_request};
pub use mapped::plan;
pub use sites::ALL as SITES;
pub use transaction::Tx;
