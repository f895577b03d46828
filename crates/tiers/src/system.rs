//! The machine at work: threads and workers, each with a clock.

use std::collections::VecDeque;

use tombolo_placement::Thrash;
use tombolo_timing::{Clocks, Pipe, Ps};

use crate::counters::Counters;
use crate::hints::Scanner;
use crate::lists::{List, Lists};
use crate::memory::{Marks, Memory, PageId, Tier};
use crate::promoter::Promoter;
use crate::sampler::Sampler;
use crate::settings::{FAULT, Machine, PAGE_BYTES, Policy};

/// How a page is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Lines one after the other, at the bandwidth of one thread.
    Stream,
    /// Lines of which each is waited for.
    Chase,
}

/// A thread uses a page.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The page.
    pub page: PageId,
    /// Whether it is written.
    pub is_write: bool,
    /// How.
    pub how: Use,
    /// Lines of it, 64 at most.
    pub lines: u32,
    /// The time that the thread computes before, in picoseconds.
    pub think: Ps,
}

/// A workload: the accesses of a program's threads.
pub trait Load {
    /// The next access of a thread; None once it has done all of this round.
    fn next(&mut self, thread: usize) -> Option<Access>;
}

/// The outcome of a round.
#[derive(Clone, Debug)]
pub struct Round {
    /// Its time, until the last thread was done.
    pub seconds: f64,
    /// Counts and times of this round alone.
    pub counters: Counters,
    /// Bandwidth in GB/s until half of the promotions were made.
    pub busiest_gb_per_s: f64,
}

impl Round {
    /// The threads' throughput in GB/s, by the bytes that they used.
    pub fn gb_per_s(&self) -> f64 {
        self.counters.bytes as f64 / 1e9 / self.seconds
    }
}

/// Workers of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worker {
    Demoter,
    Promoter,
    Scanner,
}

const WORKERS: [Worker; 3] = [Worker::Demoter, Worker::Promoter, Worker::Scanner];

/// A machine with a program in it.
pub struct System {
    pub(crate) machine: Machine,
    pub(crate) memory: Memory,
    pub(crate) lists: Lists,
    pub(crate) counters: Counters,
    pub(crate) pipes: [Pipe; 2],
    /// Activations that wait for the batch to be full.
    pub(crate) activations: Vec<PageId>,
    pub(crate) scanner: Scanner,
    pub(crate) candidates: VecDeque<PageId>,
    pub(crate) promoter: Promoter,
    /// Pages that the demoter still demotes in this pass.
    pub(crate) pass_left: u32,
    pub(crate) sampler: Sampler,
    /// Hint faults of each page since it came into the slow tier.
    pub(crate) seen: Vec<u8>,
    /// Promotions of each page that were in vain, less those that were not.
    pub(crate) in_vain: Vec<u8>,
    pub(crate) thrash: Thrash,
    clocks: Clocks,
    threads: usize,
    is_awake: [bool; WORKERS.len()],
    now: Ps,
    /// The time that shootdowns and scans have cost each thread, and how much of it each has paid.
    pub(crate) interrupts: Ps,
    paid: Vec<Ps>,
    /// The page that each thread is writing, and until when.
    writing: Vec<(PageId, Ps)>,
}

impl System {
    /// A machine whose pages lie where `places` says, as far as there is room.
    ///
    /// # Panics
    /// If there are more pages than frames.
    pub fn new(machine: Machine, threads: usize, places: impl IntoIterator<Item = Tier>) -> Self {
        let memory = Memory::new([machine.fast_pages, machine.slow_pages], places);
        let pages = memory.pages() as usize;
        let lists = (0..pages).map(|page| List::of(memory.tier(page as PageId), false));
        let lists = Lists::new(lists);
        let pipes = [0, 1].map(|tier| Pipe::new(&machine.costs.bandwidth[tier]));
        let mut system = Self {
            lists,
            counters: Counters::default(),
            pipes,
            activations: Vec::new(),
            scanner: Scanner::default(),
            candidates: VecDeque::new(),
            promoter: Promoter::default(),
            pass_left: 0,
            sampler: Sampler::new(&machine, pages),
            seen: vec![0; pages],
            in_vain: vec![0; pages],
            thrash: Thrash::default(),
            clocks: Clocks::default(),
            threads,
            is_awake: [false; WORKERS.len()],
            now: 0,
            interrupts: 0,
            paid: vec![0; threads],
            writing: vec![(0, 0); threads],
            memory,
            machine,
        };
        if system.machine.policy.has_hints() {
            // The scanner has been through memory while it was filled.
            system.protect_all();
            system.wake(Worker::Scanner, 0);
        }
        if matches!(system.machine.policy, Policy::Memtis { .. }) {
            system.wake(Worker::Promoter, 0);
        }
        system
    }

    /// Counts and times since the machine began.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Shadows there are.
    pub fn shadows(&self) -> u32 {
        self.memory.shadows()
    }

    /// The share of pages from `first` on that lie in the fast tier.
    pub fn share_in_fast(&self, pages: std::ops::Range<PageId>) -> f64 {
        let all = pages.len().max(1) as f64;
        let fast = pages.filter(|&page| self.memory.tier(page) == Tier::Fast).count();
        fast as f64 / all
    }

    /// Checks that each frame holds one thing, and that no write was lost.
    ///
    /// # Errors
    /// The first inconsistency that is found, as a clause.
    pub fn check(&self) -> Result<(), String> {
        self.memory.check(self.promoter.frames())
    }

