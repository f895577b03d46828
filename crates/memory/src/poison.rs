//! Memory errors: a line that a processor cannot read any more costs the bytes there, and not the
//! process.
//!
//! The kernel says by SIGBUS that a page of a mapping is poisoned, or is not there any more. The
//! handler puts a private page of zeros in its place, notes that in the mapping's own bits, and
//! lets the instruction go on: so copies run to their end, and a reader asks afterwards
//! ([`Memory::poisoned`](crate::Memory::poisoned)). From then on no other process sees this one's
//! stores there.
//!
//! Only lines of which somebody asks so are given up like this
//! ([`Memory::survives_poison`](crate::Memory::survives_poison)). An error anywhere else in a
//! mapping is the end of the host; the program chooses what becomes of the process
//! ([`OnMemoryError`]). Other hosts go on without it. A fault outside all mappings goes to the
//! handler that was there before.
//!
//! **In a signal handler** nothing but atomics, and system calls: mappings are in a list that only
//! grows, whose nodes are used again.
#![allow(unsafe_code)]

use std::fmt::{self, Write};
use std::io;
use std::os::fd::RawFd;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Once, OnceLock};

use libc::{c_int, c_void, siginfo_t};
use rustix::mm::{MapFlags, ProtFlags};

use crate::fork;

/// Codes of a SIGBUS, as the kernel has them: there is no such page; hardware says so; there is
/// poison where a processor reads; there is poison somewhere.
const ERRORS: [c_int; 4] = [2, 3, 4, 5];
const CODES_WITH_SIZE: [c_int; 2] = [4, 5];
/// Where in a `siginfo_t` the kernel says how large the poisoned page is, as a power of two.
const SIZE_AT: usize = 24;
/// The exit code: a memory error in SCR, the log or mail ended the host.
// `sysexits.h` has it for errors of input and output.
const EXIT_CODE: c_int = 74;

const BITS: usize = u64::BITS as usize;

/// Ranges of a mapping in which errors are survived: the windows of a pod, and each of its areas.
const RANGES: usize = 16;

/// Pages that are poisoned, in all mappings: as long as there are none, nobody has to look for
/// them.
static PAGES: AtomicU64 = AtomicU64::new(0);

/// The effect of a memory error that a host cannot go on with: one in SCR, the log or mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMemoryError {
    /// The handler of SIGBUS that the program had before it mapped a pod gets it: by default the
    /// system's, which ends the process.
    #[default]
    PassOn,
    /// The process says so on its standard error, and ends with exit code 74. No destructor runs.
    EndProcess,
    /// No handler is installed: an error in the memory of one object is the program's, too.
    /// It has to be chosen before a pod is mapped.
    NoHandler,
}

/// The choice, as a number.
static CHOSEN: AtomicU8 = AtomicU8::new(OnMemoryError::PassOn as u8);

/// Chooses what a memory error does, in all mappings of this process. Programs that embed hosts
/// have the choice; the command `tombolo` ends the process.
pub fn on_memory_error(chosen: OnMemoryError) {
    CHOSEN.store(chosen as u8, Ordering::Relaxed);
}

fn is_chosen(what: OnMemoryError) -> bool {
    CHOSEN.load(Ordering::Relaxed) == what as u8
}

static MAPPINGS: AtomicPtr<Mapping> = AtomicPtr::new(null_mut());
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Addresses that this process has mapped, and what is poisoned there.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: AtomicUsize,
    /// 0 while nobody uses this.
    bytes: AtomicUsize,
    page: AtomicUsize,
    /// From which address to which one an error does not end the process.
    survives: [[AtomicUsize; 2]; RANGES],
    /// From which address to which one SCR is.
    scr: [AtomicUsize; 2],
    /// The descriptor of the file; -1 if there is none.
    file: AtomicI32,
    /// A bit per page.
    poisoned: AtomicPtr<AtomicU64>,
    taken: AtomicBool,
    next: AtomicPtr<Mapping>,
}

impl Mapping {
    /// Notes that the `bytes` bytes from `base` on are mapped, in pages of `page` bytes.
    /// They are of `file`, if of any.
    pub(crate) fn note(
        base: usize,
        bytes: usize,
        page: usize,
        file: Option<RawFd>,
    ) -> io::Result<&'static Self> {
        if !is_chosen(OnMemoryError::NoHandler) {
            install();
        }
        fork::watch();
        let mapping = Self::unused();
        let bits = bits_bytes(bytes, page);
        let (access, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: the kernel chooses the place, so no mapping of ours is replaced.
        let poisoned = unsafe { rustix::mm::mmap_anonymous(null_mut(), bits, access, flags) }
            .inspect_err(|_| mapping.taken.store(false, Ordering::Release))?;
        mapping.base.store(base, Ordering::Relaxed);
        mapping.page.store(page, Ordering::Relaxed);
        mapping.poisoned.store(poisoned.cast(), Ordering::Relaxed);
        let ranges = mapping.survives.iter().flatten().chain(&mapping.scr);
        ranges.for_each(|address| address.store(0, Ordering::Relaxed));
        mapping.file.store(file.unwrap_or(-1), Ordering::Relaxed);
        // With the load in `around`: a thread that finds it finds the rest of it.
        mapping.bytes.store(bytes, Ordering::Release);
        Ok(mapping)
    }

