//! A simulated disk with a volatile cache.
//!
//! A write since a file was synchronised may be on the disk when power is cut, or not: any
//! subset of the writes, in units of a page. The disk knows which contents each page may have then,
//! and which of them break what clients were promised: it looks at all of them whenever something
//! changes.
//!
//! Left out: pages that are written in part, errors.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tombolo_pagecache::{Attributes, Backing, Below, Fate, FileId, Handle, NO_HANDLE};

/// Bytes of a page: too many for it to be undone where only heads are.
pub(crate) const PAGE: u64 = 80;
/// Bytes of the pieces that are written whole.
pub(crate) const UNIT: u64 = 16;

/// A moment, in changes and promises.
pub(crate) type Time = u64;

/// A write of a page by a client.
struct Write {
    tag: u64,
    began: Time,
    returned: Option<Time>,
}

#[derive(Default)]
struct Page {
    writes: Vec<Write>,
    /// The contents that the page may have when power is cut, by the tag it begins with: the first
    /// is durable.
    possible: Vec<u64>,
}

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    modified: i64,
    pages: BTreeMap<u64, Page>,
    /// Everything that was written before is promised to be durable.
    promised: Time,
}

#[derive(Default)]
struct State {
    files: BTreeMap<FileId, File>,
    /// Files without a name, and whether anybody has them open.
    nameless: BTreeMap<FileId, bool>,
    now: Time,
}

/// A host's view of the disk: all files are at hand but those that it has put away.
pub(crate) struct Desk {
    disk: Arc<Disk>,
    away: Mutex<BTreeSet<FileId>>,
    /// Files that are at hand only until they are put back.
    found: Mutex<BTreeSet<FileId>>,
    below: Option<Below>,
}

impl Desk {
    pub(crate) fn new(disk: &Arc<Disk>) -> Self {
        Self {
            disk: Arc::clone(disk),
            away: Mutex::default(),
            found: Mutex::default(),
            below: None,
        }
    }

    /// One whose files are in this directory.
    pub(crate) fn in_folder(disk: &Arc<Disk>, inode: u64) -> Self {
        let below = Below { id: FileId { inode, born: 1 }, path: inode.to_string() };
        Self { below: Some(below), ..Self::new(disk) }
    }

    fn away(&self) -> MutexGuard<'_, BTreeSet<FileId>> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self) -> MutexGuard<'_, BTreeSet<FileId>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file is not at hand any more.
    pub(crate) fn put_away(&self, file: FileId) {
        self.away().insert(file);
    }

    /// A file is at hand again.
    pub(crate) fn get(&self, file: FileId) {
        self.away().remove(&file);
    }

    fn at_hand(&self, file: FileId) -> &Disk {
        assert!(self.knows(file), "nobody uses a file that is not at hand");
        &self.disk
    }
}

/// The files of all hosts. It is never touched while a thread of the simulation is switched.
#[derive(Default)]
pub(crate) struct Disk(Mutex<State>);

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, file: FileId, change: impl FnOnce(&mut File, Time) -> T) -> T {
        let mut state = self.state();
        state.now += 1;
        let now = state.now;
        let file = state.files.entry(file).or_default();
        let done = change(file, now);
        file.check();
        done
    }

    pub(crate) fn now(&self) -> Time {
        let mut state = self.state();
        state.now += 1;
        state.now
    }

    /// The contents of a file as long as there is power.
    pub(crate) fn contents(&self, file: FileId) -> Vec<u8> {
        self.change(file, |file, _| file.bytes.clone())
    }

    /// A file has no name from now on; whether anybody has it open.
    pub(crate) fn unlink(&self, file: FileId, is_open: bool) {
        self.state().nameless.insert(file, is_open);
    }

    /// A client begins to write a page.
    pub(crate) fn expect(&self, file: FileId, page: u64, tag: u64) {
        self.change(file, |file, began| {
            file.page(page).writes.push(Write { tag, began, returned: None });
        });
    }

    /// The client was told that it is written.
    pub(crate) fn expected(&self, file: FileId, page: u64, tag: u64) {
        self.change(file, |file, now| {
            let mut writes = file.page(page).writes.iter_mut();
            if let Some(write) = writes.find(|write| write.tag == tag) {
                write.returned = Some(now);
            }
        });
    }

    /// A client that began to synchronise at `since` was told that it is done.
    pub(crate) fn promised(&self, file: FileId, since: Time) {
        self.change(file, |file, _| file.promised = file.promised.max(since));
    }
}

