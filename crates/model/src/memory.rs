//! One host's view of memory, for its threads under loom.
//!
//! At first everything is plain, so that one thread can set up a pod at no cost to the model. What
//! the threads share from then on is named by [`HostMemory::share`]: words of SCR become loom's
//! atomics, lines of LNR loom's cells, which fail on a data race. The rest is constant thereafter.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use loom::cell::Cell;
use loom::sync::atomic::{AtomicU64, Ordering};
use tombolo_memory::{
    ByAddress, FetchOp, LINE_BYTES, Lines, LnrAddr, Memory, Process, ScrAddr, Site, Whole, Word,
};

use crate::mutex::LoomMutex;
use crate::{steps, switches};

type LineBytes = [u8; LINE_BYTES as usize];

const ZEROS: LineBytes = [0; LINE_BYTES as usize];

/// The memory of a pod, as the threads of one host use it. Clones are of the same host.
#[derive(Clone)]
pub struct HostMemory {
    world: Rc<World>,
}

struct World {
    scr: RefCell<Vec<u64>>,
    lnr_bytes: u64,
    /// The lines that are not zero.
    lnr: RefCell<BTreeMap<u64, LineBytes>>,
    shared: OnceCell<Shared>,
}

struct Shared {
    words: BTreeMap<u64, AtomicU64>,
    lines: BTreeMap<u64, Cell<LineBytes>>,
}

impl HostMemory {
    /// Memory of zeros, nothing of it shared; made inside a model.
    pub fn new(scr_bytes: u64, lnr_bytes: u64) -> Self {
        let world = World {
            scr: RefCell::new(vec![0; (scr_bytes / 8) as usize]),
            lnr_bytes,
            lnr: RefCell::default(),
            shared: OnceCell::new(),
        };
        Self { world: Rc::new(world) }
    }

    /// Lets threads share these words and lines, as they are now; nothing else changes after this.
    ///
    /// # Panics
    /// The second time.
    pub fn share(&self, words: impl IntoIterator<Item = ScrAddr<u64>>, lines: Lines) {
        let scr = self.world.scr.borrow();
        let word = |at: ScrAddr<u64>| (at.offset(), AtomicU64::new(scr[at.offset() as usize / 8]));
        let line = |number: u64| (number, Cell::new(self.plain_line(number)));
        let shared = Shared {
            words: words.into_iter().map(word).collect(),
            lines: lines.numbers().map(line).collect(),
        };
        assert!(self.world.shared.set(shared).is_ok(), "memory is shared once");
    }

    fn shared_word<W: Word>(&self, at: ScrAddr<W>) -> Option<&AtomicU64> {
        let word = self.world.shared.get()?.words.get(&at.offset())?;
        switches::here();
        assert_eq!(size_of::<W>(), 8, "shared words have 64 bits");
        Some(word)
    }

    fn shared_line(&self, number: u64) -> Option<&Cell<LineBytes>> {
        self.world.shared.get()?.lines.get(&number)
    }

    fn plain_line(&self, number: u64) -> LineBytes {
        self.world.lnr.borrow().get(&number).copied().unwrap_or(ZEROS)
    }

    fn assert_plain(&self, what: impl std::fmt::Debug) {
        assert!(self.world.shared.get().is_none(), "{what:?} changes and was not shared");
    }

    fn peek<W: Word>(&self, at: ScrAddr<W>) -> W {
        W::from_bits(self.world.scr.borrow()[at.offset() as usize / 8] >> (at.offset() % 8 * 8))
    }

    fn poke<W: Word>(&self, at: ScrAddr<W>, value: W) {
        self.assert_plain(at);
        let shift = at.offset() % 8 * 8;
        let mask = u64::MAX >> (64 - 8 * size_of::<W>());
        let word = &mut self.world.scr.borrow_mut()[at.offset() as usize / 8];
        *word = *word & !(mask << shift) | value.to_bits() << shift;
    }
}

/// The pieces of a range of bytes that lie in one line each: line, offset in it, bytes before,
/// length.
fn pieces(start: LnrAddr, bytes: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    Lines::covering(start, bytes as u64).numbers().scan(0, move |done, line| {
        let offset = (start.plus(*done as u64).offset() % LINE_BYTES) as usize;
        let length = (LINE_BYTES as usize - offset).min(bytes - *done);
        let piece = (line, offset, *done, length);
        *done += length;
        Some(piece)
    })
}

