//! Requests between hosts, and their replies, of several lines each.
//!
//! Each worker has, for each other host, a place in LNR for one request and a place for its reply.
//! A request is written and cleaned first. Then one compare-and-swap makes it the newest of its
//! receiver's queue, which links requests by words in SCR. The receiver takes the whole queue at
//! once.
//!
//! ```text
//! newest  the newest request of a host's queue, plus 1; 0 if there is none
//! link    the request that was the newest before, plus 1 (32 bits) | bytes of this one (32)
//! reply   how many replies there were (32 bits) | bytes of the last one (32)
//! ```
//!
//! Invariants:
//! * A request is whole in memory before it is in a queue, so a queue has no holes. A sender that
//!   stops between its steps keeps no other sender's requests back.
//! * A worker's place for a request to a host is used again only after the reply to the last one.
//! * No queue can be full: each request has a place of its own.
//!
//! A ring whose places are claimed before they are written, as published, has neither of the first
//! two.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_memory::{FetchOp, HostMutex, LINE_BYTES, Lines, LnrAddr, Memory, ScrAddr};

use crate::sites;

/// Words of SCR for each request.
const SLOT_WORDS: u64 = 2;

/// Where the queues of a database lie.
#[derive(Clone, Copy, Debug)]
pub struct QueuePlaces {
    /// Hosts, which are numbered from 0.
    pub hosts: u8,
    /// Workers of each host.
    pub workers: u16,
    /// Bytes of a request and of a reply at most, a multiple of a line.
    pub message_bytes: u64,
    /// The first word.
    pub scr: ScrAddr<u64>,
    /// The first line of messages.
    pub lnr: LnrAddr,
}

/// A worker's place for requests to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The host that asks.
    pub from: u8,
    /// Its worker.
    pub worker: u16,
    /// The host that is asked.
    pub to: u8,
}

impl QueuePlaces {
    fn slots(&self) -> u64 {
        u64::from(self.hosts) * u64::from(self.hosts) * u64::from(self.workers)
    }

    /// Bytes of SCR that the queues take: a line per host, and two words per worker and host.
    pub fn scr_bytes(&self) -> u64 {
        let words = (self.slots() * SLOT_WORDS * 8).next_multiple_of(LINE_BYTES);
        u64::from(self.hosts) * LINE_BYTES + words
    }

    /// Bytes of LNR that the queues take.
    pub fn lnr_bytes(&self) -> u64 {
        2 * self.slots() * self.message_bytes
    }

    /// Empties all queues. No host uses them meanwhile.
    pub fn format<M: Memory>(&self, memory: &M) {
        (0..self.hosts).for_each(|host| memory.store(self.newest(host), 0));
        (0..self.slots()).for_each(|number| {
            memory.store(self.link(number), 0);
            memory.store(self.replied(number), 0);
        });
    }

    fn newest(&self, host: u8) -> ScrAddr<u64> {
        self.scr.line(u64::from(host))
    }

    fn link(&self, number: u64) -> ScrAddr<u64> {
        self.scr.line(self.hosts.into()).element(number * SLOT_WORDS)
    }

    fn replied(&self, number: u64) -> ScrAddr<u64> {
        self.link(number).element(1)
    }

    fn number(&self, slot: Slot) -> u64 {
        let worker = u64::from(slot.from) * u64::from(self.workers) + u64::from(slot.worker);
        worker * u64::from(self.hosts) + u64::from(slot.to)
    }

    fn slot(&self, number: u64) -> Option<Slot> {
        let (hosts, workers) = (u64::from(self.hosts), u64::from(self.workers));
        let worker = number / hosts;
        (number < self.slots()).then(|| Slot {
            from: (worker / workers) as u8,
            worker: (worker % workers) as u16,
            to: (number % hosts) as u8,
        })
    }

    /// The lines of a request, or of a reply, of so many bytes.
    fn lines(&self, number: u64, is_reply: bool, bytes: u64) -> Lines {
        let place = 2 * number + u64::from(is_reply);
        Lines::covering(self.lnr.plus(place * self.message_bytes), bytes)
    }
}

/// A request that a receiver has taken from its queue.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Where it lies.
    pub slot: Slot,
    bytes: u64,
}

/// A host's queue, and its side of all others. Shared by the host's threads.
pub struct Queue<M: Memory> {
    memory: M,
    places: QueuePlaces,
    host: u8,
    /// Requests that were taken, the oldest first.
    taken: HostMutex<M, VecDeque<Taken>>,
    invalidated_lines: AtomicU64,
    cleaned_lines: AtomicU64,
}

