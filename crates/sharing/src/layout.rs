//! Where objects lie in their area of a pod, and the numbers from which that follows.
//!
//! ```text
//! SCR of the area   scheme and eviction | chunk table | pins | intents | quarantine | latches |
//!                   ends of use rings | records | marks
//! LNR of the area   undo | use rings | chunks
//! ```

use std::ops::Deref;

use tombolo_memory::{LINE_BYTES, LnrAddr, Mapped, Memory, ScrAddr};
use tombolo_pod::{
    Area, AreaLayout, AreaRequest, Budget, Kind, Layout, LogOptions, PARAMETERS, Plan, Pod,
    PodError, PodOptions, PodSpec, Sizes, Stretch, power, power_of_two_within,
};

use crate::options::{Options, RecordWidth, TornWrites};

/// The kind of an area in which objects live that are there as long as the pod is.
pub const OBJECTS: Kind = Kind::new("objects");

/// The kind of an area in which the pages of a page cache live. It keeps nothing once all hosts
/// have left it.
pub const PAGES: Kind = Kind::new("pages");

/// The version of the format of both.
pub const AREA_VERSION: u64 = 3;

/// Words for pins, at most, a power of two: chunks whose numbers differ by a multiple of it share
/// one.
pub const MAX_PIN_WORDS: u64 = 1 << 12;

/// Words of a note of what is under way.
pub const NOTE_WORDS: u64 = 4;

/// In an area for a page cache, a file's head is as it was before if its writer dies, whatever
/// becomes of pages: else no host could tell how long the file was.
const HEAD_UNDO_BYTES: u64 = 128;

/// Bytes of a host's ring of uses: a plan with room for less has none.
const LEAST_USE_RING_BYTES: u64 = 1 << 10;
const MOST_USE_RING_BYTES: u64 = 1 << 20;

/// Chunks of an area for a page cache, at least: for pages, for heads, and to move either to.
const LEAST_PAGE_CHUNKS: u64 = 3;

/// The numbers that determine where objects lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Hosts that the pod is made for.
    pub hosts: u64,
    /// The area's own part of SCR.
    pub scr: Stretch,
    /// The area's own part of LNR.
    pub lnr: Stretch,
    /// Shards of the log, a power of two.
    pub log_shards: u64,
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
    /// Objects that a host may have locked at once, a power of two.
    pub writes: u64,
    /// The fate of an object whose writer dies at it, if it is too large for `undo_bytes`; others
    /// have their old value.
    pub torn_writes: TornWrites,
    /// Bytes in which a write notes what it overwrites, a power of two; 0 if it does not.
    pub undo_bytes: u64,
    /// Latches of a page cache, a power of two; 0 if the area is not for one.
    pub latches: u64,
    /// Whether objects in a host's own memory are in their slots, too.
    pub partition_backup: bool,
    /// Bytes of each host's ring of uses, a power of two; 0 if there are none.
    pub use_ring_bytes: u64,
}

/// Where the parts of an area for objects start.
#[derive(Clone, Copy, Debug)]
pub struct Areas {
    /// Whether its hosts share objects in a way of their own.
    pub scheme: ScrAddr<u64>,
    /// The chunk table, a word a chunk.
    pub chunk_table: ScrAddr<u64>,
    /// Which hosts read what lies in a chunk where it lies: a word for each of the first 4096,
    /// which others share.
    pub pins: ScrAddr<u64>,
    /// Four words per write that a host may have under way, the hosts' words one after the other.
    pub writes: ScrAddr<u64>,
    /// A word per slot into which a host that was fenced may still write, the hosts' words one
    /// after the other.
    pub quarantine: ScrAddr<u64>,
    /// The latches of a page cache, a word each.
    pub latches: ScrAddr<u64>,
    /// A line per host, if there are rings of uses: how many lines of it the host has told.
    pub use_ends: ScrAddr<u64>,
    /// The coherence records.
    pub records: ScrAddr<u64>,
    /// A bit per record, if there are latches.
    pub marks: ScrAddr<u64>,
    /// A byte per record, if there are latches, that tells marked objects roughly apart.
    pub tags: ScrAddr<u8>,
    /// The old bytes of writes under way, in the order of their words.
    pub undo: LnrAddr,
    /// The hosts' rings of uses.
    pub use_rings: LnrAddr,
    /// The chunks.
    pub chunks: LnrAddr,
}

