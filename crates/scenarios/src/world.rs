//! A small pod in which rare things are common: a log of 8 entries, 3-bit counters, two records,
//! tiny chunks, an index that splits at once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tombolo_memory::{LINE_BYTES, Lines, LnrAddr, Memory, ScrAddr};
use tombolo_objects::{Error, IndexLimits, Maintenance, Objects, Options, Thresholds};
use tombolo_pod::{AreaLayout, Layout, Pod, Table};
use tombolo_sharing::Scheme;
use tombolo_sharing::{
    EvictionPolicy, Geometry, NOTE_WORDS, ObjectArea, RecordWidth, TornWrites, plan_layout,
};
use tombolo_simulator::{Config, Deaths, Kills, Places, SimMemory, Simulation, Trial};
use tombolo_verify::models::KeyValue;

use crate::linearizable::linearizable;
use crate::operations::{Log, Scribe};

pub(crate) type Host = Rc<Objects<SimMemory>>;

/// Entries of a host's segment of a log shard, and slots of its mailbox.
const SEGMENT_ENTRIES: u64 = 8;
const MAIL_SLOTS: u64 = 2;

/// Objects that a host may have locked at once, and the most that one of them notes before it is
/// changed.
const UNDO_BYTES: u64 = 256;
/// The same, of a head in a pod for a page cache in which pages are not undone.
const HEAD_UNDO_BYTES: u64 = 128;

/// Bytes of a chunk, and the least of a transfer window.
const CHUNK_BYTES: u64 = 1 << 10;
const WINDOW_BYTES: u64 = 4 << 10;

/// Bytes of a host's own memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    copies: u64,
    partition: u64,
}

pub(crate) const NO_LOCAL: Local = Local { copies: 0, partition: 0 };
/// Room for one copy of a short object.
pub(crate) const ONE_COPY: Local = Local { copies: LINE_BYTES, partition: 0 };
pub(crate) const COPIES: Local = Local { copies: 2 << 10, partition: 0 };
/// Room for objects that the host uses alone, and for no copies.
pub(crate) const ONLY_PARTITION: Local = Local { copies: 0, partition: 2 << 10 };
pub(crate) const PARTITION: Local = Local { copies: 2 << 10, partition: 2 << 10 };

/// The windows by which replicas are handed over, in which hosts may write at the same time: a host
/// that hands one over may have been given up on, and a checksum tells.
fn contended(layout: &Layout) -> Vec<Lines> {
    let windows = layout.windows();
    let undo = areas_of_objects(layout).map(|(_, geometry)| {
        let areas = geometry.areas();
        Lines::covering(areas.undo, areas.use_rings.offset() - areas.undo.offset())
    });
    undo.chain([Lines::covering(LnrAddr::new(windows.start), windows.bytes)]).collect()
}

/// The kind of pod that a scenario takes place in.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Hosts that are in the pod when the scenario begins.
    pub(crate) joined: usize,
    /// Hosts there are.
    pub(crate) hosts: usize,
    pub(crate) records: u64,
    /// Operations of a host that can be noted at once.
    pub(crate) writes: u64,
    /// How large records are; unless it is given, the seed decides.
    pub(crate) width: Option<RecordWidth>,
    /// Chunks of 1 KiB.
    pub(crate) chunks: u64,
    /// Memory of each host for copies of objects, and for objects that it uses alone; unless it is
    /// given, the seed decides.
    pub(crate) local: Option<Local>,
    /// Shards of the log; unless it is fixed, every other seed has two.
    pub(crate) log_shards: Option<u64>,
    /// Whether hosts do their background work while clients are at it.
    pub(crate) ticking: bool,
    pub(crate) kills: Option<Kills>,
    /// The fate of writes that are cut off; unless it is given, the seed decides.
    pub(crate) torn_writes: Option<TornWrites>,
    /// Whether what is in a host's own memory is in its slot, too; unless it is given, the seed
    /// decides.
    pub(crate) backup: Option<bool>,
    /// Latches, if the pod is to have marks.
    pub(crate) latches: u64,
    /// Bytes in which each host tells what it has used.
    pub(crate) use_ring_bytes: u64,
    pub(crate) eviction: EvictionPolicy,
    /// Steps after which a run counts as stuck.
    pub(crate) most_steps: u64,
}

