//! The outcome of a soak.

use serde::Serialize;

use super::pauses::Distribution;
use super::worker::InUse;
use crate::output::{PROBLEMS, UNDECIDED, pairs};

/// Something that must not happen.
#[derive(Debug, Serialize)]
pub(super) struct Failure {
    /// The round it was found in.
    pub(super) round: u64,
    /// The key whose history it is, if it is one's.
    pub(super) key: Option<String>,
    /// The fault, and its place.
    pub(super) what: String,
}

/// The result, over all hosts.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) seed: u64,
    pub(super) seconds: f64,
    pub(super) hosts: u8,
    pub(super) threads_per_host: u32,
    pub(super) keys: u32,
    pub(super) coherence_records: u64,
    pub(super) operations: u64,
    pub(super) operations_per_s: f64,
    pub(super) rounds: u64,
    pub(super) histories_checked: u64,
    pub(super) undecided: u64,
    pub(super) joins: u64,
    pub(super) churn: u64,
    pub(super) moves: u64,
    pub(super) without_room: u64,
    /// The fate of an object whose writer dies.
    pub(super) torn_writes: String,
    /// Whether what is in a host's own memory is in the pod, too.
    pub(super) partition_backup: bool,
    /// Hosts that were killed, and that were stopped for some time.
    pub(super) deaths: u64,
    pub(super) stops: u64,
    /// Hosts that have found out that they were fenced.
    pub(super) fenced: u64,
    /// Hosts cleared up after; objects they had locked that are whole, and that are lost: as far as
    /// hosts lived to tell.
    pub(super) recoveries: u64,
    pub(super) rescues: u64,
    pub(super) lost: u64,
    /// Operations that were told that a value is lost.
    pub(super) told_lost: u64,
    pub(super) pauses_after_deaths: Option<Distribution>,
    pub(super) pauses_after_stops: Option<Distribution>,
    /// Nothing but what objects have, once all that died were cleared up after; and the same again
    /// when the pod was opened anew, but for records, which no object has then.
    pub(super) in_use_in_the_end: Option<InUse>,
    pub(super) failures: Vec<Failure>,
}

impl Report {
    pub(super) fn text(&self) -> String {
        let mut rows = vec![
            ("hosts", format!("{} with {} threads each", self.hosts, self.threads_per_host)),
            ("keys", format!("{} with {} coherence records", self.keys, self.coherence_records)),
            ("time", format!("{:.1} s, {} rounds", self.seconds, self.rounds)),
            ("operations", self.operations.to_string()),
            ("throughput", format!("{:.0} ops/s", self.operations_per_s)),
            ("hosts that came back", self.joins.to_string()),
            ("records allocated", self.churn.to_string()),
            ("objects moved", self.moves.to_string()),
            ("writes without room", self.without_room.to_string()),
        ];
        rows.extend(self.rows_of_deaths());
        if let Some(InUse { objects, lnr_bytes, coherence_records }) = self.in_use_in_the_end {
            let left =
                format!("{objects} objects, {lnr_bytes} bytes of LNR, {coherence_records} records");
            rows.push(("in use in the end", left));
        }
        rows.push(("histories linearizable", self.histories_checked.to_string()));
        rows.push(("histories undecided", self.undecided.to_string()));
        let mut text = pairs(&rows);
        for failure in &self.failures {
            text += &format!("\nfailure in round {}: {}\n", failure.round, failure.what);
        }
        if self.failures.iter().any(|failure| failure.key.is_some()) {
            text += EXPLANATION;
        }
        text += &match (self.failures.len(), self.undecided) {
            (0, 0) => "no failures\n".to_owned(),
            (0, _) => {
                "no failures, but not all is decided; fewer threads to a key help\n".to_owned()
            }
            _ => format!("\nseed {}: it fixes the operations, not their timing\n", self.seed),
        };
        text
    }

    fn rows_of_deaths(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        if self.deaths + self.stops > 0 {
            rows.push(("hosts killed", self.deaths.to_string()));
            rows.push(("hosts stopped", format!("{}, {} of them fenced", self.stops, self.fenced)));
            rows.push(("hosts cleared up after", self.recoveries.to_string()));
            rows.push(("objects rescued", self.rescues.to_string()));
            rows.push((
                "objects lost",
                format!("{}, as {} operations were told", self.lost, self.told_lost),
            ));
        }
        let pauses = |name, found: &Option<Distribution>| Some((name, found.as_ref()?.text()));
        rows.extend(pauses("pauses of the others, deaths", &self.pauses_after_deaths));
        rows.extend(pauses("pauses of the others, stops", &self.pauses_after_stops));
        rows
    }

    /// The command's exit code.
    pub(super) fn exit_code(&self) -> u8 {
        match (self.failures.len(), self.undecided) {
            (0, 0) => 0,
            (0, _) => UNDECIDED,
            _ => PROBLEMS,
        }
    }
}

const EXPLANATION: &str = "
client 203 is thread 3 of host 2; value 7.3.15 is the 15th of that thread in the 7th process to be
started, and 7.3.15+8.0.2 one whose back half another wrote; times are ns since the round began
";
