//! [`Memory`] in virtual time.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use rand::Rng;
use tombolo_memory::{
    ByAddress, FetchOp, LINE_BYTES, Lines, LnrAddr, Local, Memory, Process, ScrAddr, Site, Whole,
    Word, Work,
};

use crate::cache::{Line, Region};
use crate::mutex::TimedRawMutex;
use crate::world::{State, World};

/// A store that a cache takes at once.
const STORE_PS: u64 = 500;

/// The time of a pause in a pod that is being set up.
const UNTIMED_PAUSE_PS: u64 = 1_000_000;

/// When pods are set up: some day in 2026.
const EPOCH_MS: u64 = 1_780_000_000_000;

/// One host's view of a pod in virtual time. Clones are threads of the same host.
#[derive(Clone)]
pub struct TimedMemory {
    world: Rc<World>,
    host: usize,
}

impl TimedMemory {
    pub(crate) fn new(world: Rc<World>, host: usize) -> Self {
        Self { world, host }
    }

    /// Which host this is, from 0.
    pub fn host(&self) -> usize {
        self.host
    }

    fn scr_line<W: Word>(at: ScrAddr<W>) -> Line {
        Line::new(Region::Scr, at.offset() / LINE_BYTES)
    }

    /// Changes a word by `change`, in one step; returns the word before.
    #[inline]
    fn modify<W: Word>(&self, at: ScrAddr<W>, change: impl FnOnce(W) -> Option<W>) -> W {
        let mut state = self.world.in_turn();
        let found = state.word(at.offset());
        if let Some(new) = change(found) {
            state.set_word(at.offset(), new);
        }
        if state.timed {
            let (here, pending) = (state.here(), state.thread().pending);
            let begins = state.now.max(pending);
            let takes = state.machine.access_word(here, Self::scr_line(at), true, begins);
            state.now = begins + takes + state.costs.atomic;
        }
        found
    }

    fn check(&self, start: LnrAddr, bytes: u64) {
        let end = start.offset().checked_add(bytes);
        let within = end.is_some_and(|end| end <= self.world.lnr_bytes);
        assert!(within, "{bytes} bytes at {start:?} are outside LNR");
    }

    /// Completes all earlier stores, and then does `then`.
    fn fenced(&self, then: impl FnOnce(&mut State)) {
        let mut state = self.world.in_turn();
        if state.timed {
            let pending = state.thread().pending;
            state.now = state.now.max(pending);
            then(&mut state);
        }
    }
}

fn lnr_lines(lines: Lines) -> impl Iterator<Item = Line> + Clone {
    lines.numbers().map(|number| Line::new(Region::Lnr, number))
}

impl Memory for TimedMemory {
    type RawMutex = TimedRawMutex;
    type Located<'a, W: Word> = ByAddress<'a, Self, W>;
    type Prepared<'a> = Whole<'a>;

    fn scr_bytes(&self) -> u64 {
        self.world.scr_bytes
    }

    fn lnr_bytes(&self) -> u64 {
        self.world.lnr_bytes
    }

