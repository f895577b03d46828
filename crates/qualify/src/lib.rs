//! Finds out what hosts can do with a memory that they share: whether they see each other's words
//! and lines, and whether atomic operations work between them.
//!
//! Hosts run [`qualify`] at once, each on its own machine. They find each other through the memory
//! itself (`meeting`), which takes nothing but lines that are written back and
//! invalidated. Then each pair of hosts tries the memory alone, and the [`Evidence`] of all pairs
//! makes one [`Verdict`], which is written into the memory. Both are generic over [`Memory`], so
//! the simulator can plant platforms that are broken.
//!
//! Invariants:
//! * A message is one line of one writer, with a checksum. A torn or stale one is no message.
//! * No verdict is better than any pair's evidence.
//! * Every wait ends: with an error that names the host that did not come.
//!
//! Left out: faults that need more than two hosts at once, or hours to show.

mod costs;
mod evidence;
mod meeting;
mod pair;
mod sites;
mod tries;

use std::time::Duration;

use tombolo_memory::{LINE_BYTES, Memory};
use tombolo_pod::{Flaw, Qualification, RECORD_LINES, TRIED_LINES, TRIED_WORDS, Verdict};

pub use evidence::{AfterDeath, Costs, Evidence, Histogram, WAYS, WIDTHS};
pub use meeting::{MAX_HOSTS, host_name, host_number};
pub use sites::ALL as SITES;

use meeting::Meeting;
use pair::Pair;

/// Bytes of a line.
pub type LineBytes = [u8; LINE_BYTES as usize];

/// Lines of LNR that [`qualify`] uses, the record behind them included.
pub const LINES: u64 = TRIED_LINES.end - TRIED_LINES.start;

/// Bytes of SCR that it uses.
pub const SCR_BYTES: u64 = (TRIED_WORDS.end - TRIED_WORDS.start) * LINE_BYTES;

/// The line where the record begins.
pub const RECORD: u64 = LINES - RECORD_LINES;

/// A way to write a line back, which is tried by itself.
pub struct Way<'a, M> {
    /// Its place in [`WAYS`].
    pub number: usize,
    /// Writes a line of LNR in this way.
    pub write: &'a dyn Fn(&M, u64, &LineBytes),
}

/// Starts a process that writes and cleans a line of LNR, and dies at once; waits for its end.
pub type Dying<'a, M> = &'a dyn Fn(&M, u64, &LineBytes) -> Result<(), String>;

/// The part of a host in a qualification.
pub struct Options<'a, M> {
    /// Which host this is, from 0.
    pub host: usize,
    /// How many hosts there are, 2 to [`MAX_HOSTS`].
    pub hosts: usize,
    /// Whether the words lie in the same memory as the lines. Then lines that are stale tell of
    /// words, too.
    pub one_memory: bool,
    /// How much is tried.
    pub effort: Effort,
    /// The ways to write back that this host's processor has.
    pub ways: &'a [Way<'a, M>],
    /// Has a writer die; not tried, if there is none.
    pub dying: Option<Dying<'a, M>>,
    /// Told of each part before it is tried, with its number and how many there are.
    pub progress: &'a dyn Fn(&'static str, usize, usize),
}

/// How much is tried, and how long hosts wait for each other. Hosts of one qualification use the
/// same.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds in which lines and words are written for the other host.
    pub rounds: u64,
    /// Where lines are not coherent, an invalidate shows that it works when it is a stale line's.
    /// Rounds go on until there were so many, in each direction, but for ten times as many rounds
    /// at most.
    pub invalidated: u64,
    /// Looks at a line that has not arrived, before it counts as lost.
    pub looks: u64,
    /// Changes of a word in a row.
    pub changes: u64,
    /// How often each width of words is tried.
    pub repetitions: u64,
    /// Lines written one after the other, to see their order; 255 at most.
    pub ordered: u64,
    /// Round trips and operations of which times are taken.
    pub times: u64,
    /// How long to wait for hosts that have not come yet.
    pub meet_within: Duration,
    /// How long to wait for a host that has come.
    pub answer_within: Duration,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            rounds: 200,
            invalidated: 200,
            looks: 2000,
            changes: 50_000,
            repetitions: 4,
            ordered: 255,
            times: 2000,
            meet_within: Duration::from_secs(60),
            answer_within: Duration::from_secs(20),
        }
    }
}

/// The findings.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The verdict on the memory.
    pub verdict: Verdict,
    /// Why.
    pub evidence: Evidence,
}

