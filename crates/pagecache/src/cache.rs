//! One host's handle on the cache.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tombolo_host::Host;
use tombolo_memory::{HostMutex, Memory};
use tombolo_pod::{Area, Pod, Stay};

use tombolo_sharing::{Guarded, PAGES, Scheme};

pub(crate) use crate::backing::Backing;
use crate::clock::Clock;
use crate::counts::{Counted, Counts};
use crate::head::ALL;
use crate::key::Key;
use crate::limit::Limit;
use crate::page::{PageWriteBack, Piece, Stored, pieces};
use crate::pages::{MemoryOf, OptionsOf, Pages};
use crate::{Attributes, Error, FileId, sites};

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// The largest file.
const MAX_FILE_BYTES: u64 = i64::MAX as u64;

/// Every file system has files of so many bytes.
const ANY_FILE_BYTES: u64 = (1 << 31) - 1;

/// So many words of marks, or tags of pages, are looked at in the time that it takes to find a
/// page. Of so many dirty pages of other files about one has a file's tag.
const LOOKS_A_PAGE: u64 = 256;

/// Pages of a file that are looked at one by one, at most, for such as are lost to memory errors.
const MAX_LOOKS: u64 = 1 << 20;

/// How long to wait for a host that has a file alone, or a latch.
const PATIENCE: Duration = Duration::from_secs(30);

/// After so many tries in vain, each wait may be one pause longer.
const TRIES_PER_PAUSE: u64 = 32;
/// Pauses of one wait, at most.
const MOST_PAUSES: u64 = 64;

/// How a host takes part.
#[derive(Clone, Debug)]
pub struct Options<O = tombolo_objects::Options> {
    /// How it shares objects.
    pub objects: O,
    /// Bytes of a page: the same on all hosts.
    pub page_bytes: u64,
    /// Pages are evicted in the background while more than this share of LNR is in use, in percent.
    pub watermark_percent: u64,
    /// This share of the pages that the pod has room for may be dirty, in percent; half of them of
    /// one file.
    pub dirty_percent: u64,
    /// Pages that were dirty for this long, and less than twice as long, are written back.
    pub write_back_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        // Pages are made fresh whole.
        Self::with(tombolo_objects::Options { small_lines: 128, ..Default::default() })
    }
}

impl<O> Options<O> {
    /// The usual ones, where objects are shared like this.
    pub fn with(objects: O) -> Self {
        Self {
            objects,
            page_bytes: PAGE_BYTES,
            watermark_percent: 97,
            dirty_percent: 50,
            write_back_after: Duration::from_millis(500),
        }
    }
}

/// The outcome of writing pages back.
#[derive(Default)]
struct Tried {
    /// Files that did not take a page.
    refused: BTreeSet<FileId>,
    /// Files that this host does not have at hand.
    unknown: BTreeSet<FileId>,
    /// The error of the first file that refused.
    error: Option<Error>,
}

impl Tried {
    /// Whether pages of a file were left out.
    fn left_out(&self, file: FileId) -> bool {
        self.refused.contains(&file) || self.unknown.contains(&file)
    }
}

/// The memory of the background work.
#[derive(Default)]
pub(crate) struct Upkeep {
    last: Duration,
    /// Pages that were dirty when it last looked, and when each was found so first.
    dirty: BTreeMap<Key, Duration>,
    /// The last host that died whose files were looked after.
    pub(crate) dead: Option<Stay>,
}

/// Files, in pages that all hosts of a pod share. Used by all threads of a host.
pub struct PageCache<P: Pages, B: Backing> {
    pub(crate) pages: P,
    pub(crate) backing: Arc<B>,
    pub(crate) write_back: PageWriteBack<B>,
    pub(crate) counted: Arc<Counted>,
    pub(crate) clock: Clock,
    pub(crate) limit: Limit<P>,
    pub(crate) page_bytes: u64,
    options: Options<OptionsOf<P>>,
    pub(crate) upkeep: HostMutex<MemoryOf<P>, Upkeep>,
}

