//! Requests between hosts, and their answers.
//!
//! Each host has a few slots for the requests that it has under way, to whichever hosts and about
//! whichever areas. A slot is a line in LNR, which only that host writes, and a word in SCR, which
//! also says how far the request is:
//!
//! ```text
//! line   stay of the receiver (4 bytes) | zeros (4) | payload (56)
//! word   state (2 bits) | sequence (22)
//!        answer (40), or until then the area (8) and the receiver (8)
//! FREE -> POSTED (sender) -> TAKEN (receiver, by compare-and-swap)
//!         TAKEN -> ANSWERED (receiver, likewise)
//!         POSTED, TAKEN -> FREE (sender, who gives up)
//! ```
//!
//! Each host has a doorbell in each area, a word with a bit per sender, so that a tenant that looks
//! for requests loads one word when there are none, and takes no other tenant's.
//!
//! Invariants:
//! * A line changes only while its word is free or answered, and a receiver takes a request after
//!   it has copied the line: so what it copied is the request.
//! * Each request in a slot has another sequence. A host that answers one that was given up on
//!   changes nothing, unless it slept for four million requests in the same slot.
//! * Requests are for one stay of a host. The next one in its seat leaves them alone; and nobody
//!   gets an answer to what the last one in its own seat had asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_memory::{FetchOp, LINE_BYTES, Lines, Memory, ScrAddr};

use crate::area::Area;
use crate::layout::Places;
use crate::roster::{doorbell_word, stay_at};
use crate::seats::Seat;
use crate::sites;
use crate::superblock::Pod;

/// Bytes of a request.
pub const PAYLOAD_BYTES: usize = LINE_BYTES as usize - PREFIX_BYTES;

/// The greatest answer.
pub const MAX_ANSWER: u64 = (1 << ANSWER_BITS) - 1;

/// The most slots of a host: the unused ones are a bit each.
pub(crate) const MAX_SLOTS: u64 = 64;

const PREFIX_BYTES: usize = 8;
const ANSWER_BITS: u32 = 40;
const SEQUENCE_BITS: u32 = 22;

const FREE: u64 = 0;
const POSTED: u64 = 1;
const TAKEN: u64 = 2;
const ANSWERED: u64 = 3;

/// The state in a slot's word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Status {
    state: u64,
    sequence: u64,
    /// The answer, or until then the receiver and the area.
    rest: u64,
}

impl Status {
    fn from_word(word: u64) -> Self {
        Self {
            state: word >> (ANSWER_BITS + SEQUENCE_BITS),
            sequence: word >> ANSWER_BITS & ((1 << SEQUENCE_BITS) - 1),
            rest: word & MAX_ANSWER,
        }
    }

    fn word(self) -> u64 {
        self.state << (ANSWER_BITS + SEQUENCE_BITS) | self.sequence << ANSWER_BITS | self.rest
    }

    /// A request to `to`, after what the word says now.
    fn next(self, to: u8, area: u8) -> Self {
        let sequence = (self.sequence + 1) % (1 << SEQUENCE_BITS);
        Self { state: POSTED, sequence, rest: addressee(to, area) }
    }

    fn is_for(self, host: u8) -> bool {
        self.state == POSTED && self.rest & 0xff == u64::from(host)
    }

    fn is_about(self, area: u8) -> bool {
        self.rest >> 8 == u64::from(area)
    }
}

fn addressee(host: u8, area: u8) -> u64 {
    u64::from(area) << 8 | u64::from(host)
}

/// A host's slots, which all its tenants share.
pub struct MailSlots<M> {
    memory: M,
    places: Places,
    slots: u64,
    host: u8,
    /// A bit per slot that no thread of this host uses.
    unused: AtomicU64,
}

impl<M: Memory> MailSlots<M> {
    /// The slots of the host in `seat`; nothing is under way in them.
    pub fn new(pod: &Pod<M>, seat: &Seat) -> Arc<Self> {
        let slots = pod.layout().mail_slots;
        let mail = Self {
            memory: pod.memory().clone(),
            places: *pod.places(),
            slots,
            host: seat.host(),
            unused: AtomicU64::new(u64::MAX >> (MAX_SLOTS - slots)),
        };
        if mail.memory.keeps(sites::MAIL_RENEW) {
            (0..slots).for_each(|slot| mail.free(slot));
        }
        Arc::new(mail)
    }

    /// A slot for a thread of this host.
    fn reserve(&self) -> Option<u64> {
        self.memory.step();
        let lowest = |unused: u64| (unused != 0).then(|| unused & (unused - 1));
        let before = self.unused.fetch_update(Ordering::Acquire, Ordering::Relaxed, lowest).ok()?;
        Some(u64::from(before.trailing_zeros()))
    }