impl Setup {
    /// Room for everything but records.
    pub(crate) fn roomy(hosts: usize) -> Self {
        Self {
            joined: hosts,
            hosts,
            records: 2,
            writes: 4,
            width: None,
            chunks: 40,
            local: None,
            log_shards: None,
            ticking: true,
            kills: None,
            torn_writes: None,
            backup: None,
            latches: 0,
            use_ring_bytes: 0,
            eviction: EvictionPolicy::NoEviction,
            most_steps: 400_000,
        }
    }

    /// Nothing of it depends on the seed: the usual records, one log, no memory of a host's own.
    pub(crate) fn plain(self) -> Self {
        let (width, local) = (Some(RecordWidth::Bits32), Some(NO_LOCAL));
        let (torn_writes, backup) = (Some(TornWrites::Lost), Some(false));
        Self { width, local, log_shards: Some(1), torn_writes, backup, ..self }
    }

    /// As small as can be: nothing goes on but what clients do.
    pub(crate) fn small(hosts: usize) -> Self {
        Self { chunks: 4, writes: 2, ticking: false, ..Self::roomy(hosts) }.plain()
    }

    /// How hosts take part.
    fn options(&self, trial: &Trial) -> Options {
        let by_seed = match trial.seed / 10 % 4 {
            0 | 1 => NO_LOCAL,
            2 => COPIES,
            _ => PARTITION,
        };
        let local = self.local.unwrap_or(by_seed);
        Options {
            copies_bytes: local.copies,
            partition_bytes: local.partition,
            placement: Arc::new(Thresholds { copy_after: 1, move_after: 3 }),
            ..options()
        }
    }

    fn config(&self) -> Config {
        let log_shards = self.log_shards.unwrap_or(1);
        let undo_bytes = match self.torn_writes {
            Some(TornWrites::Undo) => UNDO_BYTES,
            _ if self.latches > 0 => HEAD_UNDO_BYTES,
            _ => 0,
        };
        let undo = self.writes * undo_bytes;
        let per_host = (log_shards * SEGMENT_ENTRIES + MAIL_SLOTS) * LINE_BYTES
            + WINDOW_BYTES
            + undo
            + self.use_ring_bytes;
        let before_chunks = 64 * LINE_BYTES + u64::from(self.seats()) * per_host;
        let before_chunks = before_chunks.next_multiple_of(CHUNK_BYTES);
        Config {
            hosts: self.hosts,
            scr_bytes: (10 + 2 * log_shards) << 10,
            lnr_bytes: before_chunks + self.chunks * CHUNK_BYTES,
            max_steps: self.most_steps,
            kills: self.kills.clone(),
            ..Config::default()
        }
    }

    /// A host that dies keeps its seat, and takes another when it comes back.
    fn seats(&self) -> u8 {
        let deaths = |kills: &Kills| match kills.deaths {
            Deaths::One | Deaths::Together => 1,
            Deaths::InTurn => kills.hosts.len() as u8,
        };
        self.hosts as u8 + self.kills.as_ref().map_or(0, deaths)
    }

    fn layout(&self, config: &Config) -> Layout {
        let width = self.width.unwrap_or_default();
        let options = tombolo_sharing::Options {
            hosts: Some(self.seats()),
            log_shards: self.log_shards,
            ring_entries: Some(8),
            segment_entries: Some(SEGMENT_ENTRIES),
            chunk_bytes: Some(CHUNK_BYTES),
            records: Some(self.records),
            record_width: Some(width),
            counter_bits: Some(3),
            mail_slots: Some(MAIL_SLOTS),
            writes: Some(self.writes),
            torn_writes: self.torn_writes.unwrap_or_default(),
            partition_backup: self.backup.unwrap_or_default(),
            latches: (self.latches > 0).then_some(self.latches),
            use_ring_bytes: Some(self.use_ring_bytes),
            eviction: self.eviction,
        };
        plan_layout(config.scr_bytes, config.lnr_bytes, options).unwrap()
    }

