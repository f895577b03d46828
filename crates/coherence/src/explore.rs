//! Every order in which messages can arrive.
//!
//! A state is what hosts and node know of some lines, and which messages are under way. Of data it says
//! only whether a copy is the last that was written. A step is a processor that wants something, a host
//! that evicts a line, or a message that arrives. [`explore`] takes every step in every state that can be
//! reached; [`wander`] takes steps at random, where there are too many.
//!
//! In each state:
//! * If a host may change a line, no other host has it.
//! * Whatever a host has is what was written last.
//! * What was written last is somewhere: nothing overwrites it with something older.
//! * A message that arrives is a request, or the answer to one that waits for it.
//! * If no message is under way, nobody waits; and that comes about once processors want nothing more.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use smallvec::SmallVec;

use crate::{Access, Ask, Filter, Known, Message, Protocol, State, ones};

/// Messages that arrive before there are no more, at most.
const MESSAGES_TO_REST: usize = 1000;

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Hosts.
    pub hosts: usize,
    /// Lines.
    pub lines: usize,
    /// What the node knows.
    pub filter: Filter,
    /// A host's processor wants one line at a time, and waits for it; else, each of them.
    pub in_order: bool,
    /// States to be seen, at most.
    pub states: usize,
}

/// A mistake that is planted, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One of the hosts that have to be asked is not.
    SnoopDropped,
    /// Who has changed a line answers before it has written it back.
    AnswerFirst,
    /// A line is granted to one host alone, though others keep it, or may.
    GrantAlone,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::SnoopDropped, Self::AnswerFirst, Self::GrantAlone];
}

/// What was explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// States that were met.
    pub states: usize,
    /// Steps that were taken.
    pub steps: usize,
    /// There were no more.
    pub whole: bool,
}

/// A state that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong with it.
    pub what: String,
    /// How it came about.
    pub steps: Vec<String>,
}

/// A line at a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct AtHost {
    state: State,
    last: bool,
    /// What its processor waits for, and what was asked for on account of that.
    wants: Option<(Ask, Access)>,
    /// It is being written back; and what the host will say then.
    leaving: Option<Option<Message>>,
}

/// A transaction that the node is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Work {
    host: u8,
    ask: Ask,
    /// A bit per host that has not answered yet.
    waits: u64,
    shared: bool,
}

/// A line at the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AtNode {
    last: bool,
    known: Known,
    work: Option<Work>,
    queue: SmallVec<[(u8, Ask); 3]>,
}

/// A message under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Letter {
    host: u8,
    line: u8,
    message: Message,
    /// For a request, whether the line is to be changed; for `Cmp`, whether what it ends is a `MemInv`.
    mark: bool,
    /// It brings what was written last.
    last: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// By host, then by line.
    hosts: SmallVec<[AtHost; 6]>,
    lines: SmallVec<[AtNode; 2]>,
    /// In no order; sorted, so that equal states are the same.
    to_node: SmallVec<[Letter; 4]>,
    /// By host, in the order in which they arrive.
    to_host: SmallVec<[SmallVec<[Letter; 2]>; 3]>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Want(usize, usize, Access),
    Evict(usize, usize),
    AtNode(Letter),
    AtHost(Letter),
}

impl Step {
    fn describe(self) -> String {
        match self {
            Self::Want(host, line, Access::Read) => format!("host {host} reads line {line}"),
            Self::Want(host, line, Access::Write) => format!("host {host} writes line {line}"),
            Self::Evict(host, line) => format!("host {host} evicts line {line}"),
            Self::AtNode(Letter { host, line, message, .. }) => {
                format!("{} of host {host} for line {line} arrives", message.name())
            }
            Self::AtHost(Letter { host, line, message, .. }) => {
                format!("{} for line {line} arrives at host {host}", message.name())
            }
        }
    }
}

/// The rules by which states follow each other.
#[derive(Clone, Copy)]
struct Rules<'a> {
    protocol: &'a Protocol,
    limits: Limits,
    fault: Option<Fault>,
}

type Taken = Result<World, String>;