impl Geometry {
    /// A geometry within a budget.
    ///
    /// # Errors
    /// A clause that says what does not fit, or which option is out of range.
    pub fn plan(budget: Budget, options: &Options) -> Result<Self, String> {
        let Budget { hosts, log_shards, scr_share, lnr_share, scr, lnr } = budget;
        let chunk_bytes = options
            .chunk_bytes
            .unwrap_or_else(|| power_of_two_within(lnr_share / 1024, 64 << 10, 2 << 20));
        let writes = options
            .writes
            .unwrap_or_else(|| power_of_two_within(scr_share / 32 / hosts.max(1) / 32, 8, 64));
        let mut geometry = Self {
            hosts,
            scr,
            lnr,
            log_shards,
            chunk_bytes,
            chunks: 0,
            records: 0,
            record_width: options.record_width.unwrap_or_default(),
            counter_bits: u64::from(options.counter_bits.unwrap_or(31)),
            writes,
            torn_writes: options.torn_writes,
            undo_bytes: 0,
            latches: options.latches.unwrap_or(0),
            partition_backup: options.partition_backup,
            use_ring_bytes: options.use_ring_bytes.unwrap_or_else(|| {
                let share = lnr_share / 128 / hosts.max(1);
                let has_rings = share >= LEAST_USE_RING_BYTES && options.latches.is_none();
                power_of_two_within(share, LEAST_USE_RING_BYTES, MOST_USE_RING_BYTES)
                    * u64::from(has_rings)
            }),
        };
        if options.torn_writes == TornWrites::Undo {
            let share = lnr_share / 32 / hosts.max(1) / geometry.writes.max(1);
            geometry.undo_bytes = power_of_two_within(share, 256, 64 << 10);
        } else if geometry.has_marks() {
            geometry.undo_bytes = HEAD_UNDO_BYTES;
        }
        // Places follow from sound numbers only.
        geometry.check_numbers()?;
        let first_chunk = geometry.chunk_area().offset();
        geometry.chunks = lnr.end().saturating_sub(first_chunk) / chunk_bytes;
        let free_scr = scr.end().saturating_sub(geometry.areas().records.offset());
        let width = geometry.record_width;
        let wanted = options.records.map_or(u64::MAX, |n| n.next_multiple_of(width.step()));
        let bytes = if geometry.has_marks() {
            // Where widths are mixed, four records have five marks and tags. Both begin on a line;
            // marks end with a word.
            let bits = 4 * width.least_bits();
            let with_tags = bits + width.numbers(4) * (1 + u64::from(u8::BITS));
            free_scr.saturating_sub(2 * LINE_BYTES + 16) * bits / with_tags
        } else {
            free_scr
        };
        geometry.records = width.records_in(bytes).min(wanted).min(width.most_records());
        geometry.check()?;
        Ok(geometry)
    }

    /// The geometry that an area's entry in the directory tells.
    ///
    /// # Errors
    /// [`PodError::Damaged`] if it makes no sense.
    pub fn within(pod: &Layout, area: &AreaLayout) -> Result<Self, PodError> {
        let (places, words) = (pod.area_places(area), area.parameters);
        let damaged = |what: &str, code| PodError::Damaged(format!("{what} with the code {code}"));
        let geometry = Self {
            hosts: pod.hosts,
            scr: places.scr,
            lnr: places.lnr,
            log_shards: area.log_shards,
            chunk_bytes: words[0],
            chunks: words[1],
            records: words[2],
            record_width: RecordWidth::decode(words[3])
                .ok_or_else(|| damaged("records have no width", words[3]))?,
            counter_bits: words[4],
            writes: words[5],
            torn_writes: TornWrites::decode(words[6])
                .ok_or_else(|| damaged("torn writes have no meaning", words[6]))?,
            undo_bytes: words[7],
            latches: words[8],
            partition_backup: match words[9] {
                0 => false,
                1 => true,
                other => return Err(damaged("there is no backup of partitions", other)),
            },
            use_ring_bytes: words[10],
        };
        geometry.check().map_err(PodError::Damaged)?;
        Ok(geometry)
    }

