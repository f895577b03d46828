//! SCR: words that every host sees alike, some time later.
//!
//! **Fault model.** A host's stores may stay with it for a while; they become visible to others in
//! order, and before anything else by which this host could tell that they have: its next
//! read-modify-write, its next store into LNR, its next full fence, or its waiting. This is total
//! store order, with a host's threads on one core.
//!
//! Where words are not [coherent](crate::Platform::coherent_words), a host has copies of lines. Its
//! loads and read-modify-writes find those, and its stores change them together with memory. A copy
//! stays until it is dropped, once in a while.

use std::collections::{BTreeMap, VecDeque};

use tombolo_memory::{LINE_BYTES, ScrAddr, Word};

/// A host keeps so many stores at most.
const HELD: usize = 8;

/// A copy of a line is dropped before one load in so many.
const STAYS: u64 = 8;

#[derive(Clone, Copy)]
struct Store {
    offset: u32,
    width: u8,
    bits: u64,
}

#[derive(Default)]
pub(crate) struct Scr {
    bytes: Vec<u8>,
    held: Vec<VecDeque<Store>>,
    /// By host, copies of lines; none, where words are coherent.
    copies: Option<Vec<BTreeMap<usize, Vec<u8>>>>,
    loads: u64,
}

impl Scr {
    pub(crate) fn prepare(&mut self, hosts: usize, bytes: usize, coherent: bool, seed: u64) {
        self.copies = (!coherent).then(|| vec![BTreeMap::new(); hosts]);
        self.loads = seed;
        self.bytes.clear();
        self.bytes.resize(bytes, 0);
        self.held.iter_mut().for_each(VecDeque::clear);
        self.held.resize_with(hosts, VecDeque::new);
    }

    /// The word as `host` sees it.
    pub(crate) fn load<W: Word>(&mut self, host: usize, at: ScrAddr<W>) -> W {
        let start = self.check(at);
        let width = size_of::<W>();
        let mut word = [0; 8];
        word[..width].copy_from_slice(self.seen(host, start, width));
        for store in &self.held[host] {
            let (from, bytes) = (store.offset as usize, store.bits.to_le_bytes());
            for (index, byte) in bytes.iter().take(usize::from(store.width)).enumerate() {
                if let Some(place) = (from + index).checked_sub(start).filter(|&at| at < width) {
                    word[place] = *byte;
                }
            }
        }
        W::from_bits(u64::from_le_bytes(word))
    }

    /// The bytes of a word as `host` has them, but for stores that it holds.
    fn seen(&mut self, host: usize, start: usize, width: usize) -> &[u8] {
        let Some(copies) = &mut self.copies else { return &self.bytes[start..start + width] };
        let line = start - start % LINE_BYTES as usize;
        self.loads = self.loads.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        if (self.loads >> 33).is_multiple_of(STAYS) {
            copies[host].remove(&line);
        }
        let end = (line + LINE_BYTES as usize).min(self.bytes.len());
        let copy = copies[host].entry(line).or_insert_with(|| self.bytes[line..end].to_vec());
        &copy[start - line..start - line + width]
    }

    /// Stores a word for all to see, or, if it is to be held or others are, for its host alone.
    /// Whether it changed anything.
    pub(crate) fn store<W: Word>(
        &mut self,
        host: usize,
        at: ScrAddr<W>,
        value: W,
        hold: bool,
    ) -> bool {
        let offset = self.check(at) as u32;
        let changed = self.load(host, at).to_bits() != value.to_bits();
        let store = Store { offset, width: size_of::<W>() as u8, bits: value.to_bits() };
        if hold || !self.held[host].is_empty() {
            self.held[host].push_back(store);
            if self.held[host].len() > HELD {
                self.deliver(host);
            }
        } else {
            self.apply(host, store);
        }
        changed
    }

    /// The oldest store that `host` holds becomes visible; whether there was one.
    pub(crate) fn deliver(&mut self, host: usize) -> bool {
        let store = self.held[host].pop_front();
        store.is_some_and(|store| {
            self.apply(host, store);
            true
        })
    }

    /// Everything that `host` holds becomes visible.
    #[inline]
    pub(crate) fn drain(&mut self, host: usize) {
        while self.deliver(host) {}
    }

    pub(crate) fn holds(&self, host: usize) -> bool {
        !self.held[host].is_empty()
    }

    /// The stores that `host` holds back are lost.
    pub(crate) fn forget(&mut self, host: usize) {
        self.held[host].clear();
    }

    fn apply(&mut self, host: usize, store: Store) {
        let (start, width) = (store.offset as usize, usize::from(store.width));
        let bits = store.bits.to_le_bytes();
        self.bytes[start..start + width].copy_from_slice(&bits[..width]);
        let line = start - start % LINE_BYTES as usize;
        let copies = self.copies.as_mut().map(|copies| &mut copies[host]);
        if let Some(copy) = copies.and_then(|copies| copies.get_mut(&line)) {
            copy[start - line..start - line + width].copy_from_slice(&bits[..width]);
        }
    }

    fn check<W: Word>(&self, at: ScrAddr<W>) -> usize {
        let start = at.offset() as usize;
        assert!(start + size_of::<W>() <= self.bytes.len(), "{at:?} is outside SCR");
        start
    }
}
