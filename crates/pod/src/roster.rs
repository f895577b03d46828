//! Which hosts take part in an area: a word for all, and an entry per host, in SCR ([`words`]).
//!
//! A host that has a seat in the pod *enrols* in the areas whose tenants it runs. So each area is
//! opened and closed by itself, its log waits for the hosts that follow it and for no others, and
//! it says for itself whether a dead host is cleared up after.
//!
//! A change is one compare-and-swap of the roster's word, which says what has become of whose
//! entry. The entry follows: a host that wants to make the next change brings it up to date first,
//! and a host that looks before that takes the last change into account. So
//! * all entries are as the roster's word says at any time, however many words they take: as they
//!   are found, but for the one that it names;
//! * a host that dies has made its change, or has not. What is left to be done is in the roster's
//!   word, for any host to do;
//! * a host takes part from its compare-and-swap on, before it loads anything that others may
//!   change as long as it does not.
//!
//! No roster's word comes twice: each change moves an entry or the phase on, only enrolling begins
//! anew, and the word has the number of the stay that was the last to do so. So a host that finds
//! the same word again knows that no other has come or left.
//!
//! `closed -> opening` by the first host to enrol, which rebuilds what lives in local memory only;
//! `opening -> open` when it has; `open -> closing` by the last ready host to leave, which puts
//! everything in order; `closing -> closed` when it has, and has expelled those that were
//! still joining. While an area is opening or closing, others wait.
//!
//! A host that is taken for dead is *fenced*: its entry is nobody else's before the host is known
//! to be gone and what it held was put in order ([`fencing`](crate::fencing)).

mod words;

use std::time::Duration;

use tombolo_memory::Memory;

pub use self::words::Phase;
use self::words::{EntryWord, NOBODY, State, Word, change, entry_now, settle};
pub(crate) use self::words::{cleanup_word, doorbell_word, request_word};

use crate::area::Area;
use crate::fencing::Stay;
use crate::layout::AreaPlaces;
use crate::seats::Seat;
use crate::{PodError, sites};

/// How long enrolling waits for an area that is being opened or closed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which hosts take part in an area, as of one moment: if the roster's word is still the same.
#[derive(Clone, Copy, Debug)]
pub struct Membership {
    word: Word,
    /// A bit per host.
    members: u64,
    ready: u64,
    fenced: u64,
}

impl Membership {
    /// Looks at the roster of the area with these places.
    pub fn load<M: Memory>(memory: &M, places: &AreaPlaces) -> Self {
        let word = Word::load(memory, places);
        let (mut members, mut ready, mut fenced) = (0, 0, 0);
        for host in 0..places.host_count {
            let state = EntryWord::load(memory, places, host).as_of(word, host).state();
            members |= u64::from(state.takes_part()) << host;
            ready |= u64::from(state == State::Ready) << host;
            fenced |= u64::from(state == State::Fenced) << host;
        }
        Self { word, members, ready, fenced }
    }

    /// Whether no host has come or left since this began to be loaded.
    pub fn is_current<M: Memory>(self, memory: &M, places: &AreaPlaces) -> bool {
        Word::load(memory, places) == self.word
    }

    /// The phase of the area.
    pub fn phase(self) -> Phase {
        self.word.phase()
    }

    /// The hosts that take part, by number.
    pub fn hosts(self) -> impl Iterator<Item = u8> {
        bits(self.members)
    }

    /// The hosts that were fenced and are not cleared up after, by number.
    pub fn fenced(self) -> impl Iterator<Item = u8> {
        bits(self.fenced)
    }

    /// How many hosts take part.
    pub fn count(self) -> u32 {
        self.members.count_ones()
    }

    /// Whether `host` has a replica.
    pub fn is_ready(self, host: u8) -> bool {
        self.ready >> host & 1 == 1
    }
}

fn bits(word: u64) -> impl Iterator<Item = u8> {
    (0..u64::BITS as u8).filter(move |&host| word >> host & 1 == 1)
}

/// The stay that has the entry of `host`, or had it last, and whether it takes part.
pub(crate) fn stay_at<M: Memory>(memory: &M, places: &AreaPlaces, host: u8) -> (u32, bool) {
    let entry = entry_now(memory, places, host);
    (entry.stay(), entry.state().takes_part())
}

/// The standing of a stay among the others in an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Member,
    Fenced,
    Over,
}

/// The present standing of the stay `stay` of `host`.
pub(crate) fn standing<M: Memory>(
    memory: &M,
    places: &AreaPlaces,
    host: u8,
    stay: u32,
) -> Standing {
    let entry = entry_now(memory, places, host);
    match entry.state() {
        _ if entry.stay() != stay => Standing::Over,
        State::Free => Standing::Over,
        State::Joining | State::Ready => Standing::Member,
        State::Fenced => Standing::Fenced,
    }
}

