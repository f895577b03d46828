//! Who is in the pod: a word for all, and a word per seat, in SCR ([`words`]).
//!
//! A change is one compare-and-swap of the membership word, which says what has become of whose seat.
//! The seat's own word follows: whoever wants to make the next change brings it up to date first,
//! and whoever looks before that takes the last change into account. So
//! * all seats are as the membership word says at any time, however many words they take: as they
//!   are found, but for the one that it names;
//! * a host that dies has made its change, or has not. What is left to be done is in the membership
//!   word, for anybody to do.
//! * a host is a member from its compare-and-swap on, before it loads anything that others may
//!   change as long as it is not. Which process it is it has said before ([`joining`]).
//!
//! No membership word comes twice within 2^32 claims: each change moves a seat or the phase on, and
//! only a claim begins anew. So who finds the same word again knows that nobody has come or left.
//!
//! `closed -> opening` by the first host to join, which rebuilds what lives in local memory only;
//! `opening -> open` when it has; `open -> closing` by the last ready host to leave, which puts
//! everything in order; `closing -> closed` when it has, and has fenced those who were
//! still joining. While a pod is opening or closing, others wait.
//!
//! A host that is taken for dead is *fenced*: it has no seat any more, and nobody else gets it before the
//! host is known to be gone and what it held was put in order ([`fencing`](crate::fencing)).

mod joining;
mod words;

use std::time::Duration;

use tombolo_memory::Memory;

pub use self::words::Phase;
use self::words::{NOBODY, SeatWord, State, Word, change, seat_now, settle};
pub(crate) use self::words::{beat_word, doorbell_word, end_word, request_word};

use crate::PodError;
use crate::geometry::Areas;
use crate::sites;
use crate::superblock::Pod;

/// How long a join waits for a pod that is being opened or closed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who is in the pod, as of one moment: if the membership word is still the same.
#[derive(Clone, Copy, Debug)]
pub struct Membership {
    word: Word,
    /// A bit per host.
    seated: u64,
    ready: u64,
    fenced: u64,
}

impl Membership {
    /// Looks at the membership of the pod with these areas.
    pub fn load<M: Memory>(memory: &M, areas: &Areas) -> Self {
        let word = Word::load(memory, areas);
        let (mut seated, mut ready, mut fenced) = (0, 0, 0);
        for host in 0..areas.host_count {
            let state = SeatWord::load(memory, areas, host).as_of(word, host).state();
            seated |= u64::from(state.is_seated()) << host;
            ready |= u64::from(state == State::Ready) << host;
            fenced |= u64::from(state == State::Fenced) << host;
        }
        Self { word, seated, ready, fenced }
    }

    /// Whether nobody has come or left since this began to be loaded.
    pub fn is_current<M: Memory>(self, memory: &M, areas: &Areas) -> bool {
        Word::load(memory, areas) == self.word
    }

    /// What the pod is doing.
    pub fn phase(self) -> Phase {
        self.word.phase()
    }

    /// The hosts that have a seat, by number.
    pub fn hosts(self) -> impl Iterator<Item = u8> {
        bits(self.seated)
    }

    /// The hosts that were fenced and are not cleared up after, by number.
    pub fn fenced(self) -> impl Iterator<Item = u8> {
        bits(self.fenced)
    }

    /// How many hosts have a seat.
    pub fn count(self) -> u32 {
        self.seated.count_ones()
    }

    /// Whether `host` has a replica.
    pub fn is_ready(self, host: u8) -> bool {
        self.ready >> host & 1 == 1
    }
}

fn bits(word: u64) -> impl Iterator<Item = u8> {
    (0..u64::BITS as u8).filter(move |&host| word >> host & 1 == 1)
}

/// The stay that has the seat of `host`, or had it last, and whether it still has it.
pub(crate) fn stay_at<M: Memory>(memory: &M, areas: &Areas, host: u8) -> (u32, bool) {
    let seat = seat_now(memory, areas, host);
    (seat.stay(), seat.state().is_seated())
}

/// What a stay is to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Seated,
    Fenced,
    Over,
}

