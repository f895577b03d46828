//! Objects that are lost with a host.

use tombolo_memory::Memory;
use tombolo_pod::Stay;
use tombolo_sharing::Counter;

use crate::ids::LostTo;
use crate::replica::event::{Event, target};
use crate::storage::index::Entry;
use crate::{Error, Objects};

impl<M: Memory> Objects<M> {
    /// Objects in a fenced host's own memory are lost.
    pub(crate) fn lose_partition(&self, stay: Stay) -> Result<(), Error> {
        self.in_partition_of(stay).try_for_each(|entry| self.lose(entry, stay).map(drop))
    }

    /// Objects in a host's own memory, as far as this replica knows.
    pub(crate) fn in_partition_of(&self, stay: Stay) -> impl Iterator<Item = Entry> {
        self.shards().iter().flat_map(move |shard| {
            shard.paused(|_, _, state, _| -> Vec<Entry> {
                if state.in_partition(stay.host) == 0 {
                    return Vec::new();
                }
                state.index.entries().filter(|entry| entry.partition() == Some(stay.host)).collect()
            })
        })
    }

    pub(crate) fn lose(&self, entry: Entry, stay: Stay) -> Result<bool, Error> {
        let lost =
            self.commit(Event::Lose { target: target(entry), to: LostTo::Host(stay.host) })?;
        if lost {
            self.count(Counter::Lost);
            self.upkeep.cleanups.note(stay, |cleanup| cleanup.lost += 1);
        }
        Ok(lost)
    }

    /// An object that a host had locked, or in its own memory, goes on without that host.
    pub(crate) fn rescued_from(&self, stay: Stay) {
        self.count(Counter::Rescues);
        self.upkeep.cleanups.note(stay, |cleanup| cleanup.whole += 1);
    }
}
