//! Keeping copies.

use tombolo_memory::Memory;
use tombolo_sharing::Header;

use crate::Objects;
use crate::read::Started;
use crate::storage::copies::Contents;
use crate::storage::index::{Entry, Found};

impl<M: Memory> Objects<M> {
    /// Keeps what a good read of a whole object has found.
    pub(crate) fn keep_copy(
        &self,
        found: &Found<'_>,
        started: &Started,
        header: Header,
        key: &[u8],
        value: &[u8],
    ) {
        let Some(copies) = &self.copies else { return };
        let Entry { hash, generation, .. } = started.entry;
        let counter = started.counter;
        let contents = Contents { hash, generation, counter, header, key, value };
        copies.keep(self.memory(), found, &contents, |hash| &self.state(hash).index);
    }
}
