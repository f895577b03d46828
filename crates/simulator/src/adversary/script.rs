//! Follows a script, and notes where it could be continued.

use std::collections::HashMap;

use super::{Caches, Point};
use crate::schedule::{Action, Opening, Schedule, Turn};
use crate::state::State;

pub(crate) struct Script {
    actions: HashMap<Turn, Vec<Action>>,
    /// Actions that are still to come.
    left: usize,
    caches: Option<Caches>,
    openings: Vec<Opening>,
}

impl Script {
    pub(crate) fn new(schedule: &Schedule, caches: Option<Caches>) -> Self {
        let mut actions: HashMap<Turn, Vec<Action>> = HashMap::new();
        for &(turn, action) in &schedule.actions {
            actions.entry(turn).or_default().push(action);
        }
        let left = schedule.actions.len();
        Self { actions, left, caches, openings: Vec::new() }
    }

    pub(crate) fn openings(&self) -> &[Opening] {
        &self.openings
    }

    pub(crate) fn decide(
        &mut self,
        state: &mut State,
        turn: Turn,
        point: Point,
        actions: &mut Vec<Action>,
    ) {
        if let Some(caches) = self.caches {
            move_caches(caches, state, point, actions);
        }
        if self.left > 0 {
            if let Some(due) = self.actions.get(&turn) {
                self.left -= due.len().min(self.left);
                actions.extend(due);
            }
        } else if is_visible(state, point) {
            let others = state.runnable().filter(|&other| other != state.current);
            let others = others.fold(0, |bits, thread| bits | 1 << thread);
            if others != 0 {
                self.openings.push(Opening { turn, others });
            }
        }
    }
}

fn move_caches(caches: Caches, state: &State, point: Point, actions: &mut Vec<Action>) {
    let hosts = state.lives.len() as u8;
    if caches.sticky
        && let Point::Line(line) = point
    {
        let absent = |&host: &u8| !state.lnr.is_present(usize::from(host), line);
        actions.extend((0..hosts).filter(absent).map(|host| Action::Prefetch(host, line)));
    }
    if !caches.sticky && matches!(point, Point::Line(_) | Point::Scr(_) | Point::Store(_)) {
        let host = state.threads[state.current].host;
        let line = state.lnr.some_present(usize::from(host), 0);
        actions.extend(line.map(|line| Action::Evict(host, line)));
    }
    match point {
        Point::Store(_) if caches.late => actions.push(Action::Hold),
        Point::Issue(_) if caches.late => actions.push(Action::Defer),
        _ => {}
    }
}

/// Whether another thread could tell if the operation came later. Not, if a host alone sees what it
/// does, and caches do not move by themselves there.
fn is_visible(state: &State, point: Point) -> bool {
    let host = usize::from(state.threads[state.current].host);
    match point {
        Point::Scr(_) | Point::Store(_) | Point::Line(_) | Point::Fence => true,
        Point::Issue(line) => state.lnr.is_present(host, line) || has_company(state),
        Point::Local => has_company(state),
        Point::Wait | Point::End => false,
    }
}

/// Whether another thread of the same host could run.
fn has_company(state: &State) -> bool {
    let host = state.threads[state.current].host;
    state.runnable().any(|thread| thread != state.current && state.threads[thread].host == host)
}
