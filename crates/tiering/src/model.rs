//! The transactions, explored: a program that writes one page and gives it up or remaps it, the
//! thread that serves faults, and the worker, in all orders.
//!
//! The steps are the product's; the kernel is a small model of what its manual promises. It notes
//! writes to protected pages, forgets the note when a page moves, takes a page that was never
//! protected for written, and refuses changes while a message waits to be read.
//!
//! Left out: several pages, `fork()`, and refusals at random.

use std::cell::RefCell;

use stateright::{Checker, Model, Property};
use tombolo_memory::paging::Refusal;

use crate::page::Phase;
use crate::transaction::{Check, Demotion, Outcome, PageOps, Promotion, Transaction};

/// Writes that the program makes at most.
const WRITES: u8 = 3;

/// How far the program is with giving the page up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Removal {
    Never,
    /// The message waits, and the program waits for its being read.
    Told,
    /// The message was read; the kernel takes the page at any moment.
    Read,
    Done,
}

/// How far the program is with moving the page to another address, where the old one stays mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Remap {
    Never,
    /// The page is there, if it was in the mapping. The message waits.
    Told,
    /// The message was read. The kernel moves no page before the program's thread runs again.
    Read,
    /// It runs.
    Ran,
    /// A parked page has followed.
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Running {
    Nothing,
    Up(Promotion),
    Down(Demotion),
}

/// A page, as program, kernel and this crate have it. Its bytes are one number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Page {
    phase: Phase,
    mapped: Option<u8>,
    is_protected: bool,
    mirror: Option<u8>,
    staged: Option<u8>,
    aside: Option<u8>,
    running: Running,
    removal: Removal,
    remap: Remap,
    /// The number of the last write in the page at the new address, if a page is there.
    elsewhere: Option<u8>,
    /// Writes of the program: the last one wrote this number.
    writes: u8,
    /// The number that the program has to find; zero after it has discarded the page.
    expected: u8,
    /// It was written since the promotion began to note writes.
    is_dirty: bool,
    /// It was taken out though the promotion could see that it was written.
    is_snatched: bool,
    /// A shadow was kept by a sweep.
    is_kept: bool,
    last: Option<Outcome>,
}

struct Shared(RefCell<Page>);

impl Shared {
    fn refused(&self) -> Result<(), Refusal> {
        let page = self.0.borrow();
        let is_told = page.removal == Removal::Told || page.remap_is_refused();
        if is_told { Err(Refusal::Changing) } else { Ok(()) }
    }
}

impl PageOps for Shared {
    fn phase(&self) -> Phase {
        self.0.borrow().phase
    }

    fn change(&self, from: Phase, to: Phase) -> bool {
        let mut page = self.0.borrow_mut();
        let is_from = page.phase == from;
        if is_from {
            page.phase = to;
        }
        is_from
    }

    fn protect(&self) -> Result<(), Refusal> {
        self.refused()?;
        let mut page = self.0.borrow_mut();
        page.is_protected = page.mapped.is_some();
        page.is_dirty = false;
        Ok(())
    }

    fn stage(&self) -> Result<(), Refusal> {
        let mut page = self.0.borrow_mut();
        // Of an absent page it would be zeros, from the thread that serves faults.
        page.staged = Some(page.mapped.ok_or(Refusal::Absent)?);
        Ok(())
    }

    fn is_written(&self) -> bool {
        !self.0.borrow().is_protected
    }

    fn take_out(&self) -> Result<(), Refusal> {
        let mut page = self.0.borrow_mut();
        page.mirror = Some(page.mapped.take().ok_or(Refusal::Absent)?);
        page.is_protected = false;
        Ok(())
    }

    fn staged_is_same(&self) -> bool {
        let page = self.0.borrow();
        page.staged == page.mirror
    }

    fn put_back(&self) -> Result<(), Refusal> {
        self.refused()?;
        let mut page = self.0.borrow_mut();
        assert_eq!(page.mapped, None);
        page.mapped = page.mirror.take();
        Ok(())
    }

