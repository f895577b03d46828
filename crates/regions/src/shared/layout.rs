//! Where the parts of an area for regions lie.
//!
//! ```text
//! SCR  mark, directory's lock | an entry of four lines per region | four words per block |
//!      four words per page
//! LNR  pages, from the first multiple of a page on
//!
//! entry   state | first page | pages | mode | name (4 words) | events | 7 unused |
//!         16 words for the programs that use the region
//! block   lock and mode | hosts that map it directly | faults (32), hand-overs (32) |
//!         changes (32), pages lost (32)
//! page    lock and state | hosts that have it | the stay that may have written it | unused
//! ```

use tombolo_memory::{LINE_BYTES, Lines, LnrAddr, ScrAddr};
use tombolo_pod::{AreaPlaces, Budget, Kind, PARAMETERS, Stretch};

/// The kind of an area in which regions live.
pub const KIND: Kind = Kind::new("regions");

/// The version of the area's format.
pub const VERSION: u64 = 1;

/// Regions of an area, at most.
pub const MAX_REGIONS: u64 = 32;

/// Bytes of a region's name, at most.
pub const MAX_NAME_BYTES: usize = 32;

/// Words that programs of a region share.
pub const PROGRAM_WORDS: u64 = 16;

const ENTRY_LINES: u64 = 4;
const FIRST_PROGRAM_WORD: u64 = 16;
/// Words of a block, and of a page.
const WORDS: u64 = 4;

/// The parameters with which an area for regions is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a page: those of the processors, unless pages are simulated.
    pub page_bytes: u64,
    /// Pages of a block.
    pub block_pages: u64,
    /// The hardware keeps LNR coherent, so pages may be direct.
    pub coherent: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self { page_bytes: 4096, block_pages: 64, coherent: false }
    }
}

impl Shape {
    /// The parameters of an area of this shape.
    ///
    /// # Errors
    /// A clause that says what does not fit.
    pub fn plan(self, budget: Budget) -> Result<[u64; PARAMETERS], String> {
        let mut parameters = [0; PARAMETERS];
        let numbers = [self.page_bytes, self.block_pages, u64::from(self.coherent)];
        parameters[..numbers.len()].copy_from_slice(&numbers);
        Places::new(&parameters, budget.scr, budget.lnr)?;
        Ok(parameters)
    }
}

/// Where everything starts.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub(crate) shape: Shape,
    pub(crate) scr: Stretch,
    /// How many pages there are.
    pub(crate) pages: u64,
    blocks: ScrAddr<u64>,
    page_words: ScrAddr<u64>,
    lnr: LnrAddr,
}

impl Places {
    /// The places in `area`.
    ///
    /// # Errors
    /// A clause that says what is wrong with the parameters.
    pub fn of_area(parameters: &[u64; PARAMETERS], area: &AreaPlaces) -> Result<Self, String> {
        Self::new(parameters, area.scr, area.lnr)
    }

    fn new(parameters: &[u64; PARAMETERS], scr: Stretch, lnr: Stretch) -> Result<Self, String> {
        let [page_bytes, block_pages, coherent, ..] = *parameters;
        let is_page = page_bytes.is_power_of_two() && page_bytes >= LINE_BYTES;
        if !is_page || !(1..=64).contains(&block_pages) || coherent > 1 {
            return Err("its area for regions is damaged".to_owned());
        }
        let shape = Shape { page_bytes, block_pages, coherent: coherent == 1 };
        let fixed = (1 + MAX_REGIONS * ENTRY_LINES) * LINE_BYTES;
        let first = lnr.start.next_multiple_of(page_bytes);
        let room = lnr.end().saturating_sub(first) / page_bytes;
        // A block has as many words as a page.
        let words = scr.bytes.saturating_sub(fixed) / (8 * WORDS);
        let by_words = words / (block_pages + 1) * block_pages;
        let pages = room.min(by_words) / block_pages * block_pages;
        if pages == 0 {
            return Err(format!(
                "there is no room for a block of {block_pages} pages in {} bytes of SCR and {} of \
                 LNR",
                scr.bytes, lnr.bytes
            ));
        }
        let blocks = ScrAddr::<u64>::new(scr.start).line(1 + MAX_REGIONS * ENTRY_LINES);
        let page_words = blocks.element(pages / block_pages * WORDS);
        Ok(Self { shape, scr, pages, blocks, page_words, lnr: LnrAddr::new(first) })
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u64 {
        self.shape.page_bytes
    }

    /// Pages of a block.
    pub fn block_pages(&self) -> usize {
        self.shape.block_pages as usize
    }

    /// How many pages all regions have room for.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Whether the hardware keeps the pages coherent.
    pub fn is_coherent(&self) -> bool {
        self.shape.coherent
    }

    /// Where a region begins in LNR, in bytes.
    pub fn offset_of(&self, entry: &super::RegionEntry) -> u64 {
        self.address(entry.extent.first).offset()
    }

    /// Whether the area was formatted.
    pub(crate) fn mark(&self) -> ScrAddr<u64> {
        ScrAddr::new(self.scr.start)
    }

    pub(crate) fn directory(&self) -> ScrAddr<u64> {
        self.mark().element(1)
    }

    /// A word of a region's entry.
    pub(crate) fn entry(&self, region: u64, word: u64) -> ScrAddr<u64> {
        self.mark().line(1 + region * ENTRY_LINES).element(word)
    }

    /// A word that programs of a region share.
    pub(crate) fn program_word(&self, region: u64, word: u64) -> ScrAddr<u64> {
        self.entry(region, FIRST_PROGRAM_WORD + word)
    }

    /// The first of a block's words.
    pub(crate) fn block(&self, block: u64) -> ScrAddr<u64> {
        self.blocks.element(block * WORDS)
    }

    /// The first of a page's words.
    pub(crate) fn page(&self, page: u64) -> ScrAddr<u64> {
        self.page_words.element(page * WORDS)
    }

    /// All words of blocks and pages.
    pub(crate) fn words(&self) -> impl Iterator<Item = ScrAddr<u64>> {
        let count = (self.pages / self.shape.block_pages + self.pages) * WORDS;
        let first = self.blocks;
        (0..count).map(move |word| first.element(word))
    }

    /// A page's bytes.
    pub(crate) fn lines(&self, page: u64) -> Lines {
        Lines::covering(self.address(page), self.shape.page_bytes)
    }

    /// Where a page begins.
    pub(crate) fn address(&self, page: u64) -> LnrAddr {
        self.lnr.plus(page * self.shape.page_bytes)
    }
}
