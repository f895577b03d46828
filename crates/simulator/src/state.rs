//! The state of a simulated pod, and what can be done to it.

use std::panic::Location;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tombolo_memory::{Lines, Site};

use crate::config::Config;
use crate::lnr::{Issued, Lnr, Maintenance};
use crate::sanitizer::{Rule, Violation};
use crate::schedule::{Action, Outcome, Turn};
use crate::scr::Scr;
use crate::timeline::Origin;

/// Stale reads that a thread remembers, to be judged when it relies on them.
const STALE_READS: usize = 64;

/// Rounds that a thread has to have waited, without changing anything, to count as idle.
const IDLE: u32 = 256;

/// Operations between two rounds of waiting, up to which a thread does nothing but wait.
const LOOKING: u32 = 64;

/// Steps in which no client anywhere has got on, after which all that happens is waiting:
/// background work that changes something in every round and comes to nothing, for one.
const STANDSTILL: u64 = 60_000;

/// The time of a step.
const STEP: Duration = Duration::from_nanos(50);

/// By how much time leaps, when there is nothing but waiting and somebody waits a round more.
const LEAP: Duration = Duration::from_millis(20);

pub(crate) struct State {
    pub(crate) scr: Scr,
    pub(crate) lnr: Lnr,
    /// The first stands for who sets the simulation up.
    pub(crate) threads: Vec<ThreadState>,
    pub(crate) current: usize,
    /// The thread to run next, if that is settled.
    pub(crate) next: Option<usize>,
    /// How often each host has died.
    pub(crate) lives: Vec<u32>,
    /// Hosts that died and were not started again.
    pub(crate) fallen: Vec<usize>,
    /// Whether the adversary is at it.
    pub(crate) disturbed: bool,
    pub(crate) decided: Decided,
    pub(crate) steps: u64,
    /// The step after which the run counts as stuck.
    pub(crate) budget: u64,
    clock_ns: u64,
    skews_ms: Vec<u64>,
    /// The step at which a client, anywhere, has got on.
    progressed_at: u64,
}

/// The adversary's decisions about the operation at hand.
#[derive(Clone, Copy, Default)]
pub(crate) struct Decided {
    /// A store stays with its host for a while.
    pub(crate) hold: bool,
    /// A clean or an invalidate is only issued.
    pub(crate) defer: bool,
    /// A copy ends after so many bytes of a line.
    pub(crate) tear: Option<u8>,
}

pub(crate) struct ThreadState {
    pub(crate) host: u8,
    pub(crate) life: u32,
    pub(crate) finished: bool,
    /// The step before which the adversary lets it sleep.
    pub(crate) asleep_until: u64,
    decisions: u32,
    /// Rounds that it has waited since it, or a client anywhere, has got on.
    waits: u32,
    /// When it last waited, in its decisions.
    waited_at: u32,
    rng: Xoshiro256PlusPlus,
    stale_reads: Vec<StaleRead>,
    /// The steps of protocols that it came to last, all after the same of its decisions, and which
    /// that was.
    at: Vec<Site>,
    at_decision: u32,
}

/// A read of a line that memory had moved past.
struct StaleRead {
    line: u32,
    read_at: u64,
    stale_since: u64,
    by: Origin,
}

impl ThreadState {
    /// It is at this step of a protocol.
    pub(crate) fn come_to(&mut self, site: Site) {
        if self.at_decision != self.decisions {
            self.at_decision = self.decisions;
            self.at.clear();
        }
        self.at.push(site);
    }

    /// The steps between which and the next ones it is.
    pub(crate) fn at(&self) -> &[Site] {
        &self.at
    }

    fn is_idle(&self) -> bool {
        let looking = self.decisions - self.waited_at <= LOOKING;
        self.finished || (self.waits >= IDLE && looking)
    }
}

