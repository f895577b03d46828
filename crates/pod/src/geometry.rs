//! Where everything lies. All hosts compute the same places from the few numbers in the superblock.
//!
//! ```text
//! SCR  superblock | shared words | host table | log: applied, ring | chunk table | latches | records | marks
//! LNR  twin of the superblock | log segments | transfer windows | chunks
//! ```

use tombolo_memory::{LINE_BYTES, LnrAddr, ScrAddr};

use crate::PodError;

/// How many hosts a pod takes.
pub const MAX_HOSTS: u8 = 16;

const HOSTS: u64 = MAX_HOSTS as u64;

/// LNR addresses are kept in 36 bits of line number: 4 TiB.
const MAX_LNR_BYTES: u64 = LINE_BYTES << 36;
/// Records are kept in 28 bits, and "none" is one of the values.
const MAX_RECORDS: u64 = (1 << 28) - 1;
/// A segment's index is kept in 24 bits.
const MAX_SEGMENT_ENTRIES: u64 = 1 << 24;

/// Choices that differ from the plan; `None` leaves them to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Entries of the log's ring, a power of two.
    pub ring_entries: Option<u64>,
    /// Entries of each host's log segment, a power of two.
    pub segment_entries: Option<u64>,
    /// Bytes of a chunk, a power of two.
    pub chunk_bytes: Option<u64>,
    /// Coherence records, at most.
    pub records: Option<u64>,
    /// Bits of a record's counter, 3 to 31.
    pub counter_bits: Option<u32>,
    /// For a page cache: latches by which pages are admitted, a power of two, and a mark per record.
    /// A pod with latches keeps no objects once all hosts have left it.
    pub latches: Option<u64>,
}

/// The numbers that determine a pod's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size of SCR in bytes.
    pub scr_bytes: u64,
    /// Size of LNR in bytes.
    pub lnr_bytes: u64,
    /// Entries of the log's ring, a power of two.
    pub ring_entries: u64,
    /// Entries of each host's log segment, a power of two.
    pub segment_entries: u64,
    /// Bytes of each host's transfer window.
    pub window_bytes: u64,
    /// Bytes of a chunk, a power of two.
    pub chunk_bytes: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// Number of 32-bit coherence records.
    pub records: u64,
    /// Bits of a record's counter.
    pub counter_bits: u64,
    /// Latches of a page cache, a power of two; 0 if the pod is not made for one.
    pub latches: u64,
}

/// Where the areas of a pod start.
#[derive(Clone, Copy, Debug)]
pub struct Areas {
    /// The membership word.
    pub membership: ScrAddr<u64>,
    /// Counts the joins there were; the source of incarnations.
    pub joins: ScrAddr<u64>,
    /// The pod's clock: the latest deadline that was reported as passed, in milliseconds.
    pub clock: ScrAddr<u64>,
    /// The log's tail.
    pub tail: ScrAddr<u64>,
    /// A line per host: incarnation, process, request for a transfer.
    pub hosts: ScrAddr<u64>,
    /// A line per host: the position up to which it has applied the log.
    pub applied: ScrAddr<u64>,
    /// The log's ring, a word an entry.
    pub ring: ScrAddr<u64>,
    /// The chunk table, a word a chunk.
    pub chunk_table: ScrAddr<u64>,
    /// The latches of a page cache, a word each.
    pub latches: ScrAddr<u64>,
    /// The coherence records, packed.
    pub records: ScrAddr<u32>,
    /// A bit per record, if there are latches.
    pub marks: ScrAddr<u64>,
    /// The hosts' log segments, a line an entry.
    pub segments: LnrAddr,
    /// The hosts' transfer windows.
    pub windows: LnrAddr,
    /// The chunks.
    pub chunks: LnrAddr,
}