/// Fences the entry of a stay, or frees it after it was fenced; whether this call did.
pub(crate) fn take_entry<M: Memory>(
    memory: &M,
    places: &AreaPlaces,
    stay: Stay,
    fence: bool,
) -> bool {
    loop {
        let now = Word::load(memory, places);
        settle(memory, places, now);
        let entry = EntryWord::load(memory, places, stay.host);
        let due = if fence { entry.state().takes_part() } else { entry.state() == State::Fenced };
        if entry.stay() != stay.number || !due {
            return false;
        }
        let after = if fence { State::Fenced } else { State::Free };
        if change(memory, places, now, now.next(now.phase(), stay.host, entry.state(), after)) {
            return true;
        }
    }
}

/// One host's part in an area, from [`Area::enrol`] to [`Enrolment::leave`].
#[derive(Clone, Debug)]
pub struct Enrolment {
    places: AreaPlaces,
    stay: Stay,
    /// Which opening of the area this host takes part in, and whether it is its own to open.
    opening: u8,
    opens: bool,
}

impl<M: Memory> Area<M> {
    /// Whether some host takes part and has no replica: one load, and no look at the entries.
    pub fn has_joining(&self) -> bool {
        let now = Word::load(self.memory(), self.places());
        now.members() != now.ready()
    }

    /// The host in `seat` takes part from now on. If the area was closed, or no host that takes
    /// part in it is alive, its phase is now [`Phase::Opening`], and this host has to get it ready
    /// and then call [`Enrolment::ready`]; the second value says so. Blocks for up to 30 seconds.
    ///
    /// # Errors
    /// [`PodError::Busy`] if the area is opening or closing for too long, or the others do not
    /// clear up after the last host in this seat; [`PodError::Expelled`] if this host was fenced.
    pub fn enrol(&self, seat: &Seat) -> Result<(Enrolment, bool), PodError> {
        let memory = self.memory();
        let started = memory.uptime();
        loop {
            self.fence_ended();
            if !seat.holds(memory) {
                return Err(PodError::Expelled { host: seat.host() });
            }
            if let Some((enrolment, first)) = self.try_enrol(seat) {
                memory.store(request_word(self.places(), seat.host()), 0);
                return Ok((enrolment, first));
            }
            let waited = memory.uptime().saturating_sub(started);
            if waited > PATIENCE {
                return Err(self.is_busy(waited));
            }
            memory.pause();
        }
    }

    fn try_enrol(&self, seat: &Seat) -> Option<(Enrolment, bool)> {
        let (memory, places, stay) = (self.memory(), self.places(), seat.stay());
        loop {
            let now = Word::load(memory, places);
            settle(memory, places, now);
            let entry = EntryWord::load(memory, places, stay.host);
            let (phase, first) = match now.phase() {
                Phase::Closed => (Phase::Opening, true),
                // All have died: what they had under way is the next one's to put in order.
                _ if now.members() == 0 => (Phase::Opening, true),
                Phase::Open => (Phase::Open, false),
                Phase::Opening | Phase::Closing => return None,
            };
            // The remains of the last host in this seat are put in order first: by the others, or,
            // if there is none, by this one when it opens the area.
            let left = entry.state() != State::Free && memory.keeps(sites::ROSTER_CLEARED);
            if left && !first {
                return None;
            }
            let next = now.with(phase, stay, entry.state());
            let next = if first { next.opened() } else { next };
            if change(memory, places, now, next) {
                let opening = next.openings();
                return Some((Enrolment { places: *places, stay, opening, opens: first }, first));
            }
        }
    }

    fn is_busy(&self, waited: Duration) -> PodError {
        let now = self.membership();
        let host = now.hosts().next().unwrap_or(0);
        PodError::Busy {
            host,
            pid: self.pod().pid_at(host),
            doing: match now.phase() {
                Phase::Opening => "opening",
                Phase::Closing => "closing",
                Phase::Open | Phase::Closed => "clearing up in",
            },
            kind: self.layout().kind,
            waited_ms: waited.as_millis() as u64,
        }
    }
}

impl Enrolment {
    /// This host's number.
    pub fn host(&self) -> u8 {
        self.stay.host
    }

    /// This host's stay.
    pub fn stay(&self) -> Stay {
        self.stay
    }

    /// Whether this stay still takes part. If it does not, the host was fenced, or expelled while
    /// it was joining; a change that it has not been told is done may be done or not.
    #[inline]
    pub fn holds<M: Memory>(&self, memory: &M) -> bool {
        standing(memory, &self.places, self.stay.host, self.stay.number) == Standing::Member
    }

    /// Announces that this host has a replica. If it was opening the pod, others may now join.
    ///
    /// # Errors
    /// [`PodError::Expelled`] if the last host has left meanwhile, and waited too long for this
    /// one, or if all have died and another one has opened the pod anew.
    pub fn ready<M: Memory>(&self, memory: &M) -> Result<(), PodError> {
        let done = self.change_own(memory, |now, state| {
            let is_open = matches!(now.phase(), Phase::Opening | Phase::Open);
            let may = memory.check(sites::ROSTER_OPEN, is_open)
                && memory.check(sites::ROSTER_OPENED, now.openings() == self.opening);
            may.then(|| now.next(Phase::Open, self.stay.host, state, State::Ready))
        });
        if done { Ok(()) } else { Err(PodError::Expelled { host: self.host() }) }
    }