    /// The parameters in an area's entry of the directory.
    pub fn parameters(&self) -> [u64; PARAMETERS] {
        let used = [
            self.chunk_bytes,
            self.chunks,
            self.records,
            self.record_width.encode(),
            self.counter_bits,
            self.writes,
            self.torn_writes.encode(),
            self.undo_bytes,
            self.latches,
            self.partition_backup.into(),
            self.use_ring_bytes,
        ];
        let mut words = [0; PARAMETERS];
        words[..used.len()].copy_from_slice(&used);
        words
    }

    fn check_numbers(&self) -> Result<(), String> {
        if self.log_shards == 0 {
            return Err("the number of log shards is 0".to_owned());
        }
        power("a chunk", self.chunk_bytes, 1 << 10, 1 << 30)?;
        power("the number of objects that a host may have locked", self.writes, 1, 4096)?;
        if self.torn_writes == TornWrites::Undo || self.undo_bytes > 0 {
            power("what a write may note", self.undo_bytes, 64, 1 << 30)?;
        }
        if !(3..=31).contains(&self.counter_bits) {
            return Err(format!("a counter of {} bits is not within 3 to 31", self.counter_bits));
        }
        if self.latches > 0 {
            power("the number of latches", self.latches, 1, 1 << 16)?;
        }
        if self.use_ring_bytes > 0 {
            power("a host's ring of uses", self.use_ring_bytes, 2 * LINE_BYTES, 1 << 30)?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        self.check_numbers()?;
        if self.records > self.record_width.most_records() || self.chunks > 1 << 32 {
            return Err("it is larger than the format can address".to_owned());
        }
        let (what, least) =
            if self.has_marks() { ("pages", LEAST_PAGE_CHUNKS) } else { ("objects", 1) };
        if self.chunks < least {
            return Err(format!(
                "LNR up to byte {} leaves no room for {what}; {} bytes are the least",
                self.lnr.end(),
                self.chunk_area().offset() + least * self.chunk_bytes
            ));
        }
        if self.records == 0 || !self.records.is_multiple_of(self.record_width.step()) {
            return Err(format!(
                "SCR up to byte {} leaves no room for coherence records; {} bytes are the least",
                self.scr.end(),
                self.areas().records.offset() + 64
            ));
        }
        let areas = self.areas();
        let records_end = areas.records.offset() + self.record_bytes().next_multiple_of(8);
        let scr_end = records_end.max(areas.tags.element(self.tag_bytes()).offset());
        let lnr_end = self.chunk_area().offset() + self.chunks * self.chunk_bytes;
        if scr_end > self.scr.end() || lnr_end > self.lnr.end() {
            return Err("its objects reach beyond their area".to_owned());
        }
        Ok(())
    }

    /// Where the parts start.
    pub fn areas(&self) -> Areas {
        let next_line = |end: u64| end.next_multiple_of(LINE_BYTES);
        let after = |last: ScrAddr<u64>| ScrAddr::<u64>::new(next_line(last.offset()));
        let scheme = ScrAddr::<u64>::new(self.scr.start);
        let chunk_table = scheme.line(1);
        let pins = after(chunk_table.element(self.chunks));
        let writes = after(pins.element(self.pin_words()));
        let quarantine = after(writes.element(self.hosts * self.writes * NOTE_WORDS));
        let latches = after(quarantine.element(self.hosts * self.writes));
        let use_ends = after(latches.element(self.latches));
        let tellers = if self.use_ring_bytes > 0 { self.hosts } else { 0 };
        let records = after(use_ends.line(tellers));
        let marks = after(records.element(self.record_bytes().div_ceil(8)));
        let marks = if self.has_marks() { marks } else { records };
        let tags = next_line(marks.element(self.mark_words()).offset());
        Areas {
            scheme,
            chunk_table,
            pins,
            writes,
            quarantine,
            latches,
            use_ends,
            records,
            marks,
            tags: ScrAddr::new(tags),
            undo: LnrAddr::new(self.lnr.start),
            use_rings: self.use_rings(),
            chunks: self.chunk_area(),
        }
    }

    /// Bytes of SCR for coherence records.
    pub fn record_bytes(&self) -> u64 {
        self.record_width.bytes_for(self.records)
    }

    /// Whether there are a mark and a tag per record, and latches.
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

    /// Bytes of tags.
    pub fn tag_bytes(&self) -> u64 {
        if self.has_marks() { self.record_width.numbers(self.records) } else { 0 }
    }

    fn chunk_area(&self) -> LnrAddr {
        let before = self.use_rings().offset() + self.hosts * self.use_ring_bytes;
        LnrAddr::new(before.next_multiple_of(self.chunk_bytes.min(2 << 20)))
    }

    /// Behind what writes under way have overwritten.
    fn use_rings(&self) -> LnrAddr {
        LnrAddr::new(self.lnr.start + self.hosts * self.writes * self.undo_bytes)
    }
}

/// An area for objects, or for pages, that has been verified, as one host sees it.
#[derive(Clone)]
pub struct ObjectArea<M> {
    area: Area<M>,
    geometry: Geometry,
    /// As of the geometry.
    areas: Areas,
}

impl<M: Memory> ObjectArea<M> {
    /// Verifies that `area` is one for objects or pages.
    ///
    /// # Errors
    /// [`PodError::NoArea`], [`PodError::AreaVersion`] or [`PodError::Damaged`].
    pub fn new(area: Area<M>) -> Result<Self, PodError> {
        let &AreaLayout { kind, version, .. } = area.layout();
        if kind != OBJECTS && kind != PAGES {
            return Err(PodError::NoArea { kind: OBJECTS, there: vec![kind.to_string()] });
        }
        if version != AREA_VERSION {
            return Err(PodError::AreaVersion { kind, found: version, expected: AREA_VERSION });
        }
        let geometry = Geometry::within(area.pod().layout(), area.layout())?;
        Ok(Self { area, areas: geometry.areas(), geometry })
    }

