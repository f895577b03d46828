//! How one page moves between tiers: the steps, one call of the kernel each.
//!
//! A [`Promotion`] copies a page that the program uses, and takes it out of the mapping only if no
//! write was noted meanwhile. It compares what it took out with the copy, and maps the copy if both
//! are equal. The page that it took out stays as the shadow.
//!
//! A [`Demotion`] takes the page out, and compares it with its shadow. If they differ, the shadow's
//! bytes are replaced. So a page that was taken out always goes down, and no write is lost.
//!
//! The steps are apart so that a test can let the program, and its changes of mappings, come
//! between any two. Steps [in the gap](Transaction::is_in_gap) run under the gate, under
//! which messages of the kernel are read.
//!
//! Invariants:
//! * A copy is mapped, or a shadow used, only after it was compared byte by byte with a page that
//!   no program can reach. The kernel forgets the note of a write when it moves a page.
//! * After a refusal the page is in the mapping, or parked, with all its bytes.

use tombolo_memory::paging::Refusal;

use crate::page::Phase;

/// Operations on one page. The mirror is where shadows and parked pages lie; the staged frame and
/// the one aside are private to the transaction.
pub(crate) trait PageOps {
    /// The phase in the state word.
    fn phase(&self) -> Phase;
    /// Changes the phase by compare-and-swap.
    fn change(&self, from: Phase, to: Phase) -> bool;
    /// Notes writes from here on.
    fn protect(&self) -> Result<(), Refusal>;
    /// Copies the page, as the program has it, into a staged frame of the near tier.
    fn stage(&self) -> Result<(), Refusal>;
    /// Whether a write was noted.
    fn is_written(&self) -> bool;
    /// Takes the page out of the mapping into the mirror.
    fn take_out(&self) -> Result<(), Refusal>;
    /// Whether the mirror and the staged frame have the same bytes.
    fn staged_is_same(&self) -> bool;
    /// Puts the mirror's page into the mapping.
    fn put_back(&self) -> Result<(), Refusal>;
    /// Puts the staged frame into the mapping.
    fn map_staged(&self) -> Result<(), Refusal>;
    /// Gives the staged frame up, if there is one.
    fn drop_staged(&self);
    /// Gives up what the mirror has.
    fn drop_mirror(&self);
    /// Copies the page, as the program has it, into the mirror.
    fn copy_to_mirror(&self) -> Result<(), Refusal>;
    /// Takes the page out of the mapping, aside.
    fn take_aside(&self) -> Result<(), Refusal>;
    /// Whether the mirror and the page aside have the same bytes.
    fn aside_is_same(&self) -> bool;
    /// Replaces the mirror's bytes by those of the page aside.
    fn overwrite_mirror(&self);
    /// Gives up the page aside.
    fn drop_aside(&self);
}

/// A move of one page, step by step.
pub(crate) trait Transaction {
    /// Whether the next step has to run under the gate, together with the one before.
    fn is_in_gap(&self) -> bool;

    /// Runs the next step. Returns how the transaction ended, once it has.
    fn advance(&mut self, page: &impl PageOps, omitted: Option<Check>) -> Option<Outcome>;
}

/// A check that a test leaves out, to see that something fails then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Noting writes before the copy is made.
    Protection,
    /// Looking whether a write was noted, before the page is taken out.
    Scan,
    /// Comparing what was taken out with its copy.
    Comparison,
    /// Noting writes once the page is promoted, so that its shadow is dropped at the first.
    Watch,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// The page is in its new place.
    Promoted,
    /// The page is parked in the far tier, in its shadow.
    DemotedByRemap,
    /// The page is parked in the far tier, in a copy that this transaction made.
    DemotedByCopy,
    /// Nothing has moved: the program wrote the page.
    Written,
    /// Nothing has moved: the page is not in the phase to begin with, or was given up.
    Busy,
    /// The kernel said no.
    Refused(Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Up {
    Claim,
    Protect,
    Stage,
    Scan,
    TakeOut,
    Compare,
    Map,
    Watch,
}

/// A loose page of the far tier on its way to the near one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Promotion {
    next: Up,
    keeps_shadow: bool,
}

impl Promotion {
    pub(crate) fn new(keeps_shadow: bool) -> Self {
        Self { next: Up::Claim, keeps_shadow }
    }

    fn map(&mut self, page: &impl PageOps) -> Option<Outcome> {
        if let Err(refusal) = page.map_staged() {
            page.drop_staged();
            page.change(Phase::Out, Phase::Parked);
            return Some(Outcome::Refused(refusal));
        }
        if self.keeps_shadow {
            page.change(Phase::Out, Phase::Shadowed);
            self.next = Up::Watch;
            return None;
        }
        page.drop_mirror();
        page.change(Phase::Out, Phase::Loose);
        Some(Outcome::Promoted)
    }
}