    /// Voids what is in a slot of this host's.
    fn free(&self, slot: u64) {
        let word = self.word(self.host, slot);
        let next = Status { state: FREE, ..Status::from_word(self.memory.load(word)).next(0, 0) };
        // A receiver that copies the line finds out before it changes.
        self.memory.fetch(sites::MAIL_ABANDON, word, FetchOp::Swap, next.word());
    }

    fn status(&self, from: u8, slot: u64) -> Status {
        Status::from_word(self.memory.load(self.word(from, slot)))
    }

    fn word(&self, from: u8, slot: u64) -> ScrAddr<u64> {
        self.places.mail_words.element(u64::from(from) * self.slots + slot)
    }

    fn line(&self, from: u8, slot: u64) -> Lines {
        Lines::new(self.places.mail_lines.line() + u64::from(from) * self.slots + slot, 1)
    }
}

/// A host's side of all its correspondence about one area. Shared by the host's threads.
pub struct Mailbox<M> {
    area: Area<M>,
    mail: Arc<MailSlots<M>>,
    host: u8,
    incarnation: u32,
    /// Where to begin looking for requests, so that no sender and no slot is always the last.
    turn: AtomicU64,
}

/// A request that another host has made.
#[derive(Debug)]
pub struct Request {
    /// The host that asks.
    pub from: u8,
    /// The request's content.
    pub payload: [u8; PAYLOAD_BYTES],
    slot: u64,
    taken: u64,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Not answered yet.
    Waiting,
    /// The answer.
    Answered(u64),
    /// The receiver has left the area, and will not answer.
    Gone,
}

/// A request that this host has made. Dropping it gives up on an answer that has not come.
pub struct Ticket<'a, M: Memory> {
    mailbox: &'a Mailbox<M>,
    to: u8,
    incarnation: u32,
    slot: u64,
    posted: Status,
    answered: bool,
}

impl<M: Memory> Mailbox<M> {
    /// The mailbox of the host in `seat`, whose slots are `mail`, for requests about `area`.
    pub fn new(area: &Area<M>, seat: &Seat, mail: Arc<MailSlots<M>>) -> Self {
        let (host, incarnation) = (seat.host(), seat.incarnation());
        Self { area: area.clone(), mail, host, incarnation, turn: AtomicU64::new(0) }
    }

    fn memory(&self) -> &M {
        self.area.memory()
    }

