//! Checkpoints: rows in files of their own, so that older logs are not needed any more.
//!
//! A checkpoint is good from an epoch: it has all changes of that epoch and before. Rows are read
//! while transactions run, so some are newer, and some are gone already. It counts when its
//! manifest is there, which is written last, when the epoch in which the last row was read is
//! durable.
//!
//! ```text
//! checkpoint-EPOCH-PART  records of rows
//! checkpoint-EPOCH       a frame: the epoch (8) | that of the last read (8)
//!                        | for each part: its number (4), batches (4), rows (8)
//!                        a frame: the catalog
//! ```

use super::During;
use super::error::LogError;
use super::file::{FileContents, FileWriter};
use super::frames::{CATALOG, MANIFEST, RECORD};
use super::record::{self, Change, Record};
use super::storage::Storage;
use crate::{TableId, Version};

/// Bytes of rows that share a record, and of records that share a batch.
const RECORD_BYTES: usize = 64 << 10;
const BATCH_BYTES: usize = 1 << 20;

/// Writes a checkpoint. Several threads may write its parts, or several hosts that have the storage
/// in common, each a part of its own.
pub struct CheckpointWriter<S> {
    storage: S,
    epoch: u64,
    next: u32,
    parts: Vec<PartSummary>,
}

/// A part of a checkpoint that is being written.
pub struct CheckpointPart<S> {
    storage: S,
    file: FileWriter,
    rows: Vec<u8>,
    summary: PartSummary,
}

/// Counts of what a part of a checkpoint is to hold. The host that writes the manifest has to know
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSummary {
    /// The part's number.
    pub number: u32,
    /// Its batches.
    pub batches: u32,
    /// Its rows.
    pub rows: u64,
}

/// How the names of a checkpoint's files begin.
fn name(epoch: u64) -> String {
    format!("checkpoint-{epoch:010x}")
}

fn part_name(epoch: u64, part: u32) -> String {
    format!("{}-{part:04}", name(epoch))
}

/// The epoch of the checkpoint of which a file is a part, and whether it is the manifest.
pub(crate) fn parse_name(file: &str) -> Option<(u64, bool)> {
    let (epoch, part) = match file.strip_prefix("checkpoint-")?.split_once('-') {
        Some((epoch, part)) => (epoch, Some(part)),
        None => (&file["checkpoint-".len()..], None),
    };
    Some((u64::from_str_radix(epoch, 16).ok()?, part.is_none()))
}

impl<S: Storage + Clone> CheckpointWriter<S> {
    /// Begins a checkpoint that is good from `epoch`: a
    /// [settled](super::GroupCommit::settled_epoch) epoch, loaded before the first row is read.
    /// Files of an unfinished checkpoint of the same epoch are removed.
    ///
    /// # Errors
    /// That the storage fails, or has a checkpoint of that epoch.
    pub fn begin(storage: S, epoch: u64) -> Result<Self, LogError> {
        for file in storage.list().during("list the files beside", &name(epoch))? {
            match parse_name(&file) {
                Some((found, true)) if found == epoch && !is_unfinished(&storage, &file)? => {
                    let source = std::io::ErrorKind::AlreadyExists.into();
                    return Err(LogError::Storage { action: "create", file, source });
                }
                Some((found, _)) if found == epoch => {
                    storage.remove(&file).during("remove", &file)?;
                }
                _ => {}
            }
        }
        Ok(Self { storage, epoch, next: 0, parts: Vec::new() })
    }

    /// Begins the part with the least number that is not in use here.
    ///
    /// # Errors
    /// That the storage fails.
    pub fn part(&mut self) -> Result<CheckpointPart<S>, LogError> {
        let part = CheckpointPart::create(self.storage.clone(), self.epoch, self.next)?;
        self.next += 1;
        Ok(part)
    }

    /// Adds a part that was written here.
    ///
    /// # Errors
    /// That the storage fails.
    pub fn add(&mut self, part: CheckpointPart<S>) -> Result<(), LogError> {
        self.add_summary(part.finish()?);
        Ok(())
    }

    /// Adds a part that a thread or another host has [finished](CheckpointPart::finish).
    pub fn add_summary(&mut self, part: PartSummary) {
        self.next = self.next.max(part.number + 1);
        self.parts.push(part);
    }

    /// Ends the checkpoint: from here on recovery uses it, and older logs can be
    /// [removed](super::truncate). `last` is the epoch, loaded after the last row was read;
    /// `durable` is one that is durable on all hosts. While no transaction runs, `last` is the
    /// checkpoint's own epoch.
    ///
    /// # Errors
    /// That the storage fails; [`LogError::Early`] if `last` is not durable.
    pub fn finish(self, catalog: &[u8], last: u64, durable: u64) -> Result<(), LogError> {
        if last.max(self.epoch) > durable {
            return Err(LogError::Early { last, durable });
        }
        let mut body = Vec::new();
        body.extend(self.epoch.to_le_bytes());
        body.extend(last.to_le_bytes());
        for part in &self.parts {
            body.extend(part.number.to_le_bytes());
            body.extend(part.batches.to_le_bytes());
            body.extend(part.rows.to_le_bytes());
        }
        let mut file = FileWriter::create(&self.storage, name(self.epoch))?;
        file.push(MANIFEST, &body);
        file.push(CATALOG, catalog);
        file.commit(&self.storage, true).map(|_| ())
    }
}