    /// The pod's first area for objects; if there is none, that for pages.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn first(pod: &Pod<M>) -> Result<Self, PodError> {
        Self::new(pod.area_of(OBJECTS).or_else(|none| pod.area_of(PAGES).map_err(|_| none))?)
    }

    /// The numbers that determine where objects lie.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Where the parts of the area start.
    #[inline]
    pub fn areas(&self) -> Areas {
        self.areas
    }

    /// Whether its hosts share objects in another way than by records, or did when they died.
    pub fn is_under_other_scheme(&self) -> bool {
        self.memory().load(self.areas.scheme) != 0
    }

    /// Says that its hosts do so, or that all that did have left it in order.
    pub fn put_under_other_scheme(&self, other: bool) {
        self.memory().store(self.areas.scheme, other.into());
    }
}

impl<M> Deref for ObjectArea<M> {
    type Target = Area<M>;

    fn deref(&self) -> &Area<M> {
        &self.area
    }
}

/// An area that a new pod is to have for objects, or for pages if it has latches.
#[derive(Clone, Copy, Debug, Default)]
pub struct AreaOptions {
    /// Bytes of SCR for it; an even share of the pod's unless given.
    pub scr_bytes: Option<u64>,
    /// Bytes of LNR for it; an even share of the pod's unless given.
    pub lnr_bytes: Option<u64>,
    /// Choices of its layout. Those of the pod as a whole are those of the first area.
    pub layout: Options,
}

/// The layout of a pod of these sizes with these areas.
///
/// # Errors
/// [`PodError::TooSmall`].
pub fn plan_areas(
    scr_bytes: u64,
    lnr_bytes: u64,
    areas: &[AreaOptions],
) -> Result<Layout, PodError> {
    plan_areas_beside(scr_bytes, lnr_bytes, areas, &[])
}

