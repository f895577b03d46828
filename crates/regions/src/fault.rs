//! A processor wants what its host may not do.

use tombolo_coherence::{Access, Ask, Filter, Hosts, Known, SHARING, State};

use crate::collect::Collect;
use crate::local::{Held, Local};
use crate::words::renamed;
use crate::{BlockMode, Mode, Pages, Pod, Progress, Question, Subject};

/// Makes a page accessible to the processors of a host.
///
/// When it is done the access may be tried again. Another host may have taken the page once more by
/// then; that is another fault.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    page: usize,
    access: Access,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Look,
    LockBlock,
    MapBlock(BlockMode, Hosts),
    UnlockBlock(BlockMode, Hosts),
    LockPage,
    /// With the page's lock: is the block still in a mode in which the page has one?
    Check(Known),
    Collect(Wanted, Collect),
    Fetch(Mode, Known),
    Map(Mode, Known),
    UnlockPage(Known),
    /// The block's mode has changed: back to the beginning.
    GiveUp(Known),
}

/// The host's request for a page, and the mode and the sharers with which it will have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Wanted {
    ask: Ask,
    mode: Mode,
    /// Hosts that need not be asked.
    rest: Hosts,
    shared: bool,
}

impl Fault {
    /// A processor of the host wants to access a page.
    pub fn new(page: usize, access: Access) -> Self {
        Self { page, access, stage: Stage::Look }
    }

    /// The page.
    pub fn page(&self) -> usize {
        self.page
    }

    pub(crate) fn rename(&mut self, names: &[usize]) {
        match &mut self.stage {
            Stage::Look | Stage::LockBlock | Stage::LockPage => {}
            Stage::MapBlock(_, hosts) | Stage::UnlockBlock(_, hosts) => {
                *hosts = renamed(*hosts, names);
            }
            Stage::Collect(wanted, collect) => {
                wanted.rest = renamed(wanted.rest, names);
                collect.rename(names);
            }
            Stage::Fetch(_, known)
            | Stage::Map(_, known)
            | Stage::Check(known)
            | Stage::UnlockPage(known)
            | Stage::GiveUp(known) => {
                known.holders = renamed(known.holders, names);
            }
        }
    }

    /// Takes a step.
    pub fn step<B: Pod + Pages>(&mut self, here: &mut Local, back: &mut B) -> Progress {
        let page = self.page;
        let block = here.block_of(page);
        self.stage = match &mut self.stage {
            Stage::Look => {
                // Another thread of this host may have been first.
                if here.go_ahead(page, self.access, back) {
                    return Progress::Done;
                }
                match back.block(block) {
                    None => return Progress::Waits,
                    Some(mode) if mode.of(page) == Mode::Direct => Stage::LockBlock,
                    Some(_) => Stage::LockPage,
                }
            }
            Stage::LockBlock => match back.lock_block(block) {
                None => return Progress::Waits,
                Some((mode, hosts)) if mode.of(page) == Mode::Direct => {
                    Stage::MapBlock(mode, hosts)
                }
                Some((mode, hosts)) => {
                    back.unlock_block(block, mode, hosts);
                    Stage::Look
                }
            },
            Stage::MapBlock(mode, hosts) => {
                // A host that maps the block lacks this page alone, which was a probe.
                let pages =
                    if hosts.has(here.host()) { page..page + 1 } else { here.pages_of(block) };
                let probe = mode.probe.unwrap_or(pages.end);
                let before = pages.start..probe.min(pages.end);
                for pages in [before, pages.start.max(probe + 1)..pages.end] {
                    if !pages.is_empty() {
                        back.map(pages, Mode::Direct, Access::Write);
                    }
                }
                hosts.insert(here.host());
                Stage::UnlockBlock(*mode, *hosts)
            }
            Stage::UnlockBlock(mode, hosts) => {
                back.unlock_block(block, *mode, *hosts);
                return Progress::Done;
            }
            Stage::LockPage => match back.lock_page(page) {
                None => return Progress::Waits,
                Some(known) => Stage::Check(known),
            },
            Stage::Check(known) => match back.block(block).map(|mode| mode.of(page)) {
                None | Some(Mode::Direct) => Stage::GiveUp(*known),
                Some(mode) => Self::ask((page, self.access), mode, *known, here, back),
            },
            Stage::Collect(wanted, collect) => {
                if !collect.step(back) {
                    return Progress::Waits;
                }
                if collect.is_over() {
                    wanted.granted(collect.keep, here)
                } else {
                    return Progress::Goes;
                }
            }
            Stage::Fetch(mode, known) => {
                back.fetch(page, *mode);
                Stage::Map(*mode, *known)
            }
            Stage::Map(mode, known) => {
                let state = match (self.access, known.alone) {
                    (Access::Write, _) => State::Modified,
                    (Access::Read, true) => State::Exclusive,
                    (Access::Read, false) => State::Shared,
                };
                here.set(page, Held { state, mode: *mode });
                back.map(page..page + 1, *mode, self.access);
                Stage::UnlockPage(*known)
            }
            Stage::UnlockPage(known) => {
                back.unlock_page(page, *known);
                return Progress::Done;
            }
            Stage::GiveUp(known) => {
                back.unlock_page(page, *known);
                Stage::Look
            }
        };
        Progress::Goes
    }

    /// With the page's lock: asks hosts that have to give the page up, or to let this one read it.
    fn ask<B: Pod + Pages>(
        (page, access): (usize, Access),
        mode: Mode,
        known: Known,
        here: &Local,
        back: &mut B,
    ) -> Stage {
        let Some(ask) = (SHARING.ask)(here.held(page).state, access) else {
            return Stage::GiveUp(known);
        };
        // Sets of hosts hold any number, so the number of hosts that there are plays no part.
        let (asked, shared) =
            Filter::Directory.concerned(ask, (here.host(), Hosts::<1>::MOST), known);
        let rest = known.holders.without(asked);
        let wanted = Wanted { ask, mode, rest, shared };
        if asked.is_empty() {
            return wanted.granted(Hosts::default(), here);
        }
        let snoop = (SHARING.snoop)(ask);
        let question = Question { asker: here.host(), subject: Subject::Page(page), snoop };
        Stage::Collect(wanted, Collect::new(question, asked, back))
    }
}

impl Wanted {
    /// The next stage, once all hosts that were asked have answered: those in `keep` keep the page.
    fn granted(self, keep: Hosts, here: &Local) -> Stage {
        let shared = self.shared || !keep.is_empty();
        let (_, state) = (SHARING.grant)(self.ask, shared);
        let alone = state != State::Shared;
        let others = self.rest.iter().chain(keep.iter()).filter(|_| !alone);
        let holders = others.chain([here.host()]).collect();
        let known = Known { holders, alone };
        match self.ask {
            Ask::Upgrade => Stage::Map(self.mode, known),
            Ask::Read | Ask::Own => Stage::Fetch(self.mode, known),
        }
    }
}
