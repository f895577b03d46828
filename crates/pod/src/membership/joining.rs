//! Taking a seat, in three steps, so that whoever has one has said which process it is.
//!
//! 1. A seat is *claimed*: by compare-and-swap of the membership word, which gives the claim the number of a stay. Who has a
//!    claim is not in the pod. Nobody waits for it, and it may store nothing but its name.
//! 2. It says which process it is: words of the seat's line of names, each with half of a word and the number of the stay.
//! 3. It *enters*: by compare-and-swap of the membership word, as long as the claim is its own.
//!
//! Who dies before the third step leaves a claim and nothing else, and who wants a seat when no other is free takes over claims
//! that are not made good soon. Whose claim was taken over, and who is merely slow, finds out: it cannot enter, and begins anew. Its late
//! words do no harm. Each is a compare-and-swap of what was there while the claim was its own, so what a later claimer has
//! written it does not meet; and what it has written itself, a later claimer writes over.

use std::time::Duration;

use tombolo_memory::{LifeLock, Memory, Process, ScrAddr};

use super::words::{Phase, SeatWord, State, Word, change, request_word, seat_now, settle};
use super::{PATIENCE, Seat};
use crate::fencing::{Stay, fence_ended};
use crate::geometry::Areas;
use crate::superblock::Pod;
use crate::{PodError, sites};

/// How long others leave a claim alone: many times what it takes to make it good.
const CLAIM_PATIENCE: Duration = Duration::from_micros(100);

/// Claims that a host may lose, one after the other, until it gives up.
const LOST_CLAIMS: u32 = 1000;

/// The words of a name: number, machine, mark and locks' file of a process, in halves.
const HALVES: u64 = 8;

/// What there is to wait for before a seat can be had.
enum Blocked {
    /// All seats are taken. Some may soon be free.
    Full { soon: bool },
    /// Another host opens or closes the pod.
    Phase,
    /// Who has claimed a seat has lost it.
    Lost,
}

/// The claims that a joining host has seen last, and since when.
#[derive(Default)]
struct Claims(Vec<(Stay, Duration)>);

impl Claims {
    /// Whether this claim has been seen for so long that its host is dead, or slow.
    fn is_stale(&mut self, claim: Stay, now: Duration) -> bool {
        match self.0.iter_mut().find(|(seen, _)| seen.host == claim.host) {
            Some((seen, since)) if *seen == claim => now.saturating_sub(*since) > CLAIM_PATIENCE,
            Some(seen) => {
                *seen = (claim, now);
                false
            }
            None => {
                self.0.push((claim, now));
                false
            }
        }
    }
}

impl<M: Memory> Pod<M> {
    /// Takes a free seat. If the pod was closed, its phase is now [`Phase::Opening`], this host
    /// has to get it ready and then call [`Seat::ready`]; the second value says so.
    ///
    /// # Errors
    /// [`PodError::Full`], [`PodError::Busy`] if the pod is opening or closing for too long, or [`PodError::Slow`] if this host
    /// never takes a seat before another one takes over its claim.
    pub fn join(&self) -> Result<(Seat, bool), PodError> {
        let memory = self.memory();
        let (areas, started) = (self.areas(), memory.uptime());
        let (mut held, mut claims, mut lost) = (None, Claims::default(), 0);
        // The first time that takes longer than others leave a claim alone.
        memory.process();
        fence_ended(self, self.membership());
        loop {
            let blocked = match self.try_join(&mut held, &mut claims) {
                Ok((seat, first)) => {
                    memory.store(request_word(&areas, seat.host), 0);
                    seat.beat(memory);
                    return Ok((seat, first));
                }
                Err(blocked) => blocked,
            };
            let waited = memory.uptime().saturating_sub(started);
            match blocked {
                Blocked::Full { soon } if !soon || waited > PATIENCE => {
                    return Err(self.is_full());
                }
                Blocked::Phase if waited > PATIENCE => return Err(self.is_busy(waited)),
                Blocked::Lost if lost + 1 == LOST_CLAIMS => {
                    return Err(PodError::Slow { claims: LOST_CLAIMS });
                }
                Blocked::Full { .. } | Blocked::Phase | Blocked::Lost => {
                    lost += u32::from(matches!(blocked, Blocked::Lost));
                    fence_ended(self, self.membership());
                    memory.pause();
                }
            }
        }
    }

