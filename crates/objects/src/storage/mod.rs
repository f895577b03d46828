//! The memory of objects in a pod, and a host's tables of it: no log, no other hosts.

pub(crate) mod copies;
pub(crate) mod dirty;
pub(crate) mod index;
pub(crate) mod intents;
pub(crate) mod partition;
pub(crate) mod poison;
pub(crate) mod records;
pub(crate) mod space;
