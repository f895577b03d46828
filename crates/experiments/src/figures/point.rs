//! Measured points, and the paper's values for them.

use super::drawn::Row;
use super::scheme::{Edition, Scheme};
use crate::lab::Ran;
use crate::phase::Hosts;

/// A point of a curve.
#[derive(Clone, Debug)]
pub struct Point {
    /// The panel it is shown in.
    pub panel: String,
    /// Its curve.
    pub curve: String,
    /// Its place on the horizontal axis.
    pub x: String,
    /// The measured values.
    pub measured: Measured,
}

/// The values measured at one point.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    pub(crate) mops: f64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) churn: f64,
    pub(crate) churn_us: f64,
    pub(crate) retries: f64,
    pub(crate) invalidated_lines: f64,
    pub(crate) cleaned_lines: f64,
    pub(crate) partition_reads: f64,
    pub(crate) copy_reads: f64,
    pub(crate) scr_misses: f64,
    pub(crate) back_invalidations: f64,
    pub(crate) lnr_misses: f64,
    pub(crate) local_misses: f64,
    pub(crate) link_bytes: f64,
    pub(crate) queueing_ns: f64,
    /// Bytes of all memory, at full scale.
    pub(crate) memory_gb: f64,
    pub(crate) operations: f64,
    pub(crate) warm_up: f64,
}

/// Something that was measured, by name.
#[derive(Clone, Copy)]
pub struct Measure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) of: fn(&Measured) -> f64,
}

macro_rules! measures {
    ($($constant:ident $field:ident $name:literal $unit:literal,)*) => {
        $(pub(crate) const $constant: Measure =
            Measure { name: $name, unit: $unit, of: |measured| measured.$field };)*

        /// All of them, as columns of a table.
        pub(crate) const COLUMNS: &[(&str, Measure)] =
            &[$((stringify!($field), $constant)),*];
    };
}

measures! {
    THROUGHPUT mops "throughput" "Mops/s",
    LATENCY mean_us "mean latency" "µs",
    MEDIAN p50_us "median latency" "µs",
    P99 p99_us "99th percentile" "µs",
    CHURN churn "churn" "per operation",
    CHURN_COST churn_us "cost of churn" "µs",
    RETRIES retries "reads begun again" "per operation",
    INVALIDATED invalidated_lines "lines invalidated" "per operation",
    CLEANED cleaned_lines "lines cleaned" "per operation",
    PARTITION_READS partition_reads "reads of the host's own objects" "per operation",
    COPY_READS copy_reads "reads of copies" "per operation",
    SCR_MISSES scr_misses "SCR misses" "per operation",
    BACK_INVALIDATIONS back_invalidations "back-invalidations" "per operation",
    LNR_MISSES lnr_misses "LNR misses" "per operation",
    LOCAL_MISSES local_misses "misses in local memory" "per operation",
    LINK_BYTES link_bytes "bytes over links" "per operation",
    QUEUEING queueing_ns "waiting for bandwidth" "ns per operation",
    MEMORY memory_gb "memory" "GB",
    OPERATIONS operations "operations measured" "",
    WARM_UP warm_up "operations before" "",
}

impl Measured {
    /// The values of a phase.
    pub(crate) fn of(ran: &Ran, warm_up: u64, memory_gb: f64) -> anyhow::Result<Self> {
        let hosts = Hosts(&ran.hosts);
        let latencies = hosts.latencies()?;
        let operations = hosts.operations() as f64;
        let per_op = |count: u64| count as f64 / operations.max(1.0);
        let us = |ns: u64| ns as f64 / 1000.0;
        Ok(Self {
            mops: hosts.per_second() / 1e6,
            mean_us: latencies.mean() / 1000.0,
            p50_us: us(latencies.value_at_quantile(0.5)),
            p99_us: us(latencies.value_at_quantile(0.99)),
            churn: hosts.per_op(|stats| stats.churn),
            churn_us: hosts.churn_us().unwrap_or(0.0),
            retries: hosts.per_op(|stats| stats.retries),
            invalidated_lines: hosts.per_op(|stats| stats.invalidated_lines),
            cleaned_lines: hosts.per_op(|stats| stats.cleaned_lines),
            partition_reads: hosts.per_op(|stats| stats.partition_reads),
            copy_reads: hosts.per_op(|stats| stats.copy_reads),
            scr_misses: per_op(ran.counts.scr_misses),
            back_invalidations: per_op(ran.counts.back_invalidations),
            lnr_misses: per_op(ran.counts.lnr_misses),
            local_misses: per_op(ran.counts.local_misses),
            link_bytes: per_op(ran.counts.link_bytes),
            queueing_ns: per_op(ran.counts.queueing_ns),
            memory_gb,
            operations,
            warm_up: warm_up as f64,
        })
    }
}

/// The points of a figure, and what is compared there.
pub(crate) struct Points<'a> {
    pub(crate) figure: &'static str,
    pub(crate) points: &'a [Point],
    pub(crate) rows: Vec<Row>,
}

impl Points<'_> {
    /// The values measured of a curve at a place of a panel.
    ///
    /// # Panics
    /// If the figure has no such point.
    pub(crate) fn at(&self, panel: &str, curve: &str, x: &str) -> Measured {
        let found = self
            .points
            .iter()
            .find(|point| point.panel == panel && point.curve == curve && point.x == x);
        found.unwrap_or_else(|| panic!("{panel:?} has no {curve:?} at {x:?}")).measured
    }

    pub(crate) fn megalon(&self, panel: &str, x: &str) -> Measured {
        self.at(panel, Scheme::Megalon.name(), x)
    }

    /// How many times more operations per second MEGALON does than another scheme, once for each of
    /// its editions.
    pub(crate) fn speedup(&mut self, over: Scheme, panel: &str, x: &str, at: &str, paper: f64) {
        for &edition in over.editions() {
            let other = self.at(panel, &over.curve(edition), x);
            let quantity = match over.editions() {
                [_] => format!("megalon over {}, {at}", over.name()),
                _ => format!("megalon over {} ({}), {at}", over.name(), edition.name()),
            };
            self.about(quantity, paper, self.megalon(panel, x).mops / other.mops);
        }
    }

    /// The paper states a number.
    pub(crate) fn about(&mut self, quantity: impl Into<String>, paper: f64, ours: f64) {
        self.row(quantity.into(), Some(paper), None, ours);
    }

    /// The paper has no number, but says something of it.
    pub(crate) fn words(&mut self, quantity: impl Into<String>, says: &'static str, ours: f64) {
        self.row(quantity.into(), None, Some(says), ours);
    }

    /// The paper does not have it.
    pub(crate) fn beyond(&mut self, quantity: impl Into<String>, ours: f64) {
        self.row(quantity.into(), None, None, ours);
    }

    fn row(
        &mut self,
        quantity: String,
        paper: Option<f64>,
        paper_says: Option<&'static str>,
        ours: f64,
    ) {
        self.rows.push(Row::new(self.figure, quantity, paper, paper_says, ours));
    }

    /// Of the last `rows` rows the paper says so.
    pub(crate) fn with_words(&mut self, rows: usize, says: &'static str) {
        self.rows.iter_mut().rev().take(rows).for_each(|row| row.paper_says = Some(says));
    }
}

/// The curves of both editions of a scheme.
pub(crate) fn curves(scheme: Scheme) -> impl Iterator<Item = (Edition, String)> {
    Edition::ALL.into_iter().map(move |edition| (edition, scheme.curve(edition)))
}
