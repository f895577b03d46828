//! A queue of vertices that threads fill together and empty a window at a time.

use std::cell::Cell;
use std::ops::Range;

use crate::Processor;
use crate::array::{Array, Layout};
use crate::team::Member;

/// Vertices a thread collects before it puts them into the queue.
const BUFFER: usize = 1024;

/// The shared part.
pub(crate) struct Queue {
    vertices: Array<u32>,
    tail: Array<u64>,
    buffers: Array<u32>,
}

impl Queue {
    /// A queue through which no more than `capacity` vertices go before it is reset.
    pub(crate) fn new(layout: &mut Layout, threads: usize, capacity: usize) -> Self {
        Self {
            vertices: layout.filled("queue", capacity, 0),
            tail: layout.padded("tail of the queue", std::iter::repeat_n(0, 1)),
            buffers: layout.filled("buffers of the queue", threads * BUFFER, 0),
        }
    }

    /// Empties the queue but for one vertex. One thread calls this, between barriers.
    pub(crate) fn reset<P: Processor>(&self, processor: &P, first: usize) {
        self.vertices.set(processor, 0, first as u32);
        self.tail.set(processor, 0, 1);
    }

    #[inline]
    pub(crate) fn get<P: Processor>(&self, processor: &P, place: usize) -> usize {
        self.vertices.follow(processor, place) as usize
    }

    /// The vertices that have come since the last window; passes barriers.
    pub(crate) fn slide<P: Processor>(&self, me: &Member<P>, last: &Range<usize>) -> Range<usize> {
        me.barrier();
        let tail = self.tail.follow(&me.processor, 0) as usize;
        me.barrier();
        last.end..tail
    }

    /// A thread's way to add to the queue.
    pub(crate) fn end<'a, P: Processor>(&'a self, me: &'a Member<P>) -> End<'a, P> {
        End { queue: self, me, held: Cell::new(0) }
    }
}

/// Adds vertices. It must be flushed before a barrier.
pub(crate) struct End<'a, P> {
    queue: &'a Queue,
    me: &'a Member<P>,
    held: Cell<usize>,
}

impl<P: Processor> End<'_, P> {
    #[inline]
    pub(crate) fn push(&self, vertex: usize) {
        if self.held.get() == BUFFER {
            self.flush();
        }
        let held = self.held.replace(self.held.get() + 1);
        self.queue.buffers.set(&self.me.processor, self.start() + held, vertex as u32);
    }

    pub(crate) fn flush(&self) {
        let (processor, queue) = (&self.me.processor, self.queue);
        let held = self.held.replace(0);
        if held == 0 {
            return;
        }
        let tail = queue.tail.update(processor, 0, |tail| tail + held as u64) as usize;
        for index in 0..held {
            let vertex = queue.buffers.get(processor, self.start() + index);
            queue.vertices.set(processor, tail + index, vertex);
        }
    }

    fn start(&self) -> usize {
        self.me.thread * BUFFER
    }
}
