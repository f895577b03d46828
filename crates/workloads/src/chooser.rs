//! Which record an operation is about.

use rand_chacha::ChaCha8Rng;

use crate::keys::hash;
use crate::random::{below, unit};
use crate::{Inserts, RequestDistribution, Workload, Zipfian};

/// Chooses numbers of records. All but `Latest` choose among the records this client loaded.
#[derive(Clone, Debug)]
pub(crate) enum KeyChooser {
    Uniform { first: u64, count: u64 },
    Zipfian { first: u64, zipfian: Zipfian },
    Latest(Zipfian),
    Hotspot { first: u64, hot: u64, cold: u64, operation_fraction: f64 },
}

impl KeyChooser {
    pub(crate) fn new(workload: &Workload) -> Self {
        let (first, count) = (workload.insert_start, workload.insert_count);
        let zipfian = |items| Zipfian::new(items, workload.zipfian_theta);
        match workload.request_distribution {
            RequestDistribution::Uniform => Self::Uniform { first, count },
            RequestDistribution::Zipfian => Self::Zipfian { first, zipfian: zipfian(count) },
            RequestDistribution::Latest => Self::Latest(zipfian(workload.record_count)),
            RequestDistribution::Hotspot { data_fraction, operation_fraction } => {
                let hot = ((count as f64 * data_fraction) as u64).min(count);
                Self::Hotspot { first, hot, cold: count - hot, operation_fraction }
            }
        }
    }

    pub(crate) fn choose(&mut self, rng: &mut ChaCha8Rng, inserts: &Inserts) -> u64 {
        match self {
            Self::Uniform { first, count } => *first + below(rng, *count),
            Self::Zipfian { first, zipfian } => {
                *first + hash(zipfian.rank(unit(rng))) % zipfian.items()
            }
            Self::Latest(zipfian) => {
                let known = inserts.known();
                zipfian.set_items(known);
                inserts.number(known - 1 - zipfian.rank(unit(rng)))
            }
            Self::Hotspot { first, hot, cold, operation_fraction } => {
                let wants_hot = unit(rng) < *operation_fraction;
                if *cold == 0 || (wants_hot && *hot > 0) {
                    *first + below(rng, *hot)
                } else {
                    *first + *hot + below(rng, *cold)
                }
            }
        }
    }
}
