//! Workloads are what their properties say; choices follow the laws they are named after; values
//! give away what is wrong with them.

mod distributions;
mod inserts;
mod laws;
mod operations;
mod properties;
mod values;

use std::sync::Arc;

use tombolo_workloads::{Inserts, Op, Operations, Properties, Workload, WorkloadError};

/// A stock workload with other properties.
fn workload(letter: char, assignments: &[&str]) -> Result<Workload, WorkloadError> {
    let mut properties = Properties::new();
    properties.read("stock", Workload::stock_text(letter)?)?;
    assignments.iter().try_for_each(|assignment| properties.set(assignment))?;
    Workload::from_properties(&properties)
}

/// The first operations of one thread, alone.
fn operations(workload: &Workload, seed: u64, count: usize) -> Vec<Op> {
    let inserts = Arc::new(Inserts::new(workload));
    Operations::new(workload, seed, 0, inserts).unwrap().take(count).collect()
}
