//! A workload from YCSB's properties.

use std::time::Duration;

use crate::properties::Property;
use crate::{
    FieldLengths, InsertOrder, Properties, Proportions, RequestDistribution, ScanLengths, Workload,
    WorkloadError,
};

/// Properties of YCSB that say nothing about the operations: of its databases, its reports, its
/// way of calling, and of distributions that are not read. Any value will do.
const IGNORED: [&str; 15] = [
    "columnfamily",
    "core_workload_insertion_retry_interval",
    "db",
    "exporter",
    "exportfile",
    "fieldlengthhistogram",
    "fieldnameprefix",
    "label",
    "latencytrackederrors",
    "measurementtype",
    "readallfieldsbyname",
    "reportlatencyforeacherror",
    "status",
    "status.interval",
    "table",
];

const WHOLE: &str = "a whole number from 0 to 2^64 - 1";

/// Beginnings of further such names.
const IGNORED_FAMILIES: [&str; 5] =
    ["hdrhistogram.", "histogram.", "htrace.", "measurement.", "timeseries."];

impl Workload {
    /// The workload that `properties` describe.
    ///
    /// The fields of [`Workload`] name the properties that are used. Some others of YCSB's are
    /// accepted, without effect:
    /// * with any value: `columnfamily`, `core_workload_insertion_retry_interval`, `db`,
    ///   `exporter`, `exportfile`, `fieldlengthhistogram`, `fieldnameprefix`, `label`,
    ///   `latencytrackederrors`, `measurementtype`, `readallfieldsbyname`,
    ///   `reportlatencyforeacherror`, `status`, `status.interval`, `table`, and what begins with
    ///   `hdrhistogram.`, `histogram.`, `htrace.`, `measurement.` or `timeseries.`;
    /// * with the one value that describes what is done anyway: a `workload` that is a
    ///   `CoreWorkload` of any package, `dotransactions=true`, `target=0` and
    ///   `core_workload_insertion_retry_limit=0`.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Value`] for a value that cannot be used, [`WorkloadError::Unknown`] for any
    /// other property, and [`WorkloadError::Impossible`] if [`Workload::check`] finds something, in
    /// this order.
    pub fn from_properties(properties: &Properties) -> Result<Self, WorkloadError> {
        let mut reader = Reader { properties, known: Vec::new() };
        let workload = read(&mut reader)?;
        accept(&mut reader)?;
        reader.refuse_unknown()?;
        workload.check()?;
        Ok(workload)
    }
}

fn read(reader: &mut Reader<'_>) -> Result<Workload, WorkloadError> {
    let record_count = reader.whole("recordcount", 0)?;
    let insert_start = reader.whole("insertstart", 0)?;
    let max_execution_time_s = reader.whole("maxexecutiontime", 0)?;
    let operation_count = reader.whole("operationcount", 0)?;
    Ok(Workload {
        record_count,
        operation_count: (operation_count > 0).then_some(operation_count),
        insert_start,
        insert_count: reader.whole("insertcount", record_count.saturating_sub(insert_start))?,
        field_count: reader.whole("fieldcount", 10)?,
        field_length_bytes: reader.whole("fieldlength", 100)?,
        min_field_length_bytes: reader.whole("minfieldlength", 1)?,
        field_lengths: field_lengths(reader)?,
        read_all_fields: reader.flag("readallfields", true)?,
        write_all_fields: reader.flag("writeallfields", false)?,
        data_integrity: reader.flag("dataintegrity", false)?,
        proportions: proportions(reader)?,
        request_distribution: request_distribution(reader)?,
        zipfian_theta: reader.number("zipfianconstant", 0.99)?,
        insert_order: insert_order(reader)?,
        zero_padding: reader.small("zeropadding", 1)?,
        key_prefix: reader
            .parsed("keyprefix", "user".to_owned(), "any text", |value| Some(value.to_owned()))?,
        key_length_bytes: reader.small("keylength", 0)?,
        min_scan_length: reader.whole("minscanlength", 1)?,
        max_scan_length: reader.whole("maxscanlength", 1000)?,
        scan_lengths: scan_lengths(reader)?,
        thread_count: reader.small("threadcount", 1)?,
        max_execution_time: (max_execution_time_s > 0)
            .then(|| Duration::from_secs(max_execution_time_s)),
        seed: reader.parsed("seed", None, WHOLE, |value| value.parse().ok().map(Some))?,
    })
}

fn proportions(reader: &mut Reader<'_>) -> Result<Proportions, WorkloadError> {
    Ok(Proportions {
        read: reader.number("readproportion", 0.95)?,
        update: reader.number("updateproportion", 0.05)?,
        insert: reader.number("insertproportion", 0.0)?,
        scan: reader.number("scanproportion", 0.0)?,
        read_modify_write: reader.number("readmodifywriteproportion", 0.0)?,
    })
}