    /// Gives the seat back.
    ///
    /// The last ready host does not leave yet: it waits for those who are joining
    /// ([`Leave::Wait`]), or has to put the pod in order and then call [`Enrolment::closed`]
    /// ([`Leave::Close`]).
    #[must_use]
    pub fn leave<M: Memory>(&self, memory: &M, wait_for_joining: bool) -> Leave {
        let mut outcome = Leave::Left;
        self.change_own(memory, |now, state| {
            let last_ready = state == State::Ready && now.ready() == 1;
            outcome = match last_ready {
                false => Leave::Left,
                true if now.members() > 1 && wait_for_joining => Leave::Wait,
                true => Leave::Close,
            };
            match outcome {
                Leave::Left => Some(now.next(now.phase(), self.stay.host, state, State::Free)),
                Leave::Wait => None,
                Leave::Close => Some(now.next(Phase::Closing, self.stay.host, state, state)),
            }
        });
        outcome
    }

    /// Leaves the pod closed and in order, with nobody in it.
    pub fn closed<M: Memory>(&self, memory: &M) {
        if memory.keeps(sites::ROSTER_EXPEL) {
            while self.expel_one(memory) {}
        }
        self.change_own(memory, |now, state| {
            Some(now.next(Phase::Closed, self.stay.host, state, State::Free))
        });
    }

    /// Expels a host that is still joining a pod that this one is closing; whether there was any.
    fn expel_one<M: Memory>(&self, memory: &M) -> bool {
        let now = Word::load(memory, &self.places);
        settle(memory, &self.places, now);
        for host in (0..self.places.host_count).filter(|&host| host != self.stay.host) {
            let state = EntryWord::load(memory, &self.places, host).state();
            if state.takes_part() {
                // It does not know that yet, and may still store something; but its number is no
                // other host's as long as it has its seat.
                let next = now.next(Phase::Closing, host, state, State::Free);
                change(memory, &self.places, now, next);
                return true;
            }
        }
        false
    }

    /// If all hosts have died that had a replica: makes this one, which is joining, the one that
    /// opens the pod, as if it had been the first; whether it is that now. If not, and nobody is at
    /// that, it takes part in what others have opened by now.
    pub fn opens_anew<M: Memory>(&mut self, memory: &M) -> bool {
        let before = self.opening;
        let mut opening = before;
        self.opens = self.change_own(memory, |now, _| {
            // A host that opens a pod is not ready either, so while others are there it may be one
            // of them.
            let left = match now.phase() {
                Phase::Open | Phase::Closing => true,
                Phase::Opening => now.members() == 1,
                Phase::Closed => false,
            };
            let may = left && now.ready() == 0;
            // While another one opens it, a host that was in it before may still answer. This may
            // not be the first attempt: one that lost to that other one says nothing.
            opening = if now.phase() == Phase::Opening { before } else { now.openings() };
            may.then(|| {
                let next = now.next(Phase::Opening, NOBODY, State::Free, State::Free).opened();
                opening = next.openings();
                next
            })
        });
        self.opening = opening;
        self.opens
    }

    /// Whether all hosts have died meanwhile, and another one has opened the pod anew: a replica of
    /// one of them is of no use any more.
    pub fn is_overtaken<M: Memory>(&self, memory: &M) -> bool {
        Word::load(memory, &self.places).openings() != self.opening
    }

    /// Gives up a seat whose pod could not be opened or joined; the host stores nothing any more.
    /// If it was to be opened, it stays closed.
    pub fn give_up<M: Memory>(&self, memory: &M) {
        self.change_own(memory, |now, state| {
            let phase = match now.phase() {
                // Another host may be at that.
                phase if !self.opens && memory.keeps(sites::ROSTER_OPENER) => phase,
                Phase::Opening if now.members() > 1 => Phase::Open,
                Phase::Opening => Phase::Closed,
                phase => phase,
            };
            Some(now.next(phase, self.stay.host, state, State::Free))
        });
    }

    /// Makes the change that `next` says, if it says one, as long as the seat is this host's;
    /// whether it was made.
    fn change_own<M: Memory>(
        &self,
        memory: &M,
        mut next: impl FnMut(Word, State) -> Option<Word>,
    ) -> bool {
        loop {
            let now = Word::load(memory, &self.places);
            settle(memory, &self.places, now);
            let entry = EntryWord::load(memory, &self.places, self.stay.host);
            let ours = entry.stay() == self.stay.number && entry.state().takes_part();
            if !memory.check(sites::ROSTER_OURS, ours) {
                return false;
            }
            match next(now, entry.state()) {
                None => return false,
                Some(next) if change(memory, &self.places, now, next) => return true,
                Some(_) => {}
            }
        }
    }
}

/// The outcome of [`Enrolment::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The seat is free.
    Left,
    /// This is the last ready host, and others are joining: help them, then try again.
    Wait,
    /// This is the last host: the pod is closing, and it is this host's to put in order.
    Close,
}
