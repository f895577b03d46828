//! A transaction from its first message to its last.

use crate::{Access, Answer, Ask, Filter, Hosts, Known, Message, Protocol, State};

/// How many messages there were of each type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    of: [u64; Message::ALL.len()],
}

impl Counts {
    /// Counts messages.
    #[inline]
    pub fn add(&mut self, message: Message, count: u64) {
        self.of[message as usize] += count;
    }

    /// How many there were of a type.
    pub fn of(&self, message: Message) -> u64 {
        self.of[message as usize]
    }

    /// The types of which there were any, and how many.
    pub fn iter(&self) -> impl Iterator<Item = (Message, u64)> {
        Message::ALL.into_iter().zip(self.of).filter(|&(_, count)| count > 0)
    }

    /// So many lines go back to memory: `MemWr` and `Cmp`.
    #[inline]
    pub fn write_back(&mut self, lines: u64) {
        self.add(Message::MemWr, lines);
        self.add(Message::Cmp, lines);
    }
}

/// How many messages it takes that a line goes back to memory.
const WRITE_BACK: u64 = 2;

/// The hosts that may have a line.
pub trait Holders {
    /// The host's rights to it.
    fn state(&mut self, host: usize) -> State;

    /// From now on a host may do this with it, which is less than before.
    fn settle(&mut self, host: usize, state: State);
}

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction<const WORDS: usize = 1> {
    /// The new rights of the host that has asked.
    pub granted: State,
    /// Hosts that may have the line now.
    pub known: Known<WORDS>,
    /// Others had to be asked.
    pub snooped: bool,
    /// Some of them had to write the line back before they answered.
    pub wrote_back: bool,
    /// One of them sent the line with its answer.
    pub forwarded: bool,
    /// How many messages it took.
    pub sent: u64,
}

/// A memory node, which does one transaction on a line after the other. A protocol's tables are
/// written out here, so that what hosts say and are told is looked up, with nothing to be decided.
#[derive(Clone, Debug)]
pub struct Node {
    filter: Filter,
    hosts: usize,
    /// The host's request, by state and access.
    asks: [[Option<Ask>; 2]; State::ALL.len()],
    /// By what a host asks for.
    rows: [Row; Ask::ALL.len()],
}

/// The consequences of a host's request.
#[derive(Clone, Debug)]
struct Row {
    snoop: Message,
    /// By the state in which another host has the line.
    replies: [Reply; State::ALL.len()],
    /// The answer and the granted rights, if others do not keep the line or do.
    grants: [(Message, State); 2],
}

/// The reply of another host.
#[derive(Clone, Copy, Debug)]
struct Reply {
    answer: Answer,
    /// Whether it keeps the line.
    keeps: bool,
}

impl Row {
    fn new(protocol: &Protocol, ask: Ask) -> Self {
        let snoop = (protocol.snoop)(ask);
        let reply = |state| {
            let answer = (protocol.answer)(snoop, state);
            Reply { answer, keeps: answer.message.keeps(snoop) }
        };
        Self {
            snoop,
            replies: State::ALL.map(reply),
            grants: [false, true].map(|shared| (protocol.grant)(ask, shared)),
        }
    }
}

impl Node {
    /// A node that so many hosts use.
    pub fn new(protocol: &Protocol, filter: Filter, hosts: usize) -> Self {
        let asks = |state| Access::ALL.map(|access| (protocol.ask)(state, access));
        Self {
            filter,
            hosts,
            asks: State::ALL.map(asks),
            rows: Ask::ALL.map(|ask| Row::new(protocol, ask)),
        }
    }

    /// The first request of a host that wants to access a line it has in this state; nothing, if it
    /// may go ahead.
    #[inline]
    pub fn ask(&self, state: State, access: Access) -> Option<Ask> {
        self.asks[state as usize][access as usize]
    }

