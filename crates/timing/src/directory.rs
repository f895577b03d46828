//! Who has which line of SCR: the device knows, and has others drop a line, or hand it back, before it is
//! granted.

use crate::Ps;

#[derive(Clone, Copy, Default)]
struct Entry {
    /// A bit per host that may have the line.
    hosts: u64,
    /// The host that may change it, plus one.
    alone: u8,
    /// Until when the line is being handed over.
    busy: Ps,
}

pub(crate) struct Directory {
    entries: Vec<Entry>,
    latency: Ps,
    snoop: Ps,
}

/// A line as it was granted.
pub(crate) struct Granted {
    /// How long that takes.
    pub(crate) takes: Ps,
    /// No other host has it.
    pub(crate) alone: bool,
    /// Hosts that have to drop it.
    pub(crate) drops: u64,
    /// The host that has to hand it back, and may keep it.
    pub(crate) shares: Option<usize>,
}

impl Directory {
    pub(crate) fn new(scr_bytes: u64, latency: Ps, snoop: Ps) -> Self {
        let lines = scr_bytes.div_ceil(tombolo_memory::LINE_BYTES);
        Self { entries: vec![Entry::default(); lines as usize], latency, snoop }
    }

    /// Grants a line to a host, at `now` or when it is free.
    pub(crate) fn grant(&mut self, host: usize, line: u64, write: bool, now: Ps) -> Granted {
        let entry = &mut self.entries[line as usize];
        let mine = 1 << host;
        let others = entry.hosts & !mine;
        let owner = usize::from(entry.alone).checked_sub(1).filter(|&owner| owner != host);
        let drops = if write { others } else { 0 };
        let shares = owner.filter(|_| !write);
        let snoops = drops != 0 || shares.is_some();
        let waits = entry.busy.saturating_sub(now);
        let takes = waits + self.latency + if snoops { self.snoop } else { 0 };
        entry.hosts = if write { mine } else { entry.hosts | mine };
        let alone = entry.hosts == mine;
        entry.alone = if alone { host as u8 + 1 } else { 0 };
        if write || snoops {
            entry.busy = now + takes;
        }
        Granted { takes, alone, drops, shares }
    }

    /// A host has evicted a line.
    pub(crate) fn evicted(&mut self, host: usize, line: u64) {
        let entry = &mut self.entries[line as usize];
        entry.hosts &= !(1 << host);
        if usize::from(entry.alone) == host + 1 {
            entry.alone = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writer_or_many_readers() {
        let mut directory = Directory::new(4096, 100, 40);
        let first = directory.grant(0, 3, false, 0);
        assert_eq!((first.takes, first.alone, first.drops, first.shares), (100, true, 0, None));
        let second = directory.grant(1, 3, false, 1000);
        assert_eq!((second.takes, second.alone, second.shares), (140, false, Some(0)));
        let third = directory.grant(2, 3, false, 2000);
        assert_eq!((third.takes, third.alone, third.shares), (100, false, None));
        let writer = directory.grant(1, 3, true, 3000);
        assert_eq!((writer.takes, writer.alone, writer.drops), (140, true, 0b101));
        let reader = directory.grant(0, 3, false, 4000);
        assert_eq!((reader.takes, reader.alone, reader.shares), (140, false, Some(1)));
    }

    #[test]
    fn changes_of_a_line_go_one_after_the_other() {
        let mut directory = Directory::new(4096, 100, 40);
        let takes: Vec<_> = (0..3).map(|host| directory.grant(host, 0, true, 0).takes).collect();
        assert_eq!(takes, [100, 240, 380]);
    }

    #[test]
    fn an_evicted_line_is_nobodys() {
        let mut directory = Directory::new(4096, 100, 40);
        directory.grant(0, 0, true, 0);
        directory.evicted(0, 0);
        let second = directory.grant(1, 0, true, 1000);
        assert_eq!((second.takes, second.drops), (100, 0));
    }
}
