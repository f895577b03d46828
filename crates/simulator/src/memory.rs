//! The simulator's [`Memory`]: every operation is a step of the adversary.

use std::rc::Rc;
use std::time::Duration;

use tombolo_memory::{FetchOp, LINE_BYTES, Lines, LnrAddr, Memory, ScrAddr, Site, Word};

use crate::mutex::SimRawMutex;
use crate::world::{Maintenance, Next, World};
use crate::{scheduler, sites};

/// One simulated host's view of the pod. Clones are threads of the same host.
#[derive(Clone)]
pub struct SimMemory {
    world: Rc<World>,
    host: usize,
}

impl SimMemory {
    pub(crate) fn new(world: Rc<World>, host: usize) -> Self {
        Self { world, host }
    }

    /// Which host this is, from 0.
    pub fn host(&self) -> usize {
        self.host
    }

    /// Lets simulated time pass.
    pub fn sleep(&self, time: Duration) {
        self.world.advance_clock(time);
        scheduler::switch();
    }

    fn step_of_adversary(&self) {
        if self.world.step() == Next::Switch {
            scheduler::switch();
        }
    }

    fn word_at<W: Word>(&self, at: ScrAddr<W>) -> std::ops::Range<usize> {
        let start = at.offset() as usize;
        let end = start + size_of::<W>();
        assert!(end as u64 <= self.world.config.scr_bytes, "{at:?} is outside SCR");
        start..end
    }

    fn peek<W: Word>(&self, at: ScrAddr<W>) -> W {
        let scr = self.world.scr.borrow();
        let mut bits = [0; 8];
        let bytes = &scr[self.word_at(at)];
        bits[..bytes.len()].copy_from_slice(bytes);
        W::from_bits(u64::from_le_bytes(bits))
    }

    fn poke<W: Word>(&self, at: ScrAddr<W>, value: W) {
        let range = self.word_at(at);
        let bytes = &value.to_bits().to_le_bytes()[..range.len()];
        self.world.scr.borrow_mut()[range].copy_from_slice(bytes);
    }

    /// Stores a word by writing all eight bytes around it back, as they were a step ago.
    fn poke_with_neighbours<W: Word>(&self, at: ScrAddr<W>, value: W) {
        let start = at.offset() / 8 * 8;
        let around = ScrAddr::<u64>::new(start);
        let mut bytes = self.peek(around).to_le_bytes();
        self.step_of_adversary();
        let within = (at.offset() - start) as usize;
        let new = &value.to_bits().to_le_bytes()[..size_of::<W>()];
        bytes[within..within + new.len()].copy_from_slice(new);
        self.poke(around, u64::from_le_bytes(bytes));
    }

    /// The pieces in which a copy of `bytes` bytes from `start` is made: (line, offset in it,
    /// offset in the buffer, length). One in eight is torn in two.
    fn pieces(&self, start: LnrAddr, bytes: usize) -> Vec<(u64, usize, usize, usize)> {
        let mut pieces = Vec::with_capacity(bytes / LINE_BYTES as usize + 2);
        let mut done = 0;
        while done < bytes {
            let at = start.plus(done as u64);
            let offset = (at.offset() % LINE_BYTES) as usize;
            let length = (LINE_BYTES as usize - offset).min(bytes - done);
            let dice = self.world.random();
            let length = if dice.is_multiple_of(8) && length > 1 {
                1 + (dice >> 8) as usize % (length - 1)
            } else {
                length
            };
            pieces.push((at.line(), offset, done, length));
            done += length;
        }
        pieces
    }
}

impl Memory for SimMemory {
    type RawMutex = SimRawMutex;

    fn scr_bytes(&self) -> u64 {
        self.world.config.scr_bytes
    }

    fn lnr_bytes(&self) -> u64 {
        self.world.config.lnr_bytes
    }

    fn load<W: Word>(&self, at: ScrAddr<W>) -> W {
        self.step_of_adversary();
        self.peek(at)
    }

    fn store<W: Word>(&self, at: ScrAddr<W>, value: W) {
        self.step_of_adversary();
        if self.keeps(sites::STORE_ALONE) {
            self.poke(at, value);
        } else {
            self.poke_with_neighbours(at, value);
        }
    }

    fn compare_exchange<W: Word>(&self, at: ScrAddr<W>, current: W, new: W) -> Result<W, W> {
        self.step_of_adversary();
        let found = self.peek(at);
        if found != current {
            return Err(found);
        }
        self.poke(at, new);
        Ok(found)
    }

    fn fetch<W: Word>(&self, at: ScrAddr<W>, op: FetchOp, operand: W) -> W {
        self.step_of_adversary();
        let found = self.peek(at);
        self.poke(at, W::apply(op, found, operand));
        found
    }

    fn read(&self, from: LnrAddr, into: &mut [u8]) {
        for (line, offset, done, length) in self.pieces(from, into.len()) {
            self.step_of_adversary();
            self.world.read_line(self.host, line, offset, &mut into[done..done + length]);
        }
    }

    fn write(&self, to: LnrAddr, bytes: &[u8]) {
        for (line, offset, done, length) in self.pieces(to, bytes.len()) {
            self.step_of_adversary();
            self.world.write_line(self.host, line, offset, &bytes[done..done + length]);
        }
    }

    fn clean(&self, site: Site, lines: Lines) {
        if self.keeps(site) {
            for line in lines.numbers() {
                self.step_of_adversary();
                self.world.maintain(self.host, line, Maintenance::Clean);
            }
        }
    }

    fn invalidate(&self, site: Site, lines: Lines) {
        if self.keeps(site) {
            for line in lines.numbers() {
                self.step_of_adversary();
                self.world.maintain(self.host, line, Maintenance::Invalidate);
            }
        }
    }

    fn pause(&self) {
        self.step_of_adversary();
        self.sleep(Duration::from_micros(1));
    }

    fn step(&self) {
        self.step_of_adversary();
    }

    fn wall_clock_ms(&self) -> u64 {
        self.world.wall_clock_ms(self.host)
    }

    fn uptime(&self) -> Duration {
        self.world.uptime()
    }

    fn random(&self) -> u64 {
        self.world.random()
    }

    fn keeps(&self, site: Site) -> bool {
        self.world.keeps(site)
    }
}
