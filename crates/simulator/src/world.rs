//! A run: the pod's state, the adversary that disturbs it, and what is observed.

use std::cell::{Cell, RefCell};
use std::panic::Location;

use tombolo_memory::{LINE_BYTES, Site};

use crate::adversary::{Player, Point};
use crate::aim::{Aim, Death, Doom};
use crate::config::Config;
use crate::coverage::{CrashPoint, DeathAt};
use crate::lnr::Lnr;
use crate::sanitizer::Violation;
use crate::schedule::{Action, Fate, Outcome, Turn};
use crate::scr::Scr;
use crate::state::State;
use crate::trial::{Mutant, Trial};

/// Steps that may follow a run, in which its outcome is looked at: a mutant may never get to the
/// end of that.
pub(crate) const AFTERWARDS: u64 = 20_000_000;

/// The memory that is recycled from run to run.
#[derive(Default)]
struct Recycled {
    scr: Scr,
    lnr: Lnr,
}

thread_local! {
    static RECYCLED: Cell<Option<Recycled>> = const { Cell::new(None) };
}

pub(crate) struct World {
    pub(crate) config: Config,
    pub(crate) trial: Trial,
    state: RefCell<State>,
    player: RefCell<Player>,
    /// Times that hosts have come to the step at which one is to die.
    crossings: Cell<u32>,
    doom: Cell<Option<Doom>>,
    /// The player's actions, to be recycled.
    actions: Cell<Vec<Action>>,
}

impl World {
    pub(crate) fn new(config: Config, trial: Trial) -> Self {
        assert!(config.lnr_bytes.is_multiple_of(LINE_BYTES), "LNR is not a whole number of lines");
        let Recycled { mut scr, mut lnr } = RECYCLED.take().unwrap_or_default();
        let (platform, lines) = (config.platform, (config.lnr_bytes / LINE_BYTES) as usize);
        let coherent = platform.coherent_words;
        scr.prepare(config.hosts, config.scr_bytes as usize, coherent, trial.seed);
        lnr.prepare(config.hosts, lines, platform, trial.seed);
        let state = RefCell::new(State::new(scr, lnr, &config, trial.seed));
        let player = RefCell::new(Player::new(&trial, &config));
        let (crossings, doom, actions) = (Cell::default(), Cell::default(), Cell::default());
        Self { config, trial, state, player, crossings, doom, actions }
    }