impl Geometry {
    /// A layout for the given sizes.
    ///
    /// # Errors
    /// [`PodError::TooSmall`] if they cannot hold one, or an option is out of range.
    pub fn plan(scr_bytes: u64, lnr_bytes: u64, options: Options) -> Result<Self, PodError> {
        if lnr_bytes > MAX_LNR_BYTES {
            return Err(PodError::TooSmall(format!(
                "LNR of {lnr_bytes} bytes is over the limit of {MAX_LNR_BYTES}"
            )));
        }
        let ring_entries = options
            .ring_entries
            .unwrap_or_else(|| power_of_two_within(scr_bytes / 16 / 8, 64, 1 << 16));
        let segment_entries = options.segment_entries.unwrap_or_else(|| {
            power_of_two_within(lnr_bytes / 64 / HOSTS / LINE_BYTES, 64, ring_entries.max(64))
        });
        let chunk_bytes = options
            .chunk_bytes
            .unwrap_or_else(|| power_of_two_within(lnr_bytes / 1024, 64 << 10, 2 << 20));
        let mut geometry = Self {
            scr_bytes,
            lnr_bytes,
            ring_entries,
            segment_entries,
            window_bytes: power_of_two_within(lnr_bytes / 4096, 4 << 10, 1 << 20),
            chunk_bytes,
            chunks: 0,
            records: 0,
            counter_bits: u64::from(options.counter_bits.unwrap_or(31)),
            latches: options.latches.unwrap_or(0),
        };
        geometry.chunks = lnr_bytes.saturating_sub(geometry.chunk_area().offset()) / chunk_bytes;
        let free_scr = scr_bytes.saturating_sub(geometry.areas().records.offset());
        let most = if geometry.has_marks() {
            // A record and its mark take 33 bits, and the marks begin on a line and end with a word.
            free_scr.saturating_sub(LINE_BYTES + 8) * 8 / 33
        } else {
            free_scr / 4
        };
        geometry.records = most.min(options.records.unwrap_or(u64::MAX)).min(MAX_RECORDS);
        geometry.check().map_err(PodError::TooSmall)?;
        Ok(geometry)
    }

    /// Whether these numbers describe a layout at all: they may come from a damaged superblock.
    ///
    /// # Errors
    /// A clause that says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let power = |name: &str, value: u64, low: u64, high: u64| {
            if value.is_power_of_two() && (low..=high).contains(&value) {
                return Ok(());
            }
            Err(format!("{name} is {value}, not a power of two from {low} to {high}"))
        };
        power("the log's ring", self.ring_entries, 8, 1 << 24)?;
        power("a log segment", self.segment_entries, 4, MAX_SEGMENT_ENTRIES)?;
        power("a transfer window", self.window_bytes, 1 << 10, 1 << 30)?;
        power("a chunk", self.chunk_bytes, 1 << 10, 1 << 30)?;
        if !(3..=31).contains(&self.counter_bits) {
            return Err(format!("a counter of {} bits is not within 3 to 31", self.counter_bits));
        }
        if self.latches > 0 {
            power("the number of latches", self.latches, 1, 1 << 16)?;
        }
        if self.lnr_bytes > MAX_LNR_BYTES || self.records > MAX_RECORDS || self.chunks > 1 << 32 {
            return Err("it is larger than the format can address".to_owned());
        }
        if self.records == 0 {
            return Err(format!(
                "SCR of {} bytes leaves no room for coherence records; {} bytes are the least",
                self.scr_bytes,
                self.areas().records.offset() + 64
            ));
        }
        if self.chunks == 0 {
            return Err(format!(
                "LNR of {} bytes leaves no room for objects; {} bytes are the least",
                self.lnr_bytes,
                self.chunk_area().offset() + self.chunk_bytes
            ));
        }
        let areas = self.areas();
        let records_end = areas.records.element(self.records).offset();
        let scr_end = records_end.max(areas.marks.element(self.mark_words()).offset());
        let lnr_end = self.chunk_area().offset() + self.chunks * self.chunk_bytes;
        if scr_end > self.scr_bytes || lnr_end > self.lnr_bytes {
            return Err("its areas reach beyond its memory".to_owned());
        }
        Ok(())
    }

    /// Whether there is a mark per record, and latches.
    pub fn has_marks(&self) -> bool {
        self.latches > 0
    }

    /// Words of marks.
    pub fn mark_words(&self) -> u64 {
        if self.has_marks() { self.records.div_ceil(64) } else { 0 }
    }

    /// Where the areas start.
    pub fn areas(&self) -> Areas {
        let line = |number: u64| ScrAddr::<u64>::new(number * LINE_BYTES);
        let ring = line(8 + 2 * HOSTS);
        let chunk_table = ring.element(self.ring_entries);
        let segments = LnrAddr::of_line(64);
        let latches = line(chunk_table.element(self.chunks).offset().div_ceil(LINE_BYTES));
        let records = latches.element(self.latches).offset().next_multiple_of(LINE_BYTES);
        let marks = if self.has_marks() {
            (records + 4 * self.records).next_multiple_of(LINE_BYTES)
        } else {
            records
        };
        Areas {
            membership: line(4),
            joins: line(5),
            clock: line(6),
            tail: line(7),
            hosts: line(8),
            applied: line(8 + HOSTS),
            ring,
            chunk_table,
            latches,
            records: ScrAddr::new(records),
            marks: ScrAddr::new(marks),
            segments,
            windows: segments.plus(HOSTS * self.segment_entries * LINE_BYTES),
            chunks: self.chunk_area(),
        }
    }

    fn chunk_area(&self) -> LnrAddr {
        let before =
            64 * LINE_BYTES + HOSTS * (self.segment_entries * LINE_BYTES + self.window_bytes);
        LnrAddr::new(before.next_multiple_of(self.chunk_bytes.min(2 << 20)))
    }
}

