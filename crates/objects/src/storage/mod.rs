//! What a pod's memory holds of objects, and what a host keeps of it: no log, no other hosts.

pub(crate) mod copies;
pub(crate) mod dirty;
pub(crate) mod index;
pub(crate) mod intents;
pub(crate) mod partition;
pub(crate) mod poison;
pub(crate) mod records;
pub(crate) mod space;
