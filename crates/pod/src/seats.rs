//! A host's place in a pod: a line per host in SCR, and the steps from one state of a seat to the
//! next.
//!
//! ```text
//! Free -> Claimed -> Seated -> Free                 claim, enter, leave
//!                    Seated -> Fenced -> Free       fence, release
//!         Claimed -> Claimed                        a claim not made good is another host's
//!                              Fenced -> Claimed    so is the seat of a host that is gone
//!
//! line of a host    word 0   seat: state (bits 0..3), number of the stay (32..64)
//!                   word 1   beats: number of the stay (32 bits), beats (32)
//!                   word 2   end: number of the stay (32 bits), whether it is gone (1)
//!                   word 3   time: ms since the Unix epoch (48 bits), lowest bits of the stay (16)
//! ```
//!
//! Each step is one compare-and-swap of the seat's own word. Every claim takes a number that no
//! other claim has, so no word of a seat comes twice.
//!
//! A seat says that its host is in the pod, and nothing else. Each area knows by its own
//! [roster](crate::roster) which of these hosts take part in it, and keeps a dead host's entry
//! until the host is cleared up after there. So a seat is another's as soon as its host is gone,
//! whatever is left to be done in areas whose tenants no living host runs.

mod claims;

use tombolo_memory::{Memory, ScrAddr};

use crate::fencing::Stay;
use crate::layout::Places;
use crate::superblock::Pod;
use crate::{clock, sites};

/// The state of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatState {
    /// No host has it.
    Free,
    /// A host is about to enter. It is not in the pod.
    Claimed,
    /// Its host is in the pod.
    Seated,
    /// Its host was taken for dead. The seat is free, or another's, once the host is known to be
    /// gone.
    Fenced,
}

impl SeatState {
    fn from_bits(bits: u64) -> Self {
        match bits & 7 {
            0 => Self::Free,
            1 => Self::Claimed,
            2 => Self::Seated,
            _ => Self::Fenced,
        }
    }
}

/// A seat's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeatWord(u64);

impl SeatWord {
    fn new(stay: u32, state: SeatState) -> Self {
        Self(u64::from(stay) << 32 | state as u64)
    }

    fn load<M: Memory>(memory: &M, places: &Places, host: u8) -> Self {
        Self(memory.load(seat_word(places, host)))
    }

    fn state(self) -> SeatState {
        SeatState::from_bits(self.0)
    }

