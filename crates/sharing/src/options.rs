//! Options of a pod for objects, chosen when it is created.

use std::fmt;
use std::str::FromStr;

use crate::EvictionPolicy;

/// Records are kept in 28 bits, of whose values some mean something else: none, or where else.
const MAX_RECORDS: u64 = (1 << 28) - 520;

/// How large coherence records are (MEGALON, section 3.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordWidth {
    /// 8 bits each.
    Bits8,
    /// 16 bits each.
    Bits16,
    /// 24 bits each.
    Bits24,
    /// 32 bits each.
    #[default]
    Bits32,
    /// 32 bits while there is room, 8 bits where records are scarce, 32 for what is written often.
    Auto,
}

impl RecordWidth {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Bits8, Self::Bits16, Self::Bits24, Self::Bits32, Self::Auto];

    /// Bits of the smallest record.
    pub fn least_bits(self) -> u64 {
        match self {
            Self::Bits8 | Self::Auto => 8,
            Self::Bits16 => 16,
            Self::Bits24 => 24,
            Self::Bits32 => 32,
        }
    }

    /// Bytes that `records` records of the least width take.
    pub fn bytes_for(self, records: u64) -> u64 {
        self.least_bits() / 8 * records
    }

    /// How many records of the least width there are in so many bytes.
    pub fn records_in(self, bytes: u64) -> u64 {
        let records = bytes / 8 * 8 / (self.least_bits() / 8);
        records / self.step() * self.step()
    }

    /// Records that come together: no word is divided among two kinds.
    pub fn step(self) -> u64 {
        match self {
            Self::Bits24 => 2,
            Self::Auto => 4,
            _ => 1,
        }
    }

    /// Numbers of records are kept in 28 bits; where widths are mixed, wide ones have numbers of
    /// their own.
    pub(crate) fn most_records(self) -> u64 {
        let numbers = if self == Self::Auto { MAX_RECORDS / 5 * 4 } else { MAX_RECORDS };
        numbers / self.step() * self.step()
    }

    /// One more than the highest number of a record, where there is room for so many of the least
    /// width.
    pub fn numbers(self, records: u64) -> u64 {
        if self == Self::Auto { records + records / 4 } else { records }
    }

    pub(crate) fn encode(self) -> u64 {
        if self == Self::Auto { 0 } else { self.least_bits() }
    }

    pub(crate) fn decode(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|width| width.encode() == code)
    }
}

impl fmt::Display for RecordWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            fixed => write!(f, "{}", fixed.least_bits()),
        }
    }
}

impl FromStr for RecordWidth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = |width: &Self| width.to_string() == text;
        Self::ALL
            .into_iter()
            .find(known)
            .ok_or_else(|| format!("{text:?} is none of 8, 16, 24, 32 and auto"))
    }
}

/// The fate of an object whose writer dies, or is fenced, in the middle of changing it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TornWrites {
    /// It is lost, and reported so until it is written anew or deleted.
    #[default]
    Lost,
    /// It has its old value: each write notes first what it overwrites.
    Undo,
}

impl TornWrites {
    pub(crate) fn encode(self) -> u64 {
        (self == Self::Undo).into()
    }

    pub(crate) fn decode(code: u64) -> Option<Self> {
        [Self::Lost, Self::Undo].into_iter().find(|torn| torn.encode() == code)
    }
}

impl fmt::Display for TornWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Lost { "lost" } else { "undo" })
    }
}

impl FromStr for TornWrites {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "lost" => Ok(Self::Lost),
            "undo" => Ok(Self::Undo),
            _ => Err(format!("{text:?} is neither lost nor undo")),
        }
    }
}

/// Choices that differ from the plan; `None` leaves them to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Hosts that may be in the pod at once, up to 64. Each takes some SCR and LNR, whether it is
    /// there or not.
    pub hosts: Option<u8>,
    /// Shards of the log, a power of two up to 16.
    pub log_shards: Option<u64>,
    /// Entries of the ring of a log shard, a power of two.
    pub ring_entries: Option<u64>,
    /// Entries of each host's segment of a log shard, a power of two.
    pub segment_entries: Option<u64>,
    /// Bytes of a chunk, a power of two.
    pub chunk_bytes: Option<u64>,
    /// Coherence records, at most.
    pub records: Option<u64>,
    /// Size of a record; 32 bits unless given.
    pub record_width: Option<RecordWidth>,
    /// Bits of a record's counter, at least 3, and fewer than its width leaves: for tests.
    pub counter_bits: Option<u32>,
    /// Requests to others that a host may have under way, a power of two up to 64.
    pub mail_slots: Option<u64>,
    /// Objects that a host may have locked at once, a power of two up to 4096.
    pub writes: Option<u64>,
    /// The fate of an object whose writer dies at it.
    pub torn_writes: TornWrites,
    /// Whether objects in a host's own memory are in their slots, too, as they were last written:
    /// if the host dies, they are there.
    pub partition_backup: bool,
    /// For a page cache: latches by which pages are admitted, a power of two, and a mark per
    /// record. A pod with latches keeps no objects once all hosts have left it.
    pub latches: Option<u64>,
    /// Bytes in which a host tells the others what it has used, for eviction: a power of two; 0 if
    /// it tells nothing.
    pub use_ring_bytes: Option<u64>,
    /// Which values go when there is no room.
    pub eviction: EvictionPolicy,
}
