//! The hosts of a database: how they come, see each other die, and leave.
//!
//! All hosts come before the first transaction, and each is home to a part of the rows. When a host
//! has died, no transaction goes on where its partitions were in its own memory: what they held is
//! in the logs. (Tigon paper, section 2.) Where nothing was in its memory alone, the others go on:
//! [`AfterDeath`].

mod attendant;
mod checkpoints;
mod engine;
mod homes;
pub mod limits;
mod pods;
mod setup;
mod spec_table;

pub use attendant::Attendant;
pub use checkpoints::{CheckpointError, Written, serve_part, write_checkpoint};
pub use engine::{DatabaseShape, EachVersion, EngineMetrics, Participation, PodEngine};
pub use homes::{AfterDeath, HomePlaces, Homes};
pub use pods::{join_pod, plan_pod, recreate_pod};
pub use setup::SetupError;
pub use spec_table::SpecTable;
