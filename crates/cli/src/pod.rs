//! `tombolo pod`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use serde::Serialize;
use tombolo::{CreateOptions, Geometry, Objects, Options, Pod, PodSpec, format_size};
use tombolo_log::Ring;
use tombolo_pod::{DEFAULT_HOSTS, Phase, TornWrites};

use crate::cli::{CreateArgs, FenceArgs, InfoArgs, PodCheckArgs, Sizes};
use crate::output::{PROBLEMS, pairs, print};

impl Sizes {
    /// Bytes that are asked for.
    pub(crate) fn total(&self) -> u64 {
        self.size.unwrap_or(0).saturating_add(self.scr.unwrap_or(0))
    }

    /// A pod like this for so many hosts that a command starts, and for others that may come.
    pub(crate) fn options_for(&self, hosts: u8) -> CreateOptions {
        self.options(hosts.max(DEFAULT_HOSTS))
    }

    /// What `pod create` makes of them.
    fn options(&self, hosts: u8) -> CreateOptions {
        let layout = tombolo_pod::Options {
            hosts: Some(hosts),
            records: self.records,
            record_width: self.record_bits,
            log_shards: self.log_shards,
            torn_writes: self.torn_writes,
            partition_backup: self.partition_backup,
            ..Default::default()
        };
        CreateOptions { scr_bytes: self.scr, lnr_bytes: self.size, layout, force: false }
    }
}

#[derive(Serialize)]
struct Layout {
    max_hosts: u64,
    scr_bytes: u64,
    /// What of it is for hosts, the log and tables, whatever is in the pod.
    scr_fixed_bytes: u64,
    lnr_bytes: u64,
    log_shards: u64,
    ring_entries: u64,
    chunk_bytes: u64,
    chunks: u64,
    records: u64,
    record_bits: String,
    torn_writes: String,
    partition_backup: bool,
    page_cache: bool,
}

impl From<&Geometry> for Layout {
    fn from(geometry: &Geometry) -> Self {
        Self {
            max_hosts: geometry.hosts,
            scr_bytes: geometry.scr_bytes,
            scr_fixed_bytes: geometry.areas().records.offset(),
            lnr_bytes: geometry.lnr_bytes,
            log_shards: geometry.log_shards,
            ring_entries: geometry.ring_entries,
            chunk_bytes: geometry.chunk_bytes,
            chunks: geometry.chunks,
            records: geometry.records,
            record_bits: geometry.record_width.to_string(),
            torn_writes: geometry.torn_writes.to_string(),
            partition_backup: geometry.partition_backup,
            page_cache: geometry.has_marks(),
        }
    }
}

impl Layout {
    fn of_torn(&self) -> &'static str {
        if self.torn_writes == TornWrites::Undo.to_string() {
            "has its old value"
        } else {
            "is lost"
        }
    }

    fn of_partitions(&self) -> &'static str {
        if self.partition_backup { "in the pod, too" } else { "lost with their host" }
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let made_for = if self.page_cache { "a page cache" } else { "objects" };
        vec![
            ("made for", format!("{made_for}, up to {} hosts", self.max_hosts)),
            ("SCR", format_size(self.scr_bytes)),
            ("of it, hosts, log and tables", format_size(self.scr_fixed_bytes)),
            ("LNR", format_size(self.lnr_bytes)),
            ("coherence records", format!("{} of {} bits", self.records, self.record_bits)),
            ("writes that are cut off", format!("the object {}", self.of_torn())),
            ("objects in hosts' own memory", self.of_partitions().to_owned()),
            ("log shards", self.log_shards.to_string()),
            ("log entries per shard", self.ring_entries.to_string()),
            ("chunks", format!("{} of {}", self.chunks, format_size(self.chunk_bytes))),
        ]
    }
}

/// Latches of a page cache: more than there are threads that admit pages.
pub(crate) const LATCHES: u64 = 256;

#[derive(Serialize)]
struct Created {
    spec: String,
    uuid: Option<String>,
    layout: Layout,
}

pub(crate) fn create(args: &CreateArgs) -> Result<()> {
    let mut options = CreateOptions { force: args.force, ..args.sizes.options(args.hosts) };
    if args.page_cache {
        options.layout.latches = Some(LATCHES);
    }
    let (uuid, geometry) = if args.dry_run {
        (None, tombolo_pod::plan(&args.spec, options)?)
    } else {
        let pod = tombolo_pod::create(&args.spec, options)?;
        (Some(pod.identity().uuid.to_string()), *pod.geometry())
    };
    let created = Created { spec: args.spec.to_string(), uuid, layout: (&geometry).into() };
    print(&created, args.format, |created| {
        let what = match &created.uuid {
            Some(uuid) => ("created", uuid.clone()),
            None => ("would create", "a pod".to_owned()),
        };
        let mut rows = vec![what, ("in", created.spec.clone())];
        rows.extend(created.layout.rows());
        pairs(&rows)
    })
}

