//! How long commands take, by command: histograms whose buckets double.
//!
//! Left out: the time that a request waits in a buffer before it is looked at, and that its reply
//! takes to a client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of a histogram: up to 1 us, 2 us, 4 us and so on, to 8.4 s. Executions that take
/// longer are in the count alone.
const BUCKETS: usize = 24;

/// How long the executions of one command took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLatency {
    /// The command's name.
    pub command: &'static str,
    /// How often it was executed.
    pub count: u64,
    /// How long all of that took together.
    pub total: Duration,
    /// A time, and how many executions took no longer, in ascending order.
    pub within: Vec<(Duration, u64)>,
}

/// How long the executions of one command took, while others count.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    count: AtomicU64,
    total_ns: AtomicU64,
}

fn bound(bucket: usize) -> Duration {
    Duration::from_micros(1 << bucket)
}

/// The first bucket whose bound is no less than `time`.
fn bucket_of(time: Duration) -> usize {
    let whole_us = time.as_nanos().div_ceil(1000).max(1) as u64;
    whole_us.next_power_of_two().trailing_zeros() as usize
}

impl Histogram {
    /// Counts `count` executions, one after the other, which took `time` together.
    pub(crate) fn note(&self, count: usize, time: Duration) {
        let each = time / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        if let Some(bucket) = self.buckets.get(bucket_of(each)) {
            bucket.fetch_add(count as u64, Ordering::Relaxed);
        }
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        self.total_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn total_ns(&self) -> u64 {
        self.total_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn reset(&self) {
        let figures = self.buckets.iter().chain([&self.count, &self.total_ns]);
        figures.for_each(|figure| figure.store(0, Ordering::Relaxed));
    }

    pub(crate) fn latency(&self, command: &'static str) -> CommandLatency {
        let mut sum = 0;
        let within = self.buckets.iter().enumerate().map(|(number, bucket)| {
            sum += bucket.load(Ordering::Relaxed);
            (bound(number), sum)
        });
        let within: Vec<_> = within.collect();
        // Others may have counted since: the count is no less than any bucket.
        let (count, total) = (self.count().max(sum), Duration::from_nanos(self.total_ns()));
        CommandLatency { command, count, total, within }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_that_it_does_not_exceed() {
        let ns = Duration::from_nanos;
        let buckets = [0, 1000, 1001, 2000, 2001, 4000].map(|time| bucket_of(ns(time)));
        assert_eq!(buckets, [0, 0, 1, 1, 2, 2]);
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(bound(bucket)), bucket);
            assert_eq!(bucket_of(bound(bucket) + ns(1)), bucket + 1);
        }
    }

    #[test]
    fn executions_are_counted_by_time() {
        let histogram = Histogram::default();
        histogram.note(32, Duration::from_micros(64));
        histogram.note(1, Duration::from_secs(60));
        let found = histogram.latency("get");
        assert_eq!((found.count, found.within[0].1, found.within[1].1), (33, 0, 32));
        assert_eq!(found.within.last().unwrap().1, 32);
        assert_eq!(found.total, Duration::from_micros(60_000_064));
        histogram.reset();
        assert_eq!((histogram.count(), histogram.total_ns()), (0, 0));
    }
}
