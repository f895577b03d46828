//! Which pages of which file this host has made dirty, so that writing a file back costs what is
//! dirty of it.
//!
//! A file's head has a bit for each seat: the host there may have made pages of the file dirty.
//! While no other host's bit is set, this host's own list has all of them.
//!
//! * A host sets its bit under a page's lock, before it marks the page. The page is on the host's
//!   list before the write returns.
//! * A page leaves the list once it was found clean after its last write.
//! * A host takes its bit back under the head's lock, while its list of the file is empty and no
//!   thread of it is amid a write. A thread that begins later reads the head afterwards, and finds
//!   no bit.
//! * A bit that a host has not set itself is of the host that had its seat before.
//!
//! Only where all dirty pages can be found ([`Pages::reach`]) are there bits. Left out: bits of
//! hosts that died. They stay, and others look for dirty pages everywhere, as before.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_memory::{HostMutex, Memory};

use crate::cache::{Backing, PageCache};
use crate::head::Head;
use crate::key::Key;
use crate::pages::Pages;
use crate::{Error, FileId, sites};

/// What this host has made dirty.
pub(crate) struct Dirtied<M: Memory>(HostMutex<M, Files>);

#[derive(Default)]
struct Files {
    of: BTreeMap<FileId, Own>,
    /// The number of the last write.
    last: u64,
}

#[derive(Default)]
struct Own {
    /// Threads that are amid a write.
    writers: u64,
    /// Numbers of pages, each with that of its last write.
    pages: BTreeMap<u64, u64>,
    /// Whether the bit in the head is this host's own.
    has_bit: bool,
}

impl Own {
    fn is_idle(&self) -> bool {
        self.writers == 0 && self.pages.is_empty()
    }
}

/// A page on the list, as of a write.
#[derive(Clone, Copy)]
pub(crate) struct Listed {
    pub(crate) key: Key,
    write: u64,
}

/// A thread is amid a write to a page until this is dropped.
pub(crate) struct Writing<'a, M: Memory> {
    dirtied: &'a Dirtied<M>,
    file: FileId,
    block: u64,
}

impl<M: Memory> Drop for Writing<'_, M> {
    fn drop(&mut self) {
        let mut files = self.dirtied.0.lock();
        files.last += 1;
        let write = files.last;
        let own = files.of.entry(self.file).or_default();
        own.writers -= 1;
        own.pages.insert(self.block, write);
    }
}

impl<M: Memory> Dirtied<M> {
    pub(crate) fn new() -> Self {
        Self(HostMutex::<M, _>::new(Files::default()))
    }

    pub(crate) fn begin(&self, file: FileId, block: u64) -> Writing<'_, M> {
        self.0.lock().of.entry(file).or_default().writers += 1;
        Writing { dirtied: self, file, block }
    }

    /// The bit in the head of a file is this host's own from now on.
    pub(crate) fn own_bit(&self, file: FileId) {
        self.0.lock().of.entry(file).or_default().has_bit = true;
    }

    fn has_bit(&self, file: FileId) -> bool {
        self.0.lock().of.get(&file).is_some_and(|own| own.has_bit)
    }

    fn is_idle(&self, file: FileId) -> bool {
        self.0.lock().of.get(&file).is_some_and(|own| own.has_bit && own.is_idle())
    }

    /// Gives the bit of an idle file up; whether it is idle.
    fn give_up_bit(&self, file: FileId) -> bool {
        let mut files = self.0.lock();
        let idle = files.of.get(&file).is_some_and(|own| own.has_bit && own.is_idle());
        if idle {
            files.of.remove(&file);
        }
        idle
    }

    /// The list of a file.
    pub(crate) fn of(&self, file: FileId) -> Vec<Listed> {
        let files = self.0.lock();
        let listed = |(&block, &write): (&u64, &u64)| Listed { key: Key::page(file, block), write };
        files.of.get(&file).map_or_else(Vec::new, |own| own.pages.iter().map(listed).collect())
    }

    /// All lists.
    pub(crate) fn all(&self) -> Vec<Listed> {
        let files: Vec<FileId> = self.0.lock().of.keys().copied().collect();
        files.into_iter().flat_map(|file| self.of(file)).collect()
    }

    /// The files whose bits this host can take back. Nothing more is remembered of those of which
    /// it has none.
    fn idle(&self) -> Vec<FileId> {
        let mut files = self.0.lock();
        files.of.retain(|_, own| own.has_bit || !own.is_idle());
        files.of.iter().filter(|(_, own)| own.is_idle()).map(|(file, _)| *file).collect()
    }

    /// A page was found clean after it came to be on the list like this.
    pub(crate) fn is_clean(&self, listed: Listed) {
        let (mut files, block) = (self.0.lock(), listed.key.block());
        if let (Some(own), Some(block)) = (files.of.get_mut(&listed.key.file), block)
            && own.pages.get(&block) == Some(&listed.write)
        {
            own.pages.remove(&block);
        }
    }

    /// Everything of a file is gone.
    pub(crate) fn forget(&self, file: FileId) {
        if let Some(own) = self.0.lock().of.get_mut(&file) {
            *own = Own { writers: own.writers, ..Own::default() };
        }
    }
}

