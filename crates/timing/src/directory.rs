//! Who has which line of SCR: the device knows, and has others drop a line, or hand it back, before it is
//! granted. What it says to them then is the protocol's (`tombolo-coherence`).

use tombolo_coherence::{
    Access, Ask, Counts, Filter, Holders, Known, Message, Protocol, State, transact,
};

use crate::Ps;

#[derive(Clone, Copy, Default)]
struct Entry {
    known: Known,
    /// Until when the line is being handed over.
    busy: Ps,
}

pub(crate) struct Directory {
    entries: Vec<Entry>,
    protocol: &'static Protocol,
    filter: Filter,
    hosts: usize,
    latency: Ps,
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
    pub(crate) fn new(
        (protocol, filter): (&'static Protocol, Filter),
        hosts: usize,
        scr_bytes: u64,
        latency: Ps,
        snoop: Ps,
    ) -> Self {
        let lines = scr_bytes.div_ceil(tombolo_memory::LINE_BYTES) as usize;
        let (entries, messages) = (vec![Entry::default(); lines], Counts::default());
        Self { entries, protocol, filter, hosts, latency, snoop, messages }
    }

    /// Grants a line to a host that has it in `state`, at `now` or when it is free.
    pub(crate) fn grant(
        &mut self,
        (host, state): (usize, State),
        line: u64,
        write: bool,
        now: Ps,
        others: &mut impl Holders,
    ) -> Granted {
        let entry = &mut self.entries[line as usize];
        let access = if write { Access::Write } else { Access::Read };
        let ask = (self.protocol.ask)(state, access).unwrap_or(Ask::Own);
        let (tables, who) = ((self.protocol, self.filter), (host, self.hosts));
        let done = transact(tables.0, tables.1, ask, who, entry.known, others, &mut self.messages);
        let waits = entry.busy.saturating_sub(now);
        let takes = waits + self.latency + if done.snooped { self.snoop } else { 0 };
        entry.known = done.known;
        if write || done.snooped {
            entry.busy = now + takes;
        }
        Granted { takes, alone: done.known.alone }
    }

    /// A host has evicted a line.
    pub(crate) fn evicted(&mut self, host: usize, line: u64) {
        self.entries[line as usize].known.holders.remove(host);
    }

    /// How often a host was told to drop a line or to hand it back.
    pub(crate) fn snoops(&self) -> u64 {
        let snoops = Message::ALL.into_iter().filter(|message| message.is_snoop());
        snoops.map(|message| self.messages.of(message)).sum()
    }
}

#[cfg(test)]
mod tests {
    use tombolo_coherence::BACK_INVALIDATION;

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
        let protocol = (&BACK_INVALIDATION, Filter::Directory);
        let mut directory = Directory::new(protocol, 2, 4096, 100, 40);
        let mut states = States([State::Invalid; 2]);
        let first = directory.grant((0, State::Invalid), 3, false, 0, &mut states);
        assert_eq!((first.takes, first.alone, directory.snoops()), (100, true, 0));
        states.0[0] = State::Modified;
        let second = directory.grant((1, State::Invalid), 3, false, 1000, &mut states);
        assert_eq!((second.takes, second.alone, directory.snoops()), (140, false, 1));
        assert_eq!(states.0[0], State::Shared);
        let third = directory.grant((1, State::Shared), 3, true, 2000, &mut states);
        assert_eq!((third.takes, third.alone, directory.snoops()), (140, true, 2));
        assert_eq!(states.0[0], State::Invalid);
    }
}
