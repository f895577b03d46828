//! SCR: words that every host sees alike, some time later.
//!
//! **Fault model.** A host's stores may stay with it for a while; they become visible to others in
//! order, and before anything else by which this host could tell that they have: its next
//! read-modify-write, its next store into LNR, its next full fence, or its waiting. This is total
//! store order, with a host's threads on one core.

use std::collections::VecDeque;

use tombolo_memory::{ScrAddr, Word};

/// A host keeps so many stores at most.
const HELD: usize = 8;

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
}

impl Scr {
    pub(crate) fn prepare(&mut self, hosts: usize, bytes: usize) {
        self.bytes.clear();
        self.bytes.resize(bytes, 0);
        self.held.iter_mut().for_each(VecDeque::clear);
        self.held.resize_with(hosts, VecDeque::new);
    }

    /// The word as `host` sees it.
    pub(crate) fn load<W: Word>(&self, host: usize, at: ScrAddr<W>) -> W {
        let start = self.check(at);
        let width = size_of::<W>();
        let mut word = [0; 8];
        word[..width].copy_from_slice(&self.bytes[start..start + width]);
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
            self.apply(store);
        }
        changed
    }

    /// The oldest store that `host` holds becomes visible; whether there was one.
    pub(crate) fn deliver(&mut self, host: usize) -> bool {
        let store = self.held[host].pop_front();
        store.is_some_and(|store| {
            self.apply(store);
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

    /// What `host` holds is lost.
    pub(crate) fn forget(&mut self, host: usize) {
        self.held[host].clear();
    }

    fn apply(&mut self, store: Store) {
        let (start, width) = (store.offset as usize, usize::from(store.width));
        self.bytes[start..start + width].copy_from_slice(&store.bits.to_le_bytes()[..width]);
    }

    fn check<W: Word>(&self, at: ScrAddr<W>) -> usize {
        let start = at.offset() as usize;
        assert!(start + size_of::<W>() <= self.bytes.len(), "{at:?} is outside SCR");
        start
    }
}