    fn locate<W: Word>(&self, at: ScrAddr<W>) -> Self::Located<'_, W> {
        ByAddress::new(self, at)
    }

    #[inline]
    fn load<W: Word>(&self, at: ScrAddr<W>) -> W {
        let mut state = self.world.in_turn();
        if state.timed {
            let (here, now) = (state.here(), state.now);
            state.now += state.machine.access_word(here, Self::scr_line(at), false, now);
        }
        state.word(at.offset())
    }

    #[inline]
    fn store<W: Word>(&self, at: ScrAddr<W>, value: W) {
        let mut state = self.world.in_turn();
        state.set_word(at.offset(), value);
        if state.timed {
            let (here, pending) = (state.here(), state.thread().pending);
            // Stores take effect in order.
            let begins = state.now.max(pending);
            let takes = state.machine.access_word(here, Self::scr_line(at), true, begins);
            state.thread().pending = begins + takes;
            state.now += STORE_PS;
        }
    }

    fn compare_exchange<W: Word>(
        &self,
        _: Site,
        at: ScrAddr<W>,
        current: W,
        new: W,
    ) -> Result<W, W> {
        let found = self.modify(at, |found| (found == current).then_some(new));
        if found == current { Ok(found) } else { Err(found) }
    }

    fn fetch<W: Word>(&self, _: Site, at: ScrAddr<W>, op: FetchOp, operand: W) -> W {
        self.modify(at, |found| Some(W::apply(op, found, operand)))
    }

    fn read(&self, from: LnrAddr, into: &mut [u8]) {
        self.check(from, into.len() as u64);
        let lines = Lines::covering(from, into.len() as u64);
        let mut state = self.world.in_turn();
        if state.timed {
            let (here, now) = (state.here(), state.now);
            state.now = state.machine.read(here, lnr_lines(lines), now);
        } else {
            state.machine.touch(self.host, lines.numbers());
        }
        state.lnr.read(from.offset(), into);
    }

    fn write(&self, to: LnrAddr, bytes: &[u8]) {
        self.check(to, bytes.len() as u64);
        let lines = Lines::covering(to, bytes.len() as u64);
        let mut state = self.world.in_turn();
        if state.timed {
            let (here, now) = (state.here(), state.now);
            let (goes_on, done) = state.machine.write(here, lnr_lines(lines), now);
            state.now = goes_on;
            let thread = state.thread();
            thread.pending = thread.pending.max(done);
        } else {
            state.machine.touch(self.host, lines.numbers());
        }
        state.lnr.write(to.offset(), bytes);
    }

    fn clean(&self, site: Site, lines: Lines) {
        self.clean_all(site, [lines]);
    }

    fn prepare<'a>(&'a self, value: Whole<'a>, _: bool) -> Whole<'a> {
        value
    }

    fn write_whole(&self, site: Site, values: &[Whole<'_>]) {
        Whole::write_all(self, site, values);
    }

    fn clean_all(&self, _: Site, lines: impl IntoIterator<Item = Lines>) {
        self.fenced(|state| {
            let (here, now) = (state.here(), state.now);
            let numbers = lines.into_iter().flat_map(Lines::numbers);
            state.now = state.machine.clean(here, numbers, now);
        });
    }

    fn invalidate(&self, _: Site, lines: Lines) {
        self.fenced(|state| {
            let (here, now) = (state.here(), state.now);
            state.now = state.machine.invalidate(here, lines.numbers(), now);
        });
    }

    fn pause(&self) {
        self.back_off(1);
    }

    fn back_off(&self, pauses: u32) {
        let mut state = self.world.state();
        let timed = u64::from(pauses) * state.costs.pause;
        state.now += if state.timed { timed } else { UNTIMED_PAUSE_PS };
        drop(state);
        tombolo_coroutines::suspend();
    }

    fn sleep(&self, time: Duration) {
        self.world.state().now += time.as_nanos() as u64 * 1000;
        tombolo_coroutines::suspend();
    }

    fn wall_clock_ms(&self) -> u64 {
        EPOCH_MS + self.world.state().now / 1_000_000_000
    }

    fn uptime(&self) -> Duration {
        Duration::from_nanos(self.world.state().now / 1000)
    }

    fn random(&self) -> u64 {
        self.world.state().dice.next_u64()
    }

    fn process(&self) -> Process {
        Process { id: self.host as u64 + 1, ..Process::default() }
    }

    fn has_ended(&self, _: Process) -> bool {
        false
    }

    #[inline]
    fn works(&self, work: Work) {
        let mut state = self.world.state();
        if state.timed {
            state.now += state.costs.work[work as usize];
        }
    }

    #[inline]
    fn touches(&self, what: Local, write: bool, lines: impl FnOnce() -> Range<u64>) {
        let mut state = self.world.state();
        if !state.timed {
            return;
        }
        let lines = lines().map(|line| Line::new(Region::Local, (what as u64) << 40 | line));
        let (here, now) = (state.here(), state.now);
        state.now = if write {
            state.machine.write(here, lines, now).0
        } else {
            state.machine.read(here, lines, now)
        };
    }
}
