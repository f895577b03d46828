//! Regions in mapped memory: processes that share pages.
//!
//! A process [joins](Regions::join) a pod, and then [creates](Regions::create) and
//! [opens](Regions::open) regions by name. A [`SharedRegion`] has one range of addresses. A page of
//! it is mapped only as far as the protocol allows; a touch that it does not allow waits until the
//! process's own thread has the right.

mod pod;
mod region;
mod view;
mod worker;

pub use pod::{create_pod, plan_pod};
pub use region::SharedRegion;
pub use worker::Regions;
