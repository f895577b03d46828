//! Where everything in a pod lies. All hosts compute the same places from the few numbers in the
//! superblock and in the [directory](crate::directory) of areas.
//!
//! ```text
//! SCR  superblock | directory | stays | clock | host table | names | mail words |
//!      area 0 | area 1 ...
//!      area: roster: word, a line per host | per log shard: low-water mark, applied, ring |
//!            the tenant's own
//! LNR  twin of the superblock | mail lines | transfer windows | area 0 | area 1 ...
//!      area: per log shard: segments | the tenant's own
//! ```

use std::fmt;
use std::ops::Range;

use tombolo_memory::{LINE_BYTES, LnrAddr, ScrAddr};

use crate::PodError;
use crate::mailbox::MAX_SLOTS;

/// Hosts that a pod may be made for, at most: a doorbell has a bit for each.
pub const MAX_HOSTS: u8 = 64;

/// Hosts that a pod is made for, unless chosen otherwise.
pub const DEFAULT_HOSTS: u8 = 16;

/// Areas of a pod, at most: the superblock and the directory fill a page.
pub const MAX_AREAS: usize = 15;

/// Words by which a tenant describes its own part of an area.
pub const PARAMETERS: usize = 16;

/// LNR addresses are kept in 36 bits of line number: 4 TiB.
const MAX_LNR_BYTES: u64 = LINE_BYTES << 36;

/// Entries of a host's segment of the log, at most: places are kept in 19 bits.
pub const MAX_SEGMENT_ENTRIES: u64 = 1 << 19;

/// Slots of a mailbox, unless chosen otherwise: more than a host usually has threads that wait.
const MAIL_SLOTS: u64 = 16;

/// A replica has a part per shard. More shards than threads that commit buy nothing.
const MAX_LOG_SHARDS: u64 = 16;

/// Lines of the superblock, and of each entry of the directory.
pub(crate) const ENTRY_LINES: u64 = 4;

/// Bytes at the start of SCR that tell where everything else is, at most.
pub(crate) const HEAD_BYTES: u64 = (1 + MAX_AREAS as u64) * ENTRY_LINES * LINE_BYTES;

/// The line at which LNR's tables start: behind the superblock's twin.
const LNR_TABLES: LnrAddr = LnrAddr::of_line(64);

/// The kind of an area's tenant: up to eight letters, by which a host without its code can name it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind(pub [u8; 8]);

impl Kind {
    /// The kind that is called `name`.
    ///
    /// # Panics
    /// If the name has more than eight bytes.
    pub const fn new(name: &str) -> Self {
        let (bytes, mut letters, mut at) = (name.as_bytes(), [0; 8], 0);
        while at < bytes.len() {
            letters[at] = bytes[at];
            at += 1;
        }
        Self(letters)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(String::from_utf8_lossy(&self.0).trim_end_matches('\0'))
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A stretch of SCR or LNR, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Where it starts.
    pub start: u64,
    /// How long it is.
    pub bytes: u64,
}

impl Stretch {
    fn from_range(range: Range<u64>) -> Self {
        Self { start: range.start, bytes: range.end.saturating_sub(range.start) }
    }

    /// Where it ends.
    pub fn end(self) -> u64 {
        self.start.saturating_add(self.bytes)
    }
}

/// A table that is no area's.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// The name of its content.
    pub name: &'static str,
    /// Its first part.
    pub part: Stretch,
    /// How many parts it has, one behind the other.
    pub count: u64,
}

/// The numbers that determine where an area's parts lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaLayout {
    /// The kind of its tenant.
    pub kind: Kind,
    /// The version of the tenant's own format.
    pub version: u64,
    /// Its part of SCR.
    pub scr: Stretch,
    /// Its part of LNR.
    pub lnr: Stretch,
    /// Shards of its log, a power of two, or none.
    pub log_shards: u64,
    /// Entries of the ring of a log shard, a power of two.
    pub ring_entries: u64,
    /// Entries of each host's segment of a log shard, a power of two.
    pub segment_entries: u64,
    /// The tenant's own parameters.
    pub parameters: [u64; PARAMETERS],
    /// Bytes at the end of its part of LNR that no memory is behind at first: the tenant has the
    /// system put some there before it writes ([`Memory::populate`]).
    ///
    /// [`Memory::populate`]: tombolo_memory::Memory::populate
    pub on_demand: u64,
}