/// The layout of a pod of these sizes with these areas, and behind them areas of other tenants.
///
/// # Errors
/// [`PodError::TooSmall`].
pub fn plan_areas_beside(
    scr_bytes: u64,
    lnr_bytes: u64,
    areas: &[AreaOptions],
    beside: &[AreaRequest<'_>],
) -> Result<Layout, PodError> {
    type Fit = Box<dyn Fn(Budget) -> Result<[u64; PARAMETERS], String>>;
    let fit = |area: &AreaOptions| -> Fit {
        let options = area.layout;
        Box::new(move |budget| Ok(Geometry::plan(budget, &options)?.parameters()))
    };
    let fits: Vec<Fit> = areas.iter().map(fit).collect();
    let requests: Vec<AreaRequest<'_>> = areas
        .iter()
        .zip(&fits)
        .map(|(area, fit)| AreaRequest {
            kind: if area.layout.latches.is_some_and(|latches| latches > 0) {
                PAGES
            } else {
                OBJECTS
            },
            version: AREA_VERSION,
            scr_bytes: area.scr_bytes,
            lnr_bytes: area.lnr_bytes,
            log: LogOptions {
                shards: area.layout.log_shards,
                ring_entries: area.layout.ring_entries,
                segment_entries: area.layout.segment_entries,
            },
            plan: &**fit,
            on_demand: Some(chunk_bytes),
        })
        .chain(beside.iter().copied())
        .collect();
    let first = areas.first().map(|area| area.layout).unwrap_or_default();
    let options = PodOptions { hosts: first.hosts, mail_slots: first.mail_slots };
    Layout::plan(scr_bytes, lnr_bytes, options, &requests)
}

/// Bytes of LNR that an area's chunks take: memory is behind a chunk while a host uses it.
fn chunk_bytes(layout: &Layout, area: &AreaLayout) -> u64 {
    let chunks = |geometry: Geometry| geometry.lnr.end() - geometry.areas().chunks.offset();
    Geometry::within(layout, area).map_or(0, chunks)
}

/// The layout of a pod of these sizes with one area, for objects, or for pages if it has latches.
///
/// # Errors
/// [`PodError::TooSmall`].
pub fn plan_layout(scr_bytes: u64, lnr_bytes: u64, options: Options) -> Result<Layout, PodError> {
    plan_areas(scr_bytes, lnr_bytes, &[AreaOptions { layout: options, ..Default::default() }])
}

/// Options for a new pod that has one area, for objects or pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreateOptions {
    /// Bytes of SCR; if not given, all of a memory that is for SCR alone, else 64 MiB or a quarter.
    pub scr_bytes: Option<u64>,
    /// Bytes of LNR; if not given, all there are.
    pub lnr_bytes: Option<u64>,
    /// Choices of layout.
    pub layout: Options,
    /// Overwrite what is there.
    pub force: bool,
    /// Create it even if there is less room than it may come to take.
    pub sparse: bool,
}

impl CreateOptions {
    /// A pod with `lnr_bytes` bytes of LNR.
    pub fn sized(lnr_bytes: u64) -> Self {
        Self { lnr_bytes: Some(lnr_bytes), ..Self::default() }
    }

    /// Each host may have so many rooms reserved at once, up to 2,048.
    #[must_use]
    pub fn with_rooms(mut self, rooms: u64) -> Self {
        // Half of a host's intents stay for all other operations.
        self.layout.writes = Some((2 * rooms.max(4)).next_power_of_two());
        self
    }

    /// Overwrite what is there.
    #[must_use]
    pub fn forced(self) -> Self {
        Self { force: true, ..self }
    }

    /// The area.
    pub fn area(&self) -> AreaOptions {
        AreaOptions { layout: self.layout, ..AreaOptions::default() }
    }

    /// How much memory the pod is to take.
    pub fn sizes(&self) -> Sizes {
        let &Self { scr_bytes, lnr_bytes, force, sparse, .. } = self;
        Sizes { scr_bytes, lnr_bytes, force, sparse }
    }
}

/// Creates an empty pod with one area, for objects or pages, in mapped memory.
///
/// # Errors
/// As of [`tombolo_pod::create`].
pub fn create(spec: &PodSpec, options: CreateOptions) -> Result<Pod<Mapped>, PodError> {
    create_areas(spec, options.sizes(), &[options.area()])
}

