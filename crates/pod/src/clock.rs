//! A clock by which a deadline passes for all hosts at once, however far their own clocks differ.
//!
//! A deadline has passed when the pod's clock has reached it. A host whose own clock has reached
//! it first advances the pod's; so once one host has reported it as passed, every host does.
//!
//! So the clock that is ahead decides for all, and one that is an hour ahead ends an hour too soon
//! what others have given an hour to live. That cannot be mended here; but hosts tell each other
//! what their clocks say ([`Clocks`]).

use tombolo_memory::{FetchOp, Memory, ScrAddr};

use crate::seats::{SeatState, time_word};
use crate::sites;
use crate::superblock::Pod;

/// The pod's clock, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub struct PodClock {
    latest: ScrAddr<u64>,
}

impl PodClock {
    pub(crate) fn new(latest: ScrAddr<u64>) -> Self {
        Self { latest }
    }

    /// The time: this host's, or a later one that the pod has reached already.
    pub fn now_ms<M: Memory>(&self, memory: &M) -> u64 {
        memory.wall_clock_ms().max(memory.load(self.latest))
    }

    /// Whether `deadline_ms` has passed; if so, it has for everybody from now on.
    pub fn has_passed<M: Memory>(&self, memory: &M, deadline_ms: u64) -> bool {
        if memory.load(self.latest) >= deadline_ms {
            return true;
        }
        if memory.wall_clock_ms() < deadline_ms {
            return false;
        }
        if memory.keeps(sites::CLOCK_ADVANCE) {
            memory.fetch(sites::CLOCK_MAX, self.latest, FetchOp::Max, deadline_ms);
        }
        true
    }
}

const MS_BITS: u32 = 48;

/// A word by which a stay tells what its clock says.
pub(crate) fn told(stay: u32, ms: u64) -> u64 {
    u64::from(stay) << MS_BITS | ms & ((1 << MS_BITS) - 1)
}

/// Clocks that differ by no more than this, in milliseconds, agree.
pub const CLOCKS_AGREE_MS: u64 = 1000;

/// How often in a row a clock has to be found to differ: a host that is slow to look finds all
/// others late.
const LOOKS: u32 = 3;

/// How far the clocks of the other hosts are from this one's, as far as they have told since this
/// looks.
#[derive(Debug, Default)]
pub struct Clocks(Vec<OtherClock>);

#[derive(Debug)]
struct OtherClock {
    host: u8,
    /// The last time that it has told.
    told: u64,
    /// By how much it was ahead then, once it has told something while this looked.
    ahead_ms: Option<i64>,
    /// How often in a row it differed too much.
    differed: u32,
}

impl Clocks {
    /// Looks at the clocks of the hosts that have a seat, but for `own`: to be called a few times a
    /// second. Returns those that are now known to differ, and were not before: each host's number,
    /// and by how many milliseconds its clock is ahead.
    pub fn look<M: Memory>(&mut self, pod: &Pod<M>, own: Option<u8>) -> Vec<(u8, i64)> {
        let now_ms = pod.memory().wall_clock_ms();
        let stays = pod.stays_in(SeatState::Seated).map(|stay| stay.host);
        let hosts: Vec<u8> = stays.filter(|&host| Some(host) != own).collect();
        self.0.retain(|clock| hosts.contains(&clock.host));
        let of = |host: u8| pod.memory().load(time_word(pod.places(), host));
        let differs = |&host: &u8| self.note((host, pod.stay_of(host).number), of(host), now_ms);
        hosts.iter().filter_map(differs).collect()
    }

    /// By how many milliseconds the clock of `host` is ahead, if that is known.
    pub fn ahead_ms(&self, host: u8) -> Option<i64> {
        self.0.iter().find(|clock| clock.host == host)?.ahead_ms
    }

    /// How many milliseconds the clock that differs most is away.
    pub fn widest_ms(&self) -> u64 {
        let differences = self.0.iter().filter_map(|clock| clock.ahead_ms);
        differences.map(i64::unsigned_abs).max().unwrap_or(0)
    }

    /// Notes what the word of a stay says at `now_ms`.
    fn note(&mut self, (host, stay): (u8, u32), found: u64, now_ms: u64) -> Option<(u8, i64)> {
        let Some(clock) = self.0.iter_mut().find(|clock| clock.host == host) else {
            self.0.push(OtherClock { host, told: found, ahead_ms: None, differed: 0 });
            return None;
        };
        // How long ago it told this is known only if that was since the last look.
        let is_new = clock.told != found && found >> MS_BITS == told(stay, 0) >> MS_BITS;
        clock.told = found;
        if !is_new {
            return None;
        }
        let ahead = (found & ((1 << MS_BITS) - 1)) as i64 - now_ms as i64;
        clock.ahead_ms = Some(ahead);
        let differs = ahead.unsigned_abs() > CLOCKS_AGREE_MS;
        clock.differed = if differs { clock.differed.saturating_add(1) } else { 0 };
        (clock.differed == LOOKS).then_some((host, ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clocks that were an hour apart ended all keys at once, and nobody was told.
    #[test]
    fn a_clock_that_differs_is_told_of_once() {
        let (mut clocks, stay, hour) = (Clocks::default(), 70_000, 3_600_000);
        let mut said = Vec::new();
        for now_ms in (1_700_000_000_000..).step_by(100).take(100) {
            said.extend(clocks.note((3, stay), told(stay, now_ms + hour), now_ms));
            said.extend(clocks.note((4, stay + 1), told(stay + 1, now_ms - 200), now_ms));
        }
        assert_eq!(said, [(3, hour as i64)]);
        assert_eq!((clocks.ahead_ms(3), clocks.ahead_ms(4)), (Some(hour as i64), Some(-200)));
        assert_eq!(clocks.widest_ms(), hour);
    }

    #[test]
    fn a_clock_that_stands_still_or_is_of_another_stay_says_nothing() {
        let mut clocks = Clocks::default();
        for now_ms in (1_700_000_000_000..).step_by(100).take(100) {
            assert_eq!(clocks.note((3, 7), told(7, 1_600_000_000_000), now_ms), None);
            assert_eq!(clocks.note((4, 9), told(8, now_ms + 5000), now_ms), None);
        }
        assert_eq!(clocks.ahead_ms(3), None);
        assert_eq!(clocks.ahead_ms(4), None);
    }
}