impl World {
    fn new(limits: Limits) -> Self {
        let line =
            AtNode { last: true, known: Known::default(), work: None, queue: SmallVec::new() };
        Self {
            hosts: SmallVec::from_elem(AtHost::default(), limits.hosts * limits.lines),
            lines: SmallVec::from_elem(line, limits.lines),
            to_node: SmallVec::new(),
            to_host: SmallVec::from_elem(SmallVec::new(), limits.hosts),
        }
    }

    fn at(&mut self, host: usize, line: usize) -> &mut AtHost {
        let lines = self.lines.len();
        &mut self.hosts[host * lines + line]
    }

    fn say(&mut self, host: usize, line: usize, message: Message, mark: bool, last: bool) {
        let letter = Letter { host: host as u8, line: line as u8, message, mark, last };
        let place = self.to_node.binary_search(&letter).unwrap_or_else(|place| place);
        self.to_node.insert(place, letter);
    }

    fn tell(&mut self, host: usize, line: usize, message: Message, mark: bool, last: bool) {
        let letter = Letter { host: host as u8, line: line as u8, message, mark, last };
        self.to_host[host].push(letter);
    }

    fn letters(&mut self) -> impl Iterator<Item = &mut Letter> {
        self.to_node.iter_mut().chain(self.to_host.iter_mut().flatten())
    }

    /// A host writes a line: every other copy is an old one.
    fn written(&mut self, host: usize, line: usize) {
        for other in 0..self.to_host.len() {
            self.at(other, line).last = other == host;
        }
        self.at(host, line).state = State::Modified;
        self.lines[line].last = false;
        let here = |letter: &&mut Letter| usize::from(letter.line) == line;
        self.letters().filter(here).for_each(|letter| letter.last = false);
        self.to_node.sort_unstable();
    }

    /// What is wrong.
    fn wrong(&mut self) -> Option<String> {
        let hosts = self.to_host.len();
        for line in 0..self.lines.len() {
            let states: Vec<State> = (0..hosts).map(|host| self.at(host, line).state).collect();
            let has = |state: &&State| **state != State::Invalid;
            let alone = |state: &&State| **state > State::Shared;
            if states.iter().any(|state| alone(&state)) && states.iter().filter(has).count() > 1 {
                return Some(format!("hosts have line {line} as {states:?}"));
            }
            if let Some(host) = (0..hosts).find(|&host| {
                let here = self.at(host, line);
                here.state != State::Invalid && !here.last
            }) {
                return Some(format!("host {host} has line {line} as it was before a write"));
            }
            let known = |letter: &mut Letter| usize::from(letter.line) == line && letter.last;
            let found = self.lines[line].last
                || (0..hosts).any(|host| self.at(host, line).last)
                || self.letters().any(known);
            if !found {
                return Some(format!("what was written to line {line} is lost"));
            }
        }
        let waits = |here: &AtHost| here.wants.is_some() || here.leaving.is_some();
        let waiting =
            self.hosts.iter().any(waits) || self.lines.iter().any(|line| line.work.is_some());
        let quiet = self.letters().next().is_none();
        (quiet && waiting).then(|| "somebody waits, and no message is under way".to_owned())
    }
}

