//! `tombolo pod`.

mod eviction;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::unistd::Group;
use serde::Serialize;
use tombolo::{AreaOptions, LayoutOptions, Objects, Options, Pod, PodSpec, format_size};
use tombolo_log::Ring;
use tombolo_memory::{Mapped, Memory, Source};
use tombolo_objects::{Census, Findings, SlotSize};
use tombolo_pod::{
    Area, CLOCKS_AGREE_MS, Clocks, DEFAULT_HOSTS, Kind, Layout, Phase, SeatState, Stay,
};
use tombolo_sharing::{CreateOptions, Geometry, OBJECTS, ObjectArea, TornWrites};

use self::eviction::EvictionInfo;
use crate::cli::{CreateArgs, EngineKind, FenceArgs, InfoArgs, PodCheckArgs, Sizes};
use crate::messages;
use crate::output::{PROBLEMS, pairs, print};
use crate::qualify::{known, unqualified};

impl Sizes {
    /// Bytes that are asked for.
    pub(crate) fn total(&self) -> u64 {
        self.size.unwrap_or(0).saturating_add(self.scr.unwrap_or(0))
    }

    /// A pod like this for so many hosts that a command starts, and for others that may come.
    pub(crate) fn options_for(&self, hosts: u8) -> CreateOptions {
        self.options(hosts.max(DEFAULT_HOSTS))
    }

    /// The options of `pod create` for the pod.
    fn options(&self, hosts: u8) -> CreateOptions {
        let layout = LayoutOptions {
            hosts: Some(hosts),
            records: self.records,
            record_width: self.record_bits,
            log_shards: self.log_shards,
            torn_writes: self.torn_writes,
            partition_backup: self.partition_backup,
            eviction: self.evict.unwrap_or_default(),
            ..Default::default()
        };
        CreateOptions { scr_bytes: self.scr, lnr_bytes: self.size, layout, ..Default::default() }
    }
}

/// The properties of a pod as a whole.
#[derive(Serialize)]
struct Whole {
    max_hosts: u64,
    scr_bytes: u64,
    lnr_bytes: u64,
}

impl From<&Layout> for Whole {
    fn from(layout: &Layout) -> Self {
        let &Layout { hosts: max_hosts, scr_bytes, lnr_bytes, .. } = layout;
        Self { max_hosts, scr_bytes, lnr_bytes }
    }
}

impl Whole {
    fn rows(&self) -> Vec<(&'static str, String)> {
        vec![
            ("for", format!("up to {} hosts", self.max_hosts)),
            ("SCR", format_size(self.scr_bytes)),
            ("LNR", format_size(self.lnr_bytes)),
        ]
    }
}

/// The properties of an area.
#[derive(Serialize)]
struct AreaLayout {
    /// The kind of its tenant.
    kind: String,
    version: u64,
    scr_bytes: u64,
    lnr_bytes: u64,
    log_shards: u64,
    ring_entries: u64,
    /// Nothing, if this program does not know what lives in the area.
    #[serde(flatten)]
    objects: Option<ObjectLayout>,
}

/// The properties of an area for objects or pages.
#[derive(Serialize)]
struct ObjectLayout {
    /// The bytes of SCR for hosts, the log and tables, whatever is in the area.
    scr_fixed_bytes: u64,
    chunk_bytes: u64,
    chunks: u64,
    records: u64,
    record_bits: String,
    torn_writes: String,
    partition_backup: bool,
    page_cache: bool,
}

impl ObjectLayout {
    fn of(geometry: &Geometry, scr_start: u64) -> Self {
        Self {
            scr_fixed_bytes: geometry.areas().records.offset() - scr_start,
            chunk_bytes: geometry.chunk_bytes,
            chunks: geometry.chunks,
            records: geometry.records,
            record_bits: geometry.record_width.to_string(),
            torn_writes: geometry.torn_writes.to_string(),
            partition_backup: geometry.partition_backup,
            page_cache: geometry.has_marks(),
        }
    }

    fn of_torn(&self) -> &'static str {
        if self.torn_writes == TornWrites::Undo.to_string() {
            "has its old value"
        } else {
            "is lost"
        }
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let partitions =
            if self.partition_backup { "in the pod, too" } else { "lost with their host" };
        vec![
            ("  of it, hosts, log and tables", format_size(self.scr_fixed_bytes)),
            ("  coherence records", format!("{} of {} bits", self.records, self.record_bits)),
            ("  writes that are cut off", format!("the object {}", self.of_torn())),
            ("  objects in hosts' own memory", partitions.to_owned()),
            ("  chunks", format!("{} of {}", self.chunks, format_size(self.chunk_bytes))),
        ]
    }
}

