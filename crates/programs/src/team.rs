//! The means by which threads of a program work as one: loops, sums, barriers.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use crate::Processor;
use crate::array::{Array, Layout};

/// The shared part.
pub(crate) struct Team {
    threads: usize,
    /// Each thread's term of a sum.
    part: Array<u64>,
    /// The last sum.
    whole: Array<u64>,
    /// Where the dynamic loops of even and of odd number go on.
    next: Array<u64>,
}

impl Team {
    pub(crate) fn new(layout: &mut Layout, threads: usize) -> Rc<Self> {
        Rc::new(Self {
            threads,
            part: layout.padded("parts of sums", std::iter::repeat_n(0, threads)),
            whole: layout.padded("sums", std::iter::repeat_n(0, 1)),
            next: layout.padded("positions of loops", std::iter::repeat_n(0, 2)),
        })
    }
}

/// One thread's part.
pub(crate) struct Member<P> {
    pub(crate) processor: P,
    pub(crate) thread: usize,
    team: Rc<Team>,
    loops: Cell<usize>,
}

impl<P: Processor> Member<P> {
    pub(crate) fn new(team: Rc<Team>, thread: usize, processor: P) -> Self {
        Self { processor, thread, team, loops: Cell::new(0) }
    }

    pub(crate) fn threads(&self) -> usize {
        self.team.threads
    }

    /// Whether this is the thread that does what only one has to.
    pub(crate) fn leads(&self) -> bool {
        self.thread == 0
    }

    pub(crate) fn barrier(&self) {
        self.processor.barrier();
    }

    /// This thread's part of `length` things.
    pub(crate) fn share(&self, length: usize) -> Range<usize> {
        share(length, self.thread, self.team.threads)
    }

    /// Shares `length` things out in pieces of up to `piece`, to the thread that comes first. All
    /// threads call this, and pass a barrier before the next such loop.
    pub(crate) fn each_piece(
        &self,
        length: usize,
        piece: usize,
        mut body: impl FnMut(Range<usize>),
    ) {
        let number = self.loops.replace(self.loops.get() + 1);
        let next = &self.team.next;
        if self.leads() {
            // Everybody is past the barrier after the loop that used this one last.
            next.set(&self.processor, (number + 1) % 2, 0);
        }
        loop {
            let start =
                next.update(&self.processor, number % 2, |next| next + piece as u64) as usize;
            if start >= length {
                return;
            }
            body(start..length.min(start + piece));
        }
    }

    /// All threads' values as one; passes barriers.
    pub(crate) fn combine(&self, mine: u64, with: impl Fn(u64, u64) -> u64) -> u64 {
        let (processor, team) = (&self.processor, &self.team);
        team.part.set(processor, self.thread, mine);
        self.barrier();
        if self.leads() {
            let whole = (1..team.threads).fold(team.part.get(processor, 0), |whole, thread| {
                with(whole, team.part.get(processor, thread))
            });
            team.whole.set(processor, 0, whole);
        }
        self.barrier();
        // It is overwritten after a barrier that this thread has yet to pass.
        team.whole.get(processor, 0)
    }

    /// The sum of all threads' values; passes barriers.
    pub(crate) fn count(&self, mine: u64) -> u64 {
        self.combine(mine, |a, b| a + b)
    }

    /// The sum of all threads' values; passes barriers.
    pub(crate) fn sum(&self, mine: f64) -> f64 {
        let add = |a, b| (f64::from_bits(a) + f64::from_bits(b)).to_bits();
        f64::from_bits(self.combine(mine.to_bits(), add))
    }
}

/// The part of `length` things that falls to one of `threads`.
pub(crate) fn share(length: usize, thread: usize, threads: usize) -> Range<usize> {
    length * thread / threads..length * (thread + 1) / threads
}