fn request_distribution(reader: &mut Reader<'_>) -> Result<RequestDistribution, WorkloadError> {
    let hotspot = RequestDistribution::Hotspot {
        data_fraction: reader.number("hotspotdatafraction", 0.2)?,
        operation_fraction: reader.number("hotspotopnfraction", 0.8)?,
    };
    let exponential = RequestDistribution::Exponential {
        data_fraction: reader.number("exponential.frac", 6.0 / 7.0)?,
        operation_percentile: reader.number("exponential.percentile", 95.0)?,
    };
    reader.choice(
        "requestdistribution",
        "uniform, zipfian, zipfian-exact, latest, hotspot, sequential or exponential",
        &[
            ("uniform", RequestDistribution::Uniform),
            ("zipfian", RequestDistribution::Zipfian),
            ("zipfian-exact", RequestDistribution::ZipfianExact),
            ("latest", RequestDistribution::Latest),
            ("hotspot", hotspot),
            ("sequential", RequestDistribution::Sequential),
            ("exponential", exponential),
        ],
    )
}

fn field_lengths(reader: &mut Reader<'_>) -> Result<FieldLengths, WorkloadError> {
    reader.choice(
        "fieldlengthdistribution",
        "constant, uniform or zipfian (histograms are not read)",
        &[
            ("constant", FieldLengths::Constant),
            ("uniform", FieldLengths::Uniform),
            ("zipfian", FieldLengths::Zipfian),
        ],
    )
}

fn scan_lengths(reader: &mut Reader<'_>) -> Result<ScanLengths, WorkloadError> {
    reader.choice(
        "scanlengthdistribution",
        "uniform or zipfian",
        &[("uniform", ScanLengths::Uniform), ("zipfian", ScanLengths::Zipfian)],
    )
}

fn insert_order(reader: &mut Reader<'_>) -> Result<InsertOrder, WorkloadError> {
    reader.choice(
        "insertorder",
        "hashed or ordered",
        &[("hashed", InsertOrder::Hashed), ("ordered", InsertOrder::Ordered)],
    )
}

/// Accepts what has no effect here, unless it asks for one.
fn accept(reader: &mut Reader<'_>) -> Result<(), WorkloadError> {
    reader.known.extend(IGNORED);
    reader.only("workload", "YCSB's CoreWorkload", |value| {
        value.rsplit('.').next() == Some("CoreWorkload")
    })?;
    reader.only("dotransactions", "true", |value| value.eq_ignore_ascii_case("true"))?;
    reader.only("target", "0 (as fast as possible)", |value| value == "0")?;
    reader.only("core_workload_insertion_retry_limit", "0 (never)", |value| value == "0")
}

/// Looks properties up, and remembers their names: these are the known ones.
struct Reader<'a> {
    properties: &'a Properties,
    known: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    fn parsed<T>(
        &mut self,
        name: &'static str,
        default: T,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, WorkloadError> {
        self.known.push(name);
        let Some(Property { value, origin, .. }) = self.properties.find(name) else {
            return Ok(default);
        };
        parse(value).ok_or_else(|| WorkloadError::Value {
            origin: origin.clone(),
            name,
            value: value.clone(),
            expected,
        })
    }

    /// One of several; the first unless given.
    fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        expected: &'static str,
        choices: &[(&str, T)],
    ) -> Result<T, WorkloadError> {
        self.parsed(name, choices[0].1, expected, |value| {
            choices.iter().find(|(choice, _)| *choice == value).map(|&(_, choice)| choice)
        })
    }

    fn whole(&mut self, name: &'static str, default: u64) -> Result<u64, WorkloadError> {
        self.parsed(name, default, WHOLE, |value| value.parse().ok())
    }

    fn small(&mut self, name: &'static str, default: u32) -> Result<u32, WorkloadError> {
        self.parsed(name, default, "a whole number from 0 to 2^32 - 1", |value| value.parse().ok())
    }

    fn number(&mut self, name: &'static str, default: f64) -> Result<f64, WorkloadError> {
        self.parsed(name, default, "a number such as 0.5", |value| {
            value.parse().ok().filter(|number: &f64| number.is_finite())
        })
    }

    fn flag(&mut self, name: &'static str, default: bool) -> Result<bool, WorkloadError> {
        self.parsed(name, default, "true or false", |value| value.to_lowercase().parse().ok())
    }

    fn only(
        &mut self,
        name: &'static str,
        expected: &'static str,
        is_harmless: impl Fn(&str) -> bool,
    ) -> Result<(), WorkloadError> {
        self.parsed(name, (), expected, |value| is_harmless(value).then_some(()))
    }

    fn refuse_unknown(&self) -> Result<(), WorkloadError> {
        let is_known = |name: &str| {
            self.known.contains(&name)
                || IGNORED_FAMILIES.iter().any(|family| name.starts_with(family))
        };
        match self.properties.iter().find(|property| !is_known(&property.name)) {
            None => Ok(()),
            Some(Property { name, origin, .. }) => Err(WorkloadError::Unknown {
                origin: origin.clone(),
                name: name.clone(),
                nearest: self.nearest(name),
            }),
        }
    }

    fn nearest(&self, name: &str) -> &'static str {
        let name = name.to_lowercase();
        let distance = |known: &&&str| strsim::damerau_levenshtein(known, &name);
        self.known.iter().min_by_key(distance).copied().unwrap_or_default()
    }
}