impl Rules<'_> {
    /// Every step that can be taken, and where it leads.
    fn steps(&self, world: &World, mut visit: impl FnMut(Step, Taken)) {
        for host in 0..self.limits.hosts {
            for line in 0..self.limits.lines {
                let mut visit = |step, next: Option<World>| {
                    if let Some(next) = next {
                        visit(step, Ok(next));
                    }
                };
                for access in [Access::Read, Access::Write] {
                    visit(Step::Want(host, line, access), self.want(world, host, line, access));
                }
                visit(Step::Evict(host, line), self.evict(world, host, line));
            }
        }
        self.arrivals(world, visit);
    }

    /// Every message that can arrive.
    fn arrivals(&self, world: &World, mut visit: impl FnMut(Step, Taken)) {
        for (place, &letter) in world.to_node.iter().enumerate() {
            if place == 0 || world.to_node[place - 1] != letter {
                visit(Step::AtNode(letter), self.at_node(world, place));
            }
        }
        for (host, letters) in world.to_host.iter().enumerate() {
            if let Some(&letter) = letters.first() {
                visit(Step::AtHost(letter), self.at_host(world, host));
            }
        }
    }

    /// Whether no message is left, some time after processors want nothing more.
    fn comes_to_rest(&self, world: &World) -> Result<(), String> {
        let mut world = world.clone();
        for _ in 0..MESSAGES_TO_REST {
            let mut next = None;
            self.arrivals(&world, |_, arrived| _ = next.get_or_insert(arrived));
            match next {
                None => return Ok(()),
                Some(arrived) => world = arrived?,
            }
        }
        Err("messages go to and fro without end".to_owned())
    }

    fn want(&self, world: &World, host: usize, line: usize, access: Access) -> Option<World> {
        let mut next = world.clone();
        let wants = |line: usize| next.hosts[host * self.limits.lines + line].wants.is_some();
        let busy =
            if self.limits.in_order { (0..self.limits.lines).any(wants) } else { wants(line) };
        if busy || next.at(host, line).leaving.is_some() {
            return None;
        }
        self.go_on(&mut next, host, line, access);
        (next != *world).then_some(next)
    }

    /// A processor has its access, or asks for what it lacks.
    fn go_on(&self, world: &mut World, host: usize, line: usize, access: Access) {
        let here = world.at(host, line);
        match (self.protocol.ask)(here.state, access) {
            None => {
                here.wants = None;
                if access == Access::Write {
                    world.written(host, line);
                }
            }
            Some(ask) => {
                here.wants = Some((ask, access));
                world.say(host, line, ask.message(), ask == Ask::Own, false);
            }
        }
    }

    fn evict(&self, world: &World, host: usize, line: usize) -> Option<World> {
        let mut next = world.clone();
        let here = next.at(host, line);
        if here.wants.is_some() || here.leaving.is_some() || here.state == State::Invalid {
            return None;
        }
        let gone = std::mem::take(here);
        if gone.state == State::Modified {
            here.leaving = Some(None);
            next.say(host, line, Message::MemWr, false, gone.last);
        }
        Some(next)
    }

    fn at_node(&self, world: &World, place: usize) -> Taken {
        let mut next = world.clone();
        let Letter { host, line, message, mark, last } = next.to_node.remove(place);
        let (host, line) = (usize::from(host), usize::from(line));
        let ask = match message {
            Message::MemRd if mark => Ask::Own,
            Message::MemRd => Ask::Read,
            Message::MemInv => Ask::Upgrade,
            Message::MemWr => {
                next.lines[line].last = last;
                next.tell(host, line, Message::Cmp, false, false);
                return Ok(next);
            }
            answer => {
                self.answered(&mut next, host, line, answer, last)?;
                return Ok(next);
            }
        };
        if next.lines[line].work.is_some() {
            next.lines[line].queue.push((host as u8, ask));
        } else {
            self.begin(&mut next, host, line, ask);
        }
        Ok(next)
    }

    fn begin(&self, world: &mut World, host: usize, line: usize, ask: Ask) {
        let (hosts, known) = (self.limits.hosts, world.lines[line].known);
        let (mut asked, shared) =
            self.protocol.concerned(self.limits.filter, ask, (host, hosts), known);
        if self.fault == Some(Fault::SnoopDropped) && asked != 0 {
            asked &= !(1 << asked.ilog2());
        }
        let work = Work { host: host as u8, ask, waits: asked, shared };
        world.lines[line].work = Some(work);
        let snoop = (self.protocol.snoop)(ask);
        ones(asked).for_each(|other| world.tell(other, line, snoop, false, false));
        let rash = self.fault == Some(Fault::GrantAlone) && !self.protocol.shares();
        if asked == 0 || rash {
            self.grant(world, line, work);
        }
    }

    fn answered(
        &self,
        world: &mut World,
        host: usize,
        line: usize,
        answer: Message,
        last: bool,
    ) -> Result<(), String> {
        let here = &mut world.lines[line];
        let unasked = || format!("the node has not asked host {host} for {}", answer.name());
        let mut work = here.work.ok_or_else(unasked)?;
        let snoop = (self.protocol.snoop)(work.ask);
        if work.waits & 1 << host == 0 || !snoop.answers().contains(&answer) {
            return Err(unasked());
        }
        if answer.carries_data() {
            here.last = last;
        }
        if answer.keeps(snoop) {
            work.shared = true;
        } else {
            here.known.holders &= !(1 << host);
        }
        work.waits &= !(1 << host);
        here.work = Some(work);
        if work.waits == 0 {
            self.grant(world, line, work);
        }
        Ok(())
    }

    fn grant(&self, world: &mut World, line: usize, work: Work) {
        let host = usize::from(work.host);
        let shared = work.shared && self.fault != Some(Fault::GrantAlone);
        let (message, state) = (self.protocol.grant)(work.ask, shared);
        let here = &mut world.lines[line];
        if self.limits.filter == Filter::Directory {
            let alone = state != State::Shared;
            let others = if alone { 0 } else { here.known.holders };
            here.known = Known { holders: others | 1 << host, alone };
        }
        here.work = None;
        let (last, queue) = (here.last && message.carries_data(), !here.queue.is_empty());
        world.tell(host, line, message, work.ask == Ask::Upgrade, last);
        if queue {
            let (host, ask) = world.lines[line].queue.remove(0);
            self.begin(world, usize::from(host), line, ask);
        }
    }

    fn at_host(&self, world: &World, host: usize) -> Taken {
        let mut next = world.clone();
        let Letter { line, message, mark, last, .. } = next.to_host[host].remove(0);
        let line = usize::from(line);
        let here = next.at(host, line);
        let unasked = || format!("host {host} has not asked for {}", message.name());
        if !message.answers().is_empty() {
            self.asked(&mut next, host, line, message);
            return Ok(next);
        }
        if message == Message::Cmp && !mark {
            let then = here.leaving.take().ok_or_else(unasked)?;
            if let Some(answer) = then {
                next.say(host, line, answer, false, false);
            }
            return Ok(next);
        }
        let (ask, access) = here.wants.ok_or_else(unasked)?;
        if !ask.message().answers().contains(&message) {
            return Err(unasked());
        }
        match message {
            Message::CmpE => (here.state, here.last) = (State::Exclusive, last),
            Message::CmpS => (here.state, here.last) = (State::Shared, last),
            // Who has lost the line meanwhile asks for it.
            _ if here.state == State::Shared => here.state = State::Exclusive,
            _ => {}
        }
        self.go_on(&mut next, host, line, access);
        Ok(next)
    }

    /// A host is asked about a line.
    fn asked(&self, world: &mut World, host: usize, line: usize, snoop: Message) {
        let here = world.at(host, line);
        let answer = (self.protocol.answer)(snoop, here.state);
        let last = here.last;
        here.state = answer.next;
        here.last = last && answer.next != State::Invalid;
        if let Some(then) = &mut here.leaving {
            *then = Some(answer.message);
            return;
        }
        let rash = self.fault == Some(Fault::AnswerFirst);
        let changed = answer.writes_back || answer.message == Message::GoM;
        let writes_back = answer.writes_back || rash && changed;
        let waits = writes_back && !rash;
        if writes_back {
            here.leaving = Some(waits.then_some(answer.message));
            world.say(host, line, Message::MemWr, false, last);
        }
        if !waits {
            let brings = last && answer.message.carries_data() && !rash;
            world.say(host, line, answer.message, false, brings);
        }
    }
}

