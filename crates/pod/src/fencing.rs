//! Hosts that have died, or are taken for dead: how others go on without them.
//!
//! A host is *fenced* by taking its seat, and its entry in the roster of each area. It may be
//! alive: paused, cut off, slow. From then on no host waits for it; what it may still be writing no
//! other host uses. Once it is known to be *gone* (its process has ended; it says so itself; an
//! operator says so) its seat may be another host's, and one of the others clears up after it in
//! each area, and frees its entry there. A new host in the seat waits for that before it takes part
//! in that area. While no living host runs an area's tenant, the entry waits for one that does, and
//! nothing else waits for it.
//!
//! ```text
//! end word      of a seat: stay (32 bits) | whether it is gone (1)
//! cleanup word  of a roster's entry: stay (32 bits) | host that clears up, plus one (8)
//!               whether it is gone from the area (1)
//! ```
//!
//! Signs of life: a process of the same machine is watched by a descriptor; and each host *beats* a
//! word in SCR. A host that is merely silent is fenced only by a host that has to wait for it:
//! [`Watch::is_silent`].
//!
//! In each area one host at a time clears up after a stay. If it dies at that, another takes its
//! place when it is gone, too: as long as it may be at anything, so may be the one that it clears
//! up after, as far as others can tell.

use std::sync::Mutex;
use std::time::Duration;

use tombolo_memory::Memory;

use crate::area::Area;
use crate::roster::{Standing, cleanup_word, standing, stay_at, take_entry};
use crate::seats::{SeatState, beat_word, end_word};
use crate::sites;
use crate::superblock::Pod;

/// A host's stay in the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stay {
    /// The host's number.
    pub host: u8,
    /// Which of all stays: its incarnation.
    pub number: u32,
}

/// The bit of an end or cleanup word.
const GONE: u64 = 1;

/// The part of a cleanup word that is about its stay.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cleanup {
    /// The host that clears up.
    by: Option<u8>,
    /// The host is alive, perhaps, but at nothing any more in the area.
    gone: bool,
}

impl Cleanup {
    /// The meaning of `word` for `stay`: nothing, if it is about another one.
    fn of(stay: Stay, word: u64) -> Self {
        let low = about(word, stay).unwrap_or(0);
        let by = (low >> 8 & 0xff).checked_sub(1).map(|host| host as u8);
        Self { by, gone: low & GONE != 0 }
    }

    fn word(self, stay: Stay) -> u64 {
        let by = self.by.map_or(0, |host| u64::from(host) + 1);
        with_stay(stay, by << 8 | u64::from(self.gone))
    }
}

fn with_stay(stay: Stay, low: u64) -> u64 {
    u64::from(stay.number) << 32 | low
}

/// The low half of a word, if it is about this stay.
fn about(word: u64, stay: Stay) -> Option<u64> {
    ((word >> 32) as u32 == stay.number).then_some(word & u64::from(u32::MAX))
}

impl<M: Memory> Pod<M> {
    /// Whether a stay is known to be at nothing any more: its process has ended, or it was noted
    /// that it is gone, or its seat is free or another's.
    pub fn is_gone(&self, stay: Stay) -> bool {
        let end = self.memory().load(end_word(self.places(), stay.host));
        let noted = about(end, stay).is_some_and(|low| low & GONE != 0);
        // The seat last: its next host may be writing its name over that of this stay just now.
        noted || self.has_ended(stay) || self.is_over(stay)
    }

    /// Whether the process of a stay that has its seat, or was fenced, has ended.
    pub fn has_ended(&self, stay: Stay) -> bool {
        self.process_of(stay).is_some_and(|process| self.memory().has_ended(process))
            && !self.is_over(stay)
    }

    /// Notes for all hosts that a stay is at nothing any more.
    pub fn note_gone(&self, stay: Stay) {
        let at = end_word(self.places(), stay.host);
        loop {
            let found = self.memory().load(at);
            let gone = with_stay(stay, GONE);
            if found == gone || self.is_over(stay) {
                return;
            }
            if self.memory().compare_exchange(sites::END_CHANGE, at, found, gone).is_ok() {
                return;
            }
        }
    }

    /// Fences the hosts whose processes have ended.
    pub fn fence_ended(&self) {
        self.stays_in(SeatState::Seated).filter(|&stay| self.has_ended(stay)).for_each(|stay| {
            self.fence(stay);
        });
    }
}

impl<M: Memory> Area<M> {
    /// The stay that takes part as `host`, or did so last.
    pub fn stay_of(&self, host: u8) -> Stay {
        Stay { host, number: stay_at(self.memory(), self.places(), host).0 }
    }

    /// Whether this stay takes part, or will once it is ready.
    pub fn is_member(&self, stay: Stay) -> bool {
        self.standing(stay) == Standing::Member
    }

    /// Whether this stay was fenced, and is not cleared up after.
    pub fn is_fenced(&self, stay: Stay) -> bool {
        self.standing(stay) == Standing::Fenced
    }

    fn standing(&self, stay: Stay) -> Standing {
        standing(self.memory(), self.places(), stay.host, stay.number)
    }

    /// Fences a stay: its seat in the pod, and its entry here. Whether it took part.
    pub fn fence(&self, stay: Stay) -> bool {
        self.pod().fence(stay);
        take_entry(self.memory(), self.places(), stay, true)
    }

    /// Fences the hosts that take part and whose processes have ended, or whose seats were taken.
    pub fn fence_ended(&self) {
        let pod = self.pod();
        let stays = self.membership().hosts().map(|host| self.stay_of(host)).collect::<Vec<_>>();
        for stay in stays {
            if pod.has_ended(stay) || !pod.is_seated(stay) {
                self.fence(stay);
            }
        }
    }

