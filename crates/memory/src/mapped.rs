//! The mapped back end: real memory, real instructions.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::cache::CacheControl;
use crate::life::LifeLocks;
use crate::region::{FilePart, Window};
use crate::whole::InLines;
use crate::word::{AtomicWord, MappedWord};
use crate::{
    Backing, FetchOp, LINE_BYTES, Lines, LnrAddr, Memory, Process, ScrAddr, Site, Whole, Word,
    copy, fork, past, stream,
};

/// A waiting thread lets others run once in so many rounds.
const SPINS: u32 = 32;

/// A host's view of memory that is mapped into this process. Clones are threads of the same host.
#[derive(Clone, Debug)]
pub struct Mapped {
    scr: Window,
    lnr: Window,
    caches: CacheControl,
    /// From this length on bytes are stored past the caches.
    streamed: u64,
    started: Instant,
    /// By these others know that this host lives.
    life: Option<Arc<LifeLocks>>,
    place: Option<Arc<str>>,
    /// The count of forks, which tells its process from children of that.
    forks: u64,
}

impl Mapped {
    /// SCR and LNR in two windows, which may lie in one region or in two.
    pub fn new(scr: Window, lnr: Window) -> Self {
        Self::with_cache_control(scr, lnr, CacheControl::detect())
    }

    /// As [`new`](Self::new), with other instructions than the best there are.
    ///
    /// # Panics
    /// If this processor does not have them.
    pub fn with_cache_control(scr: Window, lnr: Window, caches: CacheControl) -> Self {
        assert!(CacheControl::available().contains(&caches), "no {caches:?} on this processor");
        // Old processors may leave in a line that their caches have what was stored past them.
        let streamed = if caches.is_old() { u64::MAX } else { stream::STREAMED_BYTES };
        scr.is_scr();
        let (started, forks) = (Instant::now(), fork::count());
        Self { scr, lnr, caches, streamed, started, life: None, place: None, forks }
    }

    /// The same memory, which is at `place` as command lines name it, and whose users hold locks of
    /// the file behind it.
    #[must_use]
    pub fn with_locks_of(self, backing: &Backing, place: &str) -> Self {
        let life = backing.life_locks().map(Arc::new);
        Self { life, place: Some(place.into()), ..self }
    }

    /// How many of its bytes are in huge pages, once each part has been touched; in pages of a
    /// device, no byte may count. It looks at each huge page, and takes some milliseconds for a
    /// GiB.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn huge_bytes(&self) -> io::Result<u64> {
        let (scr, lnr) = (self.scr.region(), self.lnr.region());
        let more = if Arc::ptr_eq(scr, lnr) { 0 } else { lnr.huge_bytes()? };
        Ok(scr.huge_bytes()? + more)
    }

    /// How many bytes the system has put behind the files of this memory, those of its other users
    /// included; `None` if a part of it is a device, or no file.
    pub fn taken_bytes(&self) -> Option<u64> {
        let (scr, lnr) = (self.scr.region(), self.lnr.region());
        let more = if Arc::ptr_eq(scr, lnr) { 0 } else { lnr.taken_bytes()? };
        Some(scr.taken_bytes()? + more)
    }

    /// The same memory, where everything is stored through the caches, however long it is.
    #[must_use]
    pub fn through_caches(self) -> Self {
        Self { streamed: u64::MAX, ..self }
    }

    /// The file behind LNR, from its first byte on, for other mappings of it; `None` if no other
    /// can be made.
    pub fn lnr_file(&self) -> Option<FilePart> {
        self.lnr.file_part()
    }

    /// Address and length of the mapping of LNR in this process, to be registered with a device.
    /// They stay for as long as a clone of this memory does. Nothing may be stored there but in
    /// room that the protocol above has given out.
    pub fn lnr_mapping(&self) -> (usize, usize) {
        let bytes = self.lnr.bytes();
        (self.lnr.at(0, bytes).as_ptr().expose_provenance(), bytes as usize)
    }

    /// Whether so many bytes are stored past the caches.
    #[inline]
    fn streams(&self, bytes: usize) -> bool {
        bytes as u64 >= self.streamed
    }

    /// Whether everything goes through the caches: then there is nothing to be noted, or to be
    /// looked up.
    #[inline]
    fn streams_nothing(&self) -> bool {
        self.streamed == u64::MAX
    }

    /// Begins to write back lines, but for those that were stored past the caches.
    #[inline(always)]
    fn begin_clean(&self, lines: Lines) {
        let place = self.lnr.lines_at(lines);
        let begin = |at: usize, bytes: usize| {
            // SAFETY: within the window; the instructions were checked for.
            unsafe { self.caches.begin_clean(place.add(at), bytes as u64 / LINE_BYTES) };
        };
        if self.streams_nothing() {
            return begin(0, lines.bytes() as usize);
        }
        let start = place.addr().get();
        past::others(start..start + lines.bytes() as usize, |bytes| {
            begin(bytes.start - start, bytes.len());
        });
    }

    #[inline]
    fn end_clean(&self) {
        self.caches.fence_stores();
        past::forget_all();
    }

    /// Copies bytes of more than one line into LNR.
    fn write_lines(&self, to: LnrAddr, bytes: &[u8]) {
        let place = self.lnr.at(to.offset(), bytes.len() as u64);
        // SAFETY: within the window.
        unsafe {
            if self.streams(bytes.len()) {
                self.caches.fence_stores();
                stream::write(place.as_ptr(), bytes);
            } else if self.streams_nothing() {
                copy::write(place.as_ptr(), bytes);
            } else {
                stream::write_cached(place.as_ptr(), bytes);
            }
        }
    }

    /// Where lines of LNR start.
    pub(crate) fn line_at(&self, lines: Lines) -> NonNull<u8> {
        self.lnr.lines_at(lines)
    }

    #[inline]
    fn word<W: Word>(&self, at: ScrAddr<W>) -> &W::Atomic {
        const { assert!(size_of::<W::Atomic>() == size_of::<W>()) };
        let place = self.scr.word_at(at);
        // SAFETY: within the window, which the region keeps mapped; aligned, because windows start
        // at lines and `ScrAddr` is a multiple of the word's size; and SCR is only accessed by
        // atomics.
        unsafe { place.cast::<W::Atomic>().as_ref() }
    }
}

