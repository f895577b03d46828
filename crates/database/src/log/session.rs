//! The files of a log, put in order: which host wrote what, and how far that goes.
//!
//! A session is the time from one recovery to the next, and is named by its first epoch. Recovery
//! closes a session at its durable epoch. Records of later epochs in its files never count.

use std::collections::BTreeMap;

use super::During;
use super::error::LogError;
use super::file::{FileContents, FileWriter, Frame};
use super::frames::{CLOSED, HEADER, Header, MARK, Mark, RECORD, parse_name, prefix};
use super::record::Record;
use super::storage::Storage;

/// A file of a host's log that has a whole batch.
#[derive(Debug)]
pub(crate) struct LogFile {
    pub(crate) header: Header,
    pub(crate) contents: FileContents,
    /// How many whole batches it has.
    batches: u32,
    /// The marks in it.
    marks: Vec<Mark>,
    /// The greatest epoch of a record or a mark in it.
    newest: u64,
}

impl LogFile {
    /// Reads a log file; `None` if it was cut before anything in it was durable.
    pub(crate) fn read(storage: &impl Storage, name: &str) -> Result<Option<Self>, LogError> {
        let contents = FileContents::read(storage, name)?;
        let mut frames = contents.frames();
        let Some(first) = frames.next().transpose()? else { return Ok(None) };
        let header = Header::decode(first.body)
            .filter(|header| first.kind == HEADER && header.name() == name)
            .ok_or_else(|| contents.damaged_at(&first, "this is not the file's header"))?;
        let (mut marks, mut newest) = (Vec::new(), header.epoch);
        for frame in frames {
            let frame = frame?;
            match frame.kind {
                RECORD => newest = newest.max(record(&contents, &frame)?.epoch),
                MARK => {
                    let mark = Mark::decode(frame.body)
                        .ok_or_else(|| contents.damaged_at(&frame, "this is no mark"))?;
                    newest = newest.max(mark.epoch);
                    marks.push(mark);
                }
                _ => return Err(contents.damaged_at(&frame, "nobody knows frames of this kind")),
            }
        }
        let batches = contents.batches();
        Ok(Some(Self { header, contents, batches, marks, newest }))
    }

    /// The same without its transactions, which may be many.
    pub(crate) fn without_records(self) -> Self {
        Self { contents: self.contents.emptied(), ..self }
    }

    /// The transactions in it.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let frames = self.contents.frames().filter_map(Result::ok);
        let records = frames.filter(|frame| frame.kind == RECORD);
        records.filter_map(|frame| Record::decode(frame.body).map(|(record, _)| record))
    }
}

fn record<'a>(contents: &FileContents, frame: &Frame<'a>) -> Result<Record<'a>, LogError> {
    let record = Record::decode(frame.body).filter(|(_, length)| *length == frame.body.len());
    record.map(|(record, _)| record).ok_or_else(|| contents.damaged_at(frame, "this is no record"))
}

/// How a session was closed by a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    /// The epoch that was recovered. None of an earlier session counts beyond it.
    pub(crate) durable: u64,
    /// The epoch that the database went on with.
    pub(crate) next: u64,
}

impl Closing {
    fn name(&self) -> String {
        format!("recovered-{:010x}", self.next)
    }

    /// The epoch that the database went on with after the recovery that wrote a file.
    pub(crate) fn parse_name(file: &str) -> Option<u64> {
        u64::from_str_radix(file.strip_prefix("recovered-")?, 16).ok()
    }

    /// Makes it durable.
    pub(crate) fn write(&self, storage: &impl Storage) -> Result<(), LogError> {
        let name = self.name();
        let files = storage.list().during("list the files beside", &name)?;
        if files.contains(&name) {
            // From a recovery after which nobody has begun a log, or that was cut off while it
            // wrote this.
            let contents = FileContents::read(storage, &name)?;
            if contents.batches() > 0 {
                return Ok(());
            }
            storage.remove(&name).during("remove", &name)?;
        }
        let mut file = FileWriter::create(storage, name)?;
        let mut body = [0; 16];
        body[..8].copy_from_slice(&self.durable.to_le_bytes());
        body[8..].copy_from_slice(&self.next.to_le_bytes());
        file.push(CLOSED, &body);
        file.commit(storage, true).map(|_| ())
    }