/// A queue holds what no sender writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl<M: Memory> Queue<M> {
    /// The queue of `host`.
    pub fn new(memory: &M, places: QueuePlaces, host: u8) -> Self {
        let taken = HostMutex::<M, _>::new(VecDeque::new());
        let (invalidated_lines, cleaned_lines) = Default::default();
        Self { memory: memory.clone(), places, host, taken, invalidated_lines, cleaned_lines }
    }

    /// Lines of messages that this host has invalidated, and cleaned.
    pub fn flushed_lines(&self) -> (u64, u64) {
        let load = |lines: &AtomicU64| lines.load(Ordering::Relaxed);
        (load(&self.invalidated_lines), load(&self.cleaned_lines))
    }

    /// Sends a request. Returns the number of its reply, which is to be [received](Self::receive)
    /// before the slot is used again.
    ///
    /// # Panics
    /// If it is longer than a message, or the slot is another host's.
    pub fn send(&self, slot: Slot, request: &[u8]) -> u32 {
        let bytes = request.len() as u64;
        assert!(bytes <= self.places.message_bytes, "a request of {bytes} bytes");
        assert!(slot.from == self.host, "a request in the place of host {}", slot.from);
        let (memory, number) = (&self.memory, self.places.number(slot));
        let reply = ((memory.load(self.places.replied(number)) >> 32) as u32).wrapping_add(1);
        let lines = self.places.lines(number, false, bytes);
        memory.takes_blank(lines);
        memory.write(lines.start(), request);
        self.cleaned_lines.fetch_add(lines.count(), Ordering::Relaxed);
        memory.publish(sites::REQUEST_CLEAN, [lines], |memory| {
            memory.gives(lines, bytes);
            let newest = self.places.newest(slot.to);
            let mut before = memory.load(newest);
            loop {
                memory.store(self.places.link(number), before << 32 | bytes);
                let pushed =
                    memory.compare_exchange(sites::REQUEST_PUSH, newest, before, number + 1);
                match pushed {
                    Ok(_) => break,
                    Err(found) => before = found,
                }
            }
        });
        reply
    }

    /// Takes the oldest request, if no other thread does. `claim` runs before another thread can
    /// take the next one.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn take<R>(&self, claim: impl FnOnce(Taken) -> R) -> Result<Option<R>, Damaged> {
        let Some(mut taken) = self.taken.try_lock() else { return Ok(None) };
        if taken.is_empty() {
            self.take_all(&mut taken)?;
        }
        Ok(taken.pop_front().map(claim))
    }

    fn take_all(&self, taken: &mut VecDeque<Taken>) -> Result<(), Damaged> {
        let (memory, newest) = (&self.memory, self.places.newest(self.host));
        if memory.load(newest) == 0 {
            return Ok(());
        }
        let mut next = memory.fetch(sites::REQUEST_TAKE, newest, FetchOp::Swap, 0);
        for _ in 0..self.places.slots() {
            let Some(number) = next.checked_sub(1) else { return Ok(()) };
            let slot = self.places.slot(number).filter(|slot| slot.to == self.host);
            let link = memory.load(self.places.link(number));
            let bytes = link & u64::from(u32::MAX);
            let slot = slot.filter(|_| bytes <= self.places.message_bytes).ok_or(Damaged)?;
            taken.push_front(Taken { slot, bytes });
            next = link >> 32;
        }
        if next == 0 { Ok(()) } else { Err(Damaged) }
    }

    /// Reads a request into `into`, in place of what is there.
    pub fn read(&self, taken: Taken, into: &mut Vec<u8>) {
        let lines = self.places.lines(self.places.number(taken.slot), false, taken.bytes);
        let since = self.memory.moment();
        self.invalidated_lines.fetch_add(lines.count(), Ordering::Relaxed);
        self.memory.consume(sites::REQUEST_INVALIDATE, |_| ((), [lines]));
        into.clear();
        self.memory.append(lines.start(), taken.bytes, into);
        self.memory.relies_on(lines.start(), taken.bytes, since);
    }

    /// Replies to a request that was read.
    ///
    /// # Panics
    /// If the reply is longer than a message.
    pub fn reply(&self, taken: Taken, reply: &[u8]) {
        let bytes = reply.len() as u64;
        assert!(bytes <= self.places.message_bytes, "a reply of {bytes} bytes");
        let (memory, number) = (&self.memory, self.places.number(taken.slot));
        let word = self.places.replied(number);
        let count = ((memory.load(word) >> 32) as u32).wrapping_add(1);
        let lines = self.places.lines(number, true, bytes);
        memory.takes_blank(lines);
        memory.write(lines.start(), reply);
        self.cleaned_lines.fetch_add(lines.count(), Ordering::Relaxed);
        memory.publish(sites::REPLY_CLEAN, [lines], |memory| {
            memory.gives(lines, bytes);
            memory.store(word, u64::from(count) << 32 | bytes);
        });
    }

    /// Reads reply number `reply` of a slot into `into`, in place of what is there; whether it has
    /// come.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn receive(&self, slot: Slot, reply: u32, into: &mut Vec<u8>) -> Result<bool, Damaged> {
        let (memory, number) = (&self.memory, self.places.number(slot));
        let since = memory.moment();
        let lines = memory.consume(sites::REPLY_INVALIDATE, |memory| {
            let word = memory.load(self.places.replied(number));
            let (count, bytes) = ((word >> 32) as u32, word & u64::from(u32::MAX));
            let fits = bytes <= self.places.message_bytes;
            let lines = (count == reply && fits).then(|| self.places.lines(number, true, bytes));
            ((count == reply).then_some((lines, bytes)), lines)
        });
        let Some((lines, bytes)) = lines else { return Ok(false) };
        let lines = lines.ok_or(Damaged)?;
        self.invalidated_lines.fetch_add(lines.count(), Ordering::Relaxed);
        into.clear();
        memory.append(lines.start(), bytes, into);
        memory.relies_on(lines.start(), bytes, since);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_places_of_their_own() {
        let places = QueuePlaces {
            hosts: 3,
            workers: 2,
            message_bytes: 128,
            scr: ScrAddr::new(64),
            lnr: LnrAddr::new(0),
        };
        for number in 0..18 {
            let slot = places.slot(number).unwrap();
            assert_eq!(places.number(slot), number);
        }
        assert_eq!(places.slot(18), None);
        let last = places.lines(17, true, 128);
        assert_eq!(last.start().offset() + last.bytes(), places.lnr_bytes());
        assert!(places.replied(17).offset() + 8 <= 64 + places.scr_bytes());
    }
}
