//! Decides whether what clients saw is what one copy of the data, accessed by one client at a time,
//! could have shown them.
//!
//! Of single operations:
//!
//! * [`history`]: operations with their invocation and response times, and a [`Recorder`] for them
//!   that threads and single-threaded coroutines use alike.
//! * [`linearizability`]: [`check`] searches each key for an order of its operations that keeps
//!   real time (what responded before another was invoked comes first) and that a sequential
//!   [`Model`] accepts. If there is none, the [`Violation`] shows how far an order gets, and a
//!   timeline.
//! * [`models`]: the sequential behaviour of one key of a key-value store.
//!
//! Of transactions:
//!
//! * [`transactions`]: what transactions did to lists, rows and ranges of rows, and a recorder for
//!   them.
//! * [`serializability`]: [`serializability::check`] decides whether some serial order of the
//!   transactions explains all that they read, and keeps the order of sessions or real time, if
//!   that is asked for. If there is none, it names the anomaly, and tells the transactions of a
//!   cycle and why each comes before the next.
//! * [`bank`] and [`long_fork`]: two properties of snapshots that need no search. They see what the
//!   search cannot decide, as values of accounts are not unique.
//!
//! # Invariants
//!
//! * `Linearizable`, `Passed` and `Violation` are proofs. Whatever could not be searched to the end
//!   is `Undecided`, which is never a pass.
//! * All doubt widens what is allowed, so that it can hide a violation but never invent one: equal
//!   times count as concurrent, and an operation or a transaction of unknown outcome may have taken
//!   effect at any time from its begin on, or never.
//! * The verdict and its explanation depend on the history alone.
//!
//! # Complexity
//!
//! Linearizability is NP-complete in the number of operations of one key that are in progress
//! together. The search is Wing and Gong's with Lowe's memoisation, and per key. With `c`
//! operations in progress, a history that is linearizable for simple reasons takes O(c) per
//! operation. The worst case visits every subset of the concurrent writes with every state they can
//! leave, and the same of the operations of unknown outcome; a budget of configurations per key
//! bounds it. With `d` operations of unknown outcome, a configuration takes O(c + d) time and O(c)
//! memory plus d bits, which are given back after each key.
//!
//! Three things keep usual histories far from the worst case, and none loses a linearization:
//!
//! * Operations that cannot change the state are placed as soon as they are legal, without a
//!   choice.
//! * Operations of unknown outcome are tried last, and only where they make a difference to the
//!   next.
//! * Of two ways to reach the same state with the same known results, only the one is followed that
//!   has used up fewer operations of unknown outcome.
//!
//! Serializability is decided in about linear time where reads tell the order of writes. A list
//! tells the order of its appends. A row does if each transaction reads it before it writes it, and
//! if it is never deleted. Otherwise the order of time is tried first. Where a read contradicts it,
//! the possible reasons are assumed in turn, effects of transactions in doubt among them. That is
//! exact, and exponential in the worst case; a
//! budget bounds it. A scan costs as much as there are rows in its range that any transaction
//! named.
//!
//! # Left out
//!
//! Weaker conditions, such as causal consistency or snapshot isolation; what aborted transactions
//! read; predicates other than ranges of keys; and progress: a history in which nothing ever
//! returns is linearizable. Times must come from one clock; histories of hosts whose clocks
//! disagree cannot be merged.
//!
//! ```
//! use tombolo_verify::history::{Outcome, Recorder};
//! use tombolo_verify::linearizability::check;
//! use tombolo_verify::models::{KeyValue, Operation, Result};
//!
//! let recorder = Recorder::new();
//! let (writer, reader) = (recorder.client(0), recorder.client(1));
//!
//! let put = writer.invoke("apple", Operation::Put(1_u64));
//! writer.returned(put, Result::Done);
//! let get = reader.invoke("apple", Operation::Get);
//! reader.returned(get, Result::Value(None));
//!
//! let verdict = check(&KeyValue::default(), &recorder.history(), 1_000);
//! assert!(verdict.violation().is_some(), "{verdict}");
//! ```
//!
//! ```
//! use tombolo_verify::serializability::{Condition, check};
//! use tombolo_verify::transactions::{Operation, Recorder};
//!
//! // Two transactions read both rows as absent, and each inserts one of them.
//! let recorder = Recorder::new();
//! let (alice, bob) = (recorder.session(0), recorder.session(1));
//! let (a, b) = (alice.begin(), bob.begin());
//! alice.note(&a, Operation::Read { key: "pear", value: None });
//! bob.note(&b, Operation::Read { key: "apple", value: None });
//! alice.note(&a, Operation::Insert { key: "apple", value: 1 });
//! bob.note(&b, Operation::Insert { key: "pear", value: 2 });
//! alice.committed(a);
//! bob.committed(b);
//!
//! let verdict = check(&recorder.history(), Condition::Strict, 1_000);
//! assert_eq!(verdict.violation().unwrap().anomaly.alias, Some("write skew"), "{verdict}");
//! ```
//!
//! [`Recorder`]: history::Recorder
//! [`check`]: linearizability::check
//! [`Model`]: linearizability::Model
//! [`Violation`]: linearizability::Violation

mod clock;

pub mod bank;
pub mod history;
pub mod linearizability;
pub mod long_fork;
pub mod models;
pub mod serializability;
pub mod transactions;
pub mod verdict;