/// The numbers that determine where everything in a pod lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Size of SCR in bytes.
    pub scr_bytes: u64,
    /// Size of LNR in bytes.
    pub lnr_bytes: u64,
    /// Hosts that may be in the pod at once.
    pub hosts: u64,
    /// Requests to others that a host may have under way, a power of two.
    pub mail_slots: u64,
    /// Bytes of each host's transfer window, a power of two.
    pub window_bytes: u64,
    /// The areas, which follow each other in SCR and in LNR.
    pub areas: Vec<AreaLayout>,
}

/// Options of a pod as a whole; `None` leaves a choice to the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodOptions {
    /// Hosts that may be in the pod at once, up to 64. Each takes some SCR and LNR, whether it is
    /// there or not.
    pub hosts: Option<u8>,
    /// Requests to others that a host may have under way, a power of two up to 64.
    pub mail_slots: Option<u64>,
}

/// Options of an area's log; `None` leaves a choice to the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Shards, a power of two up to 16; 0 for a tenant without a log.
    pub shards: Option<u64>,
    /// Entries of the ring of a shard, a power of two.
    pub ring_entries: Option<u64>,
    /// Entries of each host's segment of a shard, a power of two.
    pub segment_entries: Option<u64>,
}

/// The memory that a tenant may plan with.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Hosts that the pod is made for.
    pub hosts: u64,
    /// Shards of the area's log.
    pub log_shards: u64,
    /// All of SCR that is the area's, before its roster and its log are taken off.
    pub scr_share: u64,
    /// All of LNR that is the area's, likewise.
    pub lnr_share: u64,
    /// The tenant's own part of SCR.
    pub scr: Stretch,
    /// The tenant's own part of LNR.
    pub lnr: Stretch,
}

/// How many bytes at the end of a planned area's part of LNR the tenant populates itself.
pub type OnDemand = fn(&Layout, &AreaLayout) -> u64;

/// A tenant that a pod is to have an area for.
#[derive(Clone, Copy)]
pub struct AreaRequest<'a> {
    /// The kind of its tenant.
    pub kind: Kind,
    /// The version of the tenant's own format.
    pub version: u64,
    /// Bytes of SCR for it; unless given, a share of what is left that is as large as that of LNR.
    pub scr_bytes: Option<u64>,
    /// Bytes of LNR for it; unless given, an even share of what is left.
    pub lnr_bytes: Option<u64>,
    /// Choices of the log.
    pub log: LogOptions,
    /// Plans the tenant's own part; on an error it says what does not fit.
    pub plan: &'a dyn Fn(Budget) -> Result<[u64; PARAMETERS], String>,
    /// The memory that the tenant populates when it needs it; nothing unless given.
    pub on_demand: Option<OnDemand>,
}

/// Where the tables of a pod start that are no area's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// How many stays there have been.
    pub(crate) stays: ScrAddr<u64>,
    /// The pod's clock: the latest deadline that was reported as passed, in milliseconds.
    pub(crate) clock: ScrAddr<u64>,
    /// A line per host: seat, signs of life, and whether it is gone.
    pub(crate) hosts: ScrAddr<u64>,
    /// A line per host: its process.
    pub(crate) names: ScrAddr<u64>,
    /// How many hosts there are such lines for.
    pub(crate) host_count: u8,
    /// A word per slot for a request, the hosts' slots one after the other.
    pub(crate) mail_words: ScrAddr<u64>,
    /// A line per slot for a request, likewise.
    pub(crate) mail_lines: LnrAddr,
    /// The hosts' transfer windows.
    pub(crate) windows: LnrAddr,
    /// Where the areas begin.
    scr_areas: u64,
    lnr_areas: u64,
}

