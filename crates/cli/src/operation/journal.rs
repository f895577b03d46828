//! The log: a line for each event on the standard error, as text or as JSON. The last events are
//! kept, for the page.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event as Traced, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Events that are kept.
const KEPT: usize = 200;

/// The message of `fuser` about late answers. The kernel gives a request up when the program that
/// waits for it is interrupted, or when it unmounts the file system; `ENOENT` is how it says so.
const LATE_ANSWER: &str = "Failed to send FUSE reply: No such file or directory";

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line for people: time, level, what happened, and its fields.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Event {
    /// Counts from 1.
    pub(crate) number: u64,
    /// In milliseconds since the Unix epoch.
    pub(crate) time_ms: u64,
    pub(crate) level: &'static str,
    pub(crate) event: String,
    pub(crate) fields: Map<String, Value>,
}

/// The last events.
#[derive(Default)]
pub(crate) struct Journal(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    events: VecDeque<Event>,
    number: u64,
}

impl Journal {
    /// Writes and keeps events of this process from now on, from `level` on.
    pub(crate) fn start(level: LevelFilter, format: LogFormat) -> Arc<Self> {
        let journal = Arc::new(Self::default());
        let lines = Lines { journal: journal.clone(), format }.with_filter(level);
        // Only the first one in a process has an effect.
        let _ = tracing_subscriber::registry().with(lines).try_init();
        journal
    }

    /// The events that are kept and come after the one with this number.
    pub(crate) fn after(&self, number: u64) -> Vec<Event> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.events.iter().filter(|event| event.number > number).cloned().collect()
    }

    fn keep(&self, mut event: Event) -> Event {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.number += 1;
        event.number = kept.number;
        kept.events.push_back(event.clone());
        if kept.events.len() > KEPT {
            kept.events.pop_front();
        }
        event
    }
}

/// Writes each event as a line.
struct Lines {
    journal: Arc<Journal>,
    format: LogFormat,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_event(&self, traced: &Traced<'_>, _: Context<'_, S>) {
        let mut found = Found::default();
        traced.record(&mut found);
        if found.message.starts_with(LATE_ANSWER) {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let event = self.journal.keep(Event {
            number: 0,
            time_ms: since.as_millis() as u64,
            level: traced.metadata().level().as_str(),
            event: found.message,
            fields: found.fields,
        });
        let line = match self.format {
            LogFormat::Text => event.text(),
            LogFormat::Json => event.json(),
        };
        // Nobody is left to tell if nobody takes it.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
}

impl Event {
    fn text(&self) -> String {
        let mut text = format!("{} {:5} {}", rfc3339(self.time_ms), self.level, self.event);
        for (name, value) in &self.fields {
            let _ = write!(text, " {name}={value}");
        }
        text
    }

    fn json(&self) -> String {
        let mut line = Map::new();
        line.insert("time".to_owned(), json!(rfc3339(self.time_ms)));
        line.insert("level".to_owned(), json!(self.level.to_ascii_lowercase()));
        line.insert("event".to_owned(), json!(self.event));
        line.extend(self.fields.clone());
        Value::Object(line).to_string()
    }
}

/// The message and the fields of an event, as its visitor has found them.
#[derive(Default)]
struct Found {
    message: String,
    fields: Map<String, Value>,
}

impl Found {
    fn add(&mut self, field: &Field, value: Value) {
        // Libraries that use the crate `log` have the place in the source told with each event.
        if field.name().starts_with("log.") {
            return;
        }
        self.fields.insert(field.name().to_owned(), value);
    }
}

impl Visit for Found {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.add(field, value.into());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// A time in milliseconds since the Unix epoch, as RFC 3339 has it.
fn rfc3339(time_ms: u64) -> String {
    let (days, ms) = (time_ms / 86_400_000, time_ms % 86_400_000);
    // Years begin in March, so that a leap day is the last of one. 400 years have 146,097 days.
    let since_0000 = days + 719_468;
    let (era, day) = (since_0000 / 146_097, since_0000 % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (year, month) =
        (era * 400 + year + u64::from(month > 9), if month > 9 { month - 9 } else { month + 3 });
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!(
        "{year:04}-{month:02}-{of_month:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        ms % 1000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(rfc3339(951_868_800_000), "2000-03-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_795_910_399_999), "2026-11-28T23:59:59.999Z");
        assert_eq!(rfc3339(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn events_are_lines_for_people_and_for_programs() {
        let fields =
            Map::from_iter([("host".to_owned(), json!(2)), ("by".to_owned(), json!("x y"))]);
        let event = |number| Event {
            number,
            time_ms: 0,
            level: "WARN",
            event: "host fenced".to_owned(),
            fields: fields.clone(),
        };
        let text = event(1).text();
        assert_eq!(text, "1970-01-01T00:00:00.000Z WARN  host fenced by=\"x y\" host=2");
        let line: Value = serde_json::from_str(&event(1).json()).unwrap();
        assert_eq!((&line["host"], &line["level"]), (&json!(2), &json!("warn")));
    }

    #[test]
    fn the_last_events_are_kept() {
        let journal = Journal::default();
        let (time_ms, level, event) = (0, "INFO", String::new());
        let event = Event { number: 0, time_ms, level, event, fields: Map::new() };
        (0..KEPT + 5).for_each(|_| _ = journal.keep(event.clone()));
        assert_eq!(journal.after(0).len(), KEPT);
        let last: Vec<u64> = journal.after(KEPT as u64 + 3).iter().map(|e| e.number).collect();
        assert_eq!(last, [KEPT as u64 + 4, KEPT as u64 + 5]);
    }
}
