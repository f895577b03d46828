//! `tombolo bench limit`: what operations take, beside the least that this machine takes for them.
//!
//! Both are measured in turn, in one process and one run, so that what slows the machine down slows
//! both: their ratio is what counts.

mod bare;
mod keys;
mod log;
mod rows;
mod workload;

use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tombolo::{Entry, Options, Store, Thresholds};
use tombolo_sharing::{CreateOptions, create};

use self::bare::{Bare, Plain};
use self::keys::key;
use self::log::Log;
use self::rows::{
    Row, create_rows, large_rows, log_rows, machine_rows, read_rows, redis_rows, write_rows,
};
pub(crate) use self::workload::ops_per_s;
use super::resp::servers::{Server, redis, without};
use crate::cli::LimitArgs;
use crate::output::{self, table};
use crate::place::Place;
use crate::stop::Stop;

/// SCR, besides what records for all objects take.
const SPARE_SCR: u64 = 16 << 20;
/// LNR, besides what objects take.
const SPARE_LNR: u64 = 64 << 20;
/// Bytes of large objects, of each size: as many as there are of the others, but no fewer and no
/// more.
const LARGE_BYTES: (u64, u64) = (16 << 20, 128 << 20);

const BAR: &str = "{prefix} {bar:40} {pos} of {len}";

/// The pod on which a host's operations are measured.
pub(super) struct Subject {
    store: Store,
    /// Another host in the same pod, which copies what it reads into its own memory.
    copies: Option<Store>,
    plain: Plain,
    bare: Bare,
    objects: u64,
    /// The value of all objects, as the store writes it.
    value: Vec<u8>,
    operations: usize,
    large_bytes: u64,
    place: Place,
}

/// The result of one operation.
#[derive(Serialize)]
struct Line {
    group: &'static str,
    operation: String,
    keys: Option<&'static str>,
    ns: f64,
    per_s: f64,
    /// The limit that it is held against; nothing for limits themselves.
    limit: Option<String>,
    /// How much of that speed it has.
    of_limit: Option<f64>,
}

#[derive(Serialize)]
struct PerSharing {
    read_shared: f64,
    read_write_shared: f64,
}

/// All that was measured.
#[derive(Serialize)]
struct Report {
    objects: u64,
    key_bytes: usize,
    value_bytes: usize,
    operations: usize,
    rounds: usize,
    /// While all objects are read-shared, and once each has a record.
    local_bytes_per_object: PerSharing,
    /// Why there are no lines of it.
    without_redis: Option<String>,
    lines: Vec<Line>,
}

pub(crate) fn run(args: &LimitArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    let report = measure(args, &stop)?;
    output::print(&report, args.format, Report::text)
}

fn measure(args: &LimitArgs, stop: &Stop) -> Result<Report> {
    let (subject, log) = (Subject::new(args)?, Log::new()?);
    let mut lines = Vec::new();
    let rounds = args.rounds as usize;
    let mut group = |name, rows| -> Result<()> {
        lines.extend(measure_group(name, rows, rounds, stop)?);
        Ok(())
    };
    group("machine", machine_rows(&subject))?;
    let without_redis = match redis(&args.redis) {
        Ok(server) => {
            group("loopback", redis_rows(&subject, server.address())?)?;
            None
        }
        Err(reason) => Some(format!("{reason:#}")),
    };
    group("log", log_rows(&subject, &log))?;
    subject.read_all()?;
    let read_shared = subject.local_bytes_per_object();
    group("read-shared", read_rows(&subject))?;
    subject.write_all()?;
    let read_write_shared = subject.local_bytes_per_object();
    group("read-write-shared", read_rows(&subject))?;
    group("written", write_rows(&subject))?;
    group("created and deleted", create_rows(&subject))?;
    for bytes in [64 << 10, 1 << 20, 16 << 20] {
        group("large", large_rows(&subject, bytes)?)?;
    }
    let (objects, value_bytes, operations) =
        (subject.objects, subject.value.len(), subject.operations);
    lines.extend(subject.joins()?);
    Ok(Report {
        objects,
        key_bytes: size_of::<keys::Key>(),
        value_bytes,
        operations,
        rounds,
        local_bytes_per_object: PerSharing { read_shared, read_write_shared },
        without_redis,
        lines,
    })
}

