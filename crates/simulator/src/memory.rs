//! The simulator's [`Memory`]: every operation is a step of the adversary.

use std::cell::RefMut;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use tombolo_memory::{
    ByAddress, FetchOp, LINE_BYTES, Lines, LnrAddr, Memory, Moment, Process, ScrAddr, Site, Whole,
    Word,
};

use crate::adversary::Point;
use crate::lnr::{Issued, Maintenance, numbers};
use crate::mutex::SimRawMutex;
use crate::state::{Decided, State};
use crate::world::World;
use crate::{running, sites};

/// The byte that is found behind written bytes, where nothing else is.
const GARBAGE: u8 = 0xA5;

/// One simulated host's view of the pod. Clones are threads of the same host.
#[derive(Clone)]
pub struct SimMemory {
    world: Rc<World>,
    host: usize,
    /// Which of the host's lives.
    life: u32,
}

impl SimMemory {
    pub(crate) fn new(world: Rc<World>, host: usize) -> Self {
        let life = world.state().lives[host];
        Self { world, host, life }
    }

    /// Which host this is, from 0.
    pub fn host(&self) -> usize {
        self.host
    }

    /// Lets simulated time pass.
    #[track_caller]
    pub fn sleep(&self, time: Duration) {
        let mut state = self.world.state();
        state.scr.drain(self.host);
        state.advance_clock(time);
        drop(state);
        running::wait(&self.world, Location::caller());
    }

    /// Makes everything that this host has stored visible: as it is when a client has got its
    /// answer, by whatever means.
    pub fn answered(&self) {
        let mut state = self.world.state();
        state.scr.drain(self.host);
        state.progress();
    }

    /// These lines cannot be read from memory any more.
    pub fn poison(&self, lines: Lines) {
        let mut state = self.world.state();
        numbers(lines).for_each(|line| state.lnr.poison(line));
        state.changed();
        drop(state);
        self.note("memory was poisoned");
    }

    /// No memory is behind these lines until a host populates them.
    pub fn leave_holes(&self, lines: Lines) {
        let mut state = self.world.state();
        let origin = state.origin(self.host, Location::caller());
        numbers(lines).for_each(|line| state.lnr.leave_hole(line, origin));
    }

    /// This host's caches come to lose these lines.
    pub fn evict(&self, lines: Lines) {
        let mut state = self.world.state();
        let step = state.steps;
        numbers(lines).for_each(|line| _ = state.lnr.evict(self.host, line, step));
    }

    /// Notes that something rare was met.
    pub fn note(&self, what: &'static str) {
        self.world.trial.note(what);
    }

    /// How many hosts have died so far.
    pub fn deaths(&self) -> u32 {
        self.world.state().lives.iter().sum()
    }

