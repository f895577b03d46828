//! The words of pages and blocks in SCR.
//!
//! ```text
//! page   stay that has the lock (32 bits) | lost (1) | granted to one host alone (1)
//! block  stay that has the lock (32 bits) | probed page, plus 1 (8) | mode (2)
//! ```
//!
//! Invariants:
//! * All but the `lost` bit of a page's word and the writer's word change under the page's lock.
//! * A host notes itself as the writer before it may write, and takes that back when memory holds
//!   what it has written. So pages that a dead host alone had are those that note it.

use tombolo_coherence::{Hosts, Known};
use tombolo_memory::{FetchOp, Memory, ScrAddr, Site};
use tombolo_pod::{Area, Stay};

use super::layout::Places;
use crate::sites;
use crate::{BlockMode, Mode};

const STAY_SHIFT: u32 = 32;
const ALONE: u64 = 1;
const LOST: u64 = 1 << 1;
const MODE_BITS: u64 = 0b11;
const PROBE_SHIFT: u32 = 2;
const PROBE_BITS: u64 = 0xff;

/// The counts of a block, of 32 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    HandOvers,
    Faults,
    Lost,
    Changes,
}

/// The area's words, as one host uses them.
pub(crate) struct Table<M: Memory> {
    pub(crate) area: Area<M>,
    pub(crate) places: Places,
    pub(crate) stay: Stay,
}

fn stay_in(word: u64) -> u32 {
    (word >> STAY_SHIFT) as u32
}

fn locked_by(stay: u32) -> u64 {
    u64::from(stay) << STAY_SHIFT
}

impl<M: Memory> Table<M> {
    pub(crate) fn memory(&self) -> &M {
        self.area.memory()
    }

    /// Takes a lock: what the word said before; nothing, if another stay has it, or this one.
    fn lock(&self, site: Site, at: ScrAddr<u64>) -> Option<u64> {
        let memory = self.memory();
        let found = memory.load(at);
        if stay_in(found) != 0 {
            return None;
        }
        let locked = found | locked_by(self.stay.number);
        memory.compare_exchange(site, at, found, locked).ok()
    }

    /// Takes a lock over from a stay that is gone; whether it had it.
    fn take_over(&self, at: ScrAddr<u64>, from: Stay) -> bool {
        let memory = self.memory();
        let found = memory.load(at);
        let ours = found & u64::from(u32::MAX) | locked_by(self.stay.number);
        stay_in(found) == from.number
            && memory.keeps(sites::CLEAR_LOCK)
            && memory.compare_exchange(sites::CLEAR_LOCK, at, found, ours).is_ok()
    }

    /// The stay that has the lock of a page.
    pub(crate) fn locker(&self, page: u64) -> Option<u32> {
        let stay = stay_in(self.memory().load(self.places.page(page)));
        (stay != 0).then_some(stay)
    }

    /// The stay that has the lock of a block.
    pub(crate) fn block_locker(&self, block: u64) -> Option<u32> {
        let stay = stay_in(self.memory().load(self.places.block(block)));
        (stay != 0).then_some(stay)
    }

    /// Whether no host has a page or its lock.
    pub(crate) fn is_idle(&self, page: u64) -> bool {
        // The lock first: a host that has taken it since finds the block locked.
        self.locker(page).is_none() && self.holders(page).is_empty()
    }

    fn holders(&self, page: u64) -> Hosts {
        let bits = self.memory().load(self.places.page(page).element(1));
        (0..64).filter(|host| bits >> host & 1 != 0).collect()
    }

    pub(crate) fn known(&self, page: u64) -> Known {
        let alone = self.memory().load(self.places.page(page)) & ALONE != 0;
        Known { holders: self.holders(page), alone }
    }

    pub(crate) fn lock_page(&self, page: u64) -> Option<Known> {
        self.lock(sites::LOCK, self.places.page(page))?;
        Some(self.known(page))
    }

    pub(crate) fn take_page_over(&self, page: u64, from: Stay) -> bool {
        self.take_over(self.places.page(page), from)
    }

    /// Releases the lock of a page.
    pub(crate) fn unlock_page(&self, page: u64, known: Known) {
        let (memory, at) = (self.memory(), self.places.page(page));
        let bits = known.holders.iter().fold(0, |bits, host| bits | 1 << host);
        memory.store(at.element(1), bits);
        let lost = memory.load(at) & LOST;
        memory.store(at, lost | (u64::from(known.alone && bits != 0) * ALONE));
    }

    /// Notes that this host may write a page from now on. A store could still wait in a buffer, and
    /// be gone with the host, when its program writes; a swap is visible before that.
    pub(crate) fn note_writer(&self, page: u64) {
        let (memory, at) = (self.memory(), self.places.page(page).element(2));
        if memory.keeps(sites::NOTE_WRITER) {
            memory.fetch(sites::NOTE_WRITER, at, FetchOp::Swap, self.stay.number.into());
        }
    }

    /// Memory holds what this host has written.
    pub(crate) fn forget_writer(&self, page: u64) {
        self.memory().store(self.places.page(page).element(2), 0);
    }

