//! Looks at the pod and the host's counters a few times a second, and says what is new.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tombolo_memory::Mapped;
use tombolo_objects::Objects;
use tombolo_pod::Clocks;
use tracing::{info, warn};

use super::hosts::{Changed, HostState, Hosts};
use super::notify::ServiceManager;
use super::subject::{Subject, Trouble};
use crate::served::Tally;

/// The shortest time between two reports of one trouble, and between two of the host's status.
const AT_MOST: Duration = Duration::from_secs(1);

/// The last observations, for the pages.
#[derive(Clone, Default)]
pub(crate) struct Observed {
    pub(crate) hosts: Hosts,
    /// Each host's number, and by how many milliseconds its clock is ahead.
    pub(crate) clocks: Vec<(u8, i64)>,
    /// Troubles that were there in the last seconds.
    pub(crate) troubles: Vec<&'static str>,
}

/// How long a trouble is shown after it was met last.
const SHOWN: Duration = Duration::from_secs(10);

/// A counter of something that should not be.
struct Alarm {
    name: &'static str,
    told: u64,
    /// When something was said of it last, and when it grew.
    said: Option<Instant>,
    grew: Option<Instant>,
}

impl Alarm {
    fn new(name: &'static str, count: u64) -> Self {
        Self { name, told: count, said: None, grew: None }
    }

    /// By how much the counter has grown, if that is to be said now.
    fn look(&mut self, count: u64, now: Instant) -> Option<u64> {
        let new = count.saturating_sub(self.told);
        if new == 0 {
            return None;
        }
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < AT_MOST) {
            return None;
        }
        (self.told, self.said, self.grew) = (count, Some(now), Some(now));
        Some(new)
    }

    fn is_shown(&self, now: Instant) -> bool {
        self.grew.is_some_and(|grew| now.saturating_duration_since(grew) < SHOWN)
    }
}

/// Looks at a host, and at its pod.
pub(crate) struct Watch {
    hosts: Hosts,
    clocks: Clocks,
    tally: Arc<Tally>,
    /// One for each of the host's troubles, in the same order.
    alarms: Vec<Alarm>,
    observed: Arc<Mutex<Observed>>,
    status_told: Option<Instant>,
}

impl Watch {
    /// Of a host that has just joined.
    pub(crate) fn new(
        subject: &dyn Subject,
        tally: &Arc<Tally>,
        observed: &Arc<Mutex<Observed>>,
    ) -> Self {
        let objects = subject.objects();
        let seat = objects.seat();
        info!(
            host = u64::from(seat.host()),
            incarnation = u64::from(seat.incarnation()),
            pid = u64::from(std::process::id()),
            pod = %objects.pod().identity().uuid,
            objects = objects.usage().objects,
            "this host has joined the pod"
        );
        let alarm = |trouble: Trouble| Alarm::new(trouble.name, trouble.count);
        Self {
            hosts: Hosts::default(),
            clocks: Clocks::default(),
            alarms: subject.troubles().into_iter().map(alarm).collect(),
            tally: tally.clone(),
            observed: observed.clone(),
            status_told: None,
        }
    }

    /// Looks, and says what is new.
    pub(crate) fn look(&mut self, subject: &dyn Subject, manager: &ServiceManager) {
        let objects = subject.objects();
        let own = objects.seat().host();
        for changed in self.hosts.look(objects) {
            self.say(own, changed);
        }
        for cleanup in objects.take_cleanups() {
            warn!(
                host = u64::from(cleanup.stay.host),
                incarnation = u64::from(cleanup.stay.number),
                by = u64::from(own),
                locks = cleanup.locks,
                operations = cleanup.intents,
                whole = cleanup.whole,
                lost = cleanup.lost,
                chunks = cleanup.chunks,
                "cleaned up after a host that is gone"
            );
        }
        self.compare_clocks(objects);
        self.look_at_counters(own, subject.troubles());
        self.publish();
        self.tell(objects, manager);
    }