    /// The addresses are mapped no more.
    pub(crate) fn forget(&self) {
        let bytes = self.bytes.swap(0, Ordering::AcqRel);
        let bits = bits_bytes(bytes, self.page.load(Ordering::Relaxed));
        let pages = (0..bits / 8).map(|word| self.word(word).load(Ordering::Relaxed).count_ones());
        if PAGES.load(Ordering::Relaxed) > 0 {
            PAGES.fetch_sub(pages.map(u64::from).sum(), Ordering::Relaxed);
        }
        // SAFETY: our own mapping, and who asks for its bits has a region, which this is the end
        // of.
        let _ = unsafe { rustix::mm::munmap(self.poisoned.load(Ordering::Relaxed).cast(), bits) };
        self.taken.store(false, Ordering::Release);
    }

    /// A node that nobody uses.
    fn unused() -> &'static Self {
        if let Some(unused) = all().find(|mapping| !mapping.taken.swap(true, Ordering::Acquire)) {
            return unused;
        }
        let new = Box::leak(Box::new(Self {
            base: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            page: AtomicUsize::new(1),
            survives: [const { [const { AtomicUsize::new(0) }; 2] }; RANGES],
            scr: [const { AtomicUsize::new(0) }; 2],
            file: AtomicI32::new(-1),
            poisoned: AtomicPtr::new(null_mut()),
            taken: AtomicBool::new(true),
            next: AtomicPtr::new(null_mut()),
        }));
        let mut first = MAPPINGS.load(Ordering::Acquire);
        loop {
            new.next.store(first, Ordering::Relaxed);
            match MAPPINGS.compare_exchange(first, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return new,
                Err(found) => first = found,
            }
        }
    }

    /// SCR is the `bytes` bytes at `address`, or the first pages of the mapping that hold them.
    pub(crate) fn note_scr(&self, address: usize, bytes: u64) {
        let end = self.base.load(Ordering::Relaxed) + self.bytes.load(Ordering::Relaxed);
        let to = (address + bytes as usize).next_multiple_of(rustix::param::page_size()).min(end);
        self.scr[0].store(address, Ordering::Relaxed);
        self.scr[1].store(to, Ordering::Relaxed);
    }

    /// In a child of `fork()`: what is mapped is its parent's alone.
    pub(crate) fn leave_to_parent(&self) {
        let bytes = self.bytes.load(Ordering::Acquire);
        if bytes > 0 {
            let [from, to] = [0, 1].map(|number| self.scr[number].load(Ordering::Relaxed));
            fork::replace(self.base.load(Ordering::Relaxed), bytes, (from, to));
            let file = self.file.load(Ordering::Relaxed);
            if file >= 0 {
                fork::give_up(file);
            }
        }
    }

    /// An error in the `bytes` bytes at `address` costs what lies there, and not the process.
    ///
    /// # Panics
    /// If there are more such ranges than a pod has parts.
    pub(crate) fn survive(&self, address: usize, bytes: u64) {
        let (least, most) = (address, address + bytes as usize);
        let takes = |[start, end]: &[AtomicUsize; 2]| {
            let free = start.compare_exchange(0, least, Ordering::AcqRel, Ordering::Acquire);
            let ours = free.is_ok() || free == Err(least);
            if ours {
                // Until then the range is empty.
                end.fetch_max(most, Ordering::AcqRel);
            }
            ours
        };
        assert!(self.survives.iter().any(takes), "a mapping has more than {RANGES} such ranges");
    }

    fn does_survive(&self, from: usize, to: usize) -> bool {
        self.survives.iter().any(|range| {
            let [least, most] = [0, 1].map(|number| range[number].load(Ordering::Relaxed));
            least != 0 && from >= least && to <= most
        })
    }

    /// Whether one of the pages is poisoned on which the `bytes` bytes at `address` lie.
    #[cold]
    pub(crate) fn is_poisoned(&self, address: usize, bytes: u64) -> bool {
        let (start, page) = (self.base.load(Ordering::Relaxed), self.page.load(Ordering::Relaxed));
        let from = address - start;
        let pages = from / page..(from + bytes as usize).div_ceil(page);
        pages
            .into_iter()
            .any(|page| self.word(page / BITS).load(Ordering::Relaxed) >> (page % BITS) & 1 == 1)
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        // SAFETY: callers name words of pages of this mapping, for which there are bits as long as
        // it is noted.
        unsafe { &*self.poisoned.load(Ordering::Relaxed).add(number) }
    }

    /// The mapping in which `address` is.
    fn around(address: usize) -> Option<&'static Self> {
        all().find(|mapping| {
            let bytes = mapping.bytes.load(Ordering::Acquire);
            address.wrapping_sub(mapping.base.load(Ordering::Relaxed)) < bytes
        })
    }

    /// Puts zeros in the place of what cannot be read at `address`, in a unit of `size` bytes;
    /// whether that could be done.
    fn give_up(&self, address: usize, size: usize) -> bool {
        let (base, page) = (self.base.load(Ordering::Relaxed), self.page.load(Ordering::Relaxed));
        let end = base + self.bytes.load(Ordering::Relaxed);
        let size = size.max(page);
        let from = (address - address % size).max(base);
        let to = (from - from % size + size).min(end);
        if !self.does_survive(from, to) {
            return false;
        }
        // First the note: a thread that finds zeros there finds it.
        for page in (from - base) / page..(to - base).div_ceil(page) {
            let bit = 1 << (page % BITS);
            if self.word(page / BITS).fetch_or(bit, Ordering::AcqRel) & bit == 0 {
                PAGES.fetch_add(1, Ordering::AcqRel);
            }
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let place = with_exposed_provenance_mut(from);
        // SAFETY: pages of our own mapping, to which there are no references.
        unsafe { rustix::mm::mmap_anonymous(place, to - from, access, flags) }.is_ok()
    }
}

