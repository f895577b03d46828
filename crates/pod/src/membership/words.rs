//! The words in SCR that say who is in the pod, and how they change.
//!
//! ```text
//! membership   bits  0..2   phase: closed, opening, open, closing
//!              bits  2..5   what the last change made of a seat: free, claimed, joining, ready, fenced
//!              bits  5..8   how often the pod was opened, modulo 8
//!              bits  8..16  whose seat
//!              bits 16..24  hosts that have a seat, and are not fenced
//!              bits 24..32  of these, hosts that are ready: they have a replica, and can help others
//!                           to one
//!              bits 32..64  claims there have been, each of which numbers a stay; what a host calls its
//!                           incarnation is the number of its own
//! seat         bits  0..3   free, claimed, joining, ready, fenced
//!              bits 32..64  the stay that has it, or had it last
//! ```
//!
//! A seat's word is the first of its host's line in the host table. Others of that line are of use to other modules: a request
//! for a replica, a doorbell, a heartbeat, and how a stay ended.

use tombolo_memory::{Memory, ScrAddr};

use crate::geometry::Areas;
use crate::sites;

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

/// What a seat is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    /// A host is about to enter. It is not in the pod.
    Claimed,
    /// Its host has no replica yet.
    Joining,
    /// Its host has one.
    Ready,
    /// Its host was taken for dead, and may still be at something.
    Fenced,
}

impl State {
    fn from_bits(bits: u64) -> Self {
        match bits & 7 {
            0 => Self::Free,
            1 => Self::Claimed,
            2 => Self::Joining,
            3 => Self::Ready,
            _ => Self::Fenced,
        }
    }

    /// Whether its host is in the pod.
    pub(super) fn is_seated(self) -> bool {
        matches!(self, Self::Joining | Self::Ready)
    }
}

/// A membership word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    pub(super) fn load<M: Memory>(memory: &M, areas: &Areas) -> Self {
        Self(memory.load(areas.membership))
    }

    pub(super) fn phase(self) -> Phase {
        match self.0 & 3 {
            0 => Phase::Closed,
            1 => Phase::Opening,
            2 => Phase::Open,
            _ => Phase::Closing,
        }
    }

    /// What the last change made of the seat of [`host`](Self::host).
    pub(super) fn made(self) -> State {
        State::from_bits(self.0 >> 2)
    }

    pub(super) fn openings(self) -> u8 {
        (self.0 >> 5) as u8 % 8
    }

    pub(super) fn host(self) -> u8 {
        (self.0 >> 8) as u8
    }

    pub(super) fn seated(self) -> u8 {
        (self.0 >> 16) as u8
    }

    pub(super) fn ready(self) -> u8 {
        (self.0 >> 24) as u8
    }

    pub(super) fn stays(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The word after the seat of `host`, which is as `before` says, has become as `after` says.
    pub(super) fn next(self, phase: Phase, host: u8, before: State, after: State) -> Self {
        let count = |now: u8, counts: fn(State) -> bool| {
            now.wrapping_add(counts(after).into()).wrapping_sub(counts(before).into())
        };
        let seated = count(self.seated(), State::is_seated);
        let ready = count(self.ready(), |state| state == State::Ready);
        let stays = self.stays().wrapping_add((after == State::Claimed).into());
        Self(
            phase as u64
                | (after as u64) << 2
                | u64::from(self.openings()) << 5
                | u64::from(host) << 8
                | u64::from(seated) << 16
                | u64::from(ready) << 24
                | u64::from(stays) << 32,
        )
    }

    /// The same, if the pod is opened by that once more.
    pub(super) fn opened(self) -> Self {
        let openings = u64::from(self.openings() + 1) % 8;
        Self(self.0 & !(7 << 5) | openings << 5)
    }
}

/// Whose seat a change concerns that is only one of the phase.
pub(super) const NOBODY: u8 = u8::MAX;

/// A seat's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeatWord(pub(super) u64);

impl SeatWord {
    pub(super) fn new(stay: u32, state: State) -> Self {
        Self(u64::from(stay) << 32 | state as u64)
    }

    pub(super) fn load<M: Memory>(memory: &M, areas: &Areas, host: u8) -> Self {
        Self(memory.load(seat_word(areas, host)))
    }

    pub(super) fn state(self) -> State {
        State::from_bits(self.0)
    }

