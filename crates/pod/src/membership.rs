//! Who is in the pod: one word in SCR.
//!
//! ```text
//! bits  0..16   a bit per host that has a seat
//! bits 16..32   a bit per host that is ready: it has a replica, and can help others to one
//! bits 32..34   phase: closed, opening, open, closing
//! bits 34..64   changes there were, against ABA
//! ```
//!
//! `closed -> opening` by the first host to join, which rebuilds what lives in local memory only;
//! `opening -> open` when it has; `open -> closing` by the last ready host to leave, which puts
//! everything in order; `closing -> closed` when it has. While a pod is opening or closing, others
//! wait.

use std::time::Duration;

use tombolo_memory::{FetchOp, Memory, ScrAddr};

use crate::PodError;
use crate::geometry::{Areas, MAX_HOSTS};
use crate::sites;
use crate::superblock::Pod;

/// How long a join waits for a pod that is being opened or closed.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a pod is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nobody is in.
    Closed,
    /// The first host is getting it ready.
    Opening,
    /// Hosts work.
    Open,
    /// The last host is putting it in order.
    Closing,
}

/// A reading of the membership word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    word: u64,
}

impl Membership {
    /// Reads the membership word of the pod with these areas.
    pub fn load<M: Memory>(memory: &M, areas: &Areas) -> Self {
        Self { word: memory.load(areas.membership) }
    }

    /// What the pod is doing.
    pub fn phase(self) -> Phase {
        match (self.word >> 32) & 3 {
            0 => Phase::Closed,
            1 => Phase::Opening,
            2 => Phase::Open,
            _ => Phase::Closing,
        }
    }

    /// The hosts that have a seat, by number.
    pub fn hosts(self) -> impl Iterator<Item = u8> {
        (0..MAX_HOSTS).filter(move |&host| self.is_seated(host))
    }

    /// How many hosts have a seat.
    pub fn count(self) -> u32 {
        self.seated().count_ones()
    }

    /// Whether `host` has a seat.
    pub fn is_seated(self, host: u8) -> bool {
        self.seated() & (1 << host) != 0
    }

    /// Whether `host` has a replica.
    pub fn is_ready(self, host: u8) -> bool {
        self.ready() & (1 << host) != 0
    }

    fn seated(self) -> u16 {
        self.word as u16
    }

    fn ready(self) -> u16 {
        (self.word >> 16) as u16
    }

    fn next(self, phase: Phase, seated: u16, ready: u16) -> Self {
        let changes = (self.word >> 34).wrapping_add(1) << 34;
        Self { word: changes | (phase as u64) << 32 | u64::from(ready) << 16 | u64::from(seated) }
    }
}

/// The word of `host` in column `column` of the host table.
fn host_word(areas: &Areas, host: u8, column: u64) -> ScrAddr<u64> {
    areas.hosts.line(u64::from(host)).element(column)
}

const INCARNATION: u64 = 0;
const PROCESS: u64 = 1;
pub(crate) const REQUEST: u64 = 2;
const DOORBELL: u64 = 3;

pub(crate) fn request_word(areas: &Areas, host: u8) -> ScrAddr<u64> {
    host_word(areas, host, REQUEST)
}

/// Who has mail for `host`: a bit per sender.
pub(crate) fn doorbell_word(areas: &Areas, host: u8) -> ScrAddr<u64> {
    host_word(areas, host, DOORBELL)
}

/// The number of the stay of whoever has the seat of `host`, or had it last.
pub(crate) fn incarnation_word(areas: &Areas, host: u8) -> ScrAddr<u64> {
    host_word(areas, host, INCARNATION)
}

/// One host's place in a pod, from [`Pod::join`] to [`Seat::leave`].
#[derive(Clone, Debug)]
pub struct Seat {
    areas: Areas,
    host: u8,
    incarnation: u32,
}

