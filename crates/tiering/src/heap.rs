//! A heap whose pages move between tiers at unchanged addresses.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use tombolo_memory::paging::{FaultsError, page_bytes, spawn_apart};
use tombolo_placement::Place;

use crate::area::{Area, Kernel};
use crate::finder::Finder;
use crate::page::Flags;
use crate::server::Server;
use crate::shared::Shared;
use crate::worker::{Job, Worker, bring_all_back};
use crate::{Options, Report, Stats, TieringError, fork};

/// Where a block's pages are to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Near, and not demoted.
    Near,
    /// Far, and not promoted.
    Far,
    /// Near while there is room; then as the policy says.
    #[default]
    Auto,
}

/// A heap of pages in two tiers. Its blocks stay at their addresses, whichever tier a page is in.
///
/// Two threads belong to it: one serves page faults, one moves pages. They end with the heap and
/// its last block. In a child of `fork()` blocks are ordinary memory.
#[derive(Debug)]
pub struct TieredHeap {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    area: Arc<Area>,
    free: Mutex<BTreeMap<usize, usize>>,
    jobs: Sender<Job>,
    server: Mutex<Option<JoinHandle<()>>>,
}

impl TieredHeap {
    /// Reserves addresses for so many bytes, and starts the heap's threads. No memory is taken
    /// before it is touched.
    ///
    /// # Errors
    /// A sentence for what the kernel or the process' rights lack, and what to do.
    pub fn reserve(bytes: usize, options: Options) -> Result<Self, TieringError> {
        let pages = bytes.div_ceil(page_bytes()).max(1);
        let area = Area::reserve(pages)?;
        let shared = Arc::new(Shared::new(options, Some(area)));
        let (jobs, receiver) = mpsc::channel();
        let server = start(shared.clone(), receiver, None)?;
        fork::watch(Arc::downgrade(&shared), jobs.clone());
        let area = shared.area(0);
        let free = Mutex::new(BTreeMap::from([(0, pages)]));
        let server = Mutex::new(Some(server));
        Ok(Self { inner: Arc::new(Inner { shared, area, free, jobs, server }) })
    }

    /// Takes a block of at least so many bytes, of zeros, in whole pages.
    ///
    /// # Errors
    /// [`TieringError::Full`] if no free range is as large.
    pub fn allocate(&self, bytes: usize, hint: Hint) -> Result<Block, TieringError> {
        let inner = &self.inner;
        let pages = bytes.div_ceil(page_bytes()).max(1);
        let start = inner.take(pages).ok_or(TieringError::Full { asked: bytes })?;
        let block = Block { inner: inner.clone(), pages: start..start + pages };
        let shared = &inner.shared;
        let room = shared.near_limit().saturating_sub(shared.near_pages());
        let is_near = match hint {
            Hint::Near => true,
            Hint::Far => false,
            Hint::Auto => pages as u64 <= room,
        };
        block.set_tier(is_near)?;
        block.hold(block.pages.clone(), hint);
        Ok(block)
    }

    /// Gives up to so many bytes of shadows up, and returns how many bytes that were. It waits for
    /// the thread that moves pages.
    ///
    /// # Errors
    /// [`TieringError::Forked`], [`TieringError::Stopped`].
    pub fn reclaim(&self, bytes: usize) -> Result<usize, TieringError> {
        let pages = bytes.div_ceil(page_bytes());
        Ok(self.inner.ask(|reply| Job::Reclaim { pages, reply })? * page_bytes())
    }

    /// Looks now whether pages with a shadow were written, and gives those shadows up. It waits for
    /// the thread that moves pages, which does the same ten times in a second.
    ///
    /// # Errors
    /// As [`reclaim`](Self::reclaim).
    pub fn sweep(&self) -> Result<(), TieringError> {
        self.inner.ask(|reply| Job::Sweep { reply })
    }

    /// The counters so far, and where pages are now. It does not block.
    pub fn stats(&self) -> Stats {
        self.inner.shared.stats()
    }