impl<P: Pages, B: Backing> PageCache<P, B> {
    /// Joins a pod that was made for a page cache. The host that joins first finds it empty.
    ///
    /// # Errors
    /// [`Error::NotForPages`]; [`Error::OtherFiles`]; [`Error::Objects`] if there is no seat.
    pub fn join(
        pod: Pod<MemoryOf<P>>,
        backing: Arc<B>,
        options: Options<OptionsOf<P>>,
    ) -> Result<Self, Error> {
        let area = pod.area_of(PAGES).map_err(|_| Error::NotForPages)?;
        let host = Host::join(pod).map_err(tombolo_sharing::Error::from)?;
        let attached = Self::attach(&host, area, backing, options);
        if attached.is_err() {
            host.leave();
        }
        attached
    }

    /// Takes part in an area for pages of the pod that `host` is in, besides other tenants of that
    /// host.
    ///
    /// # Errors
    /// [`Error::NotForPages`]; [`Error::Objects`].
    pub fn attach(
        host: &Arc<Host<MemoryOf<P>>>,
        area: Area<MemoryOf<P>>,
        backing: Arc<B>,
        options: Options<OptionsOf<P>>,
    ) -> Result<Self, Error> {
        if area.layout().kind != PAGES {
            return Err(Error::NotForPages);
        }
        let page_bytes = options.page_bytes;
        let most = area.places().lnr.bytes / page_bytes;
        let counted: Arc<Counted> = Arc::default();
        let write_back = || PageWriteBack {
            backing: Arc::clone(&backing),
            page_bytes,
            counted: Arc::clone(&counted),
        };
        let pages = P::attach(host, area, options.objects.clone(), write_back())?;
        let most_dirty = Self::most_dirty(&pages, page_bytes, options.dirty_percent);
        let cache = Self {
            pages,
            limit: Limit::new(most_dirty),
            write_back: write_back(),
            counted,
            clock: Clock::new(most),
            upkeep: HostMutex::<MemoryOf<P>, _>::new(Upkeep::default()),
            backing,
            page_bytes,
            options,
        };
        if let Err(refused) = cache.agree_on_files() {
            cache.objects().leave()?;
            return Err(refused);
        }
        Ok(cache)
    }

    /// Writes back what is dirty and leaves the pod. Nothing else may be done with the handle
    /// afterwards, or meanwhile.
    ///
    /// # Errors
    /// [`Error::WriteBack`]: this host is still in the pod. [`Error::Objects`].
    pub fn leave(&self) -> Result<(), Error> {
        match self.look_after_the_dead().and_then(|()| self.write_back_all(&mut |_| ())) {
            // Others do that, once they know that this host is at nothing any more.
            Err(Error::Objects(error)) if error.is_fenced() => {}
            written => written?,
        }
        Ok(self.objects().leave()?)
    }

    /// The objects that hold pages and heads.
    #[inline]
    pub fn objects(&self) -> &P::Scheme {
        self.pages.objects()
    }

    /// The files below.
    pub fn backing(&self) -> &Arc<B> {
        &self.backing
    }

    /// The memory this host sees.
    pub fn memory(&self) -> &MemoryOf<P> {
        self.objects().memory()
    }

    /// This host's counters.
    pub fn counts(&self) -> Counts {
        self.counted.sum()
    }

    /// Size and time of a file as all hosts see them, if it is in the cache; otherwise they are
    /// what they are below.
    ///
    /// # Errors
    /// [`Error::Objects`].
    pub fn attributes(&self, file: FileId) -> Result<Option<Attributes>, Error> {
        let head = self.peek(file)?;
        Ok(head.map(|(head, _)| Attributes { size: head.size, modified: head.modified }))
    }