impl Report {
    /// The report of a record.
    pub fn of(record: &Qualification) -> Self {
        Self { verdict: record.verdict, evidence: Evidence::from_words(&record.details) }
    }

    fn record(&self) -> Qualification {
        Qualification { verdict: self.verdict, details: self.evidence.to_words() }
    }

    fn and(self, other: &Self) -> Self {
        let evidence = self.evidence.and(&other.evidence);
        Self { verdict: self.verdict.max(other.verdict), evidence }
    }
}

/// Why nothing was found out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A host has not come.
    #[error(
        "host {} did not come within {} s: it was not started, or not with the same memory and the same number of hosts, or nothing that it writes back is seen here",
        host_name(*host), waited.as_secs()
    )]
    Absent {
        /// The host.
        host: usize,
        /// How long the wait was.
        waited: Duration,
    },
    /// A host came, and then did not answer.
    #[error(
        "host {} has not answered for {} s while {trying}: it has ended, or its lines are seen no more; start all hosts again",
        host_name(*host), waited.as_secs()
    )]
    Silent {
        /// The host.
        host: usize,
        /// The step that was tried.
        trying: &'static str,
        /// How long the wait was.
        waited: Duration,
    },
    /// The options do not fit each other or the memory.
    #[error("{0}")]
    Options(&'static str),
}

/// Tries a memory together with other hosts, and writes the record of it. Blocks until all pairs of
/// hosts are through: some seconds for two hosts.
///
/// `memory` has [`SCR_BYTES`] of SCR and [`LINES`] lines of LNR that nobody else uses.
///
/// # Errors
/// [`Error`] if a host does not come or does not answer, which says nothing good about the memory.
pub fn qualify<M: Memory>(memory: &M, options: &Options<'_, M>) -> Result<Report, Error> {
    check(memory, options)?;
    let mut meeting = Meeting::new(memory, options.host, options.hosts, options.effort)?;
    let mut known: Option<Report> = None;
    let pairs: Vec<(usize, usize)> = (0..options.hosts)
        .flat_map(|first| (first + 1..options.hosts).map(move |second| (first, second)))
        .collect();
    for &(first, second) in &pairs {
        if [first, second].contains(&options.host) {
            let is_first = options.host == first;
            let peer = if is_first { second } else { first };
            let found = Pair { memory, meeting: &mut meeting, options, peer, is_first }.run()?;
            let found = Report { verdict: found.verdict(options.one_memory), evidence: found };
            if is_first {
                let before = (first, second) != pairs[0];
                let before = Qualification::read(memory, RECORD).filter(|_| before);
                let all = before.iter().fold(found.clone(), |all, old| all.and(&Report::of(old)));
                write_record(memory, &all.record());
            }
            known = Some(match known {
                Some(known) => known.and(&found),
                None => found,
            });
        }
        meeting.round()?;
    }
    let record = Qualification::read(memory, RECORD);
    meeting.end();
    Ok(conclude(record.as_ref(), known))
}

/// Writes the record, again if the platform has not kept it.
fn write_record<M: Memory>(memory: &M, record: &Qualification) {
    for _ in 0..8 {
        record.write(memory, RECORD);
        if Qualification::read(memory, RECORD).as_ref() == Some(record) {
            return;
        }
    }
}

/// The record, unless this host knows worse. A record that does not arrive is a flaw by itself.
fn conclude(record: Option<&Qualification>, known: Option<Report>) -> Report {
    match (record.map(Report::of), known) {
        (Some(all), Some(own)) if own.verdict > all.verdict => own,
        (Some(all), _) => all,
        (None, Some(own)) if matches!(own.verdict, Verdict::Unfit(_)) => own,
        (None, own) => {
            let evidence = own.map(|own| own.evidence).unwrap_or_default();
            Report { verdict: Verdict::Unfit(Flaw::NotVisible), evidence }
        }
    }
}

fn check<M: Memory>(memory: &M, options: &Options<'_, M>) -> Result<(), Error> {
    if !(2..=MAX_HOSTS).contains(&options.hosts) || options.host >= options.hosts {
        return Err(Error::Options(
            "two to eight hosts qualify a memory, and each has its own name",
        ));
    }
    if memory.scr_bytes() < SCR_BYTES || memory.lnr_bytes() < LINES * LINE_BYTES {
        return Err(Error::Options("the memory is smaller than what is tried"));
    }
    if options.effort.ordered > 255 || options.effort.rounds == 0 {
        return Err(Error::Options("the effort is out of range"));
    }
    Ok(())
}
