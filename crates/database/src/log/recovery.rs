//! Recovery: what a checkpoint and the logs after it say of each row.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::During;
use super::checkpoint::{self, Checkpoint, CheckpointWriter};
use super::error::LogError;
use super::file::FileContents;
use super::record::{Change, Record};
use super::session::{Closing, LogFile, Logs, log_names};
use super::storage::Storage;
use crate::{MAX_EPOCH, TableId, Version};

/// A row as it was when the last durable epoch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredRow {
    /// The table.
    pub table: TableId,
    /// The partition.
    pub partition: u32,
    /// The key.
    pub key: Box<[u8]>,
    /// The version.
    pub version: Version,
    /// The row.
    pub row: Box<[u8]>,
}

/// A database as it was when the last durable epoch ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Its catalog, as the checkpoint has it; empty if there is no checkpoint.
    pub catalog: Vec<u8>,
    /// Its rows, by table, partition and key.
    pub rows: Vec<RecoveredRow>,
    /// That epoch.
    pub durable: u64,
    /// The epoch to [go on](super::GroupCommit::format) from: above all that occur in the log.
    pub next: u64,
}

impl Recovered {
    /// Says durably that this is what the database goes on with. To be called before any host
    /// begins its log anew: what was not recovered must not count later.
    ///
    /// # Errors
    /// That the storage fails.
    pub fn close(&self, storage: &impl Storage) -> Result<(), LogError> {
        Closing { durable: self.durable, next: self.next }.write(storage)
    }

    /// Writes a checkpoint of this, with the catalog that was found, and removes files that
    /// recovery does not need any more: how many. No host runs. Without anything newer than the
    /// last checkpoint it only removes.
    ///
    /// # Errors
    /// That the storage fails, or a file is damaged.
    pub fn checkpoint<S: Storage + Clone + Sync>(
        &self,
        storage: &S,
        threads: usize,
    ) -> Result<usize, LogError> {
        let files = storage.list().during("list the files of", "the log")?;
        let newest = Checkpoint::newest(storage, &files)?;
        if newest.is_none_or(|newest| newest.epoch < self.durable) {
            let mut writer = CheckpointWriter::begin(storage.clone(), self.durable)?;
            let mut part = writer.part()?;
            for row in &self.rows {
                part.row((row.table, row.partition), &row.key, row.version, &row.row)?;
            }
            writer.add(part)?;
            writer.finish(&self.catalog, self.durable, self.durable)?;
        }
        truncate(storage, threads)
    }
}

/// Reads the newest checkpoint and all logs after it, with up to `threads` threads. Changes
/// nothing.
///
/// All transactions of epochs up to [`durable`](Recovered::durable) have happened, and no others:
/// those were not acknowledged as durable, and may lack transactions that they depend on.
///
/// # Errors
/// That the storage fails, or that a file is damaged or missing, with its name and the position.
pub fn recover<S: Storage + Sync>(storage: &S, threads: usize) -> Result<Recovered, LogError> {
    recover_part(storage, threads, |_, _| true)
}

/// The catalog of the newest checkpoint, if there is one. Hosts may run.
///
/// # Errors
/// That the storage fails, or that the checkpoint is damaged, or was just removed for a newer one.
pub fn catalog(storage: &impl Storage) -> Result<Option<Vec<u8>>, LogError> {
    let files = storage.list().during("list the files of", "the log")?;
    Ok(Checkpoint::newest(storage, &files)?.map(|checkpoint| checkpoint.catalog))
}

/// As [`recover`], of rows alone whose table and partition are `wanted`: hosts that recover
/// together each want the rows that are at home there. All of them find the same epochs.
///
/// # Errors
/// As of `recover`.
pub fn recover_part<S: Storage + Sync>(
    storage: &S,
    threads: usize,
    wanted: impl Fn(TableId, u32) -> bool + Sync,
) -> Result<Recovered, LogError> {
    let files = storage.list().during("list the files of", "the log")?;
    let checkpoint = Checkpoint::newest(storage, &files)?;
    let closings = Closing::read_all(storage, &files)?;
    let (good_from, last) = checkpoint.as_ref().map_or((0, 0), |c| (c.epoch, c.last));

    let names: Vec<&String> = log_names(&files).collect();
    let logs = in_parallel(&names, threads, |name| LogFile::read(storage, name))?;
    let logs = Logs::new(logs.into_iter().flatten());
    let (counting, durable) = logs.durable(good_from, &closings)?;
    if last > durable {
        let what = format!("a checkpoint was read until epoch {last}, the logs end at {durable}");
        return Err(LogError::Missing { file: "log-*".to_owned(), what });
    }

    let rows = match &checkpoint {
        Some(checkpoint) => read_parts(checkpoint, storage, threads)?,
        None => Vec::new(),
    };
    let of_rows = rows.iter().map(Source::Rows);
    let of_logs = counting.into_iter().map(|(file, last)| Source::Log(file, good_from, last));
    let sources: Vec<Source<'_>> = of_rows.chain(of_logs).collect();
    let rows = merge(&sources, threads, wanted);

    let next = closings.last().map_or(1, |closing| closing.next);
    let next = next.max(logs.newest() + 1).max(durable + 1);
    if next > MAX_EPOCH {
        let what = format!("epoch {next} has more than 40 bits");
        return Err(LogError::Missing { file: "log-*".to_owned(), what });
    }
    let catalog = checkpoint.map(|checkpoint| checkpoint.catalog).unwrap_or_default();
    Ok(Recovered { catalog, rows, durable, next })
}

