//! Which workload to run, and what of it the key-value store does.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tombolo::{Entry, Error, Store, StoreError};
use tombolo_experiments::Target;
use tombolo_memory::Memory;
use tombolo_workloads::{Properties, Workload};

use crate::cli::WorkloadArgs;

impl WorkloadArgs {
    /// The workload they describe, for `threads` threads in all.
    pub(crate) fn workload(&self) -> Result<Workload> {
        let mut properties = Properties::new();
        let stock = ["a".to_owned()];
        let files = if self.files.is_empty() { &stock[..] } else { &self.files };
        for file in files {
            match stock_letter(file) {
                Some(letter) => properties.read(file, Workload::stock_text(letter)?)?,
                None => {
                    let text = std::fs::read_to_string(file).with_context(|| {
                        format!(
                            "cannot read the workload {file}; name a file, or one of a, b, c, d, f"
                        )
                    })?;
                    properties.read(file, &text)?;
                }
            }
        }
        self.properties.iter().try_for_each(|property| properties.set(property))?;
        let workload = Workload::from_properties(&properties)?;
        if workload.proportions.scan > 0.0 {
            bail!(
                "the workload scans, but objects have no order; set scanproportion=0, or run one of a, b, c, d, f"
            );
        }
        Ok(workload)
    }

    /// The workload's name in reports.
    pub(crate) fn name(&self) -> String {
        match self.files.last() {
            None => "a".to_owned(),
            Some(file) => {
                let name = std::path::Path::new(file).file_name().unwrap_or(file.as_ref());
                name.to_string_lossy().trim_start_matches("workload").to_owned()
            }
        }
    }
}

fn stock_letter(file: &str) -> Option<char> {
    let mut letters = file.chars();
    letters.next().filter(|letter| letter.is_ascii_alphabetic() && letters.next().is_none())
}

/// A key-value store that is driven.
pub(crate) struct Values<'a>(pub(crate) &'a Store);

impl Target for Values<'_> {
    fn uptime(&self) -> Duration {
        self.0.objects().memory().uptime()
    }

    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.0.get(key)?;
        let there = found.is_some();
        *value = found.unwrap_or_default().value;
        Ok(there)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(key, &Entry::lasting(value))?;
        Ok(())
    }

    fn put_part(&self, _: &[u8], _: u64, _: &[u8]) -> Result<bool> {
        Ok(false)
    }

    fn is_full(&self, error: &anyhow::Error) -> bool {
        let full = |error: &Error| matches!(error, Error::LnrFull { .. } | Error::IndexFull { .. });
        matches!(error.downcast_ref(), Some(StoreError::Objects(error)) if full(error))
    }
}
