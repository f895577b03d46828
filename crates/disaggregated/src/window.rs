//! How far a core goes on while accesses of its are under way.

use std::collections::VecDeque;

use tombolo_programs::Access;
use tombolo_timing::Ps;

use crate::config::Buffers;

/// An instruction, and a cycle.
pub(crate) const INSTRUCTION: Ps = 1000;

/// Accesses in order, each with its number and when it is through. The one that comes so many
/// numbers later has to wait for it.
struct Buffer {
    under_way: VecDeque<(u64, Ps)>,
    entries: u64,
}

impl Buffer {
    fn new(entries: usize) -> Self {
        Self { under_way: VecDeque::new(), entries: entries as u64 }
    }

    /// The first that has to be through before the one of this number begins.
    #[inline]
    fn before(&self, number: u64) -> Option<(u64, Ps)> {
        let &(first, through) = self.under_way.front()?;
        (first + self.entries <= number).then_some((first, through))
    }

    /// When the one of this number can begin, which wants to at `clock`.
    #[inline]
    fn wait(&mut self, number: u64, mut clock: Ps) -> Ps {
        while let Some((_, through)) = self.before(number) {
            self.under_way.pop_front();
            clock = clock.max(through);
        }
        clock
    }

    fn add(&mut self, number: u64, through: Ps) {
        self.under_way.push_back((number, through));
    }

    fn drain(&mut self, clock: Ps) -> Ps {
        self.under_way.drain(..).fold(clock, |clock, (_, through)| clock.max(through))
    }
}

/// The accesses that a core has under way.
pub(crate) struct Window {
    /// Instructions that have begun, and writes among them.
    instructions: u64,
    writes: u64,
    /// The reorder buffer: reads, by their instructions.
    reads: Buffer,
    last_read: Ps,
    /// The store buffer: writes, by their order.
    stores: Buffer,
    /// Lines that the core's first cache waits for, and when they arrive.
    misses: Vec<(u64, Ps)>,
    most_misses: usize,
}

impl Window {
    pub(crate) fn new(buffers: Buffers) -> Self {
        Self {
            instructions: 0,
            writes: 0,
            last_read: 0,
            reads: Buffer::new(buffers.window),
            stores: Buffer::new(buffers.stores),
            misses: Vec::with_capacity(buffers.misses),
            most_misses: buffers.misses,
        }
    }

    /// The core does so many instructions that touch no memory; when it is through with them.
    #[inline]
    pub(crate) fn works(&mut self, mut clock: Ps, instructions: u64) -> Ps {
        let end = self.instructions + instructions;
        while let Some((first, _)) = self.reads.before(end) {
            let next = (first + self.reads.entries).max(self.instructions + 1);
            clock += (next - 1 - self.instructions) * INSTRUCTION;
            self.instructions = next - 1;
            clock = self.reads.wait(next, clock);
        }
        clock += (end - self.instructions) * INSTRUCTION;
        self.instructions = end;
        clock
    }

    /// When an access can begin.
    #[inline]
    pub(crate) fn begin(&mut self, mut clock: Ps, access: Access) -> Ps {
        self.instructions += 1;
        clock = self.reads.wait(self.instructions, clock);
        if access.writes() {
            self.writes += 1;
            clock = self.stores.wait(self.writes, clock);
        }
        if access == Access::Update {
            clock = self.drain(clock);
        }
        if self.misses.len() == self.most_misses {
            let first = self.misses.iter().map(|&(_, arrives)| arrives).min();
            clock = clock.max(first.unwrap_or(clock));
            self.misses.retain(|&(_, arrives)| arrives > clock);
        }
        clock
    }

    /// When a line arrives that the core has asked for.
    #[inline]
    pub(crate) fn arrives(&self, line: u64, now: Ps) -> Option<Ps> {
        let found = self.misses.iter().find(|&&(asked, arrives)| asked == line && arrives > now);
        found.map(|&(_, arrives)| arrives)
    }