impl Transaction for Promotion {
    fn is_in_gap(&self) -> bool {
        matches!(self.next, Up::TakeOut | Up::Compare | Up::Map)
    }

    fn advance(&mut self, page: &impl PageOps, omitted: Option<Check>) -> Option<Outcome> {
        let runs = |check| omitted != Some(check);
        match self.next {
            Up::Claim if !page.change(Phase::Loose, Phase::Copying) => return Some(Outcome::Busy),
            Up::Claim => self.next = Up::Protect,
            Up::Protect => {
                if runs(Check::Protection)
                    && let Err(refusal) = page.protect()
                {
                    return Some(give_up(page, Outcome::Refused(refusal)));
                }
                self.next = Up::Stage;
            }
            Up::Stage => match page.stage() {
                Ok(()) => self.next = Up::Scan,
                Err(refusal) => return Some(give_up(page, Outcome::Refused(refusal))),
            },
            Up::Scan if runs(Check::Scan) && page.is_written() => {
                return Some(give_up(page, Outcome::Written));
            }
            Up::Scan => self.next = Up::TakeOut,
            Up::TakeOut => {
                if !page.change(Phase::Copying, Phase::Out) {
                    page.drop_staged();
                    return Some(Outcome::Busy);
                }
                if let Err(refusal) = page.take_out() {
                    page.drop_staged();
                    page.change(Phase::Out, Phase::Loose);
                    return Some(Outcome::Refused(refusal));
                }
                self.next = Up::Compare;
            }
            Up::Compare if runs(Check::Comparison) && !page.staged_is_same() => {
                page.drop_staged();
                let is_back = page.put_back().is_ok();
                page.change(Phase::Out, if is_back { Phase::Loose } else { Phase::Parked });
                return Some(Outcome::Written);
            }
            Up::Compare => self.next = Up::Map,
            Up::Map => return self.map(page),
            Up::Watch => {
                // Without it the shadow lives longer than it has to, and is compared all the same.
                if runs(Check::Watch) {
                    let _ = page.protect();
                }
                return Some(Outcome::Promoted);
            }
        }
        None
    }
}

/// Ends a promotion before the page was taken out.
fn give_up(page: &impl PageOps, outcome: Outcome) -> Outcome {
    page.drop_staged();
    page.change(Phase::Copying, Phase::Loose);
    outcome
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Down {
    Claim,
    Copy,
    TakeAside,
    Compare,
}

/// A page of the near tier on its way to the far one. It is parked there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Demotion {
    next: Down,
    had_shadow: bool,
}

impl Demotion {
    pub(crate) fn new() -> Self {
        Self { next: Down::Claim, had_shadow: false }
    }

    fn take_aside(&mut self, page: &impl PageOps) -> Option<Outcome> {
        let from = if self.had_shadow { Phase::Shadowed } else { Phase::Copying };
        if !page.change(from, Phase::Out) {
            // A page that was given up meanwhile has nothing in the mirror but this copy.
            if !self.had_shadow {
                page.drop_mirror();
            }
            return Some(Outcome::Busy);
        }
        if let Err(refusal) = page.take_aside() {
            if !self.had_shadow {
                page.drop_mirror();
            }
            page.change(Phase::Out, if self.had_shadow { from } else { Phase::Loose });
            return Some(Outcome::Refused(refusal));
        }
        self.next = Down::Compare;
        None
    }
}

impl Transaction for Demotion {
    fn is_in_gap(&self) -> bool {
        matches!(self.next, Down::TakeAside | Down::Compare)
    }

    fn advance(&mut self, page: &impl PageOps, omitted: Option<Check>) -> Option<Outcome> {
        match self.next {
            Down::Claim if page.phase() == Phase::Shadowed => {
                self.had_shadow = true;
                self.next = Down::TakeAside;
            }
            Down::Claim if page.change(Phase::Loose, Phase::Copying) => self.next = Down::Copy,
            Down::Claim => return Some(Outcome::Busy),
            Down::Copy => match page.copy_to_mirror() {
                Ok(()) => self.next = Down::TakeAside,
                Err(refusal) => {
                    page.change(Phase::Copying, Phase::Loose);
                    return Some(Outcome::Refused(refusal));
                }
            },
            Down::TakeAside => return self.take_aside(page),
            Down::Compare => {
                let is_same = omitted == Some(Check::Comparison) || page.aside_is_same();
                if !is_same {
                    page.overwrite_mirror();
                }
                page.drop_aside();
                page.change(Phase::Out, Phase::Parked);
                let is_remap = is_same && self.had_shadow;
                let by = if is_remap { Outcome::DemotedByRemap } else { Outcome::DemotedByCopy };
                return Some(by);
            }
        }
        None
    }
}
