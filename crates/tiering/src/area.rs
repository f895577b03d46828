//! The pages of a program that this crate moves, and what the kernel does to one of them.

use std::ops::Range;

use tombolo_memory::paging::{Faults, FaultsError, Moved, PageSpace, PageSpan, Refusal};

use crate::TieringError;
use crate::page::{Phase, Word};
use crate::transaction::PageOps;

/// A range of the program's pages. Page n of the mirror is the far frame of page n: its shadow, or
/// the page itself while it is parked.
#[derive(Debug)]
pub(crate) struct Area {
    pub(crate) space: PageSpace,
    pub(crate) mirror: PageSpace,
    words: Box<[Word]>,
}

impl Area {
    /// So many pages, none of them touched.
    pub(crate) fn reserve(pages: usize) -> Result<Self, TieringError> {
        let reserve = || {
            PageSpace::reserve(pages)
                .map_err(|reason| TieringError::Os { doing: "reserve addresses", reason })
        };
        let words = (0..pages).map(|_| Word::default()).collect();
        Ok(Self { space: reserve()?, mirror: reserve()?, words })
    }

    /// Pages of the program, of which some may be filled.
    pub(crate) fn adopt(space: PageSpace) -> Result<Self, TieringError> {
        let mirror = PageSpace::reserve(space.pages())
            .map_err(|reason| TieringError::Os { doing: "reserve addresses", reason })?;
        let words = (0..space.pages()).map(|_| Word::default()).collect();
        Ok(Self { space, mirror, words })
    }

    /// Whether the program has unmapped all of it.
    pub(crate) fn is_gone(&self) -> bool {
        self.words.iter().all(|word| word.get().phase() == Phase::Gone)
    }

    pub(crate) fn pages(&self) -> usize {
        self.words.len()
    }

    pub(crate) fn word(&self, page: usize) -> &Word {
        &self.words[page]
    }
}

/// Both descriptors of the kernel: one for the program's pages, which tells of faults and of
/// changes of mappings, and one for frames that this crate alone touches.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) areas: Faults,
    pub(crate) arenas: Faults,
    /// The node that promoted pages have to come from; `None` if all memory is of one node.
    near: Option<u32>,
}

impl Kernel {
    pub(crate) fn open(near: Option<u32>) -> Result<Self, FaultsError> {
        Ok(Self { areas: Faults::open()?, arenas: Faults::open_for_arenas()?, near })
    }

    /// Begins to serve an area. `far` is the mirror's node, unless all memory is of one.
    pub(crate) fn register(&self, area: &Area, far: Option<u32>) -> Result<(), TieringError> {
        let mirror = area.mirror.span(0..area.pages());
        self.set_up(mirror, far)?;
        self.areas
            .register(area.space.span(0..area.pages()))
            .map_err(|reason| TieringError::Os { doing: "register pages for faults", reason })
    }

    /// Frames that are touched by this crate alone, taken from a node.
    fn arena(&self, pages: usize, node: Option<u32>) -> Result<PageSpace, TieringError> {
        let arena = PageSpace::reserve(pages)
            .map_err(|reason| TieringError::Os { doing: "reserve addresses", reason })?;
        self.set_up(arena.span(0..pages), node)?;
        Ok(arena)
    }

    fn set_up(&self, span: PageSpan<'_>, node: Option<u32>) -> Result<(), TieringError> {
        let os = |doing| move |reason| TieringError::Os { doing, reason };
        // A kernel that knows no huge pages makes none.
        let _ = span.refuse_huge_pages();
        span.keep_from_children().map_err(os("keep frames from children"))?;
        if let Some(node) = node {
            span.prefer_node(node).map_err(os("bind frames to a NUMA node"))?;
        }
        self.arenas.register_arena(span).map_err(os("register frames"))
    }

    /// Frames for the transactions of one thread.
    pub(crate) fn desk(&self) -> Result<Desk, TieringError> {
        Ok(Desk { staged: self.arena(1, self.near)?, aside: self.arena(1, None)? })
    }

