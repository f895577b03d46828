//! Which objects a host is changing in place: what is torn if it dies.
//!
//! Before a writer stores into an object whose lock it has, it notes the object's record in a word of its own in
//! SCR; after it has released the lock, it clears the word. Whose lock it is the record says. So an object
//! that a dead host had locked is torn if there is such a note, and whole if there is none.
//!
//! Where writes can be undone ([`TornWrites::Undo`](tombolo_pod::TornWrites)), each word has some bytes in LNR, into which the
//! object is copied before the note is made. Objects that are larger are not changed in place.
//!
//! Who takes over the lock of a dead host, to clear up, notes before whose it was: if it dies, too, that host's
//! own note still tells.
//!
//! ```text
//! word    line of the slot, low bits (24) | host whose lock it was, plus one (8) | record + 1 (32)
//! undo    checksum of the rest (4 bytes) | bytes of the object (4) | line of its slot (8) | object
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_memory::{LINE_BYTES, Lines, LnrAddr, Memory, ScrAddr};
use tombolo_pod::Pod;

use crate::event::SlotLine;
use crate::records::Record;
use crate::sites;

/// A word for a write that this host has under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u64);

/// What a host has noted of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// It changes the object in place.
    Writes { undo: LnrAddr, slot: u64 },
    /// It has taken over the lock of this host.
    TookOver { from: u8 },
}

pub(crate) struct Underway<M> {
    memory: M,
    words: ScrAddr<u64>,
    per_host: u64,
    undo: LnrAddr,
    undo_bytes: u64,
    host: u8,
    hosts: u8,
    /// A bit per word of this host that no thread uses.
    unused: Box<[AtomicU64]>,
}

const UNDO_PREFIX: u64 = 16;
const SLOT_SHIFT: u32 = 40;

impl<M: Memory> Underway<M> {
    pub(crate) fn new(pod: &Pod<M>, host: u8) -> Self {
        let (areas, geometry) = (pod.areas(), pod.geometry());
        let per_host = geometry.writes;
        let free =
            |word: u64| AtomicU64::new(u64::MAX >> 64u64.saturating_sub(per_host - 64 * word));
        Self {
            memory: pod.memory().clone(),
            words: areas.writes,
            per_host,
            undo: areas.undo,
            undo_bytes: geometry.undo_bytes,
            host,
            hosts: areas.host_count,
            unused: (0..per_host.div_ceil(64)).map(free).collect(),
        }
    }

    /// Nothing is under way in this seat: what there is was its last holder's.
    pub(crate) fn clear_all(&self) {
        (0..self.per_host).for_each(|index| self.memory.store(self.word(self.host, index), 0));
    }

    /// A word for one write; `None` while all are in use.
    pub(crate) fn reserve(&self) -> Option<Place> {
        self.unused.iter().zip(0u64..).find_map(|(unused, number)| {
            let take = |bits: u64| (bits != 0).then(|| bits & (bits - 1));
            let found = unused.fetch_update(Ordering::Acquire, Ordering::Relaxed, take).ok()?;
            Some(Place(64 * number + u64::from(found.trailing_zeros())))
        })
    }

    /// Whether objects of so many bytes may be changed in place.
    pub(crate) fn may_change(&self, bytes: u64) -> bool {
        self.undo_bytes == 0 || UNDO_PREFIX + bytes <= self.undo_bytes
    }

    /// Whether what a write overwrites is noted, too.
    pub(crate) fn is_undone(&self) -> bool {
        self.undo_bytes > 0
    }

    /// Notes that the object with `record` is about to be changed, before anything of it is.
    pub(crate) fn note_write(&self, place: Place, record: Record, slot: SlotLine) {
        if self.memory.keeps(sites::WRITE_NOTED) {
            let word = slot << SLOT_SHIFT | (u64::from(record) + 1);
            self.memory.store(self.word(self.host, place.0), word);
        }
    }

