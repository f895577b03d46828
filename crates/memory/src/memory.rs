//! The trait everything above this floor is written against.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use crate::address::{Lines, LnrAddr, ScrAddr};
use crate::process::Process;
use crate::site::Site;
use crate::whole::Whole;
use crate::word::{FetchOp, Located, Word};

/// A step of the code that takes a processor's time, besides its accesses to memory: what it takes,
/// a simulated pod's profile says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// An operation on an object: its hash, its counters, and all else.
    Operation,
    /// Taking and releasing an object's lock.
    Lock,
    /// Putting an event into the log.
    Append,
    /// Applying an event to a replica.
    Apply,
    /// Answering another host's message.
    Message,
    /// Beginning and ending a transaction of a database.
    Transaction,
    /// Searching a node of a database's index.
    Node,
    /// Finding, locking, noting and releasing a row of a transaction.
    Row,
    /// Changing a row in a transaction: its part of the log record, and of the commit.
    Change,
}

/// The large tables in a host's own memory, which may not be in any cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// The index.
    Index,
    /// Owners of coherence records.
    Owners,
    /// Copies of objects.
    Copies,
    /// Objects in this host's memory alone.
    Objects,
    /// The host's other tables of its own objects.
    Partition,
    /// Rows of a database that are at home at this host.
    Rows,
}