    /// Makes the thread that serves faults fail, as a fault in its code would: pages are brought
    /// back, and the program goes on without tiers.
    #[doc(hidden)]
    pub fn fail_for_test(&self) {
        self.inner.shared.fails.store(true, Ordering::Release);
    }
}

impl Inner {
    /// The first free range of so many pages.
    fn take(&self, pages: usize) -> Option<usize> {
        let mut free = self.free.lock();
        let (&start, &length) = free.iter().find(|&(_, &length)| length >= pages)?;
        free.remove(&start);
        if length > pages {
            free.insert(start + pages, length - pages);
        }
        Some(start)
    }

    fn give_back(&self, pages: &Range<usize>) {
        let mut free = self.free.lock();
        let (mut start, mut length) = (pages.start, pages.len());
        if let Some((&before, &bytes)) = free.range(..start).next_back()
            && before + bytes == start
        {
            free.remove(&before);
            (start, length) = (before, bytes + length);
        }
        if let Some(behind) = free.remove(&(start + length)) {
            length += behind;
        }
        free.insert(start, length);
    }

    /// Has the worker do a job, and waits for its answer.
    fn ask<T>(&self, job: impl FnOnce(SyncSender<T>) -> Job) -> Result<T, TieringError> {
        if self.shared.is_forked() {
            return Err(TieringError::Forked);
        }
        let (reply, answer) = sync_channel(1);
        self.jobs.send(job(reply)).map_err(|_| TieringError::Stopped)?;
        answer.recv().map_err(|_| TieringError::Stopped)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            return;
        }
        self.shared.is_stopping.store(true, Ordering::Release);
        // The worker looks, ends, and rings the bell of the other thread.
        let _ = self.jobs.send(Job::Look);
        if let Some(server) = self.server.lock().take() {
            let _ = server.join();
        }
    }
}

/// Starts both threads; returns once they serve. With `excluded` they find areas by themselves, but
/// none that overlap these addresses.
pub(crate) fn start(
    shared: Arc<Shared>,
    jobs: Receiver<Job>,
    excluded: Option<Vec<Range<usize>>>,
) -> Result<JoinHandle<()>, TieringError> {
    let (ready, is_ready) = sync_channel(1);
    let body = move |files: std::io::Result<()>| serve(files, &shared, jobs, ready, excluded);
    let server = spawn_apart("tombolo-faults", body)
        .map_err(|reason| TieringError::Os { doing: "start a thread", reason })?;
    match is_ready.recv() {
        Ok(Ok(())) => Ok(server),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(TieringError::Stopped),
    }
}

/// The life of the thread that serves faults, in a file table of its own.
fn serve(
    files: std::io::Result<()>,
    shared: &Arc<Shared>,
    jobs: Receiver<Job>,
    ready: SyncSender<Result<(), TieringError>>,
    excluded: Option<Vec<Range<usize>>>,
) {
    // This thread serves faults, so its stack may have none.
    let on_stack = here();
    let os = |doing| move |reason: std::io::Error| TieringError::Os { doing, reason };
    let prepare = || -> Result<_, TieringError> {
        files.map_err(os("part the threads' files from the program's"))?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| os("make an eventfd")(errno.into()))?;
        let nodes = (!shared.options.is_one_node()).then_some(&shared.options);
        let kernel = Kernel::open(nodes.map(|options| options.near_node))?;
        for (_, area) in shared.all_areas() {
            kernel.register(&area, nodes.map(|options| options.far_node))?;
        }
        let desks = (kernel.desk()?, kernel.desk()?);
        Ok((bell, kernel, desks))
    };
    let (bell, kernel, desks) = match prepare() {
        Ok(prepared) => prepared,
        // The caller waits for this, and gets the error.
        Err(error) => return ready.send(Err(error)).unwrap_or_default(),
    };
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().name("tombolo-tier".to_owned());
        let (kernel, desks, bell) = (&kernel, &desks, &bell);
        let work = move || {
            let work = || {
                let mut worker = Worker::new(shared, kernel, &desks.0);
                worker.finder = excluded.map(|mut excluded| {
                    excluded.extend([on_stack, here()]);
                    Finder::new(excluded)
                });
                worker.run(&jobs);
            };
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                shared.is_failed.store(true, Ordering::Release);
                shared.fork.end();
            }
            // The bell is this function's, so it can be rung.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        };
        let started = worker.spawn_scoped(scope, work).map(drop);
        let is_started = started.is_ok();
        let _ = ready.send(started.map_err(os("start a thread")));
        let server = Server { shared, kernel, desk: &desks.1 };
        let run = || server.run(bell);
        let is_done = is_started && matches!(catch_unwind(AssertUnwindSafe(run)), Ok(Ok(())));
        if !is_done {
            shared.is_failed.store(true, Ordering::Release);
            let mut told = Vec::new();
            // Messages have to be read, so that those go on that told of them.
            bring_all_back(shared, kernel, || kernel.areas.read(&mut told).unwrap_or_default());
        }
        for (_, area) in shared.all_areas() {
            // Threads that wait there try again, and find ordinary memory.
            let _ = kernel.areas.unregister(area.space.span(0..area.pages()));
        }
    });
}

