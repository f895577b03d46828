//! The order of transactions, as far as reads of rows tell it.
//!
//! A value names the transaction that wrote it. That a row was absent does not name the delete that
//! removed it, and two writes that no transaction read between may have come in either order. So
//! what is known here is not all: the [solver](super::solver) finds the rest.

use std::fmt::Debug;
use std::hash::Hash;

use super::accesses::{RowAccesses, RowRead, Seen};
use super::anomaly::{Direct, Phenomenon};
use super::facts::{Facts, Key};
use super::graph::{Graph, Kind};

/// A row as the solver needs it: transactions that read or wrote it.
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) accesses: Vec<Access>,
}

/// One transaction's access: it needs all of `wants`, and then leaves what `leaves` says.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) transaction: usize,
    pub(super) wants: Vec<Want>,
    /// Whether it left the row present or absent, if it wrote it.
    pub(super) leaves: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) version: Version,
    pub(super) by_scan: bool,
}

/// Which version of a row a transaction met.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// The one that this transaction left.
    Of(usize),
    /// Any that is present, or any that is absent.
    Any { present: bool },
}

/// The states in which transactions in doubt may have left a row. Nothing proves that these
/// transactions have committed.
#[derive(Clone, Copy, Default)]
pub(super) struct Maybe {
    present: bool,
    absent: bool,
}

impl Maybe {
    pub(super) fn add(&mut self, present: bool) {
        *(if present { &mut self.present } else { &mut self.absent }) = true;
    }

    pub(super) fn has(self, present: bool) -> bool {
        if present { self.present } else { self.absent }
    }
}

/// Where a read's version comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// No transaction: the row was absent from the beginning.
    Initial,
    Writer(usize),
    /// One of several transactions, or of one and the beginning.
    Several,
    /// It has none.
    Nowhere,
}

/// The accesses of one row, after adding its known dependencies to `graph`.
///
/// # Errors
///
/// The first thing that is wrong whatever the order of transactions.
pub(super) fn add_dependencies<'h, K: Ord + Debug, V: Eq + Hash + Debug>(
    facts: &Facts<'h, K, V>,
    key: Key,
    accesses: &RowAccesses<'h, V>,
    maybe: Maybe,
    graph: &mut Graph,
) -> Result<Row, Direct> {
    let row = Row::new(facts, key, accesses)?;
    let sources = row.sources(maybe);
    if let Some(&(orphan, _)) = sources.iter().find(|(_, source)| *source == Source::Nowhere) {
        let reader = row.accesses[orphan].transaction;
        let what = "T1 deleted the row, which no transaction had written".to_owned();
        let phenomenon = Phenomenon::Garbage;
        return Err(Direct { phenomenon, transactions: vec![reader], key, what });
    }
    let known = sources.into_iter().filter(|(_, source)| *source != Source::Several);
    row.add_edges(&known.collect::<Vec<_>>(), graph);
    Ok(row)
}

/// The row's transactions, in their order, and what they leave.
fn merge<V>(accesses: &RowAccesses<'_, V>) -> Vec<Access> {
    let mut transactions: Vec<_> = accesses.reads.iter().map(|read| read.transaction).collect();
    transactions.extend(accesses.writes.iter().map(|(transaction, _)| transaction));
    transactions.sort_unstable();
    transactions.dedup();
    let mut writes = accesses.writes.iter().peekable();
    let access = |transaction| {
        let left = writes.next_if(|(writer, _)| *writer == transaction);
        let leaves = left.map(|(_, value)| value.is_some());
        Access { transaction, wants: Vec::new(), leaves }
    };
    transactions.into_iter().map(access).collect()
}

fn version<'h, K: Ord + Debug, V: Eq + Hash + Debug>(
    facts: &Facts<'h, K, V>,
    key: Key,
    read: &RowRead<'h, V>,
) -> Result<Version, Direct> {
    let value = match read.seen {
        Seen::Value(value) => value,
        Seen::Absent => return Ok(Version::Any { present: false }),
        Seen::Present => return Ok(Version::Any { present: true }),
    };
    let reader = read.transaction;
    let wrong = |phenomenon, transactions, what| Direct { phenomenon, transactions, key, what };
    let Some(origin) = facts.origin(key, value) else {
        let what = format!("T1 read {value:?}, which no transaction wrote");
        return Err(wrong(Phenomenon::Garbage, vec![reader], what));
    };
    let writer = origin.transaction;
    if facts.is_aborted(writer) {
        let what = format!("T1 read {value:?}, which T2 wrote before it aborted");
        return Err(wrong(Phenomenon::G1a, vec![reader, writer], what));
    }
    if writer == reader {
        let what = format!("T1 read {value:?}, which it wrote only later");
        return Err(wrong(Phenomenon::Internal, vec![reader], what));
    }
    if !origin.is_final {
        let what = format!("T1 read {value:?}, which T2 wrote, and then wrote over");
        return Err(wrong(Phenomenon::G1b, vec![reader, writer], what));
    }
    Ok(Version::Of(writer))
}

