//! A machine without caches, for tests and for recording traces.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tombolo_coroutines::{Thread, suspend};

use crate::random::Random;
use crate::{Access, Processor, Program};

/// Stream of random numbers.
const TURNS: u64 = 4;

/// The operations of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses that read.
    pub reads: u64,
    /// Accesses that write.
    pub writes: u64,
    /// Bytes they were about.
    pub bytes: u64,
    /// Instructions, accesses among them.
    pub instructions: u64,
    /// Barriers that all threads passed.
    pub barriers: u64,
}

struct Shared {
    counts: Cell<Counts>,
    random: RefCell<Random>,
    longest_turn: usize,
    threads: usize,
    waiting: Cell<usize>,
    /// Barriers passed. A thread that waits for one waits for this to change.
    passed: Cell<u64>,
}

/// A processor of the machine.
#[derive(Clone)]
pub struct Turn {
    shared: Rc<Shared>,
    /// Accesses left before it is another thread's turn.
    left: Rc<Cell<usize>>,
}

impl Turn {
    fn end(&self) {
        suspend();
        let longest = self.shared.longest_turn;
        self.left.set(1 + self.shared.random.borrow_mut().below(longest));
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.shared.counts.get();
        change(&mut counts);
        self.shared.counts.set(counts);
    }
}

impl Processor for Turn {
    fn access(&self, _: u64, bytes: u32, access: Access) {
        self.count(|counts| {
            *(if access.writes() { &mut counts.writes } else { &mut counts.reads }) += 1;
            counts.bytes += u64::from(bytes);
            counts.instructions += 1;
        });
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.end();
        }
    }

    fn works(&self, instructions: u64) {
        self.count(|counts| counts.instructions += instructions);
    }

    fn barrier(&self) {
        let shared = &self.shared;
        let passed = shared.passed.get();
        shared.waiting.set(shared.waiting.get() + 1);
        if shared.waiting.get() == shared.threads {
            shared.waiting.set(0);
            shared.passed.set(passed + 1);
            self.count(|counts| counts.barriers += 1);
        }
        while shared.passed.get() == passed {
            self.end();
        }
    }
}

/// Runs a program whose threads take turns of 1 to `longest_turn` accesses, as the seed says.
/// `processor` makes a thread's processor from its number and the machine's.
///
/// # Panics
///
/// If a thread does, or if `longest_turn` is zero.
pub fn run_in_turns<P: Processor>(
    program: &Program<P>,
    seed: u64,
    longest_turn: usize,
    mut processor: impl FnMut(usize, Turn) -> P,
) -> Counts {
    assert!(longest_turn > 0, "a turn has at least one access");
    let shared = Rc::new(Shared {
        counts: Cell::default(),
        random: RefCell::new(Random::new(seed, TURNS)),
        longest_turn,
        threads: program.threads(),
        waiting: Cell::new(0),
        passed: Cell::new(0),
    });
    let mut threads: Vec<Thread> = (0..program.threads())
        .map(|thread| {
            let turn = Turn { shared: Rc::clone(&shared), left: Rc::new(Cell::new(longest_turn)) };
            let (body, processor) = (program.thread(thread), processor(thread, turn));
            Thread::new(move || body(processor))
        })
        .collect();
    while !threads.is_empty() {
        threads.retain_mut(|thread| match thread.resume() {
            Ok(ended) => !ended,
            Err(panic) => std::panic::resume_unwind(panic),
        });
    }
    shared.counts.get()
}
