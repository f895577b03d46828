//! How states follow each other: the steps of hosts and of the node when something is wanted, or a
//! message arrives.

use super::world::{Letter, Work, World};
use super::{Fault, Limits};
use crate::{Access, Ask, Filter, Hosts, Known, Message, Protocol, State};

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Want(usize, usize, Access),
    Evict(usize, usize),
    AtNode(Letter),
    AtHost(Letter),
}

impl Step {
    pub(super) fn describe(self) -> String {
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
pub(super) struct Rules<'a> {
    pub(super) protocol: &'a Protocol,
    pub(super) limits: Limits,
    pub(super) fault: Option<Fault>,
}

pub(super) type Taken = Result<World, String>;

impl Rules<'_> {
    /// Every step that can be taken, and where it leads.
    pub(super) fn steps(&self, world: &World, mut visit: impl FnMut(Step, Taken)) {
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
        let (mut asked, shared) = self.limits.filter.concerned(ask, (host, hosts), known);
        if self.fault == Some(Fault::SnoopDropped) {
            asked.iter().last().into_iter().for_each(|host| asked.remove(host));
        }
        let work = Work { host: host as u8, ask, waits: asked, shared };
        world.lines[line].work = Some(work);
        let snoop = (self.protocol.snoop)(ask);
        asked.iter().for_each(|other| world.tell(other, line, snoop, false, false));
        let rash = self.fault == Some(Fault::GrantAlone) && !self.protocol.shares();
        if asked.is_empty() || rash {
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
        if !work.waits.has(host) || !snoop.answers().contains(&answer) {
            return Err(unasked());
        }
        if answer.carries_data() {
            here.last = last;
        }
        if answer.keeps(snoop) {
            work.shared = true;
        } else {
            here.known.holders.remove(host);
        }
        work.waits.remove(host);
        here.work = Some(work);
        if work.waits.is_empty() {
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
            let mut holders = if alone { Hosts::default() } else { here.known.holders };
            holders.insert(host);
            here.known = Known { holders, alone };
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
            // A host that has lost the line meanwhile asks for it.
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
