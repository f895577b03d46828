//! An entry of the log: a line with a checksum, tied to the place it was written to.
//!
//! ```text
//! bytes  0..4   CRC-32C of the rest
//! bytes  4..8   incarnation of the host that wrote it
//! bytes  8..16  its number among that host's entries (63 bits) | whether it is a fence (1)
//! bytes 16..64  payload; of a fence: incarnation (4 bytes), host (1)
//! ```
//!
//! A *fence* is the log's own entry: from there on, entries of one stay of a host have no effect.

use tombolo_memory::LINE_BYTES;
use tombolo_pod::Stay;

/// Bytes of an entry that its owner may use.
pub const PAYLOAD_BYTES: usize = LINE_BYTES as usize - 16;

/// An event that the log can carry.
pub trait Entry: Copy {
    /// The bytes to carry.
    fn encode(&self) -> [u8; PAYLOAD_BYTES];

    /// The event in `payload`, or `None` if no event looks like that.
    fn decode(payload: &[u8; PAYLOAD_BYTES]) -> Option<Self>
    where
        Self: Sized;
}

pub(crate) type LineBytes = [u8; LINE_BYTES as usize];

/// An entry's line, with its place in the segment it is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) incarnation: u32,
    pub(crate) number: u64,
}

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content<E> {
    Event(E),
    /// Entries of this stay have no effect from here on.
    Fence(Stay),
}

const FENCE: u64 = 1 << 63;

pub(crate) fn to_line<E: Entry>(header: Header, content: &Content<E>) -> LineBytes {
    let (mark, payload) = match content {
        Content::Event(event) => (0, event.encode()),
        Content::Fence(stay) => {
            let mut payload = [0; PAYLOAD_BYTES];
            payload[..4].copy_from_slice(&stay.number.to_le_bytes());
            payload[4] = stay.host;
            (FENCE, payload)
        }
    };
    let mut line = [0; LINE_BYTES as usize];
    line[4..8].copy_from_slice(&header.incarnation.to_le_bytes());
    line[8..16].copy_from_slice(&(header.number | mark).to_le_bytes());
    line[16..].copy_from_slice(&payload);
    let checksum = crc32c::crc32c(&line[4..]);
    line[..4].copy_from_slice(&checksum.to_le_bytes());
    line
}

pub(crate) fn from_line<E: Entry>(line: &LineBytes) -> Option<(Header, Content<E>)> {
    let (checksum, rest) = line.split_first_chunk()?;
    if u32::from_le_bytes(*checksum) != crc32c::crc32c(rest) {
        return None;
    }
    let (incarnation, rest) = rest.split_first_chunk()?;
    let (number, payload) = rest.split_first_chunk()?;
    let number = u64::from_le_bytes(*number);
    let header = Header { incarnation: u32::from_le_bytes(*incarnation), number: number & !FENCE };
    let payload: &[u8; PAYLOAD_BYTES] = payload.first_chunk()?;
    let content = if number & FENCE == 0 {
        Content::Event(E::decode(payload)?)
    } else {
        let stay = u32::from_le_bytes(*payload.first_chunk()?);
        Content::Fence(Stay { host: payload[4], number: stay })
    };
    Some((header, content))
}