    fn map_staged(&self) -> Result<(), Refusal> {
        self.refused()?;
        let mut page = self.0.borrow_mut();
        assert_eq!(page.mapped, None);
        page.mapped = page.staged.take();
        Ok(())
    }

    fn drop_staged(&self) {
        self.0.borrow_mut().staged = None;
    }

    fn drop_mirror(&self) {
        self.0.borrow_mut().mirror = None;
    }

    fn copy_to_mirror(&self) -> Result<(), Refusal> {
        let mut page = self.0.borrow_mut();
        assert_eq!(page.mirror, None, "the mirror of a page is in use");
        page.mirror = Some(page.mapped.ok_or(Refusal::Absent)?);
        Ok(())
    }

    fn take_aside(&self) -> Result<(), Refusal> {
        let mut page = self.0.borrow_mut();
        page.aside = Some(page.mapped.take().ok_or(Refusal::Absent)?);
        page.is_protected = false;
        Ok(())
    }

    fn aside_is_same(&self) -> bool {
        let page = self.0.borrow();
        page.aside == page.mirror
    }

    fn overwrite_mirror(&self) {
        let mut page = self.0.borrow_mut();
        page.mirror = page.aside;
    }

    fn drop_aside(&self) {
        self.0.borrow_mut().aside = None;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Write,
    Touch,
    Park,
    Promote,
    Demote,
    Step,
    Sweep,
    GiveUp,
    ReadMessage,
    Zap,
    Remap,
    ReadRemap,
    Run,
    Follow,
    BringBack,
}

#[derive(Clone, Copy, Default)]
struct OnePage {
    omitted: Option<Check>,
    /// A page that was given up may move at once, before the kernel has taken it.
    forgets_removal: bool,
    /// The gate is open while a page waits to follow to its new address.
    opens_gate: bool,
}

impl Page {
    fn has_ended(&self, outcome: Outcome) -> bool {
        self.last == Some(outcome)
    }

    fn gate_is_free(&self) -> bool {
        match &self.running {
            Running::Nothing => true,
            Running::Up(up) => !up.is_in_gap() || self.phase != Phase::Out,
            Running::Down(down) => !down.is_in_gap() || self.phase != Phase::Out,
        }
    }

    fn remap_is_refused(&self) -> bool {
        matches!(self.remap, Remap::Told | Remap::Read)
    }

    fn is_next_in_gap(&self) -> bool {
        match &self.running {
            Running::Nothing => false,
            Running::Up(up) => up.is_in_gap(),
            Running::Down(down) => down.is_in_gap(),
        }
    }

    /// `opens_gate` as the model has it.
    fn is_possible(&self, action: Action, opens_gate: bool) -> bool {
        let is_idle = self.running == Running::Nothing;
        let is_here = self.remap == Remap::Never;
        let is_settled = is_here && matches!(self.removal, Removal::Never | Removal::Done);
        let is_closed = !opens_gate && matches!(self.remap, Remap::Read | Remap::Ran);
        match action {
            Action::Write => self.mapped.is_some() && self.writes < WRITES && is_settled,
            Action::Touch => is_here && self.mapped.is_none() && self.gate_is_free(),
            Action::Park => {
                is_idle && !is_closed && self.phase == Phase::Loose && self.mapped.is_some()
            }
            Action::Promote | Action::Demote => is_idle,
            Action::Step => !(is_idle || is_closed && self.is_next_in_gap()),
            Action::Sweep => is_idle && !is_closed && self.phase == Phase::Shadowed,
            Action::GiveUp => is_here && self.removal == Removal::Never,
            Action::ReadMessage => self.removal == Removal::Told && self.gate_is_free(),
            Action::Zap => self.removal == Removal::Read,
            Action::Remap => is_here && self.removal == Removal::Never,
            Action::ReadRemap => self.remap == Remap::Told && self.gate_is_free(),
            Action::Run => self.remap == Remap::Read,
            Action::Follow => self.remap == Remap::Ran && self.gate_is_free(),
            Action::BringBack => {
                let is_refused = self.remap_is_refused() || self.removal == Removal::Told;
                is_idle && !is_closed && !is_refused && self.phase == Phase::Parked
            }
        }
    }

