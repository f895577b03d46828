//! Files of which the kernel keeps pages: for mappings, and on kernels before it reads past them
//! there, for `sendfile` and `splice`.
//!
//! The kernel asks once for a page that it keeps, and never whether the page is still right. So
//! this host looks every millisecond whether such a file was written, on any host, and has the
//! kernel forget the file's pages then. A request for pages to be kept has no owner of locks; a
//! `read` has one.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use fuser::{INodeNo, Notifier};
use parking_lot::Mutex;
use tombolo_pagecache::{Error, FileId, Stamp};

use crate::shared::Cache;

/// A look at all these files takes this part of the time, at most.
const SHARE: u32 = 20;

#[derive(Clone, Copy)]
struct Seen {
    file: FileId,
    /// As of before the first page was read.
    stamp: Option<Stamp>,
}

/// The files of which the kernel may keep pages.
#[derive(Default)]
pub(crate) struct Kept(Mutex<HashMap<u64, Seen>>);

impl Kept {
    /// The kernel is about to be given pages of a file, to be kept.
    ///
    /// # Errors
    /// Those of [`PageCache::stamp`](tombolo_pagecache::PageCache::stamp).
    pub(crate) fn note(&self, cache: &Cache, number: INodeNo, file: FileId) -> Result<(), Error> {
        let stamp = cache.stamp(file)?;
        self.0.lock().entry(number.0).or_insert(Seen { file, stamp });
        Ok(())
    }

    /// Has the kernel forget pages of files that may have been written since it was given them. To
    /// be called every millisecond, by one thread: the kernel may wait for other requests to be
    /// answered.
    ///
    /// # Errors
    /// Those of [`PageCache::stamp`](tombolo_pagecache::PageCache::stamp).
    pub(crate) fn look(&self, cache: &Cache, kernel: &Notifier) -> Result<(), Error> {
        let started = Instant::now();
        let all: Vec<_> = self.0.lock().iter().map(|(number, seen)| (*number, *seen)).collect();
        for (number, seen) in all {
            let in_use = cache.backing().is_used(seen.file);
            if in_use && !cache.may_differ(seen.file, seen.stamp)? {
                continue;
            }
            // Pages that are asked for from here on are noted anew.
            self.0.lock().remove(&number);
            if in_use {
                // It fails only where the kernel has let go of the file, or of the mount.
                let _ = kernel.inval_inode(INodeNo(number), 0, 0);
            }
        }
        thread::sleep(started.elapsed().saturating_mul(SHARE).min(MOST));
        Ok(())
    }
}

/// How long nobody looks after a long look, at most.
const MOST: Duration = Duration::from_millis(100);
