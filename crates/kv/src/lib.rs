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
//!
//! Left out: types of values other than bytes, operations on several keys at once, eviction.
//!
//! [`PodClock`]: tombolo_pod::PodClock

mod error;
mod expiry;
mod key;
mod part;
mod room;
mod sites;
mod store;
mod timetable;
mod value;
mod view;

pub use error::Error;
pub use part::{DeadlineChange, Stat};
pub use sites::ALL as SITES;
pub use store::{Change, Found, Store};
pub use value::Entry;
pub use view::ValueView;
