//! The shared log alone: what an entry takes, and what it takes another host to apply it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tombolo_log::{Entry, Fences, PAYLOAD_BYTES, Replica, State};
use tombolo_memory::Mapped;
use tombolo_pod::open;
use tombolo_sharing::{CreateOptions, OBJECTS, Options, create};

use super::bare::timed;
use crate::place::Place;

/// Entries that the log has room for.
pub(super) const RING: u64 = 4096;
/// Entries that one host appends before the other applies them: there is room for more.
const TOGETHER: usize = RING as usize / 4;
const SCR: u64 = 1 << 20;
const LNR: u64 = 16 << 20;

/// Two hosts of a pod of their own, whose log drives nothing.
pub(super) struct Log {
    appends: Host,
    applies: Host,
    _place: Place,
}

type Host = Replica<Mapped, Count>;

/// An event that is only counted.
#[derive(Clone, Copy)]
pub(super) struct Event(u64);

impl Entry for Event {
    fn encode(&self) -> [u8; PAYLOAD_BYTES] {
        let mut payload = [0; PAYLOAD_BYTES];
        payload[..8].copy_from_slice(&self.0.to_le_bytes());
        payload
    }

    fn decode(payload: &[u8; PAYLOAD_BYTES]) -> Option<Self> {
        payload.first_chunk().map(|&number| Self(u64::from_le_bytes(number)))
    }
}

/// How many events there were: the least that a log can drive.
pub(super) struct Count;

impl State for Count {
    type Entry = Event;
    type Writer = u64;

    fn apply(&self, events: &mut u64, _: u64, _: &Event, _: bool) -> bool {
        *events += 1;
        true
    }
}

impl Log {
    pub(super) fn new() -> Result<Self> {
        let place = Place::new(None, "limit-log", SCR + LNR);
        let layout = Options {
            hosts: Some(2),
            ring_entries: Some(RING),
            // The ring runs out first.
            segment_entries: Some(2 * RING),
            ..Options::default()
        };
        let (scr_bytes, lnr_bytes) = (Some(SCR), Some(LNR));
        create(&place.spec, CreateOptions { scr_bytes, lnr_bytes, layout, ..Default::default() })?;
        let join = || -> Result<Host> {
            let pod = open(&place.spec)?;
            let area = pod.area_of(OBJECTS)?;
            let (enrolment, _) = area.enrol(&pod.join()?)?;
            enrolment.ready(pod.memory())?;
            let position = Host::announce(&area, &enrolment, 0);
            Ok(Host::new(area, &enrolment, 0, (position, Fences::default()), Count, 0))
        };
        Ok(Self { appends: join()?, applies: join()?, _place: place })
    }

    /// The time to append these entries, and to apply them on the other host.
    pub(super) fn in_turn(&self, entries: &[u64]) -> Result<(Duration, Duration)> {
        let (mut appending, mut applying) = (Duration::ZERO, Duration::ZERO);
        for entries in entries.chunks(TOGETHER) {
            appending += timed(|| self.append(entries))?;
            applying += timed(|| Ok(self.applies.sync().map(drop)?))?;
        }
        Ok((appending, applying))
    }

    /// The time, by the clock, to append these entries while the other host applies them, each time
    /// that it is `behind` by so many: by [`RING`], if the log is to be full again and again.
    pub(super) fn beside(&self, entries: &[u64], behind: u64) -> Result<Duration> {
        let ending = AtomicBool::new(false);
        let follow = || -> Result<()> {
            while !ending.load(Ordering::Relaxed) {
                if self.applies.lag() >= behind {
                    self.applies.sync()?;
                } else {
                    thread::yield_now();
                }
            }
            Ok(self.applies.sync().map(drop)?)
        };
        thread::scope(|scope| {
            let follower = scope.spawn(follow);
            let started = Instant::now();
            let appended = self.append(entries);
            let took = started.elapsed();
            ending.store(true, Ordering::Relaxed);
            follower.join().expect("it does not panic")?;
            appended.map(|()| took)
        })
    }

    fn append(&self, entries: &[u64]) -> Result<()> {
        for &number in entries {
            ensure!(self.appends.commit(&Event(number), &|| ())?, "an event had no effect");
        }
        Ok(())
    }
}