/// An address on this thread's stack.
fn here() -> Range<usize> {
    let on_stack = 0u8;
    let address = (&raw const on_stack).addr();
    address..address + 1
}

/// Pages of a heap. They are given back when the block is dropped.
///
/// Threads may load and store anywhere in the block by [`as_ptr`](Self::as_ptr), at any time, and
/// system calls may, too. The safe accesses copy bytes, which may be torn by others' stores.
#[derive(Debug)]
pub struct Block {
    inner: Arc<Inner>,
    pages: Range<usize>,
}

impl Block {
    /// The first byte. The address does not change while the block is there.
    pub fn as_ptr(&self) -> NonNull<u8> {
        let offset = self.pages.start * page_bytes();
        let address = self.inner.area.space.address();
        address.map_addr(|address| address.saturating_add(offset))
    }

    /// How many bytes.
    pub fn bytes(&self) -> usize {
        self.pages.len() * page_bytes()
    }

    /// Copies bytes out, from `offset` on.
    ///
    /// # Panics
    /// If they are not all in the block.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        self.inner.area.space.read(self.within(offset, into.len()), into);
    }

    /// Copies bytes in, from `offset` on.
    ///
    /// # Panics
    /// If they are not all in the block.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.inner.area.space.write(self.within(offset, bytes.len()), bytes);
    }

    /// Adds to the word at `offset`, in one atomic step, and returns what it was.
    ///
    /// # Panics
    /// If there is no aligned word in the block.
    pub fn fetch_add(&self, offset: usize, value: u64) -> u64 {
        self.inner.area.space.fetch_add(self.within(offset, 8), value)
    }

    /// Reads from a file or pipe into the block at `offset`, by one system call. Returns how many
    /// bytes came.
    ///
    /// # Errors
    /// The system's error, if the call fails.
    ///
    /// # Panics
    /// If the bytes are not all in the block.
    pub fn fill_from(
        &self,
        offset: usize,
        bytes: usize,
        file: impl AsFd,
    ) -> std::io::Result<usize> {
        self.inner.area.space.fill_from(self.within(offset, bytes), bytes, file)
    }

    /// Writes bytes of the block at `offset` to a file or pipe, by one system call. Returns how
    /// many bytes went.
    ///
    /// # Errors
    /// The system's error, if the call fails.
    ///
    /// # Panics
    /// If the bytes are not all in the block.
    pub fn write_to(&self, offset: usize, bytes: usize, file: impl AsFd) -> std::io::Result<usize> {
        self.inner.area.space.write_to(self.within(offset, bytes), bytes, file)
    }

    /// Moves the pages of a range to a place, while threads use them, and says what became of them.
    /// [`Place::Shared`] is far, [`Place::Copied`] near with a shadow, [`Place::Partition`] near
    /// without.
    ///
    /// Whole pages move: those that have any byte of the range. It waits for the thread that moves
    /// pages, for some microseconds a page.
    ///
    /// # Errors
    /// [`TieringError::Outside`], [`TieringError::Forked`], [`TieringError::Stopped`].
    pub fn relocate(&self, range: Range<usize>, place: Place) -> Result<Report, TieringError> {
        let pages = self.pages_of(range)?;
        self.inner.ask(|reply| Job::Relocate { area: 0, pages, place, reply: Some(reply) })
    }

    /// Says where the pages of a range are to be from here on. They move in the background; with
    /// [`Hint::Auto`] the policy decides.
    ///
    /// # Errors
    /// As [`relocate`](Self::relocate).
    pub fn advise(&self, range: Range<usize>, hint: Hint) -> Result<(), TieringError> {
        let pages = self.pages_of(range)?;
        self.hold(pages.clone(), hint);
        let place = match hint {
            Hint::Near => Place::Copied,
            Hint::Far => Place::Shared,
            Hint::Auto => return Ok(()),
        };
        if self.inner.shared.is_forked() {
            return Err(TieringError::Forked);
        }
        let job = Job::Relocate { area: 0, pages, place, reply: None };
        self.inner.jobs.send(job).map_err(|_| TieringError::Stopped)
    }

    /// Parks the far pages of a range: the next touch of each is a hint fault. A policy does so by
    /// itself. Returns how many pages were parked.
    ///
    /// # Errors
    /// As [`relocate`](Self::relocate).
    pub fn park(&self, range: Range<usize>) -> Result<usize, TieringError> {
        let pages = self.pages_of(range)?;
        self.inner.ask(|reply| Job::Park { area: 0, pages, reply })
    }

    #[doc(hidden)]
    pub fn span_for_test(&self) -> tombolo_memory::paging::PageSpan<'_> {
        self.inner.area.space.span(self.pages.clone())
    }

    #[doc(hidden)]
    pub fn page_for_test(&self, page: usize) -> tombolo_memory::paging::PageSpan<'_> {
        self.inner.area.space.page(self.pages.start + page)
    }

    fn within(&self, offset: usize, bytes: usize) -> usize {
        let is_within = offset <= self.bytes() && bytes <= self.bytes() - offset;
        assert!(is_within, "{bytes} bytes at {offset} are outside their block of {}", self.bytes());
        self.pages.start * page_bytes() + offset
    }

    fn pages_of(&self, range: Range<usize>) -> Result<Range<usize>, TieringError> {
        let Range { start, end } = range;
        if start > end || end > self.bytes() {
            return Err(TieringError::Outside { start, end, bytes: self.bytes() });
        }
        let first = self.pages.start;
        Ok(first + start / page_bytes()..first + end.div_ceil(page_bytes()))
    }

    /// Pages that are filled from here on come from a tier.
    fn set_tier(&self, is_near: bool) -> Result<(), TieringError> {
        let shared = &self.inner.shared;
        let options = &shared.options;
        if !options.is_one_node() {
            let node = if is_near { options.near_node } else { options.far_node };
            let span = self.inner.area.space.span(self.pages.clone());
            span.prefer_node(node).map_err(|reason| TieringError::Os {
                doing: "bind a block to a NUMA node",
                reason,
            })?;
        }
        self.pages.clone().for_each(|page| shared.note_tier(&self.inner.area, page, is_near));
        Ok(())
    }

    fn hold(&self, pages: Range<usize>, hint: Hint) {
        let (set, clear) = match hint {
            Hint::Near => (Flags::HOLD_NEAR, Flags::HOLD_FAR),
            Hint::Far => (Flags::HOLD_FAR, Flags::HOLD_NEAR),
            Hint::Auto => (Flags::NONE, Flags::HOLD_NEAR.and(Flags::HOLD_FAR)),
        };
        pages.for_each(|page| {
            self.inner.area.word(page).mark(set, clear);
        });
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // The kernel tells the thread that serves faults, which gives up what is held of the pages.
        // If the program has unmapped them, they are gone.
        if self.inner.area.space.span(self.pages.clone()).discard().is_ok() {
            self.inner.give_back(&self.pages);
        }
    }
}

/// Asks the kernel whether pages can move here at all.
///
/// # Errors
/// A sentence for what is missing, and what to do.
pub fn probe() -> Result<tombolo_memory::paging::Offer, FaultsError> {
    tombolo_memory::paging::Offer::probe()
}
