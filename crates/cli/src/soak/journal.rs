//! The operations under way of a host's clients, in a file that outlives the host's process.
//!
//! Each operation is noted before it begins and after it has ended. A written line is there even
//! if the process was killed right after. The file is emptied before the host is told to do
//! something new.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use super::record::{Began, Record};

#[derive(Debug, Serialize, Deserialize)]
enum Entry {
    #[serde(rename = "b")]
    Began(Began),
    #[serde(rename = "d")]
    Did(Record),
}

/// A host's own journal. Shared by its threads.
pub(super) struct Journal(File);

impl Journal {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).open(path);
        Ok(Self(file.with_context(|| format!("cannot open the journal {}", path.display()))?))
    }

    pub(super) fn began(&self, began: Began) -> Result<()> {
        self.add(&Entry::Began(began))
    }

    pub(super) fn did(&self, record: Record) -> Result<()> {
        self.add(&Entry::Did(record))
    }

    /// In one call, so that entries of several threads do not mix.
    fn add(&self, entry: &Entry) -> Result<()> {
        // A line of its own even if the last one is incomplete.
        let mut line = vec![b'\n'];
        serde_json::to_writer(&mut line, entry).context("cannot write JSON")?;
        line.push(b'\n');
        (&self.0).write_all(&line).context("cannot write to the journal")
    }
}

/// The journal of a host, as read by who has started it.
pub(super) struct Reader {
    file: File,
    /// How far it was read.
    at: u64,
    /// The operations that have begun and not ended, by client.
    under_way: BTreeMap<u32, Began>,
}

impl Reader {
    /// A new journal.
    pub(super) fn new() -> Result<Self> {
        let file = memfd_create("journal", MemfdFlags::CLOEXEC).context("cannot make a journal")?;
        Ok(Self { file: file.into(), at: 0, under_way: BTreeMap::new() })
    }

    /// Where processes that this one has started find it.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Empties it: all was read, and the host is at nothing.
    pub(super) fn clear(&mut self) -> Result<()> {
        self.at = 0;
        self.file.set_len(0).context("cannot empty a journal")
    }

    /// Operations that have ended since the last look. The host must stand still; if it was killed,
    /// the last line may be incomplete.
    pub(super) fn read(&mut self, killed: bool) -> Result<Vec<Record>> {
        let length = self.file.metadata().context("cannot look at a journal")?.len();
        let mut bytes = vec![0; length.saturating_sub(self.at) as usize];
        self.file.read_exact_at(&mut bytes, self.at).context("cannot read a journal")?;
        self.at = length;
        let mut records = Vec::new();
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(Entry::Began(began)) => {
                    self.under_way.insert(began.client, began);
                }
                Ok(Entry::Did(record)) => {
                    self.under_way.remove(&record.client);
                    records.push(record);
                }
                Err(_) if killed => {}
                Err(error) => {
                    let line = String::from_utf8_lossy(line).into_owned();
                    return Err(error).with_context(|| format!("a journal says {line:?}"));
                }
            }
        }
        Ok(records)
    }

    /// The operations that have begun and not ended.
    pub(super) fn under_way(&self) -> impl Iterator<Item = Began> {
        self.under_way.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::clock::Times;
    use crate::soak::record::{Attempt, Did};

    fn began(client: u32) -> Began {
        Began { client, key: 5, invoked_at: 7, attempt: Attempt::Delete }
    }

    fn did(client: u32) -> Record {
        let times = Times { invoked_at: 8, responded_at: 9 };
        Record::new(client, 5, times, Did::Delete(true))
    }

    fn clients(began: impl Iterator<Item = Began>) -> Vec<u32> {
        began.map(|began| began.client).collect()
    }

    #[test]
    fn it_tells_what_ended_and_what_is_under_way() {
        let mut reader = Reader::new().unwrap();
        let journal = Journal::open(Path::new(&reader.path())).unwrap();
        for client in 0..3 {
            journal.began(began(client)).unwrap();
        }
        journal.did(did(1)).unwrap();
        assert_eq!(reader.read(false).unwrap().len(), 1);
        assert_eq!(clients(reader.under_way()), [0, 2]);
        journal.did(did(0)).unwrap();
        assert_eq!(reader.read(false).unwrap()[0].client, 0);
        assert!(reader.read(false).unwrap().is_empty());
        reader.clear().unwrap();
        journal.did(did(2)).unwrap();
        assert_eq!(reader.read(false).unwrap()[0].responded_at, 9);
        assert_eq!(clients(reader.under_way()), [0; 0]);
    }

    #[test]
    fn the_last_line_of_who_was_killed_may_be_incomplete() {
        let mut reader = Reader::new().unwrap();
        let journal = Journal::open(Path::new(&reader.path())).unwrap();
        journal.began(began(1)).unwrap();
        (&journal.0).write_all(b"\n{\"d\":{\"c\":1").unwrap();
        journal.began(began(2)).unwrap();
        assert_eq!(reader.read(true).unwrap().len(), 0);
        assert_eq!(clients(reader.under_way()), [1, 2]);
        reader.at = 0;
        assert!(reader.read(false).is_err());
    }
}