    fn stay(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The word of `host` in column `column` of the host table.
fn host_word(places: &Places, host: u8, column: u64) -> ScrAddr<u64> {
    places.hosts.line(u64::from(host)).element(column)
}

fn seat_word(places: &Places, host: u8) -> ScrAddr<u64> {
    host_word(places, host, 0)
}

/// How often the stay that has a seat has beaten.
pub(crate) fn beat_word(places: &Places, host: u8) -> ScrAddr<u64> {
    host_word(places, host, 1)
}

/// Whether a stay is gone.
pub(crate) fn end_word(places: &Places, host: u8) -> ScrAddr<u64> {
    host_word(places, host, 2)
}

/// The last time by the wall clock of the stay that has a seat.
pub(crate) fn time_word(places: &Places, host: u8) -> ScrAddr<u64> {
    host_word(places, host, 3)
}

/// One host's place in a pod, from [`Pod::join`] to [`Seat::leave`].
#[derive(Clone, Debug)]
pub struct Seat {
    places: Places,
    stay: Stay,
}

impl Seat {
    /// This host's number.
    pub fn host(&self) -> u8 {
        self.stay.host
    }

    /// The number of this stay: no other stay of any host in this pod has it.
    pub fn incarnation(&self) -> u32 {
        self.stay.number
    }

    /// This stay.
    pub fn stay(&self) -> Stay {
        self.stay
    }

    /// Whether this stay is still in the pod. If it is not, the host was fenced; a change that it
    /// has not been told is done may be done or not.
    #[inline]
    pub fn holds<M: Memory>(&self, memory: &M) -> bool {
        let word = SeatWord::load(memory, &self.places, self.host());
        word == SeatWord::new(self.incarnation(), SeatState::Seated)
    }

    /// Lets others see that this host is alive: about every millisecond.
    pub fn beat<M: Memory>(&self, memory: &M) {
        let at = beat_word(&self.places, self.host());
        let beats = memory.load(at) as u32;
        memory.store(at, u64::from(self.incarnation()) << 32 | u64::from(beats.wrapping_add(1)));
    }

    /// Lets others compare this host's wall clock with theirs: several times a second.
    pub fn tell_time<M: Memory>(&self, memory: &M) {
        let told = clock::told(self.incarnation(), memory.wall_clock_ms());
        memory.store(time_word(&self.places, self.host()), told);
    }

    /// Gives the seat back, once the host has left all that lives in the pod; whether it still had
    /// it.
    pub fn leave<M: Memory>(&self, memory: &M) -> bool {
        let (seated, free) = (SeatState::Seated, SeatState::Free);
        step(memory, &self.places, self.stay, seated, free)
    }
}

/// Takes the seat of a stay from one state to another; whether it was in the first.
fn step<M: Memory>(
    memory: &M,
    places: &Places,
    stay: Stay,
    from: SeatState,
    to: SeatState,
) -> bool {
    let at = seat_word(places, stay.host);
    let word = |state| SeatWord::new(stay.number, state).0;
    memory.compare_exchange(sites::SEAT_STEP, at, word(from), word(to)).is_ok()
}

impl<M: Memory> Pod<M> {
    /// The state of the seat of `host`, and the stay that has it, or had it last.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn seat_of(&self, host: u8) -> (SeatState, Stay) {
        assert!(host < self.places().host_count, "there is no host {host}");
        let word = SeatWord::load(self.memory(), self.places(), host);
        (word.state(), Stay { host, number: word.stay() })
    }

    /// The stays whose seats are in this state, as of when each was looked at.
    pub fn stays_in(&self, state: SeatState) -> impl Iterator<Item = Stay> {
        let seats = (0..self.places().host_count).map(|host| self.seat_of(host));
        seats.filter(move |(found, _)| *found == state).map(|(_, stay)| stay)
    }

    /// The stay that has the seat of `host`, or had it last.
    pub fn stay_of(&self, host: u8) -> Stay {
        self.seat_of(host).1
    }

    /// How often a stay has beaten; `None` before its first beat. A count that stands still for
    /// much longer than a millisecond is that of a host which does not run.
    pub fn beats_of(&self, stay: Stay) -> Option<u32> {
        let word = self.memory().load(beat_word(self.places(), stay.host));
        ((word >> 32) as u32 == stay.number).then_some(word as u32)
    }

    /// Whether this stay is in the pod.
    pub fn is_seated(&self, stay: Stay) -> bool {
        self.seat_of(stay.host) == (SeatState::Seated, stay)
    }

    /// Whether this stay was fenced, and its seat is not free yet.
    pub fn is_fenced(&self, stay: Stay) -> bool {
        self.seat_of(stay.host) == (SeatState::Fenced, stay)
    }

    /// Whether the seat of this stay is free, or another's.
    pub(crate) fn is_over(&self, stay: Stay) -> bool {
        !self.is_seated(stay) && !self.is_fenced(stay)
    }

    /// Takes the seat of a host that is dead, or taken for dead; whether it had one.
    pub fn fence(&self, stay: Stay) -> bool {
        let (seated, fenced) = (SeatState::Seated, SeatState::Fenced);
        step(self.memory(), self.places(), stay, seated, fenced)
    }

    /// Frees the seat of a host that was fenced, and is known to be gone; whether this call did.
    /// Clearing up after the host in an area is the business of that area's roster.
    pub fn release(&self, stay: Stay) -> bool {
        let (fenced, free) = (SeatState::Fenced, SeatState::Free);
        step(self.memory(), self.places(), stay, fenced, free)
    }
}
