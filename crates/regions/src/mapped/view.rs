//! A process's mappings of a region's pages.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};

use tombolo_memory::paging::{Behind, SharedPages, Touch};

use crate::{Mode, Touched, View};

/// The accesses for which a page is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Nothing,
    Read,
    Write,
}

/// Touches that the kernel has told of, and nobody has taken yet.
#[derive(Default)]
struct Inbox {
    touches: Mutex<Vec<Touch>>,
    stops: AtomicBool,
}

/// A process's mappings of the pages of a region.
pub(super) struct MappedView {
    pages: Arc<SharedPages>,
    rights: Vec<Right>,
    behind: Vec<Behind>,
    block_pages: usize,
    inbox: Arc<Inbox>,
    reader: Option<JoinHandle<()>>,
}

/// The result of a call that the kernel must not refuse: there is no way on without it.
fn must<R>(doing: &str, page: usize, done: io::Result<R>) -> R {
    done.unwrap_or_else(|reason| panic!("cannot {doing} page {page} of a region: {reason}"))
}

/// A page that has no file behind it that can be shared.
fn behind(mode: Mode) -> Behind {
    if mode == Mode::Replicated { Behind::Replica } else { Behind::Shared }
}

impl MappedView {
    /// Takes touches of `pages`, and wakes `worker` when there are any.
    pub(super) fn new(pages: Arc<SharedPages>, block_pages: usize, worker: Thread) -> Self {
        let inbox = Arc::new(Inbox::default());
        let (told, source) = (Arc::clone(&inbox), Arc::clone(&pages));
        let reader = thread::Builder::new()
            .name("region touches".to_owned())
            .spawn(move || read_touches(&source, &told, &worker))
            .unwrap_or_else(|reason| panic!("cannot start a thread: {reason}"));
        let count = pages.pages();
        Self {
            pages,
            rights: vec![Right::Nothing; count],
            behind: vec![Behind::Replica; count],
            block_pages,
            inbox,
            reader: Some(reader),
        }
    }

    /// Whether the pod's own pages can be put behind these.
    pub(super) fn can_share(&self) -> bool {
        let put = |behind| self.pages.put_behind(0..1, behind);
        put(Behind::Shared).and_then(|()| put(Behind::Replica)).is_ok()
    }

    /// Puts behind pages what their mode says. Other absent pages of the block go along, since a
    /// block seldom has two modes.
    fn put_behind(&mut self, pages: Range<usize>, mode: Mode) {
        let wanted = behind(mode);
        if pages.clone().all(|page| self.behind[page] == wanted) {
            return;
        }
        let block = pages.start / self.block_pages * self.block_pages;
        let last = (block + self.block_pages).min(self.rights.len());
        let free = |page: usize| self.rights[page] == Right::Nothing;
        let mut start = pages.start;
        while start > block && free(start - 1) && self.behind[start - 1] != wanted {
            start -= 1;
        }
        let mut end = pages.end;
        while end < last && free(end) && self.behind[end] != wanted {
            end += 1;
        }
        must("change what is behind", start, self.pages.put_behind(start..end, wanted));
        self.behind[start..end].fill(wanted);
    }
}

impl View for MappedView {
    fn map(&mut self, pages: Range<usize>, mode: Mode, writes: bool) {
        self.put_behind(pages.clone(), mode);
        for page in pages {
            must("map", page, self.pages.map(page, writes));
            let right = if writes { Right::Write } else { Right::Read };
            if self.rights[page] != Right::Write {
                self.rights[page] = right;
            }
        }
    }

    fn protect(&mut self, page: usize) {
        must("protect", page, self.pages.protect(page));
        self.rights[page] = Right::Read;
    }

    fn unmap(&mut self, pages: Range<usize>, mode: Mode) {
        let wanted = behind(mode);
        let mut start = pages.start;
        for page in pages.clone().chain([pages.end]) {
            let is_mapped = page < pages.end
                && self.rights[page] != Right::Nothing
                && self.behind[page] == wanted;
            if is_mapped {
                self.rights[page] = Right::Nothing;
                continue;
            }
            if start < page {
                must("unmap", start, self.pages.unmap(start..page));
            }
            start = page + 1;
        }
    }

    fn lose(&mut self, page: usize) {
        must("give up", page, self.pages.poison(page));
    }

    fn read_replica(&mut self, page: usize, into: &mut [u8]) {
        self.pages.read_replica(page, into);
    }

    fn write_replica(&mut self, page: usize, bytes: &[u8]) {
        self.pages.write_replica(page, bytes);
    }

    fn touched(&mut self, touches: &mut Vec<Touched>) {
        let mut inbox = self.inbox.touches.lock().unwrap_or_else(PoisonError::into_inner);
        let as_told = |touch: Touch| Touched { page: touch.page, writes: touch.writes };
        touches.extend(inbox.drain(..).map(as_told));
    }
}

impl Drop for MappedView {
    fn drop(&mut self) {
        self.inbox.stops.store(true, Ordering::Release);
        self.pages.ring();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn read_touches(pages: &SharedPages, inbox: &Inbox, worker: &Thread) {
    let mut touches = Vec::new();
    while !inbox.stops.load(Ordering::Acquire) {
        must("read touches of", 0, pages.wait(&mut touches));
        if !touches.is_empty() {
            let mut told = inbox.touches.lock().unwrap_or_else(PoisonError::into_inner);
            told.append(&mut touches);
            drop(told);
            worker.unpark();
        }
    }
}
