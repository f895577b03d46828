//! `tombolo bench trace`: hosts of one pod replay a recorded trace, as caches that share it.
//!
//! A host takes the next request when it is through with its last one. It asks for each value, and
//! puts those that it does not find, as a cache in front of a store does. Beside it stands an exact
//! order by last use, with as much room.

mod replay;
mod report;

use std::collections::HashMap;
use std::fs::File;
use std::thread;

use anyhow::{Context, Result, ensure};
use tombolo::{EvictionPolicy, Options, Store};
use tombolo_sharing::{Classes, CreateOptions, ObjectArea, create};
use tombolo_workloads::cache::{Access, CacheOperation, ExactLru, Rates, read};

use self::replay::{Replay, Replayed};
use self::report::{Report, Setting};
use crate::cli::{Sizes, TraceArgs};
use crate::output;
use crate::place::Place;
use crate::stop::Stop;

/// Bytes of a value where neither the trace nor an option tells.
const VALUE_BYTES: u32 = 4096;

/// Unless the pod's size is given, it holds this part of all values.
const PART: u64 = 10;

/// LNR and SCR of a pod with a limit, besides what values may take.
const SPARE: u64 = 64 << 20;

/// Bytes of an object besides key and value.
const OVERHEAD: u64 = (tombolo_sharing::HEADER_BYTES + tombolo_kv::OVERHEAD_BYTES) as u64;

pub(crate) fn run(args: &TraceArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    let shown = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("cannot open {shown}"))?;
    let most = args.accesses.unwrap_or(usize::MAX);
    let (format, mut accesses) =
        read(file, args.trace_format, most).with_context(|| format!("in {shown}"))?;
    ensure!(!accesses.is_empty(), "{shown} has no accesses");
    for access in &mut accesses {
        let told = Some(access.value_bytes).filter(|&bytes| bytes > 0);
        access.value_bytes = args.value_bytes.or(told).unwrap_or(VALUE_BYTES);
    }

    let policy = args.sizes.evict.unwrap_or(EvictionPolicy::AllKeysLru);
    let room = Room::of(args, &accesses);
    let sizes = Sizes { size: Some(room.lnr_bytes), evict: Some(policy), ..args.sizes };
    let place = Place::new(args.pod.as_ref(), "trace", sizes.total());
    let options = CreateOptions { force: args.pod.is_some(), ..sizes.options_for(args.hosts) };
    let pod = create(&place.spec, options)?;
    let area = ObjectArea::first(&pod)?;
    area.set_byte_limit(room.limit_bytes);
    let chunk_bytes = area.geometry().chunk_bytes;
    let room_bytes = room.limit_bytes.unwrap_or(area.geometry().chunks * chunk_bytes);

    let hosts = join_all(args, &place)?;
    let replay = Replay::new(&accesses, hosts.iter().map(|host| &**host).collect());
    let replayed = replay.run(&stop)?;
    let evicted = hosts.iter().flat_map(|host| host.evicted()).collect();
    let objects = hosts[0].key_count()?;
    hosts.into_iter().try_for_each(Store::leave)?;

    let exact = exact_lru(&accesses[..replayed.accesses], room_bytes, chunk_bytes);
    let setting = Setting {
        trace: shown.to_string(),
        format,
        hosts: args.hosts,
        policy,
        room_bytes,
        limited: room.limit_bytes.is_some(),
    };
    let report = Report::new(setting, &replayed, exact, evicted, objects);
    output::print(&report, args.format, Report::text)
}

/// How large a pod is, and how much of it values may take.
struct Room {
    lnr_bytes: u64,
    limit_bytes: Option<u64>,
}

impl Room {
    fn of(args: &TraceArgs, accesses: &[Access]) -> Self {
        if let Some(lnr_bytes) = args.sizes.size.filter(|_| args.hold.is_none()) {
            return Self { lnr_bytes, limit_bytes: None };
        }
        // The largest chunk there is: classes of smaller ones are the same but for large values.
        let slots = Slots::new(2 << 20);
        let values: HashMap<u64, u64> =
            accesses.iter().map(|access| (access.key, slots.bytes(access))).collect();
        let all_bytes: u64 = values.values().sum();
        let hold = args.hold.unwrap_or(values.len() as u64 / PART).max(1);
        let limit_bytes = (u128::from(all_bytes) * u128::from(hold) / values.len() as u128) as u64;
        let lnr_bytes = args.sizes.size.unwrap_or(limit_bytes / 4 * 5 + SPARE);
        Self { lnr_bytes, limit_bytes: Some(limit_bytes) }
    }
}

/// How much room values take in a pod.
struct Slots {
    classes: Classes,
}

impl Slots {
    fn new(chunk_bytes: u64) -> Self {
        Self { classes: Classes::new(chunk_bytes) }
    }

    fn bytes(&self, access: &Access) -> u64 {
        let bytes = OVERHEAD + u64::from(access.key_bytes) + u64::from(access.value_bytes);
        let class = self.classes.class_for(bytes);
        let whole = bytes.div_ceil(tombolo_memory::LINE_BYTES);
        let lines = class
            .and_then(|class| self.classes.slot_lines(class))
            .unwrap_or_else(|| whole.next_multiple_of(self.classes.chunk_lines()));
        lines * tombolo_memory::LINE_BYTES
    }
}

/// Hosts in this process: each has a mapping of its own, and a thread for its background work.
fn join_all(args: &TraceArgs, place: &Place) -> Result<Vec<Store>> {
    let join = |_| -> Result<Store> {
        Ok(Store::join_pod(tombolo_pod::open(&place.spec)?, Options::default())?)
    };
    (0..args.hosts).map(join).collect()
}

/// The rates of an exact order by last use, with the same room.
fn exact_lru(accesses: &[Access], room_bytes: u64, chunk_bytes: u64) -> Rates {
    let slots = Slots::new(chunk_bytes);
    let (mut cache, mut rates) = (ExactLru::new(room_bytes), Rates::default());
    for access in accesses {
        match access.operation {
            CacheOperation::Delete => cache.delete(access.key),
            CacheOperation::Put => cache.put(access.key, slots.bytes(access)),
            CacheOperation::Get => {
                let hit = cache.get(access.key);
                rates.count(access.value_bytes.into(), hit);
                if !hit {
                    cache.put(access.key, slots.bytes(access));
                }
            }
        }
    }
    rates
}

impl Replay<'_> {
    /// Runs to the end, or until it is time to stop.
    fn run(&self, stop: &Stop) -> Result<Replayed> {
        let bar = output::progress("replay", self.requests() as u64, super::BAR);
        let replayed = thread::scope(|scope| {
            let hosts: Vec<_> =
                (0..self.hosts()).map(|host| scope.spawn(move || self.work(host))).collect();
            while !hosts.iter().all(|host| host.is_finished()) {
                if stop.within(super::worker::PROGRESS) {
                    self.stop();
                }
                bar.set_position(self.begun() as u64);
            }
            let ended = hosts.into_iter().map(|host| host.join().expect("a replay does not panic"));
            ended.collect::<Result<Vec<_>>>()
        })?;
        bar.finish_and_clear();
        Ok(self.sum(replayed))
    }
}