impl AreaLayout {
    fn of(layout: &Layout, area: &tombolo_pod::AreaLayout) -> Self {
        let geometry = Geometry::within(layout, area).ok().filter(|_| is_known(area));
        Self {
            kind: area.kind.to_string(),
            version: area.version,
            scr_bytes: area.scr.bytes,
            lnr_bytes: area.lnr.bytes,
            log_shards: area.log_shards,
            ring_entries: area.ring_entries,
            objects: geometry.map(|geometry| ObjectLayout::of(&geometry, area.scr.start)),
        }
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let made_for = match &self.objects {
            Some(objects) if objects.page_cache => "a page cache".to_owned(),
            Some(_) => "objects".to_owned(),
            None => name_of_kind(&self.kind),
        };
        let mut rows = vec![
            ("made for", made_for),
            ("  SCR", format_size(self.scr_bytes)),
            ("  LNR", format_size(self.lnr_bytes)),
            ("  log shards", self.log_shards.to_string()),
            ("  log entries per shard", self.ring_entries.to_string()),
        ];
        rows.extend(self.objects.iter().flat_map(ObjectLayout::rows));
        rows
    }
}

/// The name of what an area is made for that holds neither objects nor pages.
fn name_of_kind(kind: &str) -> String {
    let is = |other: Kind| other.to_string() == kind;
    let engine = EngineKind::ALL.into_iter().find(|engine| is(engine.kind()));
    match engine {
        Some(engine) => format!("a database of the engine {}", engine.name()),
        None if is(tombolo_messages::KIND) => "messages".to_owned(),
        None if is(tombolo_regions::KIND) => "regions".to_owned(),
        None => format!("{kind}, which this program does not know"),
    }
}

/// Whether objects or pages live in an area, in the format that this program reads.
fn is_known(area: &tombolo_pod::AreaLayout) -> bool {
    let kinds = [OBJECTS, tombolo_sharing::PAGES];
    kinds.contains(&area.kind) && area.version == tombolo_sharing::AREA_VERSION
}

/// Latches of a page cache: more than there are threads that admit pages.
pub(crate) const LATCHES: u64 = 256;

/// The outcome of a request for huge pages.
#[derive(Serialize)]
struct Huge {
    /// Bytes of the pod that are in huge pages.
    bytes: u64,
    of_bytes: u64,
}

impl Huge {
    /// Nothing, if nobody has asked, or the system does not tell.
    fn of(spec: &PodSpec, pod: &Pod) -> Option<Self> {
        let asked = spec.scr.huge || spec.lnr.as_ref().is_some_and(|lnr| lnr.huge);
        let of_bytes = pod.layout().scr_bytes + pod.layout().lnr_bytes;
        let bytes = pod.memory().huge_bytes().ok().filter(|_| asked)?;
        Some(Self { bytes, of_bytes })
    }

    fn row(&self) -> (&'static str, String) {
        let advice = if self.bytes < self.of_bytes / 2 {
            "; the system has no more: see /sys/kernel/mm/transparent_hugepage/shmem_enabled"
        } else {
            ""
        };
        let (bytes, all) = (format_size(self.bytes), format_size(self.of_bytes));
        ("in huge pages", format!("{bytes} of {all}{advice}"))
    }
}

#[derive(Serialize)]
struct Created {
    spec: String,
    uuid: Option<String>,
    layout: Whole,
    huge_pages: Option<Huge>,
    areas: Vec<AreaLayout>,
}

/// The areas that a new pod is to have: objects, a page cache, or both.
fn areas(args: &CreateArgs, options: &CreateOptions) -> Vec<AreaOptions> {
    let objects = options.area();
    let latches = LayoutOptions { latches: Some(LATCHES), ..objects.layout };
    let pages = |lnr_bytes| AreaOptions { scr_bytes: None, lnr_bytes, layout: latches };
    match args.page_cache {
        None => vec![objects],
        Some(None) => vec![pages(None)],
        Some(Some(size)) => vec![objects, pages(Some(size))],
    }
}

/// To whom the files of a new pod are open.
struct Access {
    mode: Option<u32>,
    group: Option<u32>,
}

