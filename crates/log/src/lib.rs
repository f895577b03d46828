//! Floor 2: the shared log. It orders the changes to state of which every host keeps a replica.
//!
//! An entry is one line in LNR. A host writes it into its own segment, cleans it, and then *orders*
//! it by one compare-and-swap of an 8-byte word in a ring in SCR, together with what other threads
//! of the host have written meanwhile ([`Ring`]). A [`Replica`] applies the entries in order and
//! tells the committer what became of its own. (MEGALON, section 3.3, reserves a place first and
//! writes the entry after; an entry that is whole before it is ordered leaves no holes when a host
//! stalls or dies.)
//!
//! The log may be split into *shards*: logs of their own, with tails, rings and segments of their
//! own, between which nothing is ordered. Entries that must be ordered have to be in one shard.
//!
//! Invariants, of each shard:
//! * From any position that was ordered, and is still needed, words lead to the log's end, its
//!   *tail*; the entries they name are in memory.
//! * A place of the ring, and of a segment, is reused only when every member has applied what it
//!   held.
//! * A word is judged by the position it carries, never by whether it is zero.
//! * Applying is deterministic: equal positions mean equal replicas.
//! * A fenced host is not waited for. Entries that it orders after its *fence*, an entry, have no
//!   effect. It finds out before it applies anything that may have been overwritten.
//!
//! Left out: the meaning of entries.

mod entry;
mod error;
#[cfg(all(test, loom))]
mod models;
mod replica;
mod ring;
mod scan;
mod segment;
mod sites;
mod sync;

pub use entry::{Entry, PAYLOAD_BYTES};
pub use error::LogError;
pub use replica::{Fences, Replica, State};
pub use ring::{End, Ring};
pub use scan::scan;
pub use sites::ALL as SITES;
