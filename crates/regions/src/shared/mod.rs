//! Regions in a pod: hosts that share pages by the protocol, as a tenant of the pod.
//!
//! [`RegionHost`] is a host's part: the directory of regions, and what hosts agree on in SCR. A
//! [`Keeper`] is the thread that serves touches, answers other hosts, changes modes, and clears up
//! after hosts that have died. It is written over [`Memory`](tombolo_memory::Memory) and a
//! [`View`], so the simulator runs it too.
//!
//! Invariants:
//! * One thread of a host takes all steps of the protocol, and answers a question without a step of
//!   another machine in between. So a question of a host that has died meanwhile does no harm.
//! * A page of a host that has died is another's only when that host is known to be gone.
//! * A page that a dead host alone had written is lost: a touch of it is an error.

mod back;
mod directory;
mod error;
mod keeper;
mod layout;
mod member;
mod sweep;
mod table;

pub use back::{Extent, Touched, View};
pub use directory::{BlockStats, RegionEntry};
pub use error::RegionError;
pub use keeper::Keeper;
pub use layout::{KIND, MAX_NAME_BYTES, MAX_REGIONS, PROGRAM_WORDS, Places, Shape, VERSION};
pub use member::RegionHost;
