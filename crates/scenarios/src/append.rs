//! The simplest thing to keep in a log: tags, in the order in which they came.

use std::sync::Mutex;

use tombolo_log::{Entry, PAYLOAD_BYTES, State};

/// Adds `tag` to the history, if the history has `expected` entries of this kind so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Append {
    /// The tag to add.
    pub tag: u64,
    /// How many entries the history must have.
    pub expected: Option<u64>,
}

impl Entry for Append {
    fn encode(&self) -> [u8; PAYLOAD_BYTES] {
        let mut payload = [0; PAYLOAD_BYTES];
        payload[..8].copy_from_slice(&self.tag.to_le_bytes());
        payload[8..16].copy_from_slice(&self.expected.unwrap_or(u64::MAX).to_le_bytes());
        // The last byte too, so that a torn line shows.
        payload[PAYLOAD_BYTES - 1] = self.tag as u8;
        payload
    }

    fn decode(payload: &[u8; PAYLOAD_BYTES]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*payload[at..].first_chunk()?));
        let tag = word(0)?;
        let expected = Some(word(8)?).filter(|&n| n != u64::MAX);
        (payload[PAYLOAD_BYTES - 1] == tag as u8).then_some(Self { tag, expected })
    }
}

/// All entries that took effect, with their positions.
#[derive(Default)]
pub struct History(Mutex<Vec<(u64, u64)>>);

impl History {
    /// A history that has these entries already.
    pub fn of(entries: Vec<(u64, u64)>) -> Self {
        Self(Mutex::new(entries))
    }

    /// Position and tag of each, in the order of application.
    pub fn entries(&self) -> Vec<(u64, u64)> {
        self.0.lock().unwrap().clone()
    }

    /// Whether `tag` has been added.
    pub fn knows(&self, tag: u64) -> bool {
        self.0.lock().unwrap().iter().rev().any(|&(_, known)| known == tag)
    }
}

impl State for History {
    type Entry = Append;
    type Writer = ();

    fn apply(&self, (): &mut (), position: u64, entry: &Append, _: bool) -> bool {
        let mut history = self.0.lock().unwrap();
        if entry.expected.is_some_and(|n| n != history.len() as u64) {
            return false;
        }
        history.push((position, entry.tag));
        true
    }
}

/// Replicas agree, and hold just what was acknowledged.
pub fn check_agreement(replicas: &[Vec<(u64, u64)>], mut acknowledged: Vec<u64>) {
    let first = &replicas[0];
    assert!(first.is_sorted_by(|a, b| a.0 < b.0), "positions are in order");
    assert!(replicas.iter().all(|replica| replica == first), "replicas agree");
    let mut applied: Vec<u64> = first.iter().map(|&(_, tag)| tag).collect();
    applied.sort_unstable();
    acknowledged.sort_unstable();
    assert_eq!(applied, acknowledged, "all that was acknowledged, once, and nothing else");
}
