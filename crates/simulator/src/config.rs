//! The pod that is simulated.

use tombolo_memory::Lines;

use crate::places::Places;

/// The pod to simulate.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of hosts.
    pub hosts: usize,
    /// Size of SCR in bytes.
    pub scr_bytes: u64,
    /// Size of LNR in bytes, a multiple of the line.
    pub lnr_bytes: u64,
    /// Steps after which a run counts as stuck.
    pub max_steps: u64,
    /// How far apart the hosts' wall clocks may be, in milliseconds.
    pub clock_skew_ms: u64,
    /// Hosts that the adversary may kill, and in which runs.
    pub kills: Option<Kills>,
    /// Lines whose owner no rule names: a checksum tells what became of them.
    pub contended: Vec<Lines>,
    /// What lies where, for reports.
    pub places: Places,
}

/// When hosts die.
#[derive(Clone, Debug)]
pub struct Kills {
    /// Hosts that may.
    pub hosts: Vec<usize>,
    /// One run in so many.
    pub one_in: u64,
    /// Which of them do.
    pub deaths: Deaths,
}

/// Which hosts die in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deaths {
    /// One of them.
    One,
    /// All of them at once.
    Together,
    /// All of them, one after the other as they are listed. A host that is listed twice dies again,
    /// if it is there again.
    InTurn,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hosts: 2,
            scr_bytes: 64 << 10,
            lnr_bytes: 256 << 10,
            max_steps: 2_000_000,
            clock_skew_ms: 50,
            kills: None,
            contended: Vec::new(),
            places: Places::default(),
        }
    }
}
