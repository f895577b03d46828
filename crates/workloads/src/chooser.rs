//! Which record an operation is about.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::exponential::Exponential;
use crate::keys::hash;
use crate::random::{below, unit};
use crate::{Inserts, RequestDistribution, Workload, Zipfian};

/// Chooses numbers of records. `Latest` and `Exponential` choose among all that the host knows of,
/// the newest being the most popular, the others among the records this client loaded.
#[derive(Clone, Debug)]
pub(crate) enum KeyChooser {
    Uniform { first: u64, count: u64 },
    Sequential { first: u64, count: u64, next: u64 },
    Zipfian { first: u64, zipfian: Zipfian },
    Hotspot { first: u64, hot: u64, cold: u64, operation_fraction: f64 },
    Latest(Zipfian),
    Exponential(Exponential),
}

impl KeyChooser {
    pub(crate) fn new(workload: &Workload, thread: u32) -> Self {
        let (first, count) = (workload.insert_start, workload.insert_count);
        let zipfian = |items| Zipfian::new(items, workload.zipfian_theta);
        match workload.request_distribution {
            RequestDistribution::Uniform => Self::Uniform { first, count },
            RequestDistribution::Sequential => {
                let start = u128::from(count) * u128::from(thread);
                let next = (start / u128::from(workload.thread_count)) as u64 % count;
                Self::Sequential { first, count, next }
            }
            RequestDistribution::Zipfian => Self::Zipfian { first, zipfian: zipfian(count) },
            RequestDistribution::Hotspot { data_fraction, operation_fraction } => {
                let hot = ((count as f64 * data_fraction) as u64).min(count);
                Self::Hotspot { first, hot, cold: count - hot, operation_fraction }
            }
            RequestDistribution::Latest => Self::Latest(zipfian(workload.record_count)),
            RequestDistribution::Exponential { data_fraction, operation_percentile } => {
                let range = workload.record_count as f64 * data_fraction;
                Self::Exponential(Exponential::new(operation_percentile, range))
            }
        }
    }

    pub(crate) fn choose(&mut self, rng: &mut ChaCha8Rng, inserts: &Inserts) -> u64 {
        match self {
            Self::Uniform { first, count } => *first + below(rng.next_u64(), *count),
            Self::Sequential { first, count, next } => {
                let place = *next;
                *next = (place + 1) % *count;
                *first + place
            }
            Self::Zipfian { first, zipfian } => {
                *first + hash(zipfian.rank(unit(rng.next_u64()))) % zipfian.items()
            }
            Self::Hotspot { first, hot, cold, operation_fraction } => {
                let wants_hot = unit(rng.next_u64()) < *operation_fraction;
                if *cold == 0 || (wants_hot && *hot > 0) {
                    *first + below(rng.next_u64(), *hot)
                } else {
                    *first + *hot + below(rng.next_u64(), *cold)
                }
            }
            Self::Latest(zipfian) => {
                let known = inserts.known();
                zipfian.set_items(known);
                inserts.number(known - 1 - zipfian.rank(unit(rng.next_u64())))
            }
            Self::Exponential(exponential) => {
                let known = inserts.known();
                inserts.number(known - 1 - exponential.rank(known, unit(rng.next_u64())))
            }
        }
    }
}