    /// Goes as far as possible towards a seat; `held` is the claim that this host has.
    fn try_join(
        &self,
        held: &mut Option<Stay>,
        claims: &mut Claims,
    ) -> Result<(Seat, bool), Blocked> {
        let claim = match held.take() {
            Some(claim) => claim,
            None => {
                let claim = self.claim(claims)?;
                if self.memory().keeps(sites::JOIN_NAME) {
                    self.name(claim)?;
                }
                claim
            }
        };
        self.enter(claim).inspect_err(|blocked| {
            *held = matches!(blocked, Blocked::Phase).then_some(claim);
        })
    }

    /// Claims a seat.
    fn claim(&self, claims: &mut Claims) -> Result<Stay, Blocked> {
        let (memory, areas) = (self.memory(), self.areas());
        loop {
            let now = Word::load(memory, &areas);
            next_phase(now)?;
            settle(memory, &areas, now);
            let seats: Vec<SeatWord> =
                (0..areas.host_count).map(|host| SeatWord::load(memory, &areas, host)).collect();
            let Some(host) = self.choose(&seats, now, claims) else {
                // Seats are as `now` says only if that has not changed since.
                if Word::load(memory, &areas) != now {
                    continue;
                }
                let soon = |(host, seat): (u8, &SeatWord)| match seat.state() {
                    State::Claimed => true,
                    State::Fenced => self.is_gone(Stay { host, number: seat.stay() }),
                    _ => false,
                };
                return Err(Blocked::Full { soon: (0..).zip(&seats).any(soon) });
            };
            let state = seats[usize::from(host)].state();
            let next = now.next(now.phase(), host, state, State::Claimed);
            if change(memory, &areas, now, next) {
                return Ok(Stay { host, number: next.stays() });
            }
        }
    }

    /// The seat to be claimed: a free one, or else one whose claim is not made good, or, if nobody is in the pod, so that who
    /// enters will put all in order, one of a host that is gone.
    fn choose(&self, seats: &[SeatWord], now: Word, claims: &mut Claims) -> Option<u8> {
        let memory = self.memory();
        let of = |state: State| {
            let stay = |(host, seat): (u8, &SeatWord)| Stay { host, number: seat.stay() };
            (0..).zip(seats).filter(move |(_, seat)| seat.state() == state).map(stay)
        };
        let time = memory.uptime();
        let stale = |claim: &Stay| claims.is_stale(*claim, time);
        let left = |stay: &Stay| now.seated() == 0 && self.is_gone(*stay);
        let chosen = of(State::Free)
            .next()
            .or_else(|| {
                let may = memory.keeps(sites::JOIN_TAKE_OVER);
                of(State::Claimed).find(stale).filter(|_| may)
            })
            .or_else(|| of(State::Fenced).find(left));
        chosen.map(|stay| stay.host)
    }