/// Where the parts of an area start.
#[derive(Clone, Copy, Debug)]
pub struct AreaPlaces {
    /// The roster's word.
    pub roster: ScrAddr<u64>,
    /// A line per host: its entry in the roster, a request for a snapshot, its doorbell, its
    /// clean-up.
    pub members: ScrAddr<u64>,
    /// How many hosts there are such lines for.
    pub host_count: u8,
    /// The log's shards; [`AreaPlaces::log`] tells where in there each one lies.
    logs: ScrAddr<u64>,
    segments: LnrAddr,
    ring_entries: u64,
    segment_entries: u64,
    /// The tenant's own part of SCR.
    pub scr: Stretch,
    /// The tenant's own part of LNR.
    pub lnr: Stretch,
}

/// Where one shard of a log lies.
#[derive(Clone, Copy, Debug)]
pub struct LogPlaces {
    /// A position below which nothing of the ring is needed any more, and from which on nothing was
    /// used again.
    pub low_water_mark: ScrAddr<u64>,
    /// A line per host: the position up to which it has applied the log.
    pub applied: ScrAddr<u64>,
    /// The ring, a word an entry.
    pub ring: ScrAddr<u64>,
    /// The hosts' segments, a line an entry.
    pub segments: LnrAddr,
}

impl Layout {
    /// A layout for a pod of these sizes, with an area for each request.
    ///
    /// # Errors
    /// [`PodError::TooSmall`] if the sizes cannot hold it, or an option is out of range.
    pub fn plan(
        scr_bytes: u64,
        lnr_bytes: u64,
        options: PodOptions,
        requests: &[AreaRequest<'_>],
    ) -> Result<Self, PodError> {
        if lnr_bytes > MAX_LNR_BYTES {
            return Err(PodError::TooSmall(format!(
                "LNR of {lnr_bytes} bytes is over the limit of {MAX_LNR_BYTES}"
            )));
        }
        let mut layout = Self {
            scr_bytes,
            lnr_bytes,
            hosts: u64::from(options.hosts.unwrap_or(DEFAULT_HOSTS)),
            mail_slots: options.mail_slots.unwrap_or(MAIL_SLOTS),
            window_bytes: power_of_two_within(lnr_bytes / 4096, 4 << 10, 1 << 20),
            areas: Vec::new(),
        };
        layout.check_tables(requests.len()).map_err(PodError::TooSmall)?;
        let fixed = layout.places_with(requests.len());
        let wanted = |bytes: fn(&AreaRequest<'_>) -> Option<u64>| -> Vec<Option<u64>> {
            requests.iter().map(bytes).collect()
        };
        let free = |all: u64, tables: u64| all.saturating_sub(tables);
        let (free_scr, free_lnr) =
            (free(scr_bytes, fixed.scr_areas), free(lnr_bytes, fixed.lnr_areas));
        let evenly = vec![1; requests.len()];
        let lnr_sizes = shares(free_lnr, &wanted(|request| request.lnr_bytes), &evenly);
        let scr_sizes = shares(free_scr, &wanted(|request| request.scr_bytes), &lnr_sizes);
        let (mut scr, mut lnr) = (fixed.scr_areas, fixed.lnr_areas);
        for (request, (scr_size, lnr_size)) in
            requests.iter().zip(scr_sizes.into_iter().zip(lnr_sizes))
        {
            let whole_lines = |bytes: u64| bytes / LINE_BYTES * LINE_BYTES;
            let ranges = (scr..scr + whole_lines(scr_size), lnr..lnr + whole_lines(lnr_size));
            let with_tables = |size, all, free| proportion(all, size, free);
            let shares = (
                with_tables(scr_size, scr_bytes, free_scr),
                with_tables(lnr_size, lnr_bytes, free_lnr),
            );
            let area = layout.plan_area(request, ranges, shares).map_err(PodError::TooSmall)?;
            (scr, lnr) = (area.scr.end(), area.lnr.end());
            layout.areas.push(area);
        }
        layout.check().map_err(PodError::TooSmall)?;
        Ok(layout)
    }

    fn plan_area(
        &self,
        request: &AreaRequest<'_>,
        (scr, lnr): (Range<u64>, Range<u64>),
        (scr_share, lnr_share): (u64, u64),
    ) -> Result<AreaLayout, String> {
        let LogOptions { shards, ring_entries, segment_entries } = request.log;
        let log_shards = shards.unwrap_or(1);
        // Shards share what one log would take.
        let per_shard = |bytes: u64| bytes / log_shards.max(1);
        let ring_entries = ring_entries
            .unwrap_or_else(|| power_of_two_within(per_shard(scr_share / 16 / 8), 64, 1 << 16));
        let segment_entries = segment_entries.unwrap_or_else(|| {
            let entries = per_shard(lnr_share / 64 / self.hosts.max(1) / LINE_BYTES);
            power_of_two_within(entries, 64, ring_entries.max(64))
        });
        let mut area = AreaLayout {
            kind: request.kind,
            version: request.version,
            scr: Stretch::from_range(scr),
            lnr: Stretch::from_range(lnr),
            log_shards,
            ring_entries,
            segment_entries,
            parameters: [0; PARAMETERS],
            on_demand: 0,
        };
        area.check_log()?;
        let places = self.area_places(&area);
        area.parameters = (request.plan)(Budget {
            hosts: self.hosts,
            log_shards,
            scr_share,
            lnr_share,
            scr: places.scr,
            lnr: places.lnr,
        })?;
        area.on_demand = request.on_demand.map_or(0, |bytes| bytes(self, &area));
        Ok(area)
    }

    /// Whether these numbers describe a layout at all: they may come from a damaged superblock.
    /// Tenants check their own parameters.
    ///
    /// # Errors
    /// A clause that says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.check_tables(self.areas.len())?;
        if self.lnr_bytes > MAX_LNR_BYTES {
            return Err("it is larger than the format can address".to_owned());
        }
        let places = self.places();
        let (mut scr, mut lnr) = (places.scr_areas, places.lnr_areas);
        for area in &self.areas {
            area.check_log()?;
            let own = self.area_places(area);
            let in_order = area.scr.start >= scr
                && area.lnr.start >= lnr
                && area.scr.start.is_multiple_of(LINE_BYTES)
                && area.lnr.start.is_multiple_of(LINE_BYTES)
                && own.scr.start <= area.scr.end()
                && area.on_demand <= area.lnr.end().saturating_sub(own.lnr.start)
                && own.lnr.start <= area.lnr.end();
            if !in_order {
                return Err(format!("its area of {} has no place", area.kind));
            }
            (scr, lnr) = (area.scr.end(), area.lnr.end());
        }
        if scr > self.scr_bytes || lnr > self.lnr_bytes {
            return Err("its areas reach beyond its memory".to_owned());
        }
        Ok(())
    }

