//! Slots in LNR.
//!
//! A host takes chunks from the pod's table and divides them for good. A slot is its host's until
//! an object in it is another's; the host that frees a slot has it from then on. So slots need no
//! messages, but a host that only deletes piles them up. A host that has another host's object
//! deleted gets its slot, too.

use std::sync::atomic::{AtomicU8, Ordering};

use tombolo_memory::{HostMutex, LINE_BYTES, Lines, Memory, ScrAddr};
use tombolo_sharing::ObjectArea;
use tombolo_sharing::{Classes, Error, UNDIVIDED};

use super::sites;

/// The state of a chunk that is divided and that nobody alone gives slots out of, as MEGALON has
/// it.
const SHARED: u64 = 2;

pub(crate) struct Space<M: Memory> {
    memory: M,
    table: ScrAddr<u64>,
    first_line: u64,
    chunks: u64,
    classes: Classes,
    free: HostMutex<M, Free>,
    /// The class of each chunk, once it is known: it never changes.
    known: Box<[AtomicU8]>,
}

/// The room that this host may give out.
struct Free {
    /// Slots by class.
    slots: Vec<Vec<u64>>,
    /// The chunk to look at next.
    next_chunk: u64,
}

impl<M: Memory> Space<M> {
    pub(crate) fn new(area: &ObjectArea<M>, host: u8, hosts: u8) -> Self {
        let geometry = area.geometry();
        let classes = Classes::new(geometry.chunk_bytes);
        let free = Free {
            slots: vec![Vec::new(); classes.count()],
            next_chunk: geometry.chunks / u64::from(hosts) * u64::from(host),
        };
        Self {
            memory: area.memory().clone(),
            table: area.areas().chunk_table,
            first_line: area.areas().chunks.line(),
            chunks: geometry.chunks,
            classes,
            free: HostMutex::<M, _>::new(free),
            known: (0..geometry.chunks).map(|_| AtomicU8::new(UNDIVIDED)).collect(),
        }
    }

    /// Bytes that are in use, as far as this host knows, and of all: those of the chunks that are
    /// divided, without the slots that it can give out.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let bytes = self.classes.chunk_lines() * LINE_BYTES;
        let divided = (0..self.chunks).filter(|&chunk| self.word(chunk) != 0).count() as u64;
        let of_class = |(class, slots): (u8, &Vec<u64>)| {
            slots.len() as u64 * self.classes.slot_lines(class).unwrap_or(0) * LINE_BYTES
        };
        let free: u64 = (0..).zip(&self.free.lock().slots).map(of_class).sum();
        ((divided * bytes).saturating_sub(free), self.chunks * bytes)
    }

    /// The class of slots for `bytes` bytes.
    pub(crate) fn class_for(&self, bytes: u64) -> Result<u8, Error> {
        let most = self.classes.chunk_lines() * LINE_BYTES;
        self.classes.class_for(bytes).ok_or(Error::TooLarge { bytes, most })
    }

    /// The first line of a slot for `bytes` bytes: if need be a larger one, since chunks are never
    /// divided anew.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<u64, Error> {
        let class = self.class_for(bytes)?;
        let mut free = self.free.lock();
        if free.slots[usize::from(class)].is_empty() {
            self.divide_another(&mut free, class);
        }
        let large_enough = &mut free.slots[usize::from(class)..];
        large_enough.iter_mut().find_map(Vec::pop).ok_or(Error::LnrFull { bytes })
    }

    /// Takes a chunk that is free, if there is one.
    fn divide_another(&self, free: &mut Free, class: u8) {
        let start = free.next_chunk;
        for chunk in (start..start + self.chunks).map(|chunk| chunk % self.chunks) {
            // All slots are prepared, as MEGALON has it.
            let slots = self.classes.slots(class).unwrap_or(0);
            let divided = SHARED << 56 | u64::from(class) << 40 | slots;
            let at = self.table.element(chunk);
            let is_free = self.memory.load(at) == 0;
            if is_free && self.memory.compare_exchange(sites::CHUNK_CLAIM, at, 0, divided).is_ok() {
                let first = self.first_line + chunk * self.classes.chunk_lines();
                if !self.memory.populate(Lines::new(first, self.classes.chunk_lines())) {
                    self.memory.store(at, 0);
                    return;
                }
                free.next_chunk = (chunk + 1) % self.chunks;
                // The first one is given out first.
                free.slots[usize::from(class)].extend(self.slots_of(chunk).into_iter().rev());
                return;
            }
        }
    }

    /// Takes a slot back.
    pub(crate) fn free(&self, line: u64) {
        let Some(class) = self.class_of(self.chunk_of(line)) else { return };
        self.free.lock().slots[usize::from(class)].push(line);
    }

    /// All slots that this host could give out.
    pub(crate) fn take_all_free(&self) -> Vec<u64> {
        self.free.lock().slots.iter_mut().flat_map(std::mem::take).collect()
    }

    /// The lines of the slot that begins at `line`, if there can be one.
    #[inline]
    pub(crate) fn lines(&self, line: u64) -> Option<Lines> {
        let offset = line.checked_sub(self.first_line)?;
        let lines = self.classes.slot_lines(self.class_of(self.chunk_of(line))?)?;
        let within = offset % self.classes.chunk_lines();
        let sound = within.is_multiple_of(lines) && within + lines <= self.classes.chunk_lines();
        sound.then(|| Lines::new(line, lines))
    }

    fn chunk_of(&self, line: u64) -> u64 {
        (line - self.first_line) / self.classes.chunk_lines()
    }

    fn class_of(&self, chunk: u64) -> Option<u8> {
        let known = self.known.get(chunk as usize)?;
        let class = known.load(Ordering::Relaxed);
        if class != UNDIVIDED {
            return Some(class);
        }
        let class = (self.word(chunk) >> 40) as u8;
        known.store(class, Ordering::Relaxed);
        (class != UNDIVIDED).then_some(class)
    }

    /// The numbers of all chunks.
    pub(crate) fn chunks(&self) -> std::ops::Range<u64> {
        0..self.chunks
    }

    fn word(&self, chunk: u64) -> u64 {
        self.memory.load(self.table.element(chunk))
    }

    /// Whether a chunk of a pod at rest is divided into slots, or free.
    pub(crate) fn is_usable(&self, chunk: u64) -> bool {
        let word = self.word(chunk);
        word == 0 || word >> 56 == SHARED && self.classes.slots((word >> 40) as u8).is_some()
    }

    /// The first lines of all slots of a chunk.
    pub(crate) fn slots_of(&self, chunk: u64) -> Vec<u64> {
        let Some(class) = self.class_of(chunk) else { return Vec::new() };
        let lines = self.classes.slot_lines(class).unwrap_or(1);
        let start = self.first_line + chunk * self.classes.chunk_lines();
        (0..self.classes.slots(class).unwrap_or(0)).map(|slot| start + slot * lines).collect()
    }
}
