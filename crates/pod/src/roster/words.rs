//! The words in SCR that say which hosts take part in an area, and how they change.
//!
//! ```text
//! roster   bits  0..2   phase: closed, opening, open, closing
//!          bits  2..5   what the last change made of an entry: free, joining, ready, fenced
//!          bits  5..8   how often the area was opened, modulo 8
//!          bits  8..16  whose entry
//!          bits 16..24  hosts that take part, and are not fenced
//!          bits 24..32  of these, hosts that are ready: they have a replica, and can help others
//!                       to one
//!          bits 32..64  the stay that was the last to enrol
//! entry    bits  0..3   free, joining, ready, fenced
//!          bits 32..64  the stay that has it, or had it last
//! ```
//!
//! The entry is the first word of a host's line. Behind it are a request for a snapshot, a
//! doorbell, and the host that clears up.

use tombolo_memory::{Memory, ScrAddr};

use crate::fencing::Stay;
use crate::layout::AreaPlaces;
use crate::sites;

/// The phase of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No host takes part in it.
    Closed,
    /// The first host is getting it ready.
    Opening,
    /// Hosts work.
    Open,
    /// The last host is putting it in order.
    Closing,
}

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
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
            1 => Self::Joining,
            2 => Self::Ready,
            _ => Self::Fenced,
        }
    }

    /// Whether its host takes part.
    pub(super) fn takes_part(self) -> bool {
        matches!(self, Self::Joining | Self::Ready)
    }
}