impl Memory for HostMemory {
    type RawMutex = LoomMutex;
    type Located<'a, W: Word> = ByAddress<'a, Self, W>;
    type Prepared<'a> = Whole<'a>;

    fn scr_bytes(&self) -> u64 {
        self.world.scr.borrow().len() as u64 * 8
    }

    fn lnr_bytes(&self) -> u64 {
        self.world.lnr_bytes
    }

    fn locate<W: Word>(&self, at: ScrAddr<W>) -> Self::Located<'_, W> {
        ByAddress::new(self, at)
    }

    fn load<W: Word>(&self, at: ScrAddr<W>) -> W {
        match self.shared_word(at) {
            Some(word) => W::from_bits(word.load(Ordering::Acquire)),
            None => self.peek(at),
        }
    }

    fn store<W: Word>(&self, at: ScrAddr<W>, value: W) {
        match self.shared_word(at) {
            Some(word) => word.store(value.to_bits(), Ordering::Release),
            None => self.poke(at, value),
        }
    }

    fn compare_exchange<W: Word>(
        &self,
        _: Site,
        at: ScrAddr<W>,
        current: W,
        new: W,
    ) -> Result<W, W> {
        let Some(word) = self.shared_word(at) else {
            let found = self.peek(at);
            if found == current {
                self.poke(at, new);
            }
            return if found == current { Ok(found) } else { Err(found) };
        };
        let (current, new) = (current.to_bits(), new.to_bits());
        word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
            .map(W::from_bits)
            .map_err(W::from_bits)
    }

    fn fetch<W: Word>(&self, _: Site, at: ScrAddr<W>, op: FetchOp, operand: W) -> W {
        let applied = |bits| W::apply(op, W::from_bits(bits), operand).to_bits();
        let found = match self.shared_word(at) {
            Some(word) => {
                word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |bits| Some(applied(bits)))
            }
            None => {
                let found = self.peek(at).to_bits();
                self.poke(at, W::from_bits(applied(found)));
                Ok(found)
            }
        };
        W::from_bits(found.unwrap_or_else(|bits| bits))
    }

    fn read(&self, from: LnrAddr, into: &mut [u8]) {
        for (line, offset, done, length) in pieces(from, into.len()) {
            let bytes = match self.shared_line(line) {
                Some(cell) => cell.get(),
                None => self.plain_line(line),
            };
            into[done..done + length].copy_from_slice(&bytes[offset..offset + length]);
        }
    }

    fn write(&self, to: LnrAddr, bytes: &[u8]) {
        for (line, offset, done, length) in pieces(to, bytes.len()) {
            let piece = &bytes[done..done + length];
            match self.shared_line(line) {
                Some(cell) => {
                    let mut whole = cell.get();
                    whole[offset..offset + length].copy_from_slice(piece);
                    cell.set(whole);
                }
                None => {
                    self.assert_plain(to);
                    self.world.lnr.borrow_mut().entry(line).or_insert(ZEROS)
                        [offset..offset + length]
                        .copy_from_slice(piece);
                }
            }
        }
    }

    /// Nothing: one host's threads share its caches.
    fn clean(&self, _: Site, _: Lines) {}

    fn prepare<'a>(&'a self, value: Whole<'a>, _: bool) -> Whole<'a> {
        value
    }

    fn write_whole(&self, site: Site, values: &[Whole<'_>]) {
        Whole::write_all(self, site, values);
    }

    /// Nothing, as [`clean`](Self::clean).
    fn invalidate(&self, _: Site, _: Lines) {}

    fn pause(&self) {
        loom::thread::yield_now();
    }

    fn wall_clock_ms(&self) -> u64 {
        0
    }

    /// Time stands still: a wait without an end exceeds the model's steps, and is an error.
    fn uptime(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> u64 {
        0
    }

    fn process(&self) -> Process {
        Process::default()
    }

    fn has_ended(&self, _: Process) -> bool {
        false
    }

    fn keeps(&self, site: Site) -> bool {
        steps::keeps_site(site)
    }
}