/// Takes every step in every state that can be reached.
///
/// # Errors
/// The shortest way to a state that must not be.
pub fn explore(
    protocol: &Protocol,
    limits: Limits,
    fault: Option<Fault>,
) -> Result<Explored, Box<Violation>> {
    let rules = Rules { protocol, limits, fault };
    let mut numbers = HashMap::from([(World::new(limits), 0usize)]);
    let mut worlds = vec![World::new(limits)];
    // How each of them was reached first.
    let mut ways: Vec<(usize, Option<Step>)> = vec![(0, None)];
    let (mut number, mut steps) = (0, 0);
    while number < worlds.len() && worlds.len() < limits.states {
        let mut wrong = None;
        let world = worlds[number].clone();
        rules.steps(&world, |step, next| {
            steps += 1;
            let found = next.and_then(|mut next| {
                next.wrong().map_or(Ok(()), Err)?;
                if let Entry::Vacant(new) = numbers.entry(next) {
                    rules.comes_to_rest(new.key())?;
                    worlds.push(new.key().clone());
                    ways.push((number, Some(step)));
                    new.insert(worlds.len() - 1);
                }
                Ok(())
            });
            if let Err(what) = found {
                wrong.get_or_insert((what, step));
            }
        });
        if let Some((what, step)) = wrong {
            return Err(Box::new(Violation { what, steps: way_to(&ways, number, step) }));
        }
        number += 1;
    }
    Ok(Explored { states: worlds.len(), steps, whole: number == worlds.len() })
}

