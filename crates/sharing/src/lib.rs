//! Floor 3: common parts of all ways of sharing objects.
//!
//! A [`Scheme`] shares objects, keys and bytes, among the hosts of a pod: MEGALON is one, the ways
//! it is compared with are others. The store and the page cache are written against the trait, so
//! they can be run, checked and measured under each scheme. Where objects can be held while they
//! are changed, a scheme is [`Guarded`], too. Here is also what schemes agree on: how an object
//! lies in its slot ([`Header`]), which slot sizes there are ([`Classes`]), how keys are hashed,
//! what can go wrong ([`Error`]), where objects lie in a pod ([`Geometry`]), and what is counted
//! ([`Stats`]).
//!
//! Left out: any protocol.

mod classes;
mod error;
mod evict;
mod guarded;
mod hash;
mod header;
mod layout;
mod options;
mod part;
mod reserving;
mod retry;
mod scheme;
mod stats;
mod transactional;
mod viewed;

pub use classes::{CHAIN, Classes, UNDIVIDED};
pub use error::Error;
pub use evict::{Eviction, EvictionPolicy, EvictionReason, Resident};
pub use guarded::{Guard, Guarded};
pub use hash::{KeyHasher, hash_key};
pub use header::{HEADER_BYTES, Header, MARK_BYTES, PREFIX_BYTES, object_bytes, object_bytes_of};
pub use layout::{
    AREA_VERSION, AreaOptions, Areas, CreateOptions, Geometry, MAX_PIN_WORDS, NOTE_WORDS, OBJECTS,
    ObjectArea, PAGES, create, create_areas, create_planned, plan_areas, plan_areas_beside,
    plan_created, plan_layout,
};
pub use options::{Options, RecordWidth, TornWrites};
pub use part::Part;
pub use reserving::{Reserving, Room};
pub use retry::{retry_spinning, retry_with_backoff};
pub use scheme::{Change, Item, Scheme, Usage, split};
pub use stats::{Counter, Counters, Stats};
pub use transactional::{Reads, Transactional, Writes};
pub use viewed::{View, Viewed};

/// The longest key.
pub const MAX_KEY_BYTES: usize = 1024;

/// Names the write that produced a value; no two writes in a pod share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version(pub u64);