    fn step(self, omitted: Option<Check>) -> Self {
        let mut running = self.running.clone();
        let (was_dirty, phase) = (self.is_dirty, self.phase);
        let shared = Shared(RefCell::new(self));
        let outcome = match &mut running {
            Running::Nothing => None,
            Running::Up(up) => up.advance(&shared, omitted),
            Running::Down(down) => down.advance(&shared, omitted),
        };
        let mut page = shared.0.into_inner();
        let passed_scan = matches!(&running, Running::Up(up) if up.is_in_gap());
        page.is_snatched |=
            passed_scan && phase == Phase::Copying && was_dirty && page.phase == Phase::Copying;
        page.running = if outcome.is_some() { Running::Nothing } else { running };
        page.last = outcome;
        page
    }
}

impl Model for OnePage {
    type State = Page;
    type Action = Action;

    fn init_states(&self) -> Vec<Page> {
        vec![Page {
            phase: Phase::Loose,
            mapped: Some(0),
            is_protected: false,
            mirror: None,
            staged: None,
            aside: None,
            running: Running::Nothing,
            removal: Removal::Never,
            remap: Remap::Never,
            elsewhere: None,
            writes: 0,
            expected: 0,
            is_dirty: false,
            is_snatched: false,
            is_kept: false,
            last: None,
        }]
    }

    fn actions(&self, page: &Page, actions: &mut Vec<Action>) {
        let all = [
            Action::Write,
            Action::Touch,
            Action::Park,
            Action::Promote,
            Action::Demote,
            Action::Step,
            Action::Sweep,
            Action::GiveUp,
            Action::ReadMessage,
            Action::Zap,
            Action::Remap,
            Action::ReadRemap,
            Action::Run,
            Action::Follow,
            Action::BringBack,
        ];
        let is_possible = |action: &Action| page.is_possible(*action, self.opens_gate);
        actions.extend(all.into_iter().filter(is_possible));
    }