fn read_parts<S: Storage + Sync>(
    checkpoint: &Checkpoint,
    storage: &S,
    threads: usize,
) -> Result<Vec<FileContents>, LogError> {
    let names: Vec<(usize, &str)> = checkpoint.part_names().enumerate().collect();
    in_parallel(&names, threads, |&(index, name)| {
        let contents = FileContents::read(storage, name)?;
        checkpoint.check_part(index, &contents)?;
        Ok(contents)
    })
}

/// Where changes come from.
enum Source<'a> {
    Rows(&'a FileContents),
    /// A log file, and of which epochs its records count: those after the first, up to the second.
    Log(&'a LogFile, u64, u64),
}

impl<'a> Source<'a> {
    fn for_each(&self, each: impl FnMut(Change<'a>)) {
        match *self {
            Self::Rows(contents) => {
                let frames = contents.frames().filter_map(Result::ok);
                let records = frames.filter_map(|frame| Record::decode(frame.body));
                records.flat_map(|(record, _)| record.whole_changes()).for_each(each);
            }
            Self::Log(file, after, last) => {
                let counts = |record: &Record<'_>| record.epoch > after && record.epoch <= last;
                file.records().filter(counts).flat_map(Record::whole_changes).for_each(each);
            }
        }
    }
}

/// The rows after all changes.
fn merge(
    sources: &[Source<'_>],
    threads: usize,
    wanted: impl Fn(TableId, u32) -> bool + Sync,
) -> Vec<RecoveredRow> {
    let shards = threads.max(1);
    let divided = in_parallel(sources, threads, |source| {
        let mut divided = vec![Vec::new(); shards];
        source.for_each(|change| {
            if wanted(change.table, change.partition) {
                divided[shard_of(change.key, shards)].push(change);
            }
        });
        Ok::<_, Infallible>(divided)
    });
    let Ok(divided) = divided;
    let numbers: Vec<usize> = (0..shards).collect();
    let found = in_parallel(&numbers, threads, |&shard| {
        Ok::<_, Infallible>(newest_of(divided.iter().flat_map(|divided| &divided[shard])))
    });
    let Ok(found) = found;
    let mut rows: Vec<RecoveredRow> = found.into_iter().flatten().collect();
    rows.sort_unstable_by(|a, b| {
        (a.table, a.partition, &a.key).cmp(&(b.table, b.partition, &b.key))
    });
    rows
}

fn shard_of(key: &[u8], shards: usize) -> usize {
    if shards == 1 { 0 } else { crc32c::crc32c(key) as usize % shards }
}

/// The rows that the changes with the greatest versions leave.
fn newest_of<'a>(changes: impl Iterator<Item = &'a Change<'a>>) -> Vec<RecoveredRow> {
    let mut newest: HashMap<(TableId, &[u8]), &Change<'_>> = HashMap::new();
    for change in changes {
        let found = newest.entry((change.table, change.key)).or_insert(change);
        if found.version < change.version {
            *found = change;
        }
    }
    let rows = newest.into_values().filter_map(|change| {
        let &Change { table, partition, key, version, row } = change;
        row.map(|row| RecoveredRow { table, partition, key: key.into(), version, row: row.into() })
    });
    rows.collect()
}

/// The results of `work` for each item, in any order.
fn in_parallel<I: Sync, T: Send, E: Send>(
    items: &[I],
    threads: usize,
    work: impl Fn(&I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let run = || {
            while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = work(item);
                done.lock().expect("no thread panics with it").push(result);
            }
        };
        (1..threads.min(items.len())).for_each(|_| _ = scope.spawn(run));
        run();
    });
    done.into_inner().expect("no thread panics with it").into_iter().collect()
}

/// Removes files that recovery does not need any more since the newest checkpoint. Returns how
/// many.
///
/// # Errors
/// That the storage fails, or a file is damaged.
pub fn truncate<S: Storage + Sync>(storage: &S, threads: usize) -> Result<usize, LogError> {
    let files = storage.list().during("list the files of", "the log")?;
    let Some(Checkpoint { epoch, .. }) = Checkpoint::newest(storage, &files)? else {
        return Ok(0);
    };
    let closings = Closing::read_all(storage, &files)?;
    let names: Vec<&String> = log_names(&files).collect();
    let logs = in_parallel(&names, threads, |name| {
        Ok(LogFile::read(storage, name)?.map(LogFile::without_records))
    })?;
    let mut old = Logs::new(logs.into_iter().flatten()).dispensable(epoch, &closings);
    // After the logs that they are about.
    let is_old_closing =
        |file: &&String| Closing::parse_name(file).is_some_and(|next| next <= epoch + 1);
    old.extend(files.iter().filter(is_old_closing).cloned());
    // The manifest first: what has one is whole.
    let of_older = |is_manifest| {
        let parsed = files.iter().filter_map(move |file| {
            let (found, manifest) = checkpoint::parse_name(file)?;
            (found < epoch && manifest == is_manifest).then(|| file.clone())
        });
        parsed.collect::<Vec<_>>()
    };
    old.extend(of_older(true).into_iter().chain(of_older(false)));
    for file in &old {
        storage.remove(file).during("remove", file)?;
    }
    Ok(old.len())
}