impl<M: Memory> Pod<M> {
    /// Takes a free seat. If the pod was closed, its phase is now [`Phase::Opening`], this host
    /// has to get it ready and then call [`Seat::ready`]; the second value says so.
    ///
    /// # Errors
    /// [`PodError::Full`], or [`PodError::Busy`] if the pod is opening or closing for too long.
    pub fn join(&self) -> Result<(Seat, bool), PodError> {
        let memory = self.memory();
        let areas = self.areas();
        let started = memory.uptime();
        loop {
            let now = Membership::load(memory, &areas);
            let (phase, first) = match now.phase() {
                Phase::Closed => (Phase::Opening, true),
                Phase::Open => (Phase::Open, false),
                Phase::Opening | Phase::Closing => {
                    self.wait_for_phase(now, started)?;
                    continue;
                }
            };
            let host = now.seated().trailing_ones() as u8;
            if host >= MAX_HOSTS {
                return Err(PodError::Full);
            }
            let seated = now.seated() | 1 << host;
            if change(memory, &areas, now, now.next(phase, seated, now.ready())) {
                let incarnation =
                    memory.fetch(sites::INCARNATION, areas.joins, FetchOp::Add, 1) as u32 + 1;
                memory.store(host_word(&areas, host, REQUEST), 0);
                memory.store(incarnation_word(&areas, host), u64::from(incarnation));
                memory.store(host_word(&areas, host, PROCESS), memory.process_id());
                return Ok((Seat { areas, host, incarnation }, first));
            }
        }
    }

    fn wait_for_phase(&self, now: Membership, started: Duration) -> Result<(), PodError> {
        let waited = self.memory().uptime().saturating_sub(started);
        if waited > PATIENCE {
            let host = now.hosts().next().unwrap_or(0);
            return Err(PodError::Busy {
                host,
                pid: self.process_of(host),
                doing: if now.phase() == Phase::Opening { "opening" } else { "closing" },
                waited_ms: waited.as_millis() as u64,
            });
        }
        self.memory().pause();
        Ok(())
    }

    /// The process that `host` runs in, by its number on its own machine.
    pub fn process_of(&self, host: u8) -> u64 {
        self.memory().load(host_word(&self.areas(), host, PROCESS))
    }
}

impl Seat {
    /// This host's number.
    pub fn host(&self) -> u8 {
        self.host
    }

    /// The number of this stay: no other stay of any host in this pod has it.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Announces that this host has a replica. If it was opening the pod, others may now join.
    pub fn ready<M: Memory>(&self, memory: &M) {
        self.change_until_done(memory, |now| {
            Some(now.next(Phase::Open, now.seated(), now.ready() | self.bit()))
        });
    }

    /// Gives the seat back.
    ///
    /// The last ready host does not leave yet: it waits for those who are joining
    /// ([`Leave::Wait`]), or has to put the pod in order and then call [`Seat::closed`]
    /// ([`Leave::Close`]).
    #[must_use]
    pub fn leave<M: Memory>(&self, memory: &M, wait_for_joining: bool) -> Leave {
        let mut outcome = Leave::Left;
        self.change_until_done(memory, |now| {
            let (seated, ready) = (now.seated() & !self.bit(), now.ready() & !self.bit());
            let last_ready = ready == 0 && now.ready() != 0;
            outcome = match (last_ready, seated) {
                (false, _) => Leave::Left,
                (true, others) if others != 0 && wait_for_joining => Leave::Wait,
                (true, _) => Leave::Close,
            };
            match outcome {
                Leave::Left => Some(now.next(now.phase(), seated, ready)),
                Leave::Wait => None,
                Leave::Close => Some(now.next(Phase::Closing, now.seated(), now.ready())),
            }
        });
        outcome
    }

    /// Leaves the pod closed and in order.
    pub fn closed<M: Memory>(&self, memory: &M) {
        self.change_until_done(memory, |now| Some(now.next(Phase::Closed, 0, 0)));
    }

    /// Gives up a seat whose pod could not be opened: it stays closed.
    pub fn give_up<M: Memory>(&self, memory: &M) {
        self.change_until_done(memory, |now| match now.phase() {
            Phase::Opening => Some(now.next(Phase::Closed, 0, 0)),
            Phase::Open => Some(now.next(Phase::Open, now.seated() & !self.bit(), now.ready())),
            Phase::Closing | Phase::Closed => None,
        });
    }

    fn bit(&self) -> u16 {
        1 << self.host
    }

    fn change_until_done<M: Memory>(
        &self,
        memory: &M,
        mut next: impl FnMut(Membership) -> Option<Membership>,
    ) {
        loop {
            let now = Membership::load(memory, &self.areas);
            if next(now).is_none_or(|next| change(memory, &self.areas, now, next)) {
                return;
            }
        }
    }
}

/// What became of [`Seat::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The seat is free.
    Left,
    /// This is the last ready host, and others are joining: help them, then try again.
    Wait,
    /// This is the last host: the pod is closing, and it is this host's to put in order.
    Close,
}

fn change<M: Memory>(memory: &M, areas: &Areas, from: Membership, to: Membership) -> bool {
    memory.compare_exchange(sites::MEMBER_CHANGE, areas.membership, from.word, to.word).is_ok()
}