/// A roster's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    pub(super) fn load<M: Memory>(memory: &M, places: &AreaPlaces) -> Self {
        Self(memory.load(places.roster))
    }

    pub(super) fn phase(self) -> Phase {
        match self.0 & 3 {
            0 => Phase::Closed,
            1 => Phase::Opening,
            2 => Phase::Open,
            _ => Phase::Closing,
        }
    }

    /// The state that the last change gave the entry of [`host`](Self::host).
    pub(super) fn made(self) -> State {
        State::from_bits(self.0 >> 2)
    }

    pub(super) fn openings(self) -> u8 {
        (self.0 >> 5) as u8 % 8
    }

    pub(super) fn host(self) -> u8 {
        (self.0 >> 8) as u8
    }

    pub(super) fn members(self) -> u8 {
        (self.0 >> 16) as u8
    }

    pub(super) fn ready(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// The stay that was the last to enrol.
    pub(super) fn enrolled(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The word after the entry of `host`, which is as `before` says, has become as `after` says.
    pub(super) fn next(self, phase: Phase, host: u8, before: State, after: State) -> Self {
        let count = |now: u8, counts: fn(State) -> bool| {
            now.wrapping_add(counts(after).into()).wrapping_sub(counts(before).into())
        };
        let members = count(self.members(), State::takes_part);
        let ready = count(self.ready(), |state| state == State::Ready);
        Self(
            phase as u64
                | (after as u64) << 2
                | u64::from(self.openings()) << 5
                | u64::from(host) << 8
                | u64::from(members) << 16
                | u64::from(ready) << 24
                | u64::from(self.enrolled()) << 32,
        )
    }

    /// The word after `stay` has enrolled.
    pub(super) fn with(self, phase: Phase, stay: Stay, before: State) -> Self {
        let next = self.next(phase, stay.host, before, State::Joining);
        Self(next.0 & u64::from(u32::MAX) | u64::from(stay.number) << 32)
    }

    /// The same, if the area is opened by that once more.
    pub(super) fn opened(self) -> Self {
        let openings = u64::from(self.openings() + 1) % 8;
        Self(self.0 & !(7 << 5) | openings << 5)
    }
}

/// Whose entry a change concerns that is only one of the phase.
pub(super) const NOBODY: u8 = u8::MAX;

/// An entry's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryWord(pub(super) u64);

impl EntryWord {
    pub(super) fn new(stay: u32, state: State) -> Self {
        Self(u64::from(stay) << 32 | state as u64)
    }

    pub(super) fn load<M: Memory>(memory: &M, places: &AreaPlaces, host: u8) -> Self {
        Self(memory.load(entry_word(places, host)))
    }

    pub(super) fn state(self) -> State {
        State::from_bits(self.0)
    }

    pub(super) fn stay(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The entry of `host`, found like this as of `word` or just before, as of `word`.
    pub(super) fn as_of(self, word: Word, host: u8) -> Self {
        match (word.host() == host, word.made()) {
            (false, _) => self,
            (true, State::Joining) => Self::new(word.enrolled(), State::Joining),
            (true, made) => Self::new(self.stay(), made),
        }
    }
}

/// The word of `host` in column `column` of its line.
fn member_word(places: &AreaPlaces, host: u8, column: u64) -> ScrAddr<u64> {
    places.members.line(u64::from(host)).element(column)
}

const ENTRY: u64 = 0;
const REQUEST: u64 = 1;
const DOORBELL: u64 = 2;
const CLEANUP: u64 = 3;

fn entry_word(places: &AreaPlaces, host: u8) -> ScrAddr<u64> {
    member_word(places, host, ENTRY)
}

/// A request of `host` for a snapshot.
pub(crate) fn request_word(places: &AreaPlaces, host: u8) -> ScrAddr<u64> {
    member_word(places, host, REQUEST)
}

/// Which hosts have mail for `host`: a bit per sender.
pub(crate) fn doorbell_word(places: &AreaPlaces, host: u8) -> ScrAddr<u64> {
    member_word(places, host, DOORBELL)
}

/// Which host clears up after a fenced stay: the number of the stay (32 bits), that host plus one
/// (8).
pub(crate) fn cleanup_word(places: &AreaPlaces, host: u8) -> ScrAddr<u64> {
    member_word(places, host, CLEANUP)
}

pub(super) fn entry_now<M: Memory>(memory: &M, places: &AreaPlaces, host: u8) -> EntryWord {
    let word = Word::load(memory, places);
    EntryWord::load(memory, places, host).as_of(word, host)
}

/// Brings the entry up to date that `word` names, unless another thread has: before the word
/// changes.
pub(super) fn settle<M: Memory>(memory: &M, places: &AreaPlaces, word: Word) {
    let host = word.host();
    if !memory.keeps(sites::ROSTER_SETTLE) || host >= places.host_count {
        return;
    }
    let found = EntryWord::load(memory, places, host);
    let settled = found.as_of(word, host);
    // If there were changes since, what was found may be newer than `word`.
    let same = || memory.check(sites::ROSTER_SAME, Word::load(memory, places) == word);
    if settled != found && same() {
        let at = entry_word(places, host);
        let _ = memory.compare_exchange(sites::ROSTER_ENTRY, at, found.0, settled.0);
    }
}

/// Changes the roster's word, the entry that `from` names being settled.
pub(super) fn change<M: Memory>(memory: &M, places: &AreaPlaces, from: Word, to: Word) -> bool {
    memory.compare_exchange(sites::ROSTER_CHANGE, places.roster, from.0, to.0).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_count_members() {
        let stay = Stay { host: 63, number: 1 };
        let joined = Word(0).with(Phase::Opening, stay, State::Free);
        assert_eq!(
            (joined.phase(), joined.host(), joined.made()),
            (Phase::Opening, 63, State::Joining)
        );
        assert_eq!((joined.members(), joined.ready(), joined.enrolled()), (1, 0, 1));
        let ready = joined.next(Phase::Open, 63, State::Joining, State::Ready);
        assert_eq!((ready.members(), ready.ready(), ready.enrolled()), (1, 1, 1));
        let closing = ready.next(Phase::Closing, 63, State::Ready, State::Ready);
        assert_eq!((closing.members(), closing.ready(), closing.phase()), (1, 1, Phase::Closing));
        let closed = closing.next(Phase::Closed, 63, State::Ready, State::Free);
        assert_eq!((closed.members(), closed.ready(), closed.enrolled()), (0, 0, 1));
        assert_eq!(closed.phase(), Phase::Closed);
    }

    #[test]
    fn an_entry_is_the_same_whether_it_was_settled_or_not() {
        let now = Word(7 << 32).with(Phase::Open, Stay { host: 3, number: 8 }, State::Free);
        let before = EntryWord::new(5, State::Free);
        let settled = before.as_of(now, 3);
        assert_eq!((settled.stay(), settled.state()), (8, State::Joining));
        assert_eq!(settled.as_of(now, 3), settled);
        assert_eq!(before.as_of(now, 2), before);
        let ready = now.next(Phase::Open, 3, State::Joining, State::Ready);
        assert_eq!(settled.as_of(ready, 3), EntryWord::new(8, State::Ready));
        let left = ready.next(Phase::Open, 3, State::Ready, State::Free);
        assert_eq!(settled.as_of(left, 3), EntryWord::new(8, State::Free));
    }
}