    /// All that were finished, the earliest first.
    pub(crate) fn read_all(
        storage: &impl Storage,
        files: &[String],
    ) -> Result<Vec<Self>, LogError> {
        let mut closings = Vec::new();
        for file in files.iter().filter(|file| Self::parse_name(file).is_some()) {
            let contents = FileContents::read(storage, file)?;
            let Some(frame) = contents.frames().next().transpose()? else { continue };
            let closing = Self::decode(&frame).filter(|closing| closing.name() == *file);
            let damaged = || contents.damaged_at(&frame, "this is not what a recovery writes");
            closings.push(closing.ok_or_else(damaged)?);
        }
        closings.sort_unstable_by_key(|closing| closing.next);
        Ok(closings)
    }

    fn decode(frame: &Frame<'_>) -> Option<Self> {
        let body: &[u8; 16] = frame.body.try_into().ok()?;
        let (durable, next) = body.split_at(8);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        (frame.kind == CLOSED).then(|| Self { durable: word(durable), next: word(next) })
    }
}

/// Files whose records count, each up to an epoch.
pub(crate) type Counting<'a> = Vec<(&'a LogFile, u64)>;

/// All log files that are there, by session, host and number.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    sessions: BTreeMap<u64, BTreeMap<u8, BTreeMap<u32, LogFile>>>,
}

impl Logs {
    pub(crate) fn new(files: impl IntoIterator<Item = LogFile>) -> Self {
        let mut logs = Self::default();
        for file in files {
            let Header { session, host, number, .. } = file.header;
            let of_host = logs.sessions.entry(session).or_default().entry(host).or_default();
            of_host.insert(number, file);
        }
        logs
    }

    /// The greatest epoch that occurs.
    pub(crate) fn newest(&self) -> u64 {
        self.files().map(|file| file.newest).max().unwrap_or(0)
    }

    fn files(&self) -> impl Iterator<Item = &LogFile> {
        self.sessions.values().flat_map(|hosts| hosts.values().flat_map(|files| files.values()))
    }

    /// Each file that may have changes of an epoch after `checkpoint`, and the greatest of its
    /// epochs that counts; and the epoch that is durable after all.
    pub(crate) fn durable<'a>(
        &'a self,
        checkpoint: u64,
        closings: &[Closing],
    ) -> Result<(Counting<'a>, u64), LogError> {
        let mut files = Counting::new();
        let mut durable = closings.last().map_or(checkpoint, |c| c.durable.max(checkpoint));
        for (&session, hosts) in &self.sessions {
            let closing = closings.iter().find(|closing| closing.next > session);
            let later = self.sessions.range(session + 1..).next().map(|(&later, _)| later);
            let end = closing.map(|closing| closing.next).into_iter().chain(later).min();
            if end.is_some_and(|end| end <= checkpoint + 1) {
                continue;
            }
            if session > checkpoint + 1 && closings.iter().all(|closing| closing.next != session) {
                return Err(LogError::Missing {
                    file: Closing { durable: 0, next: session }.name(),
                    what: format!("there is a log that begins at epoch {session}"),
                });
            }
            let last = match closing {
                Some(closing) => closing.durable,
                // Of several such sessions, the check above refuses the second one.
                None => durable_of(session, hosts, checkpoint)?,
            };
            durable = durable.max(last);
            files.extend(hosts.values().flat_map(BTreeMap::values).map(|file| (file, last)));
        }
        Ok((files, durable))
    }

    /// Names of files without which recovery from a checkpoint of `checkpoint` finds the same, in
    /// an order in which they may be removed.
    pub(crate) fn dispensable(&self, checkpoint: u64, closings: &[Closing]) -> Vec<String> {
        let mut names = Vec::new();
        for (&session, hosts) in &self.sessions {
            let closing = closings.iter().find(|closing| closing.next > session);
            let is_over = closing.is_some_and(|closing| closing.next <= checkpoint + 1);
            for files in hosts.values() {
                for (&number, file) in files {
                    let next = files.get(&(number + 1));
                    let has_left = file.marks.last().is_some_and(|mark| mark.is_last);
                    let is_past = next.map_or(has_left, |next| next.header.epoch <= checkpoint);
                    if is_over || is_past && file.newest <= checkpoint {
                        names.push(file.header.name());
                    } else {
                        // Numbers of what is left follow each other.
                        break;
                    }
                }
            }
        }
        names
    }
}

