//! What a soak came to.

use serde::Serialize;

use crate::output::{PROBLEMS, UNDECIDED, pairs};

/// Something that must not happen.
#[derive(Debug, Serialize)]
pub(super) struct Failure {
    /// The round it was found in.
    pub(super) round: u64,
    /// The key whose history it is, if it is one's.
    pub(super) key: Option<String>,
    /// What was found, and where.
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
    pub(super) failures: Vec<Failure>,
}

impl Report {
    pub(super) fn text(&self) -> String {
        let mut text = pairs(&[
            ("hosts", format!("{} with {} threads each", self.hosts, self.threads_per_host)),
            ("keys", format!("{} with {} coherence records", self.keys, self.coherence_records)),
            ("time", format!("{:.1} s, {} rounds", self.seconds, self.rounds)),
            ("operations", self.operations.to_string()),
            ("throughput", format!("{:.0} ops/s", self.operations_per_s)),
            ("hosts that came back", self.joins.to_string()),
            ("records allocated", self.churn.to_string()),
            ("objects moved", self.moves.to_string()),
            ("writes without room", self.without_room.to_string()),
            ("histories linearizable", self.histories_checked.to_string()),
            ("histories undecided", self.undecided.to_string()),
        ]);
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

    /// What the command ends with.
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