    /// The pod, formatted and closed.
    pub(crate) fn simulation(&self, trial: &Trial) -> Simulation {
        let any = || RecordWidth::ALL[trial.seed as usize % RecordWidth::ALL.len()];
        let setup = Self {
            width: self.width.or_else(|| Some(any())),
            log_shards: self.log_shards.or(Some(1 + trial.seed % 2)),
            torn_writes: self.torn_writes.or_else(|| Some(by_seed(trial))),
            backup: self.backup.or(Some(trial.seed / 5 % 2 == 1)),
            ..self.clone()
        };
        let config = setup.config();
        let layout = setup.layout(&config);
        let simulation = formatted(trial, config, &layout);
        if self.eviction != EvictionPolicy::NoEviction {
            let pod = Pod::open(simulation.memory(0)).unwrap();
            ObjectArea::first(&pod).unwrap().set_eviction_policy(self.eviction);
        }
        simulation
    }

    /// Formats the pod anew.
    pub(crate) fn format(&self, memory: SimMemory) {
        let config = self.config();
        Pod::format(memory, &self.layout(&config)).unwrap();
    }
}

fn by_seed(trial: &Trial) -> TornWrites {
    [TornWrites::Lost, TornWrites::Undo][trial.seed as usize / 2 % 2]
}

/// A simulation of hosts over a pod with this layout.
pub(crate) fn formatted(trial: &Trial, mut config: Config, layout: &Layout) -> Simulation {
    if trial.record {
        config.places = places(layout);
    }
    config.contended = contended(layout);
    let simulation = Simulation::new(config, trial);
    let memory = simulation.memory(0);
    for part in layout.on_demand() {
        memory.leave_holes(Lines::covering(LnrAddr::new(part.start), part.bytes));
    }
    Pod::format(memory, layout).unwrap();
    simulation
}

/// The names of places in a pod with areas for objects.
fn places(layout: &Layout) -> Places {
    let (scr, lnr) = layout.tables();
    let tables = scr.into_iter().fold(Places::default(), |places, Table { name, part, count }| {
        places.scr(name, ScrAddr::<u64>::new(part.start), part.bytes, count)
    });
    let tables = lnr.into_iter().fold(tables, |places, Table { name, part, count }| {
        places.lnr(name, LnrAddr::new(part.start), part.bytes, count)
    });
    areas_of_objects(layout).fold(tables, |places, area| area_places(layout, area, places))
}

/// The areas for objects or pages.
fn areas_of_objects(layout: &Layout) -> impl Iterator<Item = (&AreaLayout, Geometry)> {
    let areas = layout.areas.iter();
    areas.filter_map(|area| Some((area, Geometry::within(layout, area).ok()?)))
}

fn area_places(
    layout: &Layout,
    (area, geometry): (&AreaLayout, Geometry),
    places: Places,
) -> Places {
    let (own, hosts) = (layout.area_places(area), layout.hosts);
    let areas = geometry.areas();
    let tellers = if geometry.use_ring_bytes > 0 { hosts } else { 0 };
    let places = places
        .scr("roster", own.roster, 8, 1)
        .scr("member", own.members, LINE_BYTES, hosts)
        .scr("chunk", areas.chunk_table, 8, geometry.chunks)
        .scr("pins of chunk", areas.pins, 8, geometry.pin_words())
        .scr("notes of", areas.writes, 8 * NOTE_WORDS * geometry.writes, hosts)
        .scr("quarantine of", areas.quarantine, 8 * geometry.writes, hosts)
        .scr("records", areas.records, 4, geometry.record_bytes().div_ceil(4))
        .scr("latch", areas.latches, 8, geometry.latches)
        .scr("marks", areas.marks, 8, geometry.mark_words())
        .scr("tag of record", areas.tags, 1, geometry.tag_bytes())
        .scr("uses told by", areas.use_ends, LINE_BYTES, tellers)
        .lnr("undo of", areas.undo, geometry.undo_bytes * geometry.writes, hosts)
        .lnr("uses of", areas.use_rings, geometry.use_ring_bytes, hosts)
        .lnr("chunk", areas.chunks, geometry.chunk_bytes, geometry.chunks);
    let names = [
        ["low-water mark", "applied by", "ring", "segment"],
        ["other low-water mark", "other applied by", "other ring", "other segment"],
    ];
    names.into_iter().zip(area.shards()).fold(places, |places, (names, shard)| {
        let log = own.log(shard);
        places
            .scr(names[0], log.low_water_mark, 8, 1)
            .scr(names[1], log.applied, LINE_BYTES, hosts)
            .scr(names[2], log.ring, 8, area.ring_entries)
            .lnr(names[3], log.segments, area.segment_entries * LINE_BYTES, hosts)
    })
}

