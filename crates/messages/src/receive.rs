//! Receiving: what other hosts have sent since this one looked last.

use tombolo_memory::{FetchOp, Memory};

use crate::layout::MAX_TOPICS;
use crate::send::{HEAD_BYTES, bytes_in_ring, most_bytes};
use crate::{Messages, sites};

/// An event for a host that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A message of another host.
    Message {
        /// The host that has sent it.
        from: u8,
        /// Its topic.
        topic: u8,
        /// Its bytes.
        payload: &'a [u8],
    },
    /// Messages of a host were overwritten before this host has read them.
    Missed {
        /// The host that has sent them.
        from: u8,
    },
    /// A host has left or died, perhaps before it has sent what it was going to; or one has come in
    /// its place.
    Turnover {
        /// The host.
        host: u8,
    },
    /// A host's ring holds bytes that no host sends. They are passed over.
    Damaged {
        /// The host.
        from: u8,
    },
}

/// A host's side of all other hosts' rings.
#[derive(Default)]
pub(crate) struct Ears {
    /// A bit for each topic that this host listens to.
    topics: u8,
    /// Up to where each host's messages were read.
    read: Vec<u64>,
    /// The number of each host's last stay, and whether that takes part.
    stays: Vec<(u32, bool)>,
    buffer: Vec<u8>,
}

impl<M: Memory> Messages<M> {
    /// Listens to `topic` from here on.
    ///
    /// # Panics
    /// If there is no such topic.
    pub fn listen(&self, topic: u8) {
        assert!(topic < MAX_TOPICS, "there is no topic {topic}");
        let mut ears = self.ears.lock();
        let audience = self.places.audience(topic);
        self.memory().fetch(sites::LISTEN_NOTE, audience, FetchOp::Or, self.own_bit());
        if ears.topics == 0 {
            let hosts = 0..self.places.hosts;
            ears.read = hosts.map(|host| self.memory().load(self.places.end(host))).collect();
            ears.stays = self.stays();
        }
        ears.topics |= 1 << topic;
    }

    /// Listens to `topic` no longer.
    pub fn ignore(&self, topic: u8) {
        let mut ears = self.ears.lock();
        ears.topics &= !(1 << topic);
        let audience = self.places.audience(topic);
        if self.memory().keeps(sites::LISTEN_END) {
            self.memory().fetch(sites::LISTEN_END, audience, FetchOp::And, !self.own_bit());
        }
    }

    /// Shows what other hosts have sent to topics that this host listens to, and has not shown yet:
    /// the messages of each host in their order. Does not wait.
    pub fn receive(&self, mut show: impl FnMut(Received<'_>)) {
        let mut ears = self.ears.lock();
        if ears.topics == 0 {
            return;
        }
        for from in (0..self.places.hosts).filter(|&host| host != self.number()) {
            self.receive_from(from, &mut ears, &mut show);
        }
        let stays = self.stays();
        for (host, (before, now)) in ears.stays.iter().zip(&stays).enumerate() {
            if !self.memory().check(sites::RECEIVE_TURNOVER, before == now) {
                show(Received::Turnover { host: host as u8 });
            }
        }
        ears.stays = stays;
    }

    /// The hosts' last stays, and whether each takes part, or is about to. A host may have come and
    /// died since they were looked at. So the numbers count even where no host takes part, and one
    /// that is about to is told from one that has died.
    fn stays(&self) -> Vec<(u32, bool)> {
        let stays = (0..self.places.hosts).map(|host| self.area.stay_of(host));
        stays.map(|stay| (stay.number, self.area.is_member(stay))).collect()
    }

    fn receive_from(&self, from: u8, ears: &mut Ears, show: &mut impl FnMut(Received<'_>)) {
        let (memory, places) = (self.memory(), &self.places);
        let read = ears.read[usize::from(from)];
        let since = memory.moment();
        let (end, parts) = memory.consume(sites::RECEIVE_INVALIDATE, |memory| {
            let end = memory.load(places.end(from));
            let bytes = end.wrapping_sub(read);
            let is_there = bytes <= places.ring_bytes;
            let parts = places.lines(from, read, if is_there { bytes } else { 0 });
            ((end, parts), parts.into_iter().flatten())
        });
        if end == read {
            return;
        }
        ears.read[usize::from(from)] = end;
        let buffer = &mut ears.buffer;
        buffer.clear();
        for lines in parts.into_iter().flatten() {
            memory.append(lines.start(), lines.bytes(), buffer);
        }
        let overwritten = memory.load(places.begun(from)).wrapping_sub(read) > places.ring_bytes;
        if !memory.check(sites::RECEIVE_WHOLE, !overwritten) {
            return show(Received::Missed { from });
        }
        for lines in parts.into_iter().flatten() {
            memory.relies_on(lines.start(), lines.bytes(), since);
        }
        let mut rest = &buffer[..];
        while !rest.is_empty() {
            let Some((topic, payload, behind)) = self.parse(rest) else {
                return show(Received::Damaged { from });
            };
            if ears.topics >> topic & 1 == 1 {
                show(Received::Message { from, topic, payload });
            }
            rest = behind;
        }
    }

    /// The topic and the payload of the first message, and what lies behind it.
    fn parse<'a>(&self, bytes: &'a [u8]) -> Option<(u8, &'a [u8], &'a [u8])> {
        let (head, _) = bytes.split_at_checked(HEAD_BYTES)?;
        let word = |at: usize| head[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let (length, topic, checksum) = (word(0)? as usize, word(4)?, word(8)?);
        if length > most_bytes(&self.places) || topic >= u32::from(MAX_TOPICS) {
            return None;
        }
        let (message, behind) = bytes.split_at_checked(bytes_in_ring(length) as usize)?;
        let payload = &message[HEAD_BYTES..HEAD_BYTES + length];
        (crc32c::crc32c(payload) == checksum).then_some((topic as u8, payload, behind))
    }
}