impl Access {
    /// Errors in the arguments are reported before anything is created.
    fn new(args: &CreateArgs) -> Result<Self> {
        let number = |name: &String| -> Result<u32> {
            let group = Group::from_name(name).context("cannot look at the groups")?;
            let group = group.with_context(|| format!("there is no group {name:?}"))?;
            Ok(group.gid.as_raw())
        };
        Ok(Self { mode: args.mode, group: args.group.as_ref().map(number).transpose()? })
    }

    /// Applies it to the files of a pod that was just created.
    fn apply(&self, spec: &PodSpec) -> Result<()> {
        let memories = [&spec.scr].into_iter().chain(&spec.lnr);
        let paths = memories.filter_map(|memory| match &memory.source {
            Source::Path(path) if path.is_file() => Some(path),
            _ => None,
        });
        for path in paths {
            let created = || format!("the pod is created, but {} stays as it is", path.display());
            if self.group.is_some() {
                chown(path, None, self.group).with_context(created)?;
            }
            if let Some(mode) = self.mode {
                set_permissions(path, Permissions::from_mode(mode)).with_context(created)?;
            }
        }
        Ok(())
    }
}

/// Whether a command that creates a pod has nothing to do.
fn is_there(args: &CreateArgs) -> Result<bool> {
    if !args.if_absent {
        return Ok(false);
    }
    let Ok(pod) = tombolo_pod::inspect(&args.spec) else { return Ok(false) };
    print(&Info::of(&args.spec, &pod), args.format, Info::text)?;
    Ok(true)
}

pub(crate) fn create(args: &CreateArgs) -> Result<()> {
    if is_there(args)? {
        return Ok(());
    }
    let access = Access::new(args)?;
    let spec = args.spec.clone().trusted(args.trust_me);
    let mut options = args.sizes.options(args.hosts);
    (options.force, options.sparse) = (args.force, args.sparse);
    options.layout.chunk_bytes = args.chunk;
    let areas = areas(args, &options);
    // Servers send messages, and none serves pages alone.
    let message_bytes = if args.page_cache == Some(None) { Some(0) } else { args.messages };
    let plan: tombolo_pod::Plan<'_> = &|scr, lnr| messages::plan((scr, lnr), &areas, message_bytes);
    let (uuid, layout, huge_pages) = if args.dry_run {
        (None, tombolo_pod::plan(&spec, options.sizes(), plan)?, None)
    } else {
        let pod = tombolo_sharing::create_planned(&spec, options.sizes(), &areas, plan)?;
        access.apply(&args.spec)?;
        if let Some(said) = unqualified(&args.spec, &pod) {
            eprintln!("tombolo: {said}");
        }
        let uuid = pod.identity().uuid.to_string();
        (Some(uuid), pod.layout().clone(), Huge::of(&args.spec, &pod))
    };
    let of = |area| AreaLayout::of(&layout, area);
    let created = Created {
        spec: args.spec.to_string(),
        uuid,
        layout: (&layout).into(),
        huge_pages,
        areas: layout.areas.iter().map(of).collect(),
    };
    print(&created, args.format, |created| {
        let what = match &created.uuid {
            Some(uuid) => ("created", uuid.clone()),
            None => ("would create", "a pod".to_owned()),
        };
        let mut rows = vec![what, ("in", created.spec.clone())];
        rows.extend(created.layout.rows());
        rows.extend(created.huge_pages.iter().map(Huge::row));
        rows.extend(created.areas.iter().flat_map(AreaLayout::rows));
        pairs(&rows)
    })
}

/// Twice as long as a host takes to tell the time again.
const CLOCKS_TELL: Duration = Duration::from_millis(300);

/// A host that takes part in an area.
#[derive(Serialize)]
struct Host {
    host: u8,
    pid: u64,
    ready: bool,
    log_lag: u64,
}

/// An area, and the hosts that take part in it.
#[derive(Serialize)]
struct AreaInfo {
    #[serde(flatten)]
    layout: AreaLayout,
    state: &'static str,
    /// Summed up over the log's shards, as are the hosts' lags.
    log_tail: u64,
    hosts: Vec<Host>,
    /// Hosts that were fenced, and are not cleared up after here.
    fenced: Vec<u8>,
    /// Chunks of LNR that get no new objects because of memory errors.
    chunks_poisoned: u64,
    /// Nothing, if this program does not know what lives in the area.
    eviction: Option<EvictionInfo>,
    /// Chunks by their use; nothing, if no objects live in the area.
    #[serde(flatten)]
    chunks: Option<Chunks>,
}