/// A moment in a simulated run; on mapped memory there is only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// All operations of one host on the pod's memory.
///
/// **SCR** (small coherent region) is words: loads acquire, stores release, read-modify-writes do
/// both, and every host sees every change. **LNR** (large non-coherent region) is bytes behind this
/// host's caches, which may hold stale lines, keep dirty ones, and fetch or evict any line at any
/// time. The operations of one thread take effect in program order.
///
/// A clone is the same host, for another of its threads.
///
/// The two regions are coupled in two ways only: [`publish`](Self::publish) makes bytes visible
/// before the word that announces them, [`consume`](Self::consume) reads the word before the bytes.
///
/// **Ownership.** Nothing keeps two hosts from writing one line but the protocols above, which say
/// whose it is: from [`takes`](Self::takes) to [`gives`](Self::gives) a line is this host's to
/// write. And they say when they rely on what they read, [`relies_on`](Self::relies_on). Mapped
/// memory ignores all of it; the simulator reports a thread that breaks the rules.
///
/// # Panics
/// Every operation panics on an address outside its region: offsets found in shared memory must be
/// checked before they get here.
pub trait Memory: Clone + 'static {
    /// The mutex for state shared by the threads of one host.
    type RawMutex: lock_api::RawMutex + 'static;

    /// A word that was located.
    type Located<'a, W: Word>: Located<W>;

    /// A value that is about to be written whole.
    type Prepared<'a>: Copy;

    /// Size of SCR in bytes.
    fn scr_bytes(&self) -> u64;

    /// Size of LNR in bytes.
    fn lnr_bytes(&self) -> u64;

    /// Looks up where a word is that will be accessed several times, or when there is no time for
    /// that any more.
    fn locate<W: Word>(&self, at: ScrAddr<W>) -> Self::Located<'_, W>;

    /// Reads a word.
    #[track_caller]
    fn load<W: Word>(&self, at: ScrAddr<W>) -> W;

    /// Writes a word. Other hosts may see it some time later, though in order, and before any later
    /// read-modify-write of this host takes effect.
    #[track_caller]
    fn store<W: Word>(&self, at: ScrAddr<W>, value: W);

    /// Replaces `current` by `new` in one step; the error is what stood there instead.
    #[track_caller]
    fn compare_exchange<W: Word>(
        &self,
        site: Site,
        at: ScrAddr<W>,
        current: W,
        new: W,
    ) -> Result<W, W>;

    /// Changes a word in one step and returns what stood there before.
    #[track_caller]
    fn fetch<W: Word>(&self, site: Site, at: ScrAddr<W>, op: FetchOp, operand: W) -> W;

    /// Copies bytes into a private buffer through this host's caches. The bytes may be stale, and
    /// torn if somebody writes them meanwhile: validate before use. Completed before any later
    /// operation of this thread.
    #[track_caller]
    fn read(&self, from: LnrAddr, into: &mut [u8]);

    /// Appends `bytes` bytes to `to`, as read by [`read`](Self::read); where memory is mapped no
    /// room is filled before.
    #[track_caller]
    #[inline]
    fn append(&self, from: LnrAddr, bytes: u64, to: &mut Vec<u8>) {
        let before = to.len();
        to.resize(before + bytes as usize, 0);
        self.read(from, &mut to[before..]);
    }

    /// The 16 bytes there, and whether `behind` follows them; as read by [`read`](Self::read), but
    /// where memory is mapped nothing is copied to be compared.
    #[track_caller]
    #[inline]
    fn read_before(&self, from: LnrAddr, behind: &[u8]) -> ([u8; 16], bool) {
        let mut bytes = vec![0; 16 + behind.len()];
        self.read(from, &mut bytes);
        let (first, rest) = bytes.split_first_chunk().expect("there are 16");
        (*first, rest == behind)
    }

    /// Shows bytes where they lie, if this host's caches can be looked into, and else as they are
    /// now.
    ///
    /// The protocol above sees to it that no host writes them for as long as they are borrowed, and
    /// that this host has no stale line of them: the compiler takes them for what they were,
    /// whenever it looks.
    #[track_caller]
    fn view(&self, from: LnrAddr, bytes: u64) -> Cow<'_, [u8]> {
        let mut copy = Vec::new();
        self.append(from, bytes, &mut copy);
        Cow::Owned(copy)
    }

    /// Bytes to be written where they lie, if this host's caches can be looked into; `None` else.
    ///
    /// The protocol above sees to it that no thread of any host writes them, or relies on what it
    /// reads of them, for as long as they are borrowed, and that nobody borrows them meanwhile.
    #[allow(clippy::mut_from_ref, reason = "shared memory is the protocol's to hand out")]
    fn view_mut(&self, at: LnrAddr, bytes: u64) -> Option<&mut [u8]> {
        let _ = (at, bytes);
        None
    }

    /// These lines will be read soon: they may be fetched meanwhile, as any line may at any time.
    #[inline]
    fn prefetch(&self, lines: Lines) {
        let _ = lines;
    }

    /// These lines will be written soon, after the first one was read: so many bytes at once, or
    /// any number if that is 0.
    #[inline]
    fn prefetch_to_write(&self, lines: Lines, bytes: usize) {
        let _ = (lines, bytes);
    }

    /// This word will be loaded soon.
    #[inline]
    fn prefetch_word<W: Word>(&self, at: ScrAddr<W>) {
        let _ = at;
    }

    /// Copies bytes from a private buffer into this host's caches; other hosts see them once they
    /// are cleaned, or at any earlier time. They may go to memory at once; even so other threads of
    /// this host see them before what this thread does later only if it cleans them, or does a
    /// read-modify-write, in between.
    #[track_caller]
    fn write(&self, to: LnrAddr, bytes: &[u8]);

    /// As [`write`](Self::write), of several; what lies behind the bytes in the last line of each
    /// means nothing to anybody, and may change.
    #[track_caller]
    #[inline]
    fn write_all<'a>(&self, writes: impl Iterator<Item = (LnrAddr, &'a [u8])> + Clone)
    where
        Self: Sized,
    {
        for (to, bytes) in writes {
            self.write(to, bytes);
        }
    }

    /// Writes dirty lines back; they are in memory, and fenced, when this returns. Protocols use
    /// [`publish`](Self::publish).
    #[track_caller]
    fn clean(&self, site: Site, lines: Lines);

    /// As [`clean`](Self::clean), of several: a thread that has to wait waits once.
    #[track_caller]
    #[inline]
    fn clean_all(&self, site: Site, lines: impl IntoIterator<Item = Lines>)
    where
        Self: Sized,
    {
        for lines in lines {
            self.clean(site, lines);
        }
    }

    /// Prepares a value that will be written whole: works out beforehand what can be, if there is
    /// `time` for that.
    fn prepare<'a>(&'a self, value: Whole<'a>, time: bool) -> Self::Prepared<'a>;

    /// Writes what takes the place of objects, each as [`write`](Self::write) does, and cleans
    /// their lines as [`clean_all`](Self::clean_all) does. Protocols use
    /// [`publish_whole`](Self::publish_whole).
    #[track_caller]
    fn write_whole(&self, site: Site, values: &[Self::Prepared<'_>]);

    /// Drops lines from this host's caches; later reads see memory as of now or newer. A dirty line
    /// is written back. Protocols use [`consume`](Self::consume).
    #[track_caller]
    fn invalidate(&self, site: Site, lines: Lines);

    /// Whether this host has met a memory error in these lines. Its reads of them since then do not
    /// return what was written there, and other hosts may never see its writes there. That does not
    /// end: nobody heals a line.
    #[inline]
    fn poisoned(&self, lines: Lines) -> bool {
        let _ = lines;
        false
    }

    /// From here on this host asks, after it has read from `lines` and before it relies on having
    /// written there, whether they are [`poisoned`](Self::poisoned): a memory error costs what lies
    /// there. In all other memory it ends the process. The lines of all calls count, of up to 16
    /// different ones.
    #[inline]
    fn survives_poison(&self, lines: Lines) {
        let _ = lines;
    }

    /// Has the system put memory behind these lines, in huge pages if it can; `false` if it has no
    /// more. A protocol asks before it first writes to lines that may have none. Bytes that
    /// lie there stay as they are.
    #[track_caller]
    fn populate(&self, lines: Lines) -> bool {
        let _ = lines;
        true
    }

    /// Gives the memory behind these lines back to the system, for all hosts; whether it took it.
    /// Whole pages of it are zeros from then on, until some host [populates](Self::populate) and
    /// writes them. The caller owns the lines, and none is dirty anywhere.
    #[track_caller]
    fn discard(&self, lines: Lines) -> bool {
        let _ = lines;
        false
    }

    /// Called in every round of a loop that waits for another thread or host.
    #[track_caller]
    fn pause(&self);

    /// Waits for as long as so many pauses take, so as not to be in the way of the thread that is
    /// waited for; where nothing takes time, one is as good as many.
    #[track_caller]
    fn back_off(&self, pauses: u32) {
        let _ = pauses;
        self.pause();
    }

    /// Waits for so long, as by pausing again and again.
    fn sleep(&self, time: Duration) {
        let until = self.uptime() + time;
        while self.uptime() < until {
            self.pause();
        }
    }

    /// Stands before a step on state shared by the threads of this host, such as a
    /// compare-and-swap in an index entry, so that the simulator can switch threads there.
    #[track_caller]
    fn step(&self) {}

    /// Whether this host is dead: then nothing that it does has an effect, and what it waits for
    /// does not come. Only a simulated thread, which is being unwound, is there to be told.
    #[inline]
    fn is_gone(&self) -> bool {
        false
    }

    /// This host's wall clock in milliseconds since the Unix epoch. Hosts may disagree.
    fn wall_clock_ms(&self) -> u64;

    /// A clock that never goes back, for timeouts on this host.
    fn uptime(&self) -> Duration;

    /// A random number.
    fn random(&self) -> u64;

    /// The process that this host runs in.
    fn process(&self) -> Process;

    /// The same, which from here on holds the lock with this number for as long as it has this
    /// memory, if the memory has such locks.
    fn process_holding(&self, number: u32) -> Process {
        let _ = number;
        self.process()
    }

    /// Whether this process is a child of the one that has this memory, and has nothing of it:
    /// words of SCR are none that a host stores, and lines of LNR are zeros, for this process
    /// alone.
    fn is_forked(&self) -> bool {
        false
    }

    /// Whether the end of a process would be known: that [`has_ended`](Self::has_ended) denies it
    /// means that it lives.
    fn would_know(&self, process: Process) -> bool {
        let _ = process;
        false
    }

    /// Where this memory is, as a command line names it.
    fn place(&self) -> String {
        "POD".to_owned()
    }

    /// Whether a process is known to have ended, or to have let go of this memory: then nothing
    /// that it did there is still under way. Evidence that cannot be read, or not be compared,
    /// proves nothing.
    fn has_ended(&self, process: Process) -> bool;

    /// Whether a process is known to have something to do: a thread of it has a processor, or waits
    /// for one.
    fn is_running(&self, process: Process) -> bool {
        let _ = process;
        false
    }

    /// From here on `lines` are this host's to write; what they hold counts.
    #[track_caller]
    #[inline]
    fn takes(&self, lines: Lines) {
        let _ = lines;
    }

    /// From here on `lines` are this host's to write; nobody wants what they hold.
    #[track_caller]
    #[inline]
    fn takes_blank(&self, lines: Lines) {
        let _ = lines;
    }

    /// From here on `lines` are not this host's to write any more. All it wrote there is in memory,
    /// and the first `bytes` bytes are what others may rely on.
    #[track_caller]
    #[inline]
    fn gives(&self, lines: Lines, bytes: u64) {
        let _ = (lines, bytes);
    }

    /// From here on this host writes no line.
    #[track_caller]
    #[inline]
    fn gives_all(&self) {}

    /// Names this moment, for [`relies_on`](Self::relies_on).
    #[inline]
    fn moment(&self) -> Moment {
        Moment::default()
    }

    /// From here on this thread uses the bytes that it has read here since `since`. They must not
    /// have been out of date at that moment.
    #[track_caller]
    #[inline]
    fn relies_on(&self, from: LnrAddr, bytes: u64, since: Moment) {
        let _ = (from, bytes, since);
    }

    /// This thread does a step that takes a processor's time.
    #[inline]
    fn works(&self, work: Work) {
        let _ = work;
    }

    /// This thread reads, or writes, lines of its host's own memory. Each part of that memory has
    /// lines of its own, numbered below 2^40.
    #[inline]
    fn touches(&self, what: Local, write: bool, lines: impl FnOnce() -> Range<u64>) {
        let _ = (what, write, lines);
    }

    /// Whether the step at `site` is to be done: always, except where the simulator takes it out.
    #[inline]
    fn keeps(&self, site: Site) -> bool {
        let _ = site;
        true
    }

    /// A check that `site` names: whether `condition` holds, or the check is taken out.
    #[track_caller]
    #[inline]
    fn check(&self, site: Site, condition: bool) -> bool {
        condition || !self.keeps(site)
    }

    /// Makes the bytes in `lines` visible to all hosts, then runs `announce`, which changes SCR.
    #[track_caller]
    #[inline]
    fn publish<R>(
        &self,
        site: Site,
        lines: impl IntoIterator<Item = Lines>,
        announce: impl FnOnce(&Self) -> R,
    ) -> R
    where
        Self: Sized,
    {
        self.clean_all(site, lines);
        announce(self)
    }

    /// Writes values whole, makes them visible to all hosts, then runs `announce`, which changes
    /// SCR: as [`publish`](Self::publish) of what was written before, but for less.
    #[track_caller]
    #[inline]
    fn publish_whole<R>(
        &self,
        site: Site,
        values: &[Self::Prepared<'_>],
        announce: impl FnOnce(&Self) -> R,
    ) -> R
    where
        Self: Sized,
    {
        self.write_whole(site, values);
        announce(self)
    }

    /// Runs `observe`, which reads SCR and says which lines its finding makes doubtful; reads after
    /// this see those lines at least as new as what was observed.
    #[track_caller]
    #[inline]
    fn consume<R, L>(&self, site: Site, observe: impl FnOnce(&Self) -> (R, L)) -> R
    where
        Self: Sized,
        L: IntoIterator<Item = Lines>,
    {
        let (found, doubtful) = observe(self);
        for lines in doubtful {
            self.invalidate(site, lines);
        }
        found
    }
}