    pub(crate) fn state(&self) -> std::cell::RefMut<'_, State> {
        self.state.borrow_mut()
    }

    pub(crate) fn keeps(&self, site: Site) -> bool {
        self.trial.without.is_none_or(|without| without != Mutant::Step(site))
    }

    pub(crate) fn keeps_fence(&self, site: Site) -> bool {
        let without = self.trial.without;
        self.config.platform.fences && without.is_none_or(|without| without != Mutant::Fence(site))
    }

    /// The current thread has come to a step, nothing of which is done yet.
    #[inline]
    pub(crate) fn come_to(&self, state: &mut State, site: Site) {
        let current = state.current;
        state.threads[current].come_to(site);
        if state.disturbed && self.trial.death != Death::AtRandom {
            self.take_aim(state, site);
        }
    }

    fn take_aim(&self, state: &State, site: Site) {
        let host = state.threads[state.current].host;
        let aims = self.doom.get().is_none() && self.player.borrow().aims_at(host);
        if !aims || state.is_dead(state.current) || std::thread::panicking() {
            return;
        }
        match self.trial.death {
            Death::Aimed(aim) if aim.site == site => {
                self.crossings.set(self.crossings.get() + 1);
                if self.crossings.get() == aim.crossing {
                    let Aim { operations, fate, line, .. } = aim;
                    self.doom.set(Some(Doom { thread: state.current, operations, fate, line }));
                }
            }
            Death::Spared => {
                let dirty = state.lnr.dirty_lines(usize::from(host)) as u32;
                self.trial.observed().crossings.entry(site).or_default().add(dirty);
            }
            _ => {}
        }
    }

    /// A step was made.
    pub(crate) fn cross(&self, site: Site, mattered: bool, fenced: bool) {
        self.trial.observed().coverage.cross(site, mattered, fenced);
    }

    /// Ends the run if a rule was broken.
    pub(crate) fn judge(&self, finding: Result<(), Violation>) {
        if let Err(violation) = finding
            && self.trial.sanitize
            && !std::thread::panicking()
        {
            panic!("{}", violation.report(&self.config.places));
        }
    }

    /// A decision of the adversary; the state then says which thread runs next.
    pub(crate) fn decide(&self, state: &mut State, point: Point, at: &'static Location<'static>) {
        let turn = state.take_turn();
        if !state.disturbed {
            let is_stuck = state.current == 0 && state.steps > state.budget;
            assert!(
                !is_stuck || std::thread::panicking(),
                "no end after {AFTERWARDS} steps that follow the run: a loop"
            );
            return;
        }
        let mut actions = self.actions.take();
        self.strike(state, point, &mut actions);
        self.player.borrow_mut().decide(state, turn, point, &mut actions);
        for action in actions.drain(..) {
            self.perform(state, turn, action, at);
        }
        if state.steps > state.budget {
            // Back to who counts.
            state.next = Some(state.current);
        }
        if matches!(point, Point::Wait | Point::End) && state.next.is_none() {
            state.next = state.successor(state.current, state.steps);
        }
        self.actions.set(actions);
    }

    /// The aimed death, if this is its moment.
    fn strike(&self, state: &State, point: Point, actions: &mut Vec<Action>) {
        let Some(doom) = self.doom.get().filter(|doom| doom.thread == state.current) else {
            return;
        };
        if doom.operations > 0 && point != Point::End {
            return self.doom.set(Some(Doom { operations: doom.operations - 1, ..doom }));
        }
        self.doom.set(None);
        if state.is_dead(state.current) {
            return;
        }
        self.trial.observed().hits += 1;
        let host = state.threads[state.current].host;
        for (dying, n) in self.player.borrow_mut().strike(host).into_iter().zip(1u64..) {
            let dirty = state.lnr.dirty_lines(usize::from(dying));
            // Any number will do, as long as it is the seed's and the moment's.
            let dice =
                self.trial.seed.wrapping_add(state.steps * n).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    >> 7;
            let dice = doom.line.map_or(dice, u64::from);
            actions.push(Action::Kill(dying, doom.fate.of(dirty, dice)));
        }
    }

    fn perform(
        &self,
        state: &mut State,
        turn: Turn,
        action: Action,
        at: &'static Location<'static>,
    ) {
        if self.trial.record {
            let mut observed = self.trial.observed();
            observed.schedule.actions.push((turn, action));
            if !matches!(action, Action::Switch(_) | Action::Sleep(_)) {
                observed.timeline.action(state.steps, action);
            }
        }
        if let Action::Kill(host, outcome) = action {
            self.observe_death(state, host, outcome, at);
        }
        state.perform(action);
    }

    fn observe_death(
        &self,
        state: &State,
        host: u8,
        outcome: Outcome,
        at: &'static Location<'static>,
    ) {
        let (at, fate) = ((at.file(), at.line()), outcome.fate());
        let dirty = state.lnr.dirty_lines(usize::from(host)).min(2) as u8;
        let mut observed = self.trial.observed();
        observed.coverage.crash(CrashPoint { at, fate });
        for thread in state.threads_of(host) {
            let sites = thread.at().iter();
            sites.for_each(|&site| observed.coverage.died_at(DeathAt { site, fate, dirty }));
        }
        observed.coverage.note(match fate {
            Fate::Lost => "a host died, its dirty lines lost",
            Fate::Written => "a host died, its dirty lines written back",
            Fate::One => "a host died, one of its dirty lines written back",
            Fate::AllButOne => "a host died, all but one of its dirty lines written back",
            Fate::Some => "a host died, some of its dirty lines written back",
        });
    }

    /// The adversary is through.
    pub(crate) fn finish(&self) {
        let mut observed = self.trial.observed();
        let mut state = self.state.borrow_mut();
        state.disturbed = false;
        state.deliver_all();
        observed.steps = state.steps;
        observed.openings.clear();
        observed.openings.extend_from_slice(self.player.borrow().openings());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let (scr, lnr) = (std::mem::take(&mut state.scr), std::mem::take(&mut state.lnr));
        RECYCLED.set(Some(Recycled { scr, lnr }));
    }
}
