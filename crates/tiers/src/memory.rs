//! Pages, the frames that hold them, and moves between frames. Nothing here takes time.
//!
//! A frame's contents are a version: how often its page had been written when they were written or
//! copied. So a lost write can be seen.

/// One of the two tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Near memory, such as DRAM.
    Fast,
    /// Far memory, such as CXL memory.
    Slow,
}

/// Number of a page.
pub type PageId = u32;
/// Number of a frame; those of the fast tier come first.
pub(crate) type Frame = u32;

/// No frame.
const NONE: Frame = Frame::MAX;
/// No page.
const NOBODY: PageId = PageId::MAX;

/// A set of marks of a page: bits of its page-table entry and of the kernel's flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(u16);

impl Marks {
    /// It was used since the bit was cleared: the accessed bit.
    pub(crate) const YOUNG: Self = Self(1);
    /// It was written since the bit was cleared: the dirty bit.
    pub(crate) const DIRTY: Self = Self(2);
    /// It is mapped without access: its next use is a hint fault.
    pub(crate) const HINT: Self = Self(4);
    /// It was found used.
    pub(crate) const REFERENCED: Self = Self(8);
    /// It is on the active list of its tier.
    pub(crate) const ACTIVE: Self = Self(16);
    /// It waits for its promotion.
    pub(crate) const QUEUED: Self = Self(32);
    /// It was written while it had a shadow.
    pub(crate) const WRITTEN: Self = Self(64);
    /// It came into the fast tier by a promotion.
    pub(crate) const PROMOTED: Self = Self(128);

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A page.
#[derive(Clone, Copy, Debug)]
struct Page {
    frame: Frame,
    /// The frame in the slow tier with the same contents.
    shadow: Frame,
    /// How often it was written.
    writes: u32,
    marks: Marks,
}

/// A promotion that has begun: the page stays where it is, and may be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transaction {
    pub(crate) page: PageId,
    to: Frame,
}

/// Frames from `first` on in an order of no meaning, as on a machine that has run for a while.
fn scattered(first: Frame, count: u32) -> Vec<Frame> {
    // A step without a common divisor meets each frame once.
    let divisor = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let count = u64::from(count);
    let golden = (count as f64 * 0.618) as u64 | 1;
    let step = (golden..).find(|&step| divisor(step, count) <= 1).unwrap_or(1);
    (0..count).map(|number| first + (number * step % count) as Frame).collect()
}

/// All pages and frames.
#[derive(Debug)]
pub(crate) struct Memory {
    pages: Vec<Page>,
    /// Contents of frames.
    versions: Vec<u32>,
    fast: u32,
    free: [Vec<Frame>; 2],
    /// The page with a shadow that each frame of the fast tier holds, and where reclaim is in it:
    /// an index by frame, as NOMAD has.
    shadowed: Vec<PageId>,
    reclaim_at: u32,
    shadows: u32,
}

impl Memory {
    /// Memory in which each page lies where `places` says, or in the other tier if that is full.
    ///
    /// # Panics
    /// If there are more pages than frames.
    pub(crate) fn new(sizes: [u32; 2], places: impl IntoIterator<Item = Tier>) -> Self {
        let [fast, slow] = sizes;
        let free = [scattered(0, fast), scattered(fast, slow)];
        let versions = vec![0; (fast + slow) as usize];
        let shadowed = vec![NOBODY; fast as usize];
        let pages = Vec::new();
        let mut memory = Self { pages, versions, fast, free, shadowed, reclaim_at: 0, shadows: 0 };
        for place in places {
            let other = if place == Tier::Fast { Tier::Slow } else { Tier::Fast };
            let frame = memory.take(place).or_else(|| memory.take(other));
            let frame = frame.expect("there are frames for all pages");
            let marks = Marks::YOUNG.and(Marks::DIRTY);
            memory.pages.push(Page { frame, shadow: NONE, writes: 0, marks });
        }
        memory
    }

