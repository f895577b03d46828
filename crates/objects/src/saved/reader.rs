//! Reading a saved pod.

use std::io::{self, ErrorKind, Read};

use uuid::Uuid;

use super::{
    Amount, BLOCK_HEAD_BYTES, Contents, END_BYTES, FORMAT_VERSION, HEADER_BYTES, MAGIC, SavedError,
};
use crate::MAX_KEY_BYTES;

const END: &str = "its end, which tells how much there is in it";

/// Reads a whole file, showing each key and value to `visit` once the block that they are in is
/// known to be sound. Returns the file's contents.
pub(super) fn read(
    from: impl Read,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), SavedError>,
) -> Result<Contents, SavedError> {
    let mut reader = FileReader { from, at: 0, checksum: 0 };
    let pod = reader.header()?;
    let (mut found, mut block) = (Amount::default(), Vec::new());
    loop {
        let at = reader.at;
        let Some(records) = reader.block(&mut block)? else { break };
        let mut rest = &block[..];
        let unsound = || SavedError::Damaged { at, what: "a block has other records than it says" };
        for _ in 0..records {
            let (key, value, behind) = split_record(rest).ok_or_else(unsound)?;
            found.add(key, value);
            visit(key, value)?;
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(unsound());
        }
    }
    let at = reader.at;
    let (saved, lost) = reader.end()?;
    if saved != found {
        return Err(SavedError::Damaged {
            at,
            what: "its end tells of other objects than are in it",
        });
    }
    Ok(Contents { pod, saved, lost })
}

/// Key and value of the first record, and what comes behind it.
fn split_record(block: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (value_bytes, rest) = block.split_first_chunk()?;
    let (key_bytes, rest) = rest.split_first_chunk()?;
    let key_bytes = usize::from(u16::from_le_bytes(*key_bytes));
    let (key, rest) = rest.split_at_checked(key_bytes)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value_bytes) as usize)?;
    (1..=MAX_KEY_BYTES).contains(&key_bytes).then_some((key, value, rest))
}

struct FileReader<R> {
    from: R,
    at: u64,
    /// Of all that was read, but for checksums.
    checksum: u32,
}

impl<R: Read> FileReader<R> {
    fn header(&mut self) -> Result<Uuid, SavedError> {
        const PART: &str = "its header";
        let mut magic = [0; MAGIC.len()];
        let mut rest = [0; HEADER_BYTES - MAGIC.len()];
        match self.fill(&mut magic, PART) {
            Ok(()) if magic == MAGIC => {}
            Ok(()) | Err(SavedError::CutOff { .. }) => return Err(SavedError::Foreign),
            Err(error) => return Err(error),
        }
        self.fill(&mut rest, PART)?;
        let (version, pod) = rest.split_at(4);
        let version = u32::from_le_bytes(version.try_into().expect("four bytes"));
        if version != FORMAT_VERSION {
            return Err(SavedError::Version { version });
        }
        self.check(0, PART, "its header has another checksum")?;
        Ok(Uuid::from_slice(pod).expect("as long as a UUID"))
    }

    /// Reads the records of the next block, and how many there are; `None` where the end begins.
    fn block(&mut self, block: &mut Vec<u8>) -> Result<Option<u32>, SavedError> {
        const PART: &str = "a block";
        let (at, mut head) = (self.at, [0; BLOCK_HEAD_BYTES]);
        self.fill(&mut head, PART)?;
        self.check(at, PART, "the head of a block has another checksum")?;
        let [b0, b1, b2, b3, r0, r1, r2, r3] = head;
        let bytes = u32::from_le_bytes([b0, b1, b2, b3]);
        let records = u32::from_le_bytes([r0, r1, r2, r3]);
        match (bytes, records) {
            (0, 0) => return Ok(None),
            (0, _) | (_, 0) => {
                return Err(SavedError::Damaged { at, what: "a block without records" });
            }
            _ => {}
        }
        block.clear();
        // Grows with what is there, whatever the length says.
        let read = self.from.by_ref().take(bytes.into()).read_to_end(block);
        let read = read.map_err(|error| self.failed(error))?;
        self.checksum = crc32c::crc32c_append(self.checksum, block);
        self.at += read as u64;
        if read < bytes as usize {
            return Err(SavedError::CutOff { at: self.at, part: PART });
        }
        self.check(at, PART, "a block has another checksum")?;
        Ok(Some(records))
    }

    /// Reads what the end says: what was saved, and how many objects were lost.
    fn end(&mut self) -> Result<(Amount, u64), SavedError> {
        let (at, mut end) = (self.at, [0; END_BYTES]);
        self.fill(&mut end, END)?;
        self.check(at, END, "its end has another checksum")?;
        let at = self.at;
        match self.fill(&mut [0], END) {
            Err(SavedError::CutOff { .. }) => {}
            Ok(()) => return Err(SavedError::Damaged { at, what: "more bytes follow its end" }),
            Err(error) => return Err(error),
        }
        let word = |number: usize| {
            let bytes = end[8 * number..][..8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes"))
        };
        Ok((Amount { objects: word(0), bytes: word(1) }, word(2)))
    }

    /// Reads bytes that the next checksum covers.
    fn fill(&mut self, into: &mut [u8], part: &'static str) -> Result<(), SavedError> {
        self.fill_uncovered(into, part)?;
        self.checksum = crc32c::crc32c_append(self.checksum, into);
        Ok(())
    }

    /// Reads a checksum, and compares it with that of all before; what is covered begins at `at`.
    fn check(&mut self, at: u64, part: &'static str, what: &'static str) -> Result<(), SavedError> {
        let mut written = [0; 4];
        self.fill_uncovered(&mut written, part)?;
        if u32::from_le_bytes(written) == self.checksum {
            Ok(())
        } else {
            Err(SavedError::Damaged { at, what })
        }
    }

    fn fill_uncovered(&mut self, into: &mut [u8], part: &'static str) -> Result<(), SavedError> {
        let mut filled = 0;
        while filled < into.len() {
            match self.from.read(&mut into[filled..]) {
                Ok(0) => return Err(SavedError::CutOff { at: self.at, part }),
                Ok(read) => (filled, self.at) = (filled + read, self.at + read as u64),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    fn failed(&self, error: io::Error) -> SavedError {
        SavedError::Read { at: self.at, error }
    }
}