    /// A step of the adversary, after which the operation takes effect; not at all if the host is
    /// dead, or the thread is being unwound.
    #[track_caller]
    fn enter(&self, point: Point) -> Option<RefMut<'_, State>> {
        let at = Location::caller();
        let mut state = self.world.state();
        if self.is_dead(&state) {
            drop(state);
            running::die();
            return None;
        }
        state.decided = Decided::default();
        self.world.decide(&mut state, point, at);
        if state.next.is_some() {
            let decided = state.decided;
            drop(state);
            running::switch();
            state = self.world.state();
            state.decided = decided;
        }
        if self.is_dead(&state) {
            drop(state);
            running::die();
            return None;
        }
        Some(state)
    }

    fn come_to(&self, site: Site) {
        self.world.come_to(&mut self.world.state(), site);
    }

    fn is_dead(&self, state: &State) -> bool {
        self.life != state.lives[self.host] || (state.disturbed && std::thread::panicking())
    }

    #[track_caller]
    fn tell(&self, state: &State, what: impl FnOnce() -> String) {
        if self.world.trial.record {
            let origin = state.origin(self.host, Location::caller());
            self.world.trial.observed().timeline.operation(origin, what());
        }
    }

    /// Stores a word by writing all eight bytes around it back, as they were a step ago.
    #[track_caller]
    fn store_with_neighbours<W: Word>(&self, at: ScrAddr<W>, value: W) {
        let start = at.offset() / 8 * 8;
        let around = ScrAddr::<u64>::new(start);
        let mut bytes = self.load(around).to_le_bytes();
        if !self.world.config.platform.narrow_stores {
            self.let_others();
        }
        let within = (at.offset() - start) as usize;
        let new = &value.to_bits().to_le_bytes()[..size_of::<W>()];
        bytes[within..within + new.len()].copy_from_slice(new);
        if let Some(mut state) = self.enter(Point::Scr(start)) {
            state.scr.store(self.host, around, u64::from_le_bytes(bytes), false);
        }
    }

    /// Changes a word by `change`, in one step unless `site` is left out.
    #[track_caller]
    fn modify<W: Word>(
        &self,
        site: Site,
        at: ScrAddr<W>,
        change: impl Fn(W) -> Option<W>,
    ) -> Option<W> {
        self.come_to(site);
        let mut state = self.enter(Point::Scr(at.offset()))?;
        state.scr.drain(self.host);
        let found = state.scr.load(self.host, at);
        let Some(new) = change(found) else {
            self.world.cross(site, true, false);
            return Some(found);
        };
        self.world.cross(site, false, false);
        if !self.world.config.platform.atomics {
            drop(state);
            self.let_others();
            state = self.enter(Point::Scr(at.offset()))?;
        } else if !self.world.keeps(site) {
            drop(state);
            state = self.enter(Point::Scr(at.offset()))?;
        }
        if state.scr.store(self.host, at, new, false) {
            state.changed();
        }
        self.tell(&state, || {
            format!("{}: {:#x} -> {:#x}", self.word(at), found.to_bits(), new.to_bits())
        });
        Some(found)
    }

    /// Copies `bytes` bytes from `start` on, line by line, and where the adversary tears a line,
    /// piece by piece.
    #[track_caller]
    fn pieces(
        &self,
        start: LnrAddr,
        bytes: usize,
        mut copy: impl FnMut(&mut State, u32, usize, std::ops::Range<usize>),
    ) {
        let mut done = 0;
        while done < bytes {
            let at = start.plus(done as u64);
            let (line, offset) = (at.line() as u32, (at.offset() % LINE_BYTES) as usize);
            let rest = (LINE_BYTES as usize - offset).min(bytes - done);
            let Some(mut state) = self.enter(Point::Line(line)) else { return };
            let torn = state.decided.tear.take().map(usize::from).filter(|&torn| torn < rest);
            let length = torn.unwrap_or(rest);
            copy(&mut state, line, offset, done..done + length);
            done += length;
        }
    }

    /// A step of the platform that is two, between which others have their turn.
    #[track_caller]
    fn let_others(&self) {
        running::wait(&self.world, Location::caller());
    }

    #[track_caller]
    fn maintain(&self, site: Site, lines: Lines, what: Maintenance) {
        self.come_to(site);
        if !self.world.keeps(site) {
            self.world.cross(site, false, true);
            return;
        }
        let mut mattered = false;
        for line in numbers(lines) {
            let Some(mut state) = self.enter(Point::Issue(line)) else { return };
            let issued = Issued { host: self.host, thread: state.current as u16, line, what };
            if state.decided.defer || !self.world.keeps_fence(site) {
                state.lnr.issued.push(issued);
            } else {
                mattered |= state.complete(issued);
            }
            self.tell(&state, || {
                format!("{}s {}", what.name(), self.world.config.places.line(line))
            });
        }
        if lines.count() == 0 || !self.world.keeps_fence(site) {
            self.world.cross(site, false, true);
            return;
        }
        let Some(mut state) = self.enter(Point::Fence) else { return };
        mattered |= state.fence(what);
        if what == Maintenance::Invalidate {
            state.scr.drain(self.host);
        }
        self.world.cross(site, mattered, true);
    }

    fn word<W: Word>(&self, at: ScrAddr<W>) -> String {
        self.world.config.places.word(at.offset())
    }

    fn is_contended(&self, line: u32) -> bool {
        let contended = &self.world.config.contended;
        contended.iter().any(|lines| lines.numbers().contains(&u64::from(line)))
    }
}