    fn check_tables(&self, areas: usize) -> Result<(), String> {
        if !(1..=u64::from(MAX_HOSTS)).contains(&self.hosts) {
            return Err(format!("it is for {} hosts, not for 1 to {MAX_HOSTS}", self.hosts));
        }
        if areas > MAX_AREAS {
            return Err(format!("it has {areas} areas, more than {MAX_AREAS}"));
        }
        power("the slots of a mailbox", self.mail_slots, 1, MAX_SLOTS)?;
        power("a transfer window", self.window_bytes, 1 << 10, 1 << 30)
    }

    /// Where the tables start that are no area's.
    pub(crate) fn places(&self) -> Places {
        self.places_with(self.areas.len())
    }

    fn places_with(&self, areas: usize) -> Places {
        let line = |number: u64| ScrAddr::<u64>::new(number * LINE_BYTES);
        let stays = line(ENTRY_LINES * (1 + areas as u64));
        let clock = stays.line(1);
        let hosts = clock.line(1);
        let names = hosts.line(self.hosts);
        let mail_words = names.line(self.hosts);
        let mail_end = mail_words.element(self.hosts * self.mail_slots).offset();
        let windows = LNR_TABLES.plus(self.hosts * self.mail_slots * LINE_BYTES);
        Places {
            stays,
            clock,
            hosts,
            names,
            host_count: self.hosts as u8,
            mail_words,
            mail_lines: LNR_TABLES,
            windows,
            scr_areas: mail_end.next_multiple_of(LINE_BYTES),
            lnr_areas: windows.plus(self.hosts * self.window_bytes).offset(),
        }
    }