/// What the stay `stay` of `host` is now.
pub(crate) fn standing<M: Memory>(memory: &M, areas: &Areas, host: u8, stay: u32) -> Standing {
    let seat = seat_now(memory, areas, host);
    match seat.state() {
        _ if seat.stay() != stay => Standing::Over,
        State::Free | State::Claimed => Standing::Over,
        State::Joining | State::Ready => Standing::Seated,
        State::Fenced => Standing::Fenced,
    }
}

/// Takes the seat of the stay `stay` of `host`, or frees it after it was taken; whether this call did.
pub(crate) fn take_seat<M: Memory>(
    memory: &M,
    areas: &Areas,
    (host, stay): (u8, u32),
    fence: bool,
) -> bool {
    loop {
        let now = Word::load(memory, areas);
        settle(memory, areas, now);
        let seat = SeatWord::load(memory, areas, host);
        let due = if fence { seat.state().is_seated() } else { seat.state() == State::Fenced };
        if seat.stay() != stay || !due {
            return false;
        }
        let after = if fence { State::Fenced } else { State::Free };
        if change(memory, areas, now, now.next(now.phase(), host, seat.state(), after)) {
            return true;
        }
    }
}

/// One host's place in a pod, from [`Pod::join`] to [`Seat::leave`].
#[derive(Clone, Debug)]
pub struct Seat {
    areas: Areas,
    host: u8,
    incarnation: u32,
    /// Which opening of the pod this host takes part in, and whether it is its own to open.
    opening: u8,
    opens: bool,
}