/// How many chunks there are of each kind.
#[derive(Serialize)]
struct Chunks {
    chunks_by_slot_bytes: BTreeMap<u64, Slots>,
    chunks_of_large_objects: u64,
    chunks_free: u64,
    /// Those behind which no memory was taken.
    chunks_untaken: u64,
}

/// Slots of one size.
#[derive(Serialize)]
struct Slots {
    chunks: u64,
    /// Those behind which there is memory.
    prepared: u64,
}

impl From<Census> for Chunks {
    fn from(census: Census) -> Self {
        let of = |size: SlotSize| (size.bytes, Slots { chunks: size.chunks, prepared: size.slots });
        Self {
            chunks_by_slot_bytes: census.sizes.into_iter().map(of).collect(),
            chunks_of_large_objects: census.large,
            chunks_free: census.free,
            chunks_untaken: census.untaken,
        }
    }
}

impl Chunks {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let large = self.chunks_of_large_objects;
        let carved: u64 = self.chunks_by_slot_bytes.values().map(|slots| slots.chunks).sum();
        let mut uses = vec![format!("{carved} with slots"), format!("{large} of large objects")];
        uses.push(format!("{} free", self.chunks_free));
        uses.push(format!("{} that take no memory", self.chunks_untaken));
        let mut rows = vec![("  chunks by use", uses.join(", "))];
        rows.extend(self.chunks_by_slot_bytes.iter().map(|(&bytes, slots)| {
            let Slots { chunks, prepared } = slots;
            let size = format_size(bytes);
            ("  slots", format!("of {size}: {prepared} in {chunks} chunks"))
        }));
        rows
    }
}

/// A host that is in the pod.
#[derive(Serialize)]
struct Seat {
    host: u8,
    pid: u64,
    /// Whether it is known to live: as far as its machine is this one.
    alive: bool,
    /// Whether it is known to have ended.
    ended: bool,
    /// By how many milliseconds its clock is ahead of this machine's, if it tells.
    clock_ahead_ms: Option<i64>,
}

#[derive(Serialize)]
struct Info {
    spec: String,
    uuid: String,
    format_version: u64,
    /// The verdict of `qualify` on the memory; nothing, if it was never asked.
    qualified: Option<String>,
    layout: Whole,
    /// Bytes that the system has put behind the pod's files; nothing for a device.
    taken_bytes: Option<u64>,
    huge_pages: Option<Huge>,
    hosts: Vec<Seat>,
    /// Hosts that were fenced, and are not known to be gone, or not cleared up after in some area.
    fenced: Vec<u8>,
    areas: Vec<AreaInfo>,
}

impl AreaInfo {
    fn of(pod: &Pod, area: &Area<Mapped>) -> Self {
        let members = area.membership();
        let rings: Vec<_> = area.layout().shards().map(|shard| Ring::new(area, shard)).collect();
        let tails: Vec<u64> = rings.iter().map(Ring::tail).collect();
        let mut lags: BTreeMap<u8, u64> = members.hosts().map(|host| (host, 0)).collect();
        for (ring, tail) in rings.iter().zip(&tails) {
            for (host, applied) in ring.progress() {
                *lags.entry(host).or_default() += tail.saturating_sub(applied);
            }
        }
        let host = |(host, log_lag): (u8, u64)| Host {
            host,
            pid: pod.pid_at(host),
            ready: members.is_ready(host),
            log_lag,
        };
        let objects = ObjectArea::new(area.clone());
        Self {
            layout: AreaLayout::of(pod.layout(), area.layout()),
            state: match members.phase() {
                Phase::Closed => "closed",
                Phase::Opening => "opening",
                Phase::Open => "open",
                Phase::Closing => "closing",
            },
            log_tail: tails.iter().sum(),
            hosts: lags.into_iter().map(host).collect(),
            fenced: members.fenced().collect(),
            eviction: objects
                .as_ref()
                .ok()
                .filter(|area| !area.geometry().has_marks())
                .map(EvictionInfo::of),
            chunks_poisoned: objects.as_ref().map_or(0, tombolo_objects::poisoned_chunks),
            chunks: objects.ok().map(|area| tombolo_objects::census(&area).into()),
        }
    }

