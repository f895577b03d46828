//! Which record an operation is about.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::exponential::Exponential;
use crate::keys::hash;
use crate::random::{below, unit};
use crate::{Inserts, RequestDistribution, ScrambledZipfian, Workload, Zipfian};

/// Chooses numbers of records. `Latest` and `Exponential` choose among all that the host knows of,
/// the newest being the most popular. `Scrambled` chooses among the records this client loaded and
/// those that were inserted, the others among the records this client loaded.
#[derive(Clone, Debug)]
pub(crate) enum KeyChooser {
    Uniform { first: u64, count: u64 },
    Sequential { first: u64, count: u64, next: u64 },
    Scrambled { first: u64, zipfian: ScrambledZipfian },
    ZipfianExact { first: u64, zipfian: Zipfian },
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
            RequestDistribution::Zipfian => {
                let zipfian = ScrambledZipfian::new(with_room(workload), workload.zipfian_theta);
                Self::Scrambled { first, zipfian }
            }
            RequestDistribution::ZipfianAsPublished => {
                let zipfian = ScrambledZipfian::as_published(count, workload.zipfian_theta);
                Self::Scrambled { first, zipfian }
            }
            RequestDistribution::ZipfianExact => {
                Self::ZipfianExact { first, zipfian: zipfian(count) }
            }
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
            Self::Scrambled { first, zipfian } => loop {
                let place = *first + zipfian.item(unit(rng.next_u64()));
                if place < inserts.known() {
                    return inserts.number(place);
                }
            },
            Self::ZipfianExact { first, zipfian } => {
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
                // YCSB's ranks are one fewer than the records: the oldest is never chosen.
                let newest = inserts.known() - 1;
                zipfian.set_items(newest.max(1));
                inserts.number(newest - zipfian.rank(unit(rng.next_u64())))
            }
            Self::Exponential(exponential) => {
                let known = inserts.known();
                inserts.number(known - 1 - exponential.rank(known, unit(rng.next_u64())))
            }
        }
    }
}

/// The number of items that YCSB's Zipfian generator chooses among: the records that this client
/// loads, twice the inserts that it expects, and one, since YCSB counts up to the last inclusively.
fn with_room(workload: &Workload) -> u64 {
    let proportions = &workload.proportions;
    let insert_share = proportions.insert / proportions.sum();
    let expected = workload.operation_count.unwrap_or(0) as f64 * insert_share * 2.0;
    workload.insert_count.saturating_add(expected as u64).saturating_add(1)
}
