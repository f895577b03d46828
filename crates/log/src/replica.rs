//! One host's replica of the state that a shard of the log drives.

use std::time::Duration;

use tombolo_memory::{HostMutex, Lines, Memory, Work};
use tombolo_pod::{Pod, Seat};

use crate::entry::{self, Entry, LineBytes};
use crate::ring::{Full, Place, Ring};
use crate::segment::{Outcome, Segment, segment_start};
use crate::sync::{AtomicU64, Ordering};
use crate::{LogError, sites};

/// How long a commit waits for hosts that do not apply the log.
const PATIENCE: Duration = Duration::from_secs(5);

/// Entries that are read from LNR at once.
const BATCH: u64 = 32;

/// What the log drives: the same on every host that has applied the same entries.
pub trait State {
    /// The events.
    type Entry: Entry;
    /// What only the thread that applies may touch.
    type Writer;

    /// Applies the event at `position`; whether it had an effect. The answer depends on the entries
    /// before it alone.
    fn apply(&self, writer: &mut Self::Writer, position: u64, entry: &Self::Entry) -> bool;
}

/// A replica of `S`, and the way to change it on all hosts. Shared by a host's threads.
pub struct Replica<M: Memory, S: State> {
    pod: Pod<M>,
    host: u8,
    shard: u8,
    ring: Ring<M>,
    segment: Segment<M>,
    state: S,
    /// Everything below is applied. Stored by the holder of `writer`.
    applied: AtomicU64,
    writer: HostMutex<M, S::Writer>,
    /// The number that this host's next entry gets.
    submitted: HostMutex<M, u64>,
    /// The number of this host's first entry that is not ordered.
    ordered: HostMutex<M, u64>,
}

impl<M: Memory, S: State> Replica<M, S> {
    /// Announces the host in `seat` to shard `shard` of the log: from now on it keeps everything from
    /// the returned position on.
    pub fn announce(pod: &Pod<M>, seat: &Seat, shard: u8) -> u64 {
        let ring = Ring::new(pod, shard);
        let tail = ring.tail();
        ring.announce_applied(seat.host(), tail);
        tail
    }

    /// A replica for shard `shard` whose `state` is that at `position`, which is not below the
    /// announced one.
    pub fn new(
        pod: Pod<M>,
        seat: &Seat,
        shard: u8,
        position: u64,
        state: S,
        writer: S::Writer,
    ) -> Self {
        let ring = Ring::new(&pod, shard);
        // Others may have filled the log since this host announced where it needs it from: if all of
        // that is in `state`, nothing would be left to apply, and to announce.
        if pod.memory().keeps(sites::JOIN_ANNOUNCE) {
            ring.announce_applied(seat.host(), position);
        }
        let segment = Segment::new(&pod, seat, shard, ring.tail());
        Self {
            host: seat.host(),
            shard,
            ring,
            segment,
            state,
            applied: AtomicU64::new(position),
            writer: HostMutex::<M, _>::new(writer),
            submitted: HostMutex::<M, _>::new(0),
            ordered: HostMutex::<M, _>::new(0),
            pod,
        }
    }

    /// The state, as of some position at or after the last [`sync`](Self::sync).
    #[inline]
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The pod the log lies in.
    pub fn pod(&self) -> &Pod<M> {
        &self.pod
    }

