//! Hosts that have died, or are taken for dead: how others go on without them.
//!
//! A host is *fenced* by taking its seat, one compare-and-swap of the membership word. It may be alive: paused,
//! cut off, slow. From then on nobody waits for it; what it may still be writing to nobody else uses. Once
//! it is known to be *gone* (its process has ended; it says so itself; an operator says so) one of the others clears up after
//! it, and gives its seat back.
//!
//! ```text
//! beat word   stay (32 bits) | beats (32)
//! end word    stay (32 bits) | who clears up, plus one (8) | gone (1)
//! ```
//!
//! Signs of life: a process of the same machine is watched by a descriptor; and each host *beats* a word in SCR.
//! A host that is merely silent is fenced only by who has to wait for it: [`Watch::is_silent`].
//!
//! Who clears up is one host at a time. If it dies at that, another takes its place when it is gone, too: as long
//! as it may be at anything, so may be the one that it clears up after, as far as others can tell.

use std::sync::Mutex;
use std::time::Duration;

use tombolo_memory::Memory;

use crate::membership::{Standing, beat_word, end_word, standing, stay_at, take_seat};
use crate::sites;
use crate::superblock::Pod;
use crate::{Membership, Seat};

/// A host's stay in the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stay {
    /// The host's number.
    pub host: u8,
    /// Which of all stays: its incarnation.
    pub number: u32,
}

const GONE: u64 = 1;

/// What the end word says of its stay.
#[derive(Clone, Copy, PartialEq, Eq)]
struct End {
    stay: u32,
    /// Who clears up.
    clearing: Option<u8>,
    gone: bool,
}

impl End {
    fn from_word(word: u64) -> Self {
        let clearing = (word >> 8 & 0xff).checked_sub(1).map(|host| host as u8);
        Self { stay: (word >> 32) as u32, clearing, gone: word & GONE != 0 }
    }

    fn word(self) -> u64 {
        let clearing = self.clearing.map_or(0, |host| u64::from(host) + 1);
        u64::from(self.stay) << 32 | clearing << 8 | u64::from(self.gone)
    }
}

impl<M: Memory> Pod<M> {
    /// The stay that has the seat of `host`, or had it last.
    pub fn stay_of(&self, host: u8) -> Stay {
        Stay { host, number: stay_at(self.memory(), &self.areas(), host).0 }
    }

    /// Whether this stay is in the pod, or will be once its host is ready.
    pub fn is_seated(&self, stay: Stay) -> bool {
        self.standing(stay) == Standing::Seated
    }

    /// Whether this stay was fenced, and its seat is not free yet.
    pub fn is_fenced(&self, stay: Stay) -> bool {
        self.standing(stay) == Standing::Fenced
    }

    fn standing(&self, stay: Stay) -> Standing {
        standing(self.memory(), &self.areas(), stay.host, stay.number)
    }

    /// Takes the seat of a host that is dead, or taken for dead; whether it had one.
    pub fn fence(&self, stay: Stay) -> bool {
        take_seat(self.memory(), &self.areas(), (stay.host, stay.number), true)
    }

    /// Frees the seat of a host that was fenced, is gone, and is cleared up after.
    pub fn release(&self, stay: Stay) -> bool {
        take_seat(self.memory(), &self.areas(), (stay.host, stay.number), false)
    }

    /// Whether a stay is known to be at nothing any more: its process has ended, or somebody has noted that
    /// it is gone.
    pub fn is_gone(&self, stay: Stay) -> bool {
        let end = self.end(stay.host);
        end.stay == stay.number && end.gone || self.has_ended(stay)
    }

    /// Whether the process of a stay has ended.
    pub fn has_ended(&self, stay: Stay) -> bool {
        self.process_of(stay).is_some_and(|process| self.memory().has_ended(process))
            && self.standing(stay) != Standing::Over
    }

    /// Frees the seats of all who were fenced: what they held is in order, and they are gone.
    pub fn release_fenced(&self) {
        for host in self.membership().fenced() {
            self.release(self.stay_of(host));
        }
    }

    /// Notes for all hosts that a stay is at nothing any more.
    pub fn note_gone(&self, stay: Stay) {
        self.change_end(stay, |end| (!end.gone).then_some(End { gone: true, ..end }));
    }

    /// Makes `seat` the one that clears up after a stay that is gone; whether it is now.
    pub fn take_over(&self, stay: Stay, seat: &Seat) -> bool {
        let mut ours = false;
        self.change_end(stay, |end| {
            let free = end.clearing.is_none_or(|host| self.is_out(host));
            ours = end.clearing == Some(seat.host());
            let mine = End { clearing: Some(seat.host()), ..end };
            (!ours && free).then_some(mine)
        }) || ours
    }