    pub(crate) fn pages(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Free frames of a tier.
    pub(crate) fn free(&self, tier: Tier) -> u32 {
        self.free[tier as usize].len() as u32
    }

    /// Frames in the slow tier that are shadows.
    pub(crate) fn shadows(&self) -> u32 {
        self.shadows
    }

    pub(crate) fn tier(&self, page: PageId) -> Tier {
        if self.pages[page as usize].frame < self.fast { Tier::Fast } else { Tier::Slow }
    }

    /// Whether a page has all of these marks.
    #[inline]
    pub(crate) fn has(&self, page: PageId, marks: Marks) -> bool {
        self.pages[page as usize].marks.0 & marks.0 == marks.0
    }

    #[inline]
    pub(crate) fn mark(&mut self, page: PageId, marks: Marks) {
        self.pages[page as usize].marks.0 |= marks.0;
    }

    #[inline]
    pub(crate) fn clear(&mut self, page: PageId, marks: Marks) {
        self.pages[page as usize].marks.0 &= !marks.0;
    }

    /// Clears marks; whether the page had all of them.
    pub(crate) fn test_and_clear(&mut self, page: PageId, marks: Marks) -> bool {
        let had = self.has(page, marks);
        self.clear(page, marks);
        had
    }

    /// A page is written. It may have no shadow.
    pub(crate) fn write(&mut self, page: PageId) {
        let page = &mut self.pages[page as usize];
        debug_assert!(page.shadow == NONE, "a page with a shadow is mapped read-only");
        page.writes = page.writes.wrapping_add(1);
        page.marks.0 |= Marks::DIRTY.0;
        self.versions[page.frame as usize] = page.writes;
    }

    fn take(&mut self, tier: Tier) -> Option<Frame> {
        self.free[tier as usize].pop()
    }

    fn give(&mut self, frame: Frame) {
        let tier = if frame < self.fast { Tier::Fast } else { Tier::Slow };
        self.free[tier as usize].push(frame);
    }

    /// Moves a page into the other tier while it may not be used; whether there was a frame.
    pub(crate) fn migrate(&mut self, page: PageId) -> bool {
        let other = if self.tier(page) == Tier::Fast { Tier::Slow } else { Tier::Fast };
        let Some(to) = self.take(other) else { return false };
        self.drop_shadow(page);
        let from = std::mem::replace(&mut self.pages[page as usize].frame, to);
        self.versions[to as usize] = self.versions[from as usize];
        self.give(from);
        true
    }

    /// Begins a promotion: the page counts as clean, and is copied. None if no frame is free.
    pub(crate) fn begin(&mut self, page: PageId) -> Option<Transaction> {
        debug_assert!(self.tier(page) == Tier::Slow);
        let to = self.take(Tier::Fast)?;
        self.clear(page, Marks::DIRTY);
        self.versions[to as usize] = self.versions[self.pages[page as usize].frame as usize];
        Some(Transaction { page, to })
    }

    /// Ends a promotion: whether the page was clean, and is in the fast tier now.
    pub(crate) fn end(&mut self, transaction: Transaction, keeps_shadow: bool) -> bool {
        let Transaction { page, to } = transaction;
        if self.has(page, Marks::DIRTY) {
            self.give(to);
            return false;
        }
        let from = std::mem::replace(&mut self.pages[page as usize].frame, to);
        if keeps_shadow {
            self.pages[page as usize].shadow = from;
            self.shadowed[to as usize] = page;
            self.shadows += 1;
        } else {
            self.give(from);
        }
        true
    }

    /// Gives the shadow of a page up; whether it had one.
    pub(crate) fn drop_shadow(&mut self, page: PageId) -> bool {
        let shadow = std::mem::replace(&mut self.pages[page as usize].shadow, NONE);
        let had = shadow != NONE;
        if had {
            self.shadowed[self.pages[page as usize].frame as usize] = NOBODY;
            self.give(shadow);
            self.shadows -= 1;
        }
        had
    }

    /// Maps the shadow of a page instead of the page; whether it had one.
    pub(crate) fn demote_to_shadow(&mut self, page: PageId) -> bool {
        let of = &mut self.pages[page as usize];
        let shadow = std::mem::replace(&mut of.shadow, NONE);
        if shadow == NONE {
            return false;
        }
        let frame = std::mem::replace(&mut of.frame, shadow);
        self.shadowed[frame as usize] = NOBODY;
        self.shadows -= 1;
        self.give(frame);
        true
    }

    /// Gives up to so many shadows up, in the order of the index; returns how many.
    pub(crate) fn reclaim_shadows(&mut self, count: u32) -> u32 {
        let count = count.min(self.shadows);
        let mut given = 0;
        while given < count {
            let page = self.shadowed[self.reclaim_at as usize];
            self.reclaim_at = (self.reclaim_at + 1) % self.fast;
            given += u32::from(page != NOBODY && self.drop_shadow(page));
        }
        given
    }

    /// Checks that each frame holds one thing, and that no write was lost. `under_way` are frames
    /// of transactions.
    ///
    /// # Errors
    /// The first inconsistency that is found, as a clause.
    pub(crate) fn check(&self, under_way: usize) -> Result<(), String> {
        let mut holders = vec![0; self.versions.len()];
        let free = self.free.iter().flatten();
        free.for_each(|&frame| holders[frame as usize] += 1);
        let mut shadows = 0;
        for (number, page) in self.pages.iter().enumerate() {
            holders[page.frame as usize] += 1;
            if self.versions[page.frame as usize] != page.writes {
                return Err(format!("page {number} has lost a write"));
            }
            if page.shadow == NONE {
                continue;
            }
            holders[page.shadow as usize] += 1;
            shadows += 1;
            if page.shadow < self.fast || page.frame >= self.fast {
                return Err(format!("the shadow of page {number} is in the wrong tier"));
            }
            if self.shadowed[page.frame as usize] != number as PageId {
                return Err(format!("the shadow of page {number} is not in the index"));
            }
            if self.versions[page.shadow as usize] != page.writes {
                return Err(format!("the shadow of page {number} differs"));
            }
        }
        let held: usize = holders.iter().filter(|&&holders| holders == 0).count();
        match holders.iter().position(|&holders| holders > 1) {
            Some(frame) => Err(format!("frame {frame} holds several things")),
            None if held != under_way => Err(format!("{held} frames are lost")),
            None if shadows != self.shadows => Err("shadows are miscounted".into()),
            None => Ok(()),
        }
    }
}
