//! How hosts find each other, and wait for each other, where nothing works but a line of one writer
//! that is written back and invalidated.
//!
//! ```text
//! lines 2h, 2h + 1   messages of host h, one after the other
//! message: magic | nonce | session | step | 3 words of data | checksum
//! ```
//!
//! A nonce tells this run of a host from earlier ones, whose messages may still be there. Each
//! other host answers to the first host's nonce. The first host waits for all of them, and then
//! makes the session's number of all nonces: that a host finds its own in there tells it that the
//! first host lives. Later messages count only in the session.
//!
//! A step is a round and a number in it. Two hosts that [`exchange`](Meeting::exchange) messages
//! use two lines in turn: a host is at most one step ahead of the other, so the line that it writes
//! is one that the other has read. A host that waits writes its messages again, since a platform
//! may have lost them.

use std::time::Duration;

use tombolo_memory::{LINE_BYTES, Lines, LnrAddr, Memory};

use crate::{Effort, Error, LineBytes, sites};

/// Hosts that can qualify a memory together.
pub const MAX_HOSTS: usize = 8;

/// Lines of messages.
pub(crate) const MESSAGE_LINES: u64 = 2 * MAX_HOSTS as u64;

/// Words that go with a message.
pub(crate) const DATA: usize = 3;

const MAGIC: u64 = u64::from_le_bytes(*b"TOMBMEET");

/// A host that waits writes its messages again after so many looks.
const AGAIN: u64 = 16;

/// How often a host that is through writes its last messages again.
const LAST: u64 = 16;

/// The words of an error when hosts wait for all others between two pairs.
const ROUND: &str = "waiting for all hosts";

/// The name of a host: `a` for the first one.
pub fn host_name(host: usize) -> char {
    char::from(b'a' + host as u8)
}

/// The host of a name, if it is one.
pub fn host_number(name: &str) -> Option<usize> {
    (0..MAX_HOSTS).find(|&host| name == host_name(host).to_string())
}

/// A host's message to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Message {
    nonce: u64,
    session: u64,
    step: u64,
    data: [u64; DATA],
}

impl Message {
    fn to_bytes(self) -> LineBytes {
        let Self { nonce, session, step, data: [first, second, third] } = self;
        let mut words = [MAGIC, nonce, session, step, first, second, third, 0];
        words[7] = checksum(&words[..7]);
        bytes_of(&words)
    }

    fn from_bytes(bytes: &LineBytes) -> Option<Self> {
        let [magic, nonce, session, step, first, second, third, sum] = words_of(bytes);
        let whole = [magic, nonce, session, step, first, second, third];
        let valid = magic == MAGIC && sum == checksum(&whole);
        valid.then_some(Self { nonce, session, step, data: [first, second, third] })
    }
}

/// A line of words.
pub(crate) fn bytes_of(words: &[u64; 8]) -> LineBytes {
    let mut bytes = [0; LINE_BYTES as usize];
    for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    bytes
}

/// The words of a line.
pub(crate) fn words_of(bytes: &LineBytes) -> [u64; 8] {
    let words = bytes.as_chunks::<8>().0;
    std::array::from_fn(|index| u64::from_le_bytes(words[index]))
}

fn checksum(words: &[u64]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    u64::from(crc32c::crc32c(&bytes))
}

/// Reads a line as it is in memory now.
pub(crate) fn read_afresh<M: Memory>(memory: &M, line: u64) -> LineBytes {
    let lines = Lines::new(line, 1);
    memory.consume(sites::INVALIDATE, |_| ((), Some(lines)));
    read(memory, line)
}

/// Reads a line as this host's caches have it.
pub(crate) fn read<M: Memory>(memory: &M, line: u64) -> LineBytes {
    let mut bytes = [0; LINE_BYTES as usize];
    memory.read(LnrAddr::of_line(line), &mut bytes);
    bytes
}

