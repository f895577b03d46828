//! A transaction from its first message to its last.

use crate::{Ask, Filter, Hosts, Known, Message, Protocol, State};

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

    /// A line goes back to memory: `MemWr` and `Cmp`.
    pub fn write_back(&mut self) {
        self.add(Message::MemWr, 1);
        self.add(Message::Cmp, 1);
    }
}

/// How many messages it takes that a line goes back to memory.
const WRITE_BACK: u64 = 2;

/// The hosts that may have a line.
pub trait Holders {
    /// What a host may do with it.
    fn state(&mut self, host: usize) -> State;

    /// From now on a host may do this with it, which is less than before.
    fn settle(&mut self, host: usize, state: State);
}

/// What came of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction<const WORDS: usize = 1> {
    /// What the host may do that has asked.
    pub granted: State,
    /// Who may have the line now.
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

/// Runs `ask` of `host`, one of `hosts`, for a line that no others may have than those who are known.
pub fn transact<const WORDS: usize>(
    protocol: &Protocol,
    filter: Filter,
    ask: Ask,
    (host, hosts): (usize, usize),
    known: Known<WORDS>,
    others: &mut impl Holders,
    counts: &mut Counts,
) -> Transaction<WORDS> {
    let holders = known.holders;
    let (concerned, mut shared) = protocol.concerned(filter, ask, (host, hosts), known);
    let snoop = (protocol.snoop)(ask);
    let snoops = u64::from(concerned.count());
    counts.add(ask.message(), 1);
    counts.add(snoop, snoops);
    // That and what it is answered with, and what each of the others is asked and answers.
    let mut sent = 2 + 2 * snoops;
    let mut keep = holders.without(concerned);
    keep.remove(host);
    let (mut wrote_back, mut forwarded) = (false, false);
    for other in concerned.and(holders).iter() {
        let state = others.state(other);
        let answer = (protocol.answer)(snoop, state);
        if answer.next != state {
            others.settle(other, answer.next);
        }
        if answer.writes_back {
            counts.write_back();
            sent += WRITE_BACK;
        }
        counts.add(answer.message, 1);
        wrote_back |= answer.writes_back;
        forwarded |= answer.message == Message::GoM;
        if answer.message.keeps(snoop) {
            shared = true;
            keep.insert(other);
        }
    }
    let strangers = concerned.without(holders);
    if !strangers.is_empty() {
        let answer = (protocol.answer)(snoop, State::Invalid).message;
        counts.add(answer, u64::from(strangers.count()));
    }
    let (message, granted) = (protocol.grant)(ask, shared);
    counts.add(message, 1);
    let alone = granted != State::Shared;
    let mut holders = if alone { Hosts::default() } else { keep };
    holders.insert(host);
    let (known, snooped) = (Known { holders, alone }, !concerned.is_empty());
    Transaction { granted, known, snooped, wrote_back, forwarded, sent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, BACK_INVALIDATION, INVALIDATING, SHARING};

    /// A line, and who may have it.
    struct Line {
        protocol: &'static Protocol,
        filter: Filter,
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
            Self { protocol, filter, states: vec![State::Invalid; hosts], known: Known::default() }
        }

        /// What a host's access takes, message by message.
        fn access(&mut self, host: usize, access: Access) -> String {
            let mut counts = Counts::default();
            while let Some(ask) = (self.protocol.ask)(self.states[host], access) {
                let who = (host, self.states.len());
                let (protocol, filter, known) = (self.protocol, self.filter, self.known);
                let before = counts.of.iter().sum::<u64>();
                let states = &mut self.states;
                let done = transact(protocol, filter, ask, who, known, states, &mut counts);
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