    /// How many lines the core waits for.
    #[inline]
    pub(crate) fn under_way(&self, now: Ps) -> usize {
        self.misses.iter().filter(|&&(_, arrives)| arrives > now).count()
    }

    /// An access that began at `clock` is through at `through`; when the core goes on.
    #[inline]
    pub(crate) fn end(&mut self, clock: Ps, access: Access, through: Ps) -> Ps {
        let next = clock + INSTRUCTION;
        match access {
            Access::Update => return through,
            Access::Read => {
                self.last_read = through;
                if through > next {
                    self.reads.add(self.instructions, through);
                }
            }
            Access::Write => {
                // Stores are seen in the order in which they were made.
                let last = self.stores.under_way.back().map_or(0, |&(_, last)| last);
                if through.max(last) > next {
                    self.stores.add(self.writes, through.max(last));
                }
            }
        }
        next
    }

    /// When what depends on the last read can go on.
    #[inline]
    pub(crate) fn depends(&self, clock: Ps) -> Ps {
        clock.max(self.last_read)
    }

    /// The core's first cache waits for a line, and the core does not.
    #[inline]
    pub(crate) fn misses(&mut self, line: u64, arrives: Ps) {
        if self.misses.len() < self.most_misses {
            self.misses.push((line, arrives));
        }
    }

    /// When everything is through.
    pub(crate) fn drain(&mut self, clock: Ps) -> Ps {
        let clock = self.stores.drain(self.reads.drain(clock));
        self.misses.clear();
        clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(window: usize, stores: usize, misses: usize) -> Window {
        Window::new(Buffers { window, stores, misses })
    }

    /// An access that takes so long; when the core goes on.
    fn access(window: &mut Window, clock: Ps, access: Access, takes: Ps) -> Ps {
        let begins = window.begin(clock, access);
        window.end(begins, access, begins + takes)
    }

    #[test]
    fn a_core_goes_on_until_its_window_is_full() {
        let mut window = window(10, 4, 4);
        let clock = access(&mut window, 0, Access::Read, 100_000);
        assert_eq!(clock, 1000);
        assert_eq!(window.works(clock, 9), 10_000, "up to the tenth one");
        assert_eq!(window.works(10_000, 5), 105_000);
        assert_eq!(window.drain(105_000), 105_000);
    }

    #[test]
    fn a_window_of_one_waits_for_each_read() {
        let mut window = window(1, 1, 1);
        let clock = access(&mut window, 0, Access::Read, 100_000);
        assert_eq!(window.works(clock, 1), 101_000);
    }

    #[test]
    fn what_depends_and_what_is_atomic_waits() {
        let mut window = window(100, 4, 4);
        let clock = access(&mut window, 0, Access::Read, 100_000);
        let clock = access(&mut window, clock, Access::Read, 50_000);
        let clock = window.depends(clock);
        assert_eq!(clock, 51_000);
        assert_eq!(access(&mut window, clock, Access::Update, 10_000), 110_000);
    }

    #[test]
    fn writes_wait_for_room_in_the_store_buffer() {
        let mut window = window(4, 2, 4);
        let first = access(&mut window, 0, Access::Write, 100_000);
        let second = access(&mut window, first, Access::Write, 5000);
        // The window does not wait for them; the third finds no room until the first is through,
        // and the fourth none until the second is, which goes after it.
        assert_eq!(window.works(second, 8), 10_000);
        assert_eq!(access(&mut window, 10_000, Access::Write, 5000), 101_000);
        assert_eq!(access(&mut window, 101_000, Access::Write, 5000), 102_000);
    }

    #[test]
    fn so_many_lines_are_waited_for_at_once() {
        let mut window = window(100, 4, 2);
        window.misses(7, 50_000);
        window.misses(8, 90_000);
        assert_eq!((window.arrives(8, 0), window.arrives(9, 0)), (Some(90_000), None));
        assert_eq!(window.begin(0, Access::Read), 50_000);
        assert_eq!((window.arrives(7, 0), window.arrives(8, 0)), (None, Some(90_000)));
    }
}
