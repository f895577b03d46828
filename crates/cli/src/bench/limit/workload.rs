//! The least that the machine takes for a workload: its operations on a map and values of one
//! process.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tombolo_experiments::{Driver, Target};
use tombolo_memory::{LINE_BYTES, Lines, LnrAddr, Mapped, Memory};
use tombolo_workloads::{FieldLengths, Workload};

use super::bare::{SITE, map};
use crate::place::Place;

/// More operations tell nothing more.
const OPERATIONS: u64 = 1_000_000;

/// How many operations per second this machine does at most, with as many threads as the workload
/// has, or as there are processors: lookups and copies, and for what is written copies and cleans.
/// `None` for workloads whose values are not all of one length.
pub(crate) fn ops_per_s(workload: &Workload, seed: u64) -> Result<Option<f64>> {
    if workload.field_lengths != FieldLengths::Constant {
        return Ok(None);
    }
    let values = Values::new(workload)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let mut workload = workload.clone();
    workload.thread_count = workload.thread_count.min(cores);
    let operations = workload.operation_count.unwrap_or(OPERATIONS).min(OPERATIONS);
    workload.operation_count = Some(operations.max(u64::from(workload.thread_count)));
    let driver = Driver {
        target: &values,
        workload: &workload,
        seed,
        host: 0,
        hosts: 1,
        verify: false,
        blank: false,
        until_full: false,
        done: &AtomicU64::new(0),
        stopping: &AtomicBool::new(false),
    };
    let ran = driver.run().context("the limit cannot be measured")?;
    Ok(Some(ran.operations as f64 / ran.elapsed.as_secs_f64()))
}

/// Values that one process has for itself, in memory as a pod's.
struct Values {
    places: HashMap<Box<[u8]>, u32, FixedState>,
    memory: Mapped,
    value_bytes: usize,
    /// Bytes from one value to the next.
    step: u64,
    started: Instant,
    _place: Place,
}

impl Values {
    fn new(workload: &Workload) -> Result<Self> {
        let (records, value_bytes) = (workload.record_count, workload.value_bytes());
        let step = value_bytes.next_multiple_of(LINE_BYTES);
        let (memory, place) = map(records * step)?;
        let mut places = HashMap::with_capacity_and_hasher(records as usize, FixedState::default());
        let (mut key, value) = (Vec::new(), vec![7; value_bytes as usize]);
        for number in 0..records {
            workload.key(number, &mut key);
            places.insert(key.clone().into_boxed_slice(), u32::try_from(number)?);
            memory.write(LnrAddr::new(number * step), &value);
        }
        let (value_bytes, started) = (value_bytes as usize, Instant::now());
        Ok(Self { places, memory, value_bytes, step, started, _place: place })
    }

    /// Where the value of a key is; new keys share the first place.
    fn place(&self, key: &[u8]) -> LnrAddr {
        LnrAddr::new(u64::from(self.places.get(key).copied().unwrap_or(0)) * self.step)
    }

    fn store(&self, at: LnrAddr, bytes: &[u8]) {
        self.memory.write(at, bytes);
        self.memory.clean(SITE, Lines::covering(at, bytes.len() as u64));
    }
}

impl Target for Values {
    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.resize(self.value_bytes, 0);
        self.memory.read(self.place(key), value);
        Ok(true)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store(self.place(key), value);
        Ok(())
    }

    fn put_part(&self, key: &[u8], offset: u64, bytes: &[u8]) -> Result<bool> {
        self.store(self.place(key).plus(offset), bytes);
        Ok(true)
    }
}
