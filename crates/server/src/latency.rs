//! How long commands take, by command: histograms whose buckets double.
//!
//! Left out: the time that a request waits in a buffer before it is looked at, and that its reply
//! takes to a client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::commands;

/// Buckets of a histogram: up to 1 us, 2 us, 4 us and so on, to 8.4 s. What takes longer is in the
/// count alone.
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

#[derive(Default)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    count: AtomicU64,
    total_ns: AtomicU64,
}

/// The histograms of all commands, in the order of their table.
pub(crate) struct Latencies(Box<[Histogram]>);

fn bound(bucket: usize) -> Duration {
    Duration::from_micros(1 << bucket)
}

/// The first bucket whose bound is no less than `time`.
fn bucket_of(time: Duration) -> usize {
    let whole_us = time.as_nanos().div_ceil(1000).max(1) as u64;
    whole_us.next_power_of_two().trailing_zeros() as usize
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self((0..commands::count()).map(|_| Histogram::default()).collect())
    }

    /// Notes that the command with this number in the table was executed `count` times, one after
    /// the other, in `time` together.
    pub(crate) fn note(&self, command: usize, count: usize, time: Duration) {
        let (Some(histogram), Ok(each)) = (self.0.get(command), u32::try_from(count.max(1))) else {
            return;
        };
        if let Some(bucket) = histogram.buckets.get(bucket_of(time / each)) {
            bucket.fetch_add(count as u64, Ordering::Relaxed);
        }
        histogram.count.fetch_add(count as u64, Ordering::Relaxed);
        histogram.total_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The commands that were executed.
    pub(crate) fn snapshot(&self) -> Vec<CommandLatency> {
        let all = self.0.iter().enumerate();
        let executed = all.filter(|(_, histogram)| histogram.count.load(Ordering::Relaxed) > 0);
        executed.map(|(number, histogram)| histogram.latency(commands::name(number))).collect()
    }
}

impl Histogram {
    fn latency(&self, command: &'static str) -> CommandLatency {
        let mut sum = 0;
        let within = self.buckets.iter().enumerate().map(|(number, bucket)| {
            sum += bucket.load(Ordering::Relaxed);
            (bound(number), sum)
        });
        let within: Vec<_> = within.collect();
        // Others may have counted since: the count is no less than any bucket.
        let count = self.count.load(Ordering::Relaxed).max(sum);
        let total = Duration::from_nanos(self.total_ns.load(Ordering::Relaxed));
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
    fn executions_are_counted_by_command_and_time() {
        let latencies = Latencies::new();
        latencies.note(2, 32, Duration::from_micros(64));
        latencies.note(2, 1, Duration::from_secs(60));
        let found = latencies.snapshot();
        assert_eq!((found.len(), found[0].command), (1, commands::name(2)));
        assert_eq!((found[0].count, found[0].within[0].1, found[0].within[1].1), (33, 0, 32));
        assert_eq!(found[0].within.last().unwrap().1, 32);
        assert_eq!(found[0].total, Duration::from_micros(60_000_064));
    }
}
