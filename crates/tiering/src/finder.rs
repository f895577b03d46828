//! Finds areas of the program, and has them served.

use std::ops::Range;
use std::sync::Arc;

use tombolo_memory::paging::PageSpace;

use crate::adopt;
use crate::area::{Area, Kernel};
use crate::page::Phase;
use crate::shared::Shared;

/// Mappings that are not to be served: memory of the threads that serve, and refused mappings.
#[derive(Debug)]
pub(crate) struct Finder {
    excluded: Vec<Range<usize>>,
    /// Mappings that cannot be served, as long as the program has them.
    refused: Vec<Range<usize>>,
}

impl Finder {
    pub(crate) fn new(excluded: Vec<Range<usize>>) -> Self {
        Self { excluded, refused: Vec::new() }
    }

    /// Serves mappings that are new.
    pub(crate) fn find(&mut self, shared: &Shared, kernel: &Kernel) {
        let mut new = adopt::mappings();
        self.refused.retain(|refused| new.contains(refused));
        new.retain(|mapping| !self.is_excluded(mapping) && !is_known(shared, mapping));
        if new.is_empty() {
            return;
        }
        let servable = adopt::without_stacks(&new);
        new.retain(|mapping| !servable.contains(mapping));
        self.refused.extend(new);
        for mapping in servable {
            self.adopt(shared, kernel, mapping);
        }
    }

    fn is_excluded(&self, mapping: &Range<usize>) -> bool {
        self.refused.contains(mapping)
            || self.excluded.iter().any(|excluded| overlap(excluded, mapping))
    }

    fn adopt(&mut self, shared: &Shared, kernel: &Kernel, mapping: Range<usize>) {
        let area = adopt::space(&mapping).map(Area::adopt);
        let Some(Ok(area)) = area else { return };
        let area = Arc::new(area);
        mark_tier(shared, &area);
        // From here on a touch of an absent page waits for the thread that serves faults: it has to
        // know the area by then. No message is served meanwhile.
        let _gate = shared.gate.lock();
        let far = (!shared.options.is_one_node()).then_some(shared.options.far_node);
        if kernel.register(&area, far).is_err() {
            // A mapping that cannot be served is not asked about again.
            self.refused.push(mapping);
            return;
        }
        let holds = |other: &Range<usize>| other.start <= mapping.start && mapping.end <= other.end;
        if adopt::mappings().iter().any(holds) {
            mark_filled(shared, kernel, &area);
            shared.add_area(area);
        } else {
            let _ = kernel.areas.unregister(area.space.span(0..area.pages()));
        }
    }
}

/// All pages of an area are near while there is room for all, and else far.
fn mark_tier(shared: &Shared, area: &Area) {
    let room = shared.near_limit().saturating_sub(shared.near_pages());
    let is_near = area.pages() as u64 <= room;
    (0..area.pages()).for_each(|page| shared.note_tier(area, page, is_near));
    let options = &shared.options;
    if !options.is_one_node() {
        let node = if is_near { options.near_node } else { options.far_node };
        // Without it new pages come from any node.
        let _ = area.space.span(0..area.pages()).prefer_node(node);
    }
}

/// Pages that the program has filled before.
fn mark_filled(shared: &Shared, kernel: &Kernel, area: &Area) {
    // Pages that are not seen now are taken for absent, and are neither parked nor counted.
    let _ = kernel.areas.map().visit(area.space.span(0..area.pages()), |pages, kind| {
        if kind.is_there() {
            pages.for_each(|page| shared.note_filled(area, page));
        }
    });
}

/// Whether an area, or memory of the threads that serve, is there.
fn is_known(shared: &Shared, mapping: &Range<usize>) -> bool {
    shared.all_areas().iter().any(|(_, area)| {
        let start = mapping.start.max(addresses(&area.space).start);
        let is_ours = area.space.page_of(start).is_some_and(|page| {
            start < mapping.end && area.word(page).get().phase() != Phase::Gone
        });
        is_ours || overlap(&addresses(&area.mirror), mapping)
    })
}

pub(crate) fn addresses(space: &PageSpace) -> Range<usize> {
    let start = space.address().addr().get();
    start..start + space.bytes()
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}
