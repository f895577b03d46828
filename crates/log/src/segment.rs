//! A host's own stretch of entry lines in LNR, one per shard of the log, used round and round.
//!
//! Entry number `n` of a host lies at place `n` modulo the segment's length. The place is free
//! again when every member has applied entry `n` *and* its committer has learnt its outcome.

use std::ops::Range;

use tombolo_memory::{Lines, LnrAddr, Memory};
use tombolo_pod::{Area, Enrolment};

use crate::entry::{self, Content, Entry, Header, LineBytes};
use crate::ring::{Ring, Run};
use crate::sites;
use crate::sync::{AtomicU8, AtomicU64, Ordering};

/// The fate of an entry, as its committer will learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Not known yet.
    Pending = 1,
    /// Applied, without effect.
    Refused = 2,
    /// Applied, with effect.
    Done = 3,
    /// Never ordered.
    Cancelled = 4,
}

/// The cell of a place whose last outcome was learnt.
const FREE: u8 = 0;

pub(crate) struct Segment<M> {
    memory: M,
    start: LnrAddr,
    host: u8,
    incarnation: u32,
    /// Where each place's last entry was ordered.
    positions: Box<[AtomicU64]>,
    outcomes: Box<[AtomicU8]>,
}

impl<M: Memory> Segment<M> {
    /// The segment of an enrolled host in shard `shard`. Its places may still hold entries of the
    /// seat's earlier host, all of them ordered before `end`.
    pub(crate) fn new(area: &Area<M>, enrolment: &Enrolment, shard: u8, end: u64) -> Self {
        let entries = area.layout().segment_entries;
        Self {
            memory: area.memory().clone(),
            start: segment_start(area, shard, enrolment.host()),
            host: enrolment.host(),
            incarnation: enrolment.stay().number,
            positions: (0..entries).map(|_| AtomicU64::new(end.saturating_sub(1))).collect(),
            outcomes: (0..entries).map(|_| AtomicU8::new(FREE)).collect(),
        }
    }

    pub(crate) fn entries(&self) -> u64 {
        self.positions.len() as u64
    }

    /// The first entries of `numbers` that lie side by side, `longest` at most.
    pub(crate) fn run(&self, numbers: Range<u64>, longest: u64) -> Run {
        let place = numbers.start % self.entries();
        let side_by_side = (numbers.end - numbers.start).min(self.entries() - place);
        Run { host: self.host, place, entries: side_by_side.min(longest) }
    }

    pub(crate) fn has_room(&self, number: u64, ring: &Ring<M>) -> bool {
        let slot = self.slot(number);
        // The outcome first: a position loaded before it was learnt may be that of the entry
        // before, and then others may still have to read the last one.
        let learnt = self.outcomes[slot].load(Ordering::Acquire) == FREE;
        if !self.memory.check(sites::SEGMENT_LEARNT, learnt) {
            return false;
        }
        self.memory.step();
        let applied = ring.is_applied_by_all(self.positions[slot].load(Ordering::Acquire));
        self.memory.check(sites::SEGMENT_ROOM, applied)
    }

    /// Stores entry `number` into this host's caches; it is not in memory yet.
    #[inline(always)]
    pub(crate) fn write<E: Entry>(&self, number: u64, content: &Content<E>) {
        self.outcomes[self.slot(number)].store(Outcome::Pending as u8, Ordering::Release);
        let header = Header { incarnation: self.incarnation, number };
        self.memory.takes_blank(Lines::new(self.line(number).line(), 1));
        self.memory.write(self.line(number), &entry::to_line(header, content));
    }

    /// Brings the entries `from..to` into memory, then runs `announce`.
    #[inline(always)]
    pub(crate) fn publish<R>(&self, from: u64, to: u64, announce: impl FnOnce() -> R) -> R {
        let before_wrap = (self.entries() - from % self.entries()).min(to - from);
        let head = Lines::new(self.line(from).line(), before_wrap);
        let rest = Lines::new(self.start.line(), to - from - before_wrap);
        self.memory.publish(sites::APPEND_CLEAN, [head, rest], |memory| {
            [head, rest].into_iter().for_each(|lines| memory.gives(lines, lines.bytes()));
            announce()
        })
    }

    /// Writes back whatever has not been.
    pub(crate) fn clean_all(&self) {
        let lines = Lines::new(self.start.line(), self.entries());
        self.memory.clean(sites::SEGMENT_WITHDRAW, lines);
    }

    /// Whether the entry with this header is one of this stay's.
    pub(crate) fn owns(&self, run: Run, header: Header) -> bool {
        run.host == self.host && header.incarnation == self.incarnation
    }

    /// Notes where entry `number` was ordered and what became of it. The position comes first: the
    /// place may be reused as soon as the outcome is learnt and the position is applied by all.
    pub(crate) fn settle(&self, number: u64, position: u64, outcome: Outcome) {
        let slot = self.slot(number);
        self.positions[slot].store(position, Ordering::Release);
        self.outcomes[slot].store(outcome as u8, Ordering::Release);
    }

    /// Notes that entry `number` will never be ordered.
    pub(crate) fn cancel(&self, number: u64) {
        self.outcomes[self.slot(number)].store(Outcome::Cancelled as u8, Ordering::Release);
    }

    /// The outcome of entry `number`, once it is known; its place is then free for reuse.
    pub(crate) fn take_outcome(&self, number: u64) -> Option<Outcome> {
        let cell = &self.outcomes[self.slot(number)];
        let outcome = match cell.load(Ordering::Acquire) {
            2 => Outcome::Refused,
            3 => Outcome::Done,
            4 => Outcome::Cancelled,
            _ => return None,
        };
        cell.store(FREE, Ordering::Release);
        Some(outcome)
    }

    fn slot(&self, number: u64) -> usize {
        (number % self.entries()) as usize
    }

    fn line(&self, number: u64) -> LnrAddr {
        self.start.plus(self.slot(number) as u64 * size_of::<LineBytes>() as u64)
    }
}

/// Where the segment of `host` in shard `shard` starts.
pub(crate) fn segment_start<M: Memory>(area: &Area<M>, shard: u8, host: u8) -> LnrAddr {
    let bytes = area.layout().segment_entries * size_of::<LineBytes>() as u64;
    area.log(shard).segments.plus(u64::from(host) * bytes)
}
