//! Floor 4: a key-value store with expiry, which every host of a pod serves whole.
//!
//! A [`Store`] is objects, shared under any [`Scheme`](tombolo_sharing::Scheme), whose values carry
//! a deadline. There is nothing else: no leader, no partition, no message. Every other host reads a
//! value from the moment its put has returned.
//!
//! Invariants:
//! * A value whose deadline has passed for one host has passed for all ([`PodClock`]); it is gone
//!   from then on, whether somebody has removed it from memory yet or not.
//! * What removes an expired value removes that value: one put in its place meanwhile stays.
//! * Objects that are no values of this store are refused, and never removed.
//! * A value is evicted only by the pod's policy, only for room, and only as it was looked at: a
//!   put that has returned since is not undone.
//! * A transaction's reads and changes are those of one instant, at which no value that it has read
//!   had expired.
//! * A value that a host has removed by itself is told to its hook once, by that host.
//!
//! Left out: types of values other than bytes.
//!
//! [`PodClock`]: tombolo_pod::PodClock

mod bulk;
mod error;
mod evict;
mod expiry;
mod key;
mod part;
mod removal;
mod reservation;
mod room;
mod sites;
mod store;
mod timetable;
mod transaction;
mod value;
mod version;
mod view;

pub use error::Error;
pub use evict::Evicted;
pub use part::{DeadlineChange, Stat};
pub use removal::{Removal, RemovalHook};
pub use reservation::ValueRoom;
pub use sites::ALL as SITES;
pub use store::{Change, Found, Store};
pub use tombolo_sharing::{EvictionPolicy, EvictionReason, Transactional};
pub use transaction::{Transaction, Watch};
pub use value::Entry;
pub use view::{ObjectsOf, ValueView, ViewBy};

/// Bytes that an object has besides key and value.
pub const OVERHEAD_BYTES: usize = value::PREFIX_BYTES;
