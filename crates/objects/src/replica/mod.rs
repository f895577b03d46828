//! A host's replica of what the log drives: the index, and what follows from it for slots and
//! records.

pub(crate) mod apply;
pub(crate) mod event;
pub(crate) mod snapshot;

use tombolo_log::Replica;

use crate::replica::apply::Replicated;

/// A host's replica of what one shard of the log drives.
pub(crate) type Shard<M> = Replica<M, Replicated<M>>;
