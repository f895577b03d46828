//! A state of hosts, lines and messages under way, and what may be wrong with it.

use smallvec::SmallVec;

use super::Limits;
use super::automaton::Seen;
use crate::{Access, Ask, Hosts, Known, Message, State};

/// A line at a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct AtHost {
    pub(super) state: State,
    pub(super) last: bool,
    /// The access that its processor waits for, and the request that was sent for it.
    pub(super) wants: Option<(Ask, Access)>,
    /// It is being written back; and what the host will say then.
    pub(super) leaving: Option<Option<Message>>,
}

/// A transaction that the node is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Work {
    pub(super) host: u8,
    pub(super) ask: Ask,
    /// Hosts that have not answered yet.
    pub(super) waits: Hosts,
    pub(super) shared: bool,
}

/// A line at the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AtNode {
    pub(super) last: bool,
    pub(super) known: Known,
    pub(super) work: Option<Work>,
    pub(super) queue: SmallVec<[(u8, Ask); 3]>,
}

/// A message under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Letter {
    pub(super) host: u8,
    pub(super) line: u8,
    pub(super) message: Message,
    /// For a request, whether the line is to be changed; for `Cmp`, whether what it ends is a
    /// `MemInv`.
    pub(super) mark: bool,
    /// It brings what was written last.
    pub(super) last: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    /// By host, then by line.
    pub(super) hosts: SmallVec<[AtHost; 6]>,
    pub(super) lines: SmallVec<[AtNode; 2]>,
    /// In no order; sorted, so that equal states are the same.
    pub(super) to_node: SmallVec<[Letter; 4]>,
    /// By host, in the order in which they arrive.
    pub(super) to_host: SmallVec<[SmallVec<[Letter; 2]>; 3]>,
}

impl World {
    pub(super) fn new(limits: Limits) -> Self {
        let line =
            AtNode { last: true, known: Known::default(), work: None, queue: SmallVec::new() };
        Self {
            hosts: SmallVec::from_elem(AtHost::default(), limits.hosts * limits.lines),
            lines: SmallVec::from_elem(line, limits.lines),
            to_node: SmallVec::new(),
            to_host: SmallVec::from_elem(SmallVec::new(), limits.hosts),
        }
    }

    pub(super) fn at(&mut self, host: usize, line: usize) -> &mut AtHost {
        let lines = self.lines.len();
        &mut self.hosts[host * lines + line]
    }

    pub(super) fn say(
        &mut self,
        host: usize,
        line: usize,
        message: Message,
        mark: bool,
        last: bool,
    ) {
        let letter = Letter { host: host as u8, line: line as u8, message, mark, last };
        let place = self.to_node.binary_search(&letter).unwrap_or_else(|place| place);
        self.to_node.insert(place, letter);
    }

    pub(super) fn tell(
        &mut self,
        host: usize,
        line: usize,
        message: Message,
        mark: bool,
        last: bool,
    ) {
        let letter = Letter { host: host as u8, line: line as u8, message, mark, last };
        self.to_host[host].push(letter);
    }

    pub(super) fn letters(&mut self) -> impl Iterator<Item = &mut Letter> {
        self.to_node.iter_mut().chain(self.to_host.iter_mut().flatten())
    }

    /// A host writes a line: every other copy is an old one.
    pub(super) fn written(&mut self, host: usize, line: usize) {
        for other in 0..self.to_host.len() {
            self.at(other, line).last = other == host;
        }
        self.at(host, line).state = State::Modified;
        self.lines[line].last = false;
        let here = |letter: &&mut Letter| usize::from(letter.line) == line;
        self.letters().filter(here).for_each(|letter| letter.last = false);
        self.to_node.sort_unstable();
    }

    /// The part of the state that other lines depend on.
    pub(super) fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        for (host, letters) in self.to_host.iter().enumerate() {
            seen.letters[host] = letters.len() as u8;
        }
        for (number, here) in self.hosts.iter().enumerate() {
            seen.wanting |= u8::from(here.wants.is_some()) << (number / self.lines.len());
        }
        seen
    }

    /// The same, after hosts have changed places.
    pub(super) fn renamed(&self, places: &[usize]) -> Self {
        let lines = self.lines.len();
        let name = |host: u8| places[usize::from(host)] as u8;
        let names = |hosts: Hosts| hosts.iter().map(|host| places[host]).collect();
        let mut next = self.clone();
        for (host, &place) in places.iter().enumerate() {
            next.hosts[place * lines..][..lines]
                .copy_from_slice(&self.hosts[host * lines..][..lines]);
            next.to_host[place].clone_from(&self.to_host[host]);
        }
        for line in &mut next.lines {
            line.known.holders = names(line.known.holders);
            if let Some(work) = &mut line.work {
                (work.host, work.waits) = (name(work.host), names(work.waits));
            }
            line.queue.iter_mut().for_each(|(host, _)| *host = name(*host));
        }
        next.letters().for_each(|letter| letter.host = name(letter.host));
        next.to_node.sort_unstable();
        next
    }

    /// The fault, if there is one.
    pub(super) fn wrong(&mut self) -> Option<String> {
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
