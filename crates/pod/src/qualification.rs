//! The record of what a tool has found out about a pod's memory: whether hosts see each other's
//! words and lines there. `tombolo qualify` writes it, and a pod that is created there keeps it.
//!
//! It lies in LNR, in lines that no table uses, since SCR may not work at all. The lines before it
//! are for the tool itself: hosts of a pod leave them alone. In memory that holds no pod, both lie
//! at the same distance from its start.
//!
//! ```text
//! lines  4..12   words that the tool tries
//! lines 12..58   lines that the tool tries
//! lines 58..64   the record, 48 words:
//!   words 0, 1   magic number, version
//!   word  2      verdict
//!   words 3..47  details, which the tool knows
//!   word  47     checksum of the others
//! ```

use std::fmt;
use std::ops::Range;

use tombolo_memory::{LINE_BYTES, Lines, LnrAddr, Memory};

use crate::sites;
use crate::superblock::checksum;

/// Lines whose words a tool may try, from the start of LNR, or of memory without a pod.
pub const TRIED_WORDS: Range<u64> = 4..12;

/// Lines that a tool may try, and the record behind them, likewise.
pub const TRIED_LINES: Range<u64> = 12..64;

/// Lines of the record, the last of those.
pub const RECORD_LINES: u64 = 6;

/// The record's line, from the start of LNR.
const RECORD: u64 = TRIED_LINES.end - RECORD_LINES;

const MAGIC: u64 = u64::from_le_bytes(*b"TOMBQUAL");
const VERSION: u64 = 1;
const WORDS: usize = (RECORD_LINES * LINE_BYTES / 8) as usize;

/// Words of details in a record.
pub const DETAILS: usize = WORDS - 4;

/// A flaw that keeps memory from being used by several hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// Hosts have stale lines, but too few were seen to show that an invalidate drops them.
    Unproven,
    /// A host died, and what it had cleaned was not in memory.
    LostAtDeath,
    /// A line that was cleaned later was seen before one that was cleaned earlier.
    OutOfOrder,
    /// A cleaned line came later than its clean ended.
    Late,
    /// A cleaned line came in part.
    Torn,
    /// A cleaned line never came.
    NotVisible,
}

impl Flaw {
    /// Every flaw.
    pub const ALL: [Self; 6] = [
        Self::Unproven,
        Self::LostAtDeath,
        Self::OutOfOrder,
        Self::Late,
        Self::Torn,
        Self::NotVisible,
    ];
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unproven => {
                "hosts have stale lines, but too few were met to show that invalidating them works"
            }
            Self::LostAtDeath => "a line that a host had written back was lost when the host died",
            Self::OutOfOrder => "of two lines, the one that was written back later was seen first",
            Self::Late => "lines were seen only some time after they had been written back",
            Self::Torn => "lines that were written back arrived in part",
            Self::NotVisible => "lines that were written back did not arrive at the other host",
        })
    }
}

/// The abilities of hosts on a memory, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Words are coherent, and atomic operations work between hosts.
    CoherentWithAtomics,
    /// Words are coherent, but hosts lose each other's changes.
    CoherentWithoutAtomics,
    /// Hosts have stale words. A line that is written back is seen by a host that invalidates it.
    WriteBackWorks,
    /// No pod can be there.
    Unfit(Flaw),
}

impl Verdict {
    /// Its number in a record.
    fn code(self) -> u64 {
        match self {
            Self::CoherentWithAtomics => 0,
            Self::CoherentWithoutAtomics => 1,
            Self::WriteBackWorks => 2,
            Self::Unfit(flaw) => 16 + flaw as u64,
        }
    }

    fn of_code(code: u64) -> Option<Self> {
        let flaws = Flaw::ALL.map(Self::Unfit);
        let known = [Self::CoherentWithAtomics, Self::CoherentWithoutAtomics, Self::WriteBackWorks];
        known.into_iter().chain(flaws).find(|verdict| verdict.code() == code)
    }

    /// Whether SCR can be what it is in a pod of today: words on which atomic operations work.
    pub fn allows_hardware_scr(self) -> bool {
        self == Self::CoherentWithAtomics
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CoherentWithAtomics => f.pad("coherent with atomics"),
            Self::CoherentWithoutAtomics => f.pad("coherent without atomics"),
            Self::WriteBackWorks => f.pad("incoherent, write-back works"),
            Self::Unfit(flaw) => write!(f, "unfit: {flaw}"),
        }
    }
}

/// The findings about a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qualification {
    /// The abilities of hosts on it.
    pub verdict: Verdict,
    /// The evidence, as the tool that has found it writes it.
    pub details: [u64; DETAILS],
}

impl Qualification {
    /// Reads a record that begins at `line` of LNR; `None` if there is none, or a damaged one.
    pub fn read<M: Memory>(memory: &M, line: u64) -> Option<Self> {
        let lines = Lines::new(line, RECORD_LINES);
        let mut bytes = [0; 8 * WORDS];
        memory.consume(sites::QUALIFICATION_INVALIDATE, |_| ((), Some(lines)));
        memory.read(LnrAddr::of_line(line), &mut bytes);
        let words: Vec<u64> =
            bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let is_whole = words[0] == MAGIC
            && words[1] == VERSION
            && words[WORDS - 1] == checksum(&words[..WORDS - 1]);
        let verdict = Verdict::of_code(words[2]).filter(|_| is_whole)?;
        let details = std::array::from_fn(|index| words[3 + index]);
        Some(Self { verdict, details })
    }

    /// Writes a record that begins at `line` of LNR, for all hosts to see. One host does so at a
    /// time.
    pub fn write<M: Memory>(&self, memory: &M, line: u64) {
        let mut words = vec![MAGIC, VERSION, self.verdict.code()];
        words.extend(self.details);
        words.push(checksum(&words));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let lines = Lines::new(line, RECORD_LINES);
        memory.takes_blank(lines);
        memory.write(LnrAddr::of_line(line), &bytes);
        memory.clean(sites::QUALIFICATION_CLEAN, lines);
        memory.gives(lines, lines.bytes());
    }

    /// The record of a pod, or of memory without a pod that is mapped as LNR alone.
    pub(crate) fn of<M: Memory>(memory: &M) -> Option<Self> {
        Self::read(memory, RECORD)
    }

    /// Makes this the record of a pod.
    pub(crate) fn keep<M: Memory>(&self, memory: &M) {
        self.write(memory, RECORD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_have_codes_of_their_own_and_flaws_are_worse() {
        let all = [Verdict::CoherentWithAtomics, Verdict::CoherentWithoutAtomics]
            .into_iter()
            .chain([Verdict::WriteBackWorks])
            .chain(Flaw::ALL.map(Verdict::Unfit));
        let all: Vec<Verdict> = all.collect();
        assert!(all.is_sorted(), "the best is first");
        for verdict in all {
            assert_eq!(Verdict::of_code(verdict.code()), Some(verdict));
        }
        assert_eq!(Verdict::of_code(3), None);
    }
}
