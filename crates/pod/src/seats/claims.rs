//! Taking a seat, in three steps, so that a host that has one has said which process it is.
//!
//! 1. A seat is *claimed*, under the number of a new stay. A host that has a claim is not in the
//!    pod. Nobody waits for it, and it may store nothing but its name.
//! 2. The host says which process it is: words of the seat's line of names, each with half of a
//!    word and the number of the stay.
//! 3. The host *enters*: by compare-and-swap of the seat's word, as long as the claim is its own.
//!
//! A host that dies before the third step leaves a claim and nothing else. A host that wants a seat
//! when no other is free takes over claims that are not made good soon. A slow host whose claim was
//! taken over finds out, since it cannot enter, and begins anew. Its late words do no harm. Each is
//! a compare-and-swap of what was there while the claim was its own, so it does not meet what a
//! later claimer has written; and a later claimer writes over what it has written itself.

use std::time::Duration;

use tombolo_memory::{FetchOp, LifeLock, Memory, Process, ScrAddr};

use super::{Seat, SeatState, SeatWord, seat_word, step};
use crate::fencing::Stay;
use crate::layout::Places;
use crate::superblock::Pod;
use crate::{PodError, sites};

/// How long a host waits for a seat that will soon be free.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long others leave a claim alone: many times what it takes to make it good.
const CLAIM_PATIENCE: Duration = Duration::from_micros(100);

/// Claims that a host may lose, one after the other, until it gives up.
const LOST_CLAIMS: u32 = 1000;

/// The words of a name: number, machine, mark and locks' file of a process, in halves.
const HALVES: u64 = 8;

/// Why a seat could not be had yet.
enum Blocked {
    /// All seats are taken. Some may soon be free.
    Full { soon: bool },
    /// The host has claimed a seat, and lost it.
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
    /// Takes a free seat. Blocks for up to 30 seconds while one will soon be free.
    ///
    /// # Errors
    /// [`PodError::Full`], or [`PodError::Slow`] if this host never takes a seat before another one
    /// takes over its claim.
    pub fn join(&self) -> Result<Seat, PodError> {
        let memory = self.memory();
        let (started, mut claims, mut lost) = (memory.uptime(), Claims::default(), 0);
        // The first time that takes longer than others leave a claim alone.
        memory.process();
        self.fence_ended();
        loop {
            let blocked = match self.try_join(&mut claims) {
                Ok(stay) => {
                    let seat = Seat { places: *self.places(), stay };
                    seat.beat(memory);
                    return Ok(seat);
                }
                Err(blocked) => blocked,
            };
            let waited = memory.uptime().saturating_sub(started);
            match blocked {
                Blocked::Full { soon } if !soon || waited > PATIENCE => {
                    return Err(self.is_full());
                }
                Blocked::Lost if lost + 1 == LOST_CLAIMS => {
                    return Err(PodError::Slow { claims: LOST_CLAIMS });
                }
                Blocked::Full { .. } | Blocked::Lost => {
                    lost += u32::from(matches!(blocked, Blocked::Lost));
                    self.fence_ended();
                    memory.pause();
                }
            }
        }
    }

    fn is_full(&self) -> PodError {
        let fenced = self.stays_in(SeatState::Fenced).filter(|&stay| !self.is_gone(stay));
        PodError::Full {
            hosts: self.places().host_count,
            place: self.memory().place(),
            fenced: fenced.map(|stay| stay.host).collect(),
        }
    }

    /// Claims a seat, says which process this is, and enters.
    fn try_join(&self, claims: &mut Claims) -> Result<Stay, Blocked> {
        let claim = self.claim(claims)?;
        if self.memory().keeps(sites::JOIN_NAME) {
            self.name(claim)?;
        }
        let (claimed, seated) = (SeatState::Claimed, SeatState::Seated);
        let entered = step(self.memory(), self.places(), claim, claimed, seated);
        entered.then_some(claim).ok_or(Blocked::Lost)
    }

    /// Claims a seat.
    fn claim(&self, claims: &mut Claims) -> Result<Stay, Blocked> {
        let (memory, places) = (self.memory(), self.places());
        let seats: Vec<SeatWord> =
            (0..places.host_count).map(|host| SeatWord::load(memory, places, host)).collect();
        let Some(host) = self.choose(&seats, claims) else {
            let soon = seats.iter().any(|seat| seat.state() == SeatState::Claimed);
            return Err(Blocked::Full { soon });
        };
        let number = memory.fetch(sites::JOIN_NUMBER, places.stays, FetchOp::Add, 1) as u32 + 1;
        let claimed = SeatWord::new(number, SeatState::Claimed);
        let (at, found) = (seat_word(places, host), seats[usize::from(host)]);
        match memory.compare_exchange(sites::JOIN_CLAIM, at, found.0, claimed.0) {
            Ok(_) => Ok(Stay { host, number }),
            Err(_) => Err(Blocked::Lost),
        }
    }

    /// The seat to be claimed: a free one, or else one whose claim is not made good, or one of a
    /// host that was fenced and is gone.
    fn choose(&self, seats: &[SeatWord], claims: &mut Claims) -> Option<u8> {
        let memory = self.memory();
        let of = |state: SeatState| {
            let stay = |(host, seat): (u8, &SeatWord)| Stay { host, number: seat.stay() };
            (0..).zip(seats).filter(move |(_, seat)| seat.state() == state).map(stay)
        };
        let time = memory.uptime();
        let stale = |claim: &Stay| claims.is_stale(*claim, time);
        let gone = |stay: &Stay| self.is_gone(*stay);
        let chosen = of(SeatState::Free)
            .next()
            .or_else(|| {
                let may = memory.keeps(sites::JOIN_TAKE_OVER);
                of(SeatState::Claimed).find(stale).filter(|_| may)
            })
            .or_else(|| of(SeatState::Fenced).find(gone));
        chosen.map(|stay| stay.host)
    }

    /// Says which process has claimed a seat. It holds the lock of its stay from before it is in
    /// the pod.
    fn name(&self, claim: Stay) -> Result<(), Blocked> {
        let (memory, places) = (self.memory(), self.places());
        let process = memory.process_holding(claim.number);
        for (number, half) in halves(process).enumerate() {
            let at = name_word(places, claim.host, number as u64);
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
        self.seat_of(claim.host) == (SeatState::Claimed, claim)
    }

    /// The process of a stay, as long as its seat is not claimed anew; `None` if there is no such
    /// stay.
    pub fn process_of(&self, stay: Stay) -> Option<Process> {
        let places = self.places();
        let mut halves = [0; HALVES as usize];
        for (number, half) in (0..).zip(&mut halves) {
            let word = self.memory().load(name_word(places, stay.host, number));
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

fn halves(process: Process) -> impl Iterator<Item = u64> {
    let Process { id, machine, mark, lock } = process;
    let low = |word: u64| word & u64::from(u32::MAX);
    [id, machine, mark, lock.map_or(0, |lock| lock.file)]
        .into_iter()
        .flat_map(move |word| [low(word), word >> 32])
}

/// A word of the name of who has the seat of `host`, or had it last: stay (32 bits) | half of a
/// word (32).
fn name_word(places: &Places, host: u8, number: u64) -> ScrAddr<u64> {
    places.names.line(u64::from(host)).element(number)
}
