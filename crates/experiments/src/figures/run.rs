//! The runs of a figure: pods, and in each of them one step after the other.

use tombolo_pagecache::PAGE_BYTES;
use tombolo_sharing::{Options as Layout, RecordWidth};
use tombolo_workloads::{InsertOrder, Proportions, RequestDistribution, Workload, WorkloadError};

use super::scheme::{Edition, Scheme};

/// The paper's objects, keys and skew, unless a figure says otherwise.
pub(crate) const MILLIONS: f64 = 18.0;
pub(crate) const SCR_MB: f64 = 200.0;
const VALUE_BYTES: u64 = 1024;
const KEY_BYTES: u32 = 24;
const SKEW: f64 = 0.99;

/// As pods for page caches have.
const LATCHES: u64 = 256;

/// A pod, and what is done there.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) scheme: Scheme,
    pub(crate) edition: Edition,
    /// Both editions are to be there, also of a scheme of which the published one is no different
    /// elsewhere.
    pub(crate) both: bool,
    pub(crate) scr_mb: f64,
    pub(crate) key_bytes: u32,
    pub(crate) width: RecordWidth,
    /// Objects are pages of a file.
    pub(crate) pages: bool,
    pub(crate) steps: Vec<Step>,
}

/// Something that is measured.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The panel and the place on its axis where it is shown.
    pub(crate) panel: String,
    pub(crate) x: String,
    /// Objects there are to be in the pod, in millions: at least as many as in the step before.
    pub(crate) millions: f64,
    pub(crate) mix: Mix,
    /// Threads of each host, if it has so many cores.
    pub(crate) threads: u32,
}

/// The operations of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mix {
    pub(crate) operations: Operations,
    pub(crate) skew: f64,
    /// The share of objects that is for all hosts; all, unless given.
    pub(crate) shared: Option<f64>,
}

/// How often threads ask for which objects, whatever they do then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Popularity {
    millions: f64,
    skew: f64,
    shared: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operations {
    /// None: objects are only there.
    None,
    /// Reads, and this share of writes.
    Writes(f64),
    /// Those of a stock workload.
    Stock(char),
}

impl Mix {
    pub(crate) const READS: Self = Self::writes(0.0);
    pub(crate) const NONE: Self = Self { operations: Operations::None, ..Self::READS };

    pub(crate) const fn writes(share: f64) -> Self {
        Self { operations: Operations::Writes(share), skew: SKEW, shared: None }
    }

    pub(crate) const fn stock(letter: char) -> Self {
        Self { operations: Operations::Stock(letter), skew: SKEW, shared: None }
    }

    pub(crate) const fn skewed(self, skew: f64) -> Self {
        Self { skew, ..self }
    }

    pub(crate) const fn shared(self, share: f64) -> Self {
        Self { shared: Some(share), ..self }
    }

    /// Whether something is done to objects, once they are there.
    pub(crate) fn operates(self) -> bool {
        !matches!(self.operations, Operations::None)
    }

    /// Whether they are written.
    pub(crate) fn changes(self) -> bool {
        match self.operations {
            Operations::None => false,
            Operations::Writes(share) => share > 0.0,
            Operations::Stock(letter) => letter != 'c',
        }
    }

    /// Whether there are more objects in the end.
    pub(crate) fn inserts(self) -> bool {
        matches!(self.operations, Operations::Stock('d'))
    }

    /// Threads of each host in the published scripts (the paper does not say): 42 in all, but 24
    /// where many write to few objects.
    pub(crate) fn threads(self) -> u32 {
        match self.operations {
            Operations::Writes(share) if share >= 0.5 && self.skew >= SKEW => 8,
            Operations::Stock('a') => 8,
            _ => 14,
        }
    }
}

impl Step {
    /// A step with the paper's usual dataset and threads.
    pub(crate) fn new(panel: impl Into<String>, x: impl Into<String>, mix: Mix) -> Self {
        let (panel, x) = (panel.into(), x.into());
        Self { panel, x, millions: MILLIONS, mix, threads: mix.threads() }
    }

    /// Whether the other one comes to the same, wherever it is shown.
    pub(crate) fn does_the_same_as(&self, other: &Self) -> bool {
        (self.millions, self.mix, self.threads) == (other.millions, other.mix, other.threads)
    }

    /// How often threads ask for which objects.
    pub(crate) fn popularity(&self) -> Popularity {
        let Mix { skew, shared, .. } = self.mix;
        Popularity { millions: self.millions, skew, shared }
    }

