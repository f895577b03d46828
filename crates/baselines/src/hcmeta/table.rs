//! The index and the records in SCR.
//!
//! It lies where MEGALON has its records, and their marks, if there are any. Each host has a part
//! of it, for the objects that it owns, and is the only one to add and remove entries there; all
//! hosts look up and lock them.
//!
//! ```text
//! header   tag | hosts that have come | hosts that leave | ... | a count of objects per host
//! part     sets: fingerprints (4 bytes each), records (4) | entries: line of the slot (4), key
//! ```
//!
//! An entry takes 12 bytes and a key, 52 at keys of 40 bytes. A key that is longer than the table
//! has room for is cut off, a shorter one padded; in any case the whole key, in LNR, decides.

use smallvec::SmallVec;
use tombolo_memory::{LINE_BYTES, Memory, ScrAddr};
use tombolo_sharing::Error;
use tombolo_sharing::ObjectArea;

/// Entries of a set, if there are that many: their fingerprints and records fill a line.
const WAYS: u64 = 8;

const TAG: u64 = u64::from_le_bytes(*b"HCMETA\0\0");
const HEADER_LINES: u64 = 3;

/// The number of an entry among all hosts'.
pub(crate) type EntryNumber = u32;

pub struct Table<M> {
    memory: M,
    start: u64,
    bytes: u64,
    part_bytes: u64,
    hosts: u64,
    sets: u64,
    ways: u64,
    key_words: u64,
}

/// Where an entry's fields are.
struct Fields {
    fingerprint: ScrAddr<u32>,
    record: ScrAddr<u32>,
    object: ScrAddr<u32>,
    key: ScrAddr<u32>,
}

impl<M: Memory> Table<M> {
    /// A table for `hosts` hosts, whose entries have room for keys of `key_bytes` bytes.
    pub(crate) fn new(area: &ObjectArea<M>, hosts: u8, key_bytes: u64) -> Result<Self, Error> {
        let (areas, geometry) = (area.areas(), area.geometry());
        let start = areas.records.offset();
        let tags = areas.tags.element(geometry.tag_bytes());
        let bytes = geometry.record_bytes().max(tags.offset().saturating_sub(start)) / 8 * 8;
        let hosts = u64::from(hosts);
        let key_words = key_bytes.div_ceil(4);
        let lines = (bytes / LINE_BYTES).saturating_sub(HEADER_LINES) / hosts;
        let part_bytes = lines * LINE_BYTES;
        let entry_bytes = 12 + 4 * key_words;
        let entries = part_bytes / entry_bytes;
        let ways = WAYS.min(entries);
        if ways == 0 || hosts * entries > u64::from(u32::MAX) {
            return Err(Error::Setup(format!(
                "SCR has {bytes} bytes for its index, {hosts} hosts need at least {} and at most 2^32 entries",
                (HEADER_LINES + hosts * entry_bytes.div_ceil(LINE_BYTES)) * LINE_BYTES
            )));
        }
        let sets = entries / ways;
        let memory = area.memory().clone();
        Ok(Self { memory, start, bytes, part_bytes, hosts, sets, ways, key_words })
    }

    /// Bytes of SCR of an entry.
    pub(crate) fn entry_bytes(&self) -> u64 {
        12 + 4 * self.key_words
    }

    /// Entries of each host.
    pub(crate) fn entries(&self) -> u64 {
        self.sets * self.ways
    }

    /// Entries of a set.
    pub(crate) fn ways(&self) -> u64 {
        self.ways
    }

    /// Makes an empty table of what is there; the tag comes last.
    pub(crate) fn format(&self) {
        self.clear();
        for number in 0..self.hosts * self.entries() {
            let record = self.fields(number as EntryNumber).record;
            self.memory.store(record, super::record::Layout::UNUSED);
        }
        self.memory.store(self.word(0), self.tag());
    }

    /// Leaves nothing behind that other schemes would take for records.
    pub(crate) fn clear(&self) {
        for word in 0..self.bytes / 8 {
            self.memory.store(self.word(word), 0);
        }
    }

    /// Whether the hosts that are in the pod use a table just like this one.
    pub(crate) fn is_there(&self) -> bool {
        self.memory.load(self.word(0)) == self.tag()
    }