    /// Sets a worker to work, unless it is at work.
    pub(crate) fn wake(&mut self, worker: Worker, now: Ps) {
        if !std::mem::replace(&mut self.is_awake[worker as usize], true) {
            self.clocks.set(self.threads + worker as usize, now);
        }
    }

    /// Lets time pass in which only workers do anything; `seconds` are made smaller by the scale.
    pub fn rest(&mut self, seconds: f64) {
        self.now += (seconds * self.machine.scale * 1e12) as Ps;
        while let Some((clock, actor)) = self.clocks.first().filter(|&(clock, _)| clock < self.now)
        {
            self.work(actor - self.threads, clock);
        }
    }

    /// Has all threads do what a load says.
    pub fn run(&mut self, load: &mut dyn Load) -> Round {
        let (begun, before) = (self.now, self.counters);
        (0..self.threads).for_each(|thread| self.clocks.set(thread, begun));
        let mut progress = Vec::new();
        let mut left = self.threads;
        while left > 0 {
            let Some((clock, actor)) = self.clocks.first() else { break };
            if actor < self.threads {
                left -= usize::from(self.run_thread(load, actor, clock));
                note(&mut progress, self.now.saturating_sub(begun), &(self.counters - before));
            } else {
                self.work(actor - self.threads, clock);
            }
        }
        let counters = self.counters - before;
        Round {
            seconds: (self.now - begun) as f64 / 1e12,
            counters,
            busiest_gb_per_s: busiest(&progress, &counters),
        }
    }

    /// Runs a thread until others are due; whether it has done all.
    fn run_thread(&mut self, load: &mut dyn Load, thread: usize, mut now: Ps) -> bool {
        loop {
            let Some(access) = load.next(thread) else {
                self.clocks.stop(thread);
                self.now = self.now.max(now);
                return true;
            };
            now = self.access(thread, &access, now);
            if now > self.clocks.second() {
                self.clocks.set(thread, now);
                self.now = self.now.max(now);
                return false;
            }
        }
    }

    /// A worker does one step.
    fn work(&mut self, worker: usize, now: Ps) {
        let next = match WORKERS[worker] {
            Worker::Demoter => self.demote_some(now),
            Worker::Promoter if self.machine.policy.has_shadows() => self.promote_one(now),
            Worker::Promoter => self.move_sampled(now),
            Worker::Scanner => self.scan(now),
        };
        match next {
            Some(next) => self.clocks.set(self.threads + worker, next),
            None => {
                self.is_awake[worker] = false;
                self.clocks.stop(self.threads + worker);
            }
        }
    }

    /// A thread uses a page; returns when it is done.
    fn access(&mut self, thread: usize, access: &Access, now: Ps) -> Ps {
        let page = access.page;
        let interrupted =
            self.interrupts - std::mem::replace(&mut self.paid[thread], self.interrupts);
        let mut at = now + access.think + interrupted;
        self.counters.user_ps += access.think;
        if self.memory.has(page, Marks::HINT) {
            at = self.hint_fault(page, access.is_write, at);
        }
        if access.is_write && self.memory.drop_shadow(page) {
            self.memory.mark(page, Marks::WRITTEN);
            self.counters.shadow_faults += 1;
            self.counters.fault_ps += FAULT;
            at += FAULT;
        }
        self.memory.mark(page, Marks::YOUNG);
        let tier = self.memory.tier(page);
        let bytes = u64::from(access.lines) * PAGE_BYTES / 64;
        let waits = self.pipes[tier as usize].pass(at, bytes);
        let costs = &self.machine.costs;
        let takes = match access.how {
            Use::Stream => {
                costs.page[tier as usize][usize::from(access.is_write)] * u64::from(access.lines)
                    / 64
            }
            Use::Chase => costs.line[tier as usize] * u64::from(access.lines),
        };
        self.counters.user_ps += waits + takes;
        at += waits + takes;
        if access.is_write {
            self.memory.write(page);
            self.writing[thread] = (page, at);
        }
        self.counters.accesses += 1;
        self.counters.bytes += bytes;
        self.counters.fast_accesses += u64::from(tier == Tier::Fast);
        at + self.sample(access)
    }

    /// Whether a thread is in the middle of a write to a page.
    pub(crate) fn is_being_written(&self, page: PageId, now: Ps) -> bool {
        self.writing.iter().any(|&(written, until)| written == page && until > now)
    }

    /// A copy of a page by the kernel, from a tier: what it takes, its waiting included.
    pub(crate) fn copy(&mut self, from: Tier, now: Ps) -> Ps {
        let waits = self.pipes.each_mut().map(|pipe| pipe.pass(now, PAGE_BYTES));
        self.machine.costs.copy[from as usize] + waits[0].max(waits[1])
    }
}

/// How far a round had come: time, bytes, promotions.
type Progress = (Ps, u64, u64);

/// Notes how far a round has come, each time that so many more promotions were made.
fn note(progress: &mut Vec<Progress>, elapsed: Ps, counters: &Counters) {
    const EACH: u64 = 64;
    let last = progress.last().map_or(0, |&(_, _, promotions)| promotions);
    if counters.promotions >= last + EACH {
        progress.push((elapsed, counters.bytes, counters.promotions));
    }
}

fn busiest(progress: &[Progress], all: &Counters) -> f64 {
    let half = progress.iter().find(|&&(_, _, promotions)| 2 * promotions >= all.promotions);
    half.map_or(0.0, |&(elapsed, bytes, _)| bytes as f64 / 1e9 / (elapsed as f64 / 1e12))
}
