//! Floor 2: one host in a pod, and the tenants that it runs there.
//!
//! A [`Host`] is a process's place in a pod: one seat, one beat, one set of slots for mail, one
//! watch over the others' signs of life. A [`Tenant`] is what lives in an area: objects, pages,
//! HCMeta's objects. [`Host::attach`] brings a tenant up: it enrols in the area's roster, opens the
//! area if no living host takes part in it, and gets a snapshot of another host's replica
//! otherwise.
//!
//! Invariants:
//! * A host that is taken for dead is fenced as a whole: its seat first, and its entry in each
//!   roster.
//! * A tenant is ready only when it holds everything that its area held when it enrolled.
//! * The seat is given back when the last tenant has left. A fenced host says then that it is gone.
//! * A host gets one snapshot at a time, since it has one window for them.
//! * Each tenant has a thread of its own for its background work. So a tenant that waits for others
//!   keeps no other tenant of its host from answering them.
//!
//! Left out: what tenants do with their areas. All of this is off the fast path.

mod attach;
mod host;

pub use attach::{Joining, Tenant};
pub use host::{HOST_TIMEOUT, Host};
