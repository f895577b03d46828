//! Threads and traces on a system.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tombolo_coroutines::{Thread, suspend};
use tombolo_programs::{Access, Processor, Program, Record};
use tombolo_timing::{Clocks, Ps};

use crate::ahead::Ahead;
use crate::areas::PageUse;
use crate::config::{Config, ConfigError};
use crate::machine::{Machine, Outcome};
use crate::results::{AreaSummary, Summary};

/// A thread's work.
pub type Body = Box<dyn FnOnce()>;

struct Shared<const WORDS: usize> {
    machine: RefCell<Machine<WORDS>>,
    clocks: RefCell<Clocks>,
    /// How far the running thread may go before another one's turn.
    until: Cell<Ps>,
    /// Threads that wait at the barrier.
    waiting: RefCell<Vec<usize>>,
    /// Threads that have not ended, and will.
    alive: Cell<usize>,
    /// The thread that ran last waits, or will not go on.
    halted: Cell<bool>,
    /// The program has tried what it may not do.
    closed: Cell<bool>,
}

impl<const WORDS: usize> Shared<WORDS> {
    /// The thread with the smallest clock goes on; or the one that runs, if that is it.
    fn take_turns(&self, clock: Ps) {
        if clock > self.until.get() {
            suspend();
        }
    }

    fn stop(&self, thread: usize) {
        self.halted.set(true);
        self.clocks.borrow_mut().stop(thread);
    }

    /// A thread will not come to the barrier any more.
    fn gone(&self, thread: usize) {
        self.machine.borrow_mut().drain(thread);
        self.stop(thread);
        self.alive.set(self.alive.get() - 1);
        self.open_barrier();
    }

    /// Lets the threads at the barrier go, if all are there that will be; whether they were.
    fn open_barrier(&self) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() || waiting.len() < self.alive.get() {
            return false;
        }
        let (mut machine, mut clocks) = (self.machine.borrow_mut(), self.clocks.borrow_mut());
        let last = waiting.iter().map(|&thread| machine.clock(thread)).max().unwrap_or(0);
        for thread in waiting.drain(..) {
            machine.wake(thread, last);
            clocks.set(thread, last);
        }
        true
    }
}

/// A core of a [`System`], as the thread on it sees it. An access that is not permitted does not
/// return, and neither does any other of the program's then.
#[derive(Clone)]
pub struct Core<const WORDS: usize = 1> {
    shared: Rc<Shared<WORDS>>,
    thread: usize,
}

impl<const WORDS: usize> Core<WORDS> {
    /// Until when this core has to wait for a page, before it asks again.
    #[inline]
    fn waits(&self, address: u64, access: Access) -> Option<Ps> {
        self.shared.machine.borrow_mut().wait(self.thread, address, access)
    }
}

impl<const WORDS: usize> Processor for Core<WORDS> {
    #[inline]
    fn access(&self, address: u64, bytes: u32, access: Access) {
        let begins = self.shared.machine.borrow_mut().begin(self.thread, access, 1);
        // Earlier steps of other threads come first.
        self.shared.take_turns(begins);
        while let Some(later) = self.waits(address, access) {
            self.shared.take_turns(later);
        }
        let mut machine = self.shared.machine.borrow_mut();
        if machine.access(self.thread, (address, bytes), access, None) == Outcome::Isolated {
            drop(machine);
            self.shared.closed.set(true);
            suspend();
        }
    }

    #[inline]
    fn depends(&self) {
        self.shared.machine.borrow_mut().depends(self.thread);
    }

    #[inline]
    fn works(&self, instructions: u64) {
        self.shared.machine.borrow_mut().works(self.thread, instructions);
    }

    fn barrier(&self) {
        self.shared.machine.borrow_mut().drain(self.thread);
        self.shared.waiting.borrow_mut().push(self.thread);
        if self.shared.open_barrier() {
            self.shared.until.set(self.shared.machine.borrow().clock(self.thread));
        } else {
            self.shared.stop(self.thread);
            suspend();
        }
    }
}

/// Compute nodes and memory nodes; 64 hosts per word, at most.
pub struct System<const WORDS: usize = 1> {
    shared: Rc<Shared<WORDS>>,
    threads: usize,
}

