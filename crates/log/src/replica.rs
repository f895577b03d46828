//! One host's replica of the state that a shard of the log drives.

use std::time::Duration;

use tombolo_memory::{HostMutex, LINE_BYTES, Lines, LnrAddr, Memory, Work};
use tombolo_pod::{Area, Enrolment, Stay};

use crate::entry::{self, Content, Entry, Header, LineBytes};
use crate::ring::{End, Full, Look, Ring, Run};
use crate::segment::{Outcome, Segment, segment_start};
use crate::sync::{AtomicU64, Ordering};
use crate::{LogError, sites};

/// How long a commit waits for hosts that do not apply the log.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs that are read from the ring at once.
const BATCH: usize = 16;

/// Before the log's first position.
const NOWHERE: u64 = 0;

/// The state that the log drives: the same on every host that has applied the same entries.
pub trait State {
    /// The events.
    type Entry: Entry;
    /// The part that only the thread that applies may touch.
    type Writer;

    /// Applies the event at `position`; whether it had an effect. The answer depends on the entries
    /// before it alone. Whether the event is this host's `own` makes no difference to the state.
    /// Changes of shared memory that follow from it are there before others see this host past the
    /// event.
    fn apply(
        &self,
        writer: &mut Self::Writer,
        position: u64,
        entry: &Self::Entry,
        own: bool,
    ) -> bool;

    /// An event will be applied soon: processors may fetch what that takes.
    fn prefetch(&self, _: &Self::Entry) {}

    /// From here on entries of `stay` have no effect.
    fn fence(&self, writer: &mut Self::Writer, stay: Stay) {
        let _ = (writer, stay);
    }
}

/// Which stay of each host was the last to be fenced, as of some position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fences(Vec<Stay>);

impl Fences {
    /// Those that were fenced, one per host at most.
    pub fn stays(&self) -> impl Iterator<Item = Stay> {
        self.0.iter().copied()
    }

    fn contains(&self, stay: Stay) -> bool {
        self.0.contains(&stay)
    }

    /// Adds a stay; whether it is new.
    pub fn add(&mut self, stay: Stay) -> bool {
        if self.contains(stay) {
            return false;
        }
        self.0.retain(|other| other.host != stay.host);
        self.0.push(stay);
        true
    }
}

/// A replica of `S`, and the way to change it on all hosts. Shared by a host's threads.
pub struct Replica<M: Memory, S: State> {
    area: Area<M>,
    enrolment: Enrolment,
    /// Where the hosts' segments start.
    segments: LnrAddr,
    ring: Ring<M>,
    segment: Segment<M>,
    state: S,
    /// Everything below is applied. Stored by the holder of `applier`. A host that was fenced
    /// stands at [`NOWHERE`], so that nobody takes the log's end for what it has applied.
    applied: AtomicU64,
    applier: HostMutex<M, Applier<S>>,
    /// The number that this host's next entry gets.
    submitted: HostMutex<M, u64>,
    /// The number of this host's first entry that is not ordered.
    ordered: HostMutex<M, u64>,
}

/// The part that only the thread that applies the log may touch.
struct Applier<S: State> {
    writer: S::Writer,
    fences: Fences,
    /// The runs that it is about to apply.
    runs: Vec<Run>,
    /// The entries of these runs.
    entries: Vec<(Header, Content<S::Entry>)>,
    /// And their lines.
    lines: Vec<LineBytes>,
}

impl<S: State> Applier<S> {
    fn new(writer: S::Writer, fences: Fences) -> Self {
        Self { writer, fences, runs: vec![], entries: vec![], lines: vec![] }
    }
}

impl<M: Memory, S: State> Replica<M, S> {
    /// Announces an enrolled host to shard `shard` of the log: from now on it keeps everything from
    /// the returned position on.
    pub fn announce(area: &Area<M>, enrolment: &Enrolment, shard: u8) -> u64 {
        let ring = Ring::new(area, shard);
        let tail = ring.tail();
        ring.announce_applied(enrolment.host(), tail);
        tail
    }

    /// A replica for shard `shard` whose `state` is that at `position`, which is not below the
    /// announced one, and by which these stays were fenced.
    pub fn new(
        area: Area<M>,
        enrolment: &Enrolment,
        shard: u8,
        (position, fences): (u64, Fences),
        state: S,
        writer: S::Writer,
    ) -> Self {
        let ring = Ring::new(&area, shard);
        // Others may have filled the log since this host announced where it needs it from: if all
        // of that is in `state`, nothing would be left to apply, and to announce.
        if area.memory().keeps(sites::JOIN_ANNOUNCE) {
            ring.announce_applied(enrolment.host(), position);
        }
        let segment = Segment::new(&area, enrolment, shard, ring.tail());
        Self {
            enrolment: enrolment.clone(),
            segments: segment_start(&area, shard, 0),
            ring,
            segment,
            state,
            applied: AtomicU64::new(position),
            applier: HostMutex::<M, _>::new(Applier::new(writer, fences)),
            submitted: HostMutex::<M, _>::new(0),
            ordered: HostMutex::<M, _>::new(0),
            area,
        }
    }