pub(crate) fn options() -> Options {
    Options {
        index: IndexLimits { segment_buckets: 1024, segments: 16, load_permille: 2 },
        // More are looked for.
        known_owners: 2,
        maintenance: Maintenance {
            watermark_percent: 60,
            reclaim_batch: 1,
            fragmented_percent: 5,
            move_batch: 2,
            give_back_after: Duration::ZERO,
        },
        small_lines: 4,
        // Threads sleep for as long as the adversary likes.
        host_timeout: Duration::MAX,
        ..Options::default()
    }
}

pub(crate) fn join(memory: SimMemory) -> Host {
    try_join(memory).unwrap()
}

pub(crate) fn try_join(memory: SimMemory) -> Result<Host, Error> {
    Objects::join(Pod::open(memory).unwrap(), options()).map(Rc::new)
}

/// A pod with some hosts in it, whose threads are counted and whose background work is done until
/// all of them are through.
pub(crate) struct World<S = Objects<SimMemory>> {
    pub(crate) simulation: Simulation,
    /// The hosts that were in the pod when the scenario began.
    pub(crate) hosts: Vec<Rc<S>>,
    pub(crate) log: Rc<Log>,
    /// Hosts that were fenced alive.
    pub(crate) fenced: Rc<RefCell<Vec<usize>>>,
    trial: Trial,
    ticking: bool,
    busy: Rc<Cell<usize>>,
    clients: u32,
}

/// Counts a thread for as long as it runs, also if its host dies.
pub(crate) struct Busy(Rc<Cell<usize>>);