/// A value that will be written whole, and where.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<'a> {
    /// Where its lines begin.
    start: NonNull<u8>,
    way: Way<'a>,
}

/// How a value is written whole.
#[derive(Clone, Copy, Debug)]
enum Way<'a> {
    /// Past the caches.
    InLines(InLines<'a>),
    /// Past the caches what is in whole lines, if it `streams`.
    InPieces { value: Whole<'a>, streams: bool },
}

impl Prepared<'_> {
    #[inline(always)]
    fn streams(&self) -> bool {
        !matches!(self.way, Way::InPieces { streams: false, .. })
    }
}

impl Memory for Mapped {
    type RawMutex = parking_lot::RawMutex;
    type Located<'a, W: Word> = MappedWord<'a, W>;
    type Prepared<'a> = Prepared<'a>;

    fn scr_bytes(&self) -> u64 {
        self.scr.bytes()
    }

    fn lnr_bytes(&self) -> u64 {
        self.lnr.bytes()
    }

    #[inline]
    fn locate<W: Word>(&self, at: ScrAddr<W>) -> MappedWord<'_, W> {
        MappedWord(self.word(at))
    }

    #[inline]
    fn load<W: Word>(&self, at: ScrAddr<W>) -> W {
        self.word(at).load()
    }

    #[inline]
    fn store<W: Word>(&self, at: ScrAddr<W>, value: W) {
        self.word(at).store(value);
    }

    #[inline]
    fn compare_exchange<W: Word>(
        &self,
        _: Site,
        at: ScrAddr<W>,
        current: W,
        new: W,
    ) -> Result<W, W> {
        self.word(at).compare_exchange(current, new)
    }

    #[inline]
    fn fetch<W: Word>(&self, _: Site, at: ScrAddr<W>, op: FetchOp, operand: W) -> W {
        self.word(at).fetch(op, operand)
    }

    #[inline(always)]
    fn read(&self, from: LnrAddr, into: &mut [u8]) {
        let place = self.lnr.at(from.offset(), into.len() as u64);
        // SAFETY: within the window.
        unsafe { copy::read(place.as_ptr(), into) };
    }

    #[inline]
    fn append(&self, from: LnrAddr, bytes: u64, to: &mut Vec<u8>) {
        let place = self.lnr.at(from.offset(), bytes);
        // SAFETY: within the window.
        unsafe { copy::append(place.as_ptr(), bytes as usize, to) };
    }

    #[inline(always)]
    fn read_before(&self, from: LnrAddr, behind: &[u8]) -> ([u8; 16], bool) {
        let place = self.lnr.at(from.offset(), 16 + behind.len() as u64);
        // SAFETY: within the window.
        unsafe { copy::read_before(place.as_ptr(), behind) }
    }

    #[inline]
    fn view(&self, from: LnrAddr, bytes: u64) -> Cow<'_, [u8]> {
        let place = self.lnr.at(from.offset(), bytes);
        // SAFETY: within the window, which `self` keeps mapped; and nobody writes there meanwhile,
        // as the trait says.
        Cow::Borrowed(unsafe { std::slice::from_raw_parts(place.as_ptr(), bytes as usize) })
    }

    fn view_mut(&self, at: LnrAddr, bytes: u64) -> Option<&mut [u8]> {
        let place = self.lnr.at(at.offset(), bytes);
        // SAFETY: within the window, which `self` keeps mapped; and nobody else writes there, or
        // relies on what is there, as the trait says.
        Some(unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), bytes as usize) })
    }

    #[inline]
    fn prefetch(&self, lines: Lines) {
        self.lnr.prefetch(lines);
    }

    #[inline]
    fn prefetch_to_write(&self, lines: Lines, bytes: usize) {
        // Lines that are stored past the caches are not fetched.
        let fetched = if self.streams(bytes) { 1 } else { lines.count() };
        self.lnr.prefetch(Lines::new(lines.first(), fetched));
    }

    #[inline]
    fn prefetch_word<W: Word>(&self, at: ScrAddr<W>) {
        self.scr.prefetch(Lines::new(at.offset() / LINE_BYTES, 1));
    }

    #[inline(always)]
    fn write(&self, to: LnrAddr, bytes: &[u8]) {
        if bytes.len() as u64 > LINE_BYTES {
            return self.write_lines(to, bytes);
        }
        let place = self.lnr.at(to.offset(), bytes.len() as u64);
        // SAFETY: within the window.
        unsafe { stream::write_cached(place.as_ptr(), bytes) };
    }

    #[inline]
    fn write_all<'a>(&self, writes: impl Iterator<Item = (LnrAddr, &'a [u8])> + Clone) {
        if writes.clone().any(|(_, bytes)| self.streams(bytes.len())) {
            self.caches.fence_stores();
        }
        for (to, bytes) in writes {
            if !self.streams(bytes.len()) {
                self.write(to, bytes);
                continue;
            }
            let lines = Lines::covering(to, bytes.len() as u64);
            let to_end = lines.start().offset() + lines.bytes() - to.offset();
            let place = self.lnr.at(to.offset(), to_end);
            // SAFETY: within the window, to the end of the last line.
            unsafe { stream::write_padded(place.as_ptr(), bytes) };
        }
    }

    #[inline(always)]
    fn prepare<'a>(&'a self, value: Whole<'a>, time: bool) -> Prepared<'a> {
        let (start, streams) = (self.lnr.lines_at(value.lines), self.streams(value.rest.len()));
        if time
            && streams
            && let Some(lines) = value.in_lines()
        {
            return Prepared { start, way: Way::InLines(lines) };
        }
        Prepared { start, way: Way::InPieces { value, streams } }
    }

    #[inline(always)]
    fn write_whole(&self, _: Site, values: &[Prepared<'_>]) {
        if values.iter().any(Prepared::streams) {
            self.caches.fence_stores();
        }
        for &Prepared { start, ref way } in values {
            // SAFETY: the lines are within the window of who has prepared this; the instructions
            // were checked for.
            unsafe {
                match way {
                    Way::InLines(lines) => stream::write_in_lines(start.as_ptr(), lines),
                    &Way::InPieces { ref value, streams } => {
                        let dirty = stream::write_in_pieces(start.as_ptr(), value, streams);
                        self.caches.begin_clean(start, dirty);
                    }
                }
            }
        }
        self.caches.fence_stores();
    }

    #[inline]
    fn clean(&self, _: Site, lines: Lines) {
        self.begin_clean(lines);
        self.end_clean();
    }

    #[inline]
    fn clean_all(&self, _: Site, lines: impl IntoIterator<Item = Lines>) {
        let mut lines = lines.into_iter().peekable();
        if lines.peek().is_none() {
            return;
        }
        lines.for_each(|lines| self.begin_clean(lines));
        self.end_clean();
    }

    #[inline]
    fn invalidate(&self, _: Site, lines: Lines) {
        let start = self.lnr.lines_at(lines);
        // SAFETY: within the window; the instructions were checked for.
        unsafe { self.caches.invalidate(start, lines.count()) };
    }

    #[inline(always)]
    fn poisoned(&self, lines: Lines) -> bool {
        self.lnr.is_poisoned(lines)
    }

    fn survives_poison(&self, lines: Lines) {
        self.lnr.survive_poison(lines);
    }

    fn populate(&self, lines: Lines) -> bool {
        self.lnr.populate(lines)
    }

    fn discard(&self, lines: Lines) -> bool {
        self.lnr.discard(lines)
    }

    fn pause(&self) {
        thread_local! {
            static ROUNDS: Cell<u32> = const { Cell::new(0) };
        }
        let rounds = ROUNDS.replace(ROUNDS.get().wrapping_add(1));
        // The thread that is waited for may need this very core.
        if rounds % SPINS == SPINS - 1 {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }

    fn back_off(&self, pauses: u32) {
        (0..pauses).for_each(|_| self.pause());
    }

    fn wall_clock_ms(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since_epoch.map_or(0, |time| time.as_millis() as u64)
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    fn random(&self) -> u64 {
        rand::random()
    }

    fn process(&self) -> Process {
        Process::own()
    }

    fn is_forked(&self) -> bool {
        self.forks != fork::count()
    }

    fn place(&self) -> String {
        self.place.as_deref().unwrap_or("POD").to_owned()
    }

    fn process_holding(&self, number: u32) -> Process {
        let lock = self.life.as_ref().and_then(|locks| locks.hold(number));
        Process { lock, ..Process::own() }
    }

    fn has_ended(&self, process: Process) -> bool {
        let is_free =
            process.lock.zip(self.life.as_ref()).and_then(|(lock, locks)| locks.is_free(lock));
        is_free == Some(true) || process.has_ended()
    }

    fn would_know(&self, process: Process) -> bool {
        let is_free =
            process.lock.zip(self.life.as_ref()).and_then(|(lock, locks)| locks.is_free(lock));
        is_free.is_some() || process.is_of_here()
    }

    fn is_running(&self, process: Process) -> bool {
        process.is_running()
    }
}
