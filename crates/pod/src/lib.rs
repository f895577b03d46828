//! Floor 2: what a pod is, and which hosts are in it.
//!
//! [`Geometry`] plans where everything lies in SCR and LNR; [`Pod::format`] writes the format,
//! [`Pod::open`] verifies it. [`Pod::join`] takes one of the seats that the pod was made with, up to
//! [`MAX_HOSTS`]; [`Seat::leave`] gives it back. `docs/format.md` draws the bytes. [`create`] and [`open`] do so in mapped memory that a
//! [`PodSpec`] names. A [`Mailbox`] is how hosts ask each other for something.
//!
//! Invariants:
//! * A pod is known by UUID *and* incarnation: the incarnation grows with every host that joins, so
//!   no two stays of any host share one.
//! * Who comes or leaves does so by one compare-and-swap of the membership word; what seats' own
//!   words say follows from it. Exactly one host opens a closed pod, and exactly one, the last to
//!   leave, closes it.
//! * Nothing read from shared memory is used before it is checked.
//!
//! * A fenced host's seat is free only when the host is gone and cleared up after ([`fencing`]).
//!
//! Left out: what the areas hold, and so what there is to clear up. This crate knows no entries and no objects.

mod clock;
mod error;
pub mod fencing;
mod geometry;
mod mailbox;
mod mapped;
mod membership;
mod options;
mod sites;
mod superblock;
mod transfer;

pub use clock::PodClock;
pub use error::PodError;
pub use fencing::{Stay, Watch, fence_ended};
pub use geometry::{
    Areas, DEFAULT_HOSTS, Geometry, LogAreas, MAX_HOSTS, MAX_PIN_WORDS, MAX_SEGMENT_ENTRIES,
    NOTE_WORDS,
};
pub use mailbox::{MAX_ANSWER, Mailbox, PAYLOAD_BYTES, Reply, Request, Ticket};
pub use mapped::{CreateOptions, PodSpec, create, inspect, open, plan};
pub use membership::{Leave, Membership, Phase, Seat};
pub use options::{Options, RecordWidth, TornWrites};
pub use sites::ALL as SITES;
pub use superblock::{FORMAT_VERSION, Identity, Pod};
pub use transfer::{Giver, Taker};
pub use uuid::Uuid;