    /// The state, as of some position at or after the last [`sync`](Self::sync).
    #[inline]
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The area the log lies in.
    pub fn area(&self) -> &Area<M> {
        &self.area
    }

    /// How often an entry of this host lost a place in the log to another's, and had to try the
    /// next.
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

    /// Applies the log up to its end. Returns where it ended when this looked: the state is at
    /// least that new, and everything a reader may rely on happened before.
    ///
    /// # Errors
    /// [`LogError::Damaged`].
    #[inline(always)]
    pub fn sync(&self) -> Result<u64, LogError> {
        if self.area.memory().keeps(sites::TAIL_SYNC) {
            self.catch_up()
        } else {
            Ok(self.applied())
        }
    }

    /// Where the log ends, if it has been applied up to there: what [`sync`](Self::sync) returns if
    /// there is nothing to be done.
    #[inline(always)]
    pub fn at_end(&self) -> Option<End<'_, M>> {
        self.ring.end_at(self.applied())
    }

    #[inline(always)]
    fn catch_up(&self) -> Result<u64, LogError> {
        let applied = self.applied();
        match self.ring.look(applied).1 {
            Look::End => Ok(applied),
            Look::Run(_) | Look::Passed => self.replay(),
        }
    }

    /// Holds the replica still at one position while `look` looks at it.
    pub fn paused<R>(&self, look: impl FnOnce(u64, &Fences, &S, &mut S::Writer) -> R) -> R {
        let applier = &mut *self.applier.lock();
        look(self.applied(), &applier.fences, &self.state, &mut applier.writer)
    }

    /// Makes everything that `stay` orders from here on have no effect: by a fence in the log,
    /// unless there is one.
    ///
    /// # Errors
    /// As of [`commit`](Self::commit).
    pub fn fence(&self, stay: Stay, meanwhile: &dyn Fn()) -> Result<(), LogError> {
        self.sync()?;
        if !self.applier.lock().fences.contains(stay) {
            self.commit_content(&Content::Fence(stay), meanwhile)?;
        }
        Ok(())
    }

    /// Has nothing left in this host's caches that it might still write to its segment.
    pub fn withdraw(&self) {
        self.segment.clean_all();
    }

    /// The member that has applied least of the log, which all wait for when it is full.
    pub fn slowest(&self) -> Option<u8> {
        self.ring.slowest().map(|(host, _)| host)
    }

    /// Puts `entry` into the log and applies the log past it; whether it had an effect. While the
    /// log is full, `meanwhile` is called again and again: those who are waited for may be waiting
    /// for something that this host could do.
    ///
    /// Entries of several threads are cleaned together and ordered by one of them.
    ///
    /// # Errors
    /// [`LogError::Stalled`]: nothing was changed. [`LogError::Fenced`], [`LogError::Damaged`].
    pub fn commit(&self, entry: &S::Entry, meanwhile: &dyn Fn()) -> Result<bool, LogError> {
        self.commit_content(&Content::Event(*entry), meanwhile)
    }

    fn commit_content(
        &self,
        content: &Content<S::Entry>,
        meanwhile: &dyn Fn(),
    ) -> Result<bool, LogError> {
        self.area.memory().works(Work::Append);
        let number = self.submit(content, meanwhile)?;
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
                Some(Outcome::Pending) | None if self.area.memory().is_gone() => {
                    return Err(self.stalled(Duration::ZERO));
                }
                Some(Outcome::Pending) | None => self.area.memory().pause(),
            }
        }
    }

    /// Writes an entry into the segment; its number.
    fn submit(&self, content: &Content<S::Entry>, meanwhile: &dyn Fn()) -> Result<u64, LogError> {
        self.with_patience(meanwhile, || {
            let mut submitted = self.submitted.lock();
            let number = *submitted;
            if !self.segment.has_room(number, &self.ring) {
                return Err(Full);
            }
            self.segment.write(number, content);
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

    /// Tries until there is room, applying the log meanwhile: this host may be what others wait
    /// for.
    fn with_patience<T>(
        &self,
        meanwhile: &dyn Fn(),
        attempt: impl Fn() -> Result<T, Full>,
    ) -> Result<T, LogError> {
        let memory = self.area.memory();
        // Looked up once there is something to wait for.
        let mut started = None;
        loop {
            if let Ok(done) = attempt() {
                return Ok(done);
            }
            self.catch_up()?;
            let now = memory.uptime();
            let waited = now.saturating_sub(*started.get_or_insert(now));
            if waited > PATIENCE {
                return Err(self.stalled(waited));
            }
            meanwhile();
            memory.pause();
        }
    }

    fn stalled(&self, waited: Duration) -> LogError {
        let slowest = self.slowest().unwrap_or(self.enrolment.host());
        LogError::Stalled { slowest, waited_ms: waited.as_millis() as u64 }
    }

    /// Applies the log up to its end, which is returned.
    #[cold]
    fn replay(&self) -> Result<u64, LogError> {
        if self.area.memory().is_forked() {
            // Before the lock, which another thread may have had.
            return Err(self.fenced());
        }
        let applier = &mut *self.applier.lock();
        let started = self.applied();
        if started == NOWHERE {
            return Err(self.fenced());
        }
        let mut position = started;
        loop {
            self.read_runs(position, &mut applier.runs)?;
            self.drop_stale(&applier.runs);
            self.read_entries(position, applier)?;
            let Applier { writer, fences, runs, entries, .. } = applier;
            let mut rest = entries.as_slice();
            for &run in &*runs {
                let entries = rest.split_off(..run.entries as usize).unwrap_or_default();
                self.apply_run(writer, fences, position, run, entries)?;
                position += run.entries;
                self.applied.store(position, Ordering::Release);
            }
            if applier.runs.len() < BATCH {
                break;
            }
        }
        if position > started {
            self.ring.announce_applied(self.enrolment.host(), position);
        }
        Ok(position)
    }

    /// This host is out: it applies nothing any more, and says so whenever it is asked to.
    #[cold]
    fn fenced(&self) -> LogError {
        self.applied.store(NOWHERE, Ordering::Release);
        let host = self.enrolment.host();
        if self.area.memory().is_forked() {
            LogError::Forked { host }
        } else {
            LogError::Fenced { host }
        }
    }

    /// Whether this host is still waited for: places of the log that it has not applied are not
    /// used again. What it has read of them before it asks this is what was there.
    fn is_waited_for(&self) -> bool {
        self.area.memory().check(sites::REPLAY_SEAT, self.enrolment.holds(self.area.memory()))
    }

    /// The runs from `position` on, or as many of them as are read at once.
    fn read_runs(&self, mut position: u64, runs: &mut Vec<Run>) -> Result<(), LogError> {
        runs.clear();
        let (hosts, places) = (self.area.pod().layout().hosts, self.segment.entries());
        while runs.len() < BATCH {
            let run = match self.ring.look(position).1 {
                Look::Run(run) => run,
                Look::End => break,
                Look::Passed if !self.is_waited_for() => return Err(self.fenced()),
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
        self.area.memory().consume(sites::REPLAY_INVALIDATE, |_| ((), runs.iter().map(lines)));
    }

    /// The entries of the runs that begin at `position`. Those of several are read before any is
    /// applied, so that a processor fetches what they take side by side.
    fn read_entries(&self, mut position: u64, applier: &mut Applier<S>) -> Result<(), LogError> {
        let Applier { runs, entries, lines, .. } = applier;
        let (memory, since) = (self.area.memory(), self.area.memory().moment());
        let count: u64 = runs.iter().map(|run| run.entries).sum();
        lines.resize(count as usize, [0; size_of::<LineBytes>()]);
        let mut rest = lines.as_mut_slice();
        for &run in &*runs {
            let lines = rest.split_off_mut(..run.entries as usize).unwrap_or_default();
            memory.read(self.start_of(run), lines.as_flattened_mut());
        }
        if !self.is_waited_for() {
            return Err(self.fenced());
        }
        entries.clear();
        let mut lines = lines.iter();
        for &run in &*runs {
            memory.relies_on(self.start_of(run), run.entries * LINE_BYTES, since);
            for (place, line) in (run.place..run.place + run.entries).zip(&mut lines) {
                let in_place = |number: u64| number % self.segment.entries() == place;
                let (header, content) = entry::from_line::<S::Entry>(line)
                    .filter(|(header, _)| in_place(header.number))
                    .ok_or(LogError::Damaged { position })?;
                if let Content::Event(event) = &content {
                    self.state.prefetch(event);
                }
                entries.push((header, content));
                position += 1;
            }
        }
        Ok(())
    }

    /// Applies the entries of a run, the first of which is at `position`.
    fn apply_run(
        &self,
        writer: &mut S::Writer,
        fences: &mut Fences,
        position: u64,
        run: Run,
        entries: &[(Header, Content<S::Entry>)],
    ) -> Result<(), LogError> {
        for (&(header, ref content), position) in entries.iter().zip(position..) {
            let author = Stay { host: run.host, number: header.incarnation };
            let counts = !fences.contains(author);
            let own = self.segment.owns(run, header);
            let effect = self.area.memory().check(sites::FENCE_IGNORED, counts)
                && match content {
                    Content::Event(event) => self.state.apply(writer, position, event, own),
                    Content::Fence(stay) => {
                        let new = fences.add(*stay);
                        if new {
                            self.state.fence(writer, *stay);
                        }
                        new
                    }
                };
            if fences.contains(self.stay()) {
                return Err(self.fenced());
            }
            if own {
                let outcome = if effect { Outcome::Done } else { Outcome::Refused };
                self.segment.settle(header.number, position, outcome);
            }
        }
        Ok(())
    }

    fn stay(&self) -> Stay {
        self.enrolment.stay()
    }

    fn start_of(&self, run: Run) -> LnrAddr {
        let of_host = u64::from(run.host) * self.segment.entries() + run.place;
        self.segments.plus(of_host * LINE_BYTES)
    }
}