    /// Does what `host` asks for, about a line that no others may have than those who are known.
    #[inline]
    pub fn transact<const WORDS: usize>(
        &self,
        ask: Ask,
        host: usize,
        known: Known<WORDS>,
        others: &mut impl Holders,
        counts: &mut Counts,
    ) -> Transaction<WORDS> {
        let row = &self.rows[ask as usize];
        let (concerned, mut shared) = self.filter.concerned(ask, (host, self.hosts), known);
        let mut keep = known.holders.without(concerned);
        keep.remove(host);
        let (mut sent, mut wrote_back, mut forwarded) = (2, false, false);
        for other in concerned.and(known.holders).iter() {
            let state = others.state(other);
            let Reply { answer, keeps } = row.replies[state as usize];
            if answer.next != state {
                others.settle(other, answer.next);
            }
            let written_back = u64::from(answer.writes_back);
            counts.add(row.snoop, 1);
            counts.write_back(written_back);
            counts.add(answer.message, 1);
            sent += 2 + WRITE_BACK * written_back;
            wrote_back |= answer.writes_back;
            forwarded |= answer.message == Message::GoM;
            if keeps {
                shared = true;
                keep.insert(other);
            }
        }
        // The others that are asked do not have it: there may be a thousand of them.
        if self.filter == Filter::Broadcast {
            let strangers = u64::from(concerned.without(known.holders).count());
            counts.add(row.snoop, strangers);
            counts.add(row.replies[State::Invalid as usize].answer.message, strangers);
            sent += 2 * strangers;
        }
        let (message, granted) = row.grants[usize::from(shared)];
        counts.add(ask.message(), 1);
        counts.add(message, 1);
        let alone = granted != State::Shared;
        let mut holders = if alone { Hosts::default() } else { keep };
        holders.insert(host);
        Transaction {
            granted,
            known: Known { holders, alone },
            snooped: !concerned.is_empty(),
            wrote_back,
            forwarded,
            sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BACK_INVALIDATION, INVALIDATING, SHARING};

    /// A line, and who may have it.
    struct Line {
        node: Node,
        states: Vec<State>,
        known: Known,
    }

    impl Holders for Vec<State> {
        fn state(&mut self, host: usize) -> State {
            self[host]
        }

        fn settle(&mut self, host: usize, state: State) {
            self[host] = state;
        }
    }

    impl Line {
        fn new(protocol: &'static Protocol, filter: Filter, hosts: usize) -> Self {
            let node = Node::new(protocol, filter, hosts);
            Self { node, states: vec![State::Invalid; hosts], known: Known::default() }
        }

        /// The messages of a host's access, one by one.
        fn access(&mut self, host: usize, access: Access) -> String {
            let mut counts = Counts::default();
            while let Some(ask) = self.node.ask(self.states[host], access) {
                let before = counts.of.iter().sum::<u64>();
                let states = &mut self.states;
                let done = self.node.transact(ask, host, self.known, states, &mut counts);
                assert_eq!(done.sent, counts.of.iter().sum::<u64>() - before);
                (self.states[host], self.known) = (done.granted, done.known);
            }
            if access == Access::Write {
                self.states[host] = State::Modified;
            }
            let written = counts.iter().map(|(message, n)| format!("{n} {}", message.name()));
            written.collect::<Vec<_>>().join(", ")
        }
    }

    #[test]
    fn inv_takes_what_the_paper_says() {
        let mut line = Line::new(&INVALIDATING, Filter::Broadcast, 2);
        assert_eq!(line.access(0, Access::Read), "1 MemRd, 1 Cmp-E, 1 RdOwn, 1 GO-I");
        assert_eq!(line.access(1, Access::Read), "1 MemRd, 1 MemRdFwd, 1 Cmp-E, 1 RdOwn");
        assert_eq!(line.access(1, Access::Write), "");
        let dirty = "1 MemRd, 1 MemWr, 1 MemRdFwd, 1 Cmp, 1 Cmp-E, 1 RdOwn";
        assert_eq!(line.access(0, Access::Read), dirty);
    }

    #[test]
    fn sha_takes_what_the_paper_says() {
        let mut line = Line::new(&SHARING, Filter::Broadcast, 2);
        assert_eq!(line.access(0, Access::Write), "1 MemRd, 1 Cmp-E, 1 RdOwn, 1 GO-I");
        assert_eq!(line.access(1, Access::Read), "1 MemRd, 1 Cmp-S, 1 RdAny, 1 GO-M");
        assert_eq!(line.access(0, Access::Write), "1 MemInv, 1 Cmp, 1 CLFlush, 1 GO-I");
        assert_eq!(line.states, [State::Modified, State::Invalid]);
    }

    #[test]
    fn a_directory_asks_nobody_in_vain() {
        let mut line = Line::new(&BACK_INVALIDATION, Filter::Directory, 4);
        assert_eq!(line.access(0, Access::Read), "1 MemRd, 1 Cmp-E");
        let shows = "1 MemRd, 1 Cmp-S, 1 BISnpData, 1 BIRspS";
        assert_eq!(line.access(1, Access::Read), shows);
        assert_eq!(line.access(2, Access::Read), "1 MemRd, 1 Cmp-S");
        assert_eq!(line.access(3, Access::Write), "1 MemRd, 1 Cmp-E, 3 BISnpInv, 3 BIRspI");
        let dirty = "1 MemRd, 1 MemWr, 1 Cmp, 1 Cmp-S, 1 BISnpData, 1 BIRspS";
        assert_eq!(line.access(0, Access::Read), dirty);
    }
}
