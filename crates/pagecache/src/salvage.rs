//! The remains of files when all hosts of a pod have died: dirty pages, and what hosts were at.
//!
//! Nobody can tell which pages are dirty then, only which were *written* since they were admitted.
//! Such a page holds the bytes that its file is to hold, whether it was written back or not. So all
//! of them are written back. Files end as their heads say, or, where a dead host had a file alone
//! or had made it longer, as the next host would have found it ([`head`](crate::head)).
//!
//! A page that a host was changing when it died is as it was before, if writes are undone.
//! Otherwise it is lost, and as in its file: nobody is there any more who could be told by
//! synchronising the file, so it is counted.
//!
//! Left out: files that were changed by others than hosts since. What pages say counts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use tombolo_memory::Memory;
use tombolo_objects::{CrashRecovery, Orphans};

use crate::backing::Backing;
use crate::below;
use crate::head::{ALL, Head};
use crate::key::Key;
use crate::page::{LENGTH, MARK, PageWriteBack, WORD_BYTES};
use crate::{Error, FileId, sites};

/// The facts of a file.
#[derive(Default)]
struct Remains {
    head: Option<Head>,
    /// Where its last page ends; all of a page that is lost counts.
    end: u64,
    /// Whether there are pages that were written, or a file that was held.
    wanted: bool,
}

impl Remains {
    /// How long the file is to be that has so many bytes below.
    fn size(&self, below: u64) -> u64 {
        let most = match &self.head {
            None => ALL,
            Some(head) if head.is_held() && head.keep != ALL => return head.keep,
            Some(head) if head.is_held() => head.reach,
            Some(head) if head.by.is_some() => head.size,
            Some(head) => return head.size,
        };
        self.end.max(below).min(most)
    }
}

impl<M: Memory, B: Backing> CrashRecovery<M> for PageWriteBack<B> {
    fn recover(&self, orphans: &Orphans<'_, M>) -> Result<(), tombolo_sharing::Error> {
        self.salvage(orphans).map_err(|error| match error {
            Error::Objects(error) => error,
            error => tombolo_sharing::Error::Setup(format!(
                "its hosts have died, and what they had written cannot be brought to its files: {error}"
            )),
        })
    }
}

impl<B: Backing> PageWriteBack<B> {
    fn salvage<M: Memory>(&self, orphans: &Orphans<'_, M>) -> Result<(), Error> {
        let remains = self.look(orphans)?;
        let wanted = remains.iter().filter(|(_, file)| file.wanted).map(|(file, _)| *file);
        let found = self.backing.find(&wanted.collect())?;
        let done = self.bring_back(orphans, &remains, &found);
        // Nobody else uses them.
        found.iter().for_each(|&file| while !self.backing.put_back(file) {});
        done
    }

    fn look<M: Memory>(
        &self,
        orphans: &Orphans<'_, M>,
    ) -> Result<BTreeMap<FileId, Remains>, Error> {
        let mut files = BTreeMap::<FileId, Remains>::new();
        let mut refused = None;
        orphans.visit(|key, value| {
            if key == below::KEY
                && let (Some(own), Some(value)) = (self.backing.below(), value)
            {
                refused = own.check(value).err().or(refused.take());
            }
            let Some(key) = Key::decode(key) else { return Ok(()) };
            let file = files.entry(key.file).or_default();
            let Some(block) = key.block() else {
                file.head = value.and_then(|value| value.first_chunk()).map(Head::decode);
                file.wanted |= file.head.is_some_and(|head| head.is_held());
                return Ok(());
            };
            let (length, written) = match value.and_then(Page::parse) {
                Some(page) => (page.bytes.len() as u64, page.written),
                None => (self.page_bytes, true),
            };
            file.wanted |= written;
            if length > 0 {
                file.end = file.end.max(block * self.page_bytes + length);
            }
            Ok(())
        })?;
        refused.map_or(Ok(files), Err)
    }

    fn bring_back<M: Memory>(
        &self,
        orphans: &Orphans<'_, M>,
        remains: &BTreeMap<FileId, Remains>,
        found: &BTreeSet<FileId>,
    ) -> Result<(), Error> {
        let mut sizes = BTreeMap::new();
        for &file in found {
            orphans.memory().step();
            let below = self.backing.attributes(file)?.size;
            sizes.insert(file, remains[&file].size(below));
        }
        let mut failed = None;
        orphans.visit(|key, value| {
            let Some((file, block)) =
                Key::decode(key).and_then(|key| Some((key.file, key.block()?)))
            else {
                return Ok(());
            };
            let Some(&size) = sizes.get(&file) else { return Ok(()) };
            match value.and_then(Page::parse) {
                Some(page) if page.written => {
                    let outcome = self.bring_page(orphans.memory(), file, block, page.bytes, size);
                    failed = failed.take().or(outcome.err());
                }
                Some(_) => {}
                None => {
                    self.counted.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        sizes.into_iter().try_for_each(|(file, size)| {
            self.end_file(orphans.memory(), file, size, &remains[&file])
        })
    }

    fn bring_page(
        &self,
        memory: &impl Memory,
        file: FileId,
        block: u64,
        bytes: &[u8],
        size: u64,
    ) -> Result<(), Error> {
        let offset = block * self.page_bytes;
        let within = size.saturating_sub(offset).min(bytes.len() as u64) as usize;
        if within > 0 && memory.keeps(sites::SALVAGE_PAGE) {
            memory.step();
            let brought = match self.backing.write(file, offset, &bytes[..within]) {
                // No attempt will do: the pod would never be opened again.
                Err(error) if error.kind() == ErrorKind::FileTooLarge => &self.counted.lost,
                Err(error) => return Err(Error::WriteBack(file, error)),
                Ok(()) => &self.counted.salvaged,
            };
            brought.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn end_file(
        &self,
        memory: &impl Memory,
        file: FileId,
        size: u64,
        remains: &Remains,
    ) -> Result<(), Error> {
        memory.step();
        if memory.keeps(sites::SALVAGE_SIZE) {
            self.backing.resize(file, size)?;
        }
        if let Some(head) = remains.head {
            self.backing.set_modified(file, head.modified)?;
        }
        memory.step();
        Ok(self.backing.sync(file, false)?)
    }
}

/// A page's value.
struct Page<'a> {
    written: bool,
    /// Those that belong to its file.
    bytes: &'a [u8],
}

impl<'a> Page<'a> {
    fn parse(value: &'a [u8]) -> Option<Self> {
        let (word, bytes) = value.split_first_chunk::<{ WORD_BYTES as usize }>()?;
        let word = u64::from_le_bytes(*word);
        let length = (word & LENGTH).min(bytes.len() as u64) as usize;
        Some(Self { written: word & MARK != 0, bytes: &bytes[..length] })
    }
}
