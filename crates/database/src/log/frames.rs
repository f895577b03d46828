//! The frames of log files.

/// Kinds of frames.
pub(crate) const HEADER: u8 = 1;
pub(crate) const RECORD: u8 = 2;
pub(crate) const MARK: u8 = 3;
pub(crate) const CLOSED: u8 = 4;
pub(crate) const MANIFEST: u8 = 5;
pub(crate) const CATALOG: u8 = 6;

const MAGIC: u64 = u64::from_le_bytes(*b"TOMBLOG1");

/// Which log a file is a part of: its first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The epoch that the database began with.
    pub(crate) session: u64,
    /// The epoch when the file was made. None of an earlier file of the host is greater.
    pub(crate) epoch: u64,
    /// The host whose log it is.
    pub(crate) host: u8,
    /// The file's number among the host's, from 0.
    pub(crate) number: u32,
    /// The number of the first file that the same logger has written of this log.
    pub(crate) first: u32,
    /// Batches that the file has at least that the same logger has written before.
    pub(crate) previous_batches: u32,
}

impl Header {
    pub(crate) fn name(&self) -> String {
        format!("{}{:06}", prefix(self.session, self.host), self.number)
    }

    pub(crate) fn encode(&self) -> [u8; 40] {
        let mut body = [0; 40];
        body[..8].copy_from_slice(&MAGIC.to_le_bytes());
        body[8..16].copy_from_slice(&self.session.to_le_bytes());
        body[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        body[24..28].copy_from_slice(&self.number.to_le_bytes());
        body[28..32].copy_from_slice(&self.previous_batches.to_le_bytes());
        body[32] = self.host;
        body[36..].copy_from_slice(&self.first.to_le_bytes());
        body
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let body: &[u8; 40] = body.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().expect("8 bytes"));
        let half = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("4 bytes"));
        let header = Self {
            session: word(8),
            epoch: word(16),
            host: body[32],
            number: half(24),
            first: half(36),
            previous_batches: half(28),
        };
        (word(0) == MAGIC && header.first <= header.number).then_some(header)
    }
}

/// How the names of a host's files begin.
pub(crate) fn prefix(session: u64, host: u8) -> String {
    format!("log-{session:010x}-{host:02}-")
}

/// Session, host and number of the file with a name, if it is a log's.
pub(crate) fn parse_name(name: &str) -> Option<(u64, u8, u32)> {
    let mut parts = name.strip_prefix("log-")?.split('-');
    let session = u64::from_str_radix(parts.next()?, 16).ok()?;
    let (host, number) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().is_none().then_some((session, host, number))
}

/// How far a host's log is, as of the end of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// All that the host has committed in this epoch and before is before the mark.
    pub(crate) epoch: u64,
    /// An epoch that was durable on all hosts.
    pub(crate) known: u64,
    /// The hosts that had logs, a bit for each.
    pub(crate) hosts: u64,
    /// Whether the host has left: it commits no more.
    pub(crate) is_last: bool,
}

impl Mark {
    pub(crate) fn encode(&self) -> [u8; 32] {
        let mut body = [0; 32];
        body[..8].copy_from_slice(&self.epoch.to_le_bytes());
        body[8..16].copy_from_slice(&self.known.to_le_bytes());
        body[16..24].copy_from_slice(&self.hosts.to_le_bytes());
        body[24] = u8::from(self.is_last);
        body
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let body: &[u8; 32] = body.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().expect("8 bytes"));
        let is_last = match body[24] {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Self { epoch: word(0), known: word(8), hosts: word(16), is_last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_marks_read_back() {
        let header =
            Header { session: 9, epoch: 12, host: 3, number: 7, first: 5, previous_batches: 4 };
        assert_eq!(Header::decode(&header.encode()), Some(header));
        assert_eq!(parse_name(&header.name()), Some((9, 3, 7)));
        assert_eq!(parse_name("log-9-3"), None);
        assert_eq!(parse_name("checkpoint-9-3-7"), None);
        let mark = Mark { epoch: 5, known: 4, hosts: 9, is_last: true };
        assert_eq!(Mark::decode(&mark.encode()), Some(mark));
    }
}
