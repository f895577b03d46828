//! The ring in SCR that orders entries.
//!
//! ```text
//! ring word   lap (32 bits) | host (8) | entries, less one (5) | place in its segment (19)
//! ```
//!
//! A word orders a *run*: entries that lie side by side in a host's segment, and get positions side
//! by side. It stands at the run's first position, modulo the ring's length; the places of the
//! run's other positions are passed over. So the threads of a host share one compare-and-swap.
//!
//! Position `p` is one of lap `p` divided by the ring's length. A word belongs to `p` only if it is
//! of that lap. The log ends at the first position, from any that was ordered, whose place has a
//! word of an earlier lap: there is no other record of it. So an append changes one line that
//! others look at, and a look finds the entries to apply next. (Laps are compared modulo 2^32: a
//! place would have to be passed over in 2^31 laps in a row to be taken for one of a later lap.)
//!
//! A place is used again only when all members have applied what it held. So a member that finds a
//! word of a later lap has applied the log past it meanwhile. For who is not a member yet, there is
//! the *low-water mark*, a position that is moved on before places below it are used again.

use tombolo_memory::{FetchOp, Located, Memory, ScrAddr};
use tombolo_pod::{Area, AreaPlaces, LogPlaces, MAX_SEGMENT_ENTRIES, Membership};

use crate::sites;
use crate::sync::{AtomicU64, Ordering};

const PLACE_BITS: u32 = MAX_SEGMENT_ENTRIES.trailing_zeros();

/// Entries of a run, at most.
const LONGEST_RUN: u64 = 1 << 5;

/// Entries that lie side by side in a host's segment, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) host: u8,
    /// Where its first entry lies.
    pub(crate) place: u64,
    pub(crate) entries: u64,
}

impl Run {
    fn decode(word: u64) -> Self {
        let entries = 1 + (word >> PLACE_BITS) % LONGEST_RUN;
        Self { host: (word >> 24) as u8, place: word % MAX_SEGMENT_ENTRIES, entries }
    }

    fn encode(self, lap: u32) -> u64 {
        u64::from(lap) << 32
            | u64::from(self.host) << 24
            | (self.entries - 1) << PLACE_BITS
            | self.place
    }
}

/// The finding at the place of a position.
pub(crate) enum Look {
    /// The run that begins there.
    Run(Run),
    /// Nothing yet: the log ends there.
    End,
    /// A later entry: the log has gone round.
    Passed,
}

/// The place of the position where the log ended, and what stood there.
pub struct End<'a, M: Memory> {
    memory: &'a M,
    place: M::Located<'a, u64>,
    word: u64,
}

impl<M: Memory> Clone for End<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Memory> Copy for End<'_, M> {}

impl<M: Memory> End<'_, M> {
    /// Whether the log still ends there: nothing else has come to the place, of whatever lap.
    #[inline(always)]
    pub fn is_still(&self) -> bool {
        self.memory.check(sites::TAIL_SYNC, self.place.load() == self.word)
    }
}

/// Why entries were not ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The ring of one shard of the log, as one host sees it.
pub struct Ring<M> {
    memory: M,
    places: AreaPlaces,
    log: LogPlaces,
    /// A power of two.
    entries: u64,
    /// How often another run was faster.
    lost: AtomicU64,
    /// Every member has applied everything below this; it may lag behind the truth.
    head: AtomicU64,
}

impl<M: Memory> Ring<M> {
    /// The ring of shard `shard` of a pod's log.
    pub fn new(area: &Area<M>, shard: u8) -> Self {
        Self {
            memory: area.memory().clone(),
            places: *area.places(),
            log: area.log(shard),
            entries: area.layout().ring_entries,
            lost: AtomicU64::new(0),
            head: AtomicU64::new(0),
        }
    }

    /// How often this host's entries lost a place to another's.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// From here on places have not been used again.
    pub(crate) fn low_water_mark(&self) -> u64 {
        self.memory.load(self.log.low_water_mark)
    }

    /// Where the log ends, for who has not applied it.
    pub fn tail(&self) -> u64 {
        loop {
            let low_water_mark = self.low_water_mark();
            let tail = self.tail_from(low_water_mark);
            // Pairs with `refresh_head`. A low-water mark that has not moved is that of a damaged
            // log.
            if tail.is_some() || self.low_water_mark() == low_water_mark {
                return tail.unwrap_or(low_water_mark);
            }
        }
    }

    /// Where the log ends, unless a place from `position` on, where a run begins, is used again.
    pub(crate) fn tail_from(&self, mut position: u64) -> Option<u64> {
        loop {
            match self.look(position).1 {
                Look::Run(run) => position += run.entries,
                Look::End => return Some(position),
                Look::Passed => return None,
            }
        }
    }

