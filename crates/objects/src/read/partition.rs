//! Reading an object in this host's own memory.

use tombolo_memory::{LINE_BYTES, Local, Memory};
use tombolo_sharing::{Counter, Header, Part};

use crate::host::lookup::Attempt;
use crate::storage::index::{Entry, Found};
use crate::storage::partition::Hold;
use crate::{Error, Objects, sites};

impl<M: Memory> Objects<M> {
    /// Takes hold of the object with this entry in this host's memory, if it has `key` and nobody
    /// else is at it.
    pub(crate) fn reach(&self, entry: Entry, key: &[u8]) -> Attempt<(Hold<M>, Header)> {
        self.memory().step();
        let hold = self.partition.entry(entry.slot).and_then(|entry| entry.try_lock_arc());
        let Some(mut hold) = hold else { return Attempt::Changed };
        let same = hold.here.is_some_and(|here| here.generation == entry.generation);
        let (true, Some(header)) = (self.memory().check(sites::PARTITION_HERE, same), hold.header)
        else {
            return Attempt::Changed;
        };
        if hold.key != key {
            return Attempt::OtherKey;
        }
        hold.accesses += 1;
        hold.busy = true;
        self.memory().touches(Local::Objects, false, || {
            entry.slot..entry.slot + (hold.value.len() as u64).div_ceil(LINE_BYTES)
        });
        Attempt::Good((hold, header))
    }

    /// Reads part of an object in this host's memory.
    pub(crate) fn read_in_partition(
        &self,
        found: &Found<'_>,
        key: &[u8],
        part: Part,
        value: &mut Vec<u8>,
    ) -> Result<Attempt<Header>, Error> {
        let attempt = self.reach(found.entry, key).map(|(hold, header)| {
            self.count(Counter::PartitionReads);
            if let Ok((offset, bytes)) = part.of(hold.value.len() as u64) {
                value.clear();
                value.extend_from_slice(&hold.value[offset as usize..][..bytes as usize]);
            }
            header
        });
        self.holds_seat().map(|()| attempt)
    }

    /// Whether what was done in this host's own memory counts: if the host has not been fenced by
    /// now.
    pub(crate) fn holds_seat(&self) -> Result<(), Error> {
        if self.enrolment.holds(self.memory()) { Ok(()) } else { Err(self.is_fenced()) }
    }
}