    /// A stay that is gone has a page no more: if it alone had written it, the page is lost. This
    /// host has the page's lock. Whether the page is lost now.
    pub(crate) fn lose_if_written(&self, page: u64, by: Stay) -> bool {
        let (memory, at) = (self.memory(), self.places.page(page));
        let lost = memory.load(at.element(2)) == u64::from(by.number);
        if lost && memory.keeps(sites::NOTE_LOST) {
            memory.fetch(sites::NOTE_LOST, at, FetchOp::Or, LOST);
            memory.store(at.element(2), 0);
            self.count(page / self.places.shape.block_pages, Count::Lost);
        }
        lost
    }

    /// Whether a page's words name a stay, or may soon do: a host that has the lock writes them.
    pub(crate) fn concerns(&self, page: u64, stay: Stay) -> bool {
        let (memory, at) = (self.memory(), self.places.page(page));
        self.locker(page).is_some()
            || memory.load(at.element(1)) >> stay.host & 1 != 0
            || memory.load(at.element(2)) == u64::from(stay.number)
    }

    /// No host has a page: what one had written and not given back is lost. No host is there.
    pub(crate) fn begin_anew(&self, page: u64) {
        let (memory, at) = (self.memory(), self.places.page(page));
        if memory.load(at.element(2)) != 0 {
            memory.fetch(sites::NOTE_LOST, at, FetchOp::Or, LOST);
            self.count(page / self.places.shape.block_pages, Count::Lost);
        }
        memory.store(at.element(2), 0);
        self.unlock_page(page, Known::default());
    }

    /// Whether a block's words say that a host maps it directly, or may soon say so.
    pub(crate) fn maps_directly(&self, block: u64, host: u8) -> bool {
        self.block_locker(block).is_some() || self.block_hosts(block).has(host.into())
    }

    /// Whether a page is lost.
    pub(crate) fn is_lost(&self, page: u64) -> bool {
        self.memory().load(self.places.page(page)) & LOST != 0
    }

    /// The mode of a block; nothing, while it is locked.
    pub(crate) fn block(&self, block: u64) -> Option<BlockMode> {
        let word = self.memory().load(self.places.block(block));
        (stay_in(word) == 0).then(|| self.mode_of(block, word))
    }

    /// The mode of a block, or the one that it had before it was locked.
    pub(crate) fn last_mode(&self, block: u64) -> BlockMode {
        self.mode_of(block, self.memory().load(self.places.block(block)))
    }

    /// The probe is a page's number in its area.
    fn mode_of(&self, block: u64, word: u64) -> BlockMode {
        let mode = Mode::ALL.get((word & MODE_BITS) as usize).copied().unwrap_or(Mode::Replicated);
        let first = block * self.places.shape.block_pages;
        let probe = (word >> PROBE_SHIFT & PROBE_BITS).checked_sub(1);
        BlockMode { mode, probe: probe.map(|page| (first + page) as usize) }
    }

    fn block_hosts(&self, block: u64) -> Hosts {
        let bits = self.memory().load(self.places.block(block).element(1));
        (0..64).filter(|host| bits >> host & 1 != 0).collect()
    }

    pub(crate) fn lock_block(&self, block: u64) -> Option<(BlockMode, Hosts)> {
        let word = self.lock(sites::LOCK, self.places.block(block))?;
        Some((self.mode_of(block, word), self.block_hosts(block)))
    }

    /// Takes a block's lock over from a stay that is gone: the mode and hosts that it has.
    pub(crate) fn take_block_over(&self, block: u64, from: Stay) -> Option<(BlockMode, Hosts)> {
        let taken = self.take_over(self.places.block(block), from);
        taken.then(|| (self.last_mode(block), self.block_hosts(block)))
    }

    pub(crate) fn unlock_block(&self, block: u64, mode: BlockMode, hosts: Hosts) {
        let (memory, at) = (self.memory(), self.places.block(block));
        let first = block * self.places.shape.block_pages;
        let probe = mode.probe.map_or(0, |page| page as u64 - first + 1);
        let bits = hosts.iter().fold(0, |bits, host| bits | 1 << host);
        memory.store(at.element(1), bits);
        memory.store(at, probe << PROBE_SHIFT | mode.mode as u64);
    }

    /// Gives a block its first mode. No host uses it.
    pub(crate) fn format_block(&self, block: u64, mode: Mode) {
        (1..4).for_each(|word| self.memory().store(self.places.block(block).element(word), 0));
        self.unlock_block(block, BlockMode::all(mode), Hosts::default());
    }

    /// Counts something that happened in a block.
    pub(crate) fn count(&self, block: u64, what: Count) {
        let (word, one) = match what {
            Count::HandOvers => (2, 1),
            Count::Faults => (2, 1 << 32),
            Count::Lost => (3, 1),
            Count::Changes => (3, 1 << 32),
        };
        let at = self.places.block(block).element(word);
        self.memory().fetch(sites::LOCK, at, FetchOp::Add, one);
    }

    /// One of the counts of a block, by all hosts.
    pub(crate) fn counted(&self, block: u64, what: Count) -> u64 {
        let (word, shift) = match what {
            Count::HandOvers => (2, 0),
            Count::Faults => (2, 32),
            Count::Lost => (3, 0),
            Count::Changes => (3, 32),
        };
        self.memory().load(self.places.block(block).element(word)) >> shift & u64::from(u32::MAX)
    }
}