impl State {
    /// The state of a pod of zeros; `seed` says how the hosts' clocks differ.
    pub(crate) fn new(scr: Scr, lnr: Lnr, config: &Config, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let skew = config.clock_skew_ms + 1;
        let mut state = Self {
            scr,
            lnr,
            threads: Vec::with_capacity(8),
            current: 0,
            next: None,
            lives: vec![0; config.hosts],
            fallen: Vec::new(),
            disturbed: false,
            decided: Decided::default(),
            steps: 0,
            budget: u64::MAX,
            clock_ns: 0,
            skews_ms: (0..config.hosts).map(|_| rng.next_u64() % skew).collect(),
            progressed_at: 0,
        };
        // The set-up of the simulation is the same for every seed.
        state.add_thread(0, 0);
        state
    }

    pub(crate) fn add_thread(&mut self, host: usize, seed: u64) -> usize {
        let number = self.threads.len();
        let stream = seed ^ (number as u64).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.threads.push(ThreadState {
            host: host as u8,
            life: self.lives[host],
            finished: number == 0,
            asleep_until: 0,
            decisions: 0,
            waits: 0,
            waited_at: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(stream),
            stale_reads: Vec::new(),
            at: Vec::new(),
            at_decision: 0,
        });
        number
    }

    /// The threads of a host that have not ended, or end just now.
    pub(crate) fn threads_of(&self, host: u8) -> impl Iterator<Item = &ThreadState> {
        let (life, current) = (self.lives[usize::from(host)], self.current);
        let theirs = move |thread: &ThreadState| thread.host == host && thread.life == life;
        let threads = self.threads.iter().enumerate();
        let at_work = move |&(number, thread): &(usize, &ThreadState)| {
            theirs(thread) && (!thread.finished || number == current)
        };
        threads.filter(at_work).map(|(_, thread)| thread)
    }

    pub(crate) fn random(&mut self) -> u64 {
        self.threads[self.current].rng.next_u64()
    }

    pub(crate) fn origin(&self, host: usize, at: &'static Location<'static>) -> Origin {
        Origin { step: self.steps, host: host as u8, thread: self.current as u16, at }
    }

    /// One more step of the current thread.
    pub(crate) fn take_turn(&mut self) -> Turn {
        self.steps += 1;
        self.advance_clock(STEP);
        let decisions = &mut self.threads[self.current].decisions;
        *decisions += 1;
        Turn { thread: self.current as u16, decision: *decisions }
    }