    /// Reads from `offset` up to the end of `into` or of the file; how many bytes. Bytes within one
    /// page are read in one step.
    ///
    /// # Errors
    /// [`Error::Backing`], [`Error::Stalled`], [`Error::Objects`].
    pub fn read(&self, file: FileId, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        let read = self.wait(|| {
            let head = match self.head(file)? {
                Ok(head) => head,
                Err(holder) => return Ok(Err(holder)),
            };
            let wanted = offset.saturating_add(into.len() as u64);
            let bytes = wanted.min(head.size).saturating_sub(offset);
            let mut rest = &mut into[..bytes as usize];
            for piece in pieces(self.page_bytes, offset, bytes) {
                let (part, others) = rest.split_at_mut(piece.bytes as usize);
                rest = others;
                if !self.load(file, head.epoch, piece, part)? {
                    return Ok(Err(self.seat()));
                }
            }
            let again = self.peek(file)?.map(|(head, _)| head);
            let uncut = again.is_some_and(|again| again.epoch == head.epoch);
            // The page may hold what was written after the file grew: then it is not the old end
            // that counts.
            let same_end =
                wanted <= head.size || again.is_some_and(|again| again.size == head.size);
            let memory = self.memory();
            let good = memory.check(sites::READ_EPOCH, uncut)
                && memory.check(sites::READ_SIZE, same_end)
                && again.map_or(Ok(true), |again| self.ends_there(file, &again))?;
            Ok(if good { Ok(bytes as usize) } else { Err(self.seat()) })
        })?;
        self.count_asked(offset, read);
        Ok(read)
    }

    /// Counts the pages of so many bytes.
    fn count_asked(&self, offset: u64, bytes: usize) {
        let end = offset.saturating_add(bytes as u64);
        let pages = end.div_ceil(self.page_bytes).saturating_sub(offset / self.page_bytes);
        Counted::add(&self.counted.asked, pages);
    }

