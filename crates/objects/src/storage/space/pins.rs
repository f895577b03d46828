//! Pins: a bit per host and chunk, in SCR, that keeps what lies in the chunk from being written
//! over.
//!
//! A host that views an object where it lies ([`View`](crate::View)) pins the chunks in which it
//! is, and *then* finds out whether the object is still there. A host that is about to store into a
//! slot looks at the pins *after* it has made sure that no new view can find the object there: it
//! holds the object's lock, or the log says that the object is gone. One of the two sees the other.
//!
//! The exemptions of a pinned chunk:
//! * Nobody changes an object there in place. Whole or in part, it is written elsewhere, and moves.
//! * A slot that its object leaves is reserved for nobody, and the chunk is taken by nobody, until
//!   the pins are off. From such a slot the header alone is taken, and of its line nothing else is
//!   touched.
//!
//! So nobody waits for who views: not writers, not deletions. All that a view costs others is room,
//! and a move for who would have written in place. Words are per chunk, and not per object, because
//! chunks can be told when they are taken, and large objects have chunks of their own. An object
//! that is moved because of its neighbour is out of the way from then on.
//!
//! A host that is fenced may still be looking at what it has pinned. So its pins stay until it is
//! gone, and who clears up takes them off.

use std::sync::atomic::{AtomicU32, Ordering};

use smallvec::SmallVec;
use tombolo_memory::{FetchOp, HostMutex, LINE_BYTES, Located, Memory, ScrAddr, prefetch};
use tombolo_sharing::{MAX_PIN_WORDS, ObjectArea};

use crate::{Error, sites};

/// Words whose views a host counts behind one lock: those of a line. An object in several chunks,
/// mostly in a row, takes one lock or two.
const TOGETHER: usize = LINE_BYTES as usize / size_of::<u64>();

/// The word of a chunk's pins.
#[derive(Clone, Copy)]
pub(crate) struct PinWord<'a, M: Memory>(M::Located<'a, u64>);

impl<M: Memory> PinWord<'_, M> {
    /// Whether somebody views an object in one of the chunks that share it.
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load() != 0
    }
}

/// All hosts' pins.
#[derive(Clone)]
pub(crate) struct PinTable<M> {
    memory: M,
    base: ScrAddr<u64>,
    words: u64,
}

impl<M: Memory> PinTable<M> {
    pub(crate) fn new(area: &ObjectArea<M>) -> Self {
        let (base, words) = (area.areas().pins, area.geometry().pin_words());
        Self { memory: area.memory().clone(), base, words }
    }

    /// Whether somebody views an object in this chunk, or in one that shares its word.
    #[inline]
    pub(crate) fn is_pinned(&self, chunk: u32) -> bool {
        self.of(chunk).is_set()
    }

    /// Where the pins of this chunk are.
    #[inline]
    pub(crate) fn of(&self, chunk: u32) -> PinWord<'_, M> {
        PinWord(self.memory.locate(self.at(word_of(chunk))))
    }

    /// Takes the pins of a host off that is gone.
    pub(crate) fn clear_of(&self, host: u8) {
        for word in (0..self.words).map(|number| self.at(number)) {
            if self.memory.load(word) & bit(host) != 0 && self.memory.keeps(sites::PIN_CLEAR) {
                self.memory.fetch(sites::PIN_ALONE, word, FetchOp::And, !bit(host));
            }
        }
    }

    /// Chunks, or the first ones of those that share their words, in which somebody views
    /// something.
    pub(crate) fn pinned(&self) -> Vec<u64> {
        (0..self.words).filter(|&number| self.memory.load(self.at(number)) != 0).collect()
    }

    /// The pod is being opened: nobody views anything.
    pub(crate) fn reset(&self) {
        (0..self.words).for_each(|number| self.memory.store(self.at(number), 0));
    }

    fn at(&self, number: u64) -> ScrAddr<u64> {
        self.base.element(number)
    }
}

/// The pins of one host, shared by its threads.
pub(crate) struct Pins<M: Memory> {
    pub(crate) table: PinTable<M>,
    host: u8,
    /// How many views each word's bit stands for.
    counts: Box<[HostMutex<M, [u32; TOGETHER]>]>,
    open: AtomicU32,
    most: u32,
}

impl<M: Memory> Pins<M> {
    pub(crate) fn new(area: &ObjectArea<M>, host: u8, most: u32) -> Self {
        let table = PinTable::new(area);
        let locks = (table.words as usize).div_ceil(TOGETHER);
        let counts = (0..locks).map(|_| HostMutex::<M, _>::new([0; TOGETHER])).collect();
        Self { table, host, counts, open: AtomicU32::new(0), most }
    }

    /// Pins chunks, until they are [let go](Self::unpin).
    ///
    /// # Errors
    /// [`Error::TooManyViews`].
    pub(crate) fn pin(&self, chunks: impl Iterator<Item = u32>) -> Result<Pinned, Error> {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::TooManyViews { most: self.most });
        }
        let mut words: SmallVec<[u16; 4]> = chunks.map(|chunk| word_of(chunk) as u16).collect();
        words.sort_unstable();
        words.dedup();
        self.count(&words, |count, at| {
            *count += 1;
            if *count == 1 {
                self.table.memory.fetch(sites::PIN_SET, at, FetchOp::Or, bit(self.host));
            }
        });
        Ok(Pinned { words })
    }

    /// Lets go of chunks that were pinned here.
    pub(crate) fn unpin(&self, Pinned { words }: &Pinned) {
        self.count(words, |count, at| {
            *count -= 1;
            if *count == 0 {
                self.table.memory.fetch(sites::PIN_ALONE, at, FetchOp::And, !bit(self.host));
            }
        });
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Has the processor fetch what it takes to pin a chunk.
    pub(crate) fn prefetch(&self, chunk: u32) {
        let word = word_of(chunk);
        prefetch(&self.counts[word as usize / TOGETHER]);
        self.table.memory.prefetch_word(self.table.at(word));
    }

    /// Views that are open.
    pub(crate) fn open(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    /// Changes how many views there are of each of these words, which are sorted, and perhaps its
    /// bit.
    fn count(&self, words: &[u16], change: impl Fn(&mut u32, ScrAddr<u64>)) {
        let lock_of = |word: &u16| usize::from(*word) / TOGETHER;
        for words in words.chunk_by(|a, b| lock_of(a) == lock_of(b)) {
            // The bit is on before any thread that counts on it goes on; so the mutex spans both.
            let mut counts = self.counts[lock_of(&words[0])].lock();
            for &word in words {
                change(&mut counts[usize::from(word) % TOGETHER], self.table.at(word.into()));
            }
        }
    }
}

/// The words of some chunks that are pinned.
pub(crate) struct Pinned {
    words: SmallVec<[u16; 4]>,
}

fn word_of(chunk: u32) -> u64 {
    u64::from(chunk) & (MAX_PIN_WORDS - 1)
}

fn bit(host: u8) -> u64 {
    1 << host
}