fn way_to(ways: &[(usize, Option<Step>)], mut number: usize, last: Step) -> Vec<String> {
    let mut steps = vec![last.describe()];
    while let (before, Some(step)) = ways[number] {
        steps.push(step.describe());
        number = before;
    }
    steps.reverse();
    steps
}

/// Takes `steps` steps at random.
///
/// # Errors
/// A state that must not be, and all the steps to it.
pub fn wander(
    protocol: &Protocol,
    limits: Limits,
    fault: Option<Fault>,
    seed: u64,
    steps: usize,
) -> Result<Explored, Box<Violation>> {
    let rules = Rules { protocol, limits, fault };
    let mut world = World::new(limits);
    let (mut state, mut taken) = (seed, Vec::new());
    for _ in 0..steps {
        let mut choices: Vec<(Step, Taken)> = Vec::new();
        rules.steps(&world, |step, next| choices.push((step, next)));
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let chosen = (state >> 33) as usize % choices.len();
        let (step, next) = choices.swap_remove(chosen);
        taken.push(step.describe());
        let checked = next.and_then(|mut next| next.wrong().map_or(Ok(next), Err));
        match checked {
            Ok(next) => world = next,
            Err(what) => return Err(Box::new(Violation { what, steps: taken })),
        }
    }
    Ok(Explored { states: steps + 1, steps, whole: false })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::PROTOCOLS;

    const FILTERS: [Filter; 2] = [Filter::Broadcast, Filter::Directory];

    fn limits(hosts: usize, lines: usize, filter: Filter) -> Limits {
        Limits { hosts, lines, filter, in_order: false, states: 10_000_000 }
    }

    #[test]
    fn no_order_of_messages_breaks_coherence() {
        for protocol in PROTOCOLS {
            for filter in FILTERS {
                for (hosts, lines) in [(2, 1), (3, 1), (2, 2)] {
                    let explored = explore(protocol, limits(hosts, lines, filter), None)
                        .unwrap_or_else(|wrong| panic!("{protocol:?} {filter:?}: {wrong:#?}"));
                    assert!(explored.whole && explored.states > 50);
                }
                let in_order = Limits { in_order: true, ..limits(2, 2, filter) };
                assert!(explore(protocol, in_order, None).is_ok_and(|explored| explored.whole));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn no_order_that_was_tried_breaks_coherence_among_more(
            protocol in prop::sample::select(&PROTOCOLS[..]),
            filter in prop::sample::select(&FILTERS[..]),
            hosts in 3usize..6,
            lines in 1usize..4,
            seed: u64,
        ) {
            let wandered = wander(protocol, limits(hosts, lines, filter), None, seed, 2_000);
            prop_assert!(wandered.is_ok(), "{wandered:#?}");
        }
    }

    #[test]
    fn planted_faults_are_found() {
        for protocol in PROTOCOLS {
            for filter in FILTERS {
                for fault in Fault::ALL {
                    let explored = explore(protocol, limits(3, 1, filter), Some(fault));
                    assert!(explored.is_err(), "{protocol:?} {filter:?} {fault:?}");
                }
            }
        }
    }
}