    pub(super) fn stay(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The seat of `host`, found like this as of `word` or just before, as of `word`.
    pub(super) fn as_of(self, word: Word, host: u8) -> Self {
        match (word.host() == host, word.made()) {
            (false, _) => self,
            (true, State::Claimed) => Self::new(word.stays(), State::Claimed),
            (true, made) => Self::new(self.stay(), made),
        }
    }
}

/// The word of `host` in column `column` of the host table.
fn host_word(areas: &Areas, host: u8, column: u64) -> ScrAddr<u64> {
    areas.hosts.line(u64::from(host)).element(column)
}

const SEAT: u64 = 0;
const REQUEST: u64 = 1;
const DOORBELL: u64 = 2;
const BEAT: u64 = 3;
const END: u64 = 4;

fn seat_word(areas: &Areas, host: u8) -> ScrAddr<u64> {
    host_word(areas, host, SEAT)
}

/// How often the stay that has a seat has beaten: its number (32 bits) | beats (32).
pub(crate) fn beat_word(areas: &Areas, host: u8) -> ScrAddr<u64> {
    host_word(areas, host, BEAT)
}

/// What is known of a fenced stay: its number (32 bits) | who clears up after it, plus one (8) | it is gone (1).
pub(crate) fn end_word(areas: &Areas, host: u8) -> ScrAddr<u64> {
    host_word(areas, host, END)
}

pub(crate) fn request_word(areas: &Areas, host: u8) -> ScrAddr<u64> {
    host_word(areas, host, REQUEST)
}

/// Who has mail for `host`: a bit per sender.
pub(crate) fn doorbell_word(areas: &Areas, host: u8) -> ScrAddr<u64> {
    host_word(areas, host, DOORBELL)
}

pub(super) fn seat_now<M: Memory>(memory: &M, areas: &Areas, host: u8) -> SeatWord {
    let word = Word::load(memory, areas);
    SeatWord::load(memory, areas, host).as_of(word, host)
}

/// Brings the seat up to date that `word` names, unless somebody has: before the word changes.
pub(super) fn settle<M: Memory>(memory: &M, areas: &Areas, word: Word) {
    let host = word.host();
    if !memory.keeps(sites::MEMBER_SETTLE) || host >= areas.host_count {
        return;
    }
    let found = SeatWord::load(memory, areas, host);
    let settled = found.as_of(word, host);
    // If there were changes since, what was found may be newer than `word`.
    let same = || memory.check(sites::MEMBER_SAME, Word::load(memory, areas) == word);
    if settled != found && same() {
        let at = seat_word(areas, host);
        let _ = memory.compare_exchange(sites::MEMBER_SEAT, at, found.0, settled.0);
    }
}

/// Changes the membership word, the seat that `from` names being settled.
pub(super) fn change<M: Memory>(memory: &M, areas: &Areas, from: Word, to: Word) -> bool {
    memory.compare_exchange(sites::MEMBER_CHANGE, areas.membership, from.0, to.0).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_count_seats_and_stays() {
        let claimed = Word(0).next(Phase::Closed, 63, State::Free, State::Claimed);
        assert_eq!((claimed.seated(), claimed.ready(), claimed.stays()), (0, 0, 1));
        let joined = claimed.next(Phase::Opening, 63, State::Claimed, State::Joining);
        assert_eq!(
            (joined.phase(), joined.host(), joined.made()),
            (Phase::Opening, 63, State::Joining)
        );
        assert_eq!((joined.seated(), joined.ready(), joined.stays()), (1, 0, 1));
        let ready = joined.next(Phase::Open, 63, State::Joining, State::Ready);
        assert_eq!((ready.seated(), ready.ready(), ready.stays()), (1, 1, 1));
        let closing = ready.next(Phase::Closing, 63, State::Ready, State::Ready);
        assert_eq!((closing.seated(), closing.ready(), closing.phase()), (1, 1, Phase::Closing));
        let closed = closing.next(Phase::Closed, 63, State::Ready, State::Free);
        assert_eq!((closed.seated(), closed.ready(), closed.stays()), (0, 0, 1));
        assert_eq!(closed.phase(), Phase::Closed);
    }

    #[test]
    fn a_seat_is_the_same_whether_it_was_settled_or_not() {
        let now = Word(7 << 32).next(Phase::Open, 3, State::Free, State::Claimed);
        let before = SeatWord::new(5, State::Free);
        let settled = before.as_of(now, 3);
        assert_eq!((settled.stay(), settled.state()), (8, State::Claimed));
        assert_eq!(settled.as_of(now, 3), settled);
        assert_eq!(before.as_of(now, 2), before);
        let entered = now.next(Phase::Open, 3, State::Claimed, State::Joining);
        assert_eq!(settled.as_of(entered, 3), SeatWord::new(8, State::Joining));
        let left = entered.next(Phase::Open, 3, State::Joining, State::Free);
        assert_eq!(settled.as_of(left, 3), SeatWord::new(8, State::Free));
    }
}