#[derive(Serialize)]
struct Host {
    host: u8,
    pid: u64,
    alive: bool,
    ready: bool,
    log_lag: u64,
}

#[derive(Serialize)]
struct Info {
    spec: String,
    uuid: String,
    format_version: u64,
    state: &'static str,
    layout: Layout,
    /// Summed up over the log's shards, as are the hosts' lags.
    log_tail: u64,
    hosts: Vec<Host>,
    /// Hosts that were fenced, and are not cleared up after.
    fenced: Vec<u8>,
    /// Chunks of LNR that get no new objects because of memory errors.
    chunks_poisoned: u64,
}

impl Info {
    fn of(spec: &PodSpec, pod: &Pod) -> Self {
        let members = pod.membership();
        let rings: Vec<_> = pod.geometry().shards().map(|shard| Ring::new(pod, shard)).collect();
        let tails: Vec<u64> = rings.iter().map(Ring::tail).collect();
        let mut lags = BTreeMap::<u8, u64>::new();
        for (ring, tail) in rings.iter().zip(&tails) {
            for (host, applied) in ring.progress() {
                *lags.entry(host).or_default() += tail.saturating_sub(applied);
            }
        }
        let host = |(host, log_lag): (u8, u64)| {
            let pid = pod.pid_at(host);
            Host { host, pid, alive: is_alive(pid), ready: members.is_ready(host), log_lag }
        };
        Self {
            spec: spec.to_string(),
            uuid: pod.identity().uuid.to_string(),
            format_version: tombolo_pod::FORMAT_VERSION,
            state: match members.phase() {
                Phase::Closed => "closed",
                Phase::Opening => "opening",
                Phase::Open => "open",
                Phase::Closing => "closing",
            },
            layout: pod.geometry().into(),
            log_tail: tails.iter().sum(),
            hosts: lags.into_iter().map(host).collect(),
            fenced: members.fenced().collect(),
            chunks_poisoned: tombolo_objects::poisoned_chunks(pod),
        }
    }

    fn text(&self) -> String {
        let mut rows = vec![
            ("pod", self.uuid.clone()),
            ("in", self.spec.clone()),
            ("format version", self.format_version.to_string()),
            ("state", self.state.to_owned()),
        ];
        rows.extend(self.layout.rows());
        rows.push(("log tail", self.log_tail.to_string()));
        rows.push(("hosts", self.hosts.len().to_string()));
        let mut text = pairs(&rows);
        for host in &self.hosts {
            let alive = if host.alive { "" } else { ", not on this machine or dead" };
            let ready = if host.ready { "" } else { ", joining" };
            text += &format!(
                "  host {}: pid {}{alive}{ready}, {} entries behind\n",
                host.host, host.pid, host.log_lag
            );
        }
        for host in &self.fenced {
            text +=
                &format!("  host {host}: fenced; its seat is free once it is known to be gone\n");
        }
        if self.chunks_poisoned > 0 {
            text += &format!(
                "{} chunks have memory errors, and get no new objects; have the device checked\n",
                self.chunks_poisoned
            );
        }
        text
    }
}

fn is_alive(pid: u64) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
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
    let (pod, host) = (tombolo_pod::inspect(&args.spec)?, args.host);
    let hosts = pod.geometry().hosts;
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
    for host in pod.membership().hosts() {
        let (ended, pid) = (pod.has_ended(pod.stay_of(host)), pod.pid_at(host));
        ensure!(
            ended,
            "host {host} (pid {pid}) is in the pod, or not known to have ended: nothing is repaired under its hands; stop it, or say that it is gone with `tombolo pod fence {spec} {host} --gone`"
        );
    }
    Ok(Objects::join_pod(pod, Options::default())?.leave()?)
}

#[derive(Serialize)]
struct Checked {
    pod: Info,
    /// What was looked at: all, or without the objects because hosts are in the pod.
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
    let objects_checked = pod.membership().phase() == Phase::Closed;
    let mut findings =
        if objects_checked { tombolo_objects::check(&pod) } else { Default::default() };
    let info = Info::of(&args.spec, &pod);
    for host in info.hosts.iter().filter(|host| !host.alive) {
        findings.problems.push(format!(
            "host {0} (pid {1}) has a seat but does not run on this machine; the others clear up after it, or `--repair` does if there are none; if it ran on another machine, say that it is gone with `tombolo pod fence {2} {0} --gone`",
            host.host, host.pid, args.spec
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
