//! One host's replica of the state that a shard of the log drives.

use std::time::Duration;

use tombolo_memory::{HostMutex, LINE_BYTES, Lines, LnrAddr, Memory, Work};
use tombolo_pod::{Pod, Seat};

use crate::entry::{self, Entry, LineBytes};
use crate::ring::{Full, Look, Ring, Run};
use crate::segment::{Outcome, Segment, segment_start};
use crate::sync::{AtomicU64, Ordering};
use crate::{LogError, sites};

/// How long a commit waits for hosts that do not apply the log.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs that are read from the ring at once.
const BATCH: usize = 16;

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
    /// Everything below is applied. Stored by the holder of `applier`.
    applied: AtomicU64,
    applier: HostMutex<M, Applier<S::Writer>>,
    /// The number that this host's next entry gets.
    submitted: HostMutex<M, u64>,
    /// The number of this host's first entry that is not ordered.
    ordered: HostMutex<M, u64>,
}

/// What only the thread that applies the log may touch.
struct Applier<W> {
    writer: W,
    /// What it is about to apply.
    runs: Vec<Run>,
    /// The lines of one run.
    lines: Vec<LineBytes>,
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
            applier: HostMutex::<M, _>::new(Applier { writer, runs: vec![], lines: vec![] }),
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

    /// How often an entry of this host lost a place in the log to another's, and had to try the next.
    pub fn lost_places(&self) -> u64 {
        self.ring.lost()
    }

    /// Whether an entry would find room now, as far as is known without waiting.
    pub fn has_room(&self) -> bool {
        self.ring.has_room(self.applied(), 1)
    }

    /// How far this replica is behind the log's end, in entries.
    pub fn lag(&self) -> u64 {
        let applied = self.applied();
        self.ring.tail_from(applied).map_or(0, |tail| tail - applied)
    }

    /// Everything below is applied.
    #[inline]
    fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    /// Applies the log up to its end. Returns where it ended when this looked: the state is at least that
    /// new, and everything a reader may rely on happened before.
    ///
    /// # Errors
    /// [`LogError::Damaged`].
    #[inline]
    pub fn sync(&self) -> Result<u64, LogError> {
        if self.pod.memory().keeps(sites::TAIL_SYNC) { self.catch_up() } else { Ok(self.applied()) }
    }

    #[inline]
    fn catch_up(&self) -> Result<u64, LogError> {
        let applied = self.applied();
        match self.ring.look(applied).1 {
            Look::End => Ok(applied),
            Look::Run(_) | Look::Passed => self.replay(),
        }
    }

    /// Holds the replica still at one position while `look` looks at it.
    pub fn paused<R>(&self, look: impl FnOnce(u64, &S, &mut S::Writer) -> R) -> R {
        let mut applier = self.applier.lock();
        look(self.applied.load(Ordering::Acquire), &self.state, &mut applier.writer)
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
            self.catch_up()?;
            match self.segment.take_outcome(number) {
                Some(Outcome::Done) => return Ok(true),
                Some(Outcome::Refused) => return Ok(false),
                Some(Outcome::Cancelled) => return Err(self.stalled(PATIENCE)),
                Some(Outcome::Pending) | None if self.pod.memory().is_gone() => {
                    return Err(self.stalled(Duration::ZERO));
                }
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
            let mut rest = from..end;
            while !rest.is_empty() {
                let run = self.segment.run(rest.clone(), self.ring.longest_run());
                if let Err(error) =
                    self.with_patience(meanwhile, || self.ring.order(run, self.applied()))
                {
                    rest.for_each(|number| self.segment.cancel(number));
                    return Err(error);
                }
                rest.start += run.entries;
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
            self.catch_up()?;
            let waited = memory.uptime().saturating_sub(started);
            if waited > PATIENCE {
                return Err(self.stalled(waited));
            }
            meanwhile();
            memory.pause();
        }
    }

    fn stalled(&self, waited: Duration) -> LogError {
        let slowest = self.ring.slowest().map_or(self.host, |(host, _)| host);
        LogError::Stalled { slowest, waited_ms: waited.as_millis() as u64 }
    }

    /// Applies the log up to its end, which is returned.
    #[cold]
    fn replay(&self) -> Result<u64, LogError> {
        let applier = &mut *self.applier.lock();
        let started = self.applied();
        let mut position = started;
        loop {
            self.read_runs(position, &mut applier.runs)?;
            self.drop_stale(&applier.runs);
            for &run in &applier.runs {
                self.apply_run(&mut applier.writer, &mut applier.lines, position, run)?;
                position += run.entries;
                self.applied.store(position, Ordering::Release);
            }
            if applier.runs.len() < BATCH {
                break;
            }
        }
        if position > started {
            self.ring.announce_applied(self.host, position);
        }
        Ok(position)
    }

    /// The runs from `position` on, or as many of them as are read at once.
    fn read_runs(&self, mut position: u64, runs: &mut Vec<Run>) -> Result<(), LogError> {
        runs.clear();
        let (hosts, places) = (self.pod.geometry().hosts, self.segment.entries());
        while runs.len() < BATCH {
            let run = match self.ring.look(position).1 {
                Look::Run(run) => run,
                Look::End => break,
                Look::Passed => return Err(LogError::Damaged { position }),
            };
            if u64::from(run.host) >= hosts || run.place + run.entries > places {
                return Err(LogError::Damaged { position });
            }
            runs.push(run);
            position += run.entries;
        }
        Ok(())
    }

    fn drop_stale(&self, runs: &[Run]) {
        let lines = |&run: &Run| Lines::new(self.start_of(run).line(), run.entries);
        self.pod.memory().consume(sites::REPLAY_INVALIDATE, |_| ((), runs.iter().map(lines)));
    }

    /// Applies the entries of a run, the first of which is at `position`.
    fn apply_run(
        &self,
        writer: &mut S::Writer,
        lines: &mut Vec<LineBytes>,
        mut position: u64,
        run: Run,
    ) -> Result<(), LogError> {
        let (memory, start) = (self.pod.memory(), self.start_of(run));
        let since = memory.moment();
        lines.resize(run.entries as usize, [0; size_of::<LineBytes>()]);
        memory.read(start, lines.as_flattened_mut());
        memory.relies_on(start, run.entries * LINE_BYTES, since);
        for (line, place) in lines.iter().zip(run.place..) {
            let in_place = |number: u64| number % self.segment.entries() == place;
            let (header, entry) = entry::from_line::<S::Entry>(line)
                .filter(|(header, _)| in_place(header.number))
                .ok_or(LogError::Damaged { position })?;
            let effect = self.state.apply(writer, position, &entry);
            if self.segment.owns(run, header) {
                let outcome = if effect { Outcome::Done } else { Outcome::Refused };
                self.segment.settle(header.number, position, outcome);
            }
            position += 1;
        }
        Ok(())
    }

    fn start_of(&self, run: Run) -> LnrAddr {
        segment_start(&self.pod, self.shard, run.host).plus(run.place * LINE_BYTES)
    }
}
