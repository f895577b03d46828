//! The hosts of a pod and their states, as one of them sees them, a few times a second.
//!
//! ```text
//! live -> silent -> live       its beat stands still for half a second, and moves again
//! live, silent -> ended        its process is known to have ended
//! any -> fenced -> dead        it was fenced; it is cleaned up after, and its seat is free
//! live -> left                 it gave its seat back
//! ```

use std::time::{Duration, Instant};

use serde::Serialize;
use tombolo_memory::{Mapped, Memory, Process};
use tombolo_objects::Objects;
use tombolo_pod::{Pod, SeatState, Stay};

/// A host beats each millisecond: this long without one is no accident, if this host itself has
/// looked so often meanwhile.
const SILENCE: Duration = Duration::from_millis(500);
const LOOKS: u32 = 4;

/// How long a host that is not in the pod any more is shown.
const REMEMBERED: Duration = Duration::from_secs(120);

/// How a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HostState {
    /// It gives signs of life.
    Live,
    /// It has given none for half a second: frozen, stopped, overloaded, or dead elsewhere.
    Silent,
    /// Its process has ended, and its seat is not taken yet.
    Ended,
    /// The others go on without it; it is not cleaned up after.
    Fenced,
    /// It was fenced, and nothing of it is left.
    Dead,
    /// It gave its seat back.
    Left,
}

impl HostState {
    /// All of them, with their names.
    pub(crate) const ALL: [(Self, &'static str); 6] = [
        (Self::Live, "live"),
        (Self::Silent, "silent"),
        (Self::Ended, "ended"),
        (Self::Fenced, "fenced"),
        (Self::Dead, "dead"),
        (Self::Left, "left"),
    ];

    /// Whether it has a seat, or had one that is not free yet.
    pub(crate) fn is_in_pod(self) -> bool {
        !matches!(self, Self::Dead | Self::Left)
    }
}

/// A host that has, or had, a seat.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) stay: Stay,
    pub(crate) process: Option<Process>,
    pub(crate) state: HostState,
    /// Since when it is in this state.
    pub(crate) since: Instant,
    /// Its beats, when they moved last, and how often they were looked at since.
    beats: (Option<u32>, Instant, u32),
}

/// A change of a host's state that a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) stay: Stay,
    pub(crate) pid: u64,
    /// `None` if it was not seen before.
    pub(crate) from: Option<HostState>,
    pub(crate) to: HostState,
    /// Whether its process is known to have ended.
    pub(crate) ended: bool,
    /// How long it was in its state before.
    pub(crate) after: Duration,
}

/// All hosts that were seen lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(Vec<Seen>);

impl Hosts {
    /// Looks at all seats.
    pub(crate) fn look(&mut self, objects: &Objects<Mapped>) -> Vec<Changed> {
        let (pod, now) = (objects.pod(), Instant::now());
        let mut changed = Vec::new();
        for host in 0..pod.layout().hosts as u8 {
            let (seat, stay) = pod.seat_of(host);
            let has_seat = matches!(seat, SeatState::Seated | SeatState::Fenced);
            if has_seat && !self.0.iter().any(|seen| seen.stay == stay) {
                changed.push(self.enter(pod, stay, now));
            }
        }
        for seen in &mut self.0 {
            let state = seen.look(objects, now);
            changed.extend(seen.become_(state, pod, now));
        }
        self.0.retain(|seen| {
            seen.state.is_in_pod() || now.saturating_duration_since(seen.since) < REMEMBERED
        });
        self.0.sort_by_key(|seen| (seen.stay.host, std::cmp::Reverse(seen.stay.number)));
        changed
    }

    /// All of them, by their numbers; of one number, the last stay first.
    pub(crate) fn all(&self) -> &[Seen] {
        &self.0
    }

    /// How many are in this state.
    pub(crate) fn count(&self, state: HostState) -> usize {
        self.0.iter().filter(|seen| seen.state == state).count()
    }

    fn enter(&mut self, pod: &Pod<Mapped>, stay: Stay, now: Instant) -> Changed {
        let process = pod.process_of(stay);
        let beats = (pod.beats_of(stay), now, 0);
        self.0.push(Seen { stay, process, state: HostState::Live, since: now, beats });
        let pid = process.map_or(0, |process| process.id);
        let (to, after) = (HostState::Live, Duration::ZERO);
        Changed { stay, pid, from: None, to, ended: false, after }
    }
}

impl Seen {
    /// The number of its process; 0, if that is not known.
    pub(crate) fn pid(&self) -> u64 {
        self.process.map_or(0, |process| process.id)
    }

    fn look(&mut self, objects: &Objects<Mapped>, now: Instant) -> HostState {
        let pod = objects.pod();
        let beats = pod.beats_of(self.stay);
        let own = objects.seat().stay() == self.stay;
        if beats != self.beats.0 || own {
            self.beats = (beats, now, 0);
        }
        self.beats.2 += 1;
        let silence = now.saturating_duration_since(self.beats.1);
        match pod.seat_of(self.stay.host) {
            (SeatState::Fenced, stay) if stay == self.stay => HostState::Fenced,
            (SeatState::Seated, stay) if stay == self.stay => {
                if pod.has_ended(stay) {
                    HostState::Ended
                } else if silence >= SILENCE && self.beats.2 >= LOOKS {
                    HostState::Silent
                } else {
                    HostState::Live
                }
            }
            _ if !self.state.is_in_pod() => self.state,
            _ if self.state == HostState::Fenced || objects.was_fenced(self.stay) => {
                HostState::Dead
            }
            _ => HostState::Left,
        }
    }

    fn become_(&mut self, to: HostState, pod: &Pod<Mapped>, now: Instant) -> Option<Changed> {
        if to == self.state {
            return None;
        }
        let ended = self.process.is_some_and(|process| pod.memory().has_ended(process));
        let (from, after) = (self.state, now.saturating_duration_since(self.since));
        (self.state, self.since) = (to, now);
        Some(Changed { stay: self.stay, pid: self.pid(), from: Some(from), to, ended, after })
    }
}
