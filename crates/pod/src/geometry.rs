//! Where everything lies. All hosts compute the same places from the few numbers in the superblock.
//!
//! ```text
//! SCR  superblock | shared words | host table | names | per log shard: tail, applied, ring | chunk table |
//!      pins | mail | writes under way | quarantine | latches | records | marks
//! LNR  twin of the superblock | per log shard: segments | mail | transfer windows | undo | chunks
//! ```

use tombolo_memory::{LINE_BYTES, LnrAddr, ScrAddr};

use crate::PodError;
use crate::mailbox::MAX_SLOTS;
use crate::options::{Options, RecordWidth, TornWrites};

/// How many hosts a pod may be made for: whoever has mail for a host is a bit in a word.
pub const MAX_HOSTS: u8 = 64;

/// How many hosts a pod is made for, unless chosen otherwise.
pub const DEFAULT_HOSTS: u8 = 16;

/// LNR addresses are kept in 36 bits of line number: 4 TiB.
const MAX_LNR_BYTES: u64 = LINE_BYTES << 36;
/// Entries of a host's segment of the log, at most: places are kept in 19 bits.
pub const MAX_SEGMENT_ENTRIES: u64 = 1 << 19;

/// Words for pins, at most, a power of two: chunks whose numbers differ by a multiple of it share one.
pub const MAX_PIN_WORDS: u64 = 1 << 12;

/// Words of a note of what is under way.
pub const NOTE_WORDS: u64 = 4;
/// Slots of a mailbox, unless chosen otherwise: more than a host usually has threads that wait.
const MAIL_SLOTS: u64 = 16;

/// A handle has a replica per shard; more of them than threads that commit buy nothing.
const MAX_LOG_SHARDS: u64 = 16;

/// In a pod for a page cache, a file's head is as it was before if its writer dies, whatever becomes of pages: else nobody could tell how
/// long the file was.
const HEAD_UNDO_BYTES: u64 = 128;

/// The numbers that determine a pod's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size of SCR in bytes.
    pub scr_bytes: u64,
    /// Size of LNR in bytes.
    pub lnr_bytes: u64,
    /// Hosts that may be in the pod at once.
    pub hosts: u64,
    /// Entries of the ring of a log shard, a power of two.
    pub ring_entries: u64,
    /// Entries of each host's segment of a log shard, a power of two.
    pub segment_entries: u64,
    /// Bytes of each host's transfer window.
    pub window_bytes: u64,
    /// Bytes of a chunk, a power of two.
    pub chunk_bytes: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// Coherence records, at most: as many as there would be of the least width.
    pub records: u64,
    /// Size of a record.
    pub record_width: RecordWidth,
    /// Bits of a record's counter, at most: its width may leave fewer.
    pub counter_bits: u64,
    /// Requests to others that a host may have under way, a power of two.
    pub mail_slots: u64,
    /// Shards of the log, a power of two.
    pub log_shards: u64,
    /// Objects that a host may have locked at once, a power of two.
    pub writes: u64,
    /// What becomes of an object whose writer dies at it, if it is too large for `undo_bytes`; others have their old value.
    pub torn_writes: TornWrites,
    /// Bytes in which a write notes what it overwrites, a power of two; 0 if it does not.
    pub undo_bytes: u64,
    /// Latches of a page cache, a power of two; 0 if the pod is not made for one.
    pub latches: u64,
    /// Whether objects in a host's own memory are in their slots, too.
    pub partition_backup: bool,
}

/// Where one shard of the log lies.
#[derive(Clone, Copy, Debug)]
pub struct LogAreas {
    /// A position below which nothing of the ring is needed any more, and from which on nothing was used again.
    pub milestone: ScrAddr<u64>,
    /// A line per host: the position up to which it has applied the log.
    pub applied: ScrAddr<u64>,
    /// The ring, a word an entry.
    pub ring: ScrAddr<u64>,
    /// The hosts' segments, a line an entry.
    pub segments: LnrAddr,
}