impl<M: Memory> Pod<M> {
    /// Whether some host has a seat and no replica: one load, and no look at the seats.
    pub fn has_joining(&self) -> bool {
        let now = Word::load(self.memory(), &self.areas());
        now.seated() != now.ready()
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

    /// Whether this stay is still in the pod. If it is not, the host was fenced, or expelled while it
    /// was joining; what it has not been told is done may be done or not.
    #[inline]
    pub fn holds<M: Memory>(&self, memory: &M) -> bool {
        standing(memory, &self.areas, self.host, self.incarnation) == Standing::Seated
    }

    /// Lets others see that this host is alive: about every millisecond.
    pub fn beat<M: Memory>(&self, memory: &M) {
        let at = beat_word(&self.areas, self.host);
        let beats = memory.load(at) as u32;
        memory.store(at, u64::from(self.incarnation) << 32 | u64::from(beats.wrapping_add(1)));
    }

    /// Announces that this host has a replica. If it was opening the pod, others may now join.
    ///
    /// # Errors
    /// [`PodError::Expelled`] if the last host has left meanwhile, and waited too long for this one, or if all have
    /// died and another one has opened the pod anew.
    pub fn ready<M: Memory>(&self, memory: &M) -> Result<(), PodError> {
        let done = self.change_own(memory, |now, state| {
            let is_open = matches!(now.phase(), Phase::Opening | Phase::Open);
            let may = memory.check(sites::MEMBER_OPEN, is_open)
                && memory.check(sites::MEMBER_OPENED, now.openings() == self.opening);
            may.then(|| now.next(Phase::Open, self.host, state, State::Ready))
        });
        if done { Ok(()) } else { Err(PodError::Expelled { host: self.host }) }
    }

    /// Gives the seat back.
    ///
    /// The last ready host does not leave yet: it waits for those who are joining
    /// ([`Leave::Wait`]), or has to put the pod in order and then call [`Seat::closed`]
    /// ([`Leave::Close`]).
    #[must_use]
    pub fn leave<M: Memory>(&self, memory: &M, wait_for_joining: bool) -> Leave {
        let mut outcome = Leave::Left;
        self.change_own(memory, |now, state| {
            let last_ready = state == State::Ready && now.ready() == 1;
            outcome = match last_ready {
                false => Leave::Left,
                true if now.seated() > 1 && wait_for_joining => Leave::Wait,
                true => Leave::Close,
            };
            match outcome {
                Leave::Left => Some(now.next(now.phase(), self.host, state, State::Free)),
                Leave::Wait => None,
                Leave::Close => Some(now.next(Phase::Closing, self.host, state, state)),
            }
        });
        outcome
    }

    /// Leaves the pod closed and in order, with nobody in it.
    pub fn closed<M: Memory>(&self, memory: &M) {
        if memory.keeps(sites::MEMBER_EXPEL) {
            while self.expel_one(memory) {}
        }
        self.change_own(memory, |now, state| {
            Some(now.next(Phase::Closed, self.host, state, State::Free))
        });
    }

    /// Fences a host that is still joining a pod that this one is closing; whether there was any.
    fn expel_one<M: Memory>(&self, memory: &M) -> bool {
        let now = Word::load(memory, &self.areas);
        settle(memory, &self.areas, now);
        for host in (0..self.areas.host_count).filter(|&host| host != self.host) {
            let state = SeatWord::load(memory, &self.areas, host).state();
            if state.is_seated() {
                // It does not know that yet, and may still store something.
                let fence = memory.keeps(sites::MEMBER_EXPEL_FENCED);
                let after = if fence { State::Fenced } else { State::Free };
                let next = now.next(Phase::Closing, host, state, after);
                change(memory, &self.areas, now, next);
                return true;
            }
        }
        false
    }

    /// If all hosts have died that had a replica: makes this one, which is joining, the one that opens the pod, as if
    /// it had been the first; whether it is that now. If not, and nobody is at that, it takes part
    /// in what others have opened by now.
    pub fn opens_anew<M: Memory>(&mut self, memory: &M) -> bool {
        let mut opening = self.opening;
        self.opens = self.change_own(memory, |now, _| {
            // Who opens a pod is not ready either, so while others are there it may be one of them.
            let left = match now.phase() {
                Phase::Open | Phase::Closing => true,
                Phase::Opening => now.seated() == 1,
                Phase::Closed => false,
            };
            let may = left && now.ready() == 0;
            // While another one opens it, who was in it before may still answer.
            if now.phase() != Phase::Opening {
                opening = now.openings();
            }
            may.then(|| {
                let next = now.next(Phase::Opening, NOBODY, State::Free, State::Free).opened();
                opening = next.openings();
                next
            })
        });
        self.opening = opening;
        self.opens
    }

    /// Whether all hosts have died meanwhile, and another one has opened the pod anew: a replica of one of them is of
    /// no use any more.
    pub fn is_overtaken<M: Memory>(&self, memory: &M) -> bool {
        Word::load(memory, &self.areas).openings() != self.opening
    }

    /// Gives up a seat whose pod could not be opened or joined; the host stores nothing any more. If it was to be opened, it stays
    /// closed.
    pub fn give_up<M: Memory>(&self, memory: &M) {
        self.change_own(memory, |now, state| {
            let phase = match now.phase() {
                // Another host may be at that.
                phase if !self.opens && memory.keeps(sites::MEMBER_OPENER) => phase,
                Phase::Opening if now.seated() > 1 => Phase::Open,
                Phase::Opening => Phase::Closed,
                phase => phase,
            };
            Some(now.next(phase, self.host, state, State::Free))
        });
        while self.is_expelled(memory) {}
    }

    /// If this host was joining when the pod was closed, and nobody has opened it since: frees its seat; whether that is still to
    /// be done.
    fn is_expelled<M: Memory>(&self, memory: &M) -> bool {
        let now = Word::load(memory, &self.areas);
        settle(memory, &self.areas, now);
        let seat = SeatWord::load(memory, &self.areas, self.host);
        let closed = matches!(now.phase(), Phase::Closing | Phase::Closed);
        let expelled = closed && seat == SeatWord::new(self.incarnation, State::Fenced);
        let next = now.next(now.phase(), self.host, State::Fenced, State::Free);
        expelled && !change(memory, &self.areas, now, next)
    }

    /// Makes the change that `next` says, if it says one, as long as the seat is this host's; whether
    /// it was made.
    fn change_own<M: Memory>(
        &self,
        memory: &M,
        mut next: impl FnMut(Word, State) -> Option<Word>,
    ) -> bool {
        loop {
            let now = Word::load(memory, &self.areas);
            settle(memory, &self.areas, now);
            let seat = SeatWord::load(memory, &self.areas, self.host);
            let ours = seat.stay() == self.incarnation && seat.state().is_seated();
            if !memory.check(sites::MEMBER_OURS, ours) {
                return false;
            }
            match next(now, seat.state()) {
                None => return false,
                Some(next) if change(memory, &self.areas, now, next) => return true,
                Some(_) => {}
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