    /// Where the log ends; everything a reader may rely on happened before.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.ring.tail()
    }

    /// How often an entry of this host lost a place in the log to another's, and had to try the next.
    pub fn lost_places(&self) -> u64 {
        self.ring.lost()
    }

    /// Whether an entry would find room now, as far as is known without waiting.
    pub fn has_room(&self) -> bool {
        self.ring.has_room(self.ring.tail())
    }

    /// How far this replica is behind the tail, in entries.
    pub fn lag(&self) -> u64 {
        self.tail().saturating_sub(self.applied.load(Ordering::Acquire))
    }

    /// Applies the log up to its tail. Returns the tail it loaded: the state is at least that new.
    ///
    /// # Errors
    /// [`LogError::Damaged`].
    #[inline]
    pub fn sync(&self) -> Result<u64, LogError> {
        if !self.pod.memory().keeps(sites::TAIL_SYNC) {
            return Ok(self.applied.load(Ordering::Acquire));
        }
        let tail = self.ring.tail();
        if self.applied.load(Ordering::Acquire) < tail {
            self.replay(tail)?;
        }
        Ok(tail)
    }

    /// Holds the replica still at one position while `look` looks at it.
    pub fn paused<R>(&self, look: impl FnOnce(u64, &S, &mut S::Writer) -> R) -> R {
        let mut writer = self.writer.lock();
        look(self.applied.load(Ordering::Acquire), &self.state, &mut writer)
    }

    /// Puts `entry` into the log and applies the log past it; whether it had an effect. While the log is
    /// full, `meanwhile` is called again and again: those who are waited for may be waiting for something
    /// that this host could do.
    ///
    /// Entries of several threads are cleaned together and ordered by one of them.
    ///
    /// # Errors
    /// [`LogError::Stalled`]: nothing was changed. [`LogError::Damaged`].
    pub fn commit(&self, entry: &S::Entry, meanwhile: &dyn Fn()) -> Result<bool, LogError> {
        self.pod.memory().works(Work::Append);
        let number = self.submit(entry, meanwhile)?;
        loop {
            if let Some(mut ordered) = self.ordered.try_lock() {
                match self.order_submitted(&mut ordered, meanwhile) {
                    Ok(()) | Err(LogError::Stalled { .. }) => {}
                    Err(damaged) => return Err(damaged),
                }
            }
            self.replay(self.ring.tail())?;
            match self.segment.take_outcome(number) {
                Some(Outcome::Done) => return Ok(true),
                Some(Outcome::Refused) => return Ok(false),
                Some(Outcome::Cancelled) => return Err(self.stalled(PATIENCE)),
                Some(Outcome::Pending) | None => self.pod.memory().pause(),
            }
        }
    }

    /// Writes `entry` into the segment; its number.
    fn submit(&self, entry: &S::Entry, meanwhile: &dyn Fn()) -> Result<u64, LogError> {
        self.with_patience(meanwhile, || {
            let mut submitted = self.submitted.lock();
            let number = *submitted;
            if !self.segment.has_room(number, &self.ring) {
                return Err(Full);
            }
            self.segment.write(number, entry);
            *submitted += 1;
            Ok(number)
        })
    }

    /// Orders everything that has been submitted, or cancels it.
    fn order_submitted(&self, ordered: &mut u64, meanwhile: &dyn Fn()) -> Result<(), LogError> {
        let end = *self.submitted.lock();
        if end == *ordered {
            return Ok(());
        }
        let from = std::mem::replace(ordered, end);
        self.segment.publish(from, end, || {
            for number in from..end {
                let place = self.segment.place(number);
                if let Err(error) = self.with_patience(meanwhile, || self.ring.order(place)) {
                    (number..end).for_each(|rest| self.segment.cancel(rest));
                    return Err(error);
                }
            }
            Ok(())
        })
    }

    /// Tries until there is room, applying the log meanwhile: this host may be what others wait for.
    fn with_patience<T>(
        &self,
        meanwhile: &dyn Fn(),
        attempt: impl Fn() -> Result<T, Full>,
    ) -> Result<T, LogError> {
        let memory = self.pod.memory();
        let started = memory.uptime();
        loop {
            if let Ok(done) = attempt() {
                return Ok(done);
            }
            self.replay(self.ring.tail())?;
            let waited = memory.uptime().saturating_sub(started);
            if waited > PATIENCE {
                return Err(self.stalled(waited));
            }
            meanwhile();
            memory.pause();
        }
    }

    fn stalled(&self, waited: Duration) -> LogError {
        LogError::Stalled { slowest: self.ring.slowest().0, waited_ms: waited.as_millis() as u64 }
    }

    /// Applies the log up to `to`.
    #[cold]
    fn replay(&self, to: u64) -> Result<(), LogError> {
        if self.applied.load(Ordering::Acquire) >= to {
            return Ok(());
        }
        let mut writer = self.writer.lock();
        let mut position = self.applied.load(Ordering::Acquire);
        if position >= to {
            return Ok(());
        }
        let mut places = Vec::with_capacity(BATCH as usize);
        while position < to {
            self.read_places(position..to.min(position + BATCH), &mut places)?;
            for run in places.chunk_by(|a, b| a.host == b.host && a.index + 1 == b.index) {
                self.apply_run(&mut writer, position, run)?;
                position += run.len() as u64;
                self.applied.store(position, Ordering::Release);
            }
        }
        self.ring.announce_applied(self.host, position);
        Ok(())
    }

    fn read_places(
        &self,
        positions: std::ops::Range<u64>,
        places: &mut Vec<Place>,
    ) -> Result<(), LogError> {
        places.clear();
        let (hosts, entries) = (self.pod.geometry().hosts, self.segment.entries());
        let sound =
            |place: &Place| u64::from(place.host) < hosts && u64::from(place.index) < entries;
        for position in positions {
            let place = self.ring.place(position);
            places.push(place.filter(sound).ok_or(LogError::Damaged { position })?);
        }
        Ok(())
    }

    /// Applies entries that lie side by side in one segment.
    fn apply_run(
        &self,
        writer: &mut S::Writer,
        mut position: u64,
        run: &[Place],
    ) -> Result<(), LogError> {
        let memory = self.pod.memory();
        let line_bytes = size_of::<LineBytes>() as u64;
        let segment = segment_start(&self.pod, self.shard, run[0].host);
        let start = segment.plus(u64::from(run[0].index) * line_bytes);
        let lines = Lines::new(start.line(), run.len() as u64);
        let since = memory.moment();
        memory.consume(sites::REPLAY_INVALIDATE, |_| ((), Some(lines)));
        for (place, line) in run.iter().zip(0..) {
            let mut bytes: LineBytes = [0; size_of::<LineBytes>()];
            let from = start.plus(line * line_bytes);
            memory.read(from, &mut bytes);
            memory.relies_on(from, line_bytes, since);
            let (header, entry) = entry::from_line::<S::Entry>(&bytes)
                .filter(|(header, _)| {
                    header.number % self.segment.entries() == u64::from(place.index)
                })
                .ok_or(LogError::Damaged { position })?;
            let effect = self.state.apply(writer, position, &entry);
            if self.segment.owns(*place, header) {
                let outcome = if effect { Outcome::Done } else { Outcome::Refused };
                self.segment.settle(header.number, position, outcome);
            }
            position += 1;
        }
        Ok(())
    }
}