    /// Asks `to` for something; `None` if this host has as many requests under way as it can.
    ///
    /// # Panics
    /// If there is no host of that number.
    pub fn try_post(&self, to: u8, payload: &[u8; PAYLOAD_BYTES]) -> Option<Ticket<'_, M>> {
        assert!(to < self.mail.places.host_count, "there is no host {to}");
        let slot = self.mail.reserve()?;
        let memory = self.memory();
        let (incarnation, _) = stay_at(memory, self.area.places(), to);
        let word = self.mail.word(self.host, slot);
        let posted = Status::from_word(memory.load(word)).next(to, self.area.number());
        let line = self.mail.line(self.host, slot);
        memory.takes_blank(line);
        memory.write(line.start(), &u64::from(incarnation).to_le_bytes());
        memory.write(line.start().plus(PREFIX_BYTES as u64), payload);
        memory.publish(sites::MAIL_CLEAN, [line], |memory| {
            memory.gives(line, LINE_BYTES);
            memory.store(word, posted.word());
            self.ring(to, self.host);
        });
        Some(Ticket { mailbox: self, to, incarnation, slot, posted, answered: false })
    }

    /// Takes a request that is for this host, if there is one. The thread that takes it answers it.
    pub fn next(&self) -> Option<Request> {
        let rung = self.memory().load(doorbell_word(self.area.places(), self.host));
        if rung == 0 {
            return None;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let hosts = u64::from(self.mail.places.host_count);
        let mut senders = (0..hosts).map(|n| ((turn + n) % hosts) as u8);
        senders.find_map(|from| (rung & 1 << from != 0).then(|| self.next_of(from, turn))?)
    }

    fn next_of(&self, from: u8, turn: u64) -> Option<Request> {
        // Before the look: a host that posts after it rings again.
        let before = self.memory().keeps(sites::MAIL_HEAR_FIRST);
        if before {
            self.hear(from);
        }
        let slots = (0..self.mail.slots).map(|n| (turn + n) % self.mail.slots);
        let is_ours = |status: Status| self.is_ours(status);
        let mut posted = slots.filter(|&slot| is_ours(self.mail.status(from, slot)));
        let request = posted.find_map(|slot| self.take(from, slot));
        if request.is_some() {
            let last = posted.next().is_none();
            if !self.memory().check(sites::MAIL_MORE, last) {
                self.ring(self.host, from);
            }
        }
        if !before {
            self.hear(from);
        }
        request
    }

    /// Whether a request is for this host, and about this area.
    fn is_ours(&self, status: Status) -> bool {
        let about = status.is_about(self.area.number());
        status.is_for(self.host) && self.memory().check(sites::MAIL_AREA, about)
    }

    fn hear(&self, from: u8) {
        let doorbell = doorbell_word(self.area.places(), self.host);
        self.memory().fetch(sites::MAIL_HEAR, doorbell, FetchOp::And, !(1 << from));
    }

    fn ring(&self, to: u8, from: u8) {
        let doorbell = doorbell_word(self.area.places(), to);
        self.memory().fetch(sites::MAIL_RING, doorbell, FetchOp::Or, 1 << from);
    }

    fn take(&self, from: u8, slot: u64) -> Option<Request> {
        let (memory, mail) = (self.memory(), &self.mail);
        let (word, line) = (mail.word(from, slot), mail.line(from, slot));
        let since = memory.moment();
        let status = memory.consume(sites::MAIL_INVALIDATE, |memory| {
            (Status::from_word(memory.load(word)), Some(line))
        });
        let mut bytes = [0; LINE_BYTES as usize];
        memory.read(line.start(), &mut bytes);
        let (stay, payload) = bytes.split_first_chunk()?;
        let for_this_stay = u64::from_le_bytes(*stay) == u64::from(self.incarnation);
        if !self.is_ours(status) || !memory.check(sites::MAIL_STAY, for_this_stay) {
            return None;
        }
        let taken = Status { state: TAKEN, ..status }.word();
        memory.compare_exchange(sites::MAIL_TAKE, word, status.word(), taken).ok()?;
        memory.relies_on(line.start(), LINE_BYTES, since);
        Some(Request { from, payload: *payload.first_chunk()?, slot, taken })
    }

    /// Answers a request; whether its sender still waits.
    ///
    /// # Panics
    /// If the answer is greater than [`MAX_ANSWER`].
    pub fn answer(&self, request: &Request, answer: u64) -> bool {
        assert!(answer <= MAX_ANSWER, "an answer of {answer:#x} does not fit");
        let taken = Status::from_word(request.taken);
        let answered = Status { state: ANSWERED, rest: answer, ..taken };
        let word = self.mail.word(request.from, request.slot);
        let (taken, answered) = (request.taken, answered.word());
        self.memory().compare_exchange(sites::MAIL_ANSWER, word, taken, answered).is_ok()
    }
}

impl<M: Memory> Ticket<'_, M> {
    /// The number of the stay that the request is for.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// How far the request is.
    pub fn reply(&mut self) -> Reply {
        if let Some(answer) = self.answer() {
            return Reply::Answered(answer);
        }
        if !self.is_receiver_gone() {
            return Reply::Waiting;
        }
        // It may have answered before it left.
        self.answer().map_or(Reply::Gone, Reply::Answered)
    }

    fn answer(&mut self) -> Option<u64> {
        let status = self.mailbox.mail.status(self.mailbox.host, self.slot);
        self.answered = status.state == ANSWERED && status.sequence == self.posted.sequence;
        self.answered.then_some(status.rest)
    }

    fn is_receiver_gone(&self) -> bool {
        let area = &self.mailbox.area;
        let memory = area.memory();
        let there = stay_at(memory, area.places(), self.to) == (self.incarnation, true);
        !memory.check(sites::MAIL_GONE, there)
    }
}

impl<M: Memory> Drop for Ticket<'_, M> {
    fn drop(&mut self) {
        let mail = &self.mailbox.mail;
        if !self.answered && mail.memory.keeps(sites::MAIL_ABANDON) {
            mail.free(self.slot);
        }
        mail.memory.step();
        mail.unused.fetch_or(1 << self.slot, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        let first = Status { state: ANSWERED, sequence: (1 << 22) - 1, rest: MAX_ANSWER };
        assert!(Status::from_word(first.word()) == first);
        let next = first.next(15, 3);
        assert!(next.is_for(15) && !next.is_for(14) && next.is_about(3) && !next.is_about(2));
        assert_eq!(next.sequence, 0);
        assert!(Status::from_word(next.word()) == next);
    }
}