    /// Where the hosts' transfer windows lie in LNR.
    pub fn windows(&self) -> Stretch {
        let start = self.places().windows.offset();
        Stretch { start, bytes: self.hosts * self.window_bytes }
    }

    /// The parts of LNR that no memory is behind at first.
    pub fn on_demand(&self) -> impl Iterator<Item = Stretch> {
        let later = self.areas.iter().filter(|area| area.on_demand > 0);
        later.map(|area| Stretch::from_range(area.lnr.end() - area.on_demand..area.lnr.end()))
    }

    /// Where the parts of `area` start.
    pub fn area_places(&self, area: &AreaLayout) -> AreaPlaces {
        let roster = ScrAddr::<u64>::new(area.scr.start);
        let members = roster.line(1);
        let logs = members.line(self.hosts);
        let own = logs.line(area.log_shards * area.log_lines(self.hosts)).offset();
        let segments = LnrAddr::new(area.lnr.start);
        let own_lnr = segments.plus(area.log_shards * area.segments_bytes(self.hosts)).offset();
        AreaPlaces {
            roster,
            members,
            host_count: self.hosts as u8,
            logs,
            segments,
            ring_entries: area.ring_entries,
            segment_entries: area.segment_entries,
            scr: Stretch::from_range(own..area.scr.end()),
            lnr: Stretch::from_range(own_lnr..area.lnr.end()),
        }
    }

    /// The tables that are no area's, for tools that explain an address: those in SCR, and those in
    /// LNR.
    pub fn tables(&self) -> (Vec<Table>, Vec<Table>) {
        let (places, hosts) = (self.places(), self.hosts);
        let table = |name, start: u64, bytes: u64, count: u64| Table {
            name,
            part: Stretch { start, bytes },
            count,
        };
        let scr = vec![
            table("superblock", 0, ENTRY_LINES * LINE_BYTES, 1),
            table("stays", places.stays.offset(), 8, 1),
            table("pod's clock", places.clock.offset(), 8, 1),
            table("host", places.hosts.offset(), LINE_BYTES, hosts),
            table("name of", places.names.offset(), LINE_BYTES, hosts),
            table("mail of", places.mail_words.offset(), 8 * self.mail_slots, hosts),
        ];
        let lnr = vec![
            table("superblock", 0, ENTRY_LINES * LINE_BYTES, 1),
            table("mail of", places.mail_lines.offset(), LINE_BYTES * self.mail_slots, hosts),
            table("window", places.windows.offset(), self.window_bytes, hosts),
        ];
        (scr, lnr)
    }
}

impl AreaLayout {
    fn check_log(&self) -> Result<(), String> {
        if self.log_shards == 0 {
            return Ok(());
        }
        power("the number of log shards", self.log_shards, 1, MAX_LOG_SHARDS)?;
        power("the log's ring", self.ring_entries, 8, 1 << 24)?;
        power("a log segment", self.segment_entries, 4, MAX_SEGMENT_ENTRIES)
    }

    /// Lines of SCR that a shard of the log takes.
    fn log_lines(&self, hosts: u64) -> u64 {
        1 + hosts + self.ring_entries * 8 / LINE_BYTES
    }

    /// Bytes of the segments of all hosts in one shard.
    fn segments_bytes(&self, hosts: u64) -> u64 {
        hosts * self.segment_entries * LINE_BYTES
    }

    /// The numbers of the log's shards.
    pub fn shards(&self) -> Range<u8> {
        0..self.log_shards as u8
    }
}

impl AreaPlaces {
    /// Where shard `shard` of the log lies.
    pub fn log(&self, shard: u8) -> LogPlaces {
        let hosts = u64::from(self.host_count);
        let lines = 1 + hosts + self.ring_entries * 8 / LINE_BYTES;
        let low_water_mark = self.logs.line(u64::from(shard) * lines);
        let applied = low_water_mark.line(1);
        let segments_bytes = hosts * self.segment_entries * LINE_BYTES;
        LogPlaces {
            low_water_mark,
            applied,
            ring: applied.line(hosts),
            segments: self.segments.plus(u64::from(shard) * segments_bytes),
        }
    }
}