    fn text(&self) -> String {
        let mut rows = self.layout.rows();
        rows.extend(self.eviction.iter().flat_map(EvictionInfo::rows));
        rows.extend([
            ("  state", self.state.to_owned()),
            ("  log tail", self.log_tail.to_string()),
            ("  hosts", self.hosts.len().to_string()),
        ]);
        rows.extend(self.chunks.iter().flat_map(Chunks::rows));
        let mut text = pairs(&rows);
        for host in &self.hosts {
            let ready = if host.ready { "" } else { ", joining" };
            text += &format!(
                "  host {}: pid {}{ready}, {} entries behind\n",
                host.host, host.pid, host.log_lag
            );
        }
        for host in &self.fenced {
            text += &format!(
                "  host {host}: fenced; a host that takes part here clears up after it once it is gone\n"
            );
        }
        if self.chunks_poisoned > 0 {
            text += &format!(
                "  {} chunks have memory errors, and get no new objects; have the device checked\n",
                self.chunks_poisoned
            );
        }
        text
    }
}

impl Info {
    fn of(spec: &PodSpec, pod: &Pod) -> Self {
        let clocks = clocks(pod);
        let areas: Vec<_> = pod.areas().map(|area| AreaInfo::of(pod, &area)).collect();
        let seats = pod.stays_in(SeatState::Fenced).map(|stay| stay.host);
        let fenced: BTreeSet<u8> =
            areas.iter().flat_map(|area| area.fenced.clone()).chain(seats).collect();
        Self {
            spec: spec.to_string(),
            uuid: pod.identity().uuid.to_string(),
            format_version: tombolo_pod::FORMAT_VERSION,
            qualified: known(pod),
            layout: pod.layout().into(),
            taken_bytes: pod.memory().taken_bytes(),
            huge_pages: Huge::of(spec, pod),
            hosts: pod
                .stays_in(SeatState::Seated)
                .map(|stay| Seat::of(pod, stay, &clocks))
                .collect(),
            fenced: fenced.into_iter().collect(),
            areas,
        }
    }

    fn text(&self) -> String {
        let mut rows = vec![
            ("pod", self.uuid.clone()),
            ("in", self.spec.clone()),
            ("format version", self.format_version.to_string()),
        ];
        rows.extend(self.qualified.iter().map(|verdict| ("qualified", verdict.clone())));
        rows.extend(self.layout.rows());
        rows.extend(self.taken_bytes.map(|bytes| ("memory taken", format_size(bytes))));
        rows.extend(self.huge_pages.iter().map(Huge::row));
        rows.push(("hosts", self.hosts.len().to_string()));
        let mut text = pairs(&rows);
        text.extend(self.hosts.iter().map(Seat::text));
        for host in &self.fenced {
            text += &format!(
                "  host {host}: fenced; if it is gone, and nothing here can tell, say so with `tombolo pod fence {} {host} --gone`\n",
                self.spec
            );
        }
        text.extend(self.areas.iter().map(AreaInfo::text));
        text
    }
}

impl Seat {
    fn of(pod: &Pod, stay: Stay, clocks: &Clocks) -> Self {
        let ended = pod.has_ended(stay);
        let process = pod.process_of(stay);
        let known = process.is_some_and(|process| pod.memory().would_know(process));
        Self {
            host: stay.host,
            pid: pod.pid_at(stay.host),
            alive: known && !ended,
            ended,
            clock_ahead_ms: clocks.ahead_ms(stay.host),
        }
    }

    fn text(&self) -> String {
        let alive = match (self.alive, self.ended) {
            (true, _) => "",
            (_, true) => ", dead",
            _ => ", not on this machine",
        };
        let clock = self
            .clock_ahead_ms
            .filter(|ahead| ahead.unsigned_abs() > CLOCKS_AGREE_MS)
            .map_or(String::new(), |ahead| {
                let seconds = ahead as f64 / 1000.0;
                format!(
                    "\n    its clock is {seconds:.1} s ahead of this machine's: keys expire by the one that is ahead; set them"
                )
            });
        format!("  host {}: pid {}{alive}{clock}\n", self.host, self.pid)
    }
}

/// The clocks of hosts that tell them while this looks, for a moment.
fn clocks(pod: &Pod) -> Clocks {
    let (mut clocks, started) = (Clocks::default(), Instant::now());
    let all_told = |clocks: &Clocks| {
        pod.stays_in(SeatState::Seated).all(|stay| clocks.ahead_ms(stay.host).is_some())
    };
    while !all_told(&clocks) && started.elapsed() < CLOCKS_TELL {
        clocks.look(pod, None);
        thread::sleep(Duration::from_millis(5));
    }
    clocks
}