    /// The word at the place of `position`, where a run begins or may begin, and what that means.
    #[inline(always)]
    pub(crate) fn look(&self, position: u64) -> (u64, Look) {
        let word = self.memory.load(self.slot(position));
        (word, self.meaning(word, self.lap(position)))
    }

    /// The meaning of a word at the place of a position of `lap`.
    #[inline(always)]
    fn meaning(&self, word: u64, lap: u32) -> Look {
        let ahead = ((word >> 32) as u32).wrapping_sub(lap) as i32;
        if ahead == 0 {
            Look::Run(Run::decode(word))
        } else if self.memory.check(sites::RING_PASSED, ahead < 0) {
            Look::End
        } else {
            Look::Passed
        }
    }

    /// Where the log ends, if that is at `position`, up to which it has been applied.
    #[inline(always)]
    pub(crate) fn end_at(&self, position: u64) -> Option<End<'_, M>> {
        let memory = &self.memory;
        let (place, lap) = (memory.locate(self.slot(position)), self.lap(position));
        let word = place.load();
        let is_end = memory.check(sites::TAIL_SYNC, matches!(self.meaning(word, lap), Look::End));
        is_end.then_some(End { memory, place, word })
    }

    /// Entries of a run, at most: all of it has to find room at once.
    pub(crate) fn longest_run(&self) -> u64 {
        LONGEST_RUN.min(self.entries / 2)
    }

    /// Gives the entries of `run` the next free positions; up to `applied` this host has applied
    /// the log. If the log goes round meanwhile, there is no room as far as this knows.
    pub(crate) fn order(&self, run: Run, applied: u64) -> Result<(), Full> {
        let mut position = applied;
        loop {
            if !self.memory.check(sites::RING_ROOM, self.has_room(position, run.entries)) {
                return Err(Full);
            }
            match self.look(position) {
                (_, Look::Run(other)) if self.memory.keeps(sites::RING_LAP) => {
                    position += other.entries;
                }
                (_, Look::Passed) => return Err(Full),
                (found, _) => {
                    let word = run.encode(self.lap(position));
                    if self.claim(self.slot(position), found, word) {
                        return Ok(());
                    }
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn claim(&self, slot: ScrAddr<u64>, found: u64, word: u64) -> bool {
        self.memory.compare_exchange(sites::RING_ORDER, slot, found, word).is_ok()
    }

    /// Whether so many entries from `position` on find room.
    pub(crate) fn has_room(&self, position: u64, entries: u64) -> bool {
        self.is_applied_by_all((position + entries - 1).saturating_sub(self.entries))
    }

    /// Whether every member has applied the entry at `position`.
    pub(crate) fn is_applied_by_all(&self, position: u64) -> bool {
        // Pairs with `refresh_head` of another thread: stores over places below the head come after
        // all members' reads there.
        position < self.head.load(Ordering::Acquire) || position < self.refresh_head()
    }

    /// Nothing below the head is used again before the low-water mark has reached it.
    fn refresh_head(&self) -> u64 {
        let head = self.slowest().map_or(0, |(_, applied)| applied);
        self.memory.fetch(sites::RING_LOW_WATER_MARK, self.log.low_water_mark, FetchOp::Max, head);
        self.head.fetch_max(head, Ordering::Release);
        head
    }

    /// The member that has applied least, and up to where.
    pub(crate) fn slowest(&self) -> Option<(u8, u64)> {
        self.progress().into_iter().min_by_key(|&(_, applied)| applied)
    }

    /// Up to where each member has applied the log.
    ///
    /// A joining host looks for the end of the log once it is a member, and needs the log from
    /// there on. So the members' positions say how far the head may go only if no host has joined
    /// meanwhile. A host that joins later finds an end that is not below any of them.
    pub fn progress(&self) -> Vec<(u8, u64)> {
        loop {
            let members = Membership::load(&self.memory, &self.places);
            let applied = |host| (host, self.memory.load(self.applied(host)));
            let progress = members.hosts().map(applied).collect();
            let current = members.is_current(&self.memory, &self.places);
            if self.memory.check(sites::HEAD_MEMBERS, current) {
                return progress;
            }
        }
    }

    /// Announces that `host` has applied everything below `position`.
    pub(crate) fn announce_applied(&self, host: u8, position: u64) {
        self.memory.store(self.applied(host), position);
    }

    fn applied(&self, host: u8) -> ScrAddr<u64> {
        self.log.applied.line(u64::from(host))
    }

    #[inline(always)]
    fn lap(&self, position: u64) -> u32 {
        (position >> self.entries.trailing_zeros()) as u32
    }

    #[inline(always)]
    fn slot(&self, position: u64) -> ScrAddr<u64> {
        self.log.ring.element(position & (self.entries - 1))
    }
}
