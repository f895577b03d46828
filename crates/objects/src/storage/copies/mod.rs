//! Where a host keeps copies of objects, in its own memory.

#[cfg(all(test, loom))]
mod models;
mod ring;

pub(crate) use self::ring::{Copies, CopyContents, lines};