impl Row {
    /// # Errors
    ///
    /// The first read that no order explains.
    pub(super) fn new<'h, K: Ord + Debug, V: Eq + Hash + Debug>(
        facts: &Facts<'h, K, V>,
        key: Key,
        accesses: &RowAccesses<'h, V>,
    ) -> Result<Self, Direct> {
        let mut row = Self { key, accesses: merge(accesses) };
        for read in &accesses.reads {
            let version = version(facts, key, read)?;
            row.want(read.transaction, Want { version, by_scan: read.by_scan });
        }
        Ok(row)
    }

    /// Adds the accesses of other transactions.
    pub(super) fn add(&mut self, accesses: Vec<Access>) {
        self.accesses.extend(accesses);
        self.accesses.sort_unstable_by_key(|access| access.transaction);
    }

    fn want(&mut self, transaction: usize, want: Want) {
        let at = self.access_of(transaction).expect("its reads were merged");
        self.accesses[at].wants.push(want);
    }

    /// The index of the transaction's access, if it has one.
    pub(super) fn access_of(&self, transaction: usize) -> Option<usize> {
        self.accesses.binary_search_by_key(&transaction, |access| access.transaction).ok()
    }

    /// For each want, the access that has it, and its source.
    fn sources(&self, maybe: Maybe) -> Vec<(usize, Source)> {
        let mut sources = Vec::new();
        for (at, access) in self.accesses.iter().enumerate() {
            for want in &access.wants {
                let source = match want.version {
                    Version::Of(writer) => Source::Writer(writer),
                    Version::Any { present } => self.source(access, present, maybe),
                };
                sources.push((at, source));
            }
        }
        sources
    }

    fn source(&self, reader: &Access, present: bool, maybe: Maybe) -> Source {
        let mut writers = self.accesses.iter().filter(|access| {
            access.leaves == Some(present) && access.transaction != reader.transaction
        });
        let others = maybe.has(present);
        match (writers.next(), writers.next()) {
            (None, _) if !others && present => Source::Nowhere,
            (None, _) if !others => Source::Initial,
            (Some(writer), None) if !others && present => Source::Writer(writer.transaction),
            _ => Source::Several,
        }
    }

    fn add_edges(&self, sources: &[(usize, Source)], graph: &mut Graph) {
        for &(at, source) in sources {
            if let Source::Writer(writer) = source {
                graph.add(writer, self.accesses[at].transaction, Kind::Wr(self.key));
            }
        }
        let mut sorted: Vec<_> = sources.iter().map(|&(at, source)| (source, at)).collect();
        sorted.sort_unstable();
        sorted.dedup();
        for readers in sorted.chunk_by(|a, b| a.0 == b.0) {
            let source = readers[0].0;
            let readers: Vec<_> = readers.iter().map(|&(_, at)| at).collect();
            self.add_successors(source, &readers, sources, graph);
        }
    }

    /// Adds what the readers of one version say about its successor: a transaction that read the
    /// version and wrote the row comes after all others that read it. With three, the first two
    /// already contradict each other.
    fn add_successors(
        &self,
        source: Source,
        readers: &[usize],
        sources: &[(usize, Source)],
        graph: &mut Graph,
    ) {
        let mut next: Vec<_> = readers
            .iter()
            .copied()
            .filter(|&at| self.accesses[at].leaves.is_some())
            .take(2)
            .collect();
        if let Source::Writer(writer) = source {
            let successors = next.iter().map(|&at| self.accesses[at].transaction);
            successors.for_each(|successor| graph.add(writer, successor, Kind::Ww(self.key)));
        } else {
            let blind = self.blind_writers(sources);
            match next.first() {
                Some(&first) => self.add_misses(&[first], &blind, graph),
                None => next = blind,
            }
        }
        self.add_misses(readers, &next, graph);
    }

    /// The accesses that write the row after a version that is not known.
    fn blind_writers(&self, sources: &[(usize, Source)]) -> Vec<usize> {
        let mut is_known = vec![false; self.accesses.len()];
        sources.iter().for_each(|&(at, _)| is_known[at] = true);
        let all = 0..self.accesses.len();
        all.filter(|&at| self.accesses[at].leaves.is_some() && !is_known[at]).collect()
    }

    fn add_misses(&self, readers: &[usize], next: &[usize], graph: &mut Graph) {
        for &reader in readers {
            for &writer in next.iter().filter(|&&writer| writer != reader) {
                let (reader, writer) = (&self.accesses[reader], &self.accesses[writer]);
                graph.add(reader.transaction, writer.transaction, self.missed(reader, writer));
            }
        }
    }

    /// Why `reader` comes before `writer`, whose version it did not meet.
    pub(super) fn missed(&self, reader: &Access, writer: &Access) -> Kind {
        let changes = |want: &Want| {
            let met = want.version != Version::Any { present: false };
            want.by_scan && writer.leaves != Some(met)
        };
        Kind::Rw { key: self.key, in_range: reader.wants.iter().any(changes) }
    }
}
