//! YCSB workloads: their parameters, and which of them make no sense together.

use std::ops::Range;
use std::time::Duration;

use crate::{Properties, WorkloadError};

/// The most records there can be, inserted ones included: ranks are computed in `f64`.
pub const MAX_RECORDS: u64 = 1 << 53;
/// The largest value, in bytes.
pub const MAX_VALUE_BYTES: u64 = u32::MAX as u64;
/// The longest key, in bytes.
pub const MAX_KEY_BYTES: u32 = 65_535;
/// The largest Zipfian constant. At 1 the formula for ranks divides by zero, and just below it
/// loses its digits.
pub const MAX_THETA: f64 = 0.999;

/// How often each operation occurs. Weights: only their ratios matter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportions {
    /// `readproportion`, 0.95 unless given.
    pub read: f64,
    /// `updateproportion`, 0.05 unless given.
    pub update: f64,
    /// `insertproportion`, 0 unless given.
    pub insert: f64,
    /// `scanproportion`, 0 unless given. A store without order cannot serve scans: see that this is
    /// 0 before running the workload on one.
    pub scan: f64,
    /// `readmodifywriteproportion`, 0 unless given.
    pub read_modify_write: f64,
}

impl Proportions {
    /// Their sum.
    pub fn sum(&self) -> f64 {
        self.read + self.update + self.insert + self.scan + self.read_modify_write
    }
}

/// Which records are popular.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RequestDistribution {
    /// All are alike.
    Uniform,
    /// One after the other, and again from the first. Threads start evenly spread.
    Sequential,
    /// Few records, scattered over all of them, get most requests: YCSB's choice
    /// ([`ScrambledZipfian::new`](crate::ScrambledZipfian::new)).
    Zipfian,
    /// The same as MEGALON's benchmark has it
    /// ([`ScrambledZipfian::as_published`](crate::ScrambledZipfian::as_published)), for its
    /// figures. No property asks for it.
    ZipfianAsPublished,
    /// The same by Zipf's law among the records that were loaded ([`Zipfian`](crate::Zipfian)).
    ZipfianExact,
    /// The newer a record, the more requests it gets.
    Latest,
    /// A fraction of the records gets a fraction of the requests.
    Hotspot {
        /// `hotspotdatafraction`, 0.2 unless given.
        data_fraction: f64,
        /// `hotspotopnfraction`, 0.8 unless given.
        operation_fraction: f64,
    },
    /// The newer a record, the more requests it gets, falling by the same factor from each record
    /// to the next.
    Exponential {
        /// `exponential.frac`, 6 / 7 unless given: a fraction of the loaded records.
        data_fraction: f64,
        /// `exponential.percentile`, 95 unless given: as many percent of the requests go to that
        /// fraction, if older records are without end.
        operation_percentile: f64,
    },
}

/// How the lengths of fields are distributed between the shortest and the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldLengths {
    /// All have the longest.
    Constant,
    /// All lengths are alike.
    Uniform,
    /// Short ones are popular.
    Zipfian,
}

/// How keys are ordered, compared with the order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertOrder {
    /// Keys are named after a hash of their number.
    Hashed,
    /// Keys are named after their number.
    Ordered,
}

/// How the lengths of scans are distributed between the shortest and the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanLengths {
    /// All are alike.
    Uniform,
    /// Short ones are popular.
    Zipfian,
}