/// Hosts that have found each other.
pub(crate) struct Meeting<'a, M> {
    memory: &'a M,
    host: usize,
    hosts: usize,
    effort: Effort,
    nonce: u64,
    session: u64,
    /// The pair that is at it.
    round: u64,
    /// Steps in this round.
    step: u64,
    /// The messages in this host's two lines, and which of them is next.
    posted: [Option<Message>; 2],
    next: usize,
}

impl<'a, M: Memory> Meeting<'a, M> {
    /// Waits until all hosts have come.
    ///
    /// # Errors
    /// [`Error::Absent`].
    pub(crate) fn new(
        memory: &'a M,
        host: usize,
        hosts: usize,
        effort: Effort,
    ) -> Result<Self, Error> {
        let (nonce, posted) = (memory.random() | 1, [None; 2]);
        let mut meeting = Self {
            memory,
            host,
            hosts,
            effort,
            nonce,
            session: 0,
            round: 0,
            step: 0,
            posted,
            next: 0,
        };
        if host == 0 {
            meeting.gather()?
        } else {
            meeting.come()?
        }
        Ok(meeting)
    }

    /// The first host: waits for the others, and makes the session.
    fn gather(&mut self) -> Result<(), Error> {
        let nonce = self.nonce;
        self.post(Message { nonce, ..Message::default() });
        let mut nonces = vec![nonce];
        for other in 1..self.hosts {
            let answers = |message: &Message| message.step == 0 && message.session == nonce;
            nonces.push(self.await_from(other, answers, None)?.nonce);
        }
        self.session = number_of(&nonces);
        self.advance([0; DATA]);
        Ok(())
    }

    /// Another host: answers to the first one until that knows of all.
    fn come(&mut self) -> Result<(), Error> {
        let started = self.memory.uptime();
        let mut answered = None;
        let mut looks = 0;
        loop {
            let first = self.messages_of(0);
            // A host that comes shows its nonce alone.
            let newest = first.iter().find(|message| message.session == 0 && message.step == 0);
            if let Some(newest) = newest.filter(|newest| answered != Some(newest.nonce)) {
                answered = Some(newest.nonce);
                self.posted = [None; 2];
                let (nonce, session) = (self.nonce, newest.nonce);
                self.post(Message { nonce, session, ..Message::default() });
            }
            if let Some(session) = answered.and_then(|first_nonce| self.session_of(first_nonce)) {
                self.session = session;
                self.advance([0; DATA]);
                return Ok(());
            }
            self.wait(&mut looks);
            let waited = self.memory.uptime() - started;
            if waited > self.effort.meet_within {
                return Err(Error::Absent { host: 0, waited });
            }
        }
    }

    /// The session that the first host, with this nonce, has made of all hosts' nonces.
    fn session_of(&self, first_nonce: u64) -> Option<u64> {
        let made = |message: &Message| message.nonce == first_nonce && message.session != 0;
        let session = self.messages_of(0).into_iter().find(made)?.session;
        let mut nonces = vec![first_nonce];
        for other in 1..self.hosts {
            let of_now = |message: &Message| [first_nonce, session].contains(&message.session);
            let nonce = match other == self.host {
                true => self.nonce,
                false => self.messages_of(other).into_iter().find(of_now)?.nonce,
            };
            nonces.push(nonce);
        }
        (number_of(&nonces) == session).then_some(session)
    }

    /// Tells `peer` something in the next step, and returns what it tells in its own.
    ///
    /// # Errors
    /// [`Error::Silent`].
    pub(crate) fn exchange(
        &mut self,
        peer: usize,
        trying: &'static str,
        data: [u64; DATA],
    ) -> Result<[u64; DATA], Error> {
        self.step += 1;
        let step = self.round << 32 | self.step;
        self.advance(data);
        let session = self.session;
        let same = |message: &Message| message.session == session && message.step == step;
        Ok(self.await_from(peer, same, Some(trying))?.data)
    }

    /// The session's number, which no other has.
    pub(crate) fn session(&self) -> u64 {
        self.session
    }

