//! The ring in SCR that orders entries.
//!
//! ```text
//! ring word   position, low 32 bits | host (8 bits) | place in its segment (24 bits)
//! ```
//!
//! Position `p` stands at `p` modulo the ring's length. The word there belongs to `p` only if it
//! carries `p`; otherwise it is from the lap before. Entries at positions below the tail are
//! ordered; the one at the tail may be, until somebody moves the tail past it.

use tombolo_memory::{Memory, ScrAddr};
use tombolo_pod::{Areas, LogAreas, Membership, Pod};

use crate::sites;
use crate::sync::{AtomicU64, Ordering};

/// What a ring word names: an entry's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: u8,
    pub(crate) index: u32,
}

/// Why an entry was not ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The ring of one shard of the log, as one host sees it.
pub struct Ring<M> {
    memory: M,
    areas: Areas,
    log: LogAreas,
    entries: u64,
    /// How often another entry was faster.
    lost: AtomicU64,
    /// Every member has applied everything below this; it may lag behind the truth.
    head: AtomicU64,
}

fn word(position: u64, place: Place) -> u64 {
    (position & 0xffff_ffff) << 32 | u64::from(place.host) << 24 | u64::from(place.index)
}

fn carries(word: u64, position: u64) -> bool {
    word >> 32 == position & 0xffff_ffff
}

impl<M: Memory> Ring<M> {
    /// The ring of shard `shard` of a pod's log.
    pub fn new(pod: &Pod<M>, shard: u8) -> Self {
        Self {
            memory: pod.memory().clone(),
            areas: pod.areas(),
            log: pod.geometry().log_areas(shard),
            entries: pod.geometry().ring_entries,
            lost: AtomicU64::new(0),
            head: AtomicU64::new(0),
        }
    }

    /// How often this host's entries lost a place to another's.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The position after the last ordered entry.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.memory.load(self.log.tail)
    }

    /// The entry at `position`, if the ring still holds it.
    pub(crate) fn place(&self, position: u64) -> Option<Place> {
        let word = self.memory.load(self.slot(position));
        carries(word, position)
            .then_some(Place { host: (word >> 24) as u8, index: word as u32 & 0xff_ffff })
    }

    /// Gives the entry at `place` the next free position.
    pub(crate) fn order(&self, place: Place) -> Result<u64, Full> {
        let mut position = self.tail();
        loop {
            if !self.memory.check(sites::RING_ROOM, self.has_room(position)) {
                return Err(Full);
            }
            let slot = self.slot(position);
            let found = self.memory.load(slot);
            if carries(found, position) && self.memory.keeps(sites::RING_LAP) {
                self.help(position);
                position += 1;
            } else if self.is_from_lap_before(found, position) {
                if self.claim(slot, found, word(position, place)) {
                    self.help(position);
                    return Ok(position);
                }
                self.lost.fetch_add(1, Ordering::Relaxed);
            } else {
                // The ring has gone round since the tail was loaded.
                position = self.tail();
            }
        }
    }

    fn claim(&self, slot: ScrAddr<u64>, found: u64, word: u64) -> bool {
        self.memory.compare_exchange(sites::RING_ORDER, slot, found, word).is_ok()
    }

    /// Moves the tail past `position`, whose place is filled, unless somebody else has.
    fn help(&self, position: u64) {
        let (tail, next) = (self.log.tail, position + 1);
        let _ = self.memory.compare_exchange(sites::RING_HELP, tail, position, next);
    }

    fn is_from_lap_before(&self, found: u64, position: u64) -> bool {
        found == 0 || carries(found, position - self.entries) || !self.memory.keeps(sites::RING_LAP)
    }

    pub(crate) fn has_room(&self, position: u64) -> bool {
        self.is_applied_by_all(position.saturating_sub(self.entries))
    }

    /// Whether every member has applied the entry at `position`.
    pub(crate) fn is_applied_by_all(&self, position: u64) -> bool {
        // Pairs with `refresh_head` of another thread: what is written over places below the head comes
        // after what all members read there.
        position < self.head.load(Ordering::Acquire) || position < self.refresh_head()
    }

    fn refresh_head(&self) -> u64 {
        let head = self.slowest().1;
        self.head.fetch_max(head, Ordering::Release);
        head
    }

    /// The member that has applied least, and up to where.
    pub(crate) fn slowest(&self) -> (u8, u64) {
        let tail = self.tail();
        self.progress().into_iter().min_by_key(|&(_, applied)| applied).unwrap_or((0, tail))
    }

    /// Up to where each member has applied the log.
    ///
    /// Whoever joins loads the tail once it is a member, and needs the log from there on. So what
    /// members have applied says how far the head may go only if nobody has joined meanwhile: then
    /// whoever joins later finds a tail that is not below any of it.
    pub fn progress(&self) -> Vec<(u8, u64)> {
        loop {
            let members = Membership::load(&self.memory, &self.areas);
            let applied = |host| (host, self.memory.load(self.applied(host)));
            let progress = members.hosts().map(applied).collect();
            let current = members.is_current(&self.memory, &self.areas);
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

    fn slot(&self, position: u64) -> ScrAddr<u64> {
        self.log.ring.element(position % self.entries)
    }
}
