//! A run: the pod's state, the adversary that disturbs it, and what is observed.

use std::cell::{Cell, RefCell};
use std::panic::Location;

use tombolo_memory::{LINE_BYTES, Site};

use crate::adversary::{Player, Point};
use crate::config::Config;
use crate::coverage::CrashPoint;
use crate::lnr::Lnr;
use crate::sanitizer::Violation;
use crate::schedule::{Action, Outcome, Turn};
use crate::scr::Scr;
use crate::state::State;
use crate::trial::{Mutant, Trial};

/// What is recycled from run to run.
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
    /// What the player does, to be recycled.
    actions: Cell<Vec<Action>>,
}

impl World {
    pub(crate) fn new(config: Config, trial: Trial) -> Self {
        assert!(config.lnr_bytes.is_multiple_of(LINE_BYTES), "LNR is not a whole number of lines");
        let Recycled { mut scr, mut lnr } = RECYCLED.take().unwrap_or_default();
        scr.prepare(config.hosts, config.scr_bytes as usize);
        lnr.prepare(config.hosts, (config.lnr_bytes / LINE_BYTES) as usize);
        let state = RefCell::new(State::new(scr, lnr, &config, trial.seed));
        let player = RefCell::new(Player::new(&trial.adversary, trial.seed, &config));
        Self { config, trial, state, player, actions: Cell::default() }
    }

    pub(crate) fn state(&self) -> std::cell::RefMut<'_, State> {
        self.state.borrow_mut()
    }

    pub(crate) fn keeps(&self, site: Site) -> bool {
        self.trial.without.is_none_or(|without| without != Mutant::Step(site))
    }

    pub(crate) fn keeps_fence(&self, site: Site) -> bool {
        self.trial.without.is_none_or(|without| without != Mutant::Fence(site))
    }

    /// The current thread has come to a step.
    pub(crate) fn cross(&self, state: &mut State, site: Site, mattered: bool, fenced: bool) {
        let current = state.current;
        state.threads[current].come_to(site);
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

    /// A decision of the adversary; who runs next is then settled in the state.
    pub(crate) fn decide(&self, state: &mut State, point: Point, at: &'static Location<'static>) {
        let turn = state.take_turn();
        if !state.disturbed {
            return;
        }
        let mut actions = self.actions.take();
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
        let (at, outcome) = ((at.file(), at.line()), outcome.name());
        let mut observed = self.trial.observed();
        observed.coverage.crash(CrashPoint { at, outcome });
        for thread in state.threads_of(host) {
            thread.at().iter().for_each(|&site| observed.coverage.died_at(site));
        }
        observed.coverage.note(match outcome {
            "lost" => "a host died, its dirty lines lost",
            "written" => "a host died, its dirty lines written back",
            "one" => "a host died, one of its dirty lines written back",
            "all but one" => "a host died, all but one of its dirty lines written back",
            _ => "a host died, some of its dirty lines written back",
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
