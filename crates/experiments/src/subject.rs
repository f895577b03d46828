//! The contents of a pod in virtual time: objects under some scheme, or pages of a file.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tombolo_baselines::{HcMeta, Pace};
use tombolo_memory::Memory;
use tombolo_objects::Objects;
use tombolo_pagecache::{
    Attributes, Backing, Counts, FileId, Options, OptionsOf, PAGE_BYTES, PageCache, Pages,
};
use tombolo_pod::Pod;
use tombolo_sharing::{Guarded, Scheme, Stats, Usage, hash_key};
use tombolo_timing::TimedMemory;

use crate::drive::Target;
use crate::target;

/// One host's part of it.
pub(crate) trait Subject: Target + Sized + 'static {
    /// How a host takes part.
    type Options: Clone + 'static;

    /// Whether there is something to tidy.
    const TIDIES: bool;

    fn join(pod: Pod<TimedMemory>, options: Self::Options, file: Arc<Blank>) -> Result<Self>;

    fn memory(&self) -> &TimedMemory;

    fn tick(&self) -> Result<()>;

    /// Background work that may take longer.
    fn tidy(&self) -> Result<()> {
        Ok(())
    }

    /// Does the work that a load leaves behind.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Does what this host is asked for.
    fn serve(&self) -> Result<()>;

    /// Owners answer so fast.
    fn pace_owners(&self, pace: Pace);

    fn stats(&self) -> Stats;

    fn usage(&self) -> Usage;

    /// The counters of the page cache.
    fn pages(&self) -> Counts {
        Counts::default()
    }

    /// Which of `hosts` an object belongs to, as far as that is known.
    fn owner(&self, key: &[u8], hosts: u32) -> u32;
}

/// The needs of a lab, besides sharing objects.
pub(crate) trait Experimental: Guarded<Memory = TimedMemory> + 'static {
    fn pace_owners(&self, _: Pace) {}

    fn owner(&self, key: &[u8], hosts: u32) -> u32 {
        hash_key(self.pod(), key).map_or(0, |hash| (hash >> 32) as u32 % hosts)
    }
}

impl Experimental for Objects<TimedMemory> {}

impl Experimental for HcMeta<TimedMemory> {
    fn pace_owners(&self, pace: Pace) {
        self.set_pace(pace);
    }

    fn owner(&self, key: &[u8], _: u32) -> u32 {
        HcMeta::owner(self, key).map_or(0, u32::from)
    }
}

/// Objects, as they are.
pub(crate) type Plain<S> = target::Objects<Box<S>>;

impl<S: Experimental> Subject for Plain<S> {
    type Options = S::Options;

    const TIDIES: bool = false;

    fn join(pod: Pod<TimedMemory>, options: S::Options, _: Arc<Blank>) -> Result<Self> {
        Ok(target::Objects(Box::new(S::join(pod, options)?)))
    }

    fn memory(&self) -> &TimedMemory {
        self.0.memory()
    }

    fn tick(&self) -> Result<()> {
        Ok(self.0.tick()?)
    }

    fn serve(&self) -> Result<()> {
        Ok(self.0.meanwhile()?)
    }

    fn pace_owners(&self, pace: Pace) {
        self.0.pace_owners(pace);
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn usage(&self) -> Usage {
        self.0.usage()
    }

    fn owner(&self, key: &[u8], hosts: u32) -> u32 {
        self.0.owner(key, hosts)
    }
}

/// A file of zeros that takes no time to read or write, so the page cache alone is measured.
pub(crate) struct Blank {
    size: u64,
}

impl Blank {
    const FILE: FileId = FileId { inode: 1, born: 0 };

    pub(crate) fn new(pages: u64) -> Self {
        Self { size: pages * PAGE_BYTES }
    }
}

impl Backing for Blank {
    fn knows(&self, _: FileId) -> bool {
        true
    }

    fn find(&self, files: &BTreeSet<FileId>) -> io::Result<BTreeSet<FileId>> {
        Ok(files.clone())
    }

    fn put_back(&self, _: FileId) -> bool {
        true
    }

    fn attributes(&self, _: FileId) -> io::Result<Attributes> {
        Ok(Attributes { size: self.size, modified: 0 })
    }

    fn read(&self, _: FileId, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.size.saturating_sub(offset).min(into.len() as u64) as usize;
        into[..bytes].fill(0);
        Ok(bytes)
    }

    fn write(&self, _: FileId, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn resize(&self, _: FileId, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn set_modified(&self, _: FileId, _: i64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self, _: FileId, _: bool) -> io::Result<()> {
        Ok(())
    }
}

/// The pages of one file.
pub(crate) struct Paged<P: Pages>(PageCache<P, Blank>);

impl<P: Pages<Scheme: Experimental>> Paged<P> {
    fn objects(&self) -> &P::Scheme {
        self.0.objects()
    }

    fn read_page(&self, key: &[u8], page: &mut Vec<u8>) -> Result<()> {
        page.resize(PAGE_BYTES as usize, 0);
        let offset = offset_of(key)?;
        let read = self.0.read(Blank::FILE, offset, page)?;
        ensure!(read == page.len(), "the page at {offset} ends after {read} bytes");
        Ok(())
    }
}

/// Where the page lies in the file whose number ends a key.
fn offset_of(key: &[u8]) -> Result<u64> {
    let letters = key.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |last| last + 1);
    let digits = std::str::from_utf8(&key[letters..])?;
    let number: u64 = digits.parse().with_context(|| format!("{digits:?} is no page's number"))?;
    Ok(number * PAGE_BYTES)
}

impl<P: Pages<Scheme: Experimental>> Target for Paged<P> {
    fn uptime(&self) -> Duration {
        self.memory().uptime()
    }

    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.read_page(key, value)?;
        Ok(true)
    }

    fn create(&self, key: &[u8], _: &[u8]) -> Result<()> {
        self.read_page(key, &mut Vec::new())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.write(Blank::FILE, offset_of(key)?, value)?)
    }

    fn put_part(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<bool> {
        self.0.write(Blank::FILE, offset_of(key)? + offset, bytes)?;
        Ok(true)
    }
}

impl<P: Pages<Scheme: Experimental>> Subject for Paged<P> {
    type Options = Options<OptionsOf<P>>;

    const TIDIES: bool = true;

    fn join(pod: Pod<TimedMemory>, options: Self::Options, file: Arc<Blank>) -> Result<Self> {
        Ok(Self(PageCache::join(pod, file, options)?))
    }

    fn memory(&self) -> &TimedMemory {
        self.objects().memory()
    }

    fn tick(&self) -> Result<()> {
        Ok(self.0.tick()?)
    }

    fn tidy(&self) -> Result<()> {
        Ok(self.0.tidy()?)
    }

    fn settle(&self) -> Result<()> {
        Ok(self.0.write_back_all(&mut |_| ())?)
    }

    fn serve(&self) -> Result<()> {
        Ok(self.objects().meanwhile()?)
    }

    fn pace_owners(&self, pace: Pace) {
        self.objects().pace_owners(pace);
    }

    fn stats(&self) -> Stats {
        self.objects().stats()
    }

    fn usage(&self) -> Usage {
        self.objects().usage()
    }

    fn pages(&self) -> Counts {
        self.0.counts()
    }

    fn owner(&self, _: &[u8], _: u32) -> u32 {
        0
    }
}
