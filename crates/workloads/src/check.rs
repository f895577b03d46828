//! Which parameters describe a workload that can be run.

use crate::workload::{
    FieldLengths, MAX_KEY_BYTES, MAX_RECORDS, MAX_THETA, MAX_VALUE_BYTES, RequestDistribution,
    Workload,
};
use crate::{InsertOrder, WorkloadError};

impl Workload {
    /// Whether the workload can be run.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Impossible`] says what is wrong first.
    pub fn check(&self) -> Result<(), WorkloadError> {
        self.check_records()
            .and_then(|()| self.check_values())
            .and_then(|()| self.check_operations())
            .and_then(|()| self.check_keys())
            .map_err(WorkloadError::Impossible)
    }

    fn check_records(&self) -> Result<(), String> {
        let Self { record_count, insert_start, insert_count, .. } = self;
        if *record_count == 0 {
            return Err("recordcount is 0 or missing; set it to the number of records".into());
        }
        let inserted = self.operation_count.unwrap_or(0);
        if record_count.checked_add(inserted).is_none_or(|count| count > MAX_RECORDS) {
            return Err(format!(
                "recordcount={record_count} and operationcount={inserted} come to more than \
                 {MAX_RECORDS} records; lower them"
            ));
        }
        if *insert_count == 0 {
            return Err(format!(
                "insertstart={insert_start} and insertcount={insert_count} leave no record of \
                 recordcount={record_count}; lower insertstart or raise insertcount"
            ));
        }
        if insert_start.checked_add(*insert_count).is_none_or(|end| end > *record_count) {
            return Err(format!(
                "insertstart={insert_start} and insertcount={insert_count} go beyond \
                 recordcount={record_count}; raise recordcount, which counts the records of all \
                 clients"
            ));
        }
        Ok(())
    }

    fn check_values(&self) -> Result<(), String> {
        let Self { field_count, field_length_bytes, record_count, .. } = self;
        let shortest = self.min_field_length_bytes;
        if self.field_lengths != FieldLengths::Constant
            && !(1..=*field_length_bytes).contains(&shortest)
        {
            return Err(format!(
                "minfieldlength={shortest} must be at least 1 and at most \
                 fieldlength={field_length_bytes}"
            ));
        }
        let value_bytes = field_count.checked_mul(*field_length_bytes);
        if !value_bytes.is_some_and(|bytes| (1..=MAX_VALUE_BYTES).contains(&bytes)) {
            return Err(format!(
                "values of fieldcount={field_count} times fieldlength={field_length_bytes} bytes \
                 are not within 1 to {MAX_VALUE_BYTES} bytes; change either"
            ));
        }
        if record_count.checked_mul(self.value_bytes()).is_none_or(|bytes| bytes > i64::MAX as u64)
        {
            return Err(format!(
                "recordcount={record_count} values of {} bytes are more than any memory holds; \
                 lower recordcount, fieldcount or fieldlength",
                self.value_bytes()
            ));
        }
        Ok(())
    }

    fn check_operations(&self) -> Result<(), String> {
        let p = &self.proportions;
        let weights = [
            ("readproportion", p.read),
            ("updateproportion", p.update),
            ("insertproportion", p.insert),
            ("scanproportion", p.scan),
            ("readmodifywriteproportion", p.read_modify_write),
        ];
        if let Some((name, weight)) = weights.iter().find(|(_, weight)| !is_weight(*weight)) {
            return Err(format!("{name}={weight} is no proportion; set it to 0 or more"));
        }
        if !is_weight(p.sum()) || p.sum() == 0.0 {
            return Err(format!(
                "the proportions of all operations come to {}; set one of them above 0",
                p.sum()
            ));
        }
        if !(0.0..=MAX_THETA).contains(&self.zipfian_theta) {
            return Err(format!(
                "zipfianconstant={} is not within 0 to {MAX_THETA}; 0.99 is usual",
                self.zipfian_theta
            ));
        }
        if let RequestDistribution::Hotspot { data_fraction, operation_fraction } =
            self.request_distribution
            && !([data_fraction, operation_fraction].iter().all(|f| (0.0..=1.0).contains(f)))
        {
            return Err(format!(
                "hotspotdatafraction={data_fraction} and hotspotopnfraction={operation_fraction} \
                 must both be within 0 to 1"
            ));
        }
        if let RequestDistribution::Exponential { data_fraction, operation_percentile } =
            self.request_distribution
            && !(data_fraction > 0.0 && operation_percentile > 0.0 && operation_percentile < 100.0)
        {
            return Err(format!(
                "exponential.frac={data_fraction} must be above 0, and \
                 exponential.percentile={operation_percentile} between 0 and 100"
            ));
        }
        if self.min_scan_length == 0 || self.min_scan_length > self.max_scan_length {
            return Err(format!(
                "minscanlength={} must be at least 1 and at most maxscanlength={}",
                self.min_scan_length, self.max_scan_length
            ));
        }
        if self.thread_count == 0 {
            return Err("threadcount is 0; set it to 1 or more".into());
        }
        Ok(())
    }

    fn check_keys(&self) -> Result<(), String> {
        let needed = self.unpadded_key_bytes();
        if self.key_length_bytes != 0 && self.key_length_bytes < needed {
            return Err(format!(
                "keylength={} is too short: {}; raise keylength{}",
                self.key_length_bytes,
                match self.insert_order {
                    InsertOrder::Hashed =>
                        format!("keys in hashed order take up to {needed} bytes"),
                    InsertOrder::Ordered => format!("the last key takes {needed} bytes"),
                },
                match self.insert_order {
                    InsertOrder::Hashed => ", or set insertorder=ordered, whose keys are shorter",
                    InsertOrder::Ordered => "",
                },
            ));
        }
        if self.longest_key_bytes() > MAX_KEY_BYTES {
            return Err(format!(
                "zeropadding={}, keylength={} and a keyprefix of {} bytes make keys longer than \
                 {MAX_KEY_BYTES} bytes; lower them",
                self.zero_padding,
                self.key_length_bytes,
                self.key_prefix.len()
            ));
        }
        Ok(())
    }
}

fn is_weight(weight: f64) -> bool {
    weight.is_finite() && weight >= 0.0
}