    fn next_state(&self, before: &Page, action: Action) -> Option<Page> {
        let mut page = before.clone();
        match action {
            Action::Write => {
                page.writes += 1;
                page.expected = page.writes;
                page.mapped = Some(page.writes);
                page.is_protected = false;
                page.is_dirty = true;
            }
            Action::Touch => {
                // As the thread that serves faults does.
                if page.removal == Removal::Told {
                    return None;
                }
                page.mapped = Some(if page.phase == Phase::Parked {
                    page.phase = Phase::Loose;
                    page.mirror.take()?
                } else {
                    if page.phase == Phase::Removed {
                        page.phase = Phase::Loose;
                    }
                    0
                });
                page.is_protected = false;
            }
            Action::Park => {
                page.mirror = page.mapped.take();
                page.is_protected = false;
                page.phase = Phase::Parked;
            }
            Action::Promote => page.running = Running::Up(Promotion::new(true)),
            Action::Demote => page.running = Running::Down(Demotion::new()),
            Action::Step => page = page.step(self.omitted),
            Action::Sweep if page.is_protected => page.is_kept = true,
            Action::Sweep => {
                page.mirror = None;
                page.phase = Phase::Loose;
            }
            Action::GiveUp => page.removal = Removal::Told,
            Action::ReadMessage => {
                if page.phase.has_mirror() {
                    page.mirror = None;
                }
                let forgotten = self.forgets_removal && page.phase != Phase::Copying;
                page.phase = if forgotten { Phase::Loose } else { Phase::Removed };
                page.removal = Removal::Read;
            }
            Action::Zap => {
                page.mapped = None;
                page.is_protected = false;
                page.expected = 0;
                page.removal = Removal::Done;
            }
            Action::Remap => {
                page.elsewhere = page.mapped.take();
                page.is_protected = false;
                page.remap = Remap::Told;
            }
            Action::ReadRemap => page.remap = Remap::Read,
            Action::Run => page.remap = Remap::Ran,
            Action::Follow => {
                let held = page.mirror.take();
                if page.phase == Phase::Parked {
                    page.elsewhere = held;
                }
                page.phase = Phase::Gone;
                page.remap = Remap::Done;
            }
            Action::BringBack => {
                page.mapped = page.mirror.take();
                page.phase = Phase::Loose;
            }
        }
        Some(page)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no write is lost", |_, page: &Page| {
                let is_settled = matches!(page.removal, Removal::Never | Removal::Done);
                match page.remap {
                    Remap::Never if is_settled => {
                        page.mapped.is_none_or(|found| found == page.expected)
                    }
                    Remap::Done => page.elsewhere.unwrap_or(0) == page.expected,
                    _ => true,
                }
            }),
            Property::always("no page is taken from a writer", |_, page: &Page| !page.is_snatched),
            Property::always("no frame is left over", |_, page: &Page| {
                let is_idle = page.running == Running::Nothing;
                let has_mirror = page.mirror.is_some();
                let frames = page.staged.or(page.aside);
                !is_idle || frames.is_none() && has_mirror == page.phase.has_mirror()
            }),
            Property::sometimes("a page is promoted", |_, page: &Page| {
                page.has_ended(Outcome::Promoted)
            }),
            Property::sometimes("a shadow outlives a sweep", |_, page: &Page| page.is_kept),
            Property::sometimes("a page is remapped down", |_, page: &Page| {
                page.has_ended(Outcome::DemotedByRemap)
            }),
            Property::sometimes("a written page is copied down", |_, page: &Page| {
                page.has_ended(Outcome::DemotedByCopy) && page.writes > 0
            }),
            Property::sometimes("a writer makes a promotion give up", |_, page: &Page| {
                page.has_ended(Outcome::Written)
            }),
        ]
    }
}

/// The properties that do not hold.
fn broken(model: OnePage) -> Vec<&'static str> {
    let checker = model.checker().spawn_bfs().join();
    let properties = model.properties();
    let is_broken = |property: &Property<OnePage>| {
        let is_found = checker.discovery(property.name).is_some();
        let is_goal = matches!(property.expectation, stateright::Expectation::Sometimes);
        is_found != is_goal
    };
    properties.iter().filter(|property| is_broken(property)).map(|found| found.name).collect()
}

#[test]
fn all_orders_keep_all_writes() {
    assert_eq!(broken(OnePage::default()), [""; 0]);
}

#[test]
fn each_check_is_needed() {
    for (check, property) in [
        (Check::Comparison, "no write is lost"),
        (Check::Scan, "no page is taken from a writer"),
        (Check::Protection, "a page is promoted"),
        (Check::Watch, "a shadow outlives a sweep"),
    ] {
        let found = broken(OnePage { omitted: Some(check), ..OnePage::default() });
        assert!(found.contains(&property), "{check:?}: {found:?}");
    }
}

#[test]
fn a_page_that_is_given_up_may_not_move_before_it_is_gone() {
    let found = broken(OnePage { forgets_removal: true, ..OnePage::default() });
    assert!(found.contains(&"no write is lost"), "{found:?}");
}

/// The kernel lets a parked page follow to its new address only once the program's thread runs.
/// Meanwhile the worker brought it back to the old one.
#[test]
fn no_page_comes_back_while_others_follow_to_their_new_address() {
    let found = broken(OnePage { opens_gate: true, ..OnePage::default() });
    assert!(found.contains(&"no write is lost"), "{found:?}");
}
