//! The operations of one thread.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::chooser::KeyChooser;
use crate::random::{below, generator, unit};
use crate::{Inserts, ScanLengths, Workload, WorkloadError, Zipfian};

/// An operation. Keys are numbers of records, for which [`Workload::key`] has the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read a value.
    Read {
        /// The record.
        key: u64,
    },
    /// Overwrite a value.
    Update {
        /// The record.
        key: u64,
    },
    /// Add a record, then call [`Inserts::acknowledge`].
    Insert {
        /// The record, which is not there yet.
        key: u64,
    },
    /// Read a value, then overwrite it.
    ReadModifyWrite {
        /// The record.
        key: u64,
    },
    /// Read consecutive records.
    Scan {
        /// The first record.
        key: u64,
        /// How many records.
        length: u64,
    },
}

impl Op {
    /// The record it is about; of a scan the first.
    pub fn key(self) -> u64 {
        match self {
            Self::Read { key }
            | Self::Update { key }
            | Self::Insert { key }
            | Self::ReadModifyWrite { key }
            | Self::Scan { key, .. } => key,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

/// The operations of one thread, without end: take as many as
/// [`Workload::operations_of_thread`] says.
///
/// They depend on the workload, the seed, the thread, and on what the shared [`Inserts`] answered
/// (which number is next for an insert; under `latest` and
/// `exponential`, how many records are there), and on nothing
/// else: not on the machine, nor on other threads as long as the workload inserts nothing.
#[derive(Debug)]
pub struct Operations {
    rng: ChaCha8Rng,
    /// The kinds that occur, each with the share of the operations up to and including its own; the
    /// last share is infinite, lest rounding leave a gap.
    kinds: Vec<(Kind, f64)>,
    chooser: KeyChooser,
    min_scan_length: u64,
    max_scan_length: u64,
    /// Draws scan lengths, unless they are uniform.
    scan_ranks: Option<Zipfian>,
    inserts: Arc<Inserts>,
}

impl Operations {
    /// The operations of `thread`. All threads of a host share `inserts`; all hosts of a run have
    /// different threads.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Impossible`] if [`Workload::check`] finds something, or if `inserts` was
    /// made for a workload with fewer records.
    pub fn new(
        workload: &Workload,
        seed: u64,
        thread: u32,
        inserts: Arc<Inserts>,
    ) -> Result<Self, WorkloadError> {
        workload.check()?;
        if inserts.known() < workload.record_count {
            return Err(WorkloadError::Impossible(format!(
                "the shared count of inserts starts at {} records, not at recordcount={}; make it \
                 for this workload",
                inserts.known(),
                workload.record_count
            )));
        }
        Ok(Self {
            rng: generator(seed, thread),
            kinds: kinds(workload),
            chooser: KeyChooser::new(workload, thread),
            min_scan_length: workload.min_scan_length,
            max_scan_length: workload.max_scan_length,
            scan_ranks: scan_ranks(workload),
            inserts,
        })
    }

    fn scan_length(&mut self) -> u64 {
        let rank = match &self.scan_ranks {
            Some(zipfian) => zipfian.rank(unit(self.rng.next_u64())),
            None => below(self.rng.next_u64(), self.max_scan_length - self.min_scan_length + 1),
        };
        self.min_scan_length + rank
    }

    fn choose(&mut self) -> u64 {
        self.chooser.choose(&mut self.rng, &self.inserts)
    }
}

impl Iterator for Operations {
    type Item = Op;

    /// The next operation; there always is one.
    fn next(&mut self) -> Option<Op> {
        let point = unit(self.rng.next_u64());
        let index = self.kinds.partition_point(|(_, share)| *share <= point);
        Some(match self.kinds[index].0 {
            Kind::Read => Op::Read { key: self.choose() },
            Kind::Update => Op::Update { key: self.choose() },
            Kind::Insert => Op::Insert { key: self.inserts.next() },
            Kind::Scan => Op::Scan { key: self.choose(), length: self.scan_length() },
            Kind::ReadModifyWrite => Op::ReadModifyWrite { key: self.choose() },
        })
    }
}

fn kinds(workload: &Workload) -> Vec<(Kind, f64)> {
    let p = &workload.proportions;
    let mut sum = 0.0;
    let mut kinds: Vec<_> = [
        (Kind::Read, p.read),
        (Kind::Update, p.update),
        (Kind::Insert, p.insert),
        (Kind::Scan, p.scan),
        (Kind::ReadModifyWrite, p.read_modify_write),
    ]
    .into_iter()
    .filter(|(_, weight)| *weight > 0.0)
    .map(|(kind, weight)| {
        sum += weight;
        (kind, sum / p.sum())
    })
    .collect();
    if let Some((_, share)) = kinds.last_mut() {
        *share = f64::INFINITY;
    }
    kinds
}

fn scan_ranks(workload: &Workload) -> Option<Zipfian> {
    let lengths = workload.max_scan_length - workload.min_scan_length + 1;
    match workload.scan_lengths {
        ScanLengths::Uniform => None,
        ScanLengths::Zipfian => Some(Zipfian::new(lengths, workload.zipfian_theta)),
    }
}