    /// Says which process has claimed a seat. It holds the lock of its stay from before it is in the pod.
    fn name(&self, claim: Stay) -> Result<(), Blocked> {
        let (memory, areas) = (self.memory(), self.areas());
        let process = memory.process_holding(claim.number);
        for (number, half) in halves(process).enumerate() {
            let at = name_word(&areas, claim.host, number as u64);
            let named = u64::from(claim.number) << 32 | half;
            loop {
                let found = memory.load(at);
                // After that load: so what was found is not of a later claim.
                let ours = self.is_claimed(claim);
                if !memory.check(sites::JOIN_CLAIMED, ours) {
                    return Err(Blocked::Lost);
                }
                if memory.compare_exchange(sites::JOIN_WORD, at, found, named).is_ok() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn is_claimed(&self, claim: Stay) -> bool {
        let seat = seat_now(self.memory(), &self.areas(), claim.host);
        seat == SeatWord::new(claim.number, State::Claimed)
    }

    /// Makes a claim good: from here on the host is in the pod. Whether it has to open it.
    fn enter(&self, claim: Stay) -> Result<(Seat, bool), Blocked> {
        let (memory, areas) = (self.memory(), self.areas());
        loop {
            let now = Word::load(memory, &areas);
            settle(memory, &areas, now);
            let seat = SeatWord::load(memory, &areas, claim.host);
            let ours = seat == SeatWord::new(claim.number, State::Claimed);
            if !memory.check(sites::JOIN_STILL_CLAIMED, ours) {
                return Err(Blocked::Lost);
            }
            let (phase, first) = next_phase(now)?;
            let next = now.next(phase, claim.host, State::Claimed, State::Joining);
            let next = if first { next.opened() } else { next };
            if change(memory, &areas, now, next) {
                let Stay { host, number } = claim;
                let opening = next.openings();
                return Ok((
                    Seat { areas, host, incarnation: number, opening, opens: first },
                    first,
                ));
            }
        }
    }

    fn is_full(&self) -> PodError {
        let fenced = self.membership().fenced();
        let fenced = fenced.filter(|&host| !self.is_gone(self.stay_of(host))).collect();
        PodError::Full { hosts: self.areas().host_count, place: self.memory().place(), fenced }
    }

    fn is_busy(&self, waited: Duration) -> PodError {
        let now = self.membership();
        let host = now.hosts().next().unwrap_or(0);
        PodError::Busy {
            host,
            pid: self.pid_at(host),
            doing: if now.phase() == Phase::Opening { "opening" } else { "closing" },
            waited_ms: waited.as_millis() as u64,
        }
    }

    /// The process of a stay, as long as its seat is not claimed anew; `None` if there is no such stay.
    pub fn process_of(&self, stay: Stay) -> Option<Process> {
        let areas = self.areas();
        let mut halves = [0; HALVES as usize];
        for (number, half) in (0..).zip(&mut halves) {
            let word = self.memory().load(name_word(&areas, stay.host, number));
            if (word >> 32) as u32 != stay.number {
                return None;
            }
            *half = word & u64::from(u32::MAX);
        }
        let [id, machine, mark, file] = [0, 2, 4, 6].map(|low| halves[low] | halves[low + 1] << 32);
        let lock = (file != 0).then_some(LifeLock { file, number: stay.number });
        Some(Process { id, machine, mark, lock })
    }

    /// The number of the process that `host` runs in, or ran in last; 0 if there was none.
    pub fn pid_at(&self, host: u8) -> u64 {
        self.process_of(self.stay_of(host)).map_or(0, |process| process.id)
    }
}

/// What becomes of the phase when a host enters, and whether it is the one that opens the pod.
fn next_phase(now: Word) -> Result<(Phase, bool), Blocked> {
    match now.phase() {
        Phase::Closed => Ok((Phase::Opening, true)),
        // All have died: what they had under way is the next one's to put in order.
        _ if now.seated() == 0 => Ok((Phase::Opening, true)),
        Phase::Open => Ok((Phase::Open, false)),
        Phase::Opening | Phase::Closing => Err(Blocked::Phase),
    }
}

fn halves(process: Process) -> impl Iterator<Item = u64> {
    let Process { id, machine, mark, lock } = process;
    let low = |word: u64| word & u64::from(u32::MAX);
    [id, machine, mark, lock.map_or(0, |lock| lock.file)]
        .into_iter()
        .flat_map(move |word| [low(word), word >> 32])
}

/// A word of the name of who has the seat of `host`, or had it last: stay (32 bits) | half of a word (32).
fn name_word(areas: &Areas, host: u8, number: u64) -> ScrAddr<u64> {
    areas.names.line(u64::from(host)).element(number)
}
