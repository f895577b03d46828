//! Floor 2: what a pod is, what lives in it, and which hosts are in it.
//!
//! A pod has *areas*: parts of SCR and of LNR in which one tenant lives each, as its directory
//! says. [`Layout`] plans where everything lies; [`Pod::format`] writes the format, [`Pod::open`]
//! verifies it. [`Pod::join`] takes one of the seats that the pod was made with, up to
//! [`MAX_HOSTS`]; [`Area::enrol`] takes part in an area; [`Enrolment::leave`] and [`Seat::leave`]
//! give both back. `docs/format.md` draws the bytes. [`create`] and [`open`] do so in mapped memory
//! that a [`PodSpec`] names. A [`Mailbox`] is how hosts ask each other for something.
//!
//! Invariants:
//! * No two stays of any hosts in a pod have one number.
//! * A host comes to an area, or leaves it, by one compare-and-swap of the roster's word; what the
//!   entries' own words say follows from it. Exactly one host opens a closed area, and exactly one,
//!   the last to leave, closes it.
//! * Nothing read from shared memory is used before it is checked.
//! * A fenced host's seat is another's only when the host is gone, and its entry in an area only
//!   when it is cleared up after there ([`fencing`]).
//!
//! Left out: what lies in the areas, and so what there is to clear up. This crate knows no entries
//! of a log and no objects.

mod area;
mod clock;
mod directory;
mod error;
pub mod fencing;
mod heap;
mod layout;
mod mailbox;
mod mapped;
mod qualification;
mod roster;
mod seats;
mod sites;
mod superblock;
mod transfer;
mod tried;

pub use area::Area;
pub use clock::{CLOCKS_AGREE_MS, Clocks, PodClock};
pub use error::PodError;
pub use fencing::{Stay, Watch};
pub use heap::{Heap, HeapPlaces};
pub use layout::{
    AreaLayout, AreaPlaces, AreaRequest, Budget, DEFAULT_HOSTS, Kind, Layout, LogOptions,
    LogPlaces, MAX_AREAS, MAX_HOSTS, MAX_SEGMENT_ENTRIES, OnDemand, PARAMETERS, PodOptions,
    Stretch, Table, power, power_of_two_within,
};
pub use mailbox::{MAX_ANSWER, MailSlots, Mailbox, PAYLOAD_BYTES, Reply, Request, Ticket};
pub use mapped::{Plan, PodSpec, Sizes, administer, create, inspect, open, plan};
pub use qualification::{
    DETAILS, Flaw, Qualification, RECORD_LINES, TRIED_LINES, TRIED_WORDS, Verdict,
};
pub use roster::{Enrolment, Leave, Membership, Phase};
pub use seats::{Seat, SeatState};
pub use sites::ALL as SITES;
pub use superblock::{FORMAT_VERSION, Identity, Pod};
pub use transfer::{Giver, Taker};
pub use tried::{TriedPlace, tried_memory};
pub use uuid::Uuid;