/// Where the areas of a pod start.
#[derive(Clone, Copy, Debug)]
pub struct Areas {
    /// The membership word.
    pub membership: ScrAddr<u64>,
    /// The pod's clock: the latest deadline that was reported as passed, in milliseconds.
    pub clock: ScrAddr<u64>,
    /// Whether hosts are in the pod that share objects in a way of their own.
    pub scheme: ScrAddr<u64>,
    /// A line per host: seat, request for a transfer, doorbell, signs of life.
    pub hosts: ScrAddr<u64>,
    /// A line per host: its process.
    pub names: ScrAddr<u64>,
    /// How many hosts there are such lines for.
    pub host_count: u8,
    /// The log's shards; [`Geometry::log_areas`] tells where in there each one lies.
    pub logs: ScrAddr<u64>,
    /// The chunk table, a word a chunk.
    pub chunk_table: ScrAddr<u64>,
    /// Which hosts read what lies in a chunk where it lies: a word for each of the first 4096, which others share.
    pub pins: ScrAddr<u64>,
    /// A word per slot for a request, the hosts' slots one after the other.
    pub mail_words: ScrAddr<u64>,
    /// [`NOTE_WORDS`] words per write that a host may have under way, the hosts' words one after the
    /// other.
    pub writes: ScrAddr<u64>,
    /// A word per slot into which a host that was fenced may still write, the hosts' words one after the other.
    pub quarantine: ScrAddr<u64>,
    /// The latches of a page cache, a word each.
    pub latches: ScrAddr<u64>,
    /// The coherence records.
    pub records: ScrAddr<u64>,
    /// A bit per record, if there are latches.
    pub marks: ScrAddr<u64>,
    /// A line per slot for a request, the hosts' slots one after the other.
    pub mail_lines: LnrAddr,
    /// The hosts' transfer windows.
    pub windows: LnrAddr,
    /// What writes under way have overwritten, in the order of their words.
    pub undo: LnrAddr,
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
        let hosts = u64::from(options.hosts.unwrap_or(DEFAULT_HOSTS));
        // Shards share what one log would take.
        let log_shards = options.log_shards.unwrap_or(1);
        let share = |bytes: u64| bytes / log_shards.max(1);
        let ring_entries = options
            .ring_entries
            .unwrap_or_else(|| power_of_two_within(share(scr_bytes / 16 / 8), 64, 1 << 16));
        let segment_entries = options.segment_entries.unwrap_or_else(|| {
            let entries = share(lnr_bytes / 64 / hosts.max(1) / LINE_BYTES);
            power_of_two_within(entries, 64, ring_entries.max(64))
        });
        let chunk_bytes = options
            .chunk_bytes
            .unwrap_or_else(|| power_of_two_within(lnr_bytes / 1024, 64 << 10, 2 << 20));
        let mut geometry = Self {
            scr_bytes,
            lnr_bytes,
            hosts,
            ring_entries,
            segment_entries,
            window_bytes: power_of_two_within(lnr_bytes / 4096, 4 << 10, 1 << 20),
            chunk_bytes,
            chunks: 0,
            records: 0,
            record_width: options.record_width.unwrap_or_default(),
            counter_bits: u64::from(options.counter_bits.unwrap_or(31)),
            mail_slots: options.mail_slots.unwrap_or(MAIL_SLOTS),
            log_shards,
            writes: options
                .writes
                .unwrap_or_else(|| power_of_two_within(scr_bytes / 32 / hosts.max(1) / 32, 8, 64)),
            torn_writes: options.torn_writes,
            undo_bytes: 0,
            latches: options.latches.unwrap_or(0),
            partition_backup: options.partition_backup,
        };
        if options.torn_writes == TornWrites::Undo {
            let share = lnr_bytes / 32 / hosts.max(1) / geometry.writes.max(1);
            geometry.undo_bytes = power_of_two_within(share, 256, 64 << 10);
        } else if geometry.has_marks() {
            geometry.undo_bytes = HEAD_UNDO_BYTES;
        }
        // Places follow from sound numbers only.
        geometry.check_hosts_and_log().map_err(PodError::TooSmall)?;
        geometry.chunks = lnr_bytes.saturating_sub(geometry.chunk_area().offset()) / chunk_bytes;
        let free_scr = scr_bytes.saturating_sub(geometry.areas().records.offset());
        let width = geometry.record_width;
        let wanted = options.records.map_or(u64::MAX, |n| n.next_multiple_of(width.step()));
        let bytes = if geometry.has_marks() {
            // Four records have up to five marks, which begin on a line and end with a word.
            let bits = 4 * width.least_bits();
            free_scr.saturating_sub(LINE_BYTES + 16) * bits / (bits + 5)
        } else {
            free_scr
        };
        geometry.records = width.records_in(bytes).min(wanted).min(width.most_records());
        geometry.check().map_err(PodError::TooSmall)?;
        Ok(geometry)
    }

    /// Whether these numbers describe a layout at all: they may come from a damaged superblock.
    ///
    /// # Errors
    /// A clause that says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.check_hosts_and_log()?;
        power("a transfer window", self.window_bytes, 1 << 10, 1 << 30)?;
        power("a chunk", self.chunk_bytes, 1 << 10, 1 << 30)?;
        power("the slots of a mailbox", self.mail_slots, 1, MAX_SLOTS)?;
        power("the number of objects that a host may have locked", self.writes, 1, 4096)?;
        if self.torn_writes == TornWrites::Undo || self.undo_bytes > 0 {
            power("what a write may note", self.undo_bytes, 64, 1 << 30)?;
        }
        if !(3..=31).contains(&self.counter_bits) {
            return Err(format!("a counter of {} bits is not within 3 to 31", self.counter_bits));
        }
        let most_records = self.record_width.most_records();
        if self.latches > 0 {
            power("the number of latches", self.latches, 1, 1 << 16)?;
        }
        if self.lnr_bytes > MAX_LNR_BYTES || self.records > most_records || self.chunks > 1 << 32 {
            return Err("it is larger than the format can address".to_owned());
        }
        if self.records == 0 || !self.records.is_multiple_of(self.record_width.step()) {
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
        let scr_end = self.scr_end();
        let lnr_end = self.chunk_area().offset() + self.chunks * self.chunk_bytes;
        if scr_end > self.scr_bytes || lnr_end > self.lnr_bytes {
            return Err("its areas reach beyond its memory".to_owned());
        }
        Ok(())
    }

    fn check_hosts_and_log(&self) -> Result<(), String> {
        if !(1..=u64::from(MAX_HOSTS)).contains(&self.hosts) {
            return Err(format!("it is for {} hosts, not for 1 to {MAX_HOSTS}", self.hosts));
        }
        power("the number of log shards", self.log_shards, 1, MAX_LOG_SHARDS)?;
        power("the log's ring", self.ring_entries, 8, 1 << 24)?;
        power("a log segment", self.segment_entries, 4, MAX_SEGMENT_ENTRIES)
    }

    /// Where the areas start.
    pub fn areas(&self) -> Areas {
        let line = |number: u64| ScrAddr::<u64>::new(number * LINE_BYTES);
        let names = line(HOST_TABLE + self.hosts);
        let logs = names.line(self.hosts);
        let chunk_table = logs.line(self.log_shards * self.log_lines());
        let next_line = |end: u64| end.next_multiple_of(LINE_BYTES);
        let after = |last: ScrAddr<u64>| ScrAddr::<u64>::new(next_line(last.offset()));
        let pins = after(chunk_table.element(self.chunks));
        let mail_words = after(pins.element(self.pin_words()));
        let writes = after(mail_words.element(self.hosts * self.mail_slots));
        let quarantine = after(writes.element(self.hosts * self.writes * NOTE_WORDS));
        let latches = after(quarantine.element(self.hosts * self.writes));
        let records = after(latches.element(self.latches));
        let marks = after(records.element(self.record_bytes().div_ceil(8)));
        Areas {
            membership: line(4),
            clock: line(5),
            scheme: line(5).element(1),
            hosts: line(HOST_TABLE),
            names,
            host_count: self.hosts as u8,
            logs,
            chunk_table,
            pins,
            mail_words,
            writes,
            quarantine,
            latches,
            records,
            marks: if self.has_marks() { marks } else { records },
            mail_lines: self.mail_lines(),
            windows: self.windows(),
            undo: self.undo(),
            chunks: self.chunk_area(),
        }
    }

    /// Where the last of the areas in SCR ends.
    pub(crate) fn scr_end(&self) -> u64 {
        let areas = self.areas();
        let records_end = areas.records.offset() + self.record_bytes().next_multiple_of(8);
        records_end.max(areas.marks.element(self.mark_words()).offset())
    }

    /// Bytes of SCR for coherence records.
    pub fn record_bytes(&self) -> u64 {
        self.record_width.bytes_for(self.records)
    }

    /// Whether there is a mark per record, and latches.
    pub fn has_marks(&self) -> bool {
        self.latches > 0
    }

    /// Words for pins.
    pub fn pin_words(&self) -> u64 {
        self.chunks.min(MAX_PIN_WORDS)
    }

    /// Words of marks.
    pub fn mark_words(&self) -> u64 {
        if self.has_marks() { self.record_width.numbers(self.records).div_ceil(64) } else { 0 }
    }

    /// Where shard `shard` of the log lies.
    pub fn log_areas(&self, shard: u8) -> LogAreas {
        let milestone = self.areas().logs.line(u64::from(shard) * self.log_lines());
        let applied = milestone.line(1);
        LogAreas {
            milestone,
            applied,
            ring: applied.line(self.hosts),
            segments: SEGMENTS.plus(u64::from(shard) * self.segments_bytes()),
        }
    }

    /// The numbers of the log's shards.
    pub fn shards(&self) -> std::ops::Range<u8> {
        0..self.log_shards as u8
    }

    /// Lines of SCR that a shard of the log takes.
    fn log_lines(&self) -> u64 {
        1 + self.hosts + self.ring_entries * 8 / LINE_BYTES
    }

    /// Bytes of the segments of all hosts in one shard.
    fn segments_bytes(&self) -> u64 {
        self.hosts * self.segment_entries * LINE_BYTES
    }

    fn mail_lines(&self) -> LnrAddr {
        SEGMENTS.plus(self.log_shards * self.segments_bytes())
    }

    fn windows(&self) -> LnrAddr {
        self.mail_lines().plus(self.hosts * self.mail_slots * LINE_BYTES)
    }

    fn undo(&self) -> LnrAddr {
        self.windows().plus(self.hosts * self.window_bytes)
    }

    fn chunk_area(&self) -> LnrAddr {
        let before = self.undo().plus(self.hosts * self.writes * self.undo_bytes).offset();
        LnrAddr::new(before.next_multiple_of(self.chunk_bytes.min(2 << 20)))
    }
}

