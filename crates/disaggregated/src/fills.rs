//! Lines that are on their way to a host.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use tombolo_timing::Ps;

use crate::pages::PageHasher;

/// When lines arrive that the host has asked for. A core that wants one of them meanwhile does not
/// ask again.
#[derive(Default)]
pub(crate) struct Fills {
    arrives: HashMap<u64, Ps, BuildHasherDefault<PageHasher>>,
}

/// Those that have arrived are forgotten when there are so many.
const MANY: usize = 4096;

impl Fills {
    /// When a line arrives, if it is on its way.
    pub(crate) fn arrives(&self, line: u64, now: Ps) -> Option<Ps> {
        self.arrives.get(&line).copied().filter(|&arrives| arrives > now)
    }

    /// A line was asked for, and arrives then.
    pub(crate) fn add(&mut self, line: u64, arrives: Ps, now: Ps) {
        if self.arrives.len() >= MANY {
            self.arrives.retain(|_, arrives| *arrives > now);
        }
        self.arrives.insert(line, arrives);
    }
}
