//! The names of regions, and where each lies.

use std::time::Duration;

use tombolo_memory::{FetchOp, LINE_BYTES, Memory, ScrAddr};
use tombolo_pod::Stay;

use super::back::Extent;
use super::error::RegionError;
use super::layout::{MAX_NAME_BYTES, MAX_REGIONS};
use super::table::{Count, Table};
use crate::sites;
use crate::{BlockMode, Mode};

const FREE: u64 = 0;
const THERE: u64 = 1;

const STATE: u64 = 0;
const FIRST: u64 = 1;
const PAGES: u64 = 2;
const MODE: u64 = 3;
const NAME: u64 = 4;
const USERS: u64 = 8;
const BYTES: u64 = 9;
const DEATHS: u64 = 10;

/// How long a host waits for the directory's lock.
const PATIENCE: Duration = Duration::from_secs(30);

/// A region, as the directory describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionEntry {
    /// Its name.
    pub name: String,
    /// How many bytes were asked for.
    pub bytes: u64,
    /// The mode that its blocks had at first.
    pub mode: Mode,
    /// Hosts that use it, a bit each.
    pub users: u64,
    /// Where it lies.
    pub extent: Extent,
}

/// A block of a region, and what has happened in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStats {
    /// How its pages are kept; what they were before, while that changes.
    pub mode: BlockMode,
    /// Faults of all hosts.
    pub faults: u64,
    /// Faults for which other hosts had to give up a page.
    pub hand_overs: u64,
    /// Changes of mode.
    pub changes: u64,
    /// Pages that were lost.
    pub lost: u64,
}

/// Holds the directory's lock.
struct Locked<'a, M: Memory>(&'a Table<M>);

impl<M: Memory> Drop for Locked<'_, M> {
    fn drop(&mut self) {
        self.0.memory().store(self.0.places.directory(), 0);
    }
}