impl<const WORDS: usize> System<WORDS> {
    /// A system in which nothing has happened yet.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let shared = Shared {
            machine: RefCell::new(Machine::new(config)?),
            clocks: RefCell::default(),
            until: Cell::new(0),
            waiting: RefCell::default(),
            alive: Cell::new(0),
            halted: Cell::new(false),
            closed: Cell::new(false),
        };
        Ok(Self { shared: Rc::new(shared), threads: config.threads })
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The core of a thread.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn core(&self, thread: usize) -> Core<WORDS> {
        assert!(thread < self.threads, "there are {} threads", self.threads);
        Core { shared: Rc::clone(&self.shared), thread }
    }

    /// Runs the threads of a program to their ends, the first on the first core and so on; or until
    /// one of them does what it may not. Then all of them stop where they are: the others may be
    /// waiting for it.
    ///
    /// # Panics
    /// If there are more threads than cores, or one of them panics.
    pub fn run(&self, bodies: Vec<Body>) {
        assert!(bodies.len() <= self.threads, "there are {} cores", self.threads);
        let shared = &self.shared;
        shared.alive.set(bodies.len());
        let mut threads: Vec<Thread> = bodies.into_iter().map(Thread::new).collect();
        for thread in 0..threads.len() {
            let clock = shared.machine.borrow().clock(thread);
            shared.clocks.borrow_mut().set(thread, clock);
        }
        while let Some(thread) = self.next().filter(|_| !shared.closed.get()) {
            shared.halted.set(false);
            match threads[thread].resume() {
                Ok(true) => shared.gone(thread),
                Ok(false) if shared.halted.get() => {}
                Ok(false) => {
                    let clock = shared.machine.borrow().clock(thread);
                    shared.clocks.borrow_mut().set(thread, clock);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        if shared.closed.get() {
            shared.machine.borrow_mut().isolate_all(shared.alive.get());
        }
        self.end();
    }

    /// The thread whose turn it is.
    fn next(&self) -> Option<usize> {
        let clocks = self.shared.clocks.borrow();
        let (_, thread) = clocks.first()?;
        self.shared.until.set(clocks.second());
        Some(thread)
    }

    /// Runs a program, each thread on what `processor` makes of its core.
    ///
    /// # Panics
    /// If it has more threads than there are cores.
    pub fn run_program<P: Processor>(
        &self,
        program: &Program<P>,
        processor: impl Fn(usize, Core<WORDS>) -> P,
    ) {
        let body = |thread| {
            let body = program.thread(thread);
            let processor = processor(thread, self.core(thread));
            Box::new(move || body(processor)) as Body
        };
        self.run((0..program.threads()).map(body).collect());
    }

    /// Does what the records of a trace say; how many there were. They are done in the order in
    /// which they come; each takes its own thread's time, and is waited for: a trace does not tell
    /// what depends on what. A thread that has done what it may not does nothing any more; the
    /// others go on.
    ///
    /// # Errors
    /// The first error among the records; the last ones before it may not be done then.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn replay<E>(
        &self,
        records: impl IntoIterator<Item = Result<Record, E>>,
    ) -> Result<u64, E> {
        let mut machine = self.shared.machine.borrow_mut();
        let mut ahead = Ahead::default();
        for record in records {
            if let Some((due, place)) = ahead.next(record?, &machine) {
                machine.replay(&due, place);
            }
        }
        ahead.rest().for_each(|record| machine.replay(record, None));
        Ok(ahead.count())
    }

    /// All records are done: the memory they are about is freed.
    pub fn end(&self) {
        self.shared.machine.borrow_mut().free_all();
    }

    /// Counts of the accesses to each page, by its number, if pages are kept in several ways.
    pub fn page_uses(&self) -> Vec<PageUse> {
        let machine = self.shared.machine.borrow();
        machine.areas().map_or(Vec::new(), |areas| areas.usage().copied().collect())
    }

    /// The events so far.
    pub fn summary(&self) -> Summary {
        let machine = self.shared.machine.borrow();
        let areas = machine.areas().map(AreaSummary::of);
        Summary { areas, ..machine.results().summary() }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::{Buffers, Equations, Protocol};

    fn system(config: Config) -> System {
        System::new(&config).unwrap()
    }

    fn run(config: &Config, body: impl Fn(usize, &Core) + Clone + 'static) -> Summary {
        let system = system(config.clone());
        let bodies = (0..config.threads).map(|thread| {
            let (core, body) = (system.core(thread), body.clone());
            Box::new(move || body(thread, &core)) as Body
        });
        system.run(bodies.collect());
        system.summary()
    }

    fn replay(system: &System, records: impl IntoIterator<Item = Record>) -> u64 {
        let Ok(count) = system.replay(records.into_iter().map(Ok::<_, Infallible>));
        count
    }

    fn kind(write: bool) -> Access {
        if write { Access::Write } else { Access::Read }
    }

    fn small(protocol: Protocol) -> Config {
        Config { threads: 2, ..Config::paper(protocol, 2) }
    }

    /// Everybody reads the same lines, over and over.
    fn read_all(_: usize, core: &Core) {
        for _ in 0..4 {
            (0..1000).for_each(|line| core.access(line * 64, 8, Access::Read));
            core.barrier();
        }
    }

    #[test]
    fn lines_that_are_read_are_shared_where_the_protocol_allows_it() {
        let four = [Protocol::Inv, Protocol::Sha, Protocol::ShaSpec, Protocol::Bi];
        let [inv, sha, spec, bi] = four.map(|protocol| run(&small(protocol), read_all));
        assert_eq!((sha.shared_line_ratio, sha.shared_access_ratio), (1.0, 1.0));
        // Each host fetches each line once.
        assert_eq!((sha.remote_reads, bi.remote_reads), (2000, 2000));
        assert!(inv.remote_reads > 4000, "{inv:?}");
        assert!(sha.ipc > 1.5 * inv.ipc && sha.amat_ns < inv.amat_ns / 1.5, "{sha:?} {inv:?}");
        assert!(spec.ipc >= sha.ipc);
        assert_eq!(sha.messages["Cmp-S"] + sha.messages["Cmp-E"], 2000);
    }

    #[test]
    fn a_read_from_memory_takes_the_messages_that_are_waited_for() {
        let config = Config { threads: 1, ..Config::paper(Protocol::Sha, 1) };
        let system = system(config);
        let clock = || system.shared.machine.borrow().clock(0) / 1000;
        // The page's first access.
        let read = |address, instructions| {
            replay(&system, [Record { thread: 0, address, bytes: 8, write: false, instructions }]);
        };
        read(0, 1);
        let before = clock();
        read(64, 1);
        // Where the page is, there and back, and the memory.
        assert_eq!(clock() - before, 80 + 1080);
        let before = clock();
        read(64, 11);
        assert_eq!(clock() - before, 11);
    }

    #[test]
    fn what_nothing_depends_on_is_under_way_at_once() {
        let takes = |depends: bool, window| {
            let buffers = Buffers { window, ..Config::paper(Protocol::Sha, 1).buffers };
            let config = Config { threads: 1, buffers, ..Config::paper(Protocol::Sha, 1) };
            let counts = run(&config, move |_, core| {
                for line in 0..9 {
                    core.access(line * 64, 8, Access::Read);
                    // The rest of the line arrives with it.
                    core.access(line * 64 + 8, 8, Access::Read);
                    if depends {
                        core.depends();
                    }
                }
            });
            assert_eq!(counts.remote_reads, 9);
            (counts.seconds * 1e9) as u64
        };
        let (free, dependent, in_order) = (takes(false, 192), takes(true, 192), takes(false, 1));
        // The first one also takes the page, its place, and its flag; behind it the others are for
        // nothing, or take a line's time each.
        assert_eq!(dependent - free, 8 * 1160, "{free} {dependent}");
        // In order, the second read of each line begins when the first is over.
        assert_eq!(in_order - dependent, 9, "{in_order} {dependent}");
    }

    #[test]
    fn a_host_that_remembers_too_few_pages_asks_for_them_again() {
        let pages = |translations, tlb_entries| {
            let config = Config { translations, tlb_entries, ..small(Protocol::Sha) };
            run(&config, |thread, core| {
                // Each time another line of all pages, which no cache has.
                for line in 0..4 {
                    (0..10).for_each(|page| {
                        core.access(page * 4096 + line * 64, 8, kind(thread == 0))
                    });
                    core.barrier();
                }
            })
        };
        let all = pages(10, 10);
        assert_eq!((all.walks, all.messages["rwalk"], all.tlb_misses), (20, 20, 20));
        let few = pages(9, 9);
        assert!(few.walks > 20 && few.tlb_misses > 40, "{few:?}");
        assert!(few.seconds > all.seconds);
    }

    #[test]
    fn cores_of_a_host_ask_for_a_line_once() {
        for (threads, hosts) in [(4, 1), (8, 2)] {
            let config = Config { threads, ..Config::paper(Protocol::Inv, hosts) };
            let counts = run(&config, |_, core| core.access(0, 8, Access::Read));
            assert_eq!(counts.remote_reads, hosts as u64, "{counts:?}");
            assert_eq!(counts.joined_reads, (threads - hosts) as u64);
        }
    }

    #[test]
    fn a_write_takes_the_line_from_all_others() {
        let counts = run(&small(Protocol::Sha), |thread, core| {
            for turn in 0..100 {
                core.access(0, 8, kind(turn % 2 == thread));
                core.barrier();
            }
        });
        assert_eq!(counts.messages["MemInv"] + counts.messages["MemRd"], counts.remote_reads);
        assert!(counts.messages["GO-M"] > 40, "{counts:?}");
    }

    #[test]
    fn who_may_not_write_is_stopped_and_leaves_nothing_behind() {
        for (protocol, mispeculations) in [(Protocol::Sha, 0), (Protocol::ShaSpec, 1)] {
            let config = Config { denied: (0.0, 1.0), ..small(protocol) };
            let after = Rc::new(Cell::new(0));
            let seen = Rc::clone(&after);
            let counts = run(&config, move |_, core| {
                core.access(0, 8, Access::Read);
                core.access(0, 8, Access::Write);
                seen.set(seen.get() + 1);
            });
            // The program is one session.
            assert_eq!((after.get(), counts.isolated_threads), (0, 2));
            assert_eq!(counts.mispeculations, mispeculations);
            assert_eq!(counts.write_backs, 0);
        }
    }

    #[test]
    fn what_a_core_has_itself_waits_for_permission_if_all_does() {
        let amat = |protocol, asks_always| {
            run(&Config { asks_always, ..small(protocol) }, read_all).amat_ns
        };
        let question = 500.0;
        assert!(amat(Protocol::Sha, true) > amat(Protocol::Sha, false) + question / 2.0);
        // Nobody waits for what is granted meanwhile, but in the end all wait for room in the
        // replay buffer.
        assert!(amat(Protocol::ShaSpec, true) < amat(Protocol::Sha, true));
    }

    #[test]
    fn nobody_waits_for_a_thread_that_was_stopped() {
        let config = Config { denied: (0.0, 1.0), ..small(Protocol::ShaSpec) };
        let counts = run(&config, |thread, core| {
            if thread == 0 {
                core.access(64, 8, Access::Write);
            }
            loop {
                core.access(0, 8, Access::Read);
            }
        });
        assert_eq!(counts.isolated_threads, 2);
    }

    #[test]
    fn threads_of_a_trace_are_stopped_one_by_one() {
        let config = Config { denied: (0.5, 0.0), seed: 3, ..Config::paper(Protocol::ShaSpec, 4) };
        let system = system(config);
        let records = (0..20).flat_map(|page| (0..32).map(move |thread| (page, thread)));
        let record = |(page, thread): (u64, u32)| {
            let address = (u64::from(thread) * 20 + page) * 4096;
            Record { thread, address, bytes: 8, write: false, instructions: 1 }
        };
        replay(&system, records.map(record));
        let counts = system.summary();
        assert!(counts.isolated_threads > 20 && counts.mispeculations == counts.isolated_threads);
    }

    #[test]
    fn it_does_not_matter_how_far_records_are_read_ahead() {
        let records: Vec<Record> = (0..4000u64)
            .map(|number| Record {
                thread: (number * 7 % 32) as u32,
                address: number * number % 977 * 40,
                bytes: 8,
                write: number % 5 == 0,
                instructions: 3,
            })
            .collect();
        for protocol in Protocol::ALL {
            let summary = |at_once: usize| {
                let system = system(Config::paper(protocol, 4));
                let parts = records.chunks(at_once);
                assert_eq!(parts.map(|part| replay(&system, part.to_vec())).sum::<u64>(), 4000);
                system.summary()
            };
            assert_eq!(summary(1), summary(4000));
        }
    }

    /// A write to a line that another host has read: one transaction with the write's intent, and
    /// as the paper tells it two.
    #[test]
    fn a_shared_line_is_fetched_and_then_invalidated_as_published() {
        let counts = |protocol| {
            run(&small(protocol), |thread, core| {
                if thread == 0 {
                    core.access(0, 8, Access::Read);
                }
                core.barrier();
                if thread == 1 {
                    core.access(0, 8, Access::Write);
                }
            })
        };
        let (ours, published) = (counts(Protocol::Sha), counts(Protocol::ShaLiteral));
        assert_eq!((ours.remote_reads, published.remote_reads), (2, 3));
        assert_eq!(published.primitives["fetch_share"], 1);
        assert_eq!(published.primitives["invalidate_before_modify"], 1);
        // Another request and its answer, and another snoop and its answer.
        assert_eq!(((published.seconds - ours.seconds) * 1e9).round(), 4.0 * 500.0);
    }

    #[test]
    fn a_line_is_with_one_host_under_back_invalidation_as_published() {
        let [bi, literal] =
            [Protocol::Bi, Protocol::BiLiteral].map(|protocol| run(&small(protocol), read_all));
        assert_eq!(bi.remote_reads, 2000);
        assert!(literal.remote_reads > 4000 && !literal.messages.contains_key("BISnpData"));
    }

    #[test]
    fn each_access_goes_to_the_memory_node_if_no_data_are_cached() {
        let config = Config { threads: 1, ..Config::as_published(Protocol::Uncached, 1) };
        let counts = run(&config, |_, core| {
            (0..10).for_each(|_| core.access(0, 8, Access::Read));
            core.access(0, 8, Access::Write);
        });
        assert_eq!((counts.remote_reads, counts.served.iter().sum::<u64>()), (11, 0));
        assert_eq!((counts.messages["MemRd"], counts.messages["MemWr"]), (10, 1));
        assert_eq!(counts.equations.remote_ns, 1000.0);
    }

    /// In order, with nothing in each other's way, the measured time and the equations part by what
    /// the equations leave out: the memory, finding pages, and fetching flags.
    #[test]
    fn equations_and_measured_times_part_by_what_is_left_out() {
        let config = Config { threads: 1, ..Config::as_published(Protocol::Sha, 1) };
        let counts = run(&config, |_, core| {
            (0..64).for_each(|line| core.access(line * 64, 8, Access::Read));
            (0..64).for_each(|line| core.access(line * 64, 8, Access::Read));
        });
        let Equations { permit_ns, caches_ns, remote_ns, amat_ns, .. } = counts.equations;
        assert_eq!((permit_ns, remote_ns), (500.0, 500.0));
        assert_eq!(amat_ns, permit_ns + caches_ns + remote_ns);
        // A request to the node is checked on its way, where equation 1 has another t_permit.
        let left_out = 80.0 / 2.0 + 80.0 - 500.0 / 2.0;
        let parts = counts.amat_ns - amat_ns;
        assert!((parts - left_out).abs() < 60.0, "{parts} {left_out} {counts:?}");
    }

    #[test]
    fn directories_and_dma_take_time_where_hosts_are_asked() {
        let takes = |directory_ns, dma_ns| {
            let config = Config { directory_ns, dma_ns, ..small(Protocol::Inv) };
            let counts = run(&config, |thread, core| {
                for turn in 0..10 {
                    if turn % 2 == thread {
                        core.access(0, 8, Access::Write);
                    }
                    core.barrier();
                }
            });
            (counts.seconds * 1e9).round() as u64
        };
        assert_eq!(takes(80.0, 0.0) - takes(0.0, 0.0), 10 * 80);
        assert_eq!(takes(0.0, 30.0) - takes(0.0, 0.0), 9 * 30);
    }

    #[test]
    fn two_runs_are_the_same() {
        let once = || run(&Config::paper(Protocol::Bi, 4), read_all);
        assert_eq!(once(), once());
    }
}
