//! Files of frames that show when they were cut, and when they were damaged.
//!
//! A file is made of units of 512 bytes, which a disk writes whole. Units that are synchronised at
//! once are a batch, and each has the batch's number.
//!
//! ```text
//! unit    CRC-32C of its position and all that follows (4)
//!         | batch, from 1 (31 bits), whether it is the last of it (1) | payload (504)
//! frame   bytes of the body (4) | kind (1) | zeros (3) | body
//! ```
//!
//! The payloads of a batch are frames, and zeros behind them. A batch is written only when the one
//! before is synchronised. So a unit of a batch proves that all batches before it were whole:
//!
//! * a unit of the last batch that is zeros or is not there was lost with power, and the batch is
//!   cut;
//! * a unit of an earlier batch that is zeros or is not there was damaged;
//! * a whole unit whose checksum is wrong was damaged.

use super::disk::UNIT;
use super::error::{During, LogError};
use super::storage::Storage;

const UNIT_HEAD: usize = 8;
const PAYLOAD: usize = UNIT - UNIT_HEAD;
const FRAME_HEAD: usize = 8;

const LAST: u32 = 1 << 31;

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct FileWriter {
    name: String,
    units: u64,
    batch: u32,
    frames: Vec<u8>,
}

impl FileWriter {
    /// Makes the file.
    pub(crate) fn create(storage: &impl Storage, name: String) -> Result<Self, LogError> {
        storage.create(&name).during("create", &name)?;
        Ok(Self { name, units: 0, batch: 0, frames: Vec::new() })
    }

    /// The file's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Batches that are durable.
    pub(crate) fn batches(&self) -> u32 {
        self.batch
    }

    /// Bytes that are durable.
    pub(crate) fn bytes(&self) -> u64 {
        self.units * UNIT as u64
    }

    /// Bytes of frames that wait for the next batch.
    pub(crate) fn waiting(&self) -> usize {
        self.frames.len()
    }

    /// Adds a frame to the next batch.
    pub(crate) fn push(&mut self, kind: u8, body: &[u8]) {
        debug_assert!(kind > 0, "no frame has kind 0");
        self.frames.extend((body.len() as u32).to_le_bytes());
        self.frames.extend([kind, 0, 0, 0]);
        self.frames.extend(body);
    }

    /// Writes the batch, and synchronises it unless `sync` is false. Returns its bytes. After an
    /// error the file is not to be written any more.
    pub(crate) fn commit(&mut self, storage: &impl Storage, sync: bool) -> Result<u64, LogError> {
        debug_assert!(!self.frames.is_empty(), "a batch has a frame, by which it is numbered");
        let units = self.frames.len().div_ceil(PAYLOAD);
        let mut bytes = Vec::with_capacity(units * UNIT);
        for (index, payload) in self.frames.chunks(PAYLOAD).enumerate() {
            let last = if index + 1 == units { LAST } else { 0 };
            let start = bytes.len();
            bytes.resize(start + UNIT, 0);
            let unit = &mut bytes[start..];
            unit[4..8].copy_from_slice(&((self.batch + 1) | last).to_le_bytes());
            unit[8..8 + payload.len()].copy_from_slice(payload);
            let checksum = checksum(self.units + index as u64, unit);
            unit[..4].copy_from_slice(&checksum.to_le_bytes());
        }
        storage.append(&self.name, &bytes).during("write", &self.name)?;
        if sync {
            storage.sync(&self.name).during("synchronise", &self.name)?;
        }
        self.frames.clear();
        self.units += units as u64;
        self.batch += 1;
        Ok(bytes.len() as u64)
    }
}

fn checksum(position: u64, unit: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&position.to_le_bytes()), &unit[4..])
}

/// The content of a file: its whole batches.
#[derive(Debug)]
pub(crate) struct FileContents {
    name: String,
    batches: Vec<Batch>,
}

#[derive(Debug)]
struct Batch {
    /// Where it begins in the file.
    position: u64,
    payload: Vec<u8>,
}

/// A frame of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// Where its batch begins in the file, and its body in the batch's payloads.
    place: (u64, usize),
    pub(crate) kind: u8,
    pub(crate) body: &'a [u8],
}

impl Frame<'_> {
    /// Where its body is in the file.
    pub(crate) fn position(&self) -> u64 {
        let (batch, within) = self.place;
        let unit = (within / PAYLOAD) as u64;
        batch + unit * UNIT as u64 + (UNIT_HEAD + within % PAYLOAD) as u64
    }
}

/// The batch of a whole unit, and whether the unit is the last of it; `None` for one of zeros.
fn unit_batch(name: &str, index: usize, unit: &[u8]) -> Result<Option<(u32, bool)>, LogError> {
    if unit.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    let (found, rest) = unit.split_first_chunk().expect("a unit has a checksum");
    if u32::from_le_bytes(*found) != checksum(index as u64, unit) {
        return Err(damaged(name, index, "the checksum of these 512 bytes is wrong"));
    }
    let word = u32::from_le_bytes(*rest.first_chunk().expect("a unit has a batch"));
    Ok(Some((word & !LAST, word & LAST != 0)))
}

fn damaged(name: &str, index: usize, what: &'static str) -> LogError {
    LogError::Damaged { file: name.to_owned(), position: (index * UNIT) as u64, what }
}