    /// Waits until all hosts have come to the end of this round.
    ///
    /// # Errors
    /// [`Error::Silent`].
    pub(crate) fn round(&mut self) -> Result<(), Error> {
        (self.round, self.step) = (self.round + 1, 0);
        self.advance([0; DATA]);
        let (session, step) = (self.session, self.round << 32);
        let there = |message: &Message| message.session == session && message.step >= step;
        for other in (0..self.hosts).filter(|&other| other != self.host) {
            self.await_from(other, there, Some(ROUND))?;
        }
        Ok(())
    }

    /// The others may still look for this host's last messages.
    pub(crate) fn end(&self) {
        for _ in 0..LAST {
            self.write_posted();
            self.memory.pause();
        }
    }

    fn advance(&mut self, data: [u64; DATA]) {
        let step = self.round << 32 | self.step;
        self.post(Message { nonce: self.nonce, session: self.session, step, data });
    }

    fn post(&mut self, message: Message) {
        self.posted[self.next] = Some(message);
        self.next = 1 - self.next;
        self.write_posted();
    }

    fn write_posted(&self) {
        for (line, message) in (0..).zip(self.posted) {
            if let Some(message) = message {
                self.write(2 * self.host as u64 + line, &message.to_bytes());
            }
        }
    }

    fn write(&self, line: u64, bytes: &LineBytes) {
        self.memory.write(LnrAddr::of_line(line), bytes);
        self.memory.publish(sites::CLEAN, [Lines::new(line, 1)], |_| ());
    }

    /// A host's messages that are whole.
    fn messages_of(&self, host: usize) -> Vec<Message> {
        let lines = 2 * host as u64..2 * host as u64 + 2;
        lines.filter_map(|line| Message::from_bytes(&read_afresh(self.memory, line))).collect()
    }

    /// Looks for a message until there is one; before hosts have met, nothing is `trying`.
    fn await_from(
        &self,
        host: usize,
        wanted: impl Fn(&Message) -> bool,
        trying: Option<&'static str>,
    ) -> Result<Message, Error> {
        let started = self.memory.uptime();
        let mut looks = 0;
        loop {
            if let Some(found) = self.messages_of(host).into_iter().find(|found| wanted(found)) {
                return Ok(found);
            }
            self.wait(&mut looks);
            let waited = self.memory.uptime() - started;
            match trying {
                None if waited > self.effort.meet_within => {
                    return Err(Error::Absent { host, waited });
                }
                Some(trying) if waited > self.limit(trying) => {
                    return Err(Error::Silent { host, trying, waited });
                }
                _ => {}
            }
        }
    }

    /// How long a host that has come is waited for. Between two pairs, others may be at theirs.
    fn limit(&self, trying: &str) -> Duration {
        let pairs = if trying == ROUND { (self.hosts * self.hosts) as u32 } else { 1 };
        self.effort.answer_within * pairs
    }

    fn wait(&self, looks: &mut u64) {
        *looks += 1;
        if looks.is_multiple_of(AGAIN) {
            self.write_posted();
        }
        self.memory.pause();
    }
}

/// The number of the session of hosts with these nonces.
fn number_of(nonces: &[u64]) -> u64 {
    let mix = |session: u64, nonce: &u64| {
        (session ^ nonce).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    };
    nonces.iter().fold(1, mix) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_back_and_a_torn_one_is_none() {
        let message = Message { nonce: 1, session: 2, step: 3, data: [4, 5, 6] };
        let bytes = message.to_bytes();
        assert_eq!(Message::from_bytes(&bytes), Some(message));
        let mut torn = Message { step: 4, ..message }.to_bytes();
        torn[32..].copy_from_slice(&bytes[32..]);
        assert_eq!(Message::from_bytes(&torn), None);
        assert_eq!(Message::from_bytes(&[0; LINE_BYTES as usize]), None);
    }

    #[test]
    fn hosts_have_letters() {
        assert_eq!((host_name(0), host_number("b"), host_number("z")), ('a', Some(1), None));
    }
}