    fn tag(&self) -> u64 {
        TAG ^ self.hosts << 56 ^ self.key_words << 48
    }

    /// Counts the hosts that have come.
    pub(crate) fn come(&self) -> ScrAddr<u64> {
        self.word(1)
    }

    /// Counts the hosts that leave.
    pub(crate) fn left(&self) -> ScrAddr<u64> {
        self.word(2)
    }

    /// Counts the objects that `host` owns.
    pub(crate) fn objects(&self, host: u8) -> ScrAddr<u64> {
        self.word(8 + u64::from(host))
    }

    fn word(&self, number: u64) -> ScrAddr<u64> {
        ScrAddr::new(self.start + 8 * number)
    }

    /// The numbers of the entries that an object of `owner` with this hash may have.
    pub(crate) fn set(&self, owner: u8, hash: u64) -> std::ops::Range<EntryNumber> {
        let set = u64::from(owner) * self.sets + hash % self.sets;
        (set * self.ways) as EntryNumber..((set + 1) * self.ways) as EntryNumber
    }

    /// Entries that look as if they were of an object of `owner` with this hash.
    pub(crate) fn candidates(&self, owner: u8, hash: u64) -> SmallVec<[EntryNumber; 2]> {
        let wanted = fingerprint(hash);
        let looks_right =
            |number: &EntryNumber| self.memory.load(self.fields(*number).fingerprint) == wanted;
        self.set(owner, hash).filter(looks_right).collect()
    }

    /// The record of an entry.
    pub(crate) fn record(&self, number: EntryNumber) -> ScrAddr<u32> {
        self.fields(number).record
    }

    /// Whether the entry has this key, as far as it goes.
    pub(crate) fn has_key(&self, number: EntryNumber, key: &[u8]) -> bool {
        let at = self.fields(number).key;
        (0..self.key_words).all(|word| self.memory.load(at.element(word)) == key_word(key, word))
    }

    /// The line at which the entry's object begins.
    pub(crate) fn object(&self, number: EntryNumber) -> u64 {
        u64::from(self.memory.load(self.fields(number).object))
    }

    /// The entry's object begins at another line: by who has locked it.
    pub(crate) fn set_object(&self, number: EntryNumber, line: u64) {
        self.memory.store(self.fields(number).object, line as u32);
    }

    /// Fills an entry whose record is locked, and then releases the record as `record`.
    pub(crate) fn fill(&self, number: EntryNumber, hash: u64, key: &[u8], line: u64, record: u32) {
        let fields = self.fields(number);
        for word in 0..self.key_words {
            self.memory.store(fields.key.element(word), key_word(key, word));
        }
        self.memory.store(fields.object, line as u32);
        self.memory.store(fields.fingerprint, fingerprint(hash));
        self.memory.store(fields.record, record);
    }

    /// Empties an entry, whose record stays locked.
    pub(crate) fn scrub(&self, number: EntryNumber) {
        self.memory.store(self.fields(number).fingerprint, 0);
    }

    fn fields(&self, number: EntryNumber) -> Fields {
        let (host, entry) =
            (u64::from(number) / self.entries(), u64::from(number) % self.entries());
        let part = self.start + HEADER_LINES * LINE_BYTES + host * self.part_bytes;
        let (set, way) = (entry / self.ways, entry % self.ways);
        let of_set = part + 8 * self.ways * set;
        let of_entry = part + 8 * self.ways * self.sets + (4 + 4 * self.key_words) * entry;
        Fields {
            fingerprint: ScrAddr::new(of_set + 4 * way),
            record: ScrAddr::new(of_set + 4 * (self.ways + way)),
            object: ScrAddr::new(of_entry),
            key: ScrAddr::new(of_entry + 4),
        }
    }
}

/// Part of a hash that tells entries of a set apart; never 0, which says that there is none.
fn fingerprint(hash: u64) -> u32 {
    ((hash >> 16) as u32).max(1)
}

/// Four bytes of a key, or of the zeros after it.
fn key_word(key: &[u8], word: u64) -> u32 {
    let rest = key.get(4 * word as usize..).unwrap_or(&[]);
    let mut bytes = [0; 4];
    let length = rest.len().min(4);
    bytes[..length].copy_from_slice(&rest[..length]);
    u32::from_le_bytes(bytes)
}
