//! Writing a saved pod.

use std::io::{self, Write};

use uuid::Uuid;

use super::{
    Amount, BLOCK_BYTES, Contents, END_BYTES, FORMAT_VERSION, HEADER_BYTES, MAGIC,
    RECORD_HEAD_BYTES,
};

/// Puts records into blocks.
pub(super) struct FileWriter<W> {
    out: W,
    /// Of all that was written, but for checksums.
    checksum: u32,
    pod: Uuid,
    /// The objects that were added.
    pub(super) saved: Amount,
    block: Vec<u8>,
    records: u32,
}

impl<W: Write> FileWriter<W> {
    pub(super) fn new(out: W, pod: Uuid) -> io::Result<Self> {
        let (saved, block) = (Amount::default(), Vec::with_capacity(BLOCK_BYTES));
        let mut writer = Self { out, checksum: 0, pod, saved, block, records: 0 };
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend(MAGIC);
        header.extend(FORMAT_VERSION.to_le_bytes());
        header.extend(pod.as_bytes());
        writer.sealed(&[&header])?;
        Ok(writer)
    }

    /// Adds an object.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let mut head = [0; RECORD_HEAD_BYTES];
        head[..4].copy_from_slice(&(value.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&(key.len() as u16).to_le_bytes());
        let record = [&head, key, value];
        let bytes: usize = record.iter().map(|part| part.len()).sum();
        if self.block.len() + bytes > BLOCK_BYTES {
            self.end_block()?;
        }
        self.saved.add(key, value);
        if bytes > BLOCK_BYTES {
            return self.write_block(1, &record);
        }
        record.iter().for_each(|part| self.block.extend_from_slice(part));
        self.records += 1;
        Ok(())
    }

    /// Ends the file; what is in it.
    pub(super) fn finish(mut self, lost: u64) -> io::Result<Contents> {
        self.end_block()?;
        let Amount { objects, bytes } = self.saved;
        let mut end = Vec::with_capacity(END_BYTES);
        end.extend([objects, bytes, lost].iter().flat_map(|word| word.to_le_bytes()));
        self.write_block(0, &[])?;
        self.sealed(&[&end])?;
        self.out.flush()?;
        Ok(Contents { pod: self.pod, saved: self.saved, lost })
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.records == 0 {
            return Ok(());
        }
        let block = std::mem::take(&mut self.block);
        let written = self.write_block(self.records, &[&block]);
        self.block = block;
        self.block.clear();
        self.records = 0;
        written
    }

    /// Writes a block of `records`, given in parts; one of none is where the end begins.
    fn write_block(&mut self, records: u32, parts: &[&[u8]]) -> io::Result<()> {
        // An object and its header have less than 4 GiB.
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        self.sealed(&[&(bytes as u32).to_le_bytes(), &records.to_le_bytes()])?;
        if records == 0 { Ok(()) } else { self.sealed(parts) }
    }

    /// Writes parts, and the checksum that follows them.
    fn sealed(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        for part in parts {
            self.checksum = crc32c::crc32c_append(self.checksum, part);
            self.out.write_all(part)?;
        }
        self.out.write_all(&self.checksum.to_le_bytes())
    }
}
