//! YCSB's core workload: its parameters, the operations it consists of, and the keys and values
//! they are about; and recorded traces of [caches](cache). Nothing here knows a store, a clock or a
//! thread; callers run the operations.
//!
//! * [`Properties`] reads YCSB's workload files and `-p name=value`, [`Workload`] is what they say.
//! * [`Operations`] are the operations of one thread, about records that have numbers.
//! * [`Workload::key`] names a record; [`fill_value`] makes its value, and [`check_value`] tells
//!   whether, and as which version, it came back whole.
//!
//! # Invariants
//!
//! * What is given is used, accepted because it makes no difference, or refused with the place
//!   where it stands; nothing is guessed or silently dropped.
//! * A seed and a thread fix all of that thread's choices, to the bit and on every machine.
//!   (Records inserted while the workload runs are numbered in the order of asking, across
//!   threads.) Hosts insert records of their own.
//! * No operation reads or changes a record before its insert was acknowledged.
//!
//! # How records are chosen
//!
//! As in YCSB, `uniform`, `zipfian`, `hotspot` and `sequential` choose among the records loaded at
//! the start, and `latest` and `exponential` among all that are there, the newest being the most
//! popular. Differences:
//!
//! * `zipfian-exact` is not one of YCSB's. `zipfian` is: it draws a rank among 10^10, whatever the
//!   number of records, and takes its hash (FNV-1a) modulo that number ([`ScrambledZipfian`]).
//!   `zipfian-exact` draws ranks among the records themselves ([`Zipfian`]), and scatters them by
//!   the same hash. So the most popular record gets the share Zipf's law gives it, 1 / zeta(n), and
//!   about 37 % (1 / e) of the records are never chosen, since ranks fall on the same record.
//! * `zipfian-exact` does not choose inserted records. `zipfian`, as YCSB, makes room for twice the
//!   inserts that it expects, and draws again while a record is not there.
//! * `latest`: YCSB may recompute zeta with the count of another thread.
//! * `sequential`: YCSB's threads share one position. Here each has its own, and they start evenly
//!   spread.
//! * Scans and fields: of Zipfian length if asked for, by the same formula with the same constant.
//! * `dataintegrity` goes with fields of varying length too: lengths, like bytes, follow from the
//!   key and the version ([`ValueLengths`]).
//!
//! # Left out
//!
//! Single fields (a value is all fields as one), field lengths from a histogram's file, and
//! throttling (`target`). Some parameters only the caller can follow; a caller that cannot must
//! refuse them: scans ([`Proportions::scan`]), [`Workload::field_lengths`],
//! [`Workload::data_integrity`], [`Workload::max_execution_time`] and [`Workload::seed`].
//!
//! ```
//! use std::sync::Arc;
//! use tombolo_workloads::{
//!     Inserts, Op, Operations, Properties, Workload, check_value, fill_value,
//! };
//!
//! let mut properties = Properties::new();
//! properties.read("workloadd", Workload::stock_text('d')?)?;
//! properties.set("recordcount=5000")?;
//! properties.set("keylength=24")?;
//! let workload = Workload::from_properties(&properties)?;
//! assert_eq!(workload.value_bytes(), 1000);
//!
//! let inserts = Arc::new(Inserts::new(&workload));
//! let operations = Operations::new(&workload, 42, 0, inserts.clone())?;
//! let count = workload.operations_of_thread(0).unwrap();
//! let mut name = Vec::new();
//! for operation in operations.take(count as usize) {
//!     match operation {
//!         Op::Read { key } => {
//!             assert!(key < inserts.known());
//!             workload.key(key, &mut name);
//!             assert_eq!(name.len(), 24);
//!         }
//!         Op::Insert { key } => {
//!             let mut value = vec![0; workload.value_bytes() as usize];
//!             fill_value(key, 1, &mut value);
//!             assert_eq!(check_value(key, &value), Ok(1));
//!             inserts.acknowledge(key);
//!         }
//!         other => unreachable!("workload D has no {other:?}"),
//!     }
//! }
//!
//! let set = properties.set("recordcont=7");
//! let error = set.and_then(|()| Workload::from_properties(&properties));
//! assert_eq!(
//!     error.unwrap_err().to_string(),
//!     r#"-p: unknown property "recordcont"; the nearest known one is "recordcount""#,
//! );
//! # Ok::<(), tombolo_workloads::WorkloadError>(())
//! ```

pub mod cache;
mod check;
mod chooser;
mod error;
mod exponential;
mod from_properties;
mod inserts;
mod keys;
mod lengths;
mod operations;
mod properties;
mod random;
mod scrambled;
mod values;
mod workload;
mod zipfian;

pub use error::WorkloadError;
pub use inserts::Inserts;
pub use keys::hash;
pub use lengths::ValueLengths;
pub use operations::{Op, Operations};
pub use properties::{Origin, Properties};
pub use scrambled::ScrambledZipfian;
pub use values::{Corruption, check_value, fill_value, version_bits};
pub use workload::{
    FieldLengths, InsertOrder, MAX_KEY_BYTES, MAX_RECORDS, MAX_THETA, MAX_VALUE_BYTES, Proportions,
    RequestDistribution, ScanLengths, Workload,
};
pub use zipfian::Zipfian;