    /// Writes all of `bytes` at `offset`; the file grows as needed. Bytes within one page are
    /// written in one step.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Backing`], [`Error::WriteBack`]: the file system below has no
    /// room. [`Error::Stalled`], [`Error::Objects`]. Some pages may be written.
    pub fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.check_end(file, offset, bytes.len())?;
        let mut rest = bytes;
        for piece in pieces(self.page_bytes, offset, bytes.len() as u64) {
            let (part, others) = rest.split_at(piece.bytes as usize);
            rest = others;
            self.may_write(file, piece)?;
            self.wait(|| {
                let head = match self.head(file)? {
                    Ok(head) => head,
                    Err(holder) => return Ok(Err(holder)),
                };
                match self.store(file, head.epoch, piece, part, true)? {
                    Stored::Yes => Ok(Ok(())),
                    Stored::Changed => Ok(Err(self.seat())),
                    Stored::TakesAlone => Ok(Ok(self.write_alone(file, piece, part)?)),
                }
            })?;
        }
        self.count_asked(offset, bytes.len());
        Ok(())
    }

    /// Writes a piece of a file that this thread takes for itself meanwhile: so it never needs the
    /// locks, or the records, of page and head at once.
    fn write_alone(&self, file: FileId, piece: Piece, bytes: &[u8]) -> Result<(), Error> {
        let end = piece.block * self.page_bytes + piece.within + piece.bytes;
        let alone = self.alone(file, |size| (ALL, size.max(end)))?;
        self.store_alone(file, alone.head.epoch, piece, bytes)?;
        let size = alone.head.size.max(end);
        alone.release(size)
    }

    fn store_alone(
        &self,
        file: FileId,
        epoch: u64,
        piece: Piece,
        bytes: &[u8],
    ) -> Result<(), Error> {
        self.wait(|| match self.store(file, epoch, piece, bytes, false)? {
            Stored::Yes => Ok(Ok(())),
            Stored::Changed | Stored::TakesAlone => Ok(Err(self.seat())),
        })
    }

    /// Writes all of `bytes` at the end of the file, in one step; where that was.
    ///
    /// # Errors
    /// As of [`write`](Self::write); the file is as long as it was.
    pub fn append(&self, file: FileId, bytes: &[u8]) -> Result<u64, Error> {
        let end = |size: u64| size.saturating_add(bytes.len() as u64);
        // Where the end is now is near enough: what is wanted of it is room for so many bytes.
        let at = self.peek(file)?.map_or(0, |(head, _)| head.size);
        self.check_end(file, at, bytes.len())?;
        pieces(self.page_bytes, at, bytes.len() as u64)
            .try_for_each(|piece| self.may_write(file, piece))?;
        let alone = self.alone(file, |size| (size, end(size)))?;
        let offset = alone.head.size;
        self.check_end(file, offset, bytes.len())?;
        let mut rest = bytes;
        for piece in pieces(self.page_bytes, offset, bytes.len() as u64) {
            let (part, others) = rest.split_at(piece.bytes as usize);
            rest = others;
            if let Err(error) = self.store_alone(file, alone.head.epoch, piece, part) {
                self.resize(file, offset + bytes.len() as u64, offset)?;
                return Err(error);
            }
        }
        alone.release(offset + bytes.len() as u64)?;
        self.count_asked(offset, bytes.len());
        Ok(offset)
    }

    /// Cuts the file, or lets it grow by zeros.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Backing`], [`Error::WriteBack`], [`Error::Stalled`],
    /// [`Error::Objects`].
    pub fn truncate(&self, file: FileId, size: u64) -> Result<(), Error> {
        check_size(size, 0)?;
        let alone = self.alone(file, |from| (if size < from { size } else { ALL }, from))?;
        self.resize(file, alone.head.size, size)?;
        alone.release(size)
    }

    /// Lets the file grow by zeros up to `size` at least, after `reserve` has made room for that
    /// below.
    ///
    /// # Errors
    /// As of [`truncate`](Self::truncate), and those of `reserve`.
    pub fn grow(
        &self,
        file: FileId,
        size: u64,
        reserve: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<(), Error> {
        check_size(size, 0)?;
        let alone = self.alone(file, |from| (ALL, from))?;
        reserve()?;
        let size = size.max(alone.head.size);
        self.resize(file, alone.head.size, size)?;
        alone.release(size)
    }

    /// Changes the size of a file that this thread has alone.
    pub(crate) fn resize(&self, file: FileId, from: u64, to: u64) -> Result<(), Error> {
        if to < from {
            self.cut(file, to, from)?;
        }
        self.memory().step();
        Ok(self.backing.resize(file, to)?)
    }

    /// Makes durable what any host wrote to the file before: when this is done, it survives that
    /// all hosts lose power at once.
    ///
    /// # Errors
    /// [`Error::WriteBack`]: what could not be written stays dirty. [`Error::Lost`]: the rest is
    /// durable. [`Error::Backing`], [`Error::Stalled`], [`Error::Objects`].
    pub fn sync(&self, file: FileId, data_only: bool) -> Result<(), Error> {
        let memory = self.memory();
        let (clean, first) =
            (memory.keeps(sites::SYNC_CLEAN), memory.keeps(sites::SYNC_CLEAN_FIRST));
        if clean && first {
            self.write_back(file)?;
        }
        memory.step();
        if memory.keeps(sites::SYNC_FLUSH) {
            self.backing.sync(file, data_only)?;
        }
        if clean && !first {
            self.write_back(file)?;
        }
        match self.forget_lost(file)? {
            0 => Ok(()),
            pages => Err(Error::Lost { file, pages }),
        }
    }

    /// Takes pages out of the cache whose bytes are lost with a host that died while it changed
    /// them; how many. From then on they are as in the file.
    pub(crate) fn forget_lost(&self, file: FileId) -> Result<u64, Error> {
        if !self.pages.has_lost()? {
            return Ok(0);
        }
        // A walk leaves out what lies in memory that cannot be read. The head may be lost, too.
        let room = self.objects().area().geometry().lnr.bytes / self.page_bytes;
        let size = self.peek(file)?.map(|(head, _)| head.size.div_ceil(self.page_bytes));
        let most = size.unwrap_or(room).min(MAX_LOOKS);
        let pages = (0..most).map(|block| Key::page(file, block));
        let pages: BTreeSet<Key> = pages.chain(self.pages_of(file, 0, ALL)?).collect();
        let mut lost = 0;
        for key in pages {
            lost += u64::from(self.patiently(|| self.objects().forget_lost(&key.bytes()))?);
        }
        Ok(lost)
    }

    /// Writes the file's dirty pages back, without making that durable.
    ///
    /// # Errors
    /// [`Error::WriteBack`], [`Error::Backing`], [`Error::Objects`].
    pub fn write_back(&self, file: FileId) -> Result<(), Error> {
        let head = self.peek(file)?.map(|(head, _)| head);
        let pages = head.map_or(u64::MAX, |head| head.size.div_ceil(self.page_bytes));
        // The cheaper way is taken: to look at the file's pages, or at all marks and their tags.
        match self.pages.reach() {
            Some(marks) if pages <= 1 + (marks + 2 * self.pages.dirty_count()) / LOOKS_A_PAGE => {
                self.write_back_pages((0..pages).map(|block| Key::page(file, block)))?;
            }
            Some(_) => {
                self.write_back_pages(self.dirty_pages_of(file)?)?;
            }
            None => self.write_back_pages(self.pages_of(file, 0, pages)?)?,
        }
        let Some(head) = head else { return Ok(()) };
        self.vouch(file)?;
        self.memory().step();
        // A host that has only read a file leaves no trace of that.
        if self.backing.attributes(file)?.modified != head.modified {
            self.backing.set_modified(file, head.modified)?;
        }
        Ok(())
    }

    pub(crate) fn write_back_pages(
        &self,
        pages: impl IntoIterator<Item = Key>,
    ) -> Result<(), Error> {
        for key in pages {
            if !self.ensure_clean(key)? {
                let error = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(Error::WriteBack(key.file, error));
            }
        }
        Ok(())
    }

    /// Writes back all dirty pages that this host can write to their files; says after each how
    /// many are left to look at.
    ///
    /// # Errors
    /// [`Error::WriteBack`]: all files are written back that can be. [`Error::Objects`].
    pub fn write_back_all(&self, progress: &mut dyn FnMut(usize)) -> Result<(), Error> {
        let pages = self.dirty_pages()?;
        let all = pages.len();
        let pages = (0..).zip(pages).map(|(number, key)| {
            progress(all - number);
            key
        });
        let tried = self.try_write_back(pages)?;
        progress(0);
        tried.error.map_or(Ok(()), Err)
    }

    /// Writes pages back as far as that can be done. Once a file refuses a page, its others are
    /// left out.
    fn try_write_back(&self, pages: impl Iterator<Item = Key>) -> Result<Tried, Error> {
        let mut tried = Tried::default();
        for key in pages {
            if tried.left_out(key.file) {
                continue;
            }
            match self.ensure_clean(key) {
                Ok(true) => {}
                Ok(false) => _ = tried.unknown.insert(key.file),
                Err(error @ (Error::WriteBack(..) | Error::Backing(_))) => {
                    tried.refused.insert(key.file);
                    tried.error.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(tried)
    }

    /// The pages that are dirty, as far as [`Pages::visit_dirty`] shows them.
    pub(crate) fn dirty_pages(&self) -> Result<Vec<Key>, Error> {
        self.patiently(|| {
            let mut pages = Vec::new();
            self.pages.visit_dirty(|key| pages.push(key))?;
            Ok(pages)
        })
    }

    /// Those of one file.
    pub(crate) fn dirty_pages_of(&self, file: FileId) -> Result<Vec<Key>, Error> {
        self.patiently(|| {
            let mut pages = Vec::new();
            self.pages.visit_dirty_of(file, |key| pages.push(key))?;
            Ok(pages)
        })
    }

    /// Does what has to be done in the background, and must not be kept waiting by files: that of
    /// the objects. To be called about every millisecond, by one thread of each host.
    ///
    /// # Errors
    /// [`Error::Objects`].
    pub fn tick(&self) -> Result<(), Error> {
        Ok(self.objects().tick()?)
    }

    /// Does what else has to be done in the background: writes back what has been dirty for a
    /// while, and evicts pages when memory runs short. To be called every few milliseconds, by
    /// another thread.
    ///
    /// # Errors
    /// [`Error::WriteBack`], [`Error::Objects`].
    pub fn tidy(&self) -> Result<(), Error> {
        let (used, there) = self.objects().lnr_usage();
        if used > there / 100 * self.options.watermark_percent {
            self.make_room(self.batch())?;
        }
        let now = self.memory().uptime();
        let old = {
            let mut upkeep = self.upkeep.lock();
            if now.saturating_sub(upkeep.last) < self.options.write_back_after {
                return Ok(());
            }
            upkeep.last = now;
            std::mem::take(&mut upkeep.dirty)
        };
        let dirty: BTreeSet<Key> = self.dirty_pages()?.into_iter().collect();
        let still = dirty.iter().copied().filter(|key| old.contains_key(key));
        let tried = self.try_write_back(still)?;
        let again = |key: Key| match old.get(&key) {
            None => Some((key, now)),
            Some(&since) => tried.left_out(key.file).then_some((key, since)),
        };
        self.upkeep.lock().dirty = dirty.iter().copied().filter_map(again).collect();
        Counted::add(&self.counted.refused, tried.refused.len() as u64);
        self.limit.set_refused(tried.refused);
        let mut outcome = tried.error.map_or(Ok(()), Err);
        // A file that takes no pages is in nobody's way.
        outcome = outcome.and(self.drop_gone(&tried.unknown).map(drop));
        outcome = outcome.and(self.end_put_off());
        outcome.and(self.look_after_the_dead())
    }

    /// How many pages are dirty: of all hosts where [`Pages::reach`] tells so. It looks at all
    /// dirty bits.
    pub fn dirty_count(&self) -> u64 {
        self.pages.dirty_count()
    }

    /// How long the page has been dirty that is so for longest, as [`tidy`](Self::tidy) found it;
    /// zero if none was then.
    pub fn dirty_for(&self) -> Duration {
        let oldest = self.upkeep.lock().dirty.values().min().copied();
        oldest.map_or(Duration::ZERO, |since| self.memory().uptime().saturating_sub(since))
    }

    /// Repeats `attempt` until it comes to something, which it tells from the host that is in the
    /// way.
    pub(crate) fn wait<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Result<T, u64>, Error>,
    ) -> Result<T, Error> {
        use tombolo_sharing::Error::{Busy, IndexFull, LnrFull};
        let (mut started, mut tries) = (None, 0);
        loop {
            let host = match attempt() {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(host)) => host,
                // Nothing was changed; pages are fewer than objects usually are, and more in use.
                Err(Error::Objects(Busy { .. })) => self.seat(),
                Err(full @ Error::Objects(LnrFull { .. } | IndexFull { .. })) => {
                    self.after_making_room(full)?;
                    self.seat()
                }
                Err(error) => return Err(error),
            };
            let now = self.memory().uptime();
            let waited = now.saturating_sub(*started.get_or_insert(now));
            if waited > PATIENCE {
                return Err(Error::Stalled { host, waited_ms: waited.as_millis() as u64 });
            }
            self.objects().meanwhile()?;
            // Two hosts that block each other in turn would do so for ever if both always waited
            // the same time.
            tries += 1;
            let most = (tries / TRIES_PER_PAUSE).clamp(1, MOST_PAUSES);
            (0..=self.memory().random() % most).for_each(|_| self.memory().pause());
        }
    }

    /// Does something that may be in others' way, for longer than objects would.
    pub(crate) fn patiently<T>(
        &self,
        attempt: impl Fn() -> Result<T, tombolo_sharing::Error>,
    ) -> Result<T, Error> {
        self.wait(|| Ok(Ok(attempt()?)))
    }

    /// Whether a file may have bytes up to there.
    fn check_end(&self, file: FileId, offset: u64, bytes: usize) -> Result<(), Error> {
        check_size(offset, bytes as u64)?;
        let end = offset + bytes as u64;
        if end > ANY_FILE_BYTES { Ok(self.backing.admits(file, end)?) } else { Ok(()) }
    }

    /// This host's seat, for [`wait`](Self::wait).
    pub(crate) fn seat(&self) -> u64 {
        u64::from(self.objects().seat().host())
    }
}

pub(crate) fn check_size(offset: u64, bytes: u64) -> Result<(), Error> {
    let end = offset.checked_add(bytes);
    let fits = end.is_some_and(|end| end <= MAX_FILE_BYTES);
    if fits { Ok(()) } else { Err(Error::TooLarge { most: MAX_FILE_BYTES }) }
}