    /// The workload on so many objects, with keys and values of so many bytes.
    pub(crate) fn workload(
        &self,
        objects: u64,
        key_bytes: u32,
        value_bytes: u64,
    ) -> Result<Workload, WorkloadError> {
        let stock = Workload::stock(match self.mix.operations {
            Operations::Stock(letter) => letter,
            Operations::None | Operations::Writes(_) => 'c',
        })?;
        let proportions = match self.mix.operations {
            Operations::None | Operations::Stock(_) => stock.proportions,
            Operations::Writes(share) => {
                Proportions { read: 1.0 - share, update: share, ..stock.proportions }
            }
        };
        let request_distribution = match stock.request_distribution {
            RequestDistribution::Latest => RequestDistribution::Latest,
            _ => RequestDistribution::ZipfianAsPublished,
        };
        Ok(Workload {
            record_count: objects,
            insert_start: 0,
            insert_count: objects,
            operation_count: None,
            field_count: 1,
            field_length_bytes: value_bytes,
            proportions,
            request_distribution,
            zipfian_theta: self.mix.skew,
            insert_order: InsertOrder::Ordered,
            key_prefix: "u".to_owned(),
            key_length_bytes: key_bytes,
            ..stock
        })
    }
}

impl Run {
    /// A pod of the paper's usual size.
    pub(crate) fn new(scheme: Scheme, steps: Vec<Step>) -> Self {
        let (key_bytes, width) = (KEY_BYTES, RecordWidth::Bits32);
        Self {
            scheme,
            edition: Edition::Ours,
            both: false,
            scr_mb: SCR_MB,
            key_bytes,
            width,
            pages: false,
            steps,
        }
    }

    /// Whether the other one's steps can be done in the same pod. Those that insert objects cannot,
    /// since others load these; nor can those in which objects are for some host alone, if all have
    /// used them before.
    pub(crate) fn shares_pod_with(&self, other: &Self) -> bool {
        let kind = |run: &Self| {
            (
                run.scheme,
                run.edition,
                run.scr_mb,
                run.key_bytes,
                run.width,
                run.pages,
                run.inserts(),
                run.has_partitions(),
            )
        };
        kind(self) == kind(other)
    }

    fn inserts(&self) -> bool {
        self.steps.iter().any(|step| step.mix.inserts())
    }

    fn has_partitions(&self) -> bool {
        self.steps.iter().any(|step| step.mix.shared.is_some())
    }

    /// Its curve.
    pub(crate) fn curve(&self) -> String {
        self.scheme.curve(self.edition)
    }

    /// The name of one of its steps.
    pub(crate) fn place(&self, step: &Step) -> String {
        let parts = [self.curve(), step.panel.clone(), step.x.clone()];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(", ")
    }

    /// The same pod for each edition there is to be.
    pub(crate) fn editions(self) -> impl Iterator<Item = Self> {
        let editions = if self.both { &Edition::ALL } else { self.scheme.editions() };
        editions.iter().map(move |&edition| Self { edition, ..self.clone() })
    }

    pub(crate) fn millions(&self) -> f64 {
        self.steps.iter().map(|step| step.millions).fold(0.0, f64::max)
    }

    pub(crate) fn value_bytes(&self) -> u64 {
        if self.pages { PAGE_BYTES } else { VALUE_BYTES }
    }

    /// The pod's layout, but for sizes.
    pub(crate) fn layout(&self) -> Layout {
        let latches = self.pages.then_some(LATCHES);
        Layout { record_width: Some(self.width), latches, ..Layout::default() }
    }

    /// The effort of the run, in no unit: to compare runs.
    pub(crate) fn effort(&self) -> f64 {
        self.millions() * (1 + self.points()) as f64
    }

    /// The points it comes to.
    pub(crate) fn points(&self) -> usize {
        self.steps.len()
    }

    /// SCR at full size, in bytes.
    pub(crate) fn scr_bytes(&self) -> f64 {
        match self.scheme {
            // Sets of the index are half full.
            Scheme::HcMetaUnlimited => {
                2e6 * self.millions() * f64::from(self.key_bytes + 16) + 64e6
            }
            _ => self.scr_mb * 1e6,
        }
    }

    /// LNR at full size, in bytes: there is always room.
    pub(crate) fn lnr_bytes(&self) -> f64 {
        1.5e6 * self.millions() * (self.value_bytes() + u64::from(self.key_bytes) + 64) as f64
            + 256e6
    }

    /// The bytes of this machine's memory that the run takes at full size, about.
    pub(crate) fn host_bytes(&self) -> f64 {
        const PER_OBJECT: f64 = 320.0;
        1e6 * self.millions() * PER_OBJECT + 1.5 * self.scr_bytes() + 500e6
    }
}