impl Memory for SimMemory {
    type RawMutex = SimRawMutex;
    type Located<'a, W: Word> = ByAddress<'a, Self, W>;
    type Prepared<'a> = Whole<'a>;

    fn scr_bytes(&self) -> u64 {
        self.world.config.scr_bytes
    }

    fn lnr_bytes(&self) -> u64 {
        self.world.config.lnr_bytes
    }

    fn locate<W: Word>(&self, at: ScrAddr<W>) -> Self::Located<'_, W> {
        ByAddress::new(self, at)
    }

    fn load<W: Word>(&self, at: ScrAddr<W>) -> W {
        let Some(mut state) = self.enter(Point::Scr(at.offset())) else {
            return self.world.state().scr.load(self.host, at);
        };
        let found = state.scr.load(self.host, at);
        self.tell(&state, || format!("{} is {:#x}", self.word(at), found.to_bits()));
        found
    }

    fn store<W: Word>(&self, at: ScrAddr<W>, value: W) {
        if size_of::<W>() < 8 {
            self.come_to(sites::STORE_ALONE);
            self.world.cross(sites::STORE_ALONE, false, false);
            let alone = self.world.config.platform.narrow_stores;
            if !alone || !self.world.keeps(sites::STORE_ALONE) {
                return self.store_with_neighbours(at, value);
            }
        }
        let Some(mut state) = self.enter(Point::Store(at.offset())) else { return };
        let hold = state.decided.hold;
        if state.scr.store(self.host, at, value, hold) {
            state.changed();
        }
        self.tell(&state, || format!("{} = {:#x}", self.word(at), value.to_bits()));
    }

    fn compare_exchange<W: Word>(
        &self,
        site: Site,
        at: ScrAddr<W>,
        current: W,
        new: W,
    ) -> Result<W, W> {
        let found = self.modify(site, at, |found| (found == current).then_some(new));
        match found {
            Some(found) if found != current => Err(found),
            // A dead host may believe what it likes.
            _ => Ok(current),
        }
    }

    fn fetch<W: Word>(&self, site: Site, at: ScrAddr<W>, op: FetchOp, operand: W) -> W {
        let found = self.modify(site, at, |found| Some(W::apply(op, found, operand)));
        found.unwrap_or(operand)
    }

    fn read(&self, from: LnrAddr, into: &mut [u8]) {
        let at = Location::caller();
        self.pieces(from, into.len(), |state, line, offset, range| {
            let stale = state.lnr.read(self.host, line, offset, &mut into[range]);
            if let Some((since, by)) = stale {
                state.note_stale(line, since, by);
            }
            if self.world.trial.record {
                let said = if stale.is_some() { " (stale)" } else { "" };
                let origin = state.origin(self.host, at);
                let mut observed = self.world.trial.observed();
                observed.timeline.operation(
                    origin,
                    format!("reads {}{said}", self.world.config.places.line(line)),
                );
            }
        });
    }

    fn write(&self, to: LnrAddr, bytes: &[u8]) {
        let at = Location::caller();
        self.pieces(to, bytes.len(), |state, line, offset, range| {
            let origin = state.origin(self.host, at);
            if !self.is_contended(line) {
                self.world.judge(state.lnr.may_write(line, origin, self.life));
            }
            // No store of this host passes another.
            state.scr.drain(self.host);
            state.lnr.write(line, offset, &bytes[range], origin);
            state.changed();
            if self.world.trial.record {
                let mut observed = self.world.trial.observed();
                observed
                    .timeline
                    .operation(origin, format!("writes {}", self.world.config.places.line(line)));
            }
        });
    }

    fn write_all<'a>(&self, writes: impl Iterator<Item = (LnrAddr, &'a [u8])> + Clone) {
        for (to, bytes) in writes {
            let end = to.offset() + bytes.len() as u64;
            let mut padded = bytes.to_vec();
            padded.resize((end.next_multiple_of(LINE_BYTES) - to.offset()) as usize, GARBAGE);
            self.write(to, &padded);
        }
    }

    fn clean(&self, site: Site, lines: Lines) {
        self.maintain(site, lines, Maintenance::Clean);
    }

    fn prepare<'a>(&'a self, value: Whole<'a>, _: bool) -> Whole<'a> {
        value
    }

    fn write_whole(&self, site: Site, values: &[Whole<'_>]) {
        Whole::write_all(self, site, values);
    }

    fn invalidate(&self, site: Site, lines: Lines) {
        self.maintain(site, lines, Maintenance::Invalidate);
    }

    fn poisoned(&self, lines: Lines) -> bool {
        let state = self.world.state();
        numbers(lines).any(|line| state.lnr.has_met_poison(self.host, line))
    }

    fn populate(&self, lines: Lines) -> bool {
        for line in numbers(lines) {
            let Some(mut state) = self.enter(Point::Line(line)) else { return true };
            state.lnr.populate(line);
        }
        true
    }

    fn discard(&self, lines: Lines) -> bool {
        let at = Location::caller();
        for line in numbers(lines) {
            let Some(mut state) = self.enter(Point::Line(line)) else { return true };
            let (origin, step) = (state.origin(self.host, at), state.steps);
            let finding = state.lnr.discard(line, origin, self.life, step);
            state.changed();
            drop(state);
            self.world.judge(finding);
        }
        true
    }

    fn pause(&self) {
        let mut state = self.world.state();
        state.scr.drain(self.host);
        state.wait();
        drop(state);
        running::wait(&self.world, Location::caller());
        if self.life != self.world.state().lives[self.host] {
            running::die();
        }
    }

    fn step(&self) {
        drop(self.enter(Point::Local));
    }

    fn wall_clock_ms(&self) -> u64 {
        self.world.state().wall_clock_ms(self.host)
    }

    fn is_gone(&self) -> bool {
        self.is_dead(&self.world.state())
    }

    fn uptime(&self) -> Duration {
        self.world.state().uptime()
    }

    fn random(&self) -> u64 {
        self.world.state().random()
    }

    fn process(&self) -> Process {
        Process { id: self.host as u64 + 1, machine: 1, mark: self.life.into(), lock: None }
    }

    fn has_ended(&self, process: Process) -> bool {
        let host = process.id.checked_sub(1).map(|host| host as usize);
        let state = self.world.state();
        let life = host.and_then(|host| state.lives.get(host));
        life.is_some_and(|&life| process.mark < u64::from(life))
    }

    fn takes(&self, lines: Lines) {
        let mut state = self.world.state();
        let origin = state.origin(self.host, Location::caller());
        let finding = state.lnr.take(lines, false, origin, self.life);
        drop(state);
        self.world.judge(finding);
    }

    fn takes_blank(&self, lines: Lines) {
        let mut state = self.world.state();
        let origin = state.origin(self.host, Location::caller());
        let finding = state.lnr.take(lines, true, origin, self.life);
        drop(state);
        self.world.judge(finding);
    }

    fn gives(&self, lines: Lines, bytes: u64) {
        let mut state = self.world.state();
        let origin = state.origin(self.host, Location::caller());
        let finding = state.lnr.give(lines, bytes, origin, self.life);
        drop(state);
        self.world.judge(finding);
    }

    fn gives_all(&self) {
        let mut state = self.world.state();
        let origin = state.origin(self.host, Location::caller());
        let finding = state.lnr.give_all(origin);
        drop(state);
        self.world.judge(finding);
    }

    fn moment(&self) -> Moment {
        Moment(self.world.state().steps)
    }

    fn relies_on(&self, from: LnrAddr, bytes: u64, since: Moment) {
        let state = self.world.state();
        let origin = state.origin(self.host, Location::caller());
        let finding = state.rely(Lines::covering(from, bytes), since.0, origin);
        drop(state);
        self.world.judge(finding);
    }

    fn keeps(&self, site: Site) -> bool {
        self.come_to(site);
        self.world.cross(site, false, false);
        self.world.keeps(site)
    }

    fn check(&self, site: Site, condition: bool) -> bool {
        self.come_to(site);
        self.world.cross(site, !condition, false);
        condition || !self.world.keeps(site)
    }
}
