//! How long clients of living hosts went without an operation that ended, after something had
//! happened to another host.

use std::collections::HashMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::record::Record;

const NS_PER_US: u64 = 1_000;
const US_PER_MS: f64 = 1e3;

/// Events, and the pauses that followed.
#[derive(Default)]
pub(super) struct Pauses(Vec<Event>);

struct Event {
    at: u64,
    /// The longest pause of each client between this event and the next, in nanoseconds.
    longest: HashMap<u32, u64>,
}

/// Of each event and each client of a living host, the longest pause before the next event.
#[derive(Debug, Serialize)]
pub(super) struct Distribution {
    pub(super) samples: u64,
    pub(super) median_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

impl Pauses {
    /// Something happened to a host at this time, not before anything that is known.
    pub(super) fn event(&mut self, at: u64) {
        self.0.push(Event { at, longest: HashMap::new() });
    }

    pub(super) fn events(&self) -> u64 {
        self.0.len() as u64
    }

    /// The operations of clients, one after the other, in the order of time for each.
    pub(super) fn add(&mut self, records: &[Record]) {
        let mut ended: HashMap<u32, u64> = HashMap::new();
        for record in records {
            let until = record.responded_at;
            let since = ended.insert(record.client, until).unwrap_or(record.invoked_at);
            // The last event before, and those in between.
            let first = self.0.partition_point(|event| event.at <= since).saturating_sub(1);
            for event in self.0[first..].iter_mut().take_while(|event| event.at <= until) {
                let longest = event.longest.entry(record.client).or_default();
                *longest = (*longest).max(until - since.max(event.at));
            }
        }
    }

    /// `None` if nothing has happened.
    pub(super) fn distribution(&self) -> Option<Distribution> {
        if self.0.is_empty() {
            return None;
        }
        let mut histogram =
            Histogram::<u64>::new(3).expect("three digits are within what a histogram can do");
        for pause in self.0.iter().flat_map(|event| event.longest.values()) {
            histogram.record(pause / NS_PER_US).expect("a histogram grows as it has to");
        }
        let ms = |us: u64| us as f64 / US_PER_MS;
        Some(Distribution {
            samples: histogram.len(),
            median_ms: ms(histogram.value_at_quantile(0.5)),
            p99_ms: ms(histogram.value_at_quantile(0.99)),
            max_ms: ms(histogram.max()),
        })
    }
}

impl Distribution {
    pub(super) fn text(&self) -> String {
        let Self { median_ms, p99_ms, max_ms, .. } = self;
        format!("median {median_ms:.1} ms, p99 {p99_ms:.1} ms, at most {max_ms:.1} ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::clock::Times;
    use crate::soak::record::Did;

    const MS: u64 = 1_000_000;

    fn record(client: u32, invoked_at: u64, responded_at: u64) -> Record {
        let times = Times { invoked_at: invoked_at * MS, responded_at: responded_at * MS };
        Record::new(client, 0, times, Did::Delete(false))
    }

    #[test]
    fn a_pause_begins_with_the_event_or_the_last_operation_before() {
        let mut pauses = Pauses::default();
        assert!(pauses.distribution().is_none());
        pauses.event(10 * MS);
        pauses.event(100 * MS);
        // 30 ms and 50 ms after the first event, 20 ms after the second.
        pauses.add(&[record(1, 0, 5), record(1, 6, 40), record(1, 40, 90), record(1, 90, 120)]);
        // 90 ms after the first, and 200 ms after the second.
        pauses.add(&[record(2, 4, 300)]);
        let found = pauses.distribution().unwrap();
        assert_eq!((pauses.events(), found.samples), (2, 4));
        let near = |ms: f64, expected: f64| (ms / expected - 1.0).abs() < 0.01;
        assert!(near(found.median_ms, 50.0), "{found:?}");
        assert!(near(found.max_ms, 290.0) && near(found.p99_ms, 290.0), "{found:?}");
    }

    #[test]
    fn what_ended_before_is_no_pause() {
        let mut pauses = Pauses::default();
        pauses.event(10 * MS);
        pauses.add(&[record(1, 0, 9)]);
        assert_eq!(pauses.distribution().unwrap().samples, 0);
    }
}