    /// Notes first what will be overwritten.
    pub(crate) fn note_undo(&self, place: Place, record: Record, slot: SlotLine, object: &[u8]) {
        let mut bytes = vec![0; UNDO_PREFIX as usize];
        bytes[4..8].copy_from_slice(&(object.len() as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&slot.to_le_bytes());
        bytes.extend_from_slice(object);
        let checksum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        let at = self.undo_of(self.host, place.0);
        let lines = Lines::covering(at, bytes.len() as u64);
        self.memory.takes_blank(lines);
        self.memory.write(at, &bytes);
        self.memory.publish(sites::UNDO_CLEAN, [lines], |memory| {
            memory.gives(lines, bytes.len() as u64);
            self.note_write(place, record, slot);
        });
    }

    /// Notes whose lock is about to be taken over.
    pub(crate) fn note_taken(&self, place: Place, record: Record, from: u8) {
        let word = (u64::from(from) + 1) << 32 | (u64::from(record) + 1);
        self.memory.store(self.word(self.host, place.0), word);
    }

    /// The write is over, and its lock released.
    pub(crate) fn end(&self, place: Place, noted: bool) {
        if noted {
            self.memory.store(self.word(self.host, place.0), 0);
        }
        self.unused[place.0 as usize / 64].fetch_or(1 << (place.0 % 64), Ordering::Release);
    }

    /// Where the write was noted that has torn the object with `record` in `slot`, whose lock `holder` has: if
    /// it was torn.
    pub(crate) fn torn(&self, holder: u8, record: Record, slot: SlotLine) -> Option<LnrAddr> {
        let mut host = holder;
        for _ in 0..self.hosts {
            let mut notes = self.notes(host);
            match notes.find_map(|(of, note)| (of == record).then_some(note))? {
                // It was in another slot when it was being changed.
                Note::Writes { slot: of, .. } if of != (slot << SLOT_SHIFT) >> SLOT_SHIFT => {
                    return None;
                }
                Note::Writes { undo, .. } => return Some(undo),
                Note::TookOver { from } => host = from,
            }
        }
        None
    }

    /// Records whose locks others have noted to have taken over from `host`, and who.
    pub(crate) fn taken_over(&self, host: u8) -> impl Iterator<Item = (Record, u8)> {
        let from = move |by: u8| {
            let theirs =
                self.notes(by).filter(move |(_, note)| *note == Note::TookOver { from: host });
            theirs.map(move |(record, _)| (record, by))
        };
        (0..self.hosts).filter(move |&by| by != host).flat_map(from)
    }

    fn notes(&self, host: u8) -> impl Iterator<Item = (Record, Note)> {
        (0..self.per_host).filter_map(move |index| {
            let word = self.memory.load(self.word(host, index));
            let record = (word as u32).checked_sub(1)?;
            let note = match (word >> 32 & 0xff).checked_sub(1) {
                Some(from) => Note::TookOver { from: from as u8 },
                None => Note::Writes { undo: self.undo_of(host, index), slot: word >> SLOT_SHIFT },
            };
            Some((record, note))
        })
    }

    /// The object as it was before the write that was noted at `undo`, if it was the one in `slot`.
    pub(crate) fn undone(&self, undo: LnrAddr, slot: SlotLine) -> Option<Vec<u8>> {
        let memory = &self.memory;
        let since = memory.moment();
        let lines = Lines::covering(undo, self.undo_bytes);
        memory.consume(sites::UNDO_INVALIDATE, |_| ((), [lines]));
        let mut prefix = [0; UNDO_PREFIX as usize];
        memory.read(undo, &mut prefix);
        let (_, rest) = prefix.split_first_chunk::<4>()?;
        let (bytes, of) = rest.split_first_chunk()?;
        let bytes = UNDO_PREFIX + u64::from(u32::from_le_bytes(*bytes));
        if u64::from_le_bytes(*of.first_chunk()?) != slot || bytes > self.undo_bytes {
            return None;
        }
        let mut all = vec![0; bytes as usize];
        memory.read(undo, &mut all);
        memory.relies_on(undo, bytes, since);
        let whole = crc32c::crc32c(&all[4..]).to_le_bytes() == all[..4];
        whole.then(|| all.split_off(UNDO_PREFIX as usize))
    }

    fn word(&self, host: u8, index: u64) -> ScrAddr<u64> {
        self.words.element(u64::from(host) * self.per_host + index)
    }

    fn undo_of(&self, host: u8, index: u64) -> LnrAddr {
        let number = u64::from(host) * self.per_host + index;
        self.undo.plus(number * self.undo_bytes.next_multiple_of(LINE_BYTES))
    }
}