    /// Puts a parked page back into the program's mapping.
    pub(crate) fn put_back(&self, area: &Area, page: usize) -> Result<(), Refusal> {
        let (to, from) = (area.space.page(page), area.mirror.page(page));
        let mut done = self.areas.move_pages(to, from, false).whole();
        if done == Err(Refusal::Present) {
            // It may be the mark of a page that was protected when it was absent.
            self.areas.unprotect(to)?;
            done = self.areas.move_pages(to, from, false).whole();
        }
        match done {
            // The program has locked the page's area meanwhile, or taken the right to write.
            Err(Refusal::Unmovable) => {
                self.areas.copy(to, from).whole()?;
                let _ = from.discard();
                Ok(())
            }
            done => done,
        }
    }

    /// Moves pages out of the program's mapping into the mirror.
    pub(crate) fn park(&self, area: &Area, pages: Range<usize>) -> Moved {
        let (to, from) = (area.mirror.span(pages.clone()), area.space.span(pages));
        self.arenas.move_pages(to, from, false)
    }
}

/// Frames for one transaction at a time.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) staged: PageSpace,
    pub(crate) aside: PageSpace,
}

/// One page of an area, for one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnePage<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) desk: &'a Desk,
    pub(crate) area: &'a Area,
    pub(crate) number: usize,
}

impl OnePage<'_> {
    fn staged_is_near(&self) -> bool {
        let is_there = |near| {
            let nodes = self.desk.staged.page(0).nodes();
            nodes.is_ok_and(|nodes| nodes == [Some(near)])
        };
        self.kernel.near.is_none_or(is_there)
    }

    /// Copies the parked page into the staged frame.
    pub(crate) fn stage_from_mirror(&self) -> Result<(), Refusal> {
        self.stage_from(&self.area.mirror)
    }

    fn stage_from(&self, space: &PageSpace) -> Result<(), Refusal> {
        let staged = self.desk.staged.page(0);
        self.kernel.arenas.copy(staged, space.page(self.number)).whole()?;
        if self.staged_is_near() { Ok(()) } else { Err(Refusal::NoMemory) }
    }
}

impl PageOps for OnePage<'_> {
    fn phase(&self) -> Phase {
        self.area.word(self.number).get().phase()
    }

    fn change(&self, from: Phase, to: Phase) -> bool {
        self.area.word(self.number).change(from, to)
    }

    fn protect(&self) -> Result<(), Refusal> {
        self.kernel.areas.protect(self.area.space.page(self.number))
    }

    fn stage(&self) -> Result<(), Refusal> {
        self.stage_from(&self.area.space)
    }

    fn is_written(&self) -> bool {
        let kind = self.kernel.areas.map().kind(self.area.space.page(self.number));
        kind.map_or(true, |kind| kind.is_written())
    }

    fn take_out(&self) -> Result<(), Refusal> {
        self.kernel.park(self.area, self.number..self.number + 1).whole()
    }

    fn staged_is_same(&self) -> bool {
        self.desk.staged.page(0).same_bytes(self.area.mirror.page(self.number))
    }

    fn put_back(&self) -> Result<(), Refusal> {
        self.kernel.put_back(self.area, self.number)
    }

    fn map_staged(&self) -> Result<(), Refusal> {
        let to = self.area.space.page(self.number);
        self.kernel.areas.move_pages(to, self.desk.staged.page(0), false).whole()
    }

    fn drop_staged(&self) {
        // The frames are this crate's, and mapped as long as the desk is there.
        let _ = self.desk.staged.page(0).discard();
    }

    fn drop_mirror(&self) {
        let _ = self.area.mirror.page(self.number).discard();
    }

    fn copy_to_mirror(&self) -> Result<(), Refusal> {
        let to = self.area.mirror.page(self.number);
        self.kernel.arenas.copy(to, self.area.space.page(self.number)).whole()
    }

    fn take_aside(&self) -> Result<(), Refusal> {
        let from = self.area.space.page(self.number);
        self.kernel.arenas.move_pages(self.desk.aside.page(0), from, false).whole()
    }

    fn aside_is_same(&self) -> bool {
        self.desk.aside.page(0).same_bytes(self.area.mirror.page(self.number))
    }

    fn overwrite_mirror(&self) {
        self.area.mirror.page(self.number).copy_from(self.desk.aside.page(0));
    }

    fn drop_aside(&self) {
        let _ = self.desk.aside.page(0).discard();
    }
}