pub(crate) fn info(args: &InfoArgs) -> Result<()> {
    let pod = tombolo_pod::inspect(&args.spec)?;
    print(&Info::of(&args.spec, &pod), args.format, Info::text)
}

#[derive(Serialize)]
struct Fenced {
    host: u8,
    pid: u64,
    /// Whether it had a seat, and this command took it.
    fenced: bool,
    gone: bool,
}

pub(crate) fn fence(args: &FenceArgs) -> Result<()> {
    let (pod, host) = (tombolo_pod::administer(&args.spec)?, args.host);
    let hosts = pod.layout().hosts;
    ensure!(u64::from(host) < hosts, "the pod is made for {hosts} hosts, 0 to {}", hosts - 1);
    let stay = pod.stay_of(host);
    let fenced = pod.fence(stay);
    ensure!(
        pod.is_fenced(stay),
        "host {host} is not in the pod; `tombolo pod info {}` tells who is",
        args.spec
    );
    if args.gone {
        pod.note_gone(stay);
    }
    let pid = pod.pid_at(host);
    let result = Fenced { host, pid, fenced, gone: pod.is_gone(stay) };
    print(&result, args.format, |result| {
        let what = if result.fenced { "fenced" } else { "fenced before" };
        let then = if result.gone { "gone: the others clear up" } else { "not known to be gone" };
        format!("host {} (pid {}): {what}, {then}\n", result.host, result.pid)
    })
}

/// Puts a pod in order whose hosts have all ended: by opening it, and leaving it again.
fn repair(spec: &PodSpec) -> Result<()> {
    let pod = tombolo_pod::open(spec)?;
    for stay in pod.stays_in(SeatState::Seated) {
        let (host, pid) = (stay.host, pod.pid_at(stay.host));
        ensure!(
            pod.has_ended(stay),
            "host {host} (pid {pid}) is in the pod, or not known to have ended: nothing is repaired under its hands; stop it, or say that it is gone with `tombolo pod fence {spec} {host} --gone`"
        );
    }
    Ok(Objects::join_pod(pod, Options::default())?.leave()?)
}

#[derive(Serialize)]
struct Checked {
    pod: Info,
    /// Whether objects were looked at, too: not if hosts are in the pod.
    objects_checked: bool,
    objects: u64,
    key_bytes: u64,
    value_bytes: u64,
    chunks_used: u64,
    problems: Vec<String>,
}

pub(crate) fn check(args: &PodCheckArgs) -> Result<ExitCode> {
    if args.repair {
        repair(&args.spec)?;
    }
    let pod = tombolo_pod::inspect(&args.spec)?;
    let closed = |area: &Area<Mapped>| area.membership().phase() == Phase::Closed;
    let objects_checked = pod.areas().all(|area| closed(&area));
    let mut findings = Findings::default();
    for area in pod.areas().filter(|area| is_known(area.layout()) && objects_checked) {
        findings.add(tombolo_objects::check(&ObjectArea::new(area)?));
    }
    let info = Info::of(&args.spec, &pod);
    for seat in info.hosts.iter().filter(|seat| !seat.alive) {
        findings.problems.push(format!(
            "host {0} (pid {1}) has a seat but does not run on this machine; the others clear up after it, or `--repair` does if there are none; if it ran on another machine, say that it is gone with `tombolo pod fence {2} {0} --gone`",
            seat.host, seat.pid, args.spec
        ));
    }
    let checked = Checked {
        pod: info,
        objects_checked,
        objects: findings.objects,
        key_bytes: findings.key_bytes,
        value_bytes: findings.value_bytes,
        chunks_used: findings.chunks_used,
        problems: findings.problems,
    };
    print(&checked, args.format, Checked::text)?;
    Ok(ExitCode::from(if checked.problems.is_empty() { 0 } else { PROBLEMS }))
}

impl Checked {
    fn text(&self) -> String {
        let mut text = self.pod.text();
        text += &if self.objects_checked {
            let (keys, values) = (format_size(self.key_bytes), format_size(self.value_bytes));
            format!("checked {} objects: {keys} of keys, {values} of values\n", self.objects)
        } else {
            "checked the superblock and the hosts; objects only once all hosts have left\n"
                .to_owned()
        };
        if self.problems.is_empty() {
            text += "no problems\n";
        }
        for problem in &self.problems {
            text += &format!("problem: {problem}\n");
        }
        text
    }
}