fn power_of_two_within(value: u64, low: u64, high: u64) -> u64 {
    let rounded_down = (value + 1).next_power_of_two() / 2;
    rounded_down.clamp(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_from_small_to_large() {
        for (scr, lnr) in
            [(32 << 10, 4 << 20), (1 << 20, 64 << 20), (64 << 20, 1 << 30), (1 << 30, 4 << 40)]
        {
            let geometry = Geometry::plan(scr, lnr, Options::default()).unwrap();
            geometry.check().unwrap();
            let used = geometry.chunks * geometry.chunk_bytes;
            assert!(used * 10 >= lnr * 8, "{scr} {lnr}: only {used} for objects");
        }
    }

    #[test]
    fn a_pod_for_pages_has_a_mark_for_each_record() {
        for (scr, lnr) in [(32 << 10, 4 << 20), (1 << 20, 64 << 20), (1 << 30, 4 << 40)] {
            let options = Options { latches: Some(16), ..Options::default() };
            let geometry = Geometry::plan(scr, lnr, options).unwrap();
            let areas = geometry.areas();
            assert!(areas.latches.element(16).offset() <= areas.records.offset());
            assert!(areas.records.element(geometry.records).offset() <= areas.marks.offset());
            assert!(areas.marks.element(geometry.mark_words()).offset() <= scr);
            let plain = Geometry::plan(scr, lnr, Options::default()).unwrap();
            assert!(geometry.records * 34 / 32 + 100 >= plain.records);
        }
    }

    #[test]
    fn refuses_what_cannot_hold_a_pod() {
        assert!(Geometry::plan(1 << 10, 1 << 30, Options::default()).is_err());
        assert!(Geometry::plan(1 << 20, 1 << 10, Options::default()).is_err());
        assert!(Geometry::plan(1 << 20, u64::MAX, Options::default()).is_err());
        let odd = Options { ring_entries: Some(100), ..Options::default() };
        assert!(Geometry::plan(1 << 20, 64 << 20, odd).is_err());
        let odd = Options { latches: Some(100), ..Options::default() };
        assert!(Geometry::plan(1 << 20, 64 << 20, odd).is_err());
    }

    #[test]
    fn rounds_down_to_powers_of_two() {
        assert_eq!(power_of_two_within(1023, 1, 4096), 512);
        assert_eq!(power_of_two_within(1024, 1, 4096), 1024);
        assert_eq!(power_of_two_within(0, 64, 4096), 64);
    }
}