    /// Whether a stay is known to be at nothing any more here.
    pub fn is_gone(&self, stay: Stay) -> bool {
        let word = self.memory().load(cleanup_word(self.places(), stay.host));
        Cleanup::of(stay, word).gone || self.pod().is_gone(stay)
    }

    /// Notes for all hosts that a stay is at nothing any more here.
    pub fn note_gone(&self, stay: Stay) {
        self.change_cleanup(stay, |now| (!now.gone).then_some(Cleanup { gone: true, ..now }));
    }

    /// Frees the entry of a stay that was fenced, is gone, and is cleared up after here; and its
    /// seat. Whether the entry was still there.
    pub fn release(&self, stay: Stay) -> bool {
        // Nobody would know from here on that it is gone, and take over what it has begun.
        self.drop_cleanups_of(stay);
        let released = take_entry(self.memory(), self.places(), stay, false);
        self.pod().release(stay);
        released
    }

    /// Frees the entries of all hosts that were fenced: what they held here is in order, and they
    /// are gone.
    pub fn release_fenced(&self) {
        for host in self.membership().fenced() {
            self.release(self.stay_of(host));
        }
    }

    /// Makes `host` the one that clears up here after a stay that was fenced; whether it is now.
    pub fn begin_cleanup(&self, stay: Stay, host: u8) -> bool {
        let mut ours = false;
        self.change_cleanup(stay, |now| {
            let free = now.by.is_none_or(|by| self.is_out(by));
            ours = now.by == Some(host);
            (!ours && free).then_some(Cleanup { by: Some(host), ..now })
        }) || ours
    }

    /// `host` is through with what it could do for a stay, or has freed its entry.
    pub fn yield_cleanup(&self, stay: Stay, host: u8) {
        self.drop_cleanup(stay, host);
    }

    /// Lets others clear up where the fenced `stay` was at it: it is gone.
    fn drop_cleanups_of(&self, stay: Stay) {
        for host in 0..self.places().host_count {
            self.drop_cleanup(self.stay_of(host), stay.host);
        }
    }

    fn drop_cleanup(&self, stay: Stay, host: u8) {
        self.change_cleanup(stay, |now| {
            (now.by == Some(host)).then_some(Cleanup { by: None, ..now })
        });
    }

    /// Whether the last stay that took part as `host` was fenced, and is gone.
    fn is_out(&self, host: u8) -> bool {
        let stay = self.stay_of(host);
        self.is_fenced(stay) && self.is_gone(stay)
    }

    /// Changes what is known of a stay here, as long as its entry is not free; whether it was
    /// changed.
    fn change_cleanup(
        &self,
        stay: Stay,
        mut change: impl FnMut(Cleanup) -> Option<Cleanup>,
    ) -> bool {
        let at = cleanup_word(self.places(), stay.host);
        loop {
            let found = self.memory().load(at);
            if self.standing(stay) == Standing::Over {
                return false;
            }
            let Some(changed) = change(Cleanup::of(stay, found)) else { return false };
            let word = changed.word(stay);
            if self.memory().compare_exchange(sites::END_CHANGE, at, found, word).is_ok() {
                return true;
            }
        }
    }
}

/// How often a host is looked at, at least, within the time after which it counts as silent: so a
/// machine that does nothing for a while takes nobody for dead.
const LOOKS: u32 = 12;

/// How many times as long a process of this machine may be silent that has something to do, and so
/// may wait for a processor.
const BUSY: u32 = 40;

/// One host's observations of the others' signs of life. Shared by its threads.
pub struct Watch {
    signs: Box<[Mutex<Sign>]>,
}

#[derive(Clone, Copy, Default)]
struct Sign {
    /// The stay, and how far its beats are: before its first one, those of the seat's last host are
    /// there.
    seen: (u32, u64),
    /// When this beat was first and last seen, by this host's clock.
    since: Duration,
    last: Duration,
    looks: u32,
}

impl Watch {
    /// Has seen none of a pod's hosts.
    pub fn new<M: Memory>(pod: &Pod<M>) -> Self {
        let hosts = pod.places().host_count;
        Self { signs: (0..hosts).map(|_| Mutex::default()).collect() }
    }

    /// Whether a stay has given no sign of life for as long as `timeout` says, while this was asked
    /// again and again by threads that wait for it.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn is_silent<M: Memory>(&self, pod: &Pod<M>, stay: Stay, timeout: Duration) -> bool {
        let seen = (stay.number, pod.memory().load(beat_word(pod.places(), stay.host)));
        let now = pod.memory().uptime();
        let mut sign = self.signs[usize::from(stay.host)]
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if sign.looks == 0 || sign.seen != seen {
            *sign = Sign { seen, since: now, last: now, looks: 1 };
            return false;
        }
        if now.saturating_sub(sign.last) >= timeout / (2 * LOOKS) {
            sign.last = now;
            sign.looks += 1;
        }
        let silence = now.saturating_sub(sign.since);
        if sign.looks < LOOKS || silence < timeout {
            return false;
        }
        if silence >= timeout.saturating_mul(BUSY) {
            return true;
        }
        // A machine that has too much to do lets processes wait for long. One that is stopped or
        // frozen waits for none.
        let running = |process| pod.memory().is_running(process);
        let busy = pod.process_of(stay).is_some_and(running);
        // It may just have had its turn, and sleep until the next: what it is doing tells less than
        // what it has done.
        !busy && pod.memory().load(beat_word(pod.places(), stay.host)) == seen.1
    }
}
