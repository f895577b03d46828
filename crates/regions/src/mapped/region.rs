//! A region, as a program uses it.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tombolo_memory::paging::{PageSpace, SharedPages, page_bytes};
use tombolo_memory::{FetchOp, Memory};

use super::worker::{Command, Shared, answers};
use crate::{BlockMode, BlockStats, Mode, RegionEntry, RegionError, sites};

/// The word at which hosts meet.
const MEETING: u64 = 0;
/// How long hosts that meet wait for the others.
const MEETING_PATIENCE: Duration = Duration::from_secs(300);

/// Bytes that processes of several hosts share, at one range of addresses in each process.
///
/// Bytes are loaded and stored as in any memory. A page has one writer or many readers at a time,
/// or, where it is direct, the hardware keeps its lines coherent. So the processor's own memory
/// model holds among all threads of all hosts, in all modes, and while modes change.
///
/// A page that a host alone had written when it died is lost, and a touch of it is a `SIGBUS`.
///
/// Dropping it gives its pages back, and blocks meanwhile.
pub struct SharedRegion {
    shared: Arc<Shared>,
    entry: RegionEntry,
    pages: Arc<SharedPages>,
    can_share: bool,
}

impl SharedRegion {
    pub(super) fn open(shared: Arc<Shared>, entry: RegionEntry) -> Result<Self, RegionError> {
        let host = &shared.inner.host;
        let places = host.places();
        if places.page_bytes() != page_bytes() as u64 {
            let reason =
                format!("its pages have {} bytes, not {}", places.page_bytes(), page_bytes());
            return Err(RegionError::Damaged(reason));
        }
        let file = host.memory().lnr_file();
        let part = file.map(|file| file.from(places.offset_of(&entry)));
        let pages = Arc::new(SharedPages::new(entry.extent.pages as usize, part)?);
        let (done, answer) = answers();
        shared.ask(Command::Open { entry: entry.clone(), pages: Arc::clone(&pages), done });
        let can_share = shared.answer("opening a region", &answer)?;
        let region = Self { shared, entry, pages, can_share };
        let modes = region.blocks();
        match modes.iter().find(|block| block.mode.mode != Mode::Replicated) {
            Some(block) if !can_share => Err(RegionError::OnlyReplicated(block.mode.mode)),
            _ => Ok(region),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// How many bytes it was made with; what is behind them in the last page belongs to nobody.
    pub fn len(&self) -> usize {
        self.entry.bytes as usize
    }

    /// Whether it has no bytes, which no region has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes: copied in and out, used as atomics, or given to system calls.
    pub fn bytes(&self) -> &PageSpace {
        self.pages.bytes()
    }

    /// Where the bytes begin in this process, for code that uses them without this library. They
    /// may be used until this is dropped.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.pages.bytes().address()
    }

    /// Gives the blocks that these bytes lie in another mode. Blocks until all hosts have followed.
    ///
    /// # Errors
    /// [`RegionError::NotCoherent`]; [`RegionError::OnlyReplicated`]; [`RegionError::Fenced`].
    ///
    /// # Panics
    /// If the bytes are not all in the region.
    pub fn set_mode(&self, bytes: Range<usize>, mode: Mode) -> Result<(), RegionError> {
        assert!(bytes.start <= bytes.end && bytes.end <= self.len(), "{bytes:?} is no part of it");
        let places = self.shared.inner.host.places();
        if mode == Mode::Direct && !places.is_coherent() {
            return Err(RegionError::NotCoherent);
        }
        if mode != Mode::Replicated && !self.can_share {
            return Err(RegionError::OnlyReplicated(mode));
        }
        let block_bytes = places.block_pages() * page_bytes();
        let blocks = (bytes.start / block_bytes..bytes.end.div_ceil(block_bytes)).collect();
        let (done, answer) = answers();
        let region = self.entry.extent.region;
        let to = BlockMode::all(mode);
        self.shared.ask(Command::Change { region, blocks, to, done });
        self.shared.answer("changing modes", &answer)
    }

    /// The mode and the counts of each block, by all hosts.
    pub fn blocks(&self) -> Vec<BlockStats> {
        self.shared.inner.host.blocks(&self.entry)
    }

    /// Pages that are lost: a host alone had written them when it died.
    pub fn lost(&self) -> Vec<usize> {
        let host = &self.shared.inner.host;
        let pages = 0..self.entry.extent.pages;
        pages.filter(|&page| host.is_lost(&self.entry, page)).map(|page| page as usize).collect()
    }

    /// How many hosts have died while they used the region.
    pub fn deaths(&self) -> u64 {
        self.shared.inner.host.deaths(self.entry.extent.region)
    }

    /// Whether others have fenced this host: all its pages are lost for it.
    pub fn is_fenced(&self) -> bool {
        self.shared.is_fenced()
    }

    /// Waits until `hosts` hosts have called this equally often. Blocks.
    ///
    /// # Errors
    /// [`RegionError::HostDied`]; [`RegionError::Fenced`]; [`RegionError::Stalled`] after five
    /// minutes.
    pub fn meet(&self, hosts: u64) -> Result<(), RegionError> {
        let host = &self.shared.inner.host;
        let memory = host.memory();
        let at = host.program_word(self.entry.extent.region, MEETING);
        let before = memory.fetch(sites::DIRECTORY_LOCK, at, FetchOp::Add, 1_u64);
        let goal = (before / hosts + 1) * hosts;
        let started = Instant::now();
        let mut rounds = 0_u32;
        while memory.load(at) < goal {
            rounds = rounds.saturating_add(1);
            if rounds < 64 {
                std::thread::yield_now();
                continue;
            }
            if self.deaths() > 0 {
                return Err(RegionError::HostDied);
            }
            if self.is_fenced() {
                return Err(RegionError::Fenced);
            }
            if started.elapsed() > MEETING_PATIENCE {
                let seconds = MEETING_PATIENCE.as_secs();
                let host = host.number();
                return Err(RegionError::Stalled { doing: "waiting for hosts", seconds, host });
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }
}

impl Drop for SharedRegion {
    fn drop(&mut self) {
        let (done, answer) = answers();
        self.shared.ask(Command::Close { region: self.entry.extent.region, done });
        // Written pages that are not given back are lost when this process ends; there is nobody to
        // tell.
        let _ = self.shared.answer("closing a region", &answer);
    }
}