/// The parameters of YCSB's core workload. The fields' documentation names the properties.
///
/// [`Workload::from_properties`] and [`Workload::stock`] return only workloads that can be run.
/// After changing a field, [`Workload::check`] tells whether that still holds;
/// [`Operations::new`](crate::Operations::new) asks it too.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// `recordcount`: how many records there are after all loading. Must be given.
    pub record_count: u64,
    /// `operationcount`: how many operations to run, over all threads; `None` (0 or not given) if
    /// only time limits them.
    pub operation_count: Option<u64>,
    /// `insertstart`, 0 unless given: the number of the first record this client loads.
    pub insert_start: u64,
    /// `insertcount`: how many records this client loads; from `insertstart` to the last record
    /// unless given.
    pub insert_count: u64,
    /// `fieldcount`, 10 unless given.
    pub field_count: u64,
    /// `fieldlength`, 100 unless given: the length of the longest field, in bytes.
    pub field_length_bytes: u64,
    /// `minfieldlength`, 1 unless given: the length of the shortest field, in bytes, unless all
    /// have the same.
    pub min_field_length_bytes: u64,
    /// `fieldlengthdistribution`, constant unless given: for callers who write values of
    /// [`ValueLengths`](crate::ValueLengths). `histogram` is refused.
    pub field_lengths: FieldLengths,
    /// `readallfields`, true unless given: for callers whose values have fields.
    pub read_all_fields: bool,
    /// `writeallfields`, false unless given: for callers whose values have fields.
    pub write_all_fields: bool,
    /// `dataintegrity`, false unless given: whether the caller is to check all values it reads with
    /// [`check_value`](crate::check_value).
    pub data_integrity: bool,
    /// How often each operation occurs.
    pub proportions: Proportions,
    /// `requestdistribution`, uniform unless given.
    pub request_distribution: RequestDistribution,
    /// `zipfianconstant`, 0.99 unless given (not one of YCSB's): the skew of all Zipfian choices,
    /// 0 (none) to [`MAX_THETA`].
    pub zipfian_theta: f64,
    /// `insertorder`, hashed unless given.
    pub insert_order: InsertOrder,
    /// `zeropadding`, 1 unless given: the fewest digits in a key.
    pub zero_padding: u32,
    /// `keyprefix`, `user` unless given (not one of YCSB's): the beginning of each key.
    pub key_prefix: String,
    /// `keylength`, 0 unless given (not one of YCSB's): the fewest bytes in a key, reached by more
    /// zeros. No key is longer either, unless `zeropadding` makes it so.
    pub key_length_bytes: u32,
    /// `minscanlength`, 1 unless given: the fewest records in a scan.
    pub min_scan_length: u64,
    /// `maxscanlength`, 1000 unless given: the most records in a scan.
    pub max_scan_length: u64,
    /// `scanlengthdistribution`, uniform unless given.
    pub scan_lengths: ScanLengths,
    /// `threadcount`, 1 unless given.
    pub thread_count: u32,
    /// `maxexecutiontime`, in whole seconds; `None` (0 or not given) if only operations limit it.
    pub max_execution_time: Option<Duration>,
    /// `seed` (not one of YCSB's); `None` unless given, which leaves the choice to the caller, who
    /// passes a seed to [`Operations::new`](crate::Operations::new) in any case.
    pub seed: Option<u64>,
}

impl Workload {
    /// One of YCSB's six stock workloads, `'a'` to `'f'` in either case: 1000 records, 1000
    /// operations.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::NoSuchStock`] for every other letter.
    pub fn stock(letter: char) -> Result<Self, WorkloadError> {
        let mut properties = Properties::new();
        properties.read(&format!("workload{letter}"), Self::stock_text(letter)?)?;
        Self::from_properties(&properties)
    }

    /// The property file of a stock workload, for those who want to override parts of it.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::NoSuchStock`] if the letter is none of `'a'` to `'f'`, in either case.
    pub fn stock_text(letter: char) -> Result<&'static str, WorkloadError> {
        Ok(match letter.to_ascii_lowercase() {
            'a' => include_str!("../../../workloads/workloada"),
            'b' => include_str!("../../../workloads/workloadb"),
            'c' => include_str!("../../../workloads/workloadc"),
            'd' => include_str!("../../../workloads/workloadd"),
            'e' => include_str!("../../../workloads/workloade"),
            'f' => include_str!("../../../workloads/workloadf"),
            _ => return Err(WorkloadError::NoSuchStock(letter)),
        })
    }

    /// The length of the longest value, in bytes: all fields together. All values have it unless
    /// `field_lengths` vary.
    pub fn value_bytes(&self) -> u64 {
        self.field_count.saturating_mul(self.field_length_bytes)
    }

    /// The numbers of the records this client loads.
    pub fn records(&self) -> Range<u64> {
        self.insert_start..self.insert_start + self.insert_count
    }

    /// The numbers of the records that `thread` loads, of `thread_count` threads.
    ///
    /// # Panics
    ///
    /// If there is no such thread.
    pub fn records_of_thread(&self, thread: u32) -> Range<u64> {
        let share = self.share_of_thread(self.insert_count, thread);
        self.insert_start + share.start..self.insert_start + share.end
    }

    /// How many operations `thread` runs, of `thread_count` threads; `None` if only time limits
    /// them.
    ///
    /// # Panics
    ///
    /// If there is no such thread.
    pub fn operations_of_thread(&self, thread: u32) -> Option<u64> {
        let share = self.share_of_thread(self.operation_count?, thread);
        Some(share.end - share.start)
    }

    fn share_of_thread(&self, total: u64, thread: u32) -> Range<u64> {
        assert!(thread < self.thread_count, "thread {thread} of {}", self.thread_count);
        let (each, over) = (total / self.thread_count as u64, total % self.thread_count as u64);
        let start = |thread: u64| thread * each + thread.min(over);
        start(thread as u64)..start(thread as u64 + 1)
    }
}