impl File {
    fn page(&mut self, number: u64) -> &mut Page {
        self.pages.entry(number).or_insert_with(|| Page { possible: vec![0], ..Page::default() })
    }

    fn tag(&self, page: u64) -> u64 {
        let bytes = self.bytes.get((page * PAGE) as usize..).unwrap_or(&[]);
        bytes.first_chunk().map_or(0, |tag| u64::from_le_bytes(*tag))
    }

    /// Whichever part of the disk's cache is left, no page holds bytes that were overwritten before
    /// a promise.
    fn check(&self) {
        for (number, page) in &self.pages {
            let kept = page
                .writes
                .iter()
                .filter(|write| write.returned.is_some_and(|returned| returned < self.promised));
            for write in kept {
                for tag in &page.possible {
                    let by = page.writes.iter().find(|write| write.tag == *tag);
                    let over = by.map_or(Some(0), |by| by.returned);
                    assert!(
                        over.is_none_or(|over| over >= write.began),
                        "a power cut leaves page {number} with {tag} and not {}, which was to be durable",
                        write.tag
                    );
                }
            }
        }
    }
}

impl Backing for Desk {
    fn knows(&self, file: FileId) -> bool {
        !self.away().contains(&file)
    }

    fn find(&self, files: &BTreeSet<FileId>) -> io::Result<BTreeSet<FileId>> {
        let nameless = self.disk.state().nameless.clone();
        let named = files.iter().copied().filter(|file| !nameless.contains_key(file));
        let (named, mut away): (BTreeSet<_>, _) = (named.collect(), self.away());
        self.found().extend(named.iter().filter(|file| away.remove(file)));
        Ok(named)
    }

    fn below(&self) -> Option<Below> {
        self.below.clone()
    }

    fn handle(&self, file: FileId) -> io::Result<Handle> {
        let mut handle = NO_HANDLE;
        handle[..8].copy_from_slice(&file.inode.to_le_bytes());
        handle[8..16].copy_from_slice(&file.born.to_le_bytes());
        Ok(handle)
    }

    fn fate(&self, handle: &Handle) -> Fate {
        let word = |at: usize| {
            handle[at..].first_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_le_bytes(*bytes))
        };
        let file = FileId { inode: word(0), born: word(8) };
        match self.disk.state().nameless.get(&file) {
            Some(false) => Fate::Gone,
            _ => Fate::There,
        }
    }

    fn put_back(&self, file: FileId) -> bool {
        if self.found().remove(&file) {
            self.put_away(file);
        }
        true
    }

    fn attributes(&self, file: FileId) -> io::Result<Attributes> {
        Ok(self.at_hand(file).change(file, |file, _| Attributes {
            size: file.bytes.len() as u64,
            modified: file.modified,
        }))
    }

    fn read(&self, file: FileId, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.at_hand(file).change(file, |file, _| {
            let from = file.bytes.get(offset as usize..).unwrap_or(&[]);
            let length = from.len().min(into.len());
            into[..length].copy_from_slice(&from[..length]);
            length
        }))
    }

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.at_hand(file).change(file, |file, _| {
            let end = offset as usize + bytes.len();
            let length = file.bytes.len().max(end);
            file.bytes.resize(length, 0);
            file.bytes[offset as usize..end].copy_from_slice(bytes);
            let tag = file.tag(offset / PAGE);
            file.page(offset / PAGE).possible.push(tag);
        });
        Ok(())
    }

    fn resize(&self, file: FileId, size: u64) -> io::Result<()> {
        self.at_hand(file).change(file, |file, _| file.bytes.resize(size as usize, 0));
        Ok(())
    }

    fn set_modified(&self, file: FileId, modified: i64) -> io::Result<()> {
        self.at_hand(file).change(file, |file, _| file.modified = modified);
        Ok(())
    }

    fn sync(&self, file: FileId, _: bool) -> io::Result<()> {
        self.at_hand(file).change(file, |file, _| {
            let numbers: Vec<u64> = file.pages.keys().copied().collect();
            for number in numbers {
                let tag = file.tag(number);
                file.page(number).possible = vec![tag];
            }
        });
        Ok(())
    }
}
