//! Which host has which coherent line: the device knows, and has others drop a line, or hand it
//! back, before it is granted. Its messages to them are the protocol's (`tombolo-coherence`).
//!
//! Lines of SCR are coherent, and those of LNR if the profile says so. All of SCR's are in a table;
//! of LNR's only those that some host may have, since there is so much of it.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use tombolo_coherence::{Access, Ask, Counts, Holders, Hosts, Known, Message, Node, State};

use crate::cache::{Line, Region};
use crate::profile;
use crate::{Ps, ps};

#[derive(Clone, Copy, Default)]
struct Entry {
    known: Known,
    /// Until when the line is being handed over.
    busy: Ps,
}

pub(crate) struct Directory {
    scr: Vec<Entry>,
    lnr: Option<HashMap<u64, Entry, FixedState>>,
    node: Node,
    latency: Ps,
    /// Of a line of LNR about which nobody is asked.
    lnr_latency: Ps,
    snoop: Ps,
    messages: Counts,
}

/// A line as it was granted.
pub(crate) struct Granted {
    /// How long that takes.
    pub(crate) takes: Ps,
    /// No other host has it.
    pub(crate) alone: bool,
}

impl Directory {
    /// One of so many hosts and so much SCR; `lnr_latency` is that of a line of LNR about which
    /// nobody is asked.
    pub(crate) fn new(
        coherence: &profile::Coherence,
        hosts: usize,
        scr_bytes: u64,
        lnr_latency: Ps,
    ) -> Self {
        let lines = scr_bytes.div_ceil(tombolo_memory::LINE_BYTES) as usize;
        Self {
            scr: vec![Entry::default(); lines],
            lnr: coherence.lnr.then(HashMap::default),
            node: Node::new(coherence.protocol.tables(), coherence.filter.into(), hosts),
            latency: ps(coherence.latency_ns),
            lnr_latency,
            snoop: ps(coherence.snoop_ns),
            messages: Counts::default(),
        }
    }

    /// Whether a region is kept coherent.
    #[inline]
    pub(crate) fn keeps(&self, region: Region) -> bool {
        region == Region::Scr || region == Region::Lnr && self.lnr.is_some()
    }

    /// Grants a line to a host that has it in `state`, at `now` or when it is free.
    pub(crate) fn grant(
        &mut self,
        (host, state): (usize, State),
        line: Line,
        write: bool,
        now: Ps,
        others: &mut impl Holders,
    ) -> Granted {
        let (entry, alone_takes) = match &mut self.lnr {
            Some(lnr) if line.region() == Region::Lnr => {
                (lnr.entry(line.number()).or_default(), self.lnr_latency)
            }
            _ => (&mut self.scr[line.number() as usize], self.latency),
        };
        let access = if write { Access::Write } else { Access::Read };
        let ask = self.node.ask(state, access).unwrap_or(Ask::Own);
        let done = self.node.transact(ask, host, entry.known, others, &mut self.messages);
        let waits = entry.busy.saturating_sub(now);
        let takes = waits + if done.snooped { self.latency + self.snoop } else { alone_takes };
        entry.known = done.known;
        if write || done.snooped {
            entry.busy = now + takes;
        }
        Granted { takes, alone: done.known.alone }
    }

    /// A host has evicted a coherent line.
    pub(crate) fn evicted(&mut self, host: usize, line: Line) {
        let Some(lnr) = self.lnr.as_mut().filter(|_| line.region() == Region::Lnr) else {
            return self.scr[line.number() as usize].known.holders.remove(host);
        };
        let Some(entry) = lnr.get_mut(&line.number()) else { return };
        entry.known.holders.remove(host);
        if entry.known.holders.is_empty() {
            lnr.remove(&line.number());
        }
    }

    /// A line of LNR is dropped: by all who may have it, if it is coherent.
    pub(crate) fn dropped(&mut self, number: u64) -> Hosts {
        let entry = self.lnr.as_mut().and_then(|lnr| lnr.remove(&number));
        entry.map_or_else(Hosts::default, |entry| entry.known.holders)
    }

    /// How often a host was told to drop a line or to hand it back.
    pub(crate) fn snoops(&self) -> u64 {
        let snoops = Message::ALL.into_iter().filter(|message| message.is_snoop());
        snoops.map(|message| self.messages.of(message)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct States([State; 2]);

    impl Holders for States {
        fn state(&mut self, host: usize) -> State {
            self.0[host]
        }

        fn settle(&mut self, host: usize, state: State) {
            self.0[host] = state;
        }
    }

    #[test]
    fn one_writer_or_many_readers() {
        let coherence = profile::Coherence {
            latency_ns: 0.1,
            snoop_ns: 0.04,
            ..profile::tests::tiny().coherence
        };
        let mut directory = Directory::new(&coherence, 2, 4096, 0);
        let line = Line::new(Region::Scr, 3);
        let mut states = States([State::Invalid; 2]);
        let first = directory.grant((0, State::Invalid), line, false, 0, &mut states);
        assert_eq!((first.takes, first.alone, directory.snoops()), (100, true, 0));
        states.0[0] = State::Modified;
        let second = directory.grant((1, State::Invalid), line, false, 1000, &mut states);
        assert_eq!((second.takes, second.alone, directory.snoops()), (140, false, 1));
        assert_eq!(states.0[0], State::Shared);
        let third = directory.grant((1, State::Shared), line, true, 2000, &mut states);
        assert_eq!((third.takes, third.alone, directory.snoops()), (140, true, 2));
        assert_eq!(states.0[0], State::Invalid);
    }
}