/// How many of `all` bytes each area gets: what it wants, or a share of the rest by its weight.
fn shares(all: u64, wanted: &[Option<u64>], weights: &[u64]) -> Vec<u64> {
    let rest = all.saturating_sub(wanted.iter().flatten().sum());
    let open = wanted.iter().zip(weights).filter(|(wanted, _)| wanted.is_none());
    let total = open.map(|(_, weight)| weight).sum();
    let share = |(wanted, &weight): (&Option<u64>, &u64)| {
        wanted.unwrap_or_else(|| proportion(rest, weight, total))
    };
    wanted.iter().zip(weights).map(share).collect()
}

/// `part` of `total`, out of `all`.
fn proportion(all: u64, part: u64, total: u64) -> u64 {
    (u128::from(all) * u128::from(part) / u128::from(total.max(1))) as u64
}

/// Whether `value` is a power of two from `low` to `high`.
///
/// # Errors
/// A clause that says that `name` is not.
pub fn power(name: &str, value: u64, low: u64, high: u64) -> Result<(), String> {
    if value.is_power_of_two() && (low..=high).contains(&value) {
        return Ok(());
    }
    Err(format!("{name} is {value}, not a power of two from {low} to {high}"))
}

/// The greatest power of two that is at most `value`, within `low` and `high`.
pub fn power_of_two_within(value: u64, low: u64, high: u64) -> u64 {
    let rounded_down = (value + 1).next_power_of_two() / 2;
    rounded_down.clamp(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn any(_: Budget) -> Result<[u64; PARAMETERS], String> {
        Ok([0; PARAMETERS])
    }

    fn request(name: &str, scr_bytes: Option<u64>) -> AreaRequest<'static> {
        let log = LogOptions::default();
        AreaRequest {
            kind: Kind::new(name),
            version: 1,
            scr_bytes,
            lnr_bytes: None,
            log,
            plan: &any,
            on_demand: None,
        }
    }

    #[test]
    fn one_area_has_all_the_rest() {
        let layout =
            Layout::plan(1 << 20, 64 << 20, PodOptions::default(), &[request("one", None)])
                .unwrap();
        assert_eq!((layout.areas[0].scr.end(), layout.areas[0].lnr.end()), (1 << 20, 64 << 20));
        layout.check().unwrap();
    }

    #[test]
    fn areas_do_not_overlap_and_share_evenly() {
        let requests = [request("a", Some(100 << 10)), request("b", None), request("c", None)];
        let layout = Layout::plan(1 << 20, 64 << 20, PodOptions::default(), &requests).unwrap();
        layout.check().unwrap();
        let [a, b, c] = &layout.areas[..] else { panic!("three areas") };
        assert!(
            a.scr.bytes <= 100 << 10 && a.scr.end() <= b.scr.start && b.scr.end() <= c.scr.start
        );
        assert!(b.scr.bytes.abs_diff(c.scr.bytes) <= 2 * LINE_BYTES, "{b:?} {c:?}");
        assert!(c.lnr.end() <= 64 << 20 && c.scr.end() <= 1 << 20);
    }

    #[test]
    fn refuses_what_cannot_hold_a_pod() {
        let plan = |scr, lnr, areas: usize| {
            let requests: Vec<_> = (0..areas).map(|_| request("any", None)).collect();
            Layout::plan(scr, lnr, PodOptions::default(), &requests)
        };
        assert!(plan(1 << 10, 1 << 30, 1).is_err());
        assert!(plan(1 << 20, 1 << 10, 1).is_err());
        assert!(plan(1 << 20, u64::MAX, 1).is_err());
        assert!(plan(1 << 30, 1 << 30, MAX_AREAS + 1).is_err());
        plan(1 << 30, 1 << 32, MAX_AREAS).unwrap();
    }

    #[test]
    fn kinds_are_read_back() {
        assert_eq!(Kind::new("objects").to_string(), "objects");
        assert_eq!(Kind::new("eightlet").to_string(), "eightlet");
    }
}
