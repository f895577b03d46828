//! A block gets another mode.

use std::ops::Range;

use tombolo_coherence::{Hosts, Known, Message};

use crate::answer::Yield;
use crate::collect::Collect;
use crate::local::Local;
use crate::words::renamed;
use crate::{BlockMode, Mode, Pages, Pod, Progress, Question, Subject};

/// Gives a block another mode.
///
/// It takes the block's lock, so that faults that come later wait. Each page that changes its mode
/// is taken from all hosts under the page's own lock, so faults that were before are over by then.
/// Then the mode is published, with the release of the block's lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    block: usize,
    to: BlockMode,
    stage: Stage,
}

/// The mode that a block had, and hosts that map it directly.
type Before = (BlockMode, Hosts);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Lock,
    /// Pages from this one on are still to be looked at.
    Pages(Before, usize),
    /// This host gives up its own mapping of a page.
    Yields(Before, Yield, Known),
    Collect(Before, usize, Collect),
    Unlock(Before, usize),
    /// Direct mappings have to go.
    Unmaps(Before),
    Unmapping(Before, Collect),
    Publish(Before),
}

impl Change {
    /// A block is to have this mode.
    pub fn new(block: usize, to: BlockMode) -> Self {
        Self { block, to, stage: Stage::Lock }
    }

    /// The block.
    pub fn block(&self) -> usize {
        self.block
    }

    /// The mode that it is to have.
    pub fn to(&self) -> BlockMode {
        self.to
    }

    pub(crate) fn rename(&mut self, names: &[usize]) {
        let before = match &mut self.stage {
            Stage::Lock => return,
            Stage::Yields(before, _, known) => {
                known.holders = renamed(known.holders, names);
                before
            }
            Stage::Collect(before, _, collect) | Stage::Unmapping(before, collect) => {
                collect.rename(names);
                before
            }
            Stage::Pages(before, _)
            | Stage::Unlock(before, _)
            | Stage::Unmaps(before)
            | Stage::Publish(before) => before,
        };
        before.1 = renamed(before.1, names);
    }

    /// Takes a step.
    pub fn step<B: Pod + Pages>(&mut self, here: &mut Local, back: &mut B) -> Progress {
        self.stage = match &mut self.stage {
            Stage::Lock => match back.lock_block(self.block) {
                None => return Progress::Waits,
                Some(before) => Stage::Pages(before, here.pages_of(self.block).start),
            },
            Stage::Pages(before, from) => {
                let moves = |page: &usize| {
                    let mode = before.0.of(*page);
                    mode != Mode::Direct && self.to.of(*page) != mode
                };
                let mut pages = *from..here.pages_of(self.block).end;
                match pages.find(|page| moves(page) && !back.is_idle(*page)) {
                    None => Stage::Unmaps(*before),
                    Some(page) => match back.lock_page(page) {
                        None => {
                            *from = page;
                            return Progress::Waits;
                        }
                        Some(known) => {
                            Stage::Yields(*before, Yield::new(page, Message::ClFlush), known)
                        }
                    },
                }
            }
            Stage::Yields(before, own, known) => match own.step(here, back) {
                None => return Progress::Goes,
                Some(_) => {
                    let page = own.page();
                    let question = Question {
                        asker: here.host(),
                        subject: Subject::Page(page),
                        snoop: Message::ClFlush,
                    };
                    let others = known.holders.without(Hosts::one(here.host()));
                    let collect = Collect::new(question, others, back);
                    if collect.is_over() {
                        Stage::Unlock(*before, page)
                    } else {
                        Stage::Collect(*before, page, collect)
                    }
                }
            },
            Stage::Collect(before, page, collect) => {
                if !collect.step(back) {
                    return Progress::Waits;
                }
                if !collect.is_over() {
                    return Progress::Goes;
                }
                Stage::Unlock(*before, *page)
            }
            Stage::Unlock(before, page) => {
                back.unlock_page(*page, Known::default());
                Stage::Pages(*before, *page + 1)
            }
            Stage::Unmaps((mode, hosts)) => {
                let pages = unmapped(*mode, self.to, here.pages_of(self.block));
                let mut others = if pages.is_empty() { Hosts::default() } else { *hosts };
                if others.has(here.host()) {
                    others.remove(here.host());
                    back.invalidate(pages.clone(), Mode::Direct);
                }
                let question = Question {
                    asker: here.host(),
                    subject: Subject::Direct(pages),
                    snoop: Message::ClFlush,
                };
                let collect = Collect::new(question, others, back);
                if collect.is_over() {
                    Stage::Publish((*mode, *hosts))
                } else {
                    Stage::Unmapping((*mode, *hosts), collect)
                }
            }
            Stage::Unmapping(before, collect) => {
                if !collect.step(back) {
                    return Progress::Waits;
                }
                if !collect.is_over() {
                    return Progress::Goes;
                }
                Stage::Publish(*before)
            }
            Stage::Publish((_, hosts)) => {
                let direct = self.to.mode == Mode::Direct;
                let hosts = if direct { *hosts } else { Hosts::default() };
                back.unlock_block(self.block, self.to, hosts);
                return Progress::Done;
            }
        };
        Progress::Goes
    }
}

/// The pages of a block that are direct so far, and will not be.
fn unmapped(from: BlockMode, to: BlockMode, pages: Range<usize>) -> Range<usize> {
    match (from.mode, to.mode, to.probe) {
        (Mode::Direct, Mode::Direct, Some(probe)) if from.probe != to.probe => probe..probe + 1,
        // The probe that there may have been has been taken from hosts before.
        (Mode::Direct, Mode::Owned | Mode::Replicated, _) => pages,
        _ => 0..0,
    }
}
