//! Latches: words in SCR by which one thread of all hosts at a time admits a page.
//!
//! ```text
//! latch   0: free; otherwise the seat of the host whose thread has it, plus one
//! ```
//!
//! Latches of a host that died are freed by who clears up after it.
//!
//! Pages that share a latch wait for each other. A thread that has a latch may wait for objects'
//! locks, and never the other way round.

use tombolo_memory::{Memory, ScrAddr};
use tombolo_sharing::Scheme;

use crate::cache::{Backing, PageCache};
use crate::key::Key;
use crate::pages::{MemoryOf, Pages};
use crate::{Error, sites};

pub(crate) struct Latch<'a, M: Memory> {
    memory: &'a M,
    word: ScrAddr<u64>,
}

impl<P: Pages, B: Backing> PageCache<P, B> {
    pub(crate) fn latch_of(&self, key: Key) -> u64 {
        key.mixed() & (self.objects().area().geometry().latches - 1)
    }

    /// Takes a latch.
    ///
    /// # Errors
    /// [`Error::Stalled`].
    pub(crate) fn latch(&self, number: u64) -> Result<Latch<'_, MemoryOf<P>>, Error> {
        let memory = self.memory();
        let word = self.objects().area().areas().latches.element(number);
        let mine = self.seat() + 1;
        self.wait(|| {
            let found = memory.load(word);
            let taken =
                found == 0 && memory.compare_exchange(sites::LATCH_TAKE, word, 0, mine).is_ok();
            Ok(if taken { Ok(Latch { memory, word }) } else { Err(found.saturating_sub(1)) })
        })
    }
}

impl<M: Memory> Drop for Latch<'_, M> {
    fn drop(&mut self) {
        self.memory.store(self.word, 0);
    }
}