impl FileContents {
    /// Reads a file's bytes.
    pub(crate) fn parse(name: &str, bytes: &[u8]) -> Result<Self, LogError> {
        let units = bytes.chunks_exact(UNIT).enumerate();
        let units: Vec<_> =
            units.map(|(index, unit)| unit_batch(name, index, unit)).collect::<Result<_, _>>()?;
        let newest = units.iter().flatten().map(|&(batch, _)| batch).max().unwrap_or(0);
        let mut contents = Self { name: name.to_owned(), batches: Vec::new() };
        let (mut expected, mut payload, mut start) = (1, Vec::new(), 0);
        for (index, unit) in units.iter().enumerate() {
            match *unit {
                Some((batch, is_last)) if batch == expected => {
                    let unit = &bytes[index * UNIT..(index + 1) * UNIT];
                    payload.extend_from_slice(&unit[UNIT_HEAD..]);
                    if is_last {
                        let position = (start * UNIT) as u64;
                        let payload = std::mem::take(&mut payload);
                        contents.batches.push(Batch { position, payload });
                        (expected, start) = (expected + 1, index + 1);
                    }
                }
                None if newest <= expected => break,
                None => return Err(damaged(name, index, "512 bytes were lost that were written")),
                Some(_) => return Err(damaged(name, index, "these 512 bytes belong elsewhere")),
            }
        }
        Ok(contents)
    }

    /// Reads a file.
    pub(crate) fn read(storage: &impl Storage, name: &str) -> Result<Self, LogError> {
        Self::parse(name, &storage.read(name).during("read", name)?)
    }

    /// How many whole batches it has.
    pub(crate) fn batches(&self) -> u32 {
        self.batches.len() as u32
    }

    /// The same without its batches.
    pub(crate) fn emptied(self) -> Self {
        Self { batches: Vec::new(), ..self }
    }

    /// The frames of its whole batches.
    pub(crate) fn frames(&self) -> impl Iterator<Item = Result<Frame<'_>, LogError>> {
        self.batches.iter().flat_map(move |batch| {
            let mut at = 0;
            std::iter::from_fn(move || {
                let rest = &batch.payload[at..];
                let head: &[u8; FRAME_HEAD] = rest.first_chunk()?;
                let (length, kind) = (u32::from_le_bytes(*head.first_chunk()?), head[4]);
                if kind == 0 {
                    return None;
                }
                let place = (batch.position, at + FRAME_HEAD);
                let Some(body) = rest[FRAME_HEAD..].get(..length as usize) else {
                    at = batch.payload.len();
                    let frame = Frame { place, kind, body: &[] };
                    return Some(Err(self.damaged_at(&frame, "a frame goes beyond its batch")));
                };
                at += FRAME_HEAD + body.len();
                Some(Ok(Frame { place, kind, body }))
            })
        })
    }

    /// The error that a frame is not as it should be.
    pub(crate) fn damaged_at(&self, frame: &Frame<'_>, what: &'static str) -> LogError {
        LogError::Damaged { file: self.name.clone(), position: frame.position(), what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::SimulatedDisk;

    const SIZES: [&[usize]; 3] = [&[10, 700], &[0, 2000, 3], &[1]];

    fn body(number: usize) -> Vec<u8> {
        (0..number).map(|n| (n * 7 + number) as u8).collect()
    }

    fn written() -> (SimulatedDisk, Vec<u64>) {
        let disk = SimulatedDisk::new();
        let mut file = FileWriter::create(&disk, "f".into()).unwrap();
        let ends = SIZES.map(|sizes| {
            sizes.iter().for_each(|&size| file.push(7, &body(size)));
            file.commit(&disk, true).unwrap();
            file.bytes()
        });
        assert_eq!(file.batches(), 3);
        (disk, ends.to_vec())
    }

    /// Checks the frames that there are; how many batches they are of.
    fn check(contents: &FileContents) -> usize {
        let sizes: Vec<usize> = SIZES.concat();
        let bodies: Vec<_> = contents.frames().map(|frame| frame.unwrap().body.to_vec()).collect();
        for (size, found) in sizes.iter().zip(&bodies) {
            assert_eq!(*found, body(*size));
        }
        let batches = contents.batches() as usize;
        assert_eq!(bodies.len(), SIZES[..batches].concat().len());
        batches
    }

    #[test]
    fn a_file_that_is_cut_at_any_byte_has_the_batches_before() {
        let (disk, ends) = written();
        let bytes = disk.read("f").unwrap();
        for cut in 0..=bytes.len() {
            let contents = FileContents::parse("f", &bytes[..cut]).unwrap();
            let whole = ends.iter().filter(|&&end| end <= cut as u64).count();
            assert_eq!(check(&contents), whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_byte_that_changes_anywhere_is_found() {
        let (disk, _) = written();
        let bytes = disk.read("f").unwrap();
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x41;
            match FileContents::parse("f", &bytes) {
                Err(LogError::Damaged { position, .. }) => {
                    assert_eq!(position, (at / UNIT * UNIT) as u64);
                }
                other => panic!("byte {at} was changed: {other:?}"),
            }
        }
    }

    #[test]
    fn lost_units_cut_the_last_batch_and_no_other() {
        let (disk, ends) = written();
        let bytes = disk.read("f").unwrap();
        let last = ends[1] as usize;
        for at in (0..bytes.len()).step_by(UNIT) {
            let mut bytes = bytes.clone();
            bytes[at..at + UNIT].fill(0);
            let found = FileContents::parse("f", &bytes);
            match found {
                Ok(contents) => assert!(at >= last && check(&contents) == 2),
                Err(LogError::Damaged { .. }) => assert!(at < last),
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn positions_of_frames_are_positions_in_the_file() {
        let (disk, _) = written();
        let (bytes, contents) = (disk.read("f").unwrap(), FileContents::read(&disk, "f").unwrap());
        for frame in contents.frames().map(Result::unwrap).filter(|frame| !frame.body.is_empty()) {
            assert_eq!(bytes[frame.position() as usize], frame.body[0]);
        }
    }
}
