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
    /// The names of places, for reports.
    pub places: Places,
    /// The hardware's abilities and flaws.
    pub platform: Platform,
}

/// The hardware's part in the pod. The default is the platform that a pod is made
/// for: words are coherent and atomic, lines are not coherent, and write-backs and invalidates do
/// their work. All else is there for tools that have to find it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Hosts see each other's words; else each host has stale copies of them.
    pub coherent_words: bool,
    /// Hosts see each other's lines, as the processors of one machine do.
    pub coherent_lines: bool,
    /// Read-modify-writes of two hosts do not mix.
    pub atomics: bool,
    /// A store changes its own bytes alone; else it writes its neighbours back with it.
    pub narrow_stores: bool,
    /// Cleans and invalidates are complete when they return.
    pub fences: bool,
    /// One write-back in so many leaves the second half of its line behind; none, if 0.
    pub torn: u64,
    /// One write-back in so many is lost; none, if 0.
    pub lost: u64,
    /// One invalidate in so many leaves a stale line where it is; none, if 0.
    pub stuck: u64,
}

impl Default for Platform {
    fn default() -> Self {
        Self {
            coherent_words: true,
            coherent_lines: false,
            atomics: true,
            narrow_stores: true,
            fences: true,
            torn: 0,
            lost: 0,
            stuck: 0,
        }
    }
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
            platform: Platform::default(),
        }
    }
}