impl<P: Pages, B: Backing> PageCache<P, B> {
    /// This host's bit in heads; none where dirty pages are known otherwise.
    pub(crate) fn bit(&self) -> u64 {
        self.pages.reach().map_or(0, |_| 1 << self.seat())
    }

    /// Nothing of a file is dirty but what this host's list has. So its bit, if there is one, is of
    /// none before it.
    pub(crate) fn claim_bit(&self, file: FileId) {
        if self.bit() != 0 {
            self.dirtied.own_bit(file);
        }
    }

    /// Whether this host's list has all dirty pages of a file with this head.
    pub(crate) fn lists_all(&self, file: FileId, head: &Head) -> bool {
        let (memory, bit) = (self.memory(), self.bit());
        let alone = memory.check(sites::SYNC_OTHERS, head.dirtied & !bit == 0);
        let own = head.dirtied & bit == 0 || self.dirtied.has_bit(file);
        bit != 0 && alone && memory.check(sites::SYNC_INHERITED, own)
    }

    /// Writes back the pages of a file that are on this host's list.
    pub(crate) fn write_back_listed(&self, file: FileId) -> Result<(), Error> {
        for listed in self.dirtied.of(file) {
            self.write_back_pages([listed.key])?;
            self.dirtied.is_clean(listed);
        }
        Ok(())
    }

    /// Takes from this host's list of a file what is clean, as far as that takes no waiting.
    pub(crate) fn end_list(&self, file: FileId) -> Result<(), Error> {
        for listed in self.dirtied.of(file) {
            match self.pages.try_write_dirty(listed.key) {
                Ok(Some(None)) => self.dirtied.is_clean(listed),
                Err(error) if error.is_loss() => self.dirtied.is_clean(listed),
                page => drop(page?),
            }
        }
        Ok(())
    }

    /// Takes from this host's lists what `dirty` does not show, which was looked for after they
    /// were taken; and its bit back from files of which nothing is left.
    pub(crate) fn end_lists(&self, lists: &[Listed], dirty: &BTreeSet<Key>) -> Result<(), Error> {
        for &listed in lists.iter().filter(|listed| !dirty.contains(&listed.key)) {
            self.dirtied.is_clean(listed);
        }
        self.dirtied.idle().into_iter().try_for_each(|file| self.take_bit_back(file))
    }

    /// Has the head of a file say no more that this host may have made pages dirty, if it has none.
    pub(crate) fn take_bit_back(&self, file: FileId) -> Result<(), Error> {
        if !self.memory().check(sites::DIRTIED_IDLE, self.dirtied.is_idle(file)) {
            return Ok(());
        }
        let bit = self.bit();
        self.change_head(file, |head| {
            let idle = !head.is_held() && {
                let idle = self.dirtied.give_up_bit(file);
                self.memory().check(sites::DIRTIED_IDLE, idle)
            };
            let dirtied = head.dirtied & !bit;
            (idle && dirtied != head.dirtied).then_some(Head { dirtied, ..head })
        })
    }
}