    fn say(&self, own: u8, changed: Changed) {
        let Changed { stay, pid, from, to, ended, after } = changed;
        let (host, incarnation) = (u64::from(stay.host), u64::from(stay.number));
        let (by, after_ms) = (u64::from(own), after.as_millis() as u64);
        if to == HostState::Fenced || (to == HostState::Dead && from != Some(HostState::Fenced)) {
            Tally::add(&self.tally.fences, 1);
            warn!(
                host,
                incarnation, pid, by, ended, "a host was fenced: the others go on without it"
            );
        }
        match (from, to) {
            (None, _) if stay.host == own => {}
            (None, _) => info!(host, incarnation, pid, by, "a host is in the pod"),
            (Some(HostState::Silent), HostState::Live) => {
                info!(host, incarnation, pid, by, after_ms, "a host gives signs of life again");
            }
            (_, HostState::Silent) => {
                warn!(host, incarnation, pid, by, "a host gives no sign of life");
            }
            (_, HostState::Ended) => {
                warn!(host, incarnation, pid, by, "the process of a host has ended");
            }
            (_, HostState::Dead) => {
                info!(host, incarnation, pid, by, ended, "the seat of a fenced host is free again");
            }
            (_, HostState::Left) => info!(host, incarnation, pid, by, "a host has left"),
            _ => {}
        }
    }

    /// Compares other hosts' clocks with this one's.
    fn compare_clocks(&mut self, objects: &Objects<Mapped>) {
        let own = objects.seat().host();
        for (host, ahead_ms) in self.clocks.look(objects.pod(), Some(own)) {
            warn!(
                host = u64::from(host),
                by = u64::from(own),
                ahead_ms,
                "the clock of a host differs: keys expire by the one that is ahead; set them"
            );
            Tally::add(&self.tally.clocks_differed, 1);
        }
        self.tally.clock_difference_ms.store(self.clocks.widest_ms(), Ordering::Relaxed);
    }

    fn look_at_counters(&mut self, own: u8, troubles: Vec<Trouble>) {
        let now = Instant::now();
        for (alarm, trouble) in self.alarms.iter_mut().zip(troubles) {
            if let Some(new) = alarm.look(trouble.count, now) {
                (trouble.say)(u64::from(own), new);
            }
        }
    }

    fn publish(&self) {
        let now = Instant::now();
        let shown = self.alarms.iter().filter(|alarm| alarm.is_shown(now));
        let clock = |stay: &super::hosts::Seen| {
            let host = stay.stay.host;
            self.clocks.ahead_ms(host).map(|ahead| (host, ahead))
        };
        let observed = Observed {
            hosts: self.hosts.clone(),
            clocks: self.hosts.all().iter().filter_map(clock).collect(),
            troubles: shown.map(|alarm| alarm.name).collect(),
        };
        *self.observed.lock().unwrap_or_else(PoisonError::into_inner) = observed;
    }

    /// The service manager's watchdog hears of this host with each look.
    fn tell(&mut self, objects: &Objects<Mapped>, manager: &ServiceManager) {
        let now = Instant::now();
        if self.status_told.is_some_and(|told| now.saturating_duration_since(told) < AT_MOST) {
            return;
        }
        self.status_told = Some(now);
        manager.alive();
        let usage = objects.usage();
        manager.status(&format!(
            "host {} of {}; {} objects, {} % of the memory used",
            objects.seat().host(),
            self.hosts.all().iter().filter(|seen| seen.state.is_in_pod()).count(),
            usage.objects,
            100 * usage.lnr_used_bytes / usage.lnr_bytes.max(1),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_is_said_once_a_second_and_in_sum() {
        let (mut alarm, start) = (Alarm::new("full", 10), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(alarm.look(10, at(0)), None);
        assert_eq!(alarm.look(12, at(100)), Some(2));
        assert_eq!(alarm.look(20, at(200)), None);
        assert_eq!(alarm.look(25, at(1200)), Some(13));
        assert!(alarm.is_shown(at(5000)) && !alarm.is_shown(at(20_000)));
    }
}