impl<M: Memory> Table<M> {
    /// Takes the directory's lock, and calls `look_after` a host that has it. Blocks.
    fn lock_directory(&self, look_after: &mut dyn FnMut(u8)) -> Result<Locked<'_, M>, RegionError> {
        let (memory, at) = (self.memory(), self.places.directory());
        let started = memory.uptime();
        loop {
            let found = memory.load(at);
            let own = u64::from(self.stay.number) << 8 | u64::from(self.stay.host);
            let holder = Stay { host: found as u8, number: (found >> 8) as u32 };
            // No other host has seen a change here that its host has not finished.
            let is_free = found == 0
                || memory.keeps(sites::CLEAR_LOCK)
                    && self.area.is_fenced(holder)
                    && self.area.is_gone(holder);
            if is_free && memory.compare_exchange(sites::DIRECTORY_LOCK, at, found, own).is_ok() {
                return Ok(Locked(self));
            }
            let host = holder.host;
            look_after(host);
            if memory.uptime().saturating_sub(started) > PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Err(RegionError::Stalled { doing: "locking the directory", seconds, host });
            }
            memory.pause();
        }
    }

    /// The directory's lock, if a stay that is gone has it, is free.
    pub(crate) fn unlock_directory_of(&self, stay: Stay) {
        let at = self.places.directory();
        let own = u64::from(stay.number) << 8 | u64::from(stay.host);
        if self.memory().keeps(sites::CLEAR_LOCK) {
            let _ = self.memory().compare_exchange(sites::DIRECTORY_LOCK, at, own, 0);
        }
        for region in 0..MAX_REGIONS {
            if self.forget_user(region, stay.host) {
                let at = self.places.entry(region, DEATHS);
                self.memory().fetch(sites::DIRECTORY_LOCK, at, FetchOp::Add, 1);
            }
        }
    }

    /// How many hosts have died that used a region.
    pub(crate) fn deaths(&self, region: u64) -> u64 {
        self.entry(region, DEATHS)
    }

    fn entry(&self, region: u64, word: u64) -> u64 {
        self.memory().load(self.places.entry(region, word))
    }

    /// The region of this number, if there is one.
    pub(crate) fn region(&self, region: u64) -> Option<RegionEntry> {
        if region >= MAX_REGIONS || self.entry(region, STATE) != THERE {
            return None;
        }
        let (first, pages) = (self.entry(region, FIRST), self.entry(region, PAGES));
        let block_pages = self.places.shape.block_pages;
        let is_within = first.is_multiple_of(block_pages)
            && pages > 0
            && first.checked_add(pages).is_some_and(|end| end <= self.places.pages);
        if !is_within {
            return None;
        }
        let words = (0..4).flat_map(|word| self.entry(region, NAME + word).to_le_bytes());
        let name: Vec<u8> = words.take_while(|&byte| byte != 0).collect();
        Some(RegionEntry {
            name: String::from_utf8_lossy(&name).into_owned(),
            bytes: self.entry(region, BYTES),
            mode: *Mode::ALL.get(self.entry(region, MODE) as usize)?,
            users: self.entry(region, USERS),
            extent: Extent { region, first, pages },
        })
    }

    /// All regions.
    pub(crate) fn regions(&self) -> Vec<RegionEntry> {
        (0..MAX_REGIONS).filter_map(|region| self.region(region)).collect()
    }

    fn find(&self, name: &str) -> Result<RegionEntry, RegionError> {
        let mut regions = self.regions().into_iter();
        let missing = || RegionError::Missing(name.to_owned());
        regions.find(|region| region.name == name).ok_or_else(missing)
    }

    /// Makes a region whose pages are zeros.
    pub(crate) fn create(
        &self,
        name: &str,
        bytes: u64,
        mode: Mode,
        look_after: &mut dyn FnMut(u8),
    ) -> Result<(), RegionError> {
        let is_name = (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.contains('\0');
        if !is_name {
            return Err(RegionError::Name(name.to_owned()));
        }
        if bytes == 0 {
            return Err(RegionError::Empty);
        }
        if mode == Mode::Direct && !self.places.shape.coherent {
            return Err(RegionError::NotCoherent);
        }
        let _locked = self.lock_directory(look_after)?;
        let regions = self.regions();
        if regions.iter().any(|region| region.name == name) {
            return Err(RegionError::Exists(name.to_owned()));
        }
        let is_free = |region: &u64| self.entry(*region, STATE) == FREE;
        let region = (0..MAX_REGIONS).find(is_free).ok_or(RegionError::TooMany)?;
        let pages = bytes.div_ceil(self.places.shape.page_bytes);
        let first = self.place(&regions, pages)?;
        let extent = Extent { region, first, pages };
        self.format_extent(extent, mode);
        let mut padded = [0; MAX_NAME_BYTES];
        padded[..name.len()].copy_from_slice(name.as_bytes());
        let (words, _) = padded.as_chunks::<8>();
        let fields = [(FIRST, first), (PAGES, pages), (MODE, mode as u64), (USERS, 0), (DEATHS, 0)];
        let names = words.iter().zip(NAME..).map(|(word, at)| (at, u64::from_le_bytes(*word)));
        for (word, value) in fields.into_iter().chain([(BYTES, bytes)]).chain(names) {
            self.memory().store(self.places.entry(region, word), value);
        }
        for word in 0..super::layout::PROGRAM_WORDS {
            self.memory().store(self.places.program_word(region, word), 0);
        }
        self.memory().store(self.places.entry(region, STATE), THERE);
        Ok(())
    }

    /// The first page of as many in a row that no region has.
    fn place(&self, regions: &[RegionEntry], pages: u64) -> Result<u64, RegionError> {
        let block_pages = self.places.shape.block_pages;
        let mut taken: Vec<(u64, u64)> = regions
            .iter()
            .map(|region| {
                let end = region.extent.first + region.extent.pages;
                (region.extent.first, end.next_multiple_of(block_pages))
            })
            .collect();
        taken.sort_unstable();
        let used: u64 = taken.iter().map(|(first, end)| end - first).sum();
        let mut first = 0;
        for (start, end) in taken.into_iter().chain([(self.places.pages, 0)]) {
            if start.saturating_sub(first) >= pages {
                return Ok(first);
            }
            first = end.max(first);
        }
        Err(RegionError::NoRoom { pages, free: self.places.pages.saturating_sub(used) })
    }

    /// Zeros, and words that say that no host has a page.
    fn format_extent(&self, extent: Extent, mode: Mode) {
        let (memory, places) = (self.memory(), &self.places);
        let zeros = vec![0; places.shape.page_bytes as usize];
        for page in extent.first..extent.first + extent.pages {
            (0..4).for_each(|word| memory.store(places.page(page).element(word), 0));
            let lines = places.lines(page);
            memory.takes_blank(lines);
            memory.write(places.address(page), &zeros);
            memory.publish(sites::WRITE_BACK_CLEAN, [lines], |memory| {
                memory.gives(lines, lines.count() * LINE_BYTES);
            });
        }
        let block_pages = places.shape.block_pages;
        let blocks =
            extent.first / block_pages..(extent.first + extent.pages).div_ceil(block_pages);
        blocks.for_each(|block| self.format_block(block, mode));
    }

    /// Notes that this host uses a region.
    pub(crate) fn begin_use(
        &self,
        name: &str,
        look_after: &mut dyn FnMut(u8),
    ) -> Result<RegionEntry, RegionError> {
        let _locked = self.lock_directory(look_after)?;
        let found = self.find(name)?;
        let at = self.places.entry(found.extent.region, USERS);
        self.memory().fetch(sites::DIRECTORY_LOCK, at, FetchOp::Or, 1 << self.stay.host);
        Ok(found)
    }

    /// Notes that a host does not use a region any more; whether it did.
    pub(crate) fn forget_user(&self, region: u64, host: u8) -> bool {
        let at = self.places.entry(region, USERS);
        let users = self.memory().fetch(sites::DIRECTORY_LOCK, at, FetchOp::And, !(1 << host));
        users >> host & 1 != 0
    }

    /// Removes a region that no host uses.
    pub(crate) fn remove(
        &self,
        name: &str,
        look_after: &mut dyn FnMut(u8),
    ) -> Result<(), RegionError> {
        let _locked = self.lock_directory(look_after)?;
        let found = self.find(name)?;
        if found.users != 0 {
            let host = found.users.trailing_zeros() as u8;
            return Err(RegionError::InUse { name: name.to_owned(), host });
        }
        self.memory().store(self.places.entry(found.extent.region, STATE), FREE);
        Ok(())
    }

    /// The mode and the counts of each block of a region.
    pub(crate) fn block_stats(&self, extent: Extent) -> Vec<BlockStats> {
        let block_pages = self.places.shape.block_pages;
        let blocks =
            extent.first / block_pages..(extent.first + extent.pages).div_ceil(block_pages);
        blocks
            .map(|block| BlockStats {
                mode: self.last_mode(block),
                faults: self.counted(block, Count::Faults),
                hand_overs: self.counted(block, Count::HandOvers),
                changes: self.counted(block, Count::Changes),
                lost: self.counted(block, Count::Lost),
            })
            .collect()
    }

    /// A word that programs of a region share.
    pub(crate) fn program_word(&self, region: u64, word: u64) -> ScrAddr<u64> {
        assert!(word < super::layout::PROGRAM_WORDS, "there is no word {word}");
        self.places.program_word(region, word)
    }
}
