//! Floor 3: millions of objects shared by the hosts of a pod (MEGALON).
//!
//! Objects' bytes, keys included, lie in LNR. Every host has a replica of the index, which says for
//! each object in which slot it lies and which coherence record in SCR it has, if any; the shared
//! log keeps the replicas equal (section 3.3 of the paper). An object that is only read needs no
//! record; the first write allocates one, and records that are little used are taken back
//! (section 3.4.1).
//!
//! **Dual-path coherence** (section 3.4.3), in two rules:
//! * A read that finds nothing changed, neither the entry's generation nor the record's counter,
//!   from before the copy to after it, has copied one version. Every event about an object starts a
//!   new generation; every write moves the counter by two, and makes it odd meanwhile.
//! * A host's own caches may be trusted for an object only as of a generation and counter at which
//!   it has read all of it. Otherwise the lines are dropped, *after* the counter was loaded. (The
//!   paper flushes at every event, on every host; here an event costs a host that never reads the
//!   object nothing.)
//!
//! Further invariants:
//! * A host that changes or frees an object's slot or record holds the record's lock, if there is
//!   one; without a record, an event that is conditional on the generation decides.
//! * A host that takes a lock applies the log and looks at the entry again before it touches
//!   anything.
//! * A host that stores into a slot has made sure that no host views what lies there ([`View`]), or
//!   will.
//! * Every way out of a write cleans what was written, and only then releases the lock.
//! * Equal hashes are settled by comparing keys. No length found in LNR is used before it is
//!   checked against the slot, and no value is handed out before its read is validated.
//!
//! * A host that was fenced changes nothing that others use: its events have no effect, its locks
//!   are taken over, and slots into which it may still write are nobody's until it is gone.
//!
//! Left out: what keys and values mean.

mod api;
mod error;
mod host;
mod ids;
mod lifecycle;
mod placement;
mod read;
mod recovery;
mod replica;
pub mod saved;
mod sites;
mod storage;
mod sync;
mod transaction;
mod upkeep;
mod write;

pub use host::cleanups::Cleanup;
pub use host::upkeep::Maintenance;
pub use host::{Locks, Objects, Options};
pub use lifecycle::join::Setup;
pub use lifecycle::offline::{Findings, check, poisoned_chunks};
pub use lifecycle::salvage::{CrashRecovery, Orphans};
pub use read::guard::ReadGuard;
pub use read::view::{View, ViewBy};
pub use sites::ALL as SITES;
pub use storage::index::IndexLimits;
pub use storage::space::census::{Census, SlotSize, census};
pub use storage::space::map::{Chunk, ChunkUse};
pub use tombolo_host::{HOST_TIMEOUT, Host};
pub use tombolo_placement::{BreakEven, Costs, Place, Placement, Profile, Recency, Thresholds};
pub use tombolo_sharing::{
    Change, Error, Eviction, Item, MAX_KEY_BYTES, Reads, Resident, Scheme, Stats, Transactional,
    Usage, Version, Writes,
};
pub use upkeep::write_back::WriteBack;
pub use write::guard::WriteGuard;
pub use write::reservation::{Reservation, ReservationBy};