/// Whether any page is poisoned, of whatever mapping.
///
/// Relaxed, since who has read from a page that was replaced, in whatever thread, has done so
/// through a mapping that the kernel changed after this was noted.
#[inline]
pub(crate) fn is_any() -> bool {
    PAGES.load(Ordering::Relaxed) > 0
}

/// Bytes for a bit per page, in whole words.
fn bits_bytes(bytes: usize, page: usize) -> usize {
    bytes.div_ceil(page).div_ceil(BITS).max(1) * 8
}

pub(crate) fn all() -> impl Iterator<Item = &'static Mapping> {
    let mut next = MAPPINGS.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: null, or a node, which lives for ever.
        let found = unsafe { next.as_ref() }?;
        next = found.next.load(Ordering::Acquire);
        Some(found)
    })
}

/// From here on this process gets to know of memory errors in its mappings.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: zeros are a `sigaction`, which is filled in, and `on_error` does only what a
        // handler may.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before);
            let _ = PREVIOUS.set(before);
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_error;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const action, null_mut());
        }
    });
}

extern "C" fn on_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands over a whole `siginfo_t`, which for these codes has an address and a
    // size.
    let (code, address, size) = unsafe {
        let size = info.byte_add(SIZE_AT).cast::<u16>().read();
        ((*info).si_code, (*info).si_addr() as usize, size)
    };
    let found = if ERRORS.contains(&code) { Mapping::around(address) } else { None };
    let Some(mapping) = found else { return pass_on(signal, info, context) };
    let size = if CODES_WITH_SIZE.contains(&code) { 1 << size.min(40) } else { 1 };
    if mapping.give_up(address, size) {
        return;
    }
    if is_chosen(OnMemoryError::EndProcess) {
        end(address - mapping.base.load(Ordering::Relaxed));
    }
    pass_on(signal, info, context);
}

/// Leaves a fault that is none of ours to who would have had it.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let handler = PREVIOUS.get().map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    let takes_info = PREVIOUS.get().is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0);
    // SAFETY: the handler that was installed before is of the kind that its flags say.
    unsafe {
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        } else if takes_info {
            type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
            std::mem::transmute::<usize, Handler>(handler)(signal, info, context);
        } else {
            std::mem::transmute::<usize, extern "C" fn(c_int)>(handler)(signal);
        }
    }
}

/// Ends the process: it has lost what it cannot go on without.
fn end(offset: usize) -> ! {
    let mut message = Message { bytes: [0; 400], length: 0 };
    let _ = writeln!(
        message,
        "tombolo: memory error at byte {offset} of the pod's mapping, where no single object lies but what all of them need \
         (the coherent region, or the log): this host ends. Check the device or file; if other hosts cannot go on either, \
         create the pod anew"
    );
    // SAFETY: the bytes are this message's. No destructor runs, since none may touch the pod.
    unsafe {
        libc::write(libc::STDERR_FILENO, message.bytes.as_ptr().cast(), message.length);
        libc::_exit(EXIT_CODE)
    }
}

/// A message that takes no heap.
struct Message {
    bytes: [u8; 400],
    length: usize,
}

impl Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.length..self.length + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}