/// The greatest epoch that is durable in a session that was not closed.
fn durable_of(
    session: u64,
    hosts: &BTreeMap<u8, BTreeMap<u32, LogFile>>,
    checkpoint: u64,
) -> Result<u64, LogError> {
    let (mut open, mut left) = (Vec::new(), Vec::new());
    for files in hosts.values() {
        check_batches(files, checkpoint)?;
        let Some(mark) = last_mark(files) else { continue };
        if mark.is_last { left.push(mark.epoch) } else { open.push(mark.epoch) }
    }
    let durable = open.into_iter().min().or(left.into_iter().max()).unwrap_or(session - 1);
    let marks = || hosts.values().flat_map(BTreeMap::values).flat_map(|file| &file.marks);
    if let Some(known) = marks().map(|mark| mark.known).filter(|&known| known > durable).max() {
        let what = format!("epoch {known} was durable, and the files go up to epoch {durable}");
        return Err(LogError::Missing { file: prefix_of_slowest(session, hosts, durable), what });
    }
    let named =
        marks().filter(|mark| mark.epoch > checkpoint).fold(0, |all, mark| all | mark.hosts);
    let missing = (0..64).find(|host| named >> host & 1 == 1 && !hosts.contains_key(host));
    missing.map_or(Ok(durable), |host| {
        let what = format!("other files say that host {host} had a log");
        Err(LogError::Missing { file: prefix(session, host), what })
    })
}

/// How far a host's log is: the last mark of the logger that began last. A host that was taken for
/// dead may have written more files after that.
fn last_mark(files: &BTreeMap<u32, LogFile>) -> Option<&Mark> {
    let marked = || files.values().filter(|file| !file.marks.is_empty());
    let first = marked().map(|file| file.header.first).max()?;
    marked().rev().find(|file| file.header.first == first).and_then(|file| file.marks.last())
}

/// How the names of the files begin that end too early.
fn prefix_of_slowest(
    session: u64,
    hosts: &BTreeMap<u8, BTreeMap<u32, LogFile>>,
    durable: u64,
) -> String {
    let is_slowest = |files| last_mark(files).map(|mark| mark.epoch) == Some(durable);
    let slowest = hosts.iter().find(|(_, files)| is_slowest(files));
    slowest.map_or_else(|| format!("log-{session:010x}-"), |(&host, _)| prefix(session, host))
}

/// No file of a host lacks batches that it had.
fn check_batches(files: &BTreeMap<u32, LogFile>, checkpoint: u64) -> Result<(), LogError> {
    for (&number, file) in files {
        let Header { first, previous_batches, epoch, .. } = file.header;
        let mut before = files.range(..number).rev().map(|(_, file)| file);
        let previous = before.find(|file| file.header.first == first);
        let found = previous.map_or(0, |file| file.batches);
        if epoch > checkpoint && found < previous_batches {
            let what = format!("it had {previous_batches} batches, and there are {found}");
            let previous = previous.map_or(first, |file| file.header.number);
            let file = Header { number: previous, ..file.header }.name();
            return Err(LogError::Missing { file, what });
        }
    }
    Ok(())
}

/// Log files by their names.
pub(crate) fn log_names(files: &[String]) -> impl Iterator<Item = &String> {
    files.iter().filter(|file| parse_name(file).is_some())
}
