//! The rules about lines, and how breaking one is reported.
//!
//! 1. A host writes only lines that are its own: between `takes` and `gives`.
//! 2. A line is one host's at a time.
//! 3. No line is dirty in two caches.
//! 4. When a host gives a line, the line is not dirty in its cache.
//! 5. When a host gives a line, none of its bytes that count is an older one which a partial store
//!    into a stale line brought back.
//! 6. Bytes that a thread relies on were not out of date when it began.
//!
//! 7. A host has memory put behind lines that were given back before it writes them.
//!
//! One more, that nothing atomic is done to LNR, is kept by types: atomics take an
//! [`ScrAddr`](tombolo_memory::ScrAddr).

use crate::places::Places;
use crate::timeline::Origin;

/// Whose a line is.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    Nobody,
    /// A host, in one of its lives, since some operation.
    Host {
        host: u8,
        life: u32,
        at: Origin,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    NotOwner,
    TwoOwners,
    TwoWriters,
    LeftDirty,
    Reverted,
    Stale,
    Hole,
}

/// A rule that was broken: by which operation, and which one made the line what it is.
#[derive(Clone, Copy)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) line: u32,
    pub(crate) origin: Origin,
    pub(crate) earlier: Option<Origin>,
}

impl Violation {
    /// The report.
    pub(crate) fn report(&self, places: &Places) -> String {
        let (broken, earlier) = match self.rule {
            Rule::NotOwner => ("written by a host whose it is not", "taken"),
            Rule::TwoOwners => ("taken while it is another's", "taken"),
            Rule::TwoWriters => ("written while it is dirty in another cache", "made dirty"),
            Rule::LeftDirty => ("given away while it is dirty", "made dirty"),
            Rule::Reverted => ("given away with older bytes than it had", "made dirty while stale"),
            Rule::Hole => ("written though no memory is behind it", "given back"),
            Rule::Stale => ("relied on though it was read from a stale cache", "made stale"),
        };
        let Self { line, origin, .. } = self;
        let address = u64::from(*line) * tombolo_memory::LINE_BYTES;
        let place = places.line(*line);
        let mut report = format!("{place} (lnr+{address:#x}) was {broken}\n  by {origin}");
        if let Some(other) = self.earlier {
            report += &format!("\n  {earlier} by {other}");
        }
        report
    }
}