/// Measures some rows in turn, in so many rounds after a first one that does not count.
fn measure_group(
    group: &'static str,
    mut rows: Vec<Row<'_>>,
    rounds: usize,
    stop: &Stop,
) -> Result<Vec<Line>> {
    let bar = output::progress(group, rounds as u64 + 1, BAR);
    for round in 0..=rounds {
        for row in &mut rows {
            if stop.within(std::time::Duration::ZERO) {
                bail!("stopped while {group} was measured");
            }
            let ns = row.measure()?;
            if round > 0 {
                row.ns.push(ns);
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let medians: Vec<f64> = rows.iter_mut().map(Row::median).collect();
    let line = |(row, &ns): (&Row<'_>, &f64)| Line {
        group,
        operation: row.name.clone(),
        keys: row.spread.map(keys::Spread::name),
        ns,
        per_s: 1e9 / ns,
        limit: row.against.map(|limit| rows[limit].name.clone()),
        of_limit: row.against.map(|limit| medians[limit] / ns),
    };
    Ok(rows.iter().zip(&medians).map(line).collect())
}

impl Subject {
    fn new(args: &LimitArgs) -> Result<Self> {
        let (objects, value_bytes) = (args.objects, args.value_bytes as usize);
        if value_bytes < 8 {
            bail!("values of {value_bytes} bytes are too short; a store's have 8 bytes or more");
        }
        u32::try_from(objects).context("so many objects cannot be measured")?;
        // Slots are up to a quarter larger than what is in them.
        let slot = (args.value_bytes + 128) * 5 / 4 + 64;
        let bytes = objects * args.value_bytes;
        let large_bytes = bytes.clamp(LARGE_BYTES.0, LARGE_BYTES.1);
        let lnr = (objects + 2 * args.operations) * slot + 4 * large_bytes + SPARE_LNR;
        let scr = SPARE_SCR + 4 * objects;
        let place = Place::new(None, "limit", lnr + scr);
        let options = CreateOptions {
            scr_bytes: Some(scr),
            lnr_bytes: Some(lnr.next_multiple_of(1 << 20)),
            ..CreateOptions::default()
        };
        create(&place.spec, options)?;
        let store = Store::join_pod(tombolo_pod::open(&place.spec)?, Options::default())?;
        // As the store writes it.
        let mut value = Vec::new();
        store.put(&key(0), &Entry::lasting(vec![7; value_bytes - 8]))?;
        store.objects().read(&key(0), &mut value)?;
        let subject = Self {
            store,
            value,
            copies: None,
            plain: Plain::new(objects, value_bytes)?,
            bare: Bare::new(bytes)?,
            objects,
            operations: args.operations as usize,
            large_bytes,
            place,
        };
        let bar = output::progress("creating", objects, BAR);
        for number in 1..objects {
            subject.store.objects().create(&key(number), &subject.value)?;
            if number % (1 << 16) == 0 {
                bar.set_position(number);
            }
        }
        bar.finish_and_clear();
        if args.copies { subject.with_copies() } else { Ok(subject) }
    }

    /// Has another host join that copies all it reads.
    fn with_copies(mut self) -> Result<Self> {
        let options = Options {
            copies_bytes: self.objects * (self.value.len() as u64 + 192) + self.large_bytes,
            placement: std::sync::Arc::new(Thresholds { copy_after: 1, ..Thresholds::default() }),
            ..Options::default()
        };
        self.copies = Some(Store::join_pod(tombolo_pod::open(&self.place.spec)?, options)?);
        Ok(self)
    }

    /// Another host joins, which gets a replica; and one opens the pod when all have left, from
    /// what is in it. Once each.
    fn joins(self) -> Result<Vec<Line>> {
        let objects = self.store.objects().usage().objects;
        let Self { store, copies, place, .. } = self;
        let join = |operation: &str| -> Result<(Store, Line)> {
            let pod = tombolo_pod::open(&place.spec)?;
            let started = Instant::now();
            let joined = Store::join_pod(pod, Options::default())?;
            let seconds = started.elapsed().as_secs_f64();
            let line = Line {
                group: "joining",
                operation: format!("{operation}: {seconds:.2} s, per object"),
                keys: None,
                ns: seconds * 1e9 / objects as f64,
                per_s: objects as f64 / seconds,
                limit: None,
                of_limit: None,
            };
            Ok((joined, line))
        };
        let (other, from_a_neighbour) = join("a host joins others")?;
        for host in [Some(other), Some(store), copies].into_iter().flatten() {
            host.leave()?;
        }
        let (_, from_memory) = join("a host opens the pod")?;
        Ok(vec![from_a_neighbour, from_memory])
    }

    fn local_bytes_per_object(&self) -> f64 {
        let usage = self.store.objects().usage();
        usage.local_bytes as f64 / usage.objects as f64
    }

    /// So that hosts know of all objects what they know in the long run.
    fn read_all(&self) -> Result<()> {
        let mut value = Vec::new();
        for host in [Some(&self.store), self.copies.as_ref()].into_iter().flatten() {
            for number in 0..self.objects {
                host.objects().read(&key(number), &mut value)?;
            }
        }
        Ok(())
    }

    /// From now on all objects are read-write-shared.
    fn write_all(&self) -> Result<()> {
        for number in 0..self.objects {
            self.store.objects().write(&key(number), &self.value)?;
        }
        self.read_all()
    }
}

impl Report {
    fn text(&self) -> String {
        let mut rows = table(&["operation", "keys", "ns", "M/s", "of limit", "limit"]);
        let mut group = "";
        for line in &self.lines {
            if line.group != group {
                group = line.group;
                rows.add_row([group.to_uppercase().as_str(), "", "", "", "", ""]);
            }
            rows.add_row([
                line.operation.clone(),
                line.keys.unwrap_or("").to_owned(),
                format!("{:.0}", line.ns),
                format!("{:.3}", line.per_s / 1e6),
                line.of_limit.map_or_else(String::new, |share| format!("{share:.2}")),
                line.limit.clone().unwrap_or_default(),
            ]);
        }
        let Self { objects, key_bytes, value_bytes, operations, rounds, .. } = self;
        let PerSharing { read_shared, read_write_shared } = self.local_bytes_per_object;
        let without = without(self.without_redis.as_ref());
        format!(
            "{objects} objects of {value_bytes} bytes, keys of {key_bytes}; medians of {rounds} rounds of \
             {operations} operations, in turn\n\n{rows}\n\nlocal memory: {read_shared:.1} bytes per object, \
             {read_write_shared:.1} where each has a record\n{without}"
        )
    }
}