impl Busy {
    pub(crate) fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Notes that a thread has ended, in whatever way.
pub(crate) struct OnDrop(Rc<Cell<bool>>);

impl OnDrop {
    pub(crate) fn new(ended: &Rc<Cell<bool>>) -> Self {
        Self(Rc::clone(ended))
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

impl World {
    /// The first of the hosts opens the pod and hands its replica to the others.
    pub(crate) fn new(trial: &Trial, setup: &Setup) -> Self {
        Self::under(trial, setup, setup.options(trial))
    }

    /// Runs everything to its end, and checks what clients saw and that replicas agree.
    pub(crate) fn finish(&mut self) {
        self.run();
        self.check_cleared_up();
        // From here on hosts take turns: nobody answers another.
        self.living().iter().for_each(|host| host.move_out_all().unwrap());
        self.check_replicas();
    }

    /// After each dead host the living clear up, and nothing of it is left.
    fn check_cleared_up(&mut self) {
        let living = self.living();
        let Some(first) = living.first() else { return };
        for host in &living {
            let (number, host) = (host.memory().host(), Rc::clone(host));
            // All at once: for what there is to clear up after two, the log may be too short unless
            // all apply it.
            self.simulation.spawn(number, move |memory| {
                for _ in 0..100 {
                    host.tick().unwrap();
                    memory.pause();
                }
            });
        }
        self.simulation.run_calmly().unwrap();
        let dead = first.area().membership().fenced().count();
        assert_eq!(dead, 0, "whoever is dead is cleared up after");
    }

    fn check_replicas(&self) {
        let hosts = self.living();
        for host in &hosts {
            host.object_count().unwrap();
        }
        let usages: Vec<_> = hosts.iter().map(|host| host.usage()).collect();
        for usage in &usages {
            let first = &usages[0];
            assert_eq!(usage.objects, first.objects, "replicas agree on the objects");
            assert_eq!(usage.lnr_used_bytes, first.lnr_used_bytes, "and on their space");
            assert_eq!(usage.partition_bytes, 0, "all objects have returned");
            assert!(usage.records_used <= usage.records);
        }
    }
}

impl<S: Scheme<Memory = SimMemory> + 'static> World<S> {
    /// Hosts that share objects under a scheme.
    pub(crate) fn under(trial: &Trial, setup: &Setup, options: S::Options) -> Self {
        let mut simulation = setup.simulation(trial);
        let hosts = setup.joined;
        let joined: Rc<RefCell<BTreeMap<usize, Rc<S>>>> = Rc::default();
        for number in 0..hosts {
            let (joined, options) = (Rc::clone(&joined), options.clone());
            simulation.spawn(number, move |memory| {
                let host = Rc::new(S::join(Pod::open(memory.clone()).unwrap(), options).unwrap());
                joined.borrow_mut().insert(number, Rc::clone(&host));
                while joined.borrow().len() < hosts {
                    host.tick().unwrap();
                    memory.pause();
                }
            });
        }
        simulation.run_calmly().unwrap();
        let hosts = joined.borrow().values().cloned().collect();
        Self {
            simulation,
            hosts,
            log: Rc::default(),
            fenced: Rc::default(),
            trial: trial.clone(),
            ticking: setup.ticking,
            busy: Rc::default(),
            clients: 0,
        }
    }

    /// Adds a client thread to `host`.
    pub(crate) fn client(&mut self, host: usize, body: impl FnOnce(&S, &Scribe) + 'static) {
        let objects = Rc::clone(&self.hosts[host]);
        let scribe = self.scribe();
        self.thread(host, move |_| body(&objects, &scribe));
    }

    /// A client's pen.
    pub(crate) fn scribe(&mut self) -> Scribe {
        self.clients += 1;
        self.log.client(self.clients)
    }

    /// Adds a thread to `host`, on which the others' background work waits.
    pub(crate) fn thread(&mut self, host: usize, body: impl FnOnce(SimMemory) + 'static) {
        let busy = Busy::new(&self.busy);
        self.simulation.spawn(host, move |memory| {
            let _busy = busy;
            body(memory);
        });
    }

    /// Runs everything to its end, and checks what clients saw.
    pub(crate) fn run(&mut self) {
        if self.ticking {
            for (number, host) in self.hosts.iter().enumerate() {
                let (host, busy) = (Rc::clone(host), Rc::clone(&self.busy));
                self.simulation.spawn(number, move |_| tick_while(&*host, &busy));
            }
        }
        self.simulation.run().unwrap();
        self.check_history();
    }

    /// The hosts that were in the pod all the time.
    pub(crate) fn living(&self) -> Vec<Rc<S>> {
        let lives = |host: &&Rc<S>| {
            let fenced = self.fenced.borrow().contains(&host.memory().host());
            !fenced && self.simulation.deaths(host.memory().host()) == 0
        };
        self.hosts.iter().filter(lives).cloned().collect()
    }

    pub(crate) fn check_history(&self) {
        linearizable(&self.trial, &KeyValue::default(), &self.log.history());
    }
}

/// Whether a host was fenced, as far as that was said; everything else is as it should be.
pub(crate) fn is_out(outcome: Result<(), Error>) -> bool {
    match outcome {
        Err(Error::Fenced { .. }) => true,
        outcome => {
            outcome.unwrap();
            false
        }
    }
}

/// Does a host's background work for as long as anybody is busy.
pub(crate) fn tick_while<S: Scheme<Memory = SimMemory>>(host: &S, busy: &Cell<usize>) {
    let memory = host.memory();
    let tick = || match host.tick() {
        // The others are through, and apply the log no more.
        Err(Error::Stalled { .. }) if busy.get() == 0 => true,
        ticked => is_out(ticked),
    };
    while busy.get() > 0 {
        if tick() {
            return;
        }
        (0..memory.random() % 32).for_each(|_| memory.pause());
    }
    tick();
}