/// Creates an empty pod with several areas for objects or pages, in mapped memory.
///
/// # Errors
/// As of [`tombolo_pod::create`].
pub fn create_areas(
    spec: &PodSpec,
    sizes: Sizes,
    areas: &[AreaOptions],
) -> Result<Pod<Mapped>, PodError> {
    create_planned(spec, sizes, areas, &|scr, lnr| plan_areas(scr, lnr, areas))
}

/// The same by a plan that puts these areas first, and perhaps others behind them.
///
/// # Errors
/// As of [`tombolo_pod::create`].
pub fn create_planned(
    spec: &PodSpec,
    sizes: Sizes,
    areas: &[AreaOptions],
    plan: Plan<'_>,
) -> Result<Pod<Mapped>, PodError> {
    let pod = tombolo_pod::create(spec, sizes, plan)?;
    for (area, options) in pod.areas().zip(areas) {
        ObjectArea::new(area)?.set_eviction_policy(options.layout.eviction);
    }
    Ok(pod)
}

/// The layout that [`create_areas`] would give a pod, without changing anything.
///
/// # Errors
/// As of [`create_areas`], but for what only shows when room is taken.
pub fn plan_created(
    spec: &PodSpec,
    sizes: Sizes,
    areas: &[AreaOptions],
) -> Result<Layout, PodError> {
    tombolo_pod::plan(spec, sizes, &|scr, lnr| plan_areas(scr, lnr, areas))
}

#[cfg(test)]
mod tests {
    use tombolo_simulator::{Config, Simulation, Trial};

    use super::*;

    fn planned(scr: u64, lnr: u64, options: Options) -> Result<Geometry, PodError> {
        let layout = plan_layout(scr, lnr, options)?;
        let places = layout.area_places(&layout.areas[0]);
        let budget = Budget {
            hosts: layout.hosts,
            log_shards: layout.areas[0].log_shards,
            scr_share: scr,
            lnr_share: lnr,
            scr: places.scr,
            lnr: places.lnr,
        };
        Geometry::plan(budget, &options).map_err(PodError::TooSmall)
    }

    #[test]
    fn plans_from_small_to_large() {
        for (scr, lnr) in
            [(32 << 10, 4 << 20), (1 << 20, 64 << 20), (64 << 20, 1 << 30), (1 << 30, 4 << 40)]
        {
            let geometry = planned(scr, lnr, Options::default()).unwrap();
            geometry.check().unwrap();
            let used = geometry.chunks * geometry.chunk_bytes;
            assert!(used * 10 >= lnr * 8, "{scr} {lnr}: only {used} for objects");
        }
    }

    #[test]
    fn a_pod_for_pages_has_a_mark_and_a_tag_for_each_record() {
        for (scr, lnr) in [(32 << 10, 4 << 20), (1 << 20, 64 << 20), (1 << 30, 4 << 40)] {
            let options = Options { latches: Some(16), ..Options::default() };
            let geometry = planned(scr, lnr, options).unwrap();
            let areas = geometry.areas();
            assert!(areas.latches.element(16).offset() <= areas.records.offset());
            assert!(areas.records.offset() + geometry.record_bytes() <= areas.marks.offset());
            assert!(areas.marks.element(geometry.mark_words()).offset() <= areas.tags.offset());
            assert!(areas.tags.element(geometry.tag_bytes()).offset() <= scr);
            let plain = planned(scr, lnr, Options::default()).unwrap();
            assert!(geometry.records * 42 / 32 + 100 >= plain.records);
        }
    }

    #[test]
    fn refuses_what_cannot_hold_a_pod() {
        assert!(planned(1 << 10, 1 << 30, Options::default()).is_err());
        assert!(planned(1 << 20, 1 << 10, Options::default()).is_err());
        assert!(planned(1 << 20, u64::MAX, Options::default()).is_err());
        let odd = Options { ring_entries: Some(100), ..Options::default() };
        assert!(planned(1 << 20, 64 << 20, odd).is_err());
        for mail_slots in [0, 3, 128] {
            let odd = Options { mail_slots: Some(mail_slots), ..Options::default() };
            assert!(planned(1 << 20, 64 << 20, odd).is_err(), "{mail_slots} slots");
        }
        for hosts in [0, 65, 255] {
            let odd = Options { hosts: Some(hosts), ..Options::default() };
            let error = planned(1 << 20, 64 << 20, odd).unwrap_err().to_string();
            assert!(error.contains(&format!("{hosts} hosts")), "{error}");
        }
        for log_shards in [0, 3, 32, 1 << 63].map(Some) {
            let odd = Options { log_shards, ..Options::default() };
            assert!(planned(1 << 20, 64 << 20, odd).is_err());
        }
    }