/// The line at which the host table starts.
const HOST_TABLE: u64 = 6;

/// Where the log's segments start.
const SEGMENTS: LnrAddr = LnrAddr::of_line(64);

fn power(name: &str, value: u64, low: u64, high: u64) -> Result<(), String> {
    if value.is_power_of_two() && (low..=high).contains(&value) {
        return Ok(());
    }
    Err(format!("{name} is {value}, not a power of two from {low} to {high}"))
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
            assert!(areas.records.offset() + geometry.record_bytes() <= areas.marks.offset());
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
        for mail_slots in [0, 3, 128] {
            let odd = Options { mail_slots: Some(mail_slots), ..Options::default() };
            assert!(Geometry::plan(1 << 20, 64 << 20, odd).is_err(), "{mail_slots} slots");
        }
        for hosts in [0, 65, 255] {
            let odd = Options { hosts: Some(hosts), ..Options::default() };
            let error = Geometry::plan(1 << 20, 64 << 20, odd).unwrap_err().to_string();
            assert!(error.contains(&format!("{hosts} hosts")), "{error}");
        }
        for log_shards in [0, 3, 32, 1 << 63].map(Some) {
            let odd = Options { log_shards, ..Options::default() };
            assert!(Geometry::plan(1 << 20, 64 << 20, odd).is_err());
        }
    }

    #[test]
    fn areas_follow_each_other() {
        for (hosts, mail_slots) in [(1, 1), (2, 64), (16, 2), (37, 16), (64, 64)] {
            let options =
                Options { hosts: Some(hosts), mail_slots: Some(mail_slots), ..Options::default() };
            let geometry = Geometry::plan(1 << 20, 64 << 20, options).unwrap();
            let areas = geometry.areas();
            let hosts = u64::from(hosts);
            assert_eq!(areas.names.line(hosts).offset(), areas.logs.offset());
            assert!(areas.chunk_table.element(geometry.chunks).offset() <= areas.pins.offset());
            let pins_end = areas.pins.element(geometry.pin_words()).offset();
            assert!(pins_end <= areas.mail_words.offset());
            let mail_end = areas.mail_words.element(hosts * mail_slots).offset();
            assert!(mail_end <= areas.writes.offset());
            let notes_end = areas.writes.element(hosts * geometry.writes * NOTE_WORDS).offset();
            assert!(notes_end <= areas.quarantine.offset());
            assert_eq!(areas.mail_lines.line() + hosts * mail_slots, areas.windows.line());
            let windows_end = areas.windows.plus(hosts * geometry.window_bytes);
            assert!(windows_end <= areas.chunks);
        }
    }

    /// It was said to be 320 bytes, which left out what a host's writes take.
    #[test]
    fn hosts_that_may_come_cost_640_to_2880_bytes_of_scr() {
        // All but the chunk table: more hosts leave less LNR for chunks.
        let overhead = |hosts, writes| {
            let options =
                Options { hosts: Some(hosts), writes: Some(writes), ..Options::default() };
            let areas = Geometry::plan(1 << 20, 64 << 20, options).unwrap().areas();
            areas.chunk_table.offset() + areas.records.offset() - areas.mail_words.offset()
        };
        // A line in the host table, one for its name, one in the log and two of mail. Eight writes have
        // four lines of notes, and one for what they may leave.
        for (writes, bytes) in [(8, 640), (64, 2_880)] {
            assert_eq!(bytes, (5 + writes / 8 * 5) * LINE_BYTES);
            assert_eq!(overhead(16, writes) - overhead(2, writes), 14 * bytes);
            assert_eq!(overhead(64, writes) - overhead(16, writes), 48 * bytes);
        }
    }

    #[test]
    fn shards_of_the_log_lie_side_by_side() {
        for shards in [1, 2, 16] {
            let options = Options { log_shards: Some(shards), ..Options::default() };
            let geometry = Geometry::plan(1 << 20, 64 << 20, options).unwrap();
            let areas = geometry.areas();
            let (mut scr, mut lnr) = (areas.logs.offset(), SEGMENTS.offset());
            for shard in geometry.shards() {
                let log = geometry.log_areas(shard);
                assert_eq!((log.milestone.offset(), log.segments.offset()), (scr, lnr));
                scr = log.ring.element(geometry.ring_entries).offset();
                lnr += geometry.segments_bytes();
            }
            assert_eq!((scr, lnr), (areas.chunk_table.offset(), areas.mail_lines.offset()));
        }
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
