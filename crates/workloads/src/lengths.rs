//! How long values are.

use crate::random::{GOLDEN, SplitMix, below, mix, unit};
use crate::{FieldLengths, Workload, Zipfian};

/// The lengths of a workload's values. They depend on the key and the version alone, so that a
/// reader can tell them as well as the writer.
#[derive(Clone, Debug)]
pub struct ValueLengths {
    field_count: u64,
    field: FieldLength,
}

#[derive(Clone, Debug)]
enum FieldLength {
    Constant { length_bytes: u64 },
    Uniform { min_bytes: u64, lengths: u64 },
    Zipfian { min_bytes: u64, ranks: Zipfian },
}

impl ValueLengths {
    /// The lengths of `workload`'s values.
    ///
    /// # Panics
    ///
    /// If [`Workload::check`] would find something wrong with its lengths.
    pub fn new(workload: &Workload) -> Self {
        let min_bytes = workload.min_field_length_bytes;
        let lengths = || workload.field_length_bytes - min_bytes + 1;
        let field = match workload.field_lengths {
            FieldLengths::Constant => {
                FieldLength::Constant { length_bytes: workload.field_length_bytes }
            }
            FieldLengths::Uniform => FieldLength::Uniform { min_bytes, lengths: lengths() },
            FieldLengths::Zipfian => FieldLength::Zipfian {
                min_bytes,
                ranks: Zipfian::new(lengths(), workload.zipfian_theta),
            },
        };
        Self { field_count: workload.field_count, field }
    }

    /// The length of `version` of record `key_number`, in bytes: the sum of its fields' lengths.
    pub fn of(&self, key_number: u64, version: u64) -> u64 {
        let mut words = SplitMix { state: mix(key_number) ^ version, step: GOLDEN };
        let mut sum = |draw: &dyn Fn(u64) -> u64| {
            (0..self.field_count).map(|_| draw(words.next())).sum::<u64>()
        };
        match &self.field {
            FieldLength::Constant { length_bytes } => self.field_count * length_bytes,
            FieldLength::Uniform { min_bytes, lengths } => {
                sum(&|word| min_bytes + below(word, *lengths))
            }
            FieldLength::Zipfian { min_bytes, ranks } => {
                sum(&|word| min_bytes + ranks.rank(unit(word)))
            }
        }
    }
}