    /// Pods for a page cache were created in which no file could be written.
    #[test]
    fn a_pod_for_pages_has_room_for_heads_and_pages() {
        let options = Options { latches: Some(16), ..Options::default() };
        let least = (0..64).map(|chunks| chunks << 16);
        let least = least.filter(|&lnr| planned(64 << 10, lnr, options).is_ok()).min().unwrap();
        assert_eq!(planned(64 << 10, least, options).unwrap().chunks, LEAST_PAGE_CHUNKS);
        let refused = planned(64 << 10, least - 1, options).unwrap_err().to_string();
        assert!(refused.contains(&format!("{least} bytes are the least")), "{refused}");
    }

    #[test]
    fn parts_follow_each_other() {
        for hosts in [1, 2, 16, 37, 64] {
            let options = Options { hosts: Some(hosts), ..Options::default() };
            let geometry = planned(1 << 20, 64 << 20, options).unwrap();
            let areas = geometry.areas();
            assert!(geometry.scr.start < areas.chunk_table.offset());
            assert!(areas.chunk_table.element(geometry.chunks).offset() <= areas.pins.offset());
            let pins_end = areas.pins.element(geometry.pin_words()).offset();
            assert!(pins_end <= areas.writes.offset());
            let notes = geometry.hosts * geometry.writes * NOTE_WORDS;
            assert!(areas.writes.element(notes).offset() <= areas.quarantine.offset());
            assert!(areas.quarantine.offset() < areas.records.offset());
            assert!(areas.undo <= areas.chunks);
        }
    }

    /// It was said to be 320 bytes, which left out what a host's writes take.
    #[test]
    fn hosts_that_may_come_cost_768_to_3008_bytes_of_scr() {
        // All but the chunk table: more hosts leave less LNR for chunks.
        let overhead = |hosts, writes| {
            let options =
                Options { hosts: Some(hosts), writes: Some(writes), ..Options::default() };
            let geometry = planned(1 << 20, 64 << 20, options).unwrap();
            let areas = geometry.areas();
            geometry.scr.start + areas.records.offset() - areas.writes.offset()
        };
        // A line in the host table, one for its name, two of mail, one in the roster, one in the
        // log, and one for its ring of uses. Eight writes have four lines of notes, and one for
        // what they may leave.
        for (writes, bytes) in [(8, 768), (64, 3_008)] {
            assert_eq!(bytes, (7 + writes / 8 * 5) * LINE_BYTES);
            assert_eq!(overhead(16, writes) - overhead(2, writes), 14 * bytes);
            assert_eq!(overhead(64, writes) - overhead(16, writes), 48 * bytes);
        }
    }

    #[test]
    fn what_the_directory_says_reads_back() {
        let options = Options {
            latches: Some(16),
            torn_writes: TornWrites::Undo,
            partition_backup: true,
            record_width: Some(RecordWidth::Auto),
            log_shards: Some(4),
            ..Options::default()
        };
        let expected = planned(1 << 20, 64 << 20, options).unwrap();
        let config = Config { scr_bytes: 1 << 20, lnr_bytes: 64 << 20, ..Config::default() };
        let memory = Simulation::new(config, &Trial::new(0)).memory(0);
        let layout = plan_layout(1 << 20, 64 << 20, options).unwrap();
        let pod = Pod::format(memory, &layout).unwrap();
        assert_eq!(*ObjectArea::first(&pod).unwrap().geometry(), expected);
        assert_eq!(pod.areas().next().unwrap().layout().kind, PAGES);
        let odd = Options { latches: Some(100), ..Options::default() };
        assert!(planned(1 << 20, 64 << 20, odd).is_err());
    }
}
