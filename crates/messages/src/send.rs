//! Sending: a message goes into the host's own ring.

use tombolo_memory::{FetchOp, LINE_BYTES, Memory};

use crate::layout::Places;
use crate::{MessageError, Messages, sites};

/// Bytes in front of a payload.
pub(crate) const HEAD_BYTES: usize = 16;

/// Bytes that a message with such a payload takes in its ring.
pub(crate) fn bytes_in_ring(payload_bytes: usize) -> u64 {
    ((HEAD_BYTES + payload_bytes) as u64).next_multiple_of(LINE_BYTES)
}

/// Bytes of a payload, at most: a quarter of a ring, so that a receiver has some time.
pub(crate) fn most_bytes(places: &Places) -> usize {
    (places.ring_bytes / 4) as usize - HEAD_BYTES
}

impl<M: Memory> Messages<M> {
    /// Whether a host other than this one listens to `topic`.
    pub fn is_heard(&self, topic: u8) -> bool {
        self.memory().load(self.places.audience(topic)) & !self.own_bit() != 0
    }

    /// Whether a message may have so many bytes.
    ///
    /// # Errors
    /// [`MessageError::TooLong`] if it may not.
    pub fn check_length(&self, bytes: usize) -> Result<(), MessageError> {
        let most = most_bytes(&self.places);
        if bytes <= most { Ok(()) } else { Err(MessageError::TooLong { bytes, most }) }
    }

    /// Sends a message to all other hosts that listen to `topic`, in time proportional to its
    /// length; no host can make it wait. Nothing is written if none listens. Of a host that dies
    /// just then, the last two messages may not be seen: their ends are stores, which leave its
    /// processor some time later.
    ///
    /// # Errors
    /// [`MessageError::TooLong`].
    pub fn send(&self, topic: u8, payload: &[u8]) -> Result<(), MessageError> {
        let bytes = payload.len();
        self.check_length(bytes)?;
        if !self.is_heard(topic) {
            return Ok(());
        }
        let mut message = Vec::with_capacity(bytes_in_ring(bytes) as usize);
        message.extend_from_slice(&(bytes as u32).to_le_bytes());
        message.extend_from_slice(&u32::from(topic).to_le_bytes());
        message.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(payload);
        message.resize(bytes_in_ring(bytes) as usize, 0);
        self.append(&message);
        Ok(())
    }

    fn append(&self, message: &[u8]) {
        let (memory, places, own) = (self.memory(), &self.places, self.number());
        let mut end = self.end.lock();
        let behind = *end + message.len() as u64;
        // A read-modify-write: it has taken effect before anything that follows can be seen.
        if memory.keeps(sites::SEND_BEGIN) {
            memory.fetch(sites::SEND_BEGIN, places.begun(own), FetchOp::Max, behind);
        }
        let parts = places.lines(own, *end, message.len() as u64).into_iter().flatten();
        let mut rest = message;
        for lines in parts.clone() {
            let part = rest.split_off(..lines.bytes() as usize).expect("parts are the whole");
            memory.takes_blank(lines);
            memory.write(lines.start(), part);
        }
        memory.publish(sites::SEND_CLEAN, parts.clone(), |memory| {
            parts.for_each(|lines| memory.gives(lines, lines.bytes()));
            memory.store(places.end(own), behind);
        });
        *end = behind;
    }
}