/// Whether a manifest was cut.
fn is_unfinished(storage: &impl Storage, file: &str) -> Result<bool, LogError> {
    Ok(FileContents::read(storage, file)?.batches() == 0)
}

impl<S: Storage> CheckpointPart<S> {
    /// Begins part `number` of the checkpoint that is good from `epoch`, once a
    /// [`CheckpointWriter`] has begun it. No other part has that number.
    ///
    /// # Errors
    /// That the storage fails, or has that part.
    pub fn create(storage: S, epoch: u64, number: u32) -> Result<Self, LogError> {
        let file = FileWriter::create(&storage, part_name(epoch, number))?;
        let summary = PartSummary { number, batches: 0, rows: 0 };
        Ok(Self { storage, file, rows: Vec::new(), summary })
    }

    /// Adds a row. No other row of the checkpoint has its table and key.
    ///
    /// # Errors
    /// That the storage fails.
    pub fn row(
        &mut self,
        (table, partition): (TableId, u32),
        key: &[u8],
        version: Version,
        row: &[u8],
    ) -> Result<(), LogError> {
        let change = Change { table, partition, key, version, row: Some(row) };
        record::encode_change(&change, &mut self.rows);
        self.summary.rows += 1;
        if self.rows.len() >= RECORD_BYTES {
            self.push();
        }
        if self.file.waiting() >= BATCH_BYTES {
            self.file.commit(&self.storage, true)?;
        }
        Ok(())
    }

    fn push(&mut self) {
        let mut record = Vec::with_capacity(self.rows.len() + record::RECORD_BYTES);
        record::encode_all(0, &self.rows, &mut record);
        self.file.push(RECORD, &record);
        self.rows.clear();
    }

    /// Ends the part: it is on the disk. The writer has to
    /// [know](CheckpointWriter::add_summary) what is returned.
    ///
    /// # Errors
    /// That the storage fails.
    pub fn finish(mut self) -> Result<PartSummary, LogError> {
        self.push();
        self.file.commit(&self.storage, true)?;
        Ok(PartSummary { batches: self.file.batches(), ..self.summary })
    }
}

/// The content of a checkpoint.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) epoch: u64,
    /// The epoch in which the last row was read.
    pub(crate) last: u64,
    pub(crate) catalog: Vec<u8>,
    parts: Vec<(String, PartSummary)>,
}

impl Checkpoint {
    /// The newest checkpoint that was finished, if there is one.
    pub(crate) fn newest(
        storage: &impl Storage,
        files: &[String],
    ) -> Result<Option<Self>, LogError> {
        let manifests = files.iter().filter(|file| matches!(parse_name(file), Some((_, true))));
        let mut manifests: Vec<_> = manifests.collect();
        manifests.sort_unstable();
        for file in manifests.into_iter().rev() {
            let contents = FileContents::read(storage, file)?;
            if contents.batches() > 0 {
                return Self::of(&contents, file).map(Some);
            }
        }
        Ok(None)
    }

    fn of(contents: &FileContents, file: &str) -> Result<Self, LogError> {
        let frames = contents.frames().collect::<Result<Vec<_>, _>>()?;
        let [manifest, catalog] = frames[..] else {
            let what = "a manifest has a list of parts and a catalog";
            return Err(LogError::Damaged { file: file.to_owned(), position: 0, what });
        };
        let damaged = || contents.damaged_at(&manifest, "this is not the manifest it should be");
        let epoch = word(manifest.body, 0).ok_or_else(damaged)?;
        let last = word(manifest.body, 8).ok_or_else(damaged)?;
        let is_right = parse_name(file) == Some((epoch, true))
            && (manifest.kind, catalog.kind) == (MANIFEST, CATALOG)
            && manifest.body.len().is_multiple_of(16);
        if !is_right {
            return Err(damaged());
        }
        let parts = manifest.body[16..].chunks_exact(16).map(|part| {
            let first = word(part, 0).unwrap_or_default();
            let (number, batches) = (first as u32, (first >> 32) as u32);
            let rows = word(part, 8).unwrap_or_default();
            (part_name(epoch, number), PartSummary { number, batches, rows })
        });
        Ok(Self { epoch, last, catalog: catalog.body.to_vec(), parts: parts.collect() })
    }

    /// Names of the files that have the rows.
    pub(crate) fn part_names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|(name, _)| name.as_str())
    }

    /// Checks that a part is all there.
    pub(crate) fn check_part(&self, index: usize, contents: &FileContents) -> Result<(), LogError> {
        let (name, part) = &self.parts[index];
        let mut rows = 0;
        for frame in contents.frames() {
            let frame = frame?;
            let (record, _) = Record::decode(frame.body)
                .filter(|_| frame.kind == RECORD)
                .ok_or_else(|| contents.damaged_at(&frame, "this is no record of rows"))?;
            rows += record.whole_changes().count() as u64;
        }
        if (contents.batches(), rows) != (part.batches, part.rows) {
            let what =
                format!("the manifest says that it has {} rows, and it has {rows}", part.rows);
            return Err(LogError::Missing { file: name.clone(), what });
        }
        Ok(())
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map(|word| u64::from_le_bytes(*word))
}