    /// `seat` is through with what it could do for a stay, or has freed its seat.
    pub fn leave_over(&self, stay: Stay, seat: &Seat) {
        self.change_end(stay, |end| {
            let ours = end.clearing == Some(seat.host());
            ours.then_some(End { clearing: None, ..end })
        });
    }

    /// Lets others clear up where the fenced `stay` was at it: it is gone.
    pub fn give_over(&self, stay: Stay) {
        for host in 0..self.areas().host_count {
            let of = self.stay_of(host);
            self.change_end(of, |end| {
                let theirs = end.clearing == Some(stay.host);
                theirs.then_some(End { clearing: None, ..end })
            });
        }
    }

    /// Whether who has the seat of `host` was fenced, and is gone.
    fn is_out(&self, host: u8) -> bool {
        let stay = self.stay_of(host);
        self.is_fenced(stay) && self.is_gone(stay)
    }

    fn end(&self, host: u8) -> End {
        End::from_word(self.memory().load(end_word(&self.areas(), host)))
    }

    /// Changes what is known of a stay, as long as its seat is not free; whether it was changed.
    fn change_end(&self, stay: Stay, mut change: impl FnMut(End) -> Option<End>) -> bool {
        let at = end_word(&self.areas(), stay.host);
        loop {
            let found = self.memory().load(at);
            let end = match End::from_word(found) {
                end if end.stay == stay.number => end,
                _ => End { stay: stay.number, clearing: None, gone: false },
            };
            if self.standing(stay) == Standing::Over {
                return false;
            }
            let Some(end) = change(end) else { return false };
            let changed =
                self.memory().compare_exchange(sites::MEMBER_CHANGE, at, found, end.word());
            if changed.is_ok() {
                return true;
            }
        }
    }
}

/// How often a host is looked at, at least, within the time after which it counts as silent: so a machine that
/// does nothing for a while takes nobody for dead.
const LOOKS: u32 = 12;

/// How many times as long a process of this machine may be silent that has something to do, and so may wait for a processor.
const BUSY: u32 = 40;

/// What one host has seen of the others' signs of life. Shared by its threads.
pub struct Watch {
    timeout: Duration,
    signs: Box<[Mutex<Sign>]>,
}

#[derive(Clone, Copy, Default)]
struct Sign {
    /// The stay, and how far its beats are: before its first one, those of the seat's last host are there.
    seen: (u32, u64),
    /// When this beat was first and last seen, by this host's clock.
    since: Duration,
    last: Duration,
    looks: u32,
}

impl Watch {
    /// Takes hosts of a pod for silent if they have not beaten for so long.
    pub fn new<M: Memory>(pod: &Pod<M>, timeout: Duration) -> Self {
        let hosts = pod.areas().host_count;
        Self { timeout, signs: (0..hosts).map(|_| Mutex::default()).collect() }
    }

    /// Whether a stay has given no sign of life for as long as that takes, while this was asked again and
    /// again: by whoever waits for it.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn is_silent<M: Memory>(&self, pod: &Pod<M>, stay: Stay) -> bool {
        let seen = (stay.number, pod.memory().load(beat_word(&pod.areas(), stay.host)));
        let now = pod.memory().uptime();
        let mut sign = self.signs[usize::from(stay.host)]
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if sign.looks == 0 || sign.seen != seen {
            *sign = Sign { seen, since: now, last: now, looks: 1 };
            return false;
        }
        if now.saturating_sub(sign.last) >= self.timeout / (2 * LOOKS) {
            sign.last = now;
            sign.looks += 1;
        }
        let silence = now.saturating_sub(sign.since);
        if sign.looks < LOOKS || silence < self.timeout {
            return false;
        }
        if silence >= self.timeout.saturating_mul(BUSY) {
            return true;
        }
        // A machine that has too much to do lets processes wait for long. One that is stopped or frozen waits for none.
        let running = |process| pod.memory().is_running(process);
        let busy = pod.process_of(stay).is_some_and(running);
        // It may just have had its turn, and sleep until the next: what it is doing tells less than what it has done.
        !busy && pod.memory().load(beat_word(&pod.areas(), stay.host)) == seen.1
    }
}

/// Fences the members whose processes have ended.
pub fn fence_ended<M: Memory>(pod: &Pod<M>, members: Membership) {
    let stays = members.hosts().map(|host| pod.stay_of(host));
    for stay in stays.filter(|&stay| pod.has_ended(stay)) {
        pod.fence(stay);
    }
}