    /// Threads that could run.
    pub(crate) fn runnable(&self) -> impl Iterator<Item = usize> + '_ {
        (1..self.threads.len()).filter(|&thread| !self.threads[thread].finished)
    }

    /// The thread after `thread` that could run and does not sleep at step `now`, if there is one.
    pub(crate) fn successor(&self, thread: usize, now: u64) -> Option<usize> {
        let count = self.threads.len();
        let in_turn = || (1..=count).map(|ahead| (thread + ahead) % count);
        let runs = |&thread: &usize| !self.threads[thread].finished;
        let awake = |&thread: &usize| self.threads[thread].asleep_until <= now;
        in_turn().filter(runs).find(awake).or_else(|| in_turn().find(runs))
    }

    pub(crate) fn uptime(&self) -> Duration {
        Duration::from_nanos(self.clock_ns)
    }

    pub(crate) fn wall_clock_ms(&self, host: usize) -> u64 {
        self.clock_ns / 1_000_000 + self.skews_ms[host] + 1_000_000
    }

    pub(crate) fn advance_clock(&mut self, by: Duration) {
        self.clock_ns += by.as_nanos() as u64;
    }

    /// The current thread has changed something.
    pub(crate) fn changed(&mut self) {
        self.threads[self.current].waits = 0;
    }

    /// A client has got an answer, a thread has ended, or a host has died.
    pub(crate) fn progress(&mut self) {
        self.threads.iter_mut().for_each(|thread| thread.waits = 0);
        self.progressed_at = self.steps;
    }

    /// The current thread waits. Once nobody does anything else, time leaps.
    pub(crate) fn wait(&mut self) {
        let now = self.steps;
        let thread = &mut self.threads[self.current];
        thread.waits += 1;
        thread.waited_at = thread.decisions;
        let all_idle = thread.waits >= IDLE && self.threads.iter().all(ThreadState::is_idle);
        // Sleeping threads wake up: one may be the one that the others wait for.
        if all_idle || now > self.progressed_at + STANDSTILL {
            self.advance_clock(LEAP);
            self.deliver_all();
            self.threads.iter_mut().for_each(|thread| thread.asleep_until = 0);
        } else {
            self.advance_clock(Duration::from_micros(1));
        }
    }

    /// All stores that hosts hold back become visible.
    pub(crate) fn deliver_all(&mut self) {
        (0..self.lives.len()).for_each(|host| self.scr.drain(host));
    }

    pub(crate) fn complete(&mut self, issued: Issued) -> bool {
        self.lnr.complete(issued, self.steps)
    }

    /// Completes everything that the current thread has issued of a kind; whether it mattered.
    pub(crate) fn fence(&mut self, what: Maintenance) -> bool {
        let (thread, mut mattered, mut at) = (self.current as u16, false, 0);
        while let Some(&issued) = self.lnr.issued.get(at) {
            if issued.thread == thread && issued.what == what {
                self.lnr.issued.remove(at);
                mattered |= self.complete(issued);
            } else {
                at += 1;
            }
        }
        mattered
    }

    /// Remembers that the current thread has read a stale line.
    pub(crate) fn note_stale(&mut self, line: u32, stale_since: u64, by: Origin) {
        let read_at = self.steps;
        let reads = &mut self.threads[self.current].stale_reads;
        if reads.len() == STALE_READS {
            reads.remove(0);
        }
        reads.push(StaleRead { line, read_at, stale_since, by });
    }

    /// Whether what the current thread has read of some lines since a turn was in date then.
    pub(crate) fn rely(&self, lines: Lines, since: u64, origin: Origin) -> Result<(), Violation> {
        for read in &self.threads[self.current].stale_reads {
            let counts = read.read_at > since && read.stale_since <= since;
            if counts && lines.numbers().contains(&u64::from(read.line)) {
                let (line, earlier) = (read.line, Some(read.by));
                return Err(Violation { rule: Rule::Stale, line, origin, earlier });
            }
        }
        Ok(())
    }

    pub(crate) fn perform(&mut self, action: Action) {
        let step = self.steps;
        match action {
            Action::Switch(thread) => {
                let thread = usize::from(thread);
                let runs = self.threads.get(thread).is_some_and(|thread| !thread.finished);
                self.next = runs.then_some(thread).or(self.next);
            }
            Action::Sleep(steps) => {
                self.threads[self.current].asleep_until = step + u64::from(steps);
            }
            Action::Evict(host, line) => {
                self.lnr.evict(usize::from(host), line, step);
            }
            Action::Prefetch(host, line) => self.lnr.fetch(usize::from(host), line),
            Action::Hold => self.decided.hold = true,
            Action::Deliver(host) => {
                self.scr.deliver(usize::from(host));
            }
            Action::Defer => self.decided.defer = true,
            Action::Complete(host, line) => {
                let wanted =
                    |issued: &Issued| issued.host == usize::from(host) && issued.line == line;
                if let Some(at) = self.lnr.issued.iter().position(wanted) {
                    let issued = self.lnr.issued.remove(at);
                    self.complete(issued);
                }
            }
            Action::Tear(bytes) => self.decided.tear = Some(bytes),
            Action::Kill(host, outcome) => self.kill(usize::from(host), outcome),
        }
    }

    fn kill(&mut self, host: usize, outcome: Outcome) {
        self.progress();
        let mut held = 0;
        while self.scr.holds(host) && outcome.writes(held) {
            self.scr.deliver(host);
            held += 1;
        }
        self.scr.forget(host);
        self.lnr.die(host, outcome, self.steps);
        self.lives[host] += 1;
        if !self.fallen.contains(&host) {
            self.fallen.push(host);
        }
    }

    /// Whether the thread belongs to a life of its host that is over.
    pub(crate) fn is_dead(&self, thread: usize) -> bool {
        let thread = &self.threads[thread];
        thread.life != self.lives[usize::from(thread.host)]
    }
}
